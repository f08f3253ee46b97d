// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/dataflow.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "ccom/simulator/costs.h"
#include "ccom/simulator/flow.h"
#include "ccom/simulator/idle_vote.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kPollEvery = 512;  // lanes run between two checks of other workers, and reports

// One channel of one rank.
struct alignas(64) FlowLane {
  std::unique_ptr<Program> program;
  uint64_t time = 0;
  uint64_t position = 0;           // steps done
  uint64_t next_log = UINT64_MAX;  // position whose time a waiting channel needs
  uint64_t bytes = 0;              // of the pending step; kWait: position
  Flow* out = nullptr;             // the last ones used
  Flow* in = nullptr;
  Rank out_peer = kNone;
  Rank in_peer = kNone;
  Rank rank = 0;
  Rank peer = 0;            // of the pending step; kWait: channel
  uint32_t waiter = kNone;  // first lane that waits for a position of this lane
  uint32_t next_waiter = kNone;
  uint16_t channel = 0;
  StepKind kind = StepKind::kCopy;
  bool pending = false;
  bool done = false;
};

struct Log {  // times of the positions that other lanes wait for
  std::vector<uint64_t> positions;
  std::vector<uint64_t> times;
};

class Machine;

class Worker {
 public:
  Worker(Machine& machine, uint32_t number, uint32_t begin, uint32_t end)
      : machine_(machine), number_(number), begin_(begin), end_(end) {}

  void run();

  uint64_t messages = 0, receives = 0, locals = 0, steps = 0;

 private:
  bool mine(uint32_t lane) const { return lane >= begin_ && lane < end_; }
  void ready(uint32_t lane) {
    queue_[(first_ + count_) & mask_] = lane;
    ++count_;
  }
  void run_lane(uint32_t number);
  bool send(FlowLane& lane, uint32_t number);
  bool receive(FlowLane& lane, uint32_t number);
  bool wait(FlowLane& lane, uint32_t number);
  void log(FlowLane& lane);
  bool poll();
  bool idle();
  void report() const;

  Machine& machine_;
  uint32_t number_;
  uint32_t begin_, end_;
  std::vector<uint32_t> queue_;  // lanes that can run; a lane is in it at most once
  size_t mask_ = 0, first_ = 0, count_ = 0;
  std::vector<uint32_t> polled_;  // lanes that wait for another worker's lanes
  uint32_t left_ = 0;
  std::vector<Hop> hops_;
  bool fresh_ = false;
};

class Machine {
 public:
  Machine(const Schedule& schedule, const Network& network, const Survey& survey, uint32_t window,
          const SimulationOptions& options)
      : network(network),
        survey(survey),
        options(options),
        flows(network, survey, window),
        costs(options.costs),
        window(window),
        channels(schedule.channels()),
        lanes(uint64_t{network.period()} * channels),
        idle(std::clamp(options.threads, 1u, std::min(network.period(), 64u))),
        schedule_(schedule) {}

  Result<Simulation> run();
  void stop(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (failure_.sentence.empty()) failure_ = error;
    stopped.store(true);
  }

  const Network& network;
  const Survey& survey;
  const SimulationOptions& options;
  Flows flows;
  const LocalCosts costs;
  const uint32_t window;
  const uint32_t channels;
  std::vector<FlowLane> lanes;
  std::vector<Log> logs;  // by lane; empty where no lane waits
  IdleVote idle;
  std::atomic<bool> stopped{false};

 private:
  void prepare();
  Error stuck() const;
  Result<void> loads(Simulation& result) const;

  const Schedule& schedule_;
  std::mutex mutex_;
  Error failure_;
};

void Worker::run() {
  size_t size = 1;
  while (size < end_ - begin_) size *= 2;
  queue_.resize(size);
  mask_ = size - 1;
  left_ = end_ - begin_;
  for (uint32_t lane = begin_; lane < end_; ++lane) ready(lane);
  uint32_t countdown = kPollEvery;
  while (left_ != 0 && !machine_.stopped.load(std::memory_order_relaxed)) {
    if (count_ == 0) {
      if (!poll() && !idle()) break;
      continue;
    }
    if (--countdown == 0) {
      countdown = kPollEvery;
      poll();
      report();
    }
    const uint32_t lane = queue_[first_ & mask_];
    ++first_;
    --count_;
    // The states of lanes are far apart in memory, so those that run soon are prefetched.
    const FlowLane& later = machine_.lanes[queue_[(first_ + 6) & mask_]];
    __builtin_prefetch(&later);
    __builtin_prefetch(reinterpret_cast<const char*>(&later) + 64);
    const FlowLane& soon = machine_.lanes[queue_[(first_ + 3) & mask_]];
    const char* program = reinterpret_cast<const char*>(soon.program.get());
    for (int line = 0; line < 5; ++line) __builtin_prefetch(program + line * 64);
    __builtin_prefetch(soon.out);
    __builtin_prefetch(soon.in);
    run_lane(lane);
  }
  machine_.idle.end(number_);
}

