// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_launch.h"

#include <atomic>
#include <cerrno>

#include "hw/fault.h"
#include "runtime/device/core_notes.h"
#include "runtime/device/core_trace.h"
#include "runtime/device/launch_debugger.h"
#include "runtime/observe/trace_clock.h"

namespace neuron::runtime {
namespace {

// The time between two checks of the ranks that a wait depends on, and the time that a wait
// continues after a rank is gone: the data that it had sent may be enough. Also the time between
// two looks at the other core of a virtual core of two.
constexpr uint64_t kLookAfterRanks = 100'000'000;
// The time between two readings of a core that is traced.
constexpr uint64_t kReadTraces = 2'000'000;

uint64_t now_ns() { return TraceClock::monotonic_ns(); }

}  // namespace

CoreLaunch::Times CoreLaunch::run(CoreLaunch& first, CoreLaunch* second, uint64_t limit_s) {
  const uint64_t begin = now_ns();
  const uint64_t until = begin + limit_s * 1'000'000'000ull;
  for (const CoreLaunch* launch : {&first, second}) {
    if (launch != nullptr && launch->watch_ != nullptr) launch->watch_->launch_begins();
  }
  if (first.core_.debugger != nullptr) [[unlikely]] {
    first.core_.debugger->begins();
  }
  // Grows with each launch, whichever process makes it.
  const uint64_t pair = second != nullptr && second->order_.has_code ? begin : 0;
  if (pair != 0) {
    first.other_ = second;
    second->other_ = &first;
  }
  if (second != nullptr) second->ring(false, pair);
  // This thread waits for the first core at once and so runs it; no other thread has to.
  first.ring(true, pair);
  first.await_end(begin, until);
  if (second != nullptr) second->await_end(begin, until);
  const Times times{.begin_ns = begin, .end_ns = now_ns()};
  for (const CoreLaunch* launch : {&first, second}) {
    if (launch != nullptr && launch->watch_ != nullptr) launch->watch_->launch_ended();
  }
  const bool failed = first.failed || (second != nullptr && second->failed);
  for (CoreLaunch* launch : {&first, second}) {
    if (launch == nullptr) continue;
    const neuron_completion_record& record = launch->core_.completion();
    if (!failed) launch->device_ps = record.end - record.start;
    launch->work = launch->core_.take_work();
    if (launch->core_.notes != nullptr) [[unlikely]] {
      launch->core_.notes->read();
    }
    if (launch->core_.trace != nullptr) [[unlikely]] {
      launch->core_.trace->end({.exec_id = launch->core_.executions,
                                .failed = failed,
                                .begin_ns = TraceClock::host_ns(begin),
                                .end_ns = TraceClock::host_ns(times.end_ns),
                                .device_ps = launch->device_ps,
                                .work = launch->work});
    }
    if (!failed) launch->read_report();
  }
  return times;
}

void CoreLaunch::ring(bool here, uint64_t pair) {
  neuron_launch_record& record = core_.launch();
  record.exec_id = ++core_.executions;
  record.binding = order_.binding_number;
  const bool rebind = core_.current_binding != order_.binding && order_.ring_entries != 0;
  record.flags = rebind ? NEURON_LAUNCH_REBIND : 0;
  record.ring_entries = rebind ? order_.ring_entries : 0;
  record.ring_table = order_.ring_table;
  record.time_limit = order_.time_limit_ps;
  record.work_record = core_.work_address();
  record.pair = pair;
  before_ = __atomic_load_n(&core_.completion().sequence, __ATOMIC_ACQUIRE);
  first_id_ = core_.executions;
  // Release: the record above is complete before the device sees the semaphore; its partner is the
  // load of the record by the SP program.
  std::atomic_thread_fence(std::memory_order_release);
  result =
      core_.device().port().write_register(core_.place().window_bar0() + NEURON_CORE_SEMAPHORES +
                                               NEURON_SEM_BLOCK_INC + NEURON_SEM_LAUNCH * 4,
                                           order_.count, here);
}

void CoreLaunch::read_traces() {
  if (core_.trace != nullptr) core_.trace->read();
  if (core_.peer != nullptr && core_.peer->trace != nullptr) core_.peer->trace->read();
}

// As the port's wait; the core of this launch, and that which runs with it, are read meanwhile.
int CoreLaunch::await_part(uint32_t* word, uint32_t before, uint64_t until) {
  ndl::DevicePort& port = core_.device().port();
  // bounded: each turn but the last takes some of the time until `until`.
  while (core_.trace != nullptr || core_.debugger != nullptr) {
    const uint64_t look = read_at_ + kReadTraces;
    if (look >= until) break;
    const int waited = port.wait(core_.number(), word, before, look);
    if (waited != 0) read_traces();
    if (waited != 0 && core_.debugger != nullptr && core_.debugger->look()) continue;
    if (waited != -ETIMEDOUT) return waited;
    read_at_ = now_ns();
  }
  return port.wait(core_.number(), word, before, until);
}

bool CoreLaunch::has_failed() const {
  const neuron_completion_record& record = core_.completion();
  return failed || (__atomic_load_n(&record.sequence, __ATOMIC_ACQUIRE) != before_ &&
                    record.status != NEURON_FAULT_NONE);
}

// Waits for a word of the device; -EOWNERDEAD: a rank that this one waits for has failed, or its
// process is gone; kOtherFailed.
int CoreLaunch::await_word(uint32_t* word, uint32_t before, uint64_t until) {
  bool gone = false;
  // bounded: each turn but the last takes some of the time until `until`.
  while (watch_ != nullptr || other_ != nullptr) {
    const uint64_t look = now_ns() + kLookAfterRanks;
    if (look >= until) break;
    const int waited = await_part(word, before, look);
    if (waited != -ETIMEDOUT) return waited;
    if (gone) return -EOWNERDEAD;
    if (other_ != nullptr && other_->has_failed()) return kOtherFailed;
    gone = watch_ != nullptr && watch_->lost_a_rank();
  }
  return await_part(word, before, until);
}

// Waits until all completion records are written, or one that reports a failure.
int CoreLaunch::await_completions(uint64_t until) {
  neuron_completion_record& record = core_.completion();
  uint32_t seen = 0;
  while (seen < order_.count) {
    const int waited = await_word(&record.sequence, before_ + seen, until);
    if (waited != 0) return waited;
    seen = __atomic_load_n(&record.sequence, __ATOMIC_ACQUIRE) - before_;
    // The rest of the last one is read at the end.
    if (seen < order_.count) read_traces();
    if (record.status == NEURON_FAULT_NONE) continue;
    // The status of a record may be visible before its sequence. The core answers a read after its
    // earlier writes, so the caller then reads a sequence that counts the failed execution.
    (void)core_.device().read_register(core_.place().window_bar0() + NEURON_CORE_CONTROL +
                                       NEURON_CORE_STATUS);
    break;
  }
  return 0;
}

void CoreLaunch::await_end(uint64_t begin, uint64_t until) {
  read_at_ = begin;
  const neuron_completion_record& record = core_.completion();
  if (result == 0) result = await_completions(until);
  failed = result != 0 || record.status != NEURON_FAULT_NONE;
  done = __atomic_load_n(&record.sequence, __ATOMIC_ACQUIRE) - before_;
  if (result == 0 && failed) --done;
  core_.executions = first_id_ + done - (failed ? 0 : 1);
  if (done != 0) core_.current_binding = order_.binding;
  if (failed && core_.debugger != nullptr) core_.debugger->failed();
}

// Reads what the engines wrote about their part of the last execution; a trace has read it.
void CoreLaunch::read_report() {
  if (core_.trace != nullptr) {
    busy_ps = core_.trace->busy_ps();
    retired = core_.trace->retired();
    return;
  }
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    neuron_notification entry;
    while (core_.completions[engine].next(entry)) {
      if (((entry.word >> NEURON_NW_KIND_SHIFT) & 0xF) != NEURON_NK_COMPLETE) continue;
      busy_ps[engine] = uint64_t{entry.info[1]} << 32 | entry.info[0];
      retired[engine] = entry.info[2];
    }
  }
}

}  // namespace neuron::runtime
