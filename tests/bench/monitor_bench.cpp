// SPDX-License-Identifier: Apache-2.0
// What watching costs: neuron-monitor beside 16 shared devices and Prometheus' node exporter, both
// scraped each second; processor time by the processes' own clocks.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/support/daemon.h"
#include "tests/support/free_port.h"

namespace neuron::bench {
namespace {

constexpr int kSeconds = 5, kRounds = 5;
constexpr int kClients = 4;  // of the 32 cores
constexpr char kExporter[] = "/usr/bin/prometheus-node-exporter";
constexpr char kConfiguration[] = R"({"period": "1s",
  "neuron_runtimes": [{"metrics": [{"type": "neuroncore_counters"}, {"type": "memory_used"},
    {"type": "neuron_runtime_vcpu_usage"}, {"type": "execution_stats"}]}],
  "system_metrics": [{"type": "vcpu_usage"}, {"type": "memory_info"},
    {"type": "neuron_hw_counters"}]})";

sockaddr_in loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// The bytes of the answer to a scrape; 0 if there is none.
size_t scrape(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  size_t bytes = 0;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[65536];
    pollfd readable = {socket, POLLIN, 0};
    while (::poll(&readable, 1, 5000) == 1) {
      const ssize_t got = ::recv(socket, buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      bytes += static_cast<size_t>(got);
    }
  }
  ::close(socket);
  return bytes;
}

// Seconds of processor time of all threads of the process, also of those that have ended.
double processor_time(pid_t pid) {
  clockid_t clock = {};
  timespec time = {};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return -1;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Watchers {
  Watchers() : daemon(folder, "trn1.32xlarge") {
    const std::string emulator = daemon.emulator();
    for (int core = 0; core < kClients; ++core) {
      clients.push_back(
          std::make_unique<test::Worker>(folder, emulator, core * 8, "matmul_f32_256.neff"));
    }
    for (const auto& client : clients) {
      if (client->line() != "ready") error = "a client does not start: " + client->log();
    }
    const std::string configuration = folder.write("monitor.conf", kConfiguration);
    our_port = test::free_port();
    peer_port = test::free_port();
    const auto address = [](int port) { return "127.0.0.1:" + std::to_string(port); };
    // The shell becomes the program.
    ours = std::make_unique<test::Process>(
        test::Words{"/bin/sh", "-c", "exec \"$0\" -c \"$1\" --prometheus \"$2\" >/dev/null",
                    test::built("bin/neuron-monitor"), configuration, address(our_port)},
        test::Environment{{"NEURON_EMULATOR", emulator}}, folder.path("monitor.log"));
    peer = std::make_unique<test::Process>(
        test::Words{kExporter, "--web.listen-address=" + address(peer_port)}, test::Environment{},
        folder.path("exporter.log"));
    const auto answer = [this] { return scrape(our_port) != 0 && scrape(peer_port) != 0; };
    if (!test::eventually(answer, std::chrono::seconds(20), std::chrono::milliseconds(100))) {
      error =
          "a program does not answer: " + folder.read("monitor.log") + folder.read("exporter.log");
    }
  }

  // Both at once, so that they share what the host does; false if one does not answer.
  bool measure() {
    const double our_start = processor_time(ours->pid()), peer_start = processor_time(peer->pid());
    const double start = now_seconds();
    bool good = true;
    for (int second = 1; second <= kSeconds; ++second) {
      // Work between the scrapes, so that the reports have something to say.
      for (const auto& client : clients) client->ask("launch 10");
      const double rest = start + second - now_seconds();
      if (rest > 0) ::usleep(static_cast<useconds_t>(rest * 1e6));
      good = scrape(our_port) > 1000 && scrape(peer_port) > 1000 && good;
    }
    const double passed = now_seconds() - start;
    our_share = (processor_time(ours->pid()) - our_start) / passed;
    peer_share = (processor_time(peer->pid()) - peer_start) / passed;
    return good;
  }

  test::Folder folder;
  test::Daemon daemon;
  std::vector<std::unique_ptr<test::Worker>> clients;
  int our_port = 0, peer_port = 0;
  std::unique_ptr<test::Process> ours, peer;
  double our_share = -1, peer_share = -1;
  std::string error;
};

}  // namespace

Ratio monitor() {
  auto watchers = std::make_shared<Watchers>();
  return {.name = "monitor",
          .peer_name = "prometheus-node-exporter",
          .unit = "processor seconds/s",
          .goal = 1,
          .smaller_is_better = true,
          .rounds = kRounds,
          .ours = [watchers] { return watchers->measure() ? watchers->our_share : -1; },
          .peer = [watchers] { return watchers->peer_share; },
          .error = ::access(kExporter, X_OK) == 0 ? watchers->error
                                                  : "prometheus-node-exporter is not installed"};
}

}  // namespace neuron::bench