// Called without work: waits until another worker has made some. False: none ever will.
bool Worker::idle() {
  Machine& m = machine_;
  if (m.idle.workers() == 1 || polled_.empty()) {
    m.stopped.store(true);
    return false;
  }
  m.idle.begin_idle();
  bool going = false;
  while (!m.stopped.load()) {
    const IdleVote::View seen = m.idle.view();
    if (poll()) {
      going = true;
      break;
    }
    if (m.idle.agree(number_, seen)) m.stopped.store(true);
    base::yield_processor();
  }
  m.idle.resume(number_);
  return going;
}

bool Worker::poll() {
  bool any = false;
  for (size_t i = 0; i < polled_.size();) {
    const FlowLane& lane = machine_.lanes[polled_[i]];
    const Flow& flow = lane.kind == StepKind::kSend ? *lane.out : *lane.in;
    const uint32_t flying =
        flow.sent.load(std::memory_order_acquire) - flow.consumed.load(std::memory_order_acquire);
    if (lane.kind == StepKind::kSend ? flying >= machine_.window : flying == 0) {
      ++i;
      continue;
    }
    ready(polled_[i]);
    polled_[i] = polled_.back();
    polled_.pop_back();
    any = true;
  }
  return any;
}

// The first worker is the caller's thread. It speaks for all, as each has as much to do.
void Worker::report() const {
  if (number_ != 0 || !machine_.options.progress) return;
  machine_.options.progress({steps * machine_.idle.workers(), 0});
}

void Worker::run_lane(uint32_t number) {
  FlowLane& lane = machine_.lanes[number];
  StepWork work;
  for (;;) {  // bounded: until the program ends or waits
    if (!lane.pending) {
      if (!lane.program->next_work(work)) {
        lane.done = true;
        --left_;
        return;
      }
      lane.kind = work.kind;
      lane.bytes = work.bytes;
      lane.peer = work.peer;
      lane.pending = true;
    }
    switch (lane.kind) {
      case StepKind::kSend:
        if (!send(lane, number)) return;
        break;
      case StepKind::kReceive:
        if (!receive(lane, number)) return;
        break;
      case StepKind::kWait:
        if (!wait(lane, number)) return;
        break;
      default: {
        const uint64_t cost = machine_.costs.of(work);
        lane.time += cost;
        locals += cost != 0 ? 1 : 0;
      }
    }
    lane.pending = false;
    ++steps;
    if (++lane.position == lane.next_log) log(lane);
  }
}

bool Worker::send(FlowLane& lane, uint32_t number) {
  if (lane.out_peer != lane.peer) {
    auto found = machine_.flows.between(lane.rank, lane.peer, lane.channel, machine_.channels,
                                        hops_, fresh_);
    if (!found) {
      machine_.stop(found.error());
      return false;
    }
    lane.out = *found;
    lane.out_peer = lane.peer;
  }
  Flow& flow = *lane.out;
  const uint32_t message = flow.sent.load(std::memory_order_relaxed);
  if (message - flow.consumed.load(std::memory_order_acquire) >= machine_.window) {
    if (mine(flow.receiver)) {
      flow.sender_waits = true;
    } else {
      polled_.push_back(number);
    }
    return false;
  }
  uint64_t& slot = flow.slots[flow.head];
  lane.time = std::max(lane.time, slot);  // the slot holds the time at which the credit was back
  const uint64_t leaves =
      std::max(lane.time, flow.free_ps) +
      occupancy_ps(lane.bytes + machine_.options.costs.header_bytes, flow.ps_per_byte);
  flow.free_ps = leaves;
  flow.bytes += lane.bytes;
  const SimulationOptions& options = machine_.options;
  slot = leaves + flow.latency_ps + options.costs.message_ps;
  if (options.jitter_ps != 0) {
    slot += jitter_ps(options.jitter_ps, options.seed, uint64_t{flow.sender} << 32 | flow.receiver,
                      message);
  }
  flow.head = static_cast<uint16_t>(flow.head + 1u == machine_.window ? 0 : flow.head + 1);
  flow.sent.store(message + 1, std::memory_order_release);
  lane.time += options.costs.send_ps;
  ++messages;
  if (flow.receiver_waits) {
    flow.receiver_waits = false;
    ready(flow.receiver);
  }
  return true;
}

bool Worker::receive(FlowLane& lane, uint32_t number) {
  if (lane.in_peer != lane.peer) {
    auto found = machine_.flows.between(lane.peer, lane.rank, lane.channel, machine_.channels,
                                        hops_, fresh_);
    if (!found) {
      machine_.stop(found.error());
      return false;
    }
    lane.in = *found;
    lane.in_peer = lane.peer;
  }
  Flow& flow = *lane.in;
  const uint32_t message = flow.consumed.load(std::memory_order_relaxed);
  if (flow.sent.load(std::memory_order_acquire) == message) {
    if (mine(flow.sender)) {
      flow.receiver_waits = true;
    } else {
      polled_.push_back(number);
    }
    return false;
  }
  uint64_t& slot = flow.slots[flow.tail];
  lane.time = std::max(lane.time, slot) + machine_.options.costs.receive_ps;
  slot = lane.time + flow.latency_ps;
  flow.tail = static_cast<uint16_t>(flow.tail + 1u == machine_.window ? 0 : flow.tail + 1);
  flow.consumed.store(message + 1, std::memory_order_release);
  ++receives;
  if (flow.sender_waits) {
    flow.sender_waits = false;
    ready(flow.sender);
  }
  return true;
}

