// SPDX-License-Identifier: Apache-2.0
// The DMA engines of a core in model time.
//
// Each engine is two actors: its ordinary queues, and its queue of collectives. An actor has at
// most one run of packets in service. Queues take turns, one packet each while several have work;
// from generation 4 on those whose next packets have the lowest class of service (hw/udma.h).
// A run takes the time of its descriptors and bytes, and of the links to other chips that it
// crosses; its effects happen at its end. Runs of the queue of collectives are planned when their
// doorbell is rung (collective_plan.h). The owner of a queue is the sequencer that rang it last:
// its `drain` waits for the queue, and faults of the queue stop it.
// Callers: the holder of the core; as DmaListener: any thread. Fails: faults of queues are raised
// at their owner; std::bad_alloc when a link is used for the first time, or runs are planned.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_DMA_ACTORS_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_DMA_ACTORS_H

#include <array>
#include <cstdint>
#include <memory>

#include "driver/emulator/chip/fabric.h"
#include "driver/emulator/neuroncore/group/collective_plan.h"
#include "driver/emulator/neuroncore/group/dma_issue.h"
#include "driver/emulator/neuroncore/group/doorbells.h"
#include "driver/emulator/neuroncore/group/fault_reporter.h"
#include "driver/emulator/neuroncore/group/host_gate.h"
#include "driver/emulator/neuroncore/group/strict_observer.h"

namespace neuron::core {

class DmaActors final : public chip::DmaListener {
 public:
  // Sets itself as listener of the core's DMA engines.
  DmaActors(CoreState& state, HostGate& gate, Execution& execution, FaultReporter& faults,
            StrictObserver& strict, DmaIssue& issue);

  // A doorbell of a queue of DMA engine `engine` of the core.
  void activate(unsigned engine, unsigned queue, const chip::Access& access);
  // The event of an actor.
  void step(unsigned index, ModelTime now);
  // Queues with work that the sequencer has rung.
  unsigned in_flight(const Sequencer& s) const { return in_flight_[s.place.actor]; }
  // When the last of them was done. It lies behind the time of a sequencer that was woken late.
  ModelTime drained_at(const Sequencer& s) const { return drained_at_[s.place.actor]; }
  // Queues with work of each DMA engine, bit per queue.
  std::array<uint32_t, kDmaEngines> active_queues() const {
    std::array<uint32_t, kDmaEngines> active;
    for (unsigned d = 0; d < kDmaEngines; ++d) {
      active[d] = actors_[d].active | actors_[kDmaEngines + d].active;
    }
    return active;
  }
  // Model time starts again from 0: links are free.
  void restart_time();
  void reset();

  void dma_rung(unsigned engine, unsigned queue, const chip::Access& access) override;
  void dma_armed(unsigned engine, unsigned queue, const chip::Access& access) override;
  void dma_freed(unsigned engine, unsigned queue, const chip::Access& access) override {
    dma_rung(engine, queue, access);
  }
  void dma_stopped(unsigned engine, unsigned queue, const chip::Access& access) override;
  void dma_faulted(const chip::DmaFault& fault, const chip::Access& access) override;
  void dma_packet(unsigned engine, unsigned queue, uint32_t ahead,
                  const chip::Packet& packet) override;

 private:
  // The sequencer that rang a queue last, and its instruction.
  struct Owner {
    uint8_t actor = 0;
    uint16_t opcode = 0;
    uint32_t pc = 0;
    uint32_t debug = 0;
  };
  struct Actor {
    uint32_t active = 0;  // queues with work
    bool busy = false;
    uint8_t queue = 0;  // in service, or served last
    uint32_t packets = 0;
    bool registers = false;  // the last of them writes a register
    bool crosses = false;    // links to other chips
    uint8_t service_class = 0;
    uint64_t bytes = 0;
    ModelTime start = 0, end = 0;
    std::array<ModelTime, NEURON_DMA_QUEUES> ready{};  // earliest first byte
    std::array<ModelTime, NEURON_DMA_QUEUES> idle{};   // since when there is no work; 0: always
    std::array<Owner, NEURON_DMA_QUEUES> owner{};
    Owner served{};  // of the queue, when the run in service began
  };
  // While transfers are traced, of each queue of a DMA engine.
  using QueueDoorbells = std::array<std::array<Doorbells<Owner>, NEURON_DMA_QUEUES>, kDmaEngines>;

  void deactivate(unsigned engine, unsigned queue, ModelTime now);
  void drop(unsigned owner, ModelTime now);
  bool traces() const { return state_.notifications.enabled(NEURON_NQ_SLOT_TRANSFER); }
  void note_doorbell(unsigned engine, unsigned queue, const Owner& owner);
  static constexpr unsigned kNoQueue = NEURON_DMA_QUEUES;
  unsigned choose(unsigned engine, const Actor& actor, ModelTime now, ModelTime& next) const;
  void plan(unsigned engine, ModelTime rung, unsigned ringer);
  void schedule(unsigned index, ModelTime now);
  void schedule_planned(unsigned index, ModelTime now);
  void serve(unsigned engine, Actor& actor, unsigned queue, const chip::DmaRun& run);
  void take(Actor& actor, const chip::DmaRun& run);
  void shorten_run(unsigned index, unsigned queue);
  ModelTime pass_links(const chip::DmaRun& run, unsigned owner, ModelTime now);
  void trace(unsigned engine, const Actor& actor, ModelTime now);
  void end_transfers(unsigned engine, unsigned queue, ModelTime now);
  Actor& actor_of(unsigned engine, unsigned queue) { return actors_[dma_actor(engine, queue)]; }
  // Number of a chip's DMA engine among the core's; kDmaEngines or more: not the core's.
  unsigned index_of(unsigned engine) const { return engine - state_.core * kDmaEngines; }

  CoreState& state_;
  HostGate& gate_;
  Execution& execution_;
  FaultReporter& faults_;
  StrictObserver& strict_;
  DmaIssue& issue_;
  const bool has_classes_;
  std::array<Actor, kDmaActors> actors_;
  std::array<uint16_t, kSequencers> in_flight_{};
  std::array<ModelTime, kSequencers> drained_at_{};
  bool queues_used_ = false;  // since time began
  std::array<CollectivePlan, kDmaEngines> plans_;
  // When links to other chips are taken, for each sequencer that rings; null until it uses one.
  // Groups do not queue behind each other, and neither do two CC cores: the order would depend on
  // the host.
  std::array<std::unique_ptr<chip::LinkTimes>, kSequencers> links_;
  bool links_used_ = false;
  uint32_t places_ = 0;                        // of the run in service: NEURON_PLACE_*
  uint32_t sources_ = 0;                       // M2S descriptors of the run in service
  std::unique_ptr<QueueDoorbells> doorbells_;  // null until transfers are traced
};

}  // namespace neuron::core

#endif
