// SPDX-License-Identifier: Apache-2.0
// neuron-serve with the digits model beside nginx with a file as long as one of its answers, and
// beside itself under more load than it can bear. Every answer is compared with what the model
// gives for these pixels when it is executed directly, without the server.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/http_load.h"
#include "tests/bench/ratio.h"
#include "tests/bench/session.h"
#include "tests/support/daemon.h"
#include "tests/support/free_port.h"

namespace neuron::bench {
namespace {

using test::Folder;
using test::Process;
using test::Words;

constexpr int kConnections = 64;
constexpr int kMany = 256;          // connections of an open loop: more than ever wait
constexpr double kBudget = 0.005;   // the server's default, in seconds
constexpr double kPatience = 0.05;  // later answers are not counted as good, in seconds
constexpr double kSeconds = 1.0;

constexpr size_t kPixels = 64, kClasses = 10, kImages = 97;  // a prime: batches differ

// Images and the probabilities that `neff` gives for them, as a request and its answer.
std::vector<Exchange> digits_exchanges(const std::string& neff, const std::string& url,
                                       std::string& error) {
  Session session(neff);
  error = session.error();
  if (!error.empty()) return {};
  const size_t row = kPixels * sizeof(float), result = kClasses * sizeof(float);
  const size_t batch = nrt_tensor_get_size(session.inputs()[0]) / row;
  std::vector<Exchange> exchanges;
  std::vector<char> images(batch * row), answers(batch * result);
  while (exchanges.size() < kImages) {
    const size_t first = exchanges.size();
    for (size_t n = 0; n < batch * kPixels; ++n) {
      const auto value = static_cast<float>((n + first * kPixels) * 7 % 17 * (n % 5) % 17);
      std::memcpy(images.data() + n * sizeof value, &value, sizeof value);
    }
    if (nrt_tensor_write(session.inputs()[0], images.data(), 0, images.size()) != NRT_SUCCESS ||
        session.execute() != NRT_SUCCESS ||
        nrt_tensor_read(session.outputs()[0], answers.data(), 0, answers.size()) != NRT_SUCCESS) {
      error = neff + " could not be executed";
      return {};
    }
    for (size_t n = 0; n < batch && exchanges.size() < kImages; ++n) {
      exchanges.push_back(
          {"POST /v1/models/" + url +
               "/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream"
               "\r\nContent-Length: " +
               std::to_string(row) + "\r\n\r\n" + std::string(images.data() + n * row, row),
           std::string(answers.data() + n * result, result)});
    }
  }
  return exchanges;
}

// neuron-serve on an embedded device, with the digits made for serving (batches of 32) and the
// ordinary ones (batches of 120).
class Ours {
 public:
  explicit Ours(const Words& arguments = {}, const std::string& model = "digits_serving") {
    for (const char* name : {"digits_serving", "digits"}) {
      const std::string file = std::string("models/") + name;
      folder_.write(file + ".json", "{\"batched\": true}");
      std::filesystem::copy_file(test::built(std::string("neff/") + name + ".neff"),
                                 folder_.path(file + ".neff"));
    }
    load_.exchanges = digits_exchanges(model + ".neff", model, error_);
    if (!error_.empty()) return;
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
    load_.seconds = kSeconds;
    load_.patience = kPatience;
  }
  const std::string& error() const { return error_; }
  // At `rate` requests per second; 0: as fast as answers come.
  LoadResult run(int connections, double rate = 0) {
    LoadRequest request = load_;
    request.connections = connections;
    request.rate = rate;
    LoadResult result = run_load(request);
    if (result.wrong != 0) {
      result.error =
          std::to_string(result.wrong) + " answers were wrong, the first: " + result.first_wrong;
    }
    if (!result.error.empty()) std::fprintf(stderr, "neuron-serve: %s\n", result.error.c_str());
    return result;
  }
  // The highest constant rate at which 99 of 100 requests are answered within patience, to 5 %;
  // negative: a run failed.
  double saturation() {
    double held = 0, lost = 0;
    for (double rate = 1000; lost == 0 || lost > held * 1.05;) {
      const LoadResult result = run(kMany, rate);
      if (!result.error.empty()) return -1;
      (result.good_per_second >= 0.99 * rate ? held : lost) = rate;
      if (lost != 0 && lost < 10) return 0;
      rate = lost == 0 ? 2 * held : (held + lost) / 2;
    }
    return held;
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
  explicit Nginx(size_t bytes) : port_(test::free_port()), answer_(bytes, 'x') {
    const std::string& folder = folder_.path();
    folder_.write("answer", answer_);
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
    LoadRequest request{
        .port = port_,
        .connections = kConnections,
        .seconds = kSeconds,
        .exchanges = {{"GET /answer HTTP/1.1\r\nHost: localhost\r\n\r\n", answer_}}};
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
  const std::string answer_;
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

// Latency counts from the intended start of a request, at seven tenths of the saturation point.
Ratio serve_p99() {
  Ratio ratio{.name = "serve-p99",
              .peer_name = "the latency budget",
              .unit = "s at a constant rate of 0.7 of saturation",
              .goal = 1,
              .smaller_is_better = true,
              .rounds = 5};
  auto ours = std::make_shared<Ours>();
  ratio.error = ours->error();
  if (!ratio.error.empty()) return ratio;
  const double saturation = ours->saturation();
  if (saturation <= 0) {
    ratio.error = "neuron-serve holds no rate";
    return ratio;
  }
  std::fprintf(stderr, "neuron-serve: saturated at %.0f requests/s\n", saturation);
  ratio.ours = [ours, saturation] {
    const LoadResult result = ours->run(kMany, 0.7 * saturation);
    return result.error.empty() ? result.p99 : -1;
  };
  ratio.peer = [] { return kBudget; };
  return ratio;
}

// Half as many requests again as it can answer, at a constant rate; some are refused.
Ratio serve_overload() {
  Ratio ratio{.name = "serve-overload",
              .peer_name = "its saturation point",
              .unit = "right answers/s within 50 ms at 1.5 of saturation",
              .goal = 0.9,
              .rounds = 5};
  auto ours = std::make_shared<Ours>(Words{"--queue-limit", "120"});
  ratio.error = ours->error();
  if (!ratio.error.empty()) return ratio;
  const double saturation = ours->saturation();
  if (saturation <= 0) {
    ratio.error = "neuron-serve holds no rate";
    return ratio;
  }
  ratio.ours = [ours, saturation] {
    const LoadResult result = ours->run(kMany, 1.5 * saturation);
    std::fprintf(stderr, "neuron-serve: %.0f refused/s, %.0f late/s, p99 %.2f ms\n",
                 result.refused_per_second, result.late_per_second, result.p99 * 1e3);
    return result.error.empty() ? result.good_per_second : -1;
  };
  ratio.peer = [ours, saturation] {
    const LoadResult result = ours->run(kMany, saturation);
    return result.error.empty() ? result.good_per_second : -1;
  };
  return ratio;
}

// The digits as `make run` executes them, in batches of 120, beside those made for serving. Both
// fill their batches at 64 connections only in part, and an execution costs by the whole batch.
Ratio serve_ordinary() {
  Ratio ratio{.name = "serve-ordinary",
              .peer_name = "the model made for serving, batches of 32",
              .unit = "requests/s at 64 connections, batches of 120",
              .goal = 0.25,
              .rounds = 5};
  auto ordinary = std::make_shared<Ours>(Words{}, "digits");
  auto serving = std::make_shared<Ours>();
  ratio.error = ordinary->error() + serving->error();
  const auto measure = [](Ours& server) {
    const LoadResult result = server.run(kConnections);
    return result.error.empty() ? result.good_per_second : -1;
  };
  ratio.ours = [ordinary, measure] { return measure(*ordinary); };
  ratio.peer = [serving, measure] { return measure(*serving); };
  return ratio;
}

}  // namespace neuron::bench
