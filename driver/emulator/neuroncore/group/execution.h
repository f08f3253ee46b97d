// SPDX-License-Identifier: Apache-2.0
// The current execution of a core: its time limit, its cost, and its completion record.
//
// An execution begins when an instruction consumes semaphore 7 (NEURON_SEM_LAUNCH) and ends with
// `complete` or with a fault. Then the host finds a completion record in memory, and the cost is
// added to its work record. Model time starts at 0 at the launch. Callers: the holder of the core.
// Fails: complete() with BUS where the record cannot be written.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_EXECUTION_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_EXECUTION_H

#include <cstdint>

#include "driver/emulator/neuroncore/group/core_state.h"

namespace neuron::core {

class Execution {
 public:
  explicit Execution(CoreState& state) : state_(state) {}

  bool in_progress() const { return in_progress_; }
  // What the host asks for: the launch record of the sequencer. Without a record in memory, zeros.
  struct Asked {
    bool has_record = false;
    neuron_launch_record record{};
  };
  Asked asked(const Sequencer& s) const;
  // Called by the sequencer that consumed the launch, with what it is asked for.
  void begin(const Asked& asked);
  // Called by the `complete` instruction at `pc`. False: the record could not be written.
  bool complete(Sequencer& s, uint32_t status, uint32_t pc, uint32_t debug, ModelTime now);
  // Where the record of a sequencer goes.
  struct RecordPlace {
    uint64_t address = 0;  // 0: nowhere
    std::byte* memory = nullptr;
    bool is_missing() const { return address != 0 && memory == nullptr; }
  };
  RecordPlace record_place(const Sequencer& s, bool executing) const;
  // The rest of complete(), for somebody who has recorded the entries in rings. `place` is looked
  // up if it is null.
  bool report(const Sequencer& s, const RecordPlace* place, uint32_t status, uint32_t pc,
              uint32_t debug, ModelTime now);
  // Reports a fault of a sequencer to the host and ends the execution, if there is one.
  void fail(const Sequencer& s, uint32_t status, uint32_t pc, uint32_t debug, uint64_t info,
            ModelTime now);
  // The host has taken away what the execution in progress works with, as drivers do when a process
  // ends: its records are not written, as their memory goes next. Nothing if none is in progress.
  void disown();
  void reset();

  // Adds bytes that DMA engines have begun to move.
  void add_dma_bytes(uint64_t bytes) { dma_bytes_ += bytes; }
  void add_link_bytes(uint64_t bytes) { link_bytes_ += bytes; }

  bool exceeds_limit(ModelTime time) const {
    return time_limit_ != 0 && in_progress_ && time > time_limit_;
  }
  ModelTime time_limit() const { return time_limit_; }
  void drop_limit() { time_limit_ = 0; }

 private:
  void add_work(ModelTime now);
  bool write_record(const Sequencer& s, const RecordPlace& place, uint32_t status, uint32_t pc,
                    uint32_t debug, uint64_t info, ModelTime now) const;

  CoreState& state_;
  bool in_progress_ = false;
  ModelTime time_limit_ = 0;  // 0: none
  uint64_t work_record_ = 0;  // device address; 0: none
  uint64_t dma_bytes_ = 0, link_bytes_ = 0;
};

}  // namespace neuron::core

#endif
