// SPDX-License-Identifier: Apache-2.0
// The execution group of one core: five sequencers, its CC cores and 16 DMA engines, each a second
// time for the queue of collectives, as actors of a discrete-event simulation, ordered by (model
// time, actor number).
//
// Each step takes the actor with the smallest time and lets it do one thing. The group is quiescent
// when no actor has a time. A doorbell that finds it so, outside an execution, starts at time 0;
// launches (increments of semaphore 7 from outside) that find it busy wait until it is quiescent
// again, so that each is timed from 0.
// Threads: everything below "core state" belongs to who holds `run_lock_`. Others go through
// read, write, dma_rung: see group_access.cpp. Fails: as NeuronCore says. No allocation per event.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_EXECUTION_GROUP_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_EXECUTION_GROUP_H

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/core.h"
#include "driver/emulator/chip/fabric.h"
#include "driver/emulator/chip/notification_queue.h"
#include "driver/emulator/chip/semaphores.h"
#include "driver/emulator/chip/udma_engine.h"
#include "driver/emulator/neuroncore/dma/dma_plan.h"
#include "driver/emulator/neuroncore/engines/tensor_engine.h"
#include "driver/emulator/neuroncore/engines/unit_context.h"
#include "driver/emulator/neuroncore/group/run_lock.h"
#include "driver/emulator/neuroncore/sequencer/core_memory.h"
#include "driver/emulator/neuroncore/sequencer/sequencer.h"
#include "driver/emulator/neuroncore/strict/strict_mode.h"

namespace neuron::core {

inline constexpr unsigned kEngines = NEURON_CORE_ENGINES;  // with units
inline constexpr unsigned kSequencers = kEngines + chip::kMaxCcPerCore;
inline constexpr unsigned kDmaEngines = chip::kEnginesPerCore;
// The queue of collectives has a time of its own, so that an engine that waits for another chip and
// one that does not never compete for a DMA engine in an order that depends on the host.
inline constexpr unsigned kDmaActors = 2 * kDmaEngines;
constexpr unsigned dma_actor(unsigned engine, unsigned queue) {
  return engine + (queue == NEURON_DMA_QUEUE_COLLECTIVES ? kDmaEngines : 0);
}

class ExecutionGroup final : public chip::SemaphoreListener, public chip::DmaListener {
 public:
  ExecutionGroup(const chip::CoreConnections& connections, chip::RunnableListener* listener);

  bool read(uint64_t offset, std::span<std::byte> out, const chip::Access& access);
  bool write(uint64_t offset, std::span<const std::byte> in, const chip::Access& access);
  std::byte* direct(uint64_t offset, size_t length);

  // Acquire: pairs with the release in set_runnable and at the end of run().
  bool runnable() const { return runnable_.load(std::memory_order_acquire); }
  bool deadlocked() const { return deadlocked_.load(std::memory_order_acquire); }
  // `patient`: while only another group can make it go on, sleep until it does.
  chip::RunResult run(std::chrono::steady_clock::time_point deadline, bool patient);
  void reset();
  void reset_cc(unsigned k);  // one CC core
  // Has whoever sleeps until peers write look again.
  void disturb() { wake_runner(); }
  std::string describe();

  void semaphore_changed(const chip::SemaphoreChange& change, const chip::Access& access) override;
  void semaphore_refused(neuron_fault fault, const chip::SemaphoreChange& change,
                         const chip::Access& access) override;
  void dma_rung(unsigned engine, unsigned queue, const chip::Access& access) override;
  void dma_armed(unsigned engine, unsigned queue, const chip::Access& access) override;
  void dma_freed(unsigned engine, unsigned queue, const chip::Access& access) override {
    dma_rung(engine, queue, access);
  }
  void dma_faulted(const chip::DmaFault& fault, const chip::Access& access) override;
  void dma_packet(unsigned engine, unsigned queue, uint32_t ahead,
                  const chip::Packet& packet) override;

