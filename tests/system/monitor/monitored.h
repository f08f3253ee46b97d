// SPDX-License-Identifier: Apache-2.0
// A neuron-monitor as a child process that reports every group each 100 ms, and sums of its
// reports. Callers: tests of this folder, one thread. Owns: the process; nothing waits longer than
// kPatience.
#ifndef TESTS_SYSTEM_MONITOR_MONITORED_H
#define TESTS_SYSTEM_MONITOR_MONITORED_H

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/daemon.h"

namespace neuron::monitor {

using test::Daemon;
using test::Folder;
using test::Process;
namespace json = boost::json;

inline const std::string kProgram = test::built("bin/neuron-monitor");

// Every group each 100 ms.
inline constexpr char kFast[] = R"({"period": "100ms",
  "neuron_runtimes": [{"metrics": [{"type": "neuroncore_counters"}, {"type": "memory_used"},
    {"type": "neuron_runtime_vcpu_usage"}, {"type": "execution_stats"}]}],
  "system_metrics": [{"type": "vcpu_usage"}, {"type": "memory_info"},
    {"type": "neuron_hw_counters"}]})";

class Monitor {
 public:
  Monitor(const Folder& folder, const std::string& emulator, std::vector<std::string> options = {})
      : log_(folder.path("monitor.log")),
        process_(command(folder.write("monitor.conf", kFast), std::move(options)),
                 {{"NEURON_EMULATOR", emulator}}, log_) {}

  json::value report() {
    const std::string line = process_.line();
    boost::system::error_code error;
    json::value root = json::parse(line, error);
    EXPECT_FALSE(error) << line << log();
    return root;
  }
  // The first report of which `good` holds; a null after kPatience.
  template <typename Good>
  json::value report_when(Good good) {
    json::value root;
    const bool came = test::eventually([&] {
      root = report();
      return root.is_null() || good(root);
    });
    EXPECT_TRUE(came) << "no such report" << log();
    return came ? root : nullptr;
  }
  Process& process() { return process_; }
  std::string log() const { return test::read_file(log_); }

 private:
  static std::vector<std::string> command(const std::string& configuration,
                                          std::vector<std::string> options) {
    options.insert(options.begin(), {kProgram, "-c", configuration});
    return options;
  }
  const std::string log_;
  Process process_;
};

inline const json::value* runtime_of(const json::value& root, pid_t pid) {
  for (const json::value& runtime : root.at("neuron_runtime_data").as_array()) {
    if (runtime.at("pid") == pid) return &runtime;
  }
  return nullptr;
}

inline int64_t sum(const json::value& object) {
  int64_t out = 0;
  for (const auto& [key, value] : object.as_object()) out += value.to_number<int64_t>();
  return out;
}

// What reports say of a process, added up from the report in which it first appears.
struct Totals {
  std::map<std::string, int64_t> ends, errors;
  double operations = 0, slack = 0;
  // Of each core: bytes, and microseconds of the collective cores.
  std::map<std::string, uint64_t> dma_bytes, link_bytes;
  std::map<std::string, double> collectives_us;
  bool latencies = false;
  int64_t executions() const {
    int64_t out = 0;
    for (const auto& [kind, count] : ends) out += count;
    return out;
  }
  void add(const json::value& report) {
    const json::value& stats = report.at("execution_stats");
    for (const auto& [key, value] : stats.at("execution_summary").as_object()) {
      ends[key] += value.to_number<int64_t>();
    }
    for (const auto& [key, value] : stats.at("error_summary").as_object()) {
      errors[key] += value.to_number<int64_t>();
    }
    latencies |= !stats.at("latency_stats").at("device_latency").is_null();
    const json::value& cores = report.at("neuroncore_counters");
    const double period = cores.at("period").to_number<double>();
    for (const auto& [key, core] : cores.at("neuroncores_in_use").as_object()) {
      EXPECT_EQ(core.at("flops"), core.at("effective_flops"));
      operations += core.at("flops").to_number<double>() * period;
      slack += period;  // whole operations each second
      dma_bytes[key] += core.at("dma_bytes").to_number<uint64_t>();
      link_bytes[key] += core.at("link_bytes").to_number<uint64_t>();
      collectives_us[key] +=
          core.at("collectives_utilization").to_number<double>() / 100 * period * 1e6;
    }
  }
};

}  // namespace neuron::monitor

#endif
