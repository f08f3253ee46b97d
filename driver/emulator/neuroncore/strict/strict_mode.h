// SPDX-License-Identifier: Apache-2.0
// Strict mode of a core: traps programs whose result depends on timing or on uninitialised memory.
//
// Before an instruction executes, its operands are looked up in the shadow of SBUF and PSUM. A trap
// is raised for bytes that nothing has written, for accumulation onto bytes that the PE did not
// write, and for two unordered accesses of the same bytes, one of them a write. Order comes from
// semaphore updates and the waits that they satisfy, doorbells, drains, polling of memory, and
// launches. Transfers count packet by packet, as they happen; their trap is raised behind the run.
// NEURON_EMULATOR_STRICT=0 turns it off for cores that are made later.
// Callers: the execution group, by the holder of the core. Fails: std::bad_alloc only; the shadow
// is made at the first access.
#ifndef DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_MODE_H
#define DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_MODE_H

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "driver/emulator/neuroncore/sequencer/index_offsets.h"
#include "driver/emulator/neuroncore/sequencer/sequencer.h"
#include "driver/emulator/neuroncore/strict/strict_clocks.h"
#include "driver/emulator/neuroncore/strict/strict_footprint.h"
#include "driver/emulator/neuroncore/strict/strict_pair.h"
#include "driver/emulator/neuroncore/strict/strict_shadow.h"

namespace neuron::core {

class StrictMode {
 public:
  // A trap of an instruction other than the one that is being issued.
  struct Trap {
    Fault fault;
    StrictClocks::Ringer ringer;
  };

  StrictMode() = default;
  // One of the two cores of a logical core; `side`: 0 is the even one.
  StrictMode(std::shared_ptr<StrictPair> pair, unsigned side)
      : pair_(std::move(pair)), side_(side) {}

  static bool wanted();  // NEURON_EMULATOR_STRICT

  StrictClocks& clocks() { return clocks_; }

  // Checks the accesses of an instruction that is about to execute; returns a fault or nothing.
  // `memory` has the indexes of indirect operands.
  Fault check(const isa::Instruction& instruction, unsigned engine, uint32_t pc,
              CoreMemory& memory);
  // Turns an UNINITIALISED fault into a RACE with a transfer that was rung for and is still to
  // write the byte: `queue` is DMA engine << 4 | queue, `ahead` counts M2S descriptors from its
  // head. `own` is the queue that made the faulting access, 0 for an instruction's.
  void name_pending(Fault& fault, unsigned own, unsigned number, uint32_t ahead);
  // Completes a DOMAIN fault that a unit has found: names the producer of the operand.
  void name_producer(Fault& fault, const isa::Operand& operand);

  // `store` and `load` of an engine, or an access from outside (engine = NEURON_ENGINE_HOST), of
  // on-chip bytes. A trap is kept for take_trap. Outside accesses check nothing.
  void access_word(unsigned engine, uint32_t pc, unsigned space, unsigned partition,
                   uint64_t offset, uint64_t bytes, bool write);
  // Transfers: begin_packet() for a packet that begins `ahead` M2S descriptors behind the ring's
  // head, then transfer() for its parts.
  void begin_packet(unsigned number, uint32_t ahead);
  void transfer(unsigned space, unsigned partition, uint64_t offset, uint64_t bytes, bool write);
  void pass_packet(unsigned number, uint32_t ahead);  // a packet that touches no memory here
  // An execution begins; `pair` is what its launch record says (hw/control.h).
  void begin_execution(uint64_t pair);
  // The execution has a part on the other core: accesses of device memory count, and what the cores
  // tell each other.
  bool shares() const { return number_ != 0; }
  // Of device memory: by the current transfer; by `store` and `write`, which returns a fault or
  // nothing; by `load`, which comes behind what the other core wrote there.
  void transfer_shared(uint64_t address, uint64_t bytes, bool write);
  Fault store_shared(unsigned engine, uint32_t pc, uint64_t address);
  void load_shared(unsigned engine, uint64_t address);
  // `actor` is about to write to a cell of the other core, and `engine` is what the access will
  // say. The other core has written to a cell, which got so many units by it.
  void tell(unsigned cell, unsigned engine, unsigned actor, uint64_t tick);
  void hear(unsigned cell, unsigned engine, uint32_t units);

  bool trapped() const { return trap_.has_value(); }
  Trap take_trap();

  // The tick that an update releases: of all accesses up to now if results are visible, else of the
  // reads.
  uint64_t tick(unsigned actor, bool visible) {
    const uint64_t now = clocks_.tell(actor);
    return visible || now == 0 ? now : now - 1;
  }
  // Called at a reset of the core, which begins every load: nothing counts as written.
  void forget();

 private:
  enum class Access : uint8_t { kRead, kWrite, kWrittenByPe };

  bool read(const StrictAccess& who, const isa::Operand& operand);
  bool write(const StrictAccess& who, const isa::Operand& operand);
  bool read_scalar(const StrictAccess& who, const isa::Instruction& i, const isa::Scalar& scalar,
                   unsigned columns);
  bool write_scalar(const StrictAccess& who, const isa::Instruction& i, const isa::Scalar& scalar,
                    unsigned columns);
  bool touch_columns(const StrictAccess& who, const isa::Operand& operand, uint32_t n, bool writes);
  bool touch_scales(const StrictAccess& who, const isa::Instruction& i, unsigned quarter,
                    bool writes);
  bool read_every(const StrictAccess& who, const isa::Operand& operand, unsigned distance);
  bool shuffle(const StrictAccess& who, const isa::Instruction& i);
  bool access(const StrictAccess& who, const isa::Instruction& i);
  bool read_index(const StrictAccess& who, const isa::Operand& operand);
  bool access_indirect(const StrictAccess& who, const isa::Operand& operand, unsigned which,
                       Access kind, unsigned first, unsigned end);
  bool access_indirect(const StrictAccess& who, const isa::Instruction& i, CoreMemory& memory);
  Fault fault_of(const StrictAccess& who, bool writes) const;
  StrictShadow& shadow();
  void keep(const StrictAccess& who, bool writes);
  static Fault race_across(const StrictPair::Access& access, const StrictPair::Conflict& conflict);

  const std::shared_ptr<StrictPair> pair_;  // null: there is no other core
  const unsigned side_ = 0;
  uint64_t launch_ = 0;  // the number of the launch record, and of the execution
  uint64_t number_ = 0;
  StrictClocks clocks_;
  StrictFootprint footprint_;
  std::unique_ptr<StrictShadow> shadow_;
  StrictConflict conflict_;
  bool conflict_writes_ = false;
  StrictAccess packet_;  // the access of the current transfer
  std::optional<Trap> trap_;
  // Of the last instruction with indirect operands: dst, src0, src1.
  std::array<IndexOffsets, 3> offsets_;
};

}  // namespace neuron::core

#endif