 private:
  // One DMA engine as an actor: at most one run of packets is in service.
  struct DmaActor {
    uint32_t active = 0;  // queues with work
    bool busy = false;
    uint8_t queue = 0;  // in service, or served last
    uint32_t packets = 0;
    uint64_t bytes = 0;
    ModelTime start = 0, end = 0;
    std::array<ModelTime, NEURON_DMA_QUEUES> ready{};  // first byte possible
    std::array<uint8_t, NEURON_DMA_QUEUES> owner{};    // engine that rang last
    std::array<uint32_t, NEURON_DMA_QUEUES> owner_pc{};
    std::array<uint32_t, NEURON_DMA_QUEUES> owner_debug{};
    std::array<uint16_t, NEURON_DMA_QUEUES> owner_opcode{};
  };
  // A write or doorbell from outside while the group runs.
  // Doorbell: engine << 8 | queue. Memory (strict mode): `value` bytes were accessed.
  enum class MailKind : uint8_t { kWord, kBurst, kDoorbell, kMemoryRead, kMemoryWrite };
  struct Mail {
    uint64_t offset = 0;
    uint32_t value = 0;
    MailKind kind = MailKind::kWord;
    chip::Access access;
  };
  static constexpr std::chrono::seconds kVisitorPatience{30};
  // Words from outside that may wait for the runner; a reset among them takes a millisecond.
  static constexpr size_t kMailRoom = 256;
  // The instruction being issued, with registers substituted.
  struct Issue {
    Sequencer& s;
    CachedInstruction& entry;
    const isa::Instruction& i;
    ModelTime now;
    Cost cost;
    uint32_t pc;
    uint32_t next_pc;
    ModelTime gap = 0;       // the unit waits for the result before it
    ModelTime end = 0;       // inputs consumed
    ModelTime complete = 0;  // result visible
    bool stays = false;      // the program counter does not move
    bool again = false;      // not done: issued again when the unit has said
  };
  // Descriptors on their way into rings; of one instruction at a time.
  struct Generation {
    DmaPlan plan;
    bool active = false;
    unsigned engine = 0;
    uint32_t pc = 0;
    uint16_t starts = 0;
  };
  using QueueRings = std::array<chip::RingState, 2>;  // M2S, S2M

  // group_access.cpp
  bool inside() const { return running_group() == this; }
  bool read_words(uint64_t offset, std::span<std::byte> out);
  bool read_and_unlock(uint64_t offset, std::span<std::byte> out);  // with run_lock_ held
  bool read_outside(uint64_t offset, std::span<std::byte> out);
  bool read_between_groups(ExecutionGroup& reader, uint64_t offset, std::span<std::byte> out);
  bool lock_as_visitor();
  void lend(bool lent);
  bool mapped(uint64_t offset) const;
  // The semaphores at an offset of the window: 0 the core's, 1 + k those of CC core k, -1 none.
  int semaphores_at(uint64_t offset, uint64_t& inside) const;
  void apply(const Mail& mail, bool foreign);
  template <class MailAt>
  void deliver(size_t count, const MailAt& mail_at);
  void ring_from_outside(const Mail& doorbell);
  void drain_mail();
  void settle();
  bool attend(std::chrono::steady_clock::time_point deadline);
  void change_semaphore(unsigned block, uint64_t at, uint32_t value, const chip::Access& access,
                        bool remote);
  void write_semaphore(unsigned block, uint64_t at, uint32_t value, const chip::Access& access,
                       bool foreign, bool remote);
  void changed(unsigned block, const chip::SemaphoreChange& change, const chip::Access& access);
  void refused(unsigned block, neuron_fault fault, const chip::SemaphoreChange& change,
               const chip::Access& access);
  bool wait_for_peers(uint32_t word, std::chrono::steady_clock::time_point deadline);
  void wake_runner();
  void tell_runnable(bool quiet);
  bool stays_quiet() const { return sleepers_.load() != 0 && !runnable() && awaits_peers(); }
  void release_held_launch();
  void begin_launch();
  void begin_external();

  // strict_group.cpp
  void note_access(uint64_t offset, size_t bytes, bool write, const chip::Access& access);
  void note_mail(const Mail& mail);
  void note_semaphore(const chip::SemaphoreChange& change, const chip::Access& access);
  void note_doorbell(unsigned engine, unsigned queue, const chip::Access& access, bool idle);
  void acquire_waits(const Sequencer& s, const isa::Instruction& i);
  Fault check_accesses(Sequencer& s, const isa::Instruction& i);
  uint32_t pending_descriptors(unsigned engine, unsigned queue) const;
  void end_transfers(unsigned engine, unsigned queue, ModelTime now);
  Fault strict_fault();
  void release_memory(const Sequencer& s, ModelTime now) {
    if (strict_ && !s.is_cc()) {
      strict_->clocks().release_memory(s.engine, strict_->tick(s.engine, s.last_complete <= now));
    }
  }

