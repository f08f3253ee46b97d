// SPDX-License-Identifier: Apache-2.0
// neuron-precheck: checks whether the devices of this host work.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/base/file.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/device_checks/part.h"
#include "tools/neuron-doctor/checks/access.h"
#include "tools/neuron-precheck/manual.h"
#include "tools/neuron-precheck/report.h"

namespace neuron::precheck {
namespace {

constexpr const char* kProgram = "neuron-precheck";

bool write_report(const std::string& path, const std::string& text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto written = tools::write_file(path, {bytes, text.size()});
  if (!written) std::fprintf(stderr, "%s: %s\n", kProgram, written.error().sentence.c_str());
  return bool(written);
}

bool all_busy(const telemetry::Snapshot& snapshot, const std::vector<int>& devices) {
  for (const telemetry::Device& device : snapshot.devices) {
    if (!is_wanted(device, devices)) continue;
    for (const telemetry::Core& core : device.cores) {
      if (core.holder == 0) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace neuron::precheck

int main(int argc, char** argv) {
  using namespace neuron::precheck;
  namespace tools = neuron::tools;
  tools::CommandLine line(manual());
  Options options;
  tools::Format format = tools::Format::kText;
  tools::ColorMode color = tools::ColorMode::kAuto;
  std::string junit, json;
  unsigned duration = 0, step_ms = 0;
  bool no_collectives = false;
  line.option("-l,--level", options.level,
              "1 seconds, 2 two minutes, 3 a quarter of an hour, 4 as long as --duration says")
      .between(1, 4)
      .with_default();
  line.option("-d,--device", options.devices, "only these devices").between(0, 63);
  line.option("--duration", duration,
              "seconds: how long level 4 goes on (3600), and at most of the others, which leave "
              "out what does not fit (level 3: 900)")
      .between(1u, 31'536'000u);
  line.option("--memory", options.memory_bytes,
              "bytes of HBM of each device that patterns may take (64MB); default: as the level "
              "says, and as much as is free")
      .bytes_with_unit();
  line.option("--timeout", step_ms,
              "milliseconds that one step may take; default: as the level says")
      .between(100u, 3'600'000u);
  line.flag("--no-collectives", no_collectives, "leave out what several cores do together");
  line.option("--junit", junit, "also write a JUnit report there").value_name("FILE");
  line.option("--json", json, "also write a JSON report there").value_name("FILE");
  tools::add_format_option(line, format);
  tools::add_color_option(line, color);
  neuron::checks::WorkerOptions worker;
  add_worker_options(line, worker);
  if (const auto status = line.parse(argc, argv)) return *status;
  setenv("NEURON_RT_LOG_LEVEL_NRT", "QUIET", 0);
  if (!worker.kind.empty()) return work(worker);
  options.duration = std::chrono::seconds(duration);
  options.step = std::chrono::milliseconds(step_ms);
  options.collectives = !no_collectives;
  const tools::Style style = tools::style_of(STDOUT_FILENO, color);
  const Result result = check_host(options);
  if (result.snapshot.devices.empty()) {
    return neuron::doctor::explain_no_device(kProgram, result.snapshot.error);
  }
  if (!result.missing.empty()) {
    std::fprintf(stderr, "%s: there is no device %d; there are %zu, neuron-ls shows them\n",
                 kProgram, result.missing.front(), result.snapshot.devices.size());
    return tools::kFailed;
  }
  const tools::Records records = records_of(result, options);
  bool written = junit.empty() || write_report(junit, junit_of(result));
  if (!json.empty()) written &= write_report(json, render(records, tools::Format::kJson, {}));
  const std::string text = format == tools::Format::kText ? text_of(result, options, style)
                                                          : render(records, format, style);
  written &= tools::print_output("neuron-precheck", text);
  if (count(result.findings, Verdict::kFail) != 0) return tools::kUnhealthy;
  if (!written) return tools::kFailed;
  return all_busy(result.snapshot, options.devices) ? tools::kBusy : tools::kDone;
}
