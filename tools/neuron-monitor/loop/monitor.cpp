// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/loop/monitor.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace neuron::monitor {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

// The time limit of each device: one that does not answer delays a report by at most this.
constexpr auto kPerDevice = 200ms;
// The time that the reader of a single report may take.
constexpr std::chrono::milliseconds kLastReport = 10s;
// While a reader holds up the loop, it checks this often whether it must end.
constexpr std::chrono::milliseconds kGlance = 100ms;

}  // namespace

Monitor::Monitor(const Configuration& configuration, telemetry::Source& source,
                 const Outlets& outlets, const LoopOptions& options, Sleep sleep)
    : observer_(configuration),
      source_(source),
      outlets_(outlets),
      options_(options),
      sleep_(std::move(sleep)),
      idle_period_(configuration.period) {}

SnapshotPointer Monitor::take(const telemetry::Wanted& wanted) {
  return std::make_shared<const telemetry::Snapshot>(source_.take(wanted, kPerDevice));
}

void Monitor::tell_changes(const Observation& observation) {
  if (options_.verbosity >= 1) {
    std::string error = observation.info.error;
    if (observation.hardware && observation.hardware->error != error) {
      error += (error.empty() ? "" : "; ") + observation.hardware->error;
    }
    if (error != last_error_ && (observation.hardware || !observation.info.error.empty())) {
      std::fprintf(stderr, "neuron-monitor: %s\n",
                   error.empty() ? "all devices answer again" : error.c_str());
      last_error_ = error;
    }
  }
  if (options_.verbosity >= 2 && observation.alive) {
    for (const ProcessKey& key : *observation.alive) {
      if (last_processes_.count(key) == 0) {
        std::fprintf(stderr, "neuron-monitor: process %d is there\n", key.first);
      }
    }
    for (const ProcessKey& key : last_processes_) {
      if (observation.alive->count(key) == 0) {
        std::fprintf(stderr, "neuron-monitor: process %d has gone\n", key.first);
      }
    }
    last_processes_ = *observation.alive;
  }
}

std::optional<End> Monitor::stream_ended() {
  const int failure = outlets_.stream->failure();
  if (failure == 0) return std::nullopt;
  // A reader that has closed the pipe is not an error; a full disk is.
  const bool reader_gone = failure == EPIPE;
  if (!reader_gone) {
    std::fprintf(
        stderr, "neuron-monitor: cannot write to standard output: %s; the last line may be cut%s\n",
        std::strerror(failure), outlets_.board ? "; metrics are served without the stream" : "");
  }
  outlets_.stream = nullptr;
  if (outlets_.board != nullptr) return std::nullopt;
  return reader_gone ? End::kReaderGone : End::kStreamFailed;
}

std::optional<End> Monitor::publish(const Observation& observation) {
  if (outlets_.board != nullptr) {
    outlets_.board->update(observation);
    if (outlets_.exporter != nullptr) outlets_.exporter->notify();
  }
  if (outlets_.stream == nullptr) return std::nullopt;
  std::string report = format_report(observation, options_.style);
  if (options_.verbosity >= 3) {
    std::fprintf(stderr, "neuron-monitor: report of %zu bytes, %zu processes\n", report.size(),
                 observation.runtimes.size());
  }
  if (!outlets_.stream->push(std::move(report)) && outlets_.stream->failure() == 0 &&
      left_out_++ == 0) {
    std::fprintf(
        stderr,
        "neuron-monitor: the reader of standard output does not keep up; reports are left out\n");
  }
  // An error of this report is then known now and not a period later, unless the reader is slow.
  outlets_.stream->finish(options_.once ? kLastReport : kGlance / 5);
  return stream_ended();
}

End Monitor::run() {
  std::vector<Duration> periods = observer_.periods();
  // A report without groups still describes the hardware.
  const bool idle = periods.empty();
  if (idle) periods.push_back(idle_period_);
  observer_.start(take({}));
  Schedule schedule(std::move(periods), steady_clock::now());
  // bounded: by sleep_, which says when to end
  while (sleep_(schedule.next())) {
    // If the stream is the only outlet, a slow reader makes periods longer, so that no report is
    // lost.
    if (outlets_.board == nullptr && outlets_.stream != nullptr &&
        !outlets_.stream->wait_for_room(kGlance)) {
      continue;
    }
    if (outlets_.stream != nullptr) {
      if (const auto end = stream_ended()) return *end;
    }
    const auto start = steady_clock::now();
    auto due = schedule.take_due(start);
    if (due.empty()) continue;
    if (idle) due.clear();
    const SnapshotPointer snapshot = take(observer_.wanted(due));
    const Observation observation = observer_.observe(snapshot, due);
    tell_changes(observation);
    if (const auto end = publish(observation)) return *end;
    if (options_.verbosity >= 4) {
      std::fprintf(stderr, "neuron-monitor: measured and reported in %.1f ms\n",
                   std::chrono::duration<double, std::milli>(steady_clock::now() - start).count());
    }
    if (options_.once) break;
  }
  return End::kStopped;
}

}  // namespace neuron::monitor
