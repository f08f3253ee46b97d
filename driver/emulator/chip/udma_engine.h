// SPDX-License-Identifier: Apache-2.0
// One UDMA engine: 16 queues of an M2S and an S2M ring each (hw/udma.h), and how their packets are
// executed.
//
// Concepts: a doorbell is an increment of a ring's tail. A doorbell by the host executes everything
// that is complete before the write returns. A doorbell by an engine or by DMA only makes the work
// visible: it tells the listener (the core's execution group), which later takes the work in *runs*
// of packets, at model times of its choosing. Engines behind those of the cores belong to the host:
// they refuse doorbells by engines and DMA. Thread-safe: yes. Each queue has a register lock
// (short, taken by every access) and a run lock (held while a run is executed; never two at once,
// never taken by a register access of a DMA; the holder of a core only tries it). Listener calls
// are made without any lock held. Owns: register state only; rings lie in HBM or host memory and
// every descriptor is copied once before it is checked. Fails: DmaFault; the queue then aborts
// until it is reset, the rest of the engine goes on.
#ifndef DRIVER_EMULATOR_CHIP_UDMA_ENGINE_H
#define DRIVER_EMULATOR_CHIP_UDMA_ENGINE_H

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/notification_queue.h"
#include "driver/emulator/chip/register_target.h"
#include "driver/emulator/chip/udma_packet.h"
#include "hw/address_map.h"
#include "hw/fault.h"
#include "hw/udma.h"

namespace neuron::chip {

// Bytes that a run sends to another chip, or gets from it.
struct DmaLeg {
  uint64_t address = 0;  // one of them; all lead to the same chip
  uint64_t bytes = 0;
  bool write = false;
};

// A number of complete packets at the head of a queue.
struct DmaRun {
  static constexpr unsigned kMaxLegs = 4;
  uint32_t packets = 0;       // 0: nothing complete
  uint64_t bytes = 0;         // read from sources
  uint64_t time_bytes = 0;    // bytes of plain copies that take as long
  bool registers = false;     // the last packet writes to registers (a semaphore, a doorbell)
  bool notify = false;        // the last packet posts a DMA notification
  uint8_t service_class = 0;  // of all its packets
  uint8_t legs = 0;           // of `leg`; a further one joins the last
  bool more = false;          // complete or not, there are descriptors behind it
  uint32_t m2s = 0, s2m = 0;  // descriptors of its packets; 0 of a malformed one
  uint32_t generation = 0;    // of the queue: it differs once the rings have been rewound
  std::array<DmaLeg, kMaxLegs> leg;
};

// Descriptors of each ring that lie in front of a run.
struct DmaAhead {
  uint32_t m2s = 0, s2m = 0;
};

// What an engine of the core that writes descriptors itself must know of a ring.
struct RingState {
  uint64_t base = 0;
  uint32_t length = 0;  // 0: not initialised, or aborted
  uint32_t tail = 0;    // slot of the next descriptor
  uint32_t tail_id = 1;
  uint32_t room = 0;
};

class DmaListener {
 public:
  virtual ~DmaListener() = default;
  // An engine or a DMA of a group has rung `queue` (either ring) of a DMA engine: has_work may be
  // true now. Called in the ringing thread, without locks.
  virtual void dma_rung(unsigned engine, unsigned queue, const Access& access) = 0;
  // A doorbell that leaves the queue nothing to do yet, such as one of destinations before their
  // sources.
  virtual void dma_armed(unsigned engine, unsigned queue, const Access& access) {
    (void)engine;
    (void)queue;
    (void)access;
  }
  // The host has had packets of `queue` executed or a ring of it rewound: there may be room now.
  // Called in the host's thread, without locks.
  virtual void dma_freed(unsigned engine, unsigned queue, const Access& access) {
    (void)engine;
    (void)queue;
    (void)access;
  }
  // The host has reset a queue that the programs started last have rung: their memory may go next.
  // Called in the host's thread, without locks.
  virtual void dma_stopped(unsigned engine, unsigned queue, const Access& access) {
    dma_freed(engine, queue, access);
  }
  // A queue of the listener's engines has faulted (also for host doorbells). The error notification
  // has been posted.
  virtual void dma_faulted(const DmaFault& fault, const Access& access) = 0;
  // A packet that begins `ahead` M2S descriptors behind the ring's head is about to be transferred.
  // Called in the thread that executes it, which holds the queue.
  virtual void dma_packet(unsigned engine, unsigned queue, uint32_t ahead, const Packet& packet) {
    (void)engine;
    (void)queue;
    (void)ahead;
    (void)packet;
  }
};

class UdmaEngine : public RegisterTarget {
 public:
  // `errors` takes error notifications (the core's block); `wrapper` the DMA notifications (slot 0
  // of the SDMA wrapper). Both, and the bus, outlive the engine.
  UdmaEngine(unsigned index, const Bus& bus, NotificationBlock& errors, NotificationBlock& wrapper);
  ~UdmaEngine() override;

  void set_listener(DmaListener* listener) { listener_ = listener; }
  void set_faults(ChipFaults& faults) { faults_ = &faults; }
  unsigned index() const { return index_; }

