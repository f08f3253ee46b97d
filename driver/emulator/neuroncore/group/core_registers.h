// SPDX-License-Identifier: Apache-2.0
// Reads and writes the registers of a core: its control block, the blocks of its engines and of its
// CC cores (hw/control.h).
//
// Callers: the group, by the holder of the core; is_register: any thread. Offsets are those of the
// core's window, with the CC cores' windows behind it. A write that an engine's state does not
// allow is refused with a warning; inside a longer write, words that are not registers are ignored.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_CORE_REGISTERS_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_CORE_REGISTERS_H

#include <cstdint>

#include "driver/emulator/neuroncore/group/core_control.h"

namespace neuron::core {

class CoreRegisters {
 public:
  CoreRegisters(CoreState& state, const Waits& waits, CoreControl& control)
      : state_(state), waits_(waits), control_(control) {}

  bool is_register(uint64_t offset) const;
  uint32_t read(uint64_t offset);
  // `burst`: the word is part of a longer write.
  void write(uint64_t offset, uint32_t value, bool burst, ModelTime now);

 private:
  bool is_engine_block(uint64_t offset, unsigned& actor, uint32_t& at) const;
  uint32_t read_engine(Sequencer& s, uint32_t at);
  uint32_t read_wait(const Sequencer& s, uint32_t at) const;
  void write_engine(Sequencer& s, uint32_t at, uint32_t value, bool burst, ModelTime now);
  uint32_t read_core(uint32_t at);
  void write_core(uint32_t at, uint32_t value, ModelTime now);

  CoreState& state_;
  const Waits& waits_;
  CoreControl& control_;
  uint32_t latched_time_high_ = 0;
};

}  // namespace neuron::core

#endif
