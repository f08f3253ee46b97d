// SPDX-License-Identifier: Apache-2.0
//
// What the runtime does for its callers, as events with a start and a stop: calls, loads,
// executions, and the model time in which a core ran.
//
// Concepts: a ring of events for each virtual core; of a full one the oldest goes and is counted.
// The events of a launch are one entry, which is unfolded when they are taken. It takes the place
// of the start of its call, if that is still the last entry. Events carry the host's time; those of
// a core also have its model time, which goes on over all executions of a trace. Callers: functions
// of the runtime add, nrt_sys_trace_* starts, stops and takes. Thread-safe: all functions. Without
// a trace, running() is one relaxed load and nothing else happens. Fails: start() while a trace
// runs, stop() without one. Adding cannot fail: an event for which there is no memory counts as
// dropped.
#ifndef RUNTIME_OBSERVE_SYSTEM_TRACE_H
#define RUNTIME_OBSERVE_SYSTEM_TRACE_H

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace neuron::runtime {

enum class TraceEvent : uint8_t {
  kExecute,
  kLoad,
  kUnload,
  kTensorRead,
  kTensorWrite,
  kTensorAllocate,
  kTensorFree,
  kScheduleExecution,
  kScheduleCollective,
  kExecutionBefore,
  kExecutionWait,
  kExecutionAfter,
  kCoreRunning,
  kCollectivesRunning,
  kSyncPoint,
};
inline constexpr size_t kTraceEvents = 15;

struct TraceEventName {
  const char* name;
  bool hardware;
};
const std::array<TraceEventName, kTraceEvents>& trace_event_names();

// What the original documents and this runtime never records, since it does not happen here. The
// names are accepted wherever events are chosen, as programs and recipes name them.
struct AbsentEventName {
  const char* name;
  bool hardware;
  const char* why;
};
std::span<const AbsentEventName> absent_event_names();

struct SystemTraceSettings {
  static constexpr uint32_t kMostCores = 256;

  uint64_t events_per_core = 1'000'000;
  std::bitset<kMostCores> cores = std::bitset<kMostCores>().set();
  std::bitset<kTraceEvents> events = std::bitset<kTraceEvents>().set();

  // "nrt_execute", "hardware", "software", "all", or one of these behind a ^, which turns the
  // meaning around; blanks around it count for nothing. False: there is no such name.
  bool enable(std::string_view name, bool enabled);
};

class SystemTrace {
 public:
  // The system's number of this thread.
  static uint32_t thread_number();

  // What an event says beside its name and time.
  struct Details {
    uint64_t id = 0;  // pairs start and stop
    uint32_t core = 0;
    std::string_view name;  // of the model or tensor
    std::optional<uint64_t> bytes;
    std::optional<uint64_t> core_ns;  // model time
    std::optional<uint64_t> exec_id;
    uint64_t host_ns = 0;  // 0: now
  };

  bool running() const { return running_.load(std::memory_order_relaxed); }
  // False: a trace runs already.
  bool start(const SystemTraceSettings& settings);
  // False: none runs. What it has recorded can still be taken.
  bool stop();

  // One launch on a core. Its events, up to 12, are kept as one entry until they are taken: most
  // never are.
  struct Launch {
    uint64_t id = 0;  // the first of kIdsOfLaunch
    uint32_t core = 0;
    uint32_t thread = 0;
    std::string_view model;
    bool collective = false;
    uint64_t exec_id = 0;
    uint64_t core_ps = 0;  // the model time at which it began, of advance()
    uint64_t device_ps = 0;
    // It was the last of a call of nrt_execute, which ended with it and whose id is the one before.
    bool ends_call = false;
    // What add() has given for the start of the call; 0: not the first launch of one.
    uint64_t call_entry = 0;
    // Times of the host: the call, the launch, its end, the end of the call. Of one that failed
    // before, launched_ns or ended_ns is 0.
    uint64_t begin_ns = 0, launched_ns = 0, ended_ns = 0, end_ns = 0;
  };
  void add(const Launch& launch) noexcept;
  static constexpr uint64_t kIdsOfLaunch = 4;
  // A core has run so long; returns its model time before. In the core's turn.
  uint64_t advance(uint32_t core, uint64_t device_ps) {
    CoreTime& time = core_times_[core % SystemTraceSettings::kMostCores];
    const uint64_t before = time.now_ps.load(std::memory_order_relaxed);
    time.now_ps.store(before + device_ps, std::memory_order_relaxed);
    // A trace that begins at this moment may begin behind this launch.
    const uint64_t begin = time.begin_ps.load(std::memory_order_relaxed);
    return before - std::min(before, begin);
  }

  uint64_t next_id(uint64_t count = 1) {
    return ids_.fetch_add(count, std::memory_order_relaxed) + 1;
  }
  // Returns the entry's number; 0: it is not kept.
  uint64_t add(TraceEvent event, bool start, const Details& details) noexcept;

  // Events of one core, or of all, as JSON; they are gone then. `most`: of each core.
  std::string take(std::optional<uint32_t> core, uint64_t most);
  // The number of events that can be taken.
  uint64_t waiting();
  // Events that were dropped since start().
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    uint64_t time = 0, id = 0;
    uint64_t bytes = 0, core_ns = 0, exec_id = 0;
    uint32_t thread = 0, name = 0;
    TraceEvent event = TraceEvent::kExecute;
    bool start = false, has_bytes = false, has_core_ns = false, has_exec_id = false;
    // Of a launch, which stands for several events: `time` is the beginning, `id` the first of its
    // ids, `bytes` the picoseconds of the core.
    bool is_launch = false, collective = false, begins_call = false, ends_call = false;
    uint8_t events = 1;  // how many it stands for
    uint64_t called = 0, launched = 0, ended = 0, end = 0;
  };
  static constexpr size_t kMostOfLaunch = 12;
  // The start of a call and the events of its launch, in their order.
  struct Unfolded {
    std::array<Entry, 1 + kMostOfLaunch> entries;
    size_t count = 0;
  };
  // Blocks of entries; what was taken makes room for what comes, also in the next trace.
  class Ring {
   public:
    // A place behind the last entry, which has any value.
    Entry& push();
    const Entry& front() const { return blocks_.front()[first_]; }  // the oldest
    // The entry of this number, if it is the last one; null otherwise.
    Entry* last(uint64_t number);
    uint64_t last_number() const { return pushed_; }
    // Removes so many of the oldest events; there are at least as many.
    void drop(uint64_t count);
    void clear();
    uint64_t dropped = 0;
    uint64_t events = 0;         // of all entries, but for those that are gone
    uint64_t gone_of_front = 0;  // events of the oldest entry, less than it has

   private:
    void pop();

    static constexpr size_t kBlock = 4096;
    std::deque<std::unique_ptr<Entry[]>> blocks_;
    std::vector<std::unique_ptr<Entry[]>> free_;
    size_t first_ = 0;  // within the first block
    size_t count_ = 0;
    uint64_t pushed_ = 0;  // also before clear()
  };
  // Under mutex_.
  bool wanted(TraceEvent event) const { return settings_.events.test(static_cast<size_t>(event)); }
  // Null: nothing is kept of this core.
  Ring* ring_of(uint32_t core);
  // The oldest go if there is no room for so many events.
  void make_room(Ring& ring, uint64_t events);
  // The place of an entry of so many events, which has any value.
  Entry& room_for(Ring& ring, uint64_t events);
  uint64_t add_event(TraceEvent event, bool start, const Details& details);
  void add_launch(const Launch& launch);
  // Calls `add`; without memory, `events` are dropped instead.
  template <class Add>
  void add_or_drop(uint64_t events, Add&& add) noexcept;
  void unfold(const Entry& launch, Unfolded& into) const;
  uint64_t events_of(const Launch& launch) const;
  // The name is shared, since another trace may begin before the event is text.
  struct Taken {
    Entry entry;
    std::shared_ptr<const std::string> name;  // null: none
  };
  // Takes the oldest; returns how many were dropped since it was last called.
  uint64_t take_some(Ring& ring, uint64_t most, std::vector<Taken>& taken);
  static void append(std::string& out, uint32_t core, const Taken& taken);

  std::atomic<bool> running_{false};
  std::atomic<uint64_t> ids_{0};
  std::atomic<uint64_t> without_memory_{0};  // dropped since the last take()
  std::atomic<uint64_t> dropped_{0};         // since start(), for whatever reason
  // Written by whoever has the core's turn, and by start().
  struct CoreTime {
    std::atomic<uint64_t> now_ps{0};    // goes on over all traces
    std::atomic<uint64_t> begin_ps{0};  // when the trace began
  };
  std::array<CoreTime, SystemTraceSettings::kMostCores> core_times_;
  std::mutex mutex_;  // everything below
  SystemTraceSettings settings_;
  std::array<std::unique_ptr<Ring>, SystemTraceSettings::kMostCores> rings_;
  uint32_t name_number(std::string_view name);

  std::vector<std::shared_ptr<const std::string>> names_;
  uint32_t last_name_ = 0;
  std::map<std::string, uint32_t, std::less<>> name_numbers_;
};

// An event from its beginning to the end of a scope.
class TraceSpan {
 public:
  TraceSpan(SystemTrace& trace, TraceEvent event, const SystemTrace::Details& details)
      : trace_(trace.running() ? &trace : nullptr), event_(event), details_(details) {
    if (trace_ == nullptr) return;
    details_.id = trace.next_id();
    trace.add(event, true, details_);
  }
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->add(event_, false, details_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  SystemTrace* const trace_;
  const TraceEvent event_;
  SystemTrace::Details details_;
};

}  // namespace neuron::runtime

#endif
