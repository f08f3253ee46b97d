// SPDX-License-Identifier: Apache-2.0
// Instructions with indirect operands: a unit executes them on tiles of gathered elements.
//
// All offsets are read and checked first, then the elements of indirect sources are gathered, the
// unit computes as on any tile, and the elements of an indirect destination are scattered in the
// order of the stream: of those that go to one place the last stays. A product that accumulates
// adds each of them, and copy_predicated sends only what its predicate selects.
// Callers: Datapath, in the group's thread. Owns the offsets. Fails: INDEX_OOB, PSUM_UNDEFINED and
// the faults of the unit, with nothing written; std::bad_alloc.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_INDIRECTION_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_INDIRECTION_H

#include <array>
#include <functional>
#include <vector>

#include "driver/emulator/neuroncore/engines/unit_context.h"
#include "driver/emulator/neuroncore/sequencer/index_offsets.h"

namespace neuron::core {

class Indirection {
 public:
  using Unit = std::function<Fault(const isa::Instruction&)>;
  Fault run(UnitContext& context, const isa::Instruction& instruction, const Unit& unit);

 private:
  Fault gather_sources(UnitContext& context, const isa::Instruction& i, isa::Instruction& tiles);
  void gather(CoreMemory& memory, const isa::Operand& operand, unsigned which, size_t first,
              size_t n) const;
  void scatter(UnitContext& context, const isa::Instruction& i, const isa::Instruction& tiles,
               size_t first, size_t n) const;
  Fault check_psum(UnitContext& context, const isa::Instruction& i) const;
  Fault accumulate(UnitContext& context, const isa::Instruction& i, isa::Instruction& tiles,
                   const Unit& unit);
  size_t without_repetition(const isa::Instruction& i, size_t first);

  std::array<IndexOffsets, 3> offsets_;  // dst, src0, src1
  std::vector<uint32_t> seen_;           // by offset, in which search it has been seen
  uint32_t search_ = 0;
};

}  // namespace neuron::core

#endif
