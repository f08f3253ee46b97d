// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/events.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ccom/simulator/costs.h"
#include "ccom/simulator/event_queue.h"
#include "ccom/simulator/flow.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr size_t kFewFlows = 1 << 16;          // more than this, and idle flows are forgotten
constexpr uint64_t kProgressEvents = 1 << 16;  // between two reports

struct Stage {
  uint32_t resource;
  uint64_t latency_ps;
  double ps_per_byte;
};
using Route = std::vector<Stage>;

enum class Phase : uint8_t { kFetch, kTry, kFinish };

struct Lane {
  std::unique_ptr<Program> program;
  Step step;
  Phase phase = Phase::kFetch;
  bool done = false;
  Rank rank = 0;
  uint32_t channel = 0;
  uint64_t position = 0;  // steps done
  uint64_t end = 0;       // when the last step ended
  Flow* out = nullptr;
  Route route;  // of `out`
  Flow* in = nullptr;
  Rank out_peer = kNobody;
  Rank in_peer = kNobody;
  std::vector<uint32_t> waiters;  // lanes that wait for a position of this lane
};

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Network& network, const Survey& survey, uint32_t window,
            const SimulationOptions& options)
      : network_(network),
        options_(options),
        flows_(network, survey, window),
        costs_(options.costs),
        window_(window),
        channels_(schedule.channels()),
        lanes_(uint64_t{network.period()} * channels_),
        free_(network.resources(), 0),
        carried_(network.resources(), 0),
        schedule_(schedule) {}

  Result<Simulation> run();

 private:
  // Runs a lane from now_ until it waits. Then another lane has, or will have, an event for it.
  void go_on(uint32_t number);
  bool attempt(Lane& lane, uint32_t number);
  bool send(Lane& lane, uint32_t number);
  bool receive(Lane& lane, uint32_t number);
  bool local(Lane& lane, uint32_t number);
  bool find(Lane& lane, bool sending);
  void forget_idle_flows();
  uint64_t transfer(const Lane& lane, uint64_t bytes);
  // Ends the step after `delay`; true: at once.
  bool finish(Lane& lane, uint32_t number, uint64_t delay) {
    if (delay == 0) return true;
    lane.phase = Phase::kFinish;
    queue_.push(now_ + delay, number);
    return false;
  }
  Error stuck() const;

  const Network& network_;
  const SimulationOptions& options_;
  Flows flows_;
  const LocalCosts costs_;
  const uint32_t window_;
  const uint32_t channels_;
  std::vector<Lane> lanes_;
  size_t most_flows_ = kFewFlows;
  std::vector<Hop> hops_;
  std::vector<uint64_t> free_;  // by resource: when it is free
  std::vector<uint64_t> carried_;
  EventQueue queue_;
  uint64_t now_ = 0;
  Simulation result_;
  Error failure_;
  const Schedule& schedule_;
};

bool Simulator::find(Lane& lane, bool sending) {
  const Rank peer = lane.step.peer;
  if (flows_.size() >= most_flows_) forget_idle_flows();
  bool fresh = false;
  auto found = sending ? flows_.between(lane.rank, peer, lane.channel, channels_, hops_, fresh)
                       : flows_.between(peer, lane.rank, lane.channel, channels_, hops_, fresh);
  if (!found) {
    failure_ = found.error();
    return false;
  }
  if (!sending) {
    lane.in = *found;
    lane.in_peer = peer;
    return true;
  }
  lane.out = *found;
  lane.out_peer = peer;
  lane.route.clear();
  if (options_.sharing == Sharing::kDivided) return true;
  if (!fresh) {
    const auto path = network_.path(lane.rank, peer, hops_);
    if (!path) {
      failure_ = path.error();
      return false;
    }
  }
  for (const Hop& hop : hops_) {
    lane.route.push_back({hop.resource, hop.latency_ps, ps_per_byte(hop.bytes_per_second)});
  }
  return true;
}

// Programs that go through many peers would otherwise leave a flow behind for each. Jitter depends
// on the number of a message in its flow, and divided resources are added up by flow, so both keep
// them all.
void Simulator::forget_idle_flows() {
  if (options_.jitter_ps == 0 && options_.sharing == Sharing::kQueued) {
    flows_.forget_idle(now_, [&](const Flow& flow) {
      Lane& sender = lanes_[flow.sender];
      if (sender.out == &flow) sender.out_peer = kNobody;
      Lane& receiver = lanes_[flow.receiver];
      if (receiver.in == &flow) receiver.in_peer = kNobody;
    });
  }
  most_flows_ = std::max(kFewFlows, 2 * flows_.size());
}

