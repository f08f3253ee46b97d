// SPDX-License-Identifier: Apache-2.0
// neuron-monitor beside a daemon and its clients: exact differences of known work, what exporters
// serve, and what happens when either end goes.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>

#include "tests/system/monitor/monitored.h"

namespace neuron::monitor {
namespace {

using test::eventually;
using test::Run;
using test::Worker;
using testing::HasSubstr;

TEST(MonitorProgram, CountsKnownWorkExactlyAndFallsBackToZero) {
  Folder folder;
  Daemon daemon(folder);
  const std::string emulator = daemon.emulator();
  Monitor monitor(folder, emulator);
  EXPECT_EQ(monitor.report().at("neuron_hardware_info").at("neuron_device_count"), 1);
  Worker worker(folder, emulator, 1, "matmul_f32_256.neff", {{"NEURON_PROCESS_TAG", "known-work"}});
  ASSERT_EQ(worker.line(), "ready") << worker.log();
  const pid_t pid = worker.process().pid();
  Totals totals;
  constexpr int kTimes = 21;  // once when it got ready
  ASSERT_EQ(worker.ask("launch 20").find("failed"), std::string::npos);
  const json::value last = monitor.report_when([&](const json::value& root) {
    const json::value* runtime = runtime_of(root, pid);
    if (runtime == nullptr) return false;
    totals.add(runtime->at("report"));
    return totals.ends["completed"] >= kTimes;
  });
  // From when it had said it; on a busy machine its number comes first.
  EXPECT_EQ(runtime_of(last, pid)->at("neuron_runtime_tag"), "known-work");
  const json::value& memory = runtime_of(last, pid)->at("report").at("memory_used");
  EXPECT_GT(memory.at("neuron_runtime_used_bytes").at("neuron_device").to_number<double>(), 0);
  ASSERT_EQ(memory.at("loaded_models").as_array().size(), 1u);
  EXPECT_EQ(memory.at("loaded_models").at(0).at("subgraphs").at("sg_00").at("neuroncore_index"), 1);
  const json::value idle = monitor.report();
  totals.add(runtime_of(idle, pid)->at("report"));
  EXPECT_EQ(totals.ends["completed"], kTimes);
  EXPECT_EQ(totals.errors["generic"] + totals.errors["hardware"] + totals.errors["model"], 0);
  EXPECT_TRUE(totals.latencies);
  // 256 x 256 x 512 multiplications with their additions, each time.
  EXPECT_NEAR(totals.operations, 2.0 * 256 * 256 * 512 * kTimes, totals.slack + 1);
  const json::value& stats = runtime_of(idle, pid)->at("report").at("execution_stats");
  EXPECT_EQ(sum(stats.at("execution_summary")), 0);
  EXPECT_TRUE(stats.at("latency_stats").at("total_latency").is_null());
  worker.process().signal(SIGKILL);
  monitor.report_when([&](const json::value& root) { return !runtime_of(root, pid); });
  EXPECT_EQ(monitor.process().stop(), 0) << monitor.log();
}

// The answer to a GET on the loopback interface.
std::string get(int port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string out;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      char buffer[4096];
      pollfd readable = {socket, POLLIN, 0};
      while (::poll(&readable, 1, 10'000) == 1) {
        const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        out.append(buffer, static_cast<size_t>(got));
      }
    }
  }
  ::close(socket);
  return out;
}

TEST(MonitorProgram, ServesPrometheusWithoutAStreamAndForgetsTheDead) {
  Folder folder;
  Daemon daemon(folder);
  const std::string emulator = daemon.emulator();
  Monitor monitor(folder, emulator,
                  {"--prometheus", "127.0.0.1:0", "--no-stream", "--verbose", "1"});
  int port = 0;
  ASSERT_TRUE(eventually([&] {
    const std::string log = monitor.log();
    const size_t at = log.find("http://127.0.0.1:");
    return at != std::string::npos && (port = std::atoi(log.c_str() + at + 17)) != 0;
  })) << monitor.log();
  Worker worker(folder, emulator, 0, "empty.neff", {{"NEURON_PROCESS_TAG", "app"}});
  ASSERT_EQ(worker.line(), "ready") << worker.log();
  worker.ask("launch 29");  // and once when it got ready
  EXPECT_TRUE(eventually([&] {
    return get(port, "/metrics")
               .find("execution_status_total{status_type=\"completed\",runtime_tag=\"app\"") !=
           std::string::npos;
  }));
  std::string text;
  EXPECT_TRUE(eventually([&] {
    text = get(port, "/metrics");
    const size_t at = text.find("execution_status_total{status_type=\"completed\",runtime_tag=");
    const size_t end = text.find("} ", at);
    return at != std::string::npos && std::atoi(text.c_str() + end + 2) == 30;
  })) << text;
  worker.process().kill();
  EXPECT_TRUE(eventually(
      [&] { return get(port, "/metrics").find("runtime_tag=\"app\"") == std::string::npos; }));
  EXPECT_THAT(get(port, "/healthz"), HasSubstr("200 OK"));
  monitor.process().signal(SIGINT);
  EXPECT_EQ(monitor.process().wait(), 0) << monitor.log();
}

TEST(MonitorProgram, ReportsALinkThatIsDownAtBothOfItsDevicesUntilItIsUp) {
  Folder folder;
  const Daemon daemon(folder, "trn1.32xlarge");
  Monitor monitor(folder, daemon.emulator());
  // What the devices that have links down list: "1: [0]".
  const auto down = [](const json::value& root) {
    std::string text;
    const json::value& hardware = root.at("system_data").at("neuron_hw_counters");
    for (const json::value& device : hardware.at("neuron_devices").as_array()) {
      const json::value& links = device.at("links_down");
      if (links.is_array() && links.as_array().empty()) continue;
      text += std::to_string(device.at("neuron_device_index").to_number<int>()) + ": " +
              json::serialize(links) + " ";
    }
    return text;
  };
  EXPECT_EQ(down(monitor.report()), "");
  ASSERT_EQ(daemon.control({"link", "down", "2", "3"}), 0);
  monitor.report_when([&](const json::value& root) { return down(root) == "2: [3] 3: [2] "; });
  ASSERT_EQ(daemon.control({"link", "up", "2", "3"}), 0);
  monitor.report_when([&](const json::value& root) { return down(root).empty(); });
}

TEST(MonitorProgram, GoesOnWhenTheDaemonIsKilledAndComesBack) {
  Folder folder;
  Daemon daemon(folder);
  Monitor monitor(folder, daemon.emulator());
  EXPECT_EQ(monitor.report().at("neuron_hardware_info").at("error"), "");
  daemon.process().kill();
  const auto count = [](const json::value& root) {
    return root.at("neuron_hardware_info").at("neuron_device_count").to_number<int>();
  };
  const auto error = [](const json::value& root) {
    return std::string(root.at("neuron_hardware_info").at("error").as_string());
  };
  const json::value gone = monitor.report_when([&](const json::value& root) {
    return !error(root).empty() ||
           !root.at("system_data").at("neuron_hw_counters").at("error").as_string().empty();
  });
  EXPECT_FALSE(gone.is_null());
  daemon.restart();
  const json::value back = monitor.report_when([&](const json::value& root) {
    return count(root) == 1 && error(root).empty() &&
           root.at("system_data").at("neuron_hw_counters").at("error").as_string().empty();
  });
  EXPECT_FALSE(back.is_null());
}

TEST(MonitorProgram, GoesOnWhileTheDaemonHangs) {
  Folder folder;
  Daemon daemon(folder);
  Monitor monitor(folder, daemon.emulator());
  monitor.report();
  daemon.process().signal(SIGSTOP);
  const auto trouble = [](const json::value& root) {
    return std::string(root.at("system_data").at("neuron_hw_counters").at("error").as_string());
  };
  const json::value hung =
      monitor.report_when([&](const json::value& root) { return !trouble(root).empty(); });
  EXPECT_THAT(trouble(hung), HasSubstr("answer"));
  daemon.process().signal(SIGCONT);
  monitor.report_when([&](const json::value& root) { return trouble(root).empty(); });
  EXPECT_EQ(monitor.process().stop(), 0);
}

Run shell(const std::string& line) { return test::shell(line, {{"NEURON_EMULATOR", {}}}); }

TEST(MonitorProgram, EndsQuietlyWhenItsReaderHasEnough) {
  Folder folder;
  const std::string configuration = folder.write("monitor.conf", kFast);
  const auto [status, output] =
      shell("{ " + kProgram + " -c " + configuration + "; echo status $? >&2; } | head -1");
  EXPECT_THAT(output, HasSubstr("status 0"));
  EXPECT_THAT(output, HasSubstr("\"neuron_runtime_data\":[]"));
}

TEST(MonitorProgram, SaysThatTheDiskIsFull) {
  const auto [status, output] = shell(kProgram + " >/dev/full");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(output, HasSubstr("cannot write to standard output: No space left on device"));
}

TEST(MonitorProgram, RefusesAConfigurationThatIsWrongAtItsPlace) {
  Folder folder;
  const std::string file = folder.write("bad.conf", "{\n \"period\": \"1sec\"\n}\n");
  for (const char* option : {"", " --check-config", " --once"}) {
    const auto [status, output] = shell(kProgram + " -c " + file + option);
    EXPECT_EQ(status, 2);
    EXPECT_THAT(output, HasSubstr(file + ":2:12: \"period\": \"1sec\" is no duration"));
  }
  const std::string odd = folder.write("odd.conf", "{\"perod\": \"1s\"}");
  EXPECT_EQ(shell(kProgram + " --check-config -c " + odd).ending, 1);
  const std::string good = folder.write("good.conf", kFast);
  const auto [ending, nothing] = shell(kProgram + " --check-config -c " + good);
  EXPECT_EQ(ending, 0);
  EXPECT_EQ(nothing, "");
}

TEST(MonitorProgram, RefusesAnAddressThatIsNone) {
  for (const char* option : {"--prometheus 999999", "--prometheus :80x", "--otlp ftp://host"}) {
    const auto [status, output] = shell(kProgram + " --once " + option);
    EXPECT_EQ(status, 2) << option;
    EXPECT_THAT(output, HasSubstr("expected ")) << option;
  }
}

// A collector of a few lines of Python, which answers `status` to one request.
std::string collector(const std::string& file, int status) {
  return "python3 -c '\nimport http.server\n"
         "class Collector(http.server.BaseHTTPRequestHandler):\n"
         "  def do_POST(self):\n"
         "    body = self.rfile.read(int(self.headers[\"content-length\"]))\n"
         "    self.send_response(" +
         std::to_string(status) +
         "); self.end_headers()\n"
         "    open(\"" +
         file +
         ".body\", \"wb\").write(body)\n"
         "  def log_message(self, *_): pass\n"
         "server = http.server.HTTPServer((\"127.0.0.1\", 0), Collector)\n"
         "server.timeout = 20\n"
         "open(\"" +
         file + "\", \"w\").write(str(server.server_port))\nserver.handle_request()\n' & " +
         "while [ ! -s " + file + " ]; do sleep 0.05; done; ";
}

TEST(MonitorProgram, EndsWithStatusOneWhenItsOnlyReportIsNotPushed) {
  const Folder folder;
  const std::string file = folder.path() + "/port";
  const std::string push = kProgram + " --once --otlp http://127.0.0.1:$(cat " + file + "); s=$?; ";
  const auto [arrived, nothing] = shell(collector(file, 200) + push + "wait; exit $s");
  EXPECT_EQ(arrived, 0) << nothing;
  EXPECT_EQ(shell("grep -q resourceMetrics " + file + ".body").ending, 0);
  // Nobody listens there any more.
  const auto [refused, why] = shell(push + "exit $s");
  EXPECT_EQ(refused, 1);
  EXPECT_THAT(why, HasSubstr("the report was not pushed to http://127.0.0.1:"));
  const std::string other = folder.path() + "/other";
  const auto [dropped, sentence] =
      shell(collector(other, 400) + kProgram + " --once --otlp http://127.0.0.1:$(cat " + other +
            "); s=$?; wait; exit $s");
  EXPECT_EQ(dropped, 1);
  EXPECT_THAT(sentence, HasSubstr("the collector answers 400"));
}

TEST(MonitorProgram, WritesOneReportThatTheSchemaTakesOnEachHost) {
  const std::string check =
      " --once > $f && " NEURON_SOURCE_DIR
      "/tests/system/programs/validate neuron-monitor $f; s=$?; cat $f; rm $f; exit $s";
  Folder folder;
  Daemon daemon(folder);
  for (const std::string& emulator :
       {std::string("trn1.2xlarge"), std::string("trn2.3xlarge"), daemon.emulator()}) {
    const auto [status, output] =
        shell("f=" + folder.path() + "/report.json; NEURON_EMULATOR=" + emulator + " " + kProgram +
              check);
    EXPECT_EQ(status, 0) << output;
    EXPECT_THAT(output, HasSubstr("\"neuron_device_count\":1,"));
  }
}

}  // namespace
}  // namespace neuron::monitor
