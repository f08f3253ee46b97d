// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/http_load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/bench/ratio.h"

namespace neuron::bench {
namespace {

constexpr size_t kRoom = 64 << 10;

struct Connection {
  int fd = -1;
  double begun = 0;  // when its request was sent, or should have been
  const Exchange* exchange = nullptr;
  size_t have = 0;
  std::vector<char> buffer = std::vector<char>(kRoom);
  ~Connection() {
    if (fd >= 0) ::close(fd);
  }
};

bool connect_to(uint16_t port, Connection& connection) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connection.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return ::connect(connection.fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
         0;
}

// Bytes of the first whole answer in `text`; 0: it is not whole yet.
size_t parse(std::string_view text, int& status, std::string_view& body) {
  const size_t end = text.find("\r\n\r\n");
  if (end == text.npos) return 0;
  status = 0;
  std::from_chars(text.data() + 9, text.data() + 12, status);
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const size_t at = text.find(kLength);
  size_t length = 0;
  if (at < end) std::from_chars(text.data() + at + kLength.size(), text.data() + end, length);
  if (text.size() < end + 4 + length) return 0;
  body = text.substr(end + 4, length);
  return end + 4 + length;
}

}  // namespace

namespace {

// One run: who is free, what is due, and what came back.
class Load {
 public:
  explicit Load(const LoadRequest& request)
      : request_(request),
        connections_(static_cast<size_t>(request.connections)),
        poller_(::epoll_create1(EPOLL_CLOEXEC)) {
    latencies_.reserve(1 << 20);
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load() { ::close(poller_); }

  LoadResult run() {
    for (Connection& connection : connections_) {
      if (!connect_to(request_.port, connection)) {
        result_.error = std::string("no connection to the server: ") + std::strerror(errno);
        return result_;
      }
      epoll_event event = {EPOLLIN, {.ptr = &connection}};
      ::epoll_ctl(poller_, EPOLL_CTL_ADD, connection.fd, &event);
      free_.push_back(&connection);
    }
    begin_ = now_seconds();
    start_ = begin_ + request_.warm_up;
    end_ = start_ + request_.seconds;
    while (result_.error.empty() && (ask_all(), !is_over())) answers();
    finish();
    return result_;
  }

 private:
  const LoadRequest& request_;
  std::vector<Connection> connections_;
  const int poller_;
  std::vector<Connection*> free_;
  uint64_t asked_ = 0, refused_ = 0, late_ = 0;
  double begin_ = 0, start_ = 0, end_ = 0;
  std::vector<double> latencies_;
  LoadResult result_;

  bool is_open() const { return request_.rate > 0; }
  // When the next request should begin.
  double due() const {
    return is_open() ? begin_ + static_cast<double>(asked_) / request_.rate : now_seconds();
  }
  bool counts(double begun) const { return begun >= start_ && begun < end_; }

  // An open loop waits for what it asked, for as long as an answer may take.
  bool is_over() const {
    const double now = now_seconds();
    if (now < end_) return false;
    const bool all_asked = !is_open() || due() >= end_;
    return !is_open() || now >= end_ + request_.patience ||
           (all_asked && free_.size() == connections_.size());
  }

  void ask_all() {
    while (!free_.empty()) {
      const double begun = due();
      if (begun >= end_ || begun > now_seconds()) return;
      Connection& connection = *free_.back();
      free_.pop_back();
      connection.begun = begun;
      connection.exchange = &request_.exchanges[asked_++ % request_.exchanges.size()];
      const std::string& bytes = connection.exchange->request;
      if (::send(connection.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(bytes.size())) {
        result_.error = "a request could not be sent";
        return;
      }
    }
  }

  void answers() {
    double wait = 1;
    if (is_open() && !free_.empty()) wait = std::clamp(due() - now_seconds(), 0.0, 1.0);
    const timespec limit = {static_cast<time_t>(wait),
                            static_cast<long>((wait - static_cast<double>(time_t(wait))) * 1e9)};
    std::array<epoll_event, 256> events;
    const int ready = ::epoll_pwait2(poller_, events.data(), events.size(), &limit, nullptr);
    if (ready == 0 && wait == 1) result_.error = "no answer for a second";
    for (int i = 0; i < ready && result_.error.empty(); ++i) {
      read(*static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr));
    }
  }

  void read(Connection& connection) {
    const ssize_t length = ::recv(connection.fd, connection.buffer.data() + connection.have,
                                  kRoom - connection.have, 0);
    if (length <= 0) {
      result_.error = "the server closed a connection";
      return;
    }
    connection.have += static_cast<size_t>(length);
    int status = 0;
    std::string_view body;
    if (parse({connection.buffer.data(), connection.have}, status, body) == 0) return;
    connection.have = 0;
    const double latency = now_seconds() - connection.begun;
    free_.push_back(&connection);
    const bool counted = counts(connection.begun);
    if (status == 503) {
      refused_ += counted;
    } else if (status != 200 || body != connection.exchange->answer) {
      if (result_.wrong++ == 0) {
        result_.first_wrong = "status " + std::to_string(status) + ", " +
                              std::to_string(body.size()) +
                              " bytes: " + std::string(body.substr(0, status == 200 ? 0 : 200));
      }
    } else if (counted) {
      latencies_.push_back(latency);
      late_ += latency > request_.patience;
    }
  }

  void finish() {
    if (is_open() && result_.error.empty()) {
      // What should have begun in time and has no answer yet takes longer than patience lasts.
      const auto offered = static_cast<uint64_t>(request_.rate * request_.seconds);
      while (latencies_.size() + refused_ + result_.wrong < offered) {
        latencies_.push_back(2 * request_.patience);
        ++late_;
      }
    }
    result_.good_per_second = static_cast<double>(latencies_.size() - late_) / request_.seconds;
    result_.late_per_second = static_cast<double>(late_) / request_.seconds;
    result_.refused_per_second = static_cast<double>(refused_) / request_.seconds;
    if (latencies_.empty()) return;
    std::sort(latencies_.begin(), latencies_.end());
    result_.p50 = latencies_[latencies_.size() / 2];
    result_.p99 = latencies_[latencies_.size() * 99 / 100];
  }
};

}  // namespace

LoadResult run_load(const LoadRequest& request) { return Load(request).run(); }

}  // namespace neuron::bench
