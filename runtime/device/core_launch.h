// SPDX-License-Identifier: Apache-2.0
//
// One launch of a core: its record, the doorbell, the wait, and the core's report. Callers: the
// executor, which holds the turn of the core. Thread-safe: no. Borrows the core and the watch.
// Fails: never by itself; `result` is the driver's result, and the completion record of the core
// holds the fault.
#ifndef RUNTIME_DEVICE_CORE_LAUNCH_H
#define RUNTIME_DEVICE_CORE_LAUNCH_H

#include <array>
#include <cerrno>
#include <cstdint>

#include "runtime/device/core.h"

namespace neuron::runtime {

// Tells a wait whether the ranks that the core may wait for are still there.
class RankWatch {
 public:
  virtual ~RankWatch() = default;
  // A rank has failed, or its process is gone. May ask the system; any thread.
  virtual bool lost_a_rank() const = 0;
  // Around a launch: meanwhile messages to and from ranks of other instances are carried.
  virtual void launch_begins() const {}
  virtual void launch_ended() const {}
};

// The parameters of a launch.
struct LaunchOrder {
  uint32_t count = 1;             // executions, which the core runs one after the other
  const void* binding = nullptr;  // compared with that of the last launch
  uint32_t binding_number = 0;
  uint64_t ring_table = 0;  // address and entries of the rings' table
  uint32_t ring_entries = 0;
  uint64_t time_limit_ps = 0;  // of one execution, in model time
  bool has_code = true;        // of its own: without, it meets no other core
};

class CoreLaunch {
 public:
  // `watch`: null if the core waits for no rank.
  CoreLaunch(Core& core, const LaunchOrder& order, const RankWatch* watch)
      : core_(core), order_(order), watch_(watch) {}

  // Launches `first`, and `second` where the virtual core has two, and waits until both have ended,
  // failed, or taken `limit_s` seconds. The times are of the monotonic clock.
  struct Times {
    uint64_t begin_ns = 0, end_ns = 0;
    uint64_t taken() const { return end_ns - begin_ns; }
  };
  static Times run(CoreLaunch& first, CoreLaunch* second, uint64_t limit_s);

  // Waiting ended because the other core of the virtual core has failed.
  static constexpr int kOtherFailed = -ECANCELED;

  // Valid after run().
  int result = 0;       // of the driver; -EOWNERDEAD: a rank is lost, -EDEADLK: nothing can advance
  bool failed = false;  // by `result` or by the status of the completion record
  uint32_t done = 0;    // executions that succeeded
  neuron_work_record work{};
  // Of the last execution, if nothing failed.
  uint64_t device_ps = 0;
  std::array<uint64_t, NEURON_CORE_ENGINES> busy_ps{};
  std::array<uint32_t, NEURON_CORE_ENGINES> retired{};

 private:
  void ring(bool here, uint64_t pair);
  void await_end(uint64_t begin, uint64_t until);
  bool has_failed() const;
  void read_report();
  void read_traces();
  int await_part(uint32_t* word, uint32_t before, uint64_t until);
  int await_word(uint32_t* word, uint32_t before, uint64_t until);
  int await_completions(uint64_t until);

  Core& core_;
  const LaunchOrder& order_;
  const RankWatch* watch_;
  const CoreLaunch* other_ = nullptr;  // of the other core of a virtual core of two
  uint64_t read_at_ = 0;               // when what is traced was last looked at, or the launch
  uint32_t before_ = 0;                // completions, when it was launched
  uint32_t first_id_ = 0;              // of the executions
};

}  // namespace neuron::runtime

#endif
