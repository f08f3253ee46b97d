// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/dma_actors.h"

#include <algorithm>
#include <bit>

#include "driver/base/abandonment.h"
#include "driver/base/backoff.h"

namespace neuron::core {
namespace {

// If several queues of a DMA engine have work, each takes one packet in turn, as in hardware;
// from generation 4 on those whose packets have the lowest class of service.
using isa::kDmaRunPackets;
static_assert(kDmaRunPackets <= UINT8_MAX);  // the code of a NEURON_NK_TRANSFER

// Which of NEURON_PLACE_*; 0 for registers, which semaphores and doorbells are.
uint32_t place_of(const chip::ChipLayout& layout, uint64_t address) {
  if (layout.is_routed(address)) return NEURON_PLACE_OTHER;
  if (layout.is_host(address)) return NEURON_PLACE_HOST;
  if (layout.is_register(address)) return 0;
  return layout.is_hbm(address) ? NEURON_PLACE_HBM : NEURON_PLACE_CORE;
}

}  // namespace

DmaActors::DmaActors(CoreState& state, HostGate& gate, Execution& execution, FaultReporter& faults,
                     StrictObserver& strict, DmaIssue& issue)
    : state_(state),
      gate_(gate),
      execution_(execution),
      faults_(faults),
      strict_(strict),
      issue_(issue),
      has_classes_(state.limits.dma_priorities) {
  for (chip::UdmaEngine* engine : state_.dma) engine->set_listener(this);
}

void DmaActors::dma_rung(unsigned engine, unsigned queue, const chip::Access& access) {
  const unsigned index = index_of(engine);
  if (index >= kDmaEngines || queue >= NEURON_DMA_QUEUES) return;
  if (gate_.inside()) {
    activate(index, queue, access);
  } else {
    gate_.deliver({index << 8 | queue, 0, MailKind::kDoorbell, access});
  }
}

void DmaActors::dma_stopped(unsigned engine, unsigned queue, const chip::Access& access) {
  const unsigned index = index_of(engine);
  if (index >= kDmaEngines || queue >= NEURON_DMA_QUEUES) return;
  gate_.deliver({index << 8 | queue, kQueueStopped, MailKind::kDoorbell, access});
}

void DmaActors::dma_armed(unsigned engine, unsigned queue, const chip::Access& access) {
  const unsigned index = index_of(engine);
  if (index >= kDmaEngines || queue >= NEURON_DMA_QUEUES) return;
  if (strict_.is_on()) strict_.armed(index, queue, access);
}

void DmaActors::dma_packet(unsigned engine, unsigned queue, uint32_t ahead,
                           const chip::Packet& packet) {
  if (index_of(engine) >= kDmaEngines) return;
  strict_.packet(index_of(engine), queue, ahead, packet);
  if (!traces() || !gate_.inside()) [[likely]] {
    return;
  }
  sources_ += packet.m2s_count;
  const chip::ChipLayout& layout = state_.bus.layout();
  uint32_t written = 0;
  for (uint32_t n = 0; n < packet.s2m_count; ++n) {
    written |= place_of(layout, packet.s2m[n].address);
  }
  if (written == 0) return;  // an update of a semaphore
  places_ |= written << NEURON_PLACE_WRITE_SHIFT;
  for (uint32_t n = 0; n < packet.m2s_count; ++n) {
    if ((packet.m2s[n].control & NEURON_DESC_META) != 0) continue;
    places_ |= place_of(layout, packet.m2s[n].address);
  }
}

void DmaActors::activate(unsigned engine, unsigned queue, const chip::Access& access) {
  issue_.rings_have_room(access.time);
  if (!state_.dma[engine]->has_work(queue)) return;
  const unsigned index = dma_actor(engine, queue);
  Actor& actor = actors_[index];
  const unsigned ringer = state_.owner_of(access);
  const uint32_t bit = 1u << queue;
  if (strict_.is_on()) strict_.doorbell(engine, queue, access, (actor.active & bit) == 0);
  Owner& owner = actor.owner[queue];
  if (queue == NEURON_DMA_QUEUE_COLLECTIVES) plan(engine, access.time, ringer);
  if ((actor.active & bit) == 0) {
    actor.active |= bit;
    // A sequencer that was woken late rings while the queue, by its time, is still at work.
    const ModelTime idle = actor.idle[queue];
    const bool still_works = idle != 0 && access.time <= idle;
    actor.ready[queue] = still_works ? idle : access.time + kDmaStart;
    ++in_flight_[ringer];
  } else if (owner.actor != ringer) {
    ++in_flight_[ringer];
    drop(owner.actor, access.time);
  }
  const Sequencer& s = state_.sequencers[ringer];
  const bool issuing = s.current != nullptr;
  owner = {.actor = static_cast<uint8_t>(ringer),
           .opcode = issuing && state_.resumes(s) ? s.current->decoded.opcode
                                                  : uint16_t{NEURON_OP_DMA_TRIGGER},
           .pc = s.pc,
           .debug = issuing ? s.current->decoded.debug : 0};
  if (traces()) [[unlikely]] {
    note_doorbell(engine, queue, owner);
  }
  if (!actor.busy) {
    schedule(index, access.time);
  } else if (has_classes_ && actor.packets > 1 && index < kDmaEngines) {
    shorten_run(index, queue);
  }
  state_.scheduler.set_runnable();
}

void DmaActors::note_doorbell(unsigned engine, unsigned queue, const Owner& owner) {
  if (doorbells_ == nullptr) doorbells_ = std::make_unique<QueueDoorbells>();
  const chip::RingState ring = state_.dma[engine]->ring_state(queue, false);
  (*doorbells_)[engine][queue].ring(ring.length - ring.room, owner);
}

void DmaActors::deactivate(unsigned engine, unsigned queue, ModelTime now) {
  Actor& actor = actor_of(engine, queue);
  actor.active &= ~(1u << queue);
  actor.idle[queue] = now;
  if (queue == NEURON_DMA_QUEUE_COLLECTIVES) plans_[engine].clear();
  drop(actor.owner[queue].actor, now);
}

// A queue with work is no longer that of the sequencer, which may wait for its last one.
void DmaActors::drop(unsigned owner, ModelTime now) {
  queues_used_ = true;
  if (--in_flight_[owner] != 0) return;
  drained_at_[owner] = now;
  Sequencer& s = state_.sequencers[owner];
  if (s.state != NEURON_STATE_WAITING || !s.dma_wait) return;
  s.issue_at = now;
  state_.scheduler.schedule(s);
}

// Plans what the doorbell has added to the queue of collectives, or as much of it as a plan holds:
// what is left is planned when these runs are done. So is what somebody who is not waited for any
// more leaves, but for one run, without which the queue would count as idle.
void DmaActors::plan(unsigned engine, ModelTime rung, unsigned ringer) {
  CollectivePlan& plan = plans_[engine];
  ModelTime begin = plan.begin(rung);
  for (;;) {  // bounded: by the runs of a plan
    const chip::DmaRun run =
        state_.dma[engine]->next_run(NEURON_DMA_QUEUE_COLLECTIVES, kDmaRunPackets,
                                     isa::least_transfer(state_.timing), plan.ahead());
    if (plan.is_stale(run)) {  // the host has rewound the rings
      plan.clear();
      continue;
    }
    if (plan.is_full() || (!plan.empty() && base::Abandonment::seen())) return;
    if (run.packets == 0) return;  // the rest of a packet has not arrived yet
    ModelTime end = begin + isa::transfer_time(run.time_bytes, state_.timing);
    if (run.legs != 0) end = std::max(end, pass_links(run, ringer, begin));
    plan.add(run, begin, end);
    begin = end;
    if (!run.more || run.m2s == 0) return;
  }
}

// Returns when the links have taken a run's bytes.
ModelTime DmaActors::pass_links(const chip::DmaRun& run, unsigned owner, ModelTime now) {
  if (links_[owner] == nullptr) links_[owner] = std::make_unique<chip::LinkTimes>();
  links_used_ = true;
  ModelTime end = now;
  for (unsigned n = 0; n < run.legs; ++n) {
    const chip::DmaLeg& leg = run.leg[n];
    end = std::max(end, state_.bus.fabric()->transfer(state_.bus.node(), leg.address, leg.bytes,
                                                      leg.write, now, *links_[owner]));
  }
  return end;
}

// The queue to serve: round robin, beginning with the queue behind the last one, among those of the
// lowest class. kNoQueue: none is ready; `next` is when the first will be.
unsigned DmaActors::choose(unsigned engine, const Actor& actor, ModelTime now,
                           ModelTime& next) const {
  const bool classes = has_classes_ && !std::has_single_bit(actor.active);
  unsigned chosen = kNoQueue;
  unsigned lowest = NEURON_DMA_CLASSES;
  // The lowest bit is the queue behind the last one.
  static_assert(NEURON_DMA_QUEUES == 16);
  const unsigned first = actor.queue + 1u;
  uint16_t left = std::rotr(static_cast<uint16_t>(actor.active), static_cast<int>(first % 16));
  for (; left != 0 && lowest != 0; left &= static_cast<uint16_t>(left - 1)) {
    const unsigned queue = (first + static_cast<unsigned>(std::countr_zero(left))) % 16;
    if (actor.ready[queue] > now) {
      next = std::min(next, actor.ready[queue]);
      continue;
    }
    if (!classes) return queue;
    const unsigned its = state_.dma[engine]->service_class(queue);
    if (its >= lowest) continue;
    lowest = its;
    chosen = queue;
  }
  return chosen;
}

// Takes the next planned run into service.
void DmaActors::schedule_planned(unsigned index, ModelTime now) {
  constexpr unsigned kQueue = NEURON_DMA_QUEUE_COLLECTIVES;
  const unsigned engine = index - kDmaEngines;
  Actor& actor = actors_[index];
  CollectivePlan& plan = plans_[engine];
  ModelTime next = kNever;
  if (actor.active != 0) {
    if (!state_.dma[engine]->has_work(kQueue)) {  // the host has taken it away
      plan.clear();
    } else if (plan.empty()) {
      // It was full, or the host has executed some itself, or rewound the rings.
      this->plan(engine, now, actor.owner[kQueue].actor);
    }
    if (plan.empty()) {
      deactivate(engine, kQueue, now);
    } else {
      const CollectivePlan::Run& run = plan.next();
      actor.start = run.begin;
      serve(engine, actor, kQueue, run.run);
      actor.end = next = run.end;
    }
  }
  state_.scheduler.schedule_dma(index, next);
}

// Takes the next run into service, or sets the time at which a queue becomes ready.
void DmaActors::schedule(unsigned index, ModelTime now) {
  if (index >= kDmaEngines) return schedule_planned(index, now);
  const unsigned engine = index;
  Actor& actor = actors_[index];
  ModelTime next = kNever;
  while (actor.active != 0) {  // bounded: a queue less each time, or out
    next = kNever;
    const unsigned queue = choose(engine, actor, now, next);
    if (queue == kNoQueue) break;
    const bool alone = std::has_single_bit(actor.active);
    const chip::DmaRun run = state_.dma[engine]->has_work(queue)
                                 ? state_.dma[engine]->next_run(queue, alone ? kDmaRunPackets : 1,
                                                                isa::least_transfer(state_.timing))
                                 : chip::DmaRun{};
    if (run.packets == 0) {  // the rest of a packet has not arrived yet
      deactivate(engine, queue, now);
      continue;
    }
    actor.start = now;
    serve(engine, actor, queue, run);
    if (run.legs != 0) {
      actor.end = std::max(actor.end, pass_links(run, actor.owner[queue].actor, now));
    }
    next = actor.end;
    break;
  }
  state_.scheduler.schedule_dma(index, next);
}

void DmaActors::serve(unsigned engine, Actor& actor, unsigned queue, const chip::DmaRun& run) {
  actor.busy = true;
  actor.queue = static_cast<uint8_t>(queue);
  actor.served = actor.owner[queue];
  if (doorbells_ != nullptr) [[unlikely]] {
    const Owner* oldest = (*doorbells_)[engine][queue].oldest();
    if (oldest != nullptr) actor.served = *oldest;
  }
  take(actor, run);
  execution_.add_dma_bytes(run.bytes);
  for (unsigned n = 0; n < run.legs; ++n) execution_.add_link_bytes(run.leg[n].bytes);
}

// The run is in service since actor.start.
void DmaActors::take(Actor& actor, const chip::DmaRun& run) {
  actor.packets = run.packets;
  actor.registers = run.registers;
  actor.crosses = run.legs != 0;
  actor.service_class = run.service_class;
  actor.bytes = run.bytes;
  actor.end = actor.start + isa::transfer_time(run.time_bytes, state_.timing);
}

// A queue that was alone is served in runs. When another one of a lower class becomes ready, the
// run ends with the packet that is in service then. A run that crosses links stays whole: it has
// its place on them.
void DmaActors::shorten_run(unsigned index, unsigned queue) {
  Actor& actor = actors_[index];
  chip::UdmaEngine& engine = *state_.dma[index % kDmaEngines];
  if (actor.crosses || actor.ready[queue] >= actor.end) return;
  if (engine.service_class(queue) >= actor.service_class) return;
  for (uint32_t packets = 1; packets < actor.packets; ++packets) {
    const chip::DmaRun run =
        engine.next_run(actor.queue, packets, isa::least_transfer(state_.timing));
    if (run.packets != packets) return;  // the host has changed the queue
    if (actor.start + isa::transfer_time(run.time_bytes, state_.timing) < actor.ready[queue]) {
      continue;
    }
    execution_.add_dma_bytes(run.bytes - actor.bytes);  // wraps: less than was added
    take(actor, run);
    state_.scheduler.schedule_dma(index, actor.end);
    return;
  }
}

void DmaActors::step(unsigned index, ModelTime now) {
  const unsigned engine = index % kDmaEngines;
  Actor& actor = actors_[index];
  if (actor.busy) {
    const chip::Access access{chip::Origin::kDma, static_cast<uint8_t>(state_.core),
                              NEURON_ENGINE_DMA, now};
    state_.served_queue = engine << 8 | actor.queue;
    places_ = sources_ = 0;
    // A fault is reported through dma_faulted.
    if (!state_.dma[engine]->try_execute_run(actor.queue, actor.packets, access,
                                             now - actor.start)) {
      // A host thread serves this queue. The actor keeps its time, so the event is tried again.
      base::yield_processor();
      return;
    }
    actor.busy = false;
    if (index >= kDmaEngines) plans_[engine].done();
    if (traces()) [[unlikely]] {
      trace(engine, actor, now);
    }
    if (doorbells_ != nullptr) [[unlikely]] {
      Doorbells<Owner>& doorbells = (*doorbells_)[engine][actor.queue];
      // Once nobody reads transfers, nobody counts their descriptors either.
      traces() ? doorbells.transferred(sources_) : doorbells.clear();
    }
    issue_.rings_have_room(now);
    if (strict_.is_on()) end_transfers(engine, actor.queue, now);
    state_.scheduler.spend(static_cast<uint32_t>(actor.bytes >> 12));
    if (!state_.dma[engine]->has_work(actor.queue) && (actor.active >> actor.queue & 1) != 0) {
      deactivate(engine, actor.queue, now);
    }
  }
  schedule(index, now);
}

void DmaActors::trace(unsigned engine, const Actor& actor, ModelTime now) {
  const Owner& owner = actor.served;
  chip::Notification entry;
  entry.kind = NEURON_NK_TRANSFER;
  entry.engine = static_cast<uint8_t>(state_.sequencers[owner.actor].engine);
  entry.code = static_cast<uint8_t>(actor.packets - (actor.registers ? 1 : 0));
  entry.opcode = owner.opcode;
  entry.time = now;
  entry.pc = owner.pc;
  entry.debug = owner.debug;
  const auto capped = [](uint64_t value) {
    return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX));
  };
  const uint32_t unit = owner.actor < kEngines ? 0 : owner.actor - kEngines;
  entry.info = {unit << 24 | places_ << 16 | engine << 8 | actor.queue, capped(actor.bytes),
                capped(now - actor.start)};
  state_.record(0, NEURON_NQ_SLOT_TRANSFER, entry);
}

