// SPDX-License-Identifier: Apache-2.0
// Indirect operands (R7): which operands may be indirect, and where they and their indexes lie.
//
// Callers: both checks, cost and text; the emulated core and compilers for the geometry of an
// index. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_ISA_INDIRECTION_H
#define DRIVER_ISA_INDIRECTION_H

#include "driver/isa/instruction.h"

namespace neuron::isa {

// Partitions that share their offsets: element i has its offset in partition i % group of them,
// column i / group.
constexpr unsigned index_group(unsigned engine) {
  return engine == NEURON_ENGINE_PE ? NEURON_PE_INDEX_GROUP : NEURON_INDEX_GROUP;
}
// Columns of an index of n offsets.
constexpr uint64_t index_columns(uint64_t n, unsigned group) { return (n + group - 1) / group; }
// Partitions of an index that are read: whole groups, of the last one those that hold offsets.
constexpr unsigned index_partitions(unsigned parts, uint64_t n, unsigned group) {
  const unsigned last = n < group ? static_cast<unsigned>(n) : group;
  return parts == 0 ? 0 : (parts - 1) / group * group + last;
}

// The operands (bit 0 dst, 1 src0, 2 src1) that may be indirect on an engine.
unsigned indirect_operands(unsigned opcode, unsigned engine);
inline bool has_indirection(const Instruction& i) {
  return i.dst.indirect || i.src0.indirect || i.src1.indirect;
}

// The fields of one indirect operand.
Violation check_indirect_operand(const Operand& operand, unsigned which, unsigned opcode,
                                 unsigned engine);
// Where the operands of an instruction and their indexes lie.
Violation check_indirection(const Instruction& instruction, unsigned engine, const Limits& limits);

}  // namespace neuron::isa

#endif
