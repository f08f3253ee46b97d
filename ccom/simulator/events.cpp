// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/events.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccom/simulator/costs.h"
#include "ccom/simulator/event_flows.h"
#include "ccom/simulator/event_queue.h"
#include "ccom/simulator/processors.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr uint32_t kFewFlows = 2;              // of a lane; more, and idle ones are forgotten
constexpr uint64_t kProgressEvents = 1 << 16;  // between two reports
constexpr uint64_t kCountEvents = 1021;  // between two counts of messages, or as many as flows

enum class Phase : uint8_t { kFetch, kTry, kFinish };

// What is the same for all resources of a kind, with the occupancy of the last message: most have
// the size of the one before.
struct Link {
  double bytes_per_second;
  double ps_per_byte;
  uint64_t latency_ps;
  uint64_t bytes = UINT64_MAX;
  uint64_t occupancy = 0;

  uint64_t occupied_ps(uint64_t message) {
    if (message != bytes) {
      bytes = message;
      occupancy = occupancy_ps(message, ps_per_byte);
    }
    return occupancy;
  }
};

struct Stage {
  uint32_t resource;
  uint32_t link;
};

// The way of a lane's messages; longer ones lie elsewhere.
struct alignas(64) Route {
  static constexpr size_t kStages = 7;
  uint32_t count = 0;
  Stage stages[kStages];
};

// One channel of one rank: a cache line, since most events find the lane in no cache.
struct alignas(64) Lane {
  std::unique_ptr<Program> program;
  uint64_t position = 0;  // steps done
  StepWork step;
  uint32_t out = 0;  // flows, 0 if unknown
  uint32_t in = 0;
  Rank out_peer = kNobody;
  Rank in_peer = kNobody;
  uint32_t last_waiter = kNobody;  // of the lanes that wait for a position of this one: a circle
  uint32_t next_waiter = kNobody;
  Phase phase = Phase::kFetch;
  bool done = false;
  bool waited = false;  // for the message that it is about to receive
};
static_assert(sizeof(Lane) == 64);

struct Memory {  // resources of a rank's chip
  uint32_t hbm;
  uint32_t dma;
};

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Network& network, const Survey& survey, uint32_t window,
            const SimulationOptions& options)
      : network_(network),
        options_(options),
        queued_(options.sharing == Sharing::kQueued),
        flows_(network, survey, window, schedule.channels(), !queued_),
        costs_(options.costs),
        window_(window),
        channels_(schedule.channels()),
        lanes_(uint64_t{network.period()} * channels_),
        routes_(queued_ ? lanes_.size() : 0),
        free_(network.resources(), 0),
        carried_(options.loads ? network.resources() : 0, 0),
        few_flows_(kFewFlows * static_cast<uint32_t>(lanes_.size())),
        most_flows_(few_flows_),
        queue_(lanes_.size()),
        processors_(nodes_of(network), options.processors.of_node),
        send_copy_(ps_per_byte(options.processors.send_bytes_per_second)),
        receive_copy_(ps_per_byte(options.processors.receive_bytes_per_second)),
        schedule_(schedule) {}

  Result<Simulation> run();

 private:
  // Runs a lane from now_ until it waits. Then another lane has, or will have, an event for it.
  void go_on(uint32_t number);
  bool attempt(Lane& lane, uint32_t number);
  bool send(Lane& lane, uint32_t number);
  bool receive(Lane& lane, uint32_t number);
  bool wait(Lane& lane, uint32_t number);
  bool local(Lane& lane, uint32_t number);
  bool find(Lane& lane, uint32_t number, bool sending);
  Result<void> set_route(uint32_t number, bool fresh);
  void forget_idle_flows();
  void wake_waiters(Lane& lane);
  uint64_t transfer(const Lane& lane, uint32_t number, uint64_t begin);
  uint32_t link_number(const Hop& hop);
  void prepare_memory();
  std::vector<uint32_t> nodes_of(const Network& network) const {
    std::vector<uint32_t> nodes(options_.processors.of_node != 0 ? lanes_.size() : 0);
    for (uint32_t lane = 0; lane < nodes.size(); ++lane) {
      nodes[lane] = network.node_of(rank_of(lane));
    }
    return nodes;
  }
  void run_on_processor(uint32_t number);
  bool offered(uint64_t bytes) const {
    return options_.processors.eager_bytes != 0 && bytes > options_.processors.eager_bytes;
  }
  uint64_t send_by_processor(const Lane& lane, uint32_t number, uint64_t& arrival);
  uint64_t receive_by_processor(Lane& lane);
  void occupy(uint32_t resource, uint32_t link, uint64_t bytes, uint64_t& delay);
  void prefetch() const;
  // Ends the step after `delay`; true: at once.
  bool finish(Lane& lane, uint32_t number, uint64_t delay) {
    if (delay == 0) return true;
    lane.phase = Phase::kFinish;
    queue_.push(now_ + delay, number);
    return false;
  }
  Rank rank_of(uint32_t lane) const { return lane / channels_; }
  uint64_t message_bytes() const {
    return flows_.memory_bytes() + lanes_.size() * EventQueue::bytes_of_event();
  }
  Error stuck() const;

  const Network& network_;
  const SimulationOptions& options_;
  const bool queued_;
  EventFlows flows_;
  const LocalCosts costs_;
  const uint32_t window_;
  const uint32_t channels_;
  std::vector<Lane> lanes_;
  std::vector<Route> routes_;                                   // by lane
  std::unordered_map<uint32_t, std::vector<Stage>> long_ways_;  // by lane
  std::vector<Link> links_;                                     // a few
  std::vector<Memory> memory_;                                  // by rank, or empty
  uint32_t hbm_link_ = 0, dma_link_ = 0;
  std::vector<Hop> hops_;
  std::vector<uint64_t> free_;  // by resource: when it is free
  std::vector<uint64_t> carried_;
  const uint32_t few_flows_;
  uint32_t most_flows_;  // before the next look for idle ones
  EventQueue queue_;
  Processors processors_;
  const double send_copy_, receive_copy_;  // picoseconds per byte
  uint64_t now_ = 0;
  Simulation result_;
  Error failure_;
  const Schedule& schedule_;
};

