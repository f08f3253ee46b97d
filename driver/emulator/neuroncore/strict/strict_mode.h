// SPDX-License-Identifier: Apache-2.0
// Strict mode of a core: traps programs whose result depends on chance.
//
// Before an instruction executes, its operands are looked up in the shadow of SBUF and PSUM: bytes
// that nothing has written, accumulation onto what the PE did not write, and accesses of the same
// bytes, one of them a write, without an order between their actors. Order comes from semaphore
// updates and the waits that they satisfy, doorbells, drains, polling of memory, and launches.
// Transfers count packet by packet, when they are made; a trap of one is raised behind its run.
// NEURON_EMULATOR_STRICT=0 turns it off for the cores that are made afterwards.
// Callers: the execution group, by the holder of the core. Fails: std::bad_alloc only; the shadow
// is made at the first access.
#ifndef DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_MODE_H
#define DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_MODE_H

#include <memory>
#include <optional>

#include "driver/emulator/neuroncore/sequencer/sequencer.h"
#include "driver/emulator/neuroncore/strict/strict_clocks.h"
#include "driver/emulator/neuroncore/strict/strict_footprint.h"
#include "driver/emulator/neuroncore/strict/strict_shadow.h"

namespace neuron::core {

class StrictMode {
 public:
  // A trap of an instruction other than the one that is being issued.
  struct Trap {
    Fault fault;
    StrictClocks::Ringer ringer;
  };

  static bool wanted();  // NEURON_EMULATOR_STRICT

  StrictClocks& clocks() { return clocks_; }

  // The accesses of an instruction that is about to execute: a fault, or nothing.
  Fault check(const isa::Instruction& instruction, unsigned engine, uint32_t pc);
  // Completes a DOMAIN fault that a unit has found: names the producer of the operand.
  void name_producer(Fault& fault, const isa::Operand& operand);

  // `store` and `load` of an engine, or an access from outside (engine = NEURON_ENGINE_HOST), of
  // on-chip bytes. A trap is kept for take_trap. Outside accesses check nothing.
  void access_word(unsigned engine, uint32_t pc, unsigned space, unsigned partition,
                   uint64_t offset, uint64_t bytes, bool write);
  // Transfers: a packet that begins `ahead` M2S descriptors behind the ring's head, then its parts.
  void begin_packet(unsigned queue, uint32_t ahead);
  void transfer(unsigned space, unsigned partition, uint64_t offset, uint64_t bytes, bool write);
  void pass_packet(unsigned queue, uint32_t ahead);  // one that touches nothing here
  bool trapped() const { return trap_.has_value(); }
  Trap take_trap();

  // The tick that an update releases: of everything up to now if results are visible, else of what
  // was read.
  uint64_t tick(unsigned actor, bool visible) const {
    const uint64_t now = clocks_.now(actor);
    return visible || now == 0 ? now : now - 1;
  }
  // Reset of the core, with which a loader begins: nothing counts as written.
  void forget();

 private:
  bool read(const StrictAccess& who, const isa::Operand& operand);
  bool write(const StrictAccess& who, const isa::Operand& operand);
  bool read_scalar(const StrictAccess& who, const isa::Instruction& i, const isa::Scalar& scalar,
                   unsigned columns);
  bool write_scalar(const StrictAccess& who, const isa::Instruction& i, const isa::Scalar& scalar,
                    unsigned columns);
  bool touch_columns(const StrictAccess& who, const isa::Operand& operand, uint32_t n, bool writes);
  bool shuffle(const StrictAccess& who, const isa::Instruction& i);
  bool access(const StrictAccess& who, const isa::Instruction& i);
  Fault fault_of(const StrictAccess& who, bool writes) const;
  StrictShadow& shadow();
  void keep(const StrictAccess& who, bool writes);

  StrictClocks clocks_;
  StrictFootprint footprint_;
  std::unique_ptr<StrictShadow> shadow_;
  StrictConflict conflict_;
  bool conflict_writes_ = false;
  StrictAccess packet_;  // who makes the transfer
  std::optional<Trap> trap_;
};

}  // namespace neuron::core

#endif
