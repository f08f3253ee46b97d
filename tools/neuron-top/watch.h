// SPDX-License-Identifier: Apache-2.0
//
// The loop of neuron-top: takes snapshots of the host or a recording, keeps what differences and
// the history need, and shows them. Callers: main(), one thread. Fails: the exit status; sentences
// are on standard error.
#ifndef TOOLS_NEURON_TOP_WATCH_H
#define TOOLS_NEURON_TOP_WATCH_H

#include <deque>
#include <optional>

#include "tools/neuron-top/model/view.h"
#include "tools/neuron-top/options.h"
#include "tools/neuron-top/recording.h"
#include "tools/telemetry/source.h"

namespace neuron::top {

class Watch {
 public:
  explicit Watch(const Options& options) : options_(options) {}
  int run();

 private:
  bool look();  // the next snapshot; false: the recording is at its end
  bool look_at(size_t index);
  void take(telemetry::Snapshot next);
  void remember();
  View view() const;
  int run_batch();
  int run_screen();
  bool print(tools::Place place);  // one report; false: nobody reads it any more
  std::string position() const;    // "replay 3/120 12:00:01"

  const Options& options_;
  std::unique_ptr<telemetry::Source> source_;
  std::optional<Replay> replay_;
  Recorder recorder_;
  size_t index_ = 0;  // of the replay's next record
  std::optional<telemetry::Snapshot> before_, now_;
  Interval interval_;
  State state_;
  std::deque<double> history_;
  std::string trouble_;  // of the recording
};

}  // namespace neuron::top

#endif
