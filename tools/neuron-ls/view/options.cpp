// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-ls/view/options.h"

#include "tools/common/command_line.h"

namespace neuron::ls {

void declare(tools::Command& line, Options& options) {
  line.flag("-w,--wide", options.wide,
            "wider table: 80 instead of 40 characters of a command; memory used, state, and of "
            "each process its user, cores, memory and since when it holds the device");
  line.flag("-a,--show-all-procs", options.all, "also processes without a runtime record");
  line.flag("-t,--topology", options.topology, "draw the interconnect behind the table");
  line.flag("-j,--json-output", options.json,
            "the JSON array of earlier versions instead of the table");
  tools::add_format_option(line, options.format);
  line.option("--query", options.query,
              "fields of each device, in this order; the fields that exist are in the manual")
      .separated_by(',')
      .value_name("FIELD,...");
  line.flag("--matrix", options.matrix,
            "how each device reaches each other: links, hops, theoretical bandwidth, NUMA and "
            "network devices");
  line.flag("--measure", options.measure,
            "with --matrix: measure the links with nccom-test, which must get all cores to "
            "itself");
  line.flag("--check", options.check, "exit status 5 and a sentence if a device is not healthy");
  line.option("--watch", options.watch_seconds, "show it again every so many seconds")
      .between(0.1, 86400.0)
      .value_name("SECONDS");
  line.option("--count", options.count, "with --watch: so many times, then end");
  line.option("--timeout", options.timeout_ms,
              "milliseconds after which a device that does not answer is given up")
      .between(10u, 60000u)
      .with_default();
  tools::add_color_option(line, options.color);
}

std::string conflict(const Options& options) {
  const bool machine = options.format != tools::Format::kText;
  if (options.json && (machine || !options.query.empty() || options.matrix)) {
    return "-j is the output of earlier versions; leave out --format, --query and --matrix, or -j";
  }
  if (options.topology && (machine || options.json)) {
    return "--topology is a drawing; for programs there is --matrix --format json";
  }
  if (options.matrix && !options.query.empty()) {
    return "--matrix and --query print different records; give one of them";
  }
  if (options.measure && !options.matrix) return "--measure fills a matrix: give --matrix, too";
  if (options.measure && options.watch_seconds) {
    return "--measure occupies all cores; leave out --watch";
  }
  if (options.count != 0 && !options.watch_seconds) return "--count is of --watch";
  return {};
}

telemetry::Wanted wanted_of(const Options& options) {
  const bool machine = options.format != tools::Format::kText || !options.query.empty();
  telemetry::Wanted wanted;
  wanted.all_processes = options.all;
  wanted.hardware = options.wide || options.check || machine;
  wanted.host = false;
  wanted.network = options.matrix || machine;
  return wanted;
}

}  // namespace neuron::ls
