// SPDX-License-Identifier: Apache-2.0
// neuron-serve with the digits model beside nginx with a file as long as one of its answers, and
// beside itself under three times the load. Every answer is compared with that of a first request.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tests/bench/http_load.h"
#include "tests/bench/ratio.h"
#include "tests/support/daemon.h"

namespace neuron::bench {
namespace {

using test::Folder;
using test::Process;
using test::Words;

constexpr int kConnections = 64;
constexpr double kBudget = 0.005;   // the server's default, in seconds
constexpr double kPatience = 0.05;  // later answers are not counted as good, in seconds
constexpr double kSeconds = 1.0;

uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

std::string digits_request() {
  std::string body;
  for (int pixel = 0; pixel < 64; ++pixel) {
    const auto value = static_cast<float>(pixel * 7 % 17);
    body.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return "POST /v1/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
         "application/octet-stream\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// neuron-serve on an embedded device; the bytes that it answers.
class Ours {
 public:
  explicit Ours(const Words& arguments = {}) {
    folder_.write("models/digits.json", "{\"batched\": true}");
    std::filesystem::copy_file(test::built("neff/digits_serving.neff"),
                               folder_.path("models/digits.neff"));
    Words command = {test::built("bin/neuron-serve"), "--models", folder_.path("models"),
                     "--listen", "127.0.0.1:0"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    process_ = std::make_unique<Process>(
        command, test::Environment{{"NEURON_EMULATOR", "trn1.2xlarge"}}, folder_.path("log"));
    const std::string line = process_->line();
    const size_t colon = line.rfind(':');
    if (!line.starts_with("http://") || colon == std::string::npos) {
      error_ = "neuron-serve did not start: " + folder_.read("log");
      return;
    }
    load_.port = static_cast<uint16_t>(std::stoi(line.substr(colon + 1)));
    load_.bytes = digits_request();
    load_.seconds = kSeconds;
    load_.patience = kPatience;
  }
  const std::string& error() const { return error_; }
  LoadResult run(int connections) {
    LoadRequest request = load_;
    request.connections = connections;
    LoadResult result = run_load(request);
    if (result.wrong != 0) result.error = std::to_string(result.wrong) + " answers were wrong";
    if (!result.error.empty()) std::fprintf(stderr, "neuron-serve: %s\n", result.error.c_str());
    return result;
  }

 private:
  Folder folder_;
  std::unique_ptr<Process> process_;
  LoadRequest load_;
  std::string error_;
};

// Debian's nginx with a configuration of its own, serving one file of `bytes` bytes.
class Nginx {
 public:
  explicit Nginx(size_t bytes) : port_(free_port()) {
    const std::string& folder = folder_.path();
    folder_.write("answer", std::string(bytes, 'x'));
    folder_.write(
        "nginx.conf",
        "daemon off;\nmaster_process on;\nworker_processes auto;\nuser root;\npid " + folder +
            "/pid;\nerror_log " + folder +
            "/error.log;\nevents { worker_connections 1024; }\nhttp {\n  access_log off;\n"
            "  sendfile on;\n  tcp_nodelay on;\n  open_file_cache max=16;\n"
            "  keepalive_requests 1000000000;\n  default_type application/octet-stream;\n"
            "  client_body_temp_path " +
            folder + "/b;\n  proxy_temp_path " + folder + "/p;\n  fastcgi_temp_path " + folder +
            "/f;\n  uwsgi_temp_path " + folder + "/u;\n  scgi_temp_path " + folder +
            "/s;\n  server {\n    listen 127.0.0.1:" + std::to_string(port_) + ";\n    root " +
            folder + ";\n  }\n}\n");
    process_ = std::make_unique<Process>(Words{"/usr/sbin/nginx", "-c", folder_.path("nginx.conf")},
                                         test::Environment{}, folder_.path("log"));
  }
  ~Nginx() {
    process_->stop();  // the master ends its workers, which SIGKILL would leave behind
  }
  double run() {
    LoadRequest request{.port = port_,
                        .connections = kConnections,
                        .seconds = kSeconds,
                        .bytes = "GET /answer HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    LoadResult result = run_load(request);
    // It may still be about to listen.
    for (int i = 0; i < 100 && result.error.starts_with("no connection"); ++i) {
      ::usleep(20'000);
      result = run_load(request);
    }
    if (!result.error.empty() || result.wrong != 0) {
      std::fprintf(stderr, "nginx: %s\n%s", result.error.c_str(),
                   folder_.read("error.log").c_str());
      return -1;
    }
    return result.good_per_second;
  }

 private:
  Folder folder_;
  const uint16_t port_;
  std::unique_ptr<Process> process_;
};

}  // namespace

Ratio serve() {
  Ratio ratio{.name = "serve",
              .peer_name = "nginx, a static file of the same size",
              .unit = "requests/s at 64 connections",
              .goal = 0.3,
              .rounds = 5};
  auto ours = std::make_shared<Ours>();
  ratio.error = ours->error();
  if (!ratio.error.empty()) return ratio;
  auto nginx = std::make_shared<Nginx>(40);
  ratio.ours = [ours] {
    const LoadResult result = ours->run(kConnections);
    std::fprintf(stderr, "neuron-serve: p50 %.2f ms, p99 %.2f ms\n", result.p50 * 1e3,
                 result.p99 * 1e3);
    return result.error.empty() ? result.good_per_second : -1;
  };
  ratio.peer = [nginx] { return nginx->run(); };
  return ratio;
}

Ratio serve_p99() {
  Ratio ratio{.name = "serve-p99",
              .peer_name = "the latency budget",
              .unit = "s at 64 connections",
              .goal = 1,
              .smaller_is_better = true,
              .rounds = 5};
  auto ours = std::make_shared<Ours>();
  ratio.error = ours->error();
  ratio.ours = [ours] {
    const LoadResult result = ours->run(kConnections);
    return result.error.empty() ? result.p99 : -1;
  };
  ratio.peer = [] { return kBudget; };
  return ratio;
}

// 64 connections keep the server busy all the time; three times as many ask for three times as
// much, and those that are refused ask again at once.
Ratio serve_overload() {
  Ratio ratio{.name = "serve-overload",
              .peer_name = "the same at 64 connections, which saturate it",
              .unit = "right answers/s within 50 ms at 192 connections",
              .goal = 0.9,
              .rounds = 5};
  auto ours = std::make_shared<Ours>(Words{"--queue-limit", "120"});
  ratio.error = ours->error();
  ratio.ours = [ours] {
    const LoadResult result = ours->run(3 * kConnections);
    std::fprintf(stderr, "neuron-serve: %.0f refused/s, p99 %.2f ms\n", result.refused_per_second,
                 result.p99 * 1e3);
    return result.error.empty() ? result.good_per_second : -1;
  };
  ratio.peer = [ours] {
    const LoadResult result = ours->run(kConnections);
    return result.error.empty() ? result.good_per_second : -1;
  };
  return ratio;
}

}  // namespace neuron::bench
