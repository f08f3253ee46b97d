// SPDX-License-Identifier: Apache-2.0
// neuron-ls: lists the Neuron devices of this host. Text and -j are those of the original, so that
// scripts keep working; --format has more.
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "tools/common/command_line.h"
#include "tools/common/json_text.h"
#include "tools/common/output.h"
#include "tools/neuron-doctor/checks/access.h"
#include "tools/neuron-ls/manual.h"
#include "tools/neuron-ls/measure.h"
#include "tools/neuron-ls/view/document.h"
#include "tools/neuron-ls/view/inventory.h"
#include "tools/neuron-ls/view/matrix.h"
#include "tools/neuron-ls/view/options.h"
#include "tools/telemetry/health.h"

namespace {

using neuron::ls::Measured;
using neuron::ls::Options;
using neuron::telemetry::Snapshot;
namespace tools = neuron::tools;

constexpr unsigned kMeasureSeconds = 900;

volatile std::sig_atomic_t interrupted = 0;

void interrupt(int) { interrupted = 1; }

neuron::doctor::Access look_for_devices() {
  return neuron::doctor::look_for_devices(neuron::doctor::places_of_environment());
}

// True if this user may not query any of the devices: a table of them would be empty.
bool is_forbidden(const Snapshot& snapshot) {
  return std::all_of(
             snapshot.devices.begin(), snapshot.devices.end(),
             [](const neuron::telemetry::Device& device) { return !device.error.empty(); }) &&
         look_for_devices().obstacle == neuron::doctor::Obstacle::kNoPermission;
}

// Prints the line of the original, in the form of its logs; scripts look for it. The text behind
// `cause` is for people.
int print_fatal(const Snapshot& snapshot) {
  const neuron::doctor::Access access = look_for_devices();
  std::string sentence = access.found.empty() ? snapshot.error : access.found;
  if (sentence.empty()) sentence = "there is no Neuron device";
  if (!access.action.empty()) sentence += "; " + access.action;
  // The sentence stands between quotes.
  sentence = tools::printable(sentence);
  for (char& c : sentence) {
    if (c == '"') c = '\'';
  }
  char time_text[64];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(time_text, sizeof time_text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  std::fprintf(stderr,
               "time=\"%s\" level=fatal msg=\"Failed to load MLA system information\" "
               "error=\"failed to discover "
               "Neuron devices\" cause=\"%s\"\n",
               time_text, sentence.c_str());
  return neuron::doctor::exit_status(access.obstacle);
}

std::string format_text(const Snapshot& snapshot, const Options& options,
                        const std::vector<Measured>& measured, const tools::Style& style) {
  const neuron::ls::Inventory inventory = neuron::ls::make_inventory(snapshot);
  std::string text;
  const auto line = [&text](const char* key, const std::string& value) {
    if (!value.empty()) text += std::string(key) + ": " + value + "\n";
  };
  line("instance-type", inventory.instance_type);
  line("instance-id", inventory.instance_id);
  const unsigned logical_size = inventory.devices.front().logical_size;
  if (logical_size != 0) line("logical-neuroncore-config", std::to_string(logical_size));
  if (options.wide) {
    line("driver-version", snapshot.versions.driver);
    line("runtime-version", snapshot.versions.runtime);
  }
  text += format_table(inventory, options.wide);
  text += neuron::ls::format_illnesses(snapshot);
  if (options.topology) text += format_topology(inventory, style.unicode);
  if (options.matrix) text += format_matrix(snapshot, measured, style);
  return text;
}

std::string show(const Snapshot& snapshot, const Options& options,
                 const std::vector<Measured>& measured, const tools::Style& style,
                 tools::Place place) {
  if (options.json) return format_json(neuron::ls::make_inventory(snapshot));
  if (options.matrix && options.format != tools::Format::kText) {
    const tools::Records records = neuron::ls::matrix_records(snapshot, measured);
    return render(records, options.format, style, place);
  }
  if (!options.query.empty() || options.format == tools::Format::kNdjson ||
      options.format == tools::Format::kCsv) {
    tools::Records records;
    std::string error;
    neuron::ls::query_devices(snapshot, options.query, records, error);
    return render(records, options.format, style, place);
  }
  if (options.format == tools::Format::kJson) {
    const unsigned indent = place == tools::Place::kAlone ? 4 : 0;
    return tools::json_text(make_document(snapshot, measured), indent) + "\n";
  }
  return format_text(snapshot, options, measured, style);
}

// Reports unhealthy devices on standard error; returns the matching exit status.
int complain(const Snapshot& snapshot, const Options& options) {
  int status = tools::kDone;
  for (const neuron::telemetry::Device& device : snapshot.devices) {
    if (!options.check) {
      if (!device.error.empty()) {
        std::fprintf(stderr, "neuron-ls: device %u: %s\n", device.index,
                     tools::printable(device.error).c_str());
      }
      continue;
    }
    for (const neuron::telemetry::Ailment& ailment : neuron::telemetry::ailments(device)) {
      if (!ailment.fatal) continue;
      status = tools::kUnhealthy;
      std::fprintf(stderr, "neuron-ls: device %u: %s; %s\n", device.index,
                   tools::printable(ailment.what).c_str(), ailment.action.c_str());
    }
  }
  return status;
}

int show_once(neuron::telemetry::Source& source, const Options& options, const tools::Style& style,
              tools::Place place) {
  const Snapshot snapshot =
      source.take(wanted_of(options), std::chrono::milliseconds(options.timeout_ms));
  if (snapshot.devices.empty() || is_forbidden(snapshot)) return print_fatal(snapshot);
  std::vector<Measured> measured;
  std::string error;
  if (options.measure && !neuron::ls::measure_links(snapshot, kMeasureSeconds, measured, error)) {
    std::fprintf(stderr, "neuron-ls: %s\n", error.c_str());
    return tools::kFailed;
  }
  std::string text = show(snapshot, options, measured, style, place);
  // From the top of the screen: a table that is repeated must not scroll.
  if (options.watch_seconds && options.format == tools::Format::kText && style.color) {
    text = "\033[H\033[2J" + text;
  }
  const int status = complain(snapshot, options);
  return tools::print_output("neuron-ls", text) ? status : tools::kFailed;
}

int watch(neuron::telemetry::Source& source, const Options& options, const tools::Style& style) {
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  const auto period = static_cast<long long>(*options.watch_seconds * 1e9);
  timespec next{};
  clock_gettime(CLOCK_MONOTONIC, &next);
  int status = tools::kDone;
  for (unsigned shown = 0; interrupted == 0; ++shown) {
    if (options.count != 0 && shown == options.count) break;
    if (shown != 0) {
      const long long nanoseconds = next.tv_nsec + period;
      next.tv_sec += nanoseconds / 1'000'000'000;
      next.tv_nsec = nanoseconds % 1'000'000'000;
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
      if (interrupted != 0) break;
    }
    // Devices may come and go; the loop ends only if the reader is gone.
    status =
        show_once(source, options, style, shown == 0 ? tools::Place::kFirst : tools::Place::kLater);
    if (std::ferror(stdout) != 0) break;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine line(neuron::ls::manual());
  Options options;
  declare(line, options);
  if (const auto status = line.parse(argc, argv)) {
    return *status;
  }
  std::string wrong = conflict(options);
  tools::Records none;
  if (wrong.empty()) neuron::ls::query_devices({}, options.query, none, wrong);
  if (!wrong.empty()) {
    std::fprintf(stderr, "neuron-ls: %s\n", wrong.c_str());
    return tools::kWrongUsage;
  }
  // Each thread, one for each device, would start with a heap of its own, at the cost of a third of
  // the run time.
  mallopt(M_ARENA_MAX, 1);
  const tools::Style style = tools::style_of(STDOUT_FILENO, options.color);
  // The library's own log would repeat what is printed here.
  setenv("NEURON_RT_LOG_LEVEL_NRT", "QUIET", 0);
  const auto source = neuron::telemetry::open_host_source();
  return options.watch_seconds ? watch(*source, options, style)
                               : show_once(*source, options, style, tools::Place::kAlone);
}
