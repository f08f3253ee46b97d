// SPDX-License-Identifier: Apache-2.0
// A client that is slow, rude or malformed on purpose: bytes out, parsed answers in.
// One thread. Owns the socket. Nothing waits longer than kPatience; an answer that does not come
// has the status 0.
#ifndef TESTS_SYSTEM_SERVE_HTTP_CLIENT_H
#define TESTS_SYSTEM_SERVE_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace neuron::serve_test {

namespace http = boost::beast::http;

struct Answer {
  unsigned status = 0;
  std::string body;
  http::fields headers;
  std::string header(const char* name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : std::string(found->value());
  }
};

class Client {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  explicit Client(uint16_t port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  // At a Unix socket.
  explicit Client(const std::string& path) {
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // Goes as a process that is killed may: what was not read yet is thrown away.
  void reset() {
    const linger at_once = {1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close();
  }
  int descriptor() const { return fd_; }
  // Whether something of an answer has come, or the end.
  bool readable() const {
    pollfd one = {fd_, POLLIN, 0};
    return !read_.empty() || ::poll(&one, 1, 0) > 0;
  }
  // Bytes that came and belong to no whole answer yet.
  size_t pending() const { return read_.size() + taken_; }
  bool send(const std::string& bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Ends this side only.
  void shut() { ::shutdown(fd_, SHUT_WR); }
  // The next answer. `head`: it has no body.
  Answer receive(bool head = false) {
    http::response_parser<http::string_body> parser;
    parser.body_limit(uint64_t{1} << 30);
    parser.skip(head);
    boost::system::error_code error;
    taken_ = 0;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      while (!parser.is_done() && !read_.empty()) {
        parser.eager(true);
        const size_t used = parser.put(boost::asio::buffer(read_), error);
        read_.erase(0, used);
        taken_ += used;
        if (error == http::error::need_more) break;
        if (error) return {};
      }
      if (parser.is_done()) break;
      if (!fill(end)) {
        // The parser takes nothing at all for an answer without a body.
        if (!parser.got_some()) return {};
        parser.put_eof(error);
        if (error || !parser.is_done()) return {};
      }
    }
    Answer answer;
    answer.status = parser.get().result_int();
    answer.body = parser.get().body();
    answer.headers = parser.get().base();
    taken_ = 0;
    return answer;
  }
  // Whether the server closes the connection, having sent nothing more.
  bool closed() {
    return read_.empty() && !fill(std::chrono::steady_clock::now() + kPatience) && ended_;
  }
  Answer ask(const std::string& method, const std::string& path, const std::string& body = "",
             const std::string& headers = "") {
    std::string request = method + " " + path + " HTTP/1.1\r\n" +
                          (headers.find("Host:") == headers.npos ? "Host: localhost\r\n" : "") +
                          headers;
    if (!body.empty() || method == "POST") {
      request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    }
    if (!send(request + "\r\n" + body)) return {};
    return receive(method == "HEAD");
  }
  Answer get(const std::string& path) { return ask("GET", path); }
  Answer post(const std::string& path, const std::string& body,
              const std::string& type = "application/json", const std::string& headers = "") {
    return ask("POST", path, body, "Content-Type: " + type + "\r\n" + headers);
  }

 private:
  bool fill(std::chrono::steady_clock::time_point end) {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd readable = {fd_, POLLIN, 0};
    if (rest.count() <= 0 || ::poll(&readable, 1, static_cast<int>(rest.count())) <= 0) {
      return false;
    }
    char buffer[16384];
    const ssize_t length = ::recv(fd_, buffer, sizeof(buffer), 0);
    ended_ = length <= 0;
    if (ended_) return false;
    read_.append(buffer, static_cast<size_t>(length));
    return true;
  }

  int fd_ = -1;
  bool connected_ = false, ended_ = false;
  std::string read_;
  size_t taken_ = 0;  // by the parser of the answer that is being read
};

}  // namespace neuron::serve_test

#endif