uint32_t Simulator::link_number(const Hop& hop) {
  for (uint32_t i = 0; i < links_.size(); ++i) {
    const Link& link = links_[i];
    if (link.bytes_per_second == hop.bytes_per_second && link.latency_ps == hop.latency_ps) {
      return i;
    }
  }
  links_.push_back({hop.bytes_per_second, ps_per_byte(hop.bytes_per_second), hop.latency_ps});
  return static_cast<uint32_t>(links_.size() - 1);
}

void Simulator::prepare_memory() {
  Hop hbm, dma;
  if (!queued_ || !network_.memory_of(0, hbm, dma)) return;
  hbm_link_ = link_number(hbm);
  dma_link_ = link_number(dma);
  for (Rank rank = 0; rank < network_.period(); ++rank) {
    network_.memory_of(rank, hbm, dma);
    const bool folded = network_.folded();
    memory_.push_back({folded ? network_.typical(hbm.resource) : hbm.resource,
                       folded ? network_.typical(dma.resource) : dma.resource});
  }
}

Result<void> Simulator::set_route(uint32_t number, bool fresh) {
  if (!fresh) NEURON_CHECK(network_.path(rank_of(number), lanes_[number].step.peer, hops_));
  Route& route = routes_[number];
  route.count = static_cast<uint32_t>(hops_.size());
  Stage* stages = route.stages;
  if (route.count > Route::kStages) {
    auto& way = long_ways_[number];
    way.resize(route.count);
    stages = way.data();
  }
  for (const Hop& hop : hops_) *stages++ = {hop.resource, link_number(hop)};
  return {};
}

bool Simulator::find(Lane& lane, uint32_t number, bool sending) {
  const Rank rank = rank_of(number), peer = lane.step.peer;
  const uint32_t channel = number % channels_;
  if (flows_.size() >= most_flows_) forget_idle_flows();
  const Rank from = sending ? rank : peer, to = sending ? peer : rank;
  uint32_t flow = flows_.find(from, to, channel);
  const bool fresh = flow == 0;
  if (fresh) {
    const auto made = flows_.make(from, to, channel, hops_);
    if (!made) {
      failure_ = made.error();
      return false;
    }
    flow = *made;
  }
  if (!sending) {
    lane.in = flow;
    lane.in_peer = peer;
    return true;
  }
  lane.out = flow;
  lane.out_peer = peer;
  if (!queued_) return true;
  const auto routed = set_route(number, fresh);
  if (!routed) failure_ = routed.error();
  return bool(routed);
}

