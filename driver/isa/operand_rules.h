// SPDX-License-Identifier: Apache-2.0
// Operand rules that every compute instruction shares (R1-R3, R5), and the parts of check_operands.
//
// Callers: check_operands.cpp, check_vector.cpp, check_pool.cpp, check_dma.cpp. Instructions come
// with registers already substituted. Units index memory with operands that passed here, so these
// functions bound every offset that an instruction can reach. Thread-safe: no state.
#ifndef DRIVER_ISA_OPERAND_RULES_H
#define DRIVER_ISA_OPERAND_RULES_H

#include "driver/isa/instruction.h"
#include "driver/isa/rules.h"

namespace neuron::isa {

// Elements that one partition of an operand may have; with step 0 a pattern could ask for any
// number.
inline constexpr uint64_t kMaxStream = 1 << 20;

constexpr unsigned slot_offset(unsigned which) {
  return NEURON_INST_DST + which * NEURON_OPERAND_BYTES;
}

struct Extent {
  int64_t first = 0;  // lowest byte offset in the partition
  int64_t last = 0;   // highest byte, inclusive
};
Extent extent(const Operand& operand, unsigned element_bytes);

inline Violation wrong_shape(unsigned which, unsigned byte, uint64_t value, const char* what,
                             unsigned rule = 0) {
  return violation(NEURON_FAULT_OPERAND_SHAPE, slot_offset(which) + byte,
                   static_cast<uint32_t>(value), what, rule, which);
}
inline Violation wrong_dtype(unsigned which, uint32_t dtype, const char* what) {
  return violation(NEURON_FAULT_OPERAND_DTYPE, slot_offset(which) + 4, dtype, what, 3, which);
}
// The bytes of an operand that a shape violation points at.
inline constexpr unsigned kPartsByte = 3, kSizeByte = 8;

// One tile: partitions (R1), pattern (R2), element size (R3), port (R5).
Violation check_tile(const Operand& operand, unsigned which, unsigned engine, const Limits& limits);

// A scalar of `parts` partitions. `bits`: the scalar of a bit operation, which takes integers.
Violation check_scalar_tile(const Scalar& scalar, unsigned which, unsigned parts, unsigned engine,
                            bool bits, const Limits& limits);
// A pointer to [parts, count] contiguous elements of at most `widest` bytes.
Violation check_pointer(const Scalar& scalar, unsigned which, unsigned parts, unsigned count,
                        unsigned engine, const Limits& limits, unsigned widest = 4);

// R1: same partitions and, if asked for, same number of elements as the destination.
Violation check_same_shape(const Instruction& instruction, bool elements);
// R3: bit operations work on raw integers of one width.
Violation check_bit_types(const Instruction& instruction);

// What Pool does on 64-bit integers: its instructions, operations and types (check_integer64.cpp).
Violation check_int64(const Instruction& instruction);
// A scalar of such an instruction: an integer.
Violation check_int64_scalar(const Scalar& scalar, unsigned which, unsigned parts,
                             const Limits& limits);

// The scales of a matrix of `elements` x4 elements a partition (hw/isa.h); they are operand 2.
Violation check_scales(const Operand& matrix, uint64_t elements, const Operand& scales);

Violation check_vector_operands(const Instruction& instruction, unsigned engine,
                                const Limits& limits);
Violation check_pool_operands(const Instruction& instruction, const Limits& limits);
Violation check_dma_operands(const Instruction& instruction, unsigned engine, const Limits& limits);

}  // namespace neuron::isa

#endif
