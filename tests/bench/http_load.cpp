// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/http_load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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
  double sent = 0;
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

LoadResult run_load(const LoadRequest& request) {
  LoadResult result;
  std::vector<Connection> connections(static_cast<size_t>(request.connections));
  const int poller = ::epoll_create1(EPOLL_CLOEXEC);
  for (Connection& connection : connections) {
    if (!connect_to(request.port, connection)) {
      result.error = std::string("no connection to the server: ") + std::strerror(errno);
      ::close(poller);
      return result;
    }
    epoll_event event = {EPOLLIN, {.ptr = &connection}};
    ::epoll_ctl(poller, EPOLL_CTL_ADD, connection.fd, &event);
  }
  const auto ask = [&](Connection& connection) {
    connection.sent = now_seconds();
    return ::send(connection.fd, request.bytes.data(), request.bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(request.bytes.size());
  };
  std::string expected = request.body;
  std::vector<double> latencies;
  latencies.reserve(1 << 20);
  uint64_t refused = 0;
  const double start = now_seconds() + request.warm_up, end = start + request.seconds;
  for (Connection& connection : connections) ask(connection);
  std::vector<epoll_event> events(connections.size());
  double now = now_seconds();
  while (now < end && result.error.empty()) {
    const int ready = ::epoll_wait(poller, events.data(), static_cast<int>(events.size()), 1000);
    if (ready <= 0) result.error = "no answer for a second";
    for (int i = 0; i < ready; ++i) {
      auto& connection = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      const ssize_t length = ::recv(connection.fd, connection.buffer.data() + connection.have,
                                    kRoom - connection.have, 0);
      if (length <= 0) {
        result.error = "the server closed a connection";
        break;
      }
      connection.have += static_cast<size_t>(length);
      int status = 0;
      std::string_view body;
      if (parse({connection.buffer.data(), connection.have}, status, body) == 0) continue;
      connection.have = 0;
      now = now_seconds();
      const double latency = now - connection.sent;
      if (status == 200 && expected.empty()) expected = body;
      const bool right = status == 200 && body == expected;
      if (status == 503) {
        if (now >= start) ++refused;
      } else if (!right) {
        ++result.wrong;
      } else if (now >= start && latency <= request.patience) {
        latencies.push_back(latency);
      }
      if (!ask(connection)) result.error = "a request could not be sent";
    }
  }
  ::close(poller);
  const double time = std::max(now - start, 1e-9);
  result.good_per_second = static_cast<double>(latencies.size()) / time;
  result.refused_per_second = static_cast<double>(refused) / time;
  if (!latencies.empty()) {
    std::sort(latencies.begin(), latencies.end());
    result.p50 = latencies[latencies.size() / 2];
    result.p99 = latencies[latencies.size() * 99 / 100];
  }
  return result;
}

}  // namespace neuron::bench
