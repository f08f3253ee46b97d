// SPDX-License-Identifier: Apache-2.0
// What is known about each opcode: its name, which engines execute it, which slots it uses.
//
// Callers: the other files of this folder. Constant data, thread-safe. An opcode of the instruction
// set that this device does not execute has an entry with `available` false, so that a refusal can
// name it; an opcode that is not listed has no entry.
#ifndef DRIVER_ISA_OPCODE_TABLE_H
#define DRIVER_ISA_OPCODE_TABLE_H

#include <cstdint>
#include <span>

#include "hw/isa.h"

namespace neuron::isa {

enum Slot : uint16_t {
  kSlotDst = 1 << 0,
  kSlotSrc0 = 1 << 1,
  kSlotSrc1 = 1 << 2,
  kSlotPattern = 1 << 3,  // in the place of src1
  kSlotScalar0 = 1 << 4,
  kSlotScalar1 = 1 << 5,
  kSlotAddress = 1 << 6,
  kSlotLoop = 1 << 7,
  kSlotTrigger = 1 << 8,
  kSlotShuffle = 1 << 9,    // mask in the place of src1 and the scalars
  kSlotGenerate = 1 << 10,  // body.dma_generate
  kSlotIndirect = 1 << 11,  // body.dma_indirect, behind dst and src0
};

// Layout of the operation word.
enum class OpWord : uint8_t { kNone, kVector, kAct, kPe, kFlow, kPool };

struct OpcodeInfo {
  uint16_t opcode;
  const char* name;
  uint8_t engines;     // bit per engine, from `generation` on
  uint8_t engines_v3;  // engines that execute it from generation 3 on only
  uint8_t generation;  // first generation
  bool available;      // this device executes it
  uint16_t required;   // slots that must be present
  uint16_t optional;   // slots that may be present
  OpWord word;
  uint64_t op_bits;  // bits of the operation word that the opcode uses
};

// nullptr for a number that the instruction set does not list.
const OpcodeInfo* find_opcode(unsigned opcode);
std::span<const OpcodeInfo> all_opcodes();
// The first generation in which `engine` executes the opcode; 0: it never does.
unsigned first_generation(const OpcodeInfo& info, unsigned engine);

// The opcode is one that the two cores of a pair meet at (body of a pair).
constexpr bool meets_other_core(unsigned opcode) {
  return opcode == NEURON_OP_BARRIER || opcode == NEURON_OP_SENDRECV;
}

}  // namespace neuron::isa

#endif