// The arrival time of a message that is sent now.
uint64_t Simulator::transfer(const Lane& lane, uint64_t bytes) {
  Flow& flow = *lane.out;
  flow.bytes += bytes;
  if (options_.sharing == Sharing::kDivided) {
    flow.free_ps = std::max(now_, flow.free_ps) +
                   occupancy_ps(bytes + options_.costs.header_bytes, flow.ps_per_byte);
    return flow.free_ps + flow.latency_ps;
  }
  uint64_t head = now_, tail = now_;
  for (const Stage& stage : lane.route) {
    uint64_t& free = free_[stage.resource];
    const uint64_t begin = std::max(head, free);
    free = begin + occupancy_ps(bytes + options_.costs.header_bytes, stage.ps_per_byte);
    carried_[stage.resource] += bytes;
    tail = std::max(tail, free) + stage.latency_ps;
    head = begin + stage.latency_ps;
  }
  return tail;
}

bool Simulator::send(Lane& lane, uint32_t number) {
  if (lane.out_peer != lane.step.peer && !find(lane, true)) return false;
  Flow& flow = *lane.out;
  const uint32_t message = flow.sent.load(std::memory_order_relaxed);
  if (message - flow.consumed.load(std::memory_order_relaxed) >= window_) {
    flow.sender_waits = true;
    return false;
  }
  uint64_t& slot = flow.slots[flow.head];
  if (slot > now_) {  // the credit is on its way
    queue_.push(slot, number);
    return false;
  }
  slot = transfer(lane, lane.step.bytes) + options_.costs.message_ps;
  slot += jitter_ps(options_.jitter_ps, options_.seed, uint64_t{flow.sender} << 32 | flow.receiver,
                    message);
  flow.head = static_cast<uint16_t>(flow.head + 1u == window_ ? 0 : flow.head + 1);
  flow.sent.store(message + 1, std::memory_order_relaxed);
  ++result_.messages;
  ++result_.events;
  if (std::exchange(flow.receiver_waits, false)) queue_.push(slot, flow.receiver);
  return finish(lane, number, options_.costs.send_ps);
}

bool Simulator::receive(Lane& lane, uint32_t number) {
  if (lane.in_peer != lane.step.peer && !find(lane, false)) return false;
  Flow& flow = *lane.in;
  const uint32_t message = flow.consumed.load(std::memory_order_relaxed);
  if (flow.sent.load(std::memory_order_relaxed) == message) {
    flow.receiver_waits = true;
    return false;
  }
  uint64_t& slot = flow.slots[flow.tail];
  if (slot > now_) {
    queue_.push(slot, number);
    return false;
  }
  slot = now_ + options_.costs.receive_ps + flow.latency_ps;
  flow.tail = static_cast<uint16_t>(flow.tail + 1u == window_ ? 0 : flow.tail + 1);
  flow.consumed.store(message + 1, std::memory_order_relaxed);
  ++result_.events;
  if (std::exchange(flow.sender_waits, false)) queue_.push(slot, flow.sender);
  return finish(lane, number, options_.costs.receive_ps);
}

bool Simulator::local(Lane& lane, uint32_t number) {
  uint64_t delay = costs_.of(lane.step);
  Hop hbm, dma;
  if (options_.sharing == Sharing::kQueued && network_.memory_of(lane.rank, hbm, dma)) {
    const uint64_t read =
        lane.step.kind == StepKind::kReduce ? lane.step.count + (lane.step.has_own ? 1 : 0) : 1;
    const uint64_t written = lane.step.kind == StepKind::kDuplicate ? 2 : 1;
    const std::pair<Hop, uint64_t> uses[] = {{hbm, lane.step.bytes * (read + written)},
                                             {dma, lane.step.bytes * read}};
    for (const auto& [hop, bytes] : uses) {
      const uint32_t resource = network_.folded() ? network_.typical(hop.resource) : hop.resource;
      uint64_t& free = free_[resource];
      free = std::max(now_, free) + occupancy_ps(bytes, ps_per_byte(hop.bytes_per_second));
      carried_[resource] += bytes;
      delay = std::max(delay, free - now_);
    }
  }
  result_.events += delay != 0 ? 1 : 0;
  return finish(lane, number, delay);
}