  // core_registers.cpp
  bool is_register(uint64_t offset) const;
  bool is_engine_block(uint64_t offset, unsigned& actor, uint32_t& at) const;
  uint32_t read_register(uint64_t offset);
  void write_register(uint64_t offset, uint32_t value, bool burst, ModelTime now);
  uint32_t read_engine(Sequencer& s, uint32_t at);
  void write_engine(Sequencer& s, uint32_t at, uint32_t value, bool burst, ModelTime now);
  uint32_t read_core(uint32_t at);
  void write_core(uint32_t at, uint32_t value, ModelTime now);
  void command(Sequencer& s, unsigned command, ModelTime now);
  void start(Sequencer& s, ModelTime now);
  void resume(Sequencer& s, ModelTime now);
  void stop(Sequencer& s, uint8_t state);
  void refuse_write(Sequencer& s, uint32_t at, ModelTime now);
  bool halted_by_debugger() const;

  // execution_group.cpp
  static ExecutionGroup*& running_group();  // of this thread, or null
  chip::RunResult loop(std::chrono::steady_clock::time_point deadline);
  void step_sequencer(Sequencer& s, ModelTime now);
  void step_dma(unsigned index, ModelTime now);
  void schedule_dma(unsigned index, ModelTime now);
  ModelTime pass_links(const chip::DmaRun& run, unsigned owner, ModelTime now);
  void reset_locked(bool with_cc);
  void reset_sequencer(Sequencer& s);
  static void reset_unit(UnitContext& unit);
  // Somebody waits for what only another group can do.
  bool awaits_peers() const;
  unsigned owner_of(const chip::Access& access) const;
  DmaActor& actor_of(unsigned engine, unsigned queue) { return actors_[dma_actor(engine, queue)]; }
  void set_runnable();
  void schedule(Sequencer& s) { times_[s.place.actor] = s.next_event(); }
  void reset_time();
  void wake(unsigned block, bool event, unsigned index, ModelTime now);
  void wake_one(Sequencer& s, bool event, unsigned index, ModelTime now);
  void activate_dma(unsigned engine, unsigned queue, const chip::Access& access);
  void deactivate_dma(unsigned engine, unsigned queue, ModelTime now);

  // issue.cpp
  void issue(Sequencer& s, ModelTime now);
  bool wait_holds(const Sequencer& s, const isa::Wait& wait) const;
  bool waits_hold(const Sequencer& s, const isa::Instruction& i) const;
  void block(Sequencer& s, CachedInstruction& entry, ModelTime now);
  Fault substitute(Sequencer& s, const isa::Instruction& from, isa::Instruction& to) const;
  bool must_drain(Sequencer& s, const isa::Instruction& i, ModelTime now);
  void retire(Issue& issued);
  void advance(Sequencer& s, uint32_t next_pc);
  bool apply_update(Sequencer& s, const PendingUpdate& update, ModelTime now);
  void trace(const Issue& issued);
  ModelTime held_from(const Sequencer& s, const isa::Wait& wait) const;
  bool must_wait_for_arrival(Sequencer& s, const CachedInstruction& entry, ModelTime now);

  // control_flow.cpp
  Fault execute(Issue& issue);
  Fault execute_control(Issue& issue);
  Fault execute_flow(Issue& issue);
  Fault execute_datapath(Issue& issue);
  Fault trigger_dma(Issue& issue);
  Fault execute_dma(Issue& issue);

  // dma_issue.cpp
  bool resumes(const Sequencer& s) const;
  unsigned chip_engine(unsigned engine) const { return core_ * kDmaEngines + engine; }
  QueueRings rings_of(unsigned engine, unsigned queue) const;
  Fault generate_dma(Issue& issue);
  Fault plan_dma(Issue& issue);
  Fault write_lane(Issue& issue, unsigned engine);
  Fault write_ring(const Issue& issue, const chip::RingState& ring,
                   const RawDescriptor* descriptors, unsigned count);
  void ring_has_room(ModelTime now);

  // control_flow.cpp
  Fault store_words(Issue& issue, uint32_t value);
  Fault jump(Issue& issue, bool leaves_loops);
  Fault check_loop_entry(Issue& issue);
  Fault enter_loop(Issue& issue);
  Fault identify(Issue& issue, uint32_t what);
  Fault complete(Issue& issue, uint32_t status);

  // faults.cpp
  void raise(Sequencer& s, const Fault& fault, uint32_t pc, uint32_t debug, uint16_t opcode,
             ModelTime now);
  void warn(Sequencer& s, neuron_fault code, uint32_t pc, uint32_t debug, uint16_t opcode,
            std::array<uint32_t, 3> info, ModelTime now);
  void stop_others(const Sequencer& except);
  void begin_execution(Sequencer& s);
  // Adds what the execution has cost to the host's work record.
  void add_work(ModelTime now);
  bool write_record(const Sequencer& s, uint32_t status, uint32_t pc, uint32_t debug, uint64_t info,
                    ModelTime now, bool executing);

  // injected_faults.cpp
  bool meets_injected_fault(Sequencer& s, const CachedInstruction& entry, ModelTime now);