// Raises the trap that packets of a run met, at the engine that rang for them.
void DmaActors::end_transfers(unsigned engine, unsigned queue, ModelTime now) {
  const auto trap = strict_.end_transfers(engine, queue);
  if (!trap) return;
  const unsigned owner = trap->ringer.engine < kEngines
                             ? trap->ringer.engine
                             : actor_of(engine, queue).owner[queue].actor;
  Sequencer& s = state_.sequencers[owner];
  state_.faults |= kQueueFault;
  if (s.state == NEURON_STATE_FAULT || s.state == NEURON_STATE_IDLE) return;
  faults_.raise(s, trap->fault, trap->ringer.pc, 0, NEURON_OP_DMA_TRIGGER, now);
  state_.scheduler.schedule(s);
}

void DmaActors::dma_faulted(const chip::DmaFault& fault, const chip::Access& access) {
  if (!gate_.inside()) return;  // a host doorbell: it concerns no program of the core
  state_.faults |= kQueueFault;
  const unsigned engine = index_of(fault.engine);
  if (engine >= kDmaEngines || fault.queue >= NEURON_DMA_QUEUES) return;
  const Owner& owner = actor_of(engine, fault.queue).owner[fault.queue];
  Sequencer& s = state_.sequencers[owner.actor];
  if (s.state == NEURON_STATE_FAULT || s.state == NEURON_STATE_IDLE) return;
  Fault f = make_fault(fault.code, fault.address, fault.engine << 8 | fault.queue);
  f.notified = true;
  faults_.raise(s, f, owner.pc, owner.debug, owner.opcode, access.time);
  state_.scheduler.schedule(s);
}

void DmaActors::restart_time() {
  if (queues_used_) {
    drained_at_.fill(0);
    for (Actor& actor : actors_) actor.idle.fill(0);
    for (CollectivePlan& plan : plans_) plan.restart_time();
    queues_used_ = false;
  }
  if (!links_used_) return;
  for (const auto& times : links_) {
    if (times == nullptr) continue;
    for (isa::Timetable& table : *times) table.clear();
  }
  links_used_ = false;
}

void DmaActors::reset() {
  actors_.fill({});
  for (CollectivePlan& plan : plans_) plan.reset();
  doorbells_.reset();
  in_flight_.fill(0);
  drained_at_.fill(0);
}

}  // namespace neuron::core