bool Simulator::attempt(Lane& lane, uint32_t number) {
  switch (lane.step.kind) {
    case StepKind::kSend:
      return send(lane, number);
    case StepKind::kReceive:
      return receive(lane, number);
    case StepKind::kWait: {
      Lane& other = lanes_[uint64_t{lane.rank} * channels_ + lane.step.channel];
      if (other.position >= lane.step.position) return true;
      other.waiters.push_back(number);
      return false;
    }
    default:
      return local(lane, number);
  }
}

void Simulator::go_on(uint32_t number) {
  Lane& lane = lanes_[number];
  for (;;) {  // bounded: until the program ends or waits
    if (lane.phase == Phase::kFetch) {
      if (!lane.program->next(lane.step)) {
        lane.done = true;
        lane.program.reset();
        return;
      }
      lane.phase = Phase::kTry;
    }
    if (lane.phase == Phase::kTry && !attempt(lane, number)) return;
    lane.phase = Phase::kFetch;
    lane.end = now_;
    ++lane.position;
    ++result_.steps;
    for (const uint32_t waiter : lane.waiters) queue_.push(now_, waiter);
    lane.waiters.clear();
  }
}

Error Simulator::stuck() const {
  std::string who;
  uint64_t waiting = 0;
  for (const Lane& lane : lanes_) {
    if (lane.done || ++waiting > 4) continue;
    const bool sends = lane.step.kind == StepKind::kSend;
    const std::string what =
        lane.step.kind == StepKind::kWait
            ? format("for step {} of channel {}", lane.step.position, lane.step.channel)
            : format("to {} rank {}", sends ? "send to" : "receive from", lane.step.peer);
    who += format("{}rank {} channel {} waits at step {} {}", who.empty() ? "" : "; ", lane.rank,
                  lane.channel, lane.position, what);
  }
  return fail(CCOM_TIMEOUT, "the schedule does not end with a window of {}: {} channels wait, {}",
              window_, waiting, who);
}

Result<Simulation> Simulator::run() {
  for (uint32_t number = 0; number < lanes_.size(); ++number) {
    Lane& lane = lanes_[number];
    lane.rank = number / channels_;
    lane.channel = number % channels_;
    lane.program = schedule_.program(lane.rank, lane.channel);
    queue_.push(0, number);
  }
  uint64_t countdown = kProgressEvents;
  while (!queue_.empty() && failure_.sentence.empty()) {
    if (--countdown == 0) {
      countdown = kProgressEvents;
      if (options_.progress) options_.progress({result_.steps, now_});
    }
    const EventQueue::Event event = queue_.first();
    queue_.pop();
    now_ = event.time;
    if (now_ > options_.until_ps && options_.until_ps != 0) {
      result_.engine = Engine::kEvents;
      result_.complete = false;
      result_.time_ps = options_.until_ps;
      return std::move(result_);
    }
    go_on(event.lane);
  }
  if (!failure_.sentence.empty()) return failure_;
  result_.engine = Engine::kEvents;
  result_.finished_ps.assign(network_.period(), 0);
  for (const Lane& lane : lanes_) {
    if (!lane.done) return stuck();
    uint64_t& end = result_.finished_ps[lane.rank];
    end = std::max(end, lane.end);
    result_.time_ps = std::max(result_.time_ps, end);
  }
  if (!options_.loads) return std::move(result_);
  if (options_.sharing == Sharing::kDivided) NEURON_CHECK(flows_.add_up(carried_));
  add_loads(network_, carried_, result_);
  return std::move(result_);
}

}  // namespace

uint64_t event_lane_bytes() {
  constexpr uint64_t kStages = 4, kWaiters = 1;
  return sizeof(Lane) + sizeof(EventQueue::Event) + kStages * sizeof(Stage) + kWaiters * 4;
}

Result<Simulation> simulate_events(const Schedule& schedule, const Network& network,
                                   const Survey& survey, uint32_t window,
                                   const SimulationOptions& options) {
  Simulator simulator(schedule, network, survey, window, options);
  return simulator.run();
}

}  // namespace neuron::ccom