  // describe.cpp
  void describe_engine(const Sequencer& s, std::string& text) const;

  chip::Access access_of(const Sequencer& s, ModelTime now) const {
    return {chip::Origin::kEngine, static_cast<uint8_t>(core_), static_cast<uint8_t>(s.engine), now,
            static_cast<uint8_t>(s.is_cc() ? s.place.actor - kEngines : 0)};
  }

  const unsigned core_;
  const uint32_t chip_;
  chip::Bus& bus_;
  const uint64_t window_;                        // device address of the core's window
  std::array<uint64_t, kDmaEngines> doorbells_;  // and of its DMA engines
  chip::SemaphoreBlock& semaphores_;
  chip::NotificationBlock& notifications_;
  std::array<chip::UdmaEngine*, kDmaEngines> dma_;
  const std::array<chip::CcConnection, chip::kMaxCcPerCore> cc_;
  const unsigned cc_count_;
  chip::RunnableListener* listener_;
  chip::ChipFaults& injected_;
  const isa::Limits limits_;

  // --- who runs ---
  RunLock run_lock_;
  std::atomic<bool> runnable_ = false;
  std::atomic<bool> deadlocked_ = false;
  // Somebody outside wants the runner's attention: mail, or a visitor that waits for run_lock_.
  // Relaxed loads by the runner are enough to see it soon; what it then reads is under a mutex.
  std::atomic<bool> mail_waiting_ = false;
  std::atomic<uint32_t> visitors_ = 0;
  std::atomic<uint32_t> visits_ = 0;  // that have ended
  std::mutex mail_mutex_;
  std::vector<Mail> mail_, mail_taken_;
  // Runners that wait until another group writes here, those of them that sleep, and on what.
  std::atomic<uint32_t> sleepers_ = 0;
  std::atomic<uint32_t> asleep_ = 0;
  std::atomic<uint32_t> wake_word_ = 0;
  // While the runner waits inside an event for a register of another core, its own registers may be
  // read under lend_mutex_: so two cores that read each other both go on.
  std::mutex lend_mutex_;
  bool lent_ = false;

  // --- core state ---
  CoreMemory memory_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<StrictMode> strict_;  // null: off
  int serving_ = -1;                    // DMA engine << 4 | queue whose packets are transferred
  uint32_t transferred_ = 0;            // M2S descriptors of its run so far
  TensorEngine tensor_engine_;
  std::array<UnitContext, kEngines> units_;
  std::array<Sequencer, kSequencers> sequencers_;
  unsigned running_sequencers_ = kEngines;                      // more once a CC core was started
  std::array<ArrivalTimes, 1 + chip::kMaxCcPerCore> arrivals_;  // core, CC cores
  std::array<DmaActor, kDmaActors> actors_;
  std::array<ModelTime, kSequencers + kDmaActors> times_;  // next event of each actor
  uint32_t dma_times_ = 0;                                 // bit d: times_ of DMA actor d is set
  std::array<uint8_t, NEURON_SEMAPHORES> semaphore_waiters_{};  // bit per engine
  std::array<uint8_t, NEURON_EVENTS> event_waiters_{};
  std::array<uint16_t, kSequencers> dma_in_flight_{};  // queues rung by the engine with work
  uint8_t dma_waiters_ = 0;                            // engines that wait for them
  uint8_t ring_waiter_ = 0;                            // an engine that waits for room in a ring
  Generation generation_;

  // When links to other chips are free, for each sequencer that rings; null until one is used.
  // Groups do not queue behind each other, and neither do two CC cores: whose turn it is would
  // depend on the host.
  std::unique_ptr<std::array<chip::LinkTimes, kSequencers>> links_;
  bool links_used_ = false;

  ModelTime now_ = 0;
  bool time_runs_ = false;    // an event has happened since reset_time()
  ModelTime time_limit_ = 0;  // 0 = none
  // Of the execution: where its cost is added to (0: nowhere), and what its DMA engines moved.
  uint64_t work_record_ = 0;
  uint64_t dma_bytes_ = 0, link_bytes_ = 0;
  ModelTime launch_start_ = 0;
  bool in_execution_ = false;
  uint32_t held_launches_ = 0;
  uint32_t core_faults_ = 0;
  uint32_t core_mode_ = NEURON_CORE_MODE_STOP_ALL;
  uint32_t seed_ = 0;
  uint32_t fill_ = CoreMemory::kDefaultFill;
  uint32_t latched_time_high_ = 0;
  uint32_t effort_ = 0;  // host work since the deadline was looked at
  isa::Instruction substituted_;
};

}  // namespace neuron::core

#endif
