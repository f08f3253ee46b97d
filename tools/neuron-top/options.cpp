// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/options.h"

#include "tools/common/command_line.h"

namespace neuron::top {
namespace {

tools::Manual manual() {
  return {
      .name = "neuron-top",
      .summary = "watch Neuron cores, memory and the processes that use them",
      .description =
          R"(Shows the cores of all devices with their utilization, the processors of the host, memory by what
holds it, and, one pane at a time, a tree of the memory, the processes, and what each engine does. The
keys of earlier tools hold; `?` lists all of them. Small terminals get a smaller picture.

What ails a device, as an engine that hangs or a link that is down, is told above the cores, and behind
the device's own where there is room.

It takes no process slot of a device, and changes nothing. Without a device, or when a daemon ends, the
screen says why, and looks again each interval.)",
      .sections =
          {{"MEMORY",
            R"(Two numbers tell of the memory of devices.

Device Used Memory :: What the runtimes of the processes (of one process, in its tab) say that they use, by what
it holds: tensors, constants, code. The tree has the same numbers.

HBM in use :: What the driver has given out of the memory of all devices: the above, what the driver has for
itself (rings, notifications), and what processes have that keep no record.

A line that is too narrow for all of its numbers leaves the last ones out; `e` shows the engines of each core.)"},
           {"FORMATS",
            R"(`--format json`, `ndjson` and `csv` have a record for each logical core (schema neuron-top); json
also has the processes. `--iterations` gives so many reports, without it there is one, and with
ndjson no end. Of several, each json document is one line, and csv has its headings once.

`--record FILE` keeps every snapshot as one line of JSON, which `--replay FILE` shows again: space
stops it, comma and full stop go back and forward.)"}},
      .exit_statuses = {tools::kDoneStatus,
                        {1, "there is no terminal, or a file cannot be read or written"},
                        tools::kUsageStatus},
      .environment = {tools::kEmulatorVariable, tools::kNoColorVariable},
      .examples = {{"neuron-top", "watch"},
                   {"neuron-top --once --width 120 --height 40", "one picture, as text"},
                   {"neuron-top --format ndjson --iterations 10 --interval 500ms",
                    "ten records of each core, for a program"}},
      .see_also = {"neuron-ls(1)", "neuron-monitor(1)"}};
}

// "500ms", "2s", "2": positive, at most a minute.
std::string read_interval(const std::string& text, std::chrono::milliseconds& interval) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double factor = unit.empty() || unit == "s" ? 1000 : unit == "ms" ? 1 : 0;
  const double milliseconds = value * factor;
  if (end == text.c_str() || !(milliseconds >= 50) || milliseconds > 60'000) {
    return "found '" + text + "', expected 50ms to 60s (2, 2s, 500ms)";
  }
  interval = std::chrono::milliseconds(static_cast<long>(milliseconds));
  return "";
}

}  // namespace

std::optional<int> read_options(int argc, char** argv, Options& options) {
  tools::CommandLine line(manual());
  tools::add_format_option(line, options.format);
  tools::add_color_option(line, options.color);
  line.flag("--once", options.once, "print one picture as text, and end");
  line.option("--iterations", options.iterations, "end after so many pictures or reports")
      .between(1u, 1'000'000'000u);
  line.parsed(
          "--interval",
          [&](const std::string& text) { return read_interval(text, options.interval); },
          "time between looks: 2s, 500ms")
      .with_default("1s");
  line.option("--width", options.width, "columns of --once").between(1, 1000);
  line.option("--height", options.height, "lines of --once").between(1, 1000);
  line.flag("--ascii", options.ascii, "no character beyond ASCII");
  line.option("--palette", options.palette, "colours")
      .one_of({"standard", "color-blind", "none"})
      .with_default("standard");
  line.flag("--no-mouse", options.no_mouse, "leave the mouse to the terminal");
  tools::Option record =
      line.option("--record", options.record, "keep every snapshot in FILE").value_name("FILE");
  line.option("--replay", options.replay, "show what was recorded in FILE")
      .value_name("FILE")
      .excludes(record);
  return line.parse(argc, argv);
}

}  // namespace neuron::top