bool Worker::wait(FlowLane& lane, uint32_t number) {
  if (lane.bytes == 0) return true;
  const uint32_t target = lane.rank * machine_.channels + lane.peer;
  FlowLane& other = machine_.lanes[target];
  if (other.position < lane.bytes) {
    lane.next_waiter = other.waiter;
    other.waiter = number;
    return false;
  }
  const Log& log = machine_.logs[target];
  const auto found = std::lower_bound(log.positions.begin(), log.positions.end(), lane.bytes);
  lane.time = std::max(lane.time, log.times[static_cast<size_t>(found - log.positions.begin())]);
  return true;
}

void Worker::log(FlowLane& lane) {
  Log& log = machine_.logs[lane.rank * machine_.channels + lane.channel];
  log.times.push_back(lane.time);
  lane.next_log =
      log.times.size() < log.positions.size() ? log.positions[log.times.size()] : UINT64_MAX;
  uint32_t waiter = std::exchange(lane.waiter, kNone);
  while (waiter != kNone) {
    ready(waiter);
    waiter = machine_.lanes[waiter].next_waiter;
  }
}

void Machine::prepare() {
  const bool waits = std::any_of(survey.waits.begin(), survey.waits.end(),
                                 [](const auto& positions) { return !positions.empty(); });
  if (waits) logs.resize(lanes.size());
  for (uint32_t number = 0; number < lanes.size(); ++number) {
    FlowLane& lane = lanes[number];
    lane.rank = number / channels;
    lane.channel = static_cast<uint16_t>(number % channels);
    lane.program = schedule_.program(lane.rank, lane.channel);
    const auto& positions = survey.waits_for(network, lane.rank, lane.channel);
    if (positions.empty()) continue;
    logs[number].positions = positions;
    lane.next_log = positions.front();
  }
}

Error Machine::stuck() const {
  std::string who;
  uint32_t shown = 0;
  uint64_t waiting = 0;
  for (const FlowLane& lane : lanes) {
    if (lane.done) continue;
    ++waiting;
    if (++shown > 4) continue;
    const std::string what = lane.kind == StepKind::kSend ? format("to send to rank {}", lane.peer)
                             : lane.kind == StepKind::kReceive
                                 ? format("to receive from rank {}", lane.peer)
                                 : format("for step {} of channel {}", lane.bytes, lane.peer);
    who += format("{}rank {} channel {} waits at step {} {}", who.empty() ? "" : "; ", lane.rank,
                  lane.channel, lane.position, what);
  }
  return fail(CCOM_TIMEOUT, "the schedule does not end with a window of {}: {} channels wait, {}",
              window, waiting, who);
}

Result<void> Machine::loads(Simulation& result) const {
  std::vector<uint64_t> bytes;
  NEURON_CHECK(flows.add_up(bytes));
  add_loads(network, bytes, result);
  return {};
}

Result<Simulation> Machine::run() {
  prepare();
  const uint32_t count = idle.workers();
  std::vector<Worker> workers;
  for (uint32_t i = 0; i < count; ++i) {
    const auto edge = [&](uint32_t n) {
      return static_cast<uint32_t>(uint64_t{network.period()} * n / count) * channels;
    };
    workers.emplace_back(*this, i, edge(i), edge(i + 1));
  }
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < count; ++i) threads.emplace_back([&workers, i] { workers[i].run(); });
  workers[0].run();
  for (auto& thread : threads) thread.join();
  if (!failure_.sentence.empty()) return failure_;

  Simulation result;
  result.engine = Engine::kDataflow;
  result.finished_ps.assign(network.period(), 0);
  for (const FlowLane& lane : lanes) {
    if (!lane.done) return stuck();
    uint64_t& end = result.finished_ps[lane.rank];
    end = std::max(end, lane.time);
  }
  for (const Worker& worker : workers) {
    result.messages += worker.messages;
    result.events += worker.messages + worker.receives + worker.locals;
    result.steps += worker.steps;
  }
  result.time_ps = *std::max_element(result.finished_ps.begin(), result.finished_ps.end());
  if (options.loads) NEURON_CHECK(loads(result));
  return result;
}

}  // namespace

uint64_t dataflow_lane_bytes() { return sizeof(FlowLane) + sizeof(Log) + 2 * sizeof(uint32_t); }

Result<Simulation> simulate_dataflow(const Schedule& schedule, const Network& network,
                                     const Survey& survey, uint32_t window,
                                     const SimulationOptions& options) {
  Machine machine(schedule, network, survey, window, options);
  return machine.run();
}

}  // namespace neuron::ccom