// Programs that go through many peers would otherwise leave a flow behind for each. Jitter depends
// on the number of a message in its flow, and divided resources are added up by flow, so both keep
// them all.
void Simulator::forget_idle_flows() {
  if (options_.jitter_ps == 0 && queued_) {
    flows_.forget_idle(now_, [&](const EventFlow& flow, uint32_t number) {
      Lane& sender = lanes_[flow.sender];
      if (sender.out == number) sender.out_peer = kNobody;
      Lane& receiver = lanes_[flow.receiver];
      if (receiver.in == number) receiver.in_peer = kNobody;
    });
  }
  most_flows_ = std::max(few_flows_, flows_.size() / 2 * 3);
}

// The arrival time of a message that is sent at `begin`.
uint64_t Simulator::transfer(const Lane& lane, uint32_t number, uint64_t begin) {
  const uint64_t bytes = lane.step.bytes, all = bytes + options_.costs.header_bytes;
  if (!queued_) {
    EventFlows::Divided& flow = flows_.divided(lane.out);
    flow.bytes += bytes;
    flow.free_ps = std::max(begin, flow.free_ps) + occupancy_ps(all, flow.ps_per_byte);
    return flow.free_ps + flows_.latency_ps(flows_[lane.out]);
  }
  const Route& route = routes_[number];
  const Stage* stage = route.stages;
  if (route.count > Route::kStages) stage = long_ways_.find(number)->second.data();
  uint64_t head = begin, tail = begin;
  for (const Stage* end = stage + route.count; stage != end; ++stage) {
    Link& link = links_[stage->link];
    uint64_t& free = free_[stage->resource];
    const uint64_t enters = std::max(head, free);
    free = enters + link.occupied_ps(all);
    if (options_.loads) carried_[stage->resource] += bytes;
    tail = std::max(tail, free) + link.latency_ps;
    head = enters + link.latency_ps;
  }
  return tail;
}

// The message leaves when the kernel has taken it, or its first piece. The offer of a long one and
// its answer take the processors of both sides, and the way there and back.
uint64_t Simulator::send_by_processor(const Lane& lane, uint32_t number, uint64_t& arrival) {
  const StepCosts& costs = options_.costs;
  const uint64_t bytes = lane.step.bytes, piece = options_.processors.piece_bytes;
  const uint64_t offer = offered(bytes) ? options_.processors.offer_ps : 0;
  const uint64_t copy = occupancy_ps(bytes, send_copy_);
  const uint64_t cost = costs.send_ps + offer + copy;
  const uint64_t rest = piece != 0 && bytes > piece ? copy - occupancy_ps(piece, send_copy_) : 0;
  arrival = transfer(lane, number, now_ + cost - rest);
  if (offer != 0) arrival += offer + 2 * flows_.latency_ps(flows_[lane.out]);
  return cost;
}

uint64_t Simulator::receive_by_processor(Lane& lane) {
  const StepCosts& costs = options_.costs;
  uint64_t cost = costs.receive_ps + occupancy_ps(lane.step.bytes, receive_copy_);
  if (offered(lane.step.bytes)) cost += options_.processors.offer_ps;
  if (std::exchange(lane.waited, false)) cost += options_.processors.wait_ps;
  return cost;
}

// A lane keeps its processor while it has something to do.
void Simulator::run_on_processor(uint32_t number) {
  if (!processors_.holds(number)) {
    const auto given = processors_.acquire(number);
    if (given == Processors::Given::kLater) return;
    if (given == Processors::Given::kAfterASwitch) {
      queue_.push(now_ + options_.processors.switch_ps, number);
      return;
    }
  }
  go_on(number);
  if (!lanes_[number].done && lanes_[number].phase == Phase::kFinish) return;
  const uint32_t next = processors_.release(number);
  if (next != Processors::kNobody) queue_.push(now_ + options_.processors.switch_ps, next);
}

