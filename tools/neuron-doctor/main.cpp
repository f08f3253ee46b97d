// SPDX-License-Identifier: Apache-2.0
// neuron-doctor: says why Neuron devices do not work here, and what to do.
#include <cstdio>
#include <cstdlib>

#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/neuron-doctor/checks/check.h"
#include "tools/neuron-doctor/manual.h"
#include "tools/telemetry/source.h"

int main(int argc, char** argv) {
  namespace tools = neuron::tools;
  using namespace neuron::doctor;
  tools::CommandLine line(manual());
  tools::Format format = tools::Format::kText;
  tools::ColorMode color = tools::ColorMode::kAuto;
  bool check = false, problems = false;
  unsigned timeout_ms = 2000;
  line.flag("--check", check, "exit status 5 if something has failed");
  line.flag("--problems", problems, "only what is wrong, in text");
  tools::add_format_option(line, format);
  line.option("--timeout", timeout_ms,
              "milliseconds after which a device that does not answer is given up")
      .between(10u, 60000u)
      .with_default();
  tools::add_color_option(line, color);
  if (const auto status = line.parse(argc, argv)) return *status;

  const tools::Style style = tools::style_of(STDOUT_FILENO, color);
  Host host = this_host();
  // The library's own log would repeat what is printed here.
  setenv("NEURON_RT_LOG_LEVEL_NRT", "QUIET", 0);
  neuron::telemetry::Wanted wanted;
  wanted.all_processes = true;
  wanted.network = true;
  host.snapshot =
      neuron::telemetry::open_host_source()->take(wanted, std::chrono::milliseconds(timeout_ms));
  const Checks checks = check_all(host);
  const std::string text = format == tools::Format::kText
                               ? text_of(checks, problems, style)
                               : render(records_of(checks, host), format, style);
  if (!tools::print_output("neuron-doctor", text)) return tools::kFailed;
  return check && count(checks, Verdict::kFail) != 0 ? tools::kUnhealthy : tools::kDone;
}
