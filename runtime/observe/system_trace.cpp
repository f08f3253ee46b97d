// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/system_trace.h"

#include <unistd.h>

#include <algorithm>

#include "driver/base/format.h"
#include "driver/base/guarded.h"
#include "driver/base/json_text.h"
#include "runtime/observe/trace_clock.h"

namespace neuron::runtime {
namespace {

using base::format;

constexpr uint32_t kMostNames = 4096;
constexpr uint64_t kTakenAtOnce = 512;

bool matches(size_t event, std::string_view name) {
  const TraceEventName& known = trace_event_names()[event];
  if (name == "all") return true;
  if (name == "hardware") return known.hardware;
  if (name == "software") return !known.hardware;
  return name == known.name;
}

}  // namespace

const std::array<TraceEventName, kTraceEvents>& trace_event_names() {
  static constexpr std::array<TraceEventName, kTraceEvents> kNames = {{
      {"nrt_execute", false},
      {"nrt_load", false},
      {"nrt_unload", false},
      {"nrt_tensor_read", false},
      {"nrt_tensor_write", false},
      {"nrt_tensor_allocate", false},
      {"nrt_tensor_free", false},
      {"nrta_execute_schedule", false},
      {"nrta_cc_schedule", false},
      {"kbl_exec_pre", false},
      {"kbl_exec_wait", false},
      {"kbl_exec_post", false},
      {"nc_exec_running", true},
      {"cc_running", true},
      {"timestamp_sync_point", true},
  }};
  return kNames;
}

std::span<const AbsentEventName> absent_event_names() {
  static constexpr AbsentEventName kNames[] = {
      {"nrt_model_submit", false, "nrt_execute hands a launch to the device itself"},
      {"model_load", false, "an older name of nrt_load"},
      {"runtime_execute", false, "an older name of nrt_execute"},
      {"dmem_buf_copyin", false, "a copy to the device is one step of nrt_tensor_write"},
      {"dmem_buf_copyout", false, "a copy from the device is one step of nrt_tensor_read"},
      {"nrt_dma_mem_alloc", false, "memory for rings is allocated within nrt_load"},
      {"nrt_dma_mem_dealloc", false, "memory for rings is freed within nrt_unload"},
      {"nrt_async_sema_wait", false, "requests of queues wait for no semaphores of the host"},
      {"tensor_block_while_exec", false, "tensor calls wait for no execution"},
      {"nrt_profile_add_node_info", false, "profiles have no information about nodes"},
      {"notification_consume_errors", false, "errors are read from completion records"},
      {"cc_exec_barrier", true, "ranks meet within cc_running"},
      {"numerical_err", true, "a NaN that is looked for fails the execution"},
      {"nrt_model_switch", true, "models change within kbl_exec_pre"},
      {"nc_model_switch", true, "models change within kbl_exec_pre"},
      {"hw_notify", true, "what programs notify goes to debug streams"},
  };
  return kNames;
}

uint32_t SystemTrace::thread_number() {
  static thread_local const auto number = static_cast<uint32_t>(gettid());
  return number;
}

bool SystemTraceSettings::enable(std::string_view name, bool enabled) {
  constexpr std::string_view kBlanks = " \t";
  const auto without_blanks = [&] {
    name.remove_prefix(std::min(name.find_first_not_of(kBlanks), name.size()));
    name.remove_suffix(name.size() - 1 - std::min(name.find_last_not_of(kBlanks), name.size() - 1));
  };
  if (!name.empty()) without_blanks();
  if (!name.empty() && name.front() == '^') {
    name.remove_prefix(1);
    enabled = !enabled;
    if (!name.empty()) without_blanks();
  }
  bool found = std::ranges::any_of(
      absent_event_names(), [&](const AbsentEventName& absent) { return name == absent.name; });
  for (size_t event = 0; event < kTraceEvents; ++event) {
    if (!matches(event, name)) continue;
    events.set(event, enabled);
    found = true;
  }
  return found;
}

bool SystemTrace::start(const SystemTraceSettings& settings) {
  const std::lock_guard lock(mutex_);
  if (running()) return false;
  settings_ = settings;
  for (auto& ring : rings_) {
    if (ring != nullptr) ring->clear();
  }
  for (CoreTime& time : core_times_) {
    time.begin_ps.store(time.now_ps.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  names_.clear();
  name_numbers_.clear();
  dropped_.store(0, std::memory_order_relaxed);
  without_memory_.store(0, std::memory_order_relaxed);
  running_.store(true, std::memory_order_relaxed);
  return true;
}

bool SystemTrace::stop() { return running_.exchange(false, std::memory_order_relaxed); }

// Neighbouring events are often of one model or tensor.
uint32_t SystemTrace::name_number(std::string_view name) {
  if (last_name_ < names_.size() && *names_[last_name_] == name) return last_name_;
  const auto known = name_numbers_.find(name);
  if (known != name_numbers_.end()) return last_name_ = known->second;
  if (names_.size() >= kMostNames) return UINT32_MAX;
  last_name_ = static_cast<uint32_t>(names_.size());
  name_numbers_.emplace(name, last_name_);
  names_.push_back(std::make_shared<const std::string>(name));
  return last_name_;
}

SystemTrace::Entry& SystemTrace::Ring::push() {
  const size_t at = first_ + count_;
  if (at == blocks_.size() * kBlock) {
    if (free_.empty()) free_.push_back(std::make_unique_for_overwrite<Entry[]>(kBlock));
    blocks_.push_back(std::move(free_.back()));
    free_.pop_back();
    free_.reserve(free_.size() + blocks_.size());  // removing events must not need memory
  }
  Entry* const place = &blocks_[at / kBlock][at % kBlock];
  // A ring is longer than what a cache keeps until its turn comes again. One that ends here is
  // looked at in vain.
  for (size_t line = 0; line < 3; ++line) {
    __builtin_prefetch(reinterpret_cast<const char*>(place + 1) + 64 * line, 1);
  }
  ++count_;
  ++pushed_;
  return *place;
}

SystemTrace::Entry* SystemTrace::Ring::last(uint64_t number) {
  if (number != pushed_ || count_ == 0) return nullptr;
  const size_t at = first_ + count_ - 1;
  return &blocks_[at / kBlock][at % kBlock];
}

void SystemTrace::Ring::pop() {
  --count_;
  if (++first_ < kBlock) return;
  first_ = 0;
  free_.push_back(std::move(blocks_.front()));
  blocks_.pop_front();
}

void SystemTrace::Ring::clear() {
  for (auto& block : blocks_) free_.push_back(std::move(block));
  blocks_.clear();
  first_ = count_ = 0;
  dropped = events = gone_of_front = 0;
}

void SystemTrace::Ring::drop(uint64_t count) {
  events -= count;
  // bounded: by the entries
  while (count != 0) {
    const uint64_t left = front().events - gone_of_front;
    if (count < left) {
      gone_of_front += count;
      return;
    }
    count -= left;
    gone_of_front = 0;
    pop();
  }
}

SystemTrace::Ring* SystemTrace::ring_of(uint32_t core) {
  if (core >= SystemTraceSettings::kMostCores || !settings_.cores.test(core) ||
      settings_.events_per_core == 0) {
    return nullptr;
  }
  auto& ring = rings_[core];
  if (ring == nullptr) ring = std::make_unique<Ring>();
  return ring.get();
}

void SystemTrace::make_room(Ring& ring, uint64_t events) {
  if (ring.events + events <= settings_.events_per_core) return;
  const uint64_t gone = std::min(ring.events, ring.events + events - settings_.events_per_core);
  ring.drop(gone);
  ring.dropped += gone;
  dropped_.fetch_add(gone, std::memory_order_relaxed);
}

SystemTrace::Entry& SystemTrace::room_for(Ring& ring, uint64_t events) {
  make_room(ring, events);
  Entry& place = ring.push();
  ring.events += events;
  return place;
}

void SystemTrace::unfold(const Entry& launch, Unfolded& into) const {
  into.count = 0;
  Entry base = launch;
  base.bytes = 0;
  base.is_launch = false;
  base.events = 1;
  const uint64_t launched = launch.launched, ended = launch.ended;
  const auto put = [&](TraceEvent event, bool start, uint64_t time, const Entry& like) {
    if (!wanted(event)) return;
    Entry& entry = into.entries[into.count++];
    entry = like;
    entry.event = event;
    entry.start = start;
    entry.time = time;
  };
  const auto span = [&](TraceEvent event, uint64_t from, uint64_t to) {
    put(event, true, from, base);
    put(event, false, to, base);
    ++base.id;
  };
  Entry call = base;
  --call.id;
  if (launch.begins_call) put(TraceEvent::kExecute, true, launch.called, call);
  span(TraceEvent::kExecutionBefore, launch.time, launched != 0 ? launched : launch.end);
  if (ended == 0) {
    if (launch.ends_call) put(TraceEvent::kExecute, false, launch.end, call);
    return;
  }
  span(TraceEvent::kExecutionWait, launched, ended);
  // What the core says is on its own clock, with the host's time of the same moment.
  Entry on_core = base;
  on_core.has_core_ns = on_core.has_exec_id = true;
  put(TraceEvent::kSyncPoint, true, launched, on_core);
  put(TraceEvent::kCoreRunning, true, launched, on_core);
  if (launch.collective) put(TraceEvent::kCollectivesRunning, true, launched, on_core);
  on_core.core_ns += launch.bytes / 1000;
  if (launch.collective) put(TraceEvent::kCollectivesRunning, false, ended, on_core);
  put(TraceEvent::kCoreRunning, false, ended, on_core);
  ++base.id;
  span(TraceEvent::kExecutionAfter, ended, launch.end);
  if (launch.ends_call) put(TraceEvent::kExecute, false, launch.end, call);
}

// How many unfold() makes, but for the start of a call.
uint64_t SystemTrace::events_of(const Launch& launch) const {
  const auto both = [&](TraceEvent event) -> uint64_t { return wanted(event) ? 2 : 0; };
  uint64_t events = both(TraceEvent::kExecutionBefore);
  if (launch.ends_call && wanted(TraceEvent::kExecute)) ++events;
  if (launch.ended_ns == 0) return events;
  events += both(TraceEvent::kExecutionWait) + both(TraceEvent::kCoreRunning) +
            both(TraceEvent::kExecutionAfter);
  if (launch.collective) events += both(TraceEvent::kCollectivesRunning);
  return events + (wanted(TraceEvent::kSyncPoint) ? 1 : 0);
}

template <class Add>
void SystemTrace::add_or_drop(uint64_t events, Add&& add) noexcept {
  base::guarded(std::forward<Add>(add), [&](const char*, bool) {
    without_memory_.fetch_add(events, std::memory_order_relaxed);
    dropped_.fetch_add(events, std::memory_order_relaxed);
  });
}

uint64_t SystemTrace::add(TraceEvent event, bool start, const Details& details) noexcept {
  uint64_t number = 0;
  add_or_drop(1, [&] { number = add_event(event, start, details); });
  return number;
}

void SystemTrace::add(const Launch& launch) noexcept {
  add_or_drop(kMostOfLaunch, [&] { add_launch(launch); });
}

uint64_t SystemTrace::add_event(TraceEvent event, bool start, const Details& details) {
  const std::lock_guard lock(mutex_);
  if (!running() || !wanted(event)) return 0;
  Ring* ring = ring_of(details.core);
  if (ring == nullptr) return 0;
  room_for(*ring, 1) = {.time = details.host_ns != 0 ? details.host_ns : TraceClock::now_ns(),
                        .id = details.id,
                        .bytes = details.bytes.value_or(0),
                        .core_ns = details.core_ns.value_or(0),
                        .exec_id = details.exec_id.value_or(0),
                        .thread = thread_number(),
                        .name = name_number(details.name),
                        .event = event,
                        .start = start,
                        .has_bytes = details.bytes.has_value(),
                        .has_core_ns = details.core_ns.has_value(),
                        .has_exec_id = details.exec_id.has_value()};
  return ring->last_number();
}

void SystemTrace::add_launch(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  if (!running()) return;
  Ring* ring = ring_of(launch.core);
  if (ring == nullptr) return;
  const uint64_t events = events_of(launch);
  if (events == 0) return;
  const auto entry = [&]() -> Entry {
    return {.time = launch.begin_ns,
            .id = launch.id,
            .bytes = launch.device_ps,
            .core_ns = launch.core_ps / 1000,
            .exec_id = launch.exec_id,
            .thread = launch.thread,
            .name = name_number(launch.model),
            .is_launch = true,
            .collective = launch.collective,
            .ends_call = launch.ends_call,
            .events = static_cast<uint8_t>(events),
            .launched = launch.launched_ns,
            .ended = launch.ended_ns,
            .end = launch.end_ns};
  };
  if (events <= settings_.events_per_core) {
    make_room(*ring, events);
    if (Entry* call = launch.call_entry != 0 ? ring->last(launch.call_entry) : nullptr) {
      // Field by field: a whole entry on the way would be written twice. Name and thread are those
      // of the call.
      call->called = call->time;
      call->time = launch.begin_ns;
      call->id = launch.id;
      call->bytes = launch.device_ps;
      call->core_ns = launch.core_ps / 1000;
      call->exec_id = launch.exec_id;
      call->is_launch = call->begins_call = true;
      call->collective = launch.collective;
      call->ends_call = launch.ends_call;
      call->events = static_cast<uint8_t>(1 + events);
      call->launched = launch.launched_ns;
      call->ended = launch.ended_ns;
      call->end = launch.end_ns;
      ring->events += events;
      return;
    }
    room_for(*ring, events) = entry();
    return;
  }
  // A ring for fewer events than a launch has keeps the last of them.
  Unfolded all;
  unfold(entry(), all);
  for (size_t n = 0; n < all.count; ++n) room_for(*ring, 1) = all.entries[n];
}

void SystemTrace::append(std::string& out, uint32_t core, const Taken& taken) {
  const Entry& entry = taken.entry;
  out +=
      format(R"({{"event_type":"{}","phase":"{}","tracking_id":{},"timestamp_ns":{},"nc_idx":{},)"
             R"("process_id":{},"thread_id":{},"data":{{)",
             trace_event_names()[static_cast<size_t>(entry.event)].name,
             entry.start ? "start" : "stop", entry.id, entry.time, core, getpid(), entry.thread);
  const size_t before = out.size();
  const auto field = [&](const char* key, uint64_t value) {
    out += format("{}\"{}\":{}", out.size() == before ? "" : ",", key, value);
  };
  if (entry.has_core_ns) field("nc_timestamp_ns", entry.core_ns);
  if (entry.event == TraceEvent::kSyncPoint) field("cpu_timestamp_ns", entry.time);
  if (entry.has_exec_id) field("exec_id", entry.exec_id);
  if (entry.has_bytes) field("size", entry.bytes);
  if (taken.name != nullptr && !taken.name->empty()) {
    out += format("{}\"name\":{}", out.size() == before ? "" : ",", base::json_string(*taken.name));
  }
  out += "}}";
}

uint64_t SystemTrace::waiting() {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  for (const auto& ring : rings_) count += ring != nullptr ? ring->events : 0;
  return count;
}

uint64_t SystemTrace::take_some(Ring& ring, uint64_t most, std::vector<Taken>& taken) {
  taken.clear();
  Unfolded unfolded;
  while (taken.size() < most && ring.events != 0) {
    const Entry& front = ring.front();
    const auto name = front.name < names_.size() ? names_[front.name] : nullptr;
    const uint64_t count =
        std::min<uint64_t>(most - taken.size(), front.events - ring.gone_of_front);
    if (front.is_launch) unfold(front, unfolded);
    for (uint64_t n = 0; n < count; ++n) {
      taken.push_back({front.is_launch ? unfolded.entries[ring.gone_of_front + n] : front, name});
    }
    ring.drop(count);
  }
  return std::exchange(ring.dropped, 0);
}

// Launches wait for the lock, and writing an event as text takes longer than recording it: so a few
// are taken at a time, and the text is made without the lock.
std::string SystemTrace::take(std::optional<uint32_t> core, uint64_t most) {
  std::string out = "{\"events\":[";
  const size_t empty = out.size();
  uint64_t dropped = without_memory_.exchange(0, std::memory_order_relaxed);
  std::vector<Taken> taken;
  taken.reserve(kTakenAtOnce);
  for (uint32_t number = 0; number < rings_.size(); ++number) {
    if (core && number != *core) continue;
    // What comes meanwhile is for the next caller: a core that never rests would keep this one.
    uint64_t left = most;
    // bounded: each turn takes some of the events that there were.
    for (bool first = true;; first = false) {
      {
        const std::lock_guard lock(mutex_);
        if (rings_[number] == nullptr) break;
        if (first) left = std::min(left, rings_[number]->events);
        dropped += take_some(*rings_[number], std::min(left, kTakenAtOnce), taken);
      }
      for (const Taken& event : taken) {
        if (out.size() != empty) out += ',';
        append(out, number, event);
      }
      left -= taken.size();
      if (left == 0 || taken.empty()) break;
    }
  }
  return out + format("],\"dropped_events\":{}}}", dropped);
}

}  // namespace neuron::runtime