bool Simulator::send(Lane& lane, uint32_t number) {
  if (lane.out_peer != lane.step.peer && !find(lane, number, true)) return false;
  EventFlow& flow = flows_[lane.out];
  if (flow.flying >= window_) {
    flow.sender_waits = true;
    return false;
  }
  uint64_t& slot = flows_.head(flow, now_);
  if (slot > now_) {  // the credit is on its way
    queue_.push(slot, number);
    return false;
  }
  uint64_t delay = options_.costs.send_ps;
  if (processors_.shared()) {
    delay = send_by_processor(lane, number, slot);
  } else {
    slot = transfer(lane, number, now_);
  }
  slot += options_.costs.message_ps;
  slot += jitter_ps(options_.jitter_ps, options_.seed, uint64_t{flow.sender} << 32 | flow.receiver,
                    flow.sent);
  flow.head = static_cast<uint16_t>(flow.head + 1u == window_ ? 0 : flow.head + 1);
  ++flow.sent;
  ++flow.flying;
  ++result_.messages;
  ++result_.events;
  if (std::exchange(flow.receiver_waits, false)) queue_.push(slot, flow.receiver);
  return finish(lane, number, delay);
}

bool Simulator::receive(Lane& lane, uint32_t number) {
  if (lane.in_peer != lane.step.peer && !find(lane, number, false)) return false;
  EventFlow& flow = flows_[lane.in];
  if (flow.flying == 0) {
    flow.receiver_waits = true;
    lane.waited = true;
    return false;
  }
  uint64_t& slot = flows_.tail(flow);
  if (slot > now_) {
    lane.waited = true;
    queue_.push(slot, number);
    return false;
  }
  const uint64_t delay =
      processors_.shared() ? receive_by_processor(lane) : options_.costs.receive_ps;
  slot = now_ + delay + flows_.latency_ps(flow);
  --flow.flying;
  ++result_.events;
  if (std::exchange(flow.sender_waits, false)) queue_.push(slot, flow.sender);
  return finish(lane, number, delay);
}

void Simulator::occupy(uint32_t resource, uint32_t link, uint64_t bytes, uint64_t& delay) {
  uint64_t& free = free_[resource];
  free = std::max(now_, free) + links_[link].occupied_ps(bytes);
  if (options_.loads) carried_[resource] += bytes;
  delay = std::max(delay, free - now_);
}

bool Simulator::local(Lane& lane, uint32_t number) {
  uint64_t delay = costs_.of(lane.step);
  if (!memory_.empty()) {
    const uint64_t read = lane.step.peer;  // operands
    const uint64_t written = lane.step.kind == StepKind::kDuplicate ? 2 : 1;
    const Memory& memory = memory_[rank_of(number)];
    occupy(memory.hbm, hbm_link_, lane.step.bytes * (read + written), delay);
    occupy(memory.dma, dma_link_, lane.step.bytes * read, delay);
  }
  result_.events += delay != 0 ? 1 : 0;
  return finish(lane, number, delay);
}

bool Simulator::wait(Lane& lane, uint32_t number) {
  Lane& other = lanes_[uint64_t{number} - number % channels_ + lane.step.peer];
  if (other.position >= lane.step.bytes) return true;
  if (other.last_waiter == kNobody) {
    lane.next_waiter = number;
  } else {
    lane.next_waiter = std::exchange(lanes_[other.last_waiter].next_waiter, number);
  }
  other.last_waiter = number;
  return false;
}

// In the order in which they began to wait.
void Simulator::wake_waiters(Lane& lane) {
  const uint32_t last = std::exchange(lane.last_waiter, kNobody);
  uint32_t waiter = lanes_[last].next_waiter;
  for (;;) {  // bounded: once around
    queue_.push(now_, waiter);
    if (waiter == last) return;
    waiter = lanes_[waiter].next_waiter;
  }
}

bool Simulator::attempt(Lane& lane, uint32_t number) {
  switch (lane.step.kind) {
    case StepKind::kSend:
      return send(lane, number);
    case StepKind::kReceive:
      return receive(lane, number);
    case StepKind::kWait:
      return wait(lane, number);
    default:
      return local(lane, number);
  }
}

