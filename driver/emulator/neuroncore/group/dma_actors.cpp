// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/dma_actors.h"

#include <algorithm>
#include <bit>

#include "driver/base/backoff.h"

namespace neuron::core {
namespace {

// Packets taken together when no other queue of the DMA engine has work; with several, one at a
// time in turn, as the hardware does.
constexpr uint32_t kRunPackets = 16;

}  // namespace

DmaActors::DmaActors(CoreState& state, HostGate& gate, Execution& execution, FaultReporter& faults,
                     StrictObserver& strict, DmaIssue& issue)
    : state_(state),
      gate_(gate),
      execution_(execution),
      faults_(faults),
      strict_(strict),
      issue_(issue) {
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
  if (index_of(engine) < kDmaEngines) strict_.packet(index_of(engine), queue, ahead, packet);
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
  if ((actor.active & bit) == 0) {
    actor.active |= bit;
    actor.ready[queue] = access.time + kDmaStart;
    ++in_flight_[ringer];
  } else if (owner.actor != ringer) {
    --in_flight_[owner.actor];
    ++in_flight_[ringer];
  }
  const Sequencer& s = state_.sequencers[ringer];
  const bool issuing = s.current != nullptr;
  owner = {.actor = static_cast<uint8_t>(ringer),
           .opcode = issuing && state_.resumes(s) ? s.current->decoded.opcode
                                                  : uint16_t{NEURON_OP_DMA_TRIGGER},
           .pc = s.pc,
           .debug = issuing ? s.current->decoded.debug : 0};
  if (!actor.busy) schedule(index, access.time);
  state_.scheduler.set_runnable();
}

void DmaActors::deactivate(unsigned engine, unsigned queue, ModelTime now) {
  Actor& actor = actor_of(engine, queue);
  actor.active &= ~(1u << queue);
  const unsigned owner = actor.owner[queue].actor;
  if (--in_flight_[owner] != 0) return;
  Sequencer& s = state_.sequencers[owner];
  if (s.state != NEURON_STATE_WAITING || !s.dma_wait) return;
  s.issue_at = now;
  state_.scheduler.schedule(s);
}

// When the links have taken a run's bytes.
ModelTime DmaActors::pass_links(const chip::DmaRun& run, unsigned owner, ModelTime now) {
  if (links_ == nullptr) links_ = std::make_unique<std::array<chip::LinkTimes, kSequencers>>();
  links_used_ = true;
  ModelTime end = now;
  for (unsigned n = 0; n < run.legs; ++n) {
    const chip::DmaLeg& leg = run.leg[n];
    end = std::max(end, state_.bus.fabric()->transfer(state_.bus.node(), leg.address, leg.bytes,
                                                      leg.write, now, (*links_)[owner]));
  }
  return end;
}

// Takes the next run into service, or sets the time at which a queue becomes ready.
void DmaActors::schedule(unsigned index, ModelTime now) {
  const unsigned engine = index % kDmaEngines;
  Actor& actor = actors_[index];
  ModelTime next = kNever;
  // Round robin: queues behind the last one first.
  for (unsigned step = 1; step <= NEURON_DMA_QUEUES && actor.active != 0; ++step) {
    const unsigned queue = (actor.queue + step) % NEURON_DMA_QUEUES;
    if ((actor.active >> queue & 1) == 0) continue;
    if (actor.ready[queue] > now) {
      next = std::min(next, actor.ready[queue]);
      continue;
    }
    const bool alone = std::has_single_bit(actor.active);
    const chip::DmaRun run = state_.dma[engine]->has_work(queue)
                                 ? state_.dma[engine]->next_run(queue, alone ? kRunPackets : 1)
                                 : chip::DmaRun{};
    if (run.packets == 0) {  // the rest of a packet is not there yet
      deactivate(engine, queue, now);
      continue;
    }
    actor.busy = true;
    actor.queue = static_cast<uint8_t>(queue);
    actor.packets = run.packets;
    actor.bytes = run.bytes;
    actor.start = now;
    actor.end = now + dma_time((run.descriptors + 1) / 2, run.time_bytes);
    execution_.add_dma_bytes(run.bytes);
    for (unsigned n = 0; n < run.legs; ++n) execution_.add_link_bytes(run.leg[n].bytes);
    if (run.legs != 0) {
      actor.end = std::max(actor.end, pass_links(run, actor.owner[queue].actor, now));
    }
    next = actor.end;
    break;
  }
  state_.scheduler.schedule_dma(index, next);
}

void DmaActors::step(unsigned index, ModelTime now) {
  const unsigned engine = index % kDmaEngines;
  Actor& actor = actors_[index];
  if (actor.busy) {
    const chip::Access access{chip::Origin::kDma, static_cast<uint8_t>(state_.core),
                              NEURON_ENGINE_DMA, now};
    // A fault comes back through dma_faulted.
    if (!state_.dma[engine]->try_execute_run(actor.queue, actor.packets, access,
                                             now - actor.start)) {
      // The host serves this queue. The actor's time stays, so it is tried again.
      base::yield_processor();
      return;
    }
    actor.busy = false;
    issue_.rings_have_room(now);
    if (strict_.is_on()) end_transfers(engine, actor.queue, now);
    state_.scheduler.spend(static_cast<uint32_t>(actor.bytes >> 12));
    if (!state_.dma[engine]->has_work(actor.queue) && (actor.active >> actor.queue & 1) != 0) {
      deactivate(engine, actor.queue, now);
    }
  }
  schedule(index, now);
}

// Raises what the packets of a run trapped on, at the engine that rang for them.
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
  if (!gate_.inside()) return;  // a host doorbell: no program of the core is concerned
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
  if (!links_used_) return;
  for (chip::LinkTimes& times : *links_) times.fill(0);
  links_used_ = false;
}

void DmaActors::reset() {
  actors_.fill({});
  in_flight_.fill(0);
}

}  // namespace neuron::core