  // --- for the execution group ---
  // Cheap: both rings of the queue hold descriptors and may run. A packet need not be complete.
  bool has_work(unsigned queue) const {
    // Acquire: pairs with the release in publish_work().
    return work_.load(std::memory_order_acquire) >> queue & 1;
  }
  // Bit q = has_work(q).
  uint32_t work_mask() const { return work_.load(std::memory_order_acquire); }
  RingState ring_state(unsigned queue, bool s2m) const;
  // The class of service of the packet at the head of a queue; 0: a queue without work, a
  // descriptor that cannot be read, a chip without classes.
  unsigned service_class(unsigned queue) const;
  // The longest run of complete packets at the head of a queue, at most `max_packets`. All are of
  // one class. A run ends with (and includes) the first packet that writes to registers or asks for
  // a notification, so that such an effect has the run's end as its time. A malformed packet counts
  // as a run of one. In `time_bytes`, no descriptor counts less than `least_transfer` bytes.
  // It begins behind `ahead` descriptors of each ring, which other runs have.
  DmaRun next_run(unsigned queue, uint32_t max_packets, uint64_t least_transfer = 0,
                  const DmaAhead& ahead = {}) const;
  // The packet that has not been executed yet and will write the byte at `address`: how many M2S
  // descriptors lie in front of it. Nothing if no complete packet of the queue writes there.
  std::optional<uint32_t> pending_write(unsigned queue, uint64_t address) const;
  // Executes `packets` packets (as counted by next_run) at access.time; neighbouring transfers are
  // copied together. Stops at the first fault, which is also notified and told to the listener.
  DmaFault execute_run(unsigned queue, uint32_t packets, const Access& access,
                       ModelTime duration = 0);
  DmaFault execute_packet(unsigned queue, const Access& access, ModelTime duration = 0) {
    return execute_run(queue, 1, access, duration);
  }
  // Seed of stochastic rounding in compute packets: the core's.
  void set_seed(uint32_t seed) { seed_.store(seed, std::memory_order_relaxed); }
  // The same for the group that runs the core. False: another thread executes packets of the queue
  // at this moment (a host doorbell); nothing was done. The group must not wait for that thread:
  // its packets may read registers of the core, and for that the thread waits for the group to let
  // it in.
  bool try_execute_run(unsigned queue, uint32_t packets, const Access& access, ModelTime duration);
  // START of an engine of the core: queues that the host has reset accept doorbells of engines
  // again.
  void accept_engine_doorbells() { start_epoch_.fetch_add(1, std::memory_order_relaxed); }

  // --- for the chip ---
  // Chip::keep_queue.
  void keep(unsigned queue) { kept_.fetch_or(1u << queue, std::memory_order_relaxed); }
  // Reset values. When this returns, nothing that was in flight writes any more.
  void reset();
  // Leaves the rings and clears abort states only (core reset, for the host's own engines), of the
  // queues in the mask.
  void clear_aborts(uint32_t queues = ~0u);
  uint64_t ring_id_mismatches() const { return mismatches_.load(std::memory_order_relaxed); }

 protected:
  bool accepts(uint64_t offset, uint64_t bytes, bool write, const Access& access) override;
  uint32_t read_word(uint64_t offset, const Access& access) override;
  void write_word(uint64_t offset, uint32_t value, const Access& access) override;

 private:
  struct Ring;
  struct Queue;

  bool queue_register(uint64_t offset, bool& s2m, unsigned& queue, unsigned& reg) const;
  // Whether one of the words acts on a queue that the host keeps.
  bool touches_kept(uint64_t offset, uint64_t bytes) const;
  Reach reach(unsigned queue) const {
    return (kept_.load(std::memory_order_relaxed) >> queue & 1) != 0 ? Reach::kDriver
                                                                     : Reach::kShared;
  }
  void write_ring(unsigned queue, bool s2m, unsigned reg, uint32_t value, const Access& access);
  void ring_doorbell(unsigned queue, bool s2m, uint32_t count, const Access& access);
  void rewind(unsigned queue, bool s2m, const Access& access);
  void change_state(bool s2m, uint32_t value, const Access& access);
  uint32_t half_state(bool s2m) const;
  // Behind a register write of the host that stops the queue or moves its rings: returns when the
  // packets in flight have stopped, which takes them at most a stride (udma_run.cpp). What was
  // theirs may be anybody's then.
  void await_run(unsigned queue, const Access& access) const;
  // With the queue's register lock held.
  void publish_work(unsigned queue);
  // Without locks: executes (host) or tells the listener.
  void serve(unsigned queue, const Access& access);
  bool snapshot(unsigned queue, RingView& m2s, RingView& s2m, uint32_t& generation) const;
  // With the queue's run lock held.
  DmaFault run_packets(unsigned queue, uint32_t packets, const Access& access, ModelTime duration);
  DmaFault compute_packet(unsigned queue, const Packet& packet, const RingView& m2s,
                          uint32_t m2s_ahead, const RingView& s2m, uint32_t s2m_ahead,
                          const Access& mover);
  // What a fault plan has for the descriptors of a packet.
  DmaFault injected_fault(unsigned queue, const Packet& packet, const RingView& m2s,
                          uint32_t m2s_ahead);
  void report(DmaFault& fault, unsigned queue, const Access& access);
  // What this engine's transfers carry: the engine's own core, not that of the ringer.
  Access mover(unsigned queue, const Access& access) const;

  const unsigned index_;
  const Bus& bus_;
  NotificationBlock& errors_;
  NotificationBlock& wrapper_;
  DmaListener* listener_ = nullptr;
  ChipFaults* faults_ = &ChipFaults::none();
  std::unique_ptr<Queue[]> queues_;
  StoredRegisters stored_;
  std::atomic<uint32_t> work_ = 0;
  std::atomic<uint32_t> kept_ = 0;  // queues that the host keeps
  std::atomic<uint32_t> state_[2];  // per half: NEURON_UDMA_STATE_NORMAL, 0 (disabled), ..._ABORT
  std::atomic<uint32_t> start_epoch_ = 1;
  std::atomic<uint32_t> seed_ = 0;
  std::atomic<uint64_t> mismatches_ = 0;
};

}  // namespace neuron::chip

#endif