void Simulator::go_on(uint32_t number) {
  Lane& lane = lanes_[number];
  for (;;) {  // bounded: until the program ends or waits
    if (lane.phase == Phase::kFetch) {
      if (!lane.program->next_work(lane.step)) {
        lane.done = true;
        lane.program.reset();
        uint64_t& end = result_.finished_ps[rank_of(number)];
        end = std::max(end, now_);
        return;
      }
      lane.phase = Phase::kTry;
    }
    if (lane.phase == Phase::kTry && !attempt(lane, number)) return;
    lane.phase = Phase::kFetch;
    ++lane.position;
    ++result_.steps;
    if (lane.last_waiter != kNobody) wake_waiters(lane);
  }
}

// The lanes of the next events are far apart in memory, so are their programs and flows.
void Simulator::prefetch() const {
  __builtin_prefetch(&lanes_[queue_.soon(5)]);
  const uint32_t number = queue_.soon(2);
  const Lane& soon = lanes_[number];
  const char* program = reinterpret_cast<const char*>(soon.program.get());
  for (int line = 0; line < 5; ++line) __builtin_prefetch(program + line * 64);
  if (soon.out != 0) __builtin_prefetch(&flows_[soon.out]);
  if (soon.in != 0) __builtin_prefetch(&flows_[soon.in]);
  if (queued_) __builtin_prefetch(&routes_[number]);
}

Error Simulator::stuck() const {
  std::string who;
  uint64_t waiting = 0;
  for (uint32_t number = 0; number < lanes_.size(); ++number) {
    const Lane& lane = lanes_[number];
    if (lane.done || ++waiting > 4) continue;
    const bool sends = lane.step.kind == StepKind::kSend;
    const std::string what =
        lane.step.kind == StepKind::kWait
            ? format("for step {} of channel {}", lane.step.bytes, lane.step.peer)
            : format("to {} rank {}", sends ? "send to" : "receive from", lane.step.peer);
    who += format("{}rank {} channel {} waits at step {} {}", who.empty() ? "" : "; ",
                  rank_of(number), number % channels_, lane.position, what);
  }
  return fail(CCOM_TIMEOUT, "the schedule does not end with a window of {}: {} channels wait, {}",
              window_, waiting, who);
}

Result<Simulation> Simulator::run() {
  for (uint32_t number = 0; number < lanes_.size(); ++number) {
    lanes_[number].program = schedule_.program(rank_of(number), number % channels_);
    queue_.push(0, number);
  }
  prepare_memory();
  result_.engine = Engine::kEvents;
  result_.finished_ps.assign(network_.period(), 0);
  uint64_t countdown = kProgressEvents, until_count = kCountEvents;
  while (!queue_.empty() && failure_.sentence.empty()) {
    if (--countdown == 0) {
      countdown = kProgressEvents;
      if (options_.progress) options_.progress({result_.steps, now_});
    }
    if (options_.loads && --until_count == 0) {
      until_count = std::max<uint64_t>(kCountEvents, flows_.size());
      result_.most_messages = std::max(result_.most_messages, flows_.live_messages(now_));
    }
    const EventQueue::Event event = queue_.pop();
    prefetch();
    now_ = event.time;
    if (now_ > options_.until_ps && options_.until_ps != 0) {
      result_.complete = false;
      result_.time_ps = options_.until_ps;
      result_.finished_ps.clear();
      result_.message_bytes = message_bytes();
      return std::move(result_);
    }
    if (processors_.shared()) {
      run_on_processor(event.lane);
    } else {
      go_on(event.lane);
    }
  }
  if (!failure_.sentence.empty()) return failure_;
  for (const Lane& lane : lanes_) {
    if (!lane.done) return stuck();
  }
  for (const uint64_t end : result_.finished_ps) result_.time_ps = std::max(result_.time_ps, end);
  result_.message_bytes = message_bytes();
  if (!options_.loads) return std::move(result_);
  if (!queued_) NEURON_CHECK(flows_.add_up(carried_));
  add_loads(network_, carried_, result_);
  return std::move(result_);
}

}  // namespace

uint64_t event_lane_bytes() { return sizeof(Lane) + sizeof(Route) + EventQueue::bytes_of_event(); }

Result<Simulation> simulate_events(const Schedule& schedule, const Network& network,
                                   const Survey& survey, uint32_t window,
                                   const SimulationOptions& options) {
  Simulator simulator(schedule, network, survey, window, options);
  return simulator.run();
}

}  // namespace neuron::ccom
