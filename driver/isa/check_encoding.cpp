// SPDX-License-Identifier: Apache-2.0
// Structure of an instruction: everything that can be said without knowing registers.
#include <vector>

#include "driver/isa/fields.h"
#include "driver/isa/indirection.h"
#include "driver/isa/instruction.h"
#include "driver/isa/opcode_table.h"
#include "driver/isa/rules.h"

namespace neuron::isa {
namespace {

constexpr unsigned kMaxDtype = NEURON_DTYPE_F8E4FNX4;

Violation field(unsigned offset, uint32_t value, const char* what, unsigned operand = 0) {
  return violation(NEURON_FAULT_ILLEGAL_FIELD, offset, value, what, 0, operand);
}

// The first byte with a bit that no field of this opcode covers.
Violation check_stray_bits(const Words& words, const OpcodeInfo& info) {
  // One coverage mask per opcode, computed once by a thread-safe static. It is never destroyed,
  // because cores still run while the process exits.
  static const auto& coverage = *[] {
    auto* coverages = new std::vector<Words>;
    std::vector<Words>& all = *coverages;
    for (const OpcodeInfo& entry : all_opcodes()) {
      Words mask{};
      const FieldCoverage mark{mask};
      const Instruction any;
      visit_head(mark, any);
      visit_body(mark, entry, any);
      // The body of dma_trigger overlaps the operation word; every other opcode names its bits
      // there.
      if (entry.word != OpWord::kNone) mask[NEURON_INST_OP / 8] &= entry.op_bits;
      all.push_back(mask);
    }
    return coverages;
  }();
  const Words& mask = coverage[static_cast<size_t>(&info - all_opcodes().data())];
  for (unsigned i = 0; i < words.size(); ++i) {
    const uint64_t stray = words[i] & ~mask[i];
    if (stray == 0) continue;
    const unsigned byte = static_cast<unsigned>(std::countr_zero(stray)) / 8;
    return field(i * 8 + byte, static_cast<uint32_t>(words[i] >> (byte * 8)) & 0xFF,
                 "bits that this opcode does not use must be zero");
  }
  return {};
}

Violation check_wait(const Wait& wait, unsigned offset) {
  if (wait.condition == NEURON_WAIT_NONE) {
    if (wait.index || wait.event || wait.is_register || wait.value) {
      return field(offset, wait.index, "an unused wait must be all zero");
    }
    return {};
  }
  if (wait.condition > NEURON_WAIT_NE) {
    return field(offset + 1, wait.condition, "the condition of a wait must be 0 to 6");
  }
  if (wait.is_register && wait.value >= NEURON_REGISTERS) {
    return field(offset + 2, wait.value, "the register of a wait must be 0 to 63");
  }
  if (wait.event) {
    if (wait.condition != NEURON_WAIT_EQ && wait.condition != NEURON_WAIT_NE) {
      return field(offset + 1, wait.condition, "a wait for an event must compare with == or !=");
    }
    if (!wait.is_register && wait.value > 1) {
      return field(offset + 2, wait.value, "an event is 0 or 1");
    }
  }
  return {};
}

Violation check_update(const Update& update, unsigned offset) {
  if (update.operation == NEURON_UPDATE_NONE) {
    if (update.index || update.at_complete || update.is_register || update.value) {
      return field(offset, update.index, "an unused update must be all zero");
    }
    return {};
  }
  const bool has_operand = update.operation == NEURON_UPDATE_ADD ||
                           update.operation == NEURON_UPDATE_SUB ||
                           update.operation == NEURON_UPDATE_WRITE;
  if (!has_operand && (update.is_register || update.value)) {
    return field(offset + 2, update.value, "only add, sub and write updates have an operand");
  }
  if (update.is_register && update.value >= NEURON_REGISTERS) {
    return field(offset + 2, update.value, "the register of an update must be 0 to 63");
  }
  return {};
}

Violation check_operand(const Operand& operand, unsigned which, const OpcodeInfo& info,
                        unsigned engine, const Limits& limits) {
  const bool required = (info.required >> which & 1) != 0;
  const unsigned offset = NEURON_INST_DST + which * NEURON_OPERAND_BYTES;
  if (operand.space == NEURON_SPACE_ABSENT) {
    if (required) return field(offset + 5, 0, "the opcode needs this operand", which);
    const Operand absent;
    if (operand.base || operand.start || operand.parts || operand.dtype || operand.ndim ||
        operand.saturate || operand.indirect || operand.bias || operand.size != absent.size ||
        operand.step != absent.step) {
      return field(offset, operand.base, "an absent operand must be all zero", which);
    }
    return {};
  }
  if (operand.space > NEURON_SPACE_PSUM) {
    return field(offset + 5, operand.space, "the memory space must be 1 (SBUF) or 2 (PSUM)", which);
  }
  if (operand.ndim < 1 || operand.ndim > 4) {
    return field(offset + 5, operand.ndim, "the number of free dimensions must be 1 to 4", which);
  }
  if (operand.dtype == NEURON_DTYPE_NONE || operand.dtype > kMaxDtype) {
    return field(offset + 4, operand.dtype, "the data type must be a listed one", which);
  }
  if (operand.dtype >= NEURON_DTYPE_F8E4FN && !limits.block_scaled_types) {
    return violation(NEURON_FAULT_WRONG_GENERATION, offset + 4, operand.dtype,
                     "the data type needs generation 4", 0, which);
  }
  if (operand.indirect && !limits.indirect_operands) {
    return violation(NEURON_FAULT_WRONG_GENERATION, offset + 6, 1,
                     "indirect operands need generation 4", 7, which);
  }
  if (operand.indirect) {
    if (Violation v = check_indirect_operand(operand, which, info.opcode, engine)) return v;
  }
  if (operand.saturate && which != 0) {
    return field(offset + 5, 1, "only a destination can saturate", which);
  }
  const bool f8 = operand.dtype == NEURON_DTYPE_F8E3 || operand.dtype == NEURON_DTYPE_F8E4 ||
                  operand.dtype == NEURON_DTYPE_F8E5;
  if (operand.bias && !f8) {
    return field(offset + 6, operand.bias, "only f8 types have an exponent bias", which);
  }
  const unsigned dimensions = operand.indirect ? 3 : 4;  // the last one holds the place of an index
  for (unsigned d = operand.ndim; d < dimensions; ++d) {
    if (operand.size[d] || operand.step[d]) {
      return field(offset + 8 + 4 * d, operand.size[d],
                   "size and step of an unused dimension must be 0", which);
    }
  }
  return {};
}

Violation check_scalar(const Scalar& scalar, unsigned which, bool required, bool control,
                       const Limits& limits) {
  const unsigned offset = which == 0 ? NEURON_INST_SCALAR0 : NEURON_INST_SCALAR1;
  switch (scalar.kind) {
    case NEURON_SCALAR_ABSENT:
      if (required) return field(offset + 4, 0, "the opcode needs this scalar");
      if (scalar.value || scalar.dtype || scalar.space || scalar.start) {
        return field(offset, scalar.value, "an absent scalar must be all zero");
      }
      return {};
    case NEURON_SCALAR_REGISTER:
      if (scalar.value >= NEURON_REGISTERS) {
        return field(offset, scalar.value, "the register of a scalar must be 0 to 63");
      }
      [[fallthrough]];
    case NEURON_SCALAR_IMMEDIATE:
      if (scalar.space || scalar.start) {
        return field(offset + 5, scalar.space, "only a pointer has a space and a start partition");
      }
      break;
    default:
      if (control) return field(offset + 4, scalar.kind, "control takes no pointer as a scalar");
      if (scalar.space != NEURON_SPACE_SBUF && scalar.space != NEURON_SPACE_PSUM) {
        return field(offset + 5, scalar.space, "a pointer must be to SBUF (1) or PSUM (2)");
      }
      break;
  }
  // Control and flow instructions move raw 32-bit words and may leave the type out.
  const bool raw = control && scalar.dtype == NEURON_DTYPE_NONE;
  // Of the types of generation 4, f8e4fn alone is one that engines compute with.
  const bool listed = scalar.dtype <= NEURON_DTYPE_TF32 ||
                      (scalar.dtype == NEURON_DTYPE_F8E4FN && limits.block_scaled_types);
  if (!raw && (scalar.dtype == NEURON_DTYPE_NONE || !listed)) {
    return field(offset + 4, scalar.dtype, "the data type of a scalar must be a listed one");
  }
  return {};
}

// The upper half of the operation word is a value of its own.
bool has_immediate(unsigned opcode) {
  const OpcodeInfo* info = find_opcode(opcode);
  return (info->word == OpWord::kVector || info->word == OpWord::kPool) && info->op_bits >> 32 != 0;
}

// The waits and updates with which the two cores of a pair meet: all of them are given.
Violation check_pair(const Instruction& i) {
  const Scalar& semaphore = i.scalar0;
  if (semaphore.kind != NEURON_SCALAR_IMMEDIATE || semaphore.value < NEURON_SEM_PAIR_FIRST ||
      semaphore.value > NEURON_SEM_PAIR_LAST) {
    return field(NEURON_INST_SCALAR0, semaphore.value,
                 "the semaphore of a pair of cores must be a number from 8 to 15");
  }
  for (unsigned b = 0; b < i.bind.size(); ++b) {
    const Binding& bind = i.bind[b];
    if (bind.mode == NEURON_BIND_UNUSED || bind.item != NEURON_BIND_SCALAR) continue;
    return field(NEURON_INST_BIND + 2 * b, bind.item,
                 "no register may change the semaphore of a pair of cores, which wait1 and update1 "
                 "name");
  }
  if (i.wait[0].condition != NEURON_WAIT_NONE) {
    return field(NEURON_INST_WAIT0, i.wait[0].index,
                 "an instruction at which two cores meet waits for nothing before: wait0 must be "
                 "empty, an `event` before it may wait");
  }
  const Wait& wait = i.wait[1];
  if (wait.index != semaphore.value || wait.condition != NEURON_WAIT_GE || wait.event ||
      wait.is_register || wait.value != 1) {
    return field(NEURON_INST_WAIT1, wait.index,
                 "wait1 of an instruction at which two cores meet must be its semaphore >= 1");
  }
  if (i.update[0].operation != NEURON_UPDATE_NONE) {
    return field(NEURON_INST_UPDATE0, i.update[0].index,
                 "an instruction at which two cores meet has no update0; an `event` behind it may "
                 "update");
  }
  const Update& update = i.update[1];
  if (update.index != semaphore.value || update.operation != NEURON_UPDATE_DEC ||
      !update.at_complete) {
    return field(NEURON_INST_UPDATE1, update.index,
                 "update1 of an instruction at which two cores meet must decrement its semaphore "
                 "at completion");
  }
  return {};
}

// Instructions that make descriptors: registers may give addresses, and sizes and steps of
// patterns.
Violation check_dma_binding(const Binding& bind, unsigned offset, const Instruction& instruction,
                            unsigned slots) {
  if (bind.item == NEURON_BIND_BASE) {
    if (bind.mode == NEURON_BIND_REPLACE) {
      return field(offset + 1, bind.mode, "a device address is bound by adding");
    }
    if (bind.mode == NEURON_BIND_ADD_PAIR && bind.reg % 2) {
      return field(offset, bind.reg, "a register pair starts at an even register");
    }
    if ((slots & kSlotGenerate) && bind.operand > 1) {
      return field(offset + 1, bind.operand, "to is bound as operand 0, from as operand 1");
    }
    return {};
  }
  if (!(slots & kSlotGenerate) || bind.operand > 1 || bind.item < NEURON_BIND_SIZE0) {
    return field(offset, bind.item,
                 "of a descriptor pattern only the base, sizes and steps can be bound");
  }
  if (bind.mode > NEURON_BIND_ADD) {
    return field(offset + 1, bind.mode, "sizes and steps are bound by replacing or adding");
  }
  const DmaGenerateBody& body = instruction.generate;
  const auto& dims = bind.operand == 0 ? body.to_dims : body.from_dims;
  if (dims[bind.item & 3].size == 0) {
    return field(offset, bind.item, "a register is bound to a dimension that is unused");
  }
  return {};
}

Violation check_binding(const Binding& bind, unsigned index, const Instruction& instruction,
                        unsigned slots) {
  const unsigned offset = NEURON_INST_BIND + 2 * index;
  if (bind.mode == NEURON_BIND_UNUSED) {
    if (bind.reg || bind.item || bind.operand) {
      return field(offset, bind.reg, "an unused register binding must be all zero");
    }
    return {};
  }
  if (bind.mode > NEURON_BIND_ADD_PAIR) {
    return field(offset + 1, bind.mode, "the mode of a register binding must be 0 to 4");
  }
  if (bind.item > NEURON_BIND_STEP0 + 3) {
    return field(offset, bind.item, "the item of a register binding must be 0 to 11");
  }
  if (bind.operand > 2) {
    return field(offset + 1, bind.operand, "the operand of a register binding must be 0 to 2");
  }
  if (bind.item == NEURON_BIND_SCALAR) {
    const Scalar& scalar = bind.operand == 1 ? instruction.scalar1 : instruction.scalar0;
    if (bind.operand == 2 ? !has_immediate(instruction.opcode) : !scalar.present()) {
      return field(offset, bind.operand, "a register is bound to a scalar that is absent");
    }
    if (bind.mode > NEURON_BIND_ADD) {
      return field(offset + 1, bind.mode, "a scalar is bound by replacing or adding");
    }
    return {};
  }
  if ((slots & kSlotGenerate) || ((slots & kSlotIndirect) && bind.operand == 2)) {
    return check_dma_binding(bind, offset, instruction, slots);
  }
  if (slots & kSlotAddress) {
    if (bind.operand != 0 || bind.item != NEURON_BIND_BASE ||
        (bind.mode != NEURON_BIND_ADD && bind.mode != NEURON_BIND_ADD_PAIR)) {
      return field(offset, bind.item,
                   "a device address is bound as operand 0, base, by adding a register or a pair");
    }
    if (bind.mode == NEURON_BIND_ADD_PAIR && bind.reg % 2) {
      return field(offset, bind.reg, "a register pair starts at an even register");
    }
    return {};
  }
  if (bind.mode == NEURON_BIND_ADD_PAIR) {
    return field(offset + 1, bind.mode, "register pairs are for device addresses");
  }
  if (bind.mode == NEURON_BIND_ADD_ELEMENTS && bind.item != NEURON_BIND_BASE) {
    return field(offset + 1, bind.mode, "only a base is bound in elements");
  }
  const Operand* operands[] = {&instruction.dst, &instruction.src0, &instruction.src1};
  if (!operands[bind.operand]->present()) {
    return field(offset + 1, bind.operand, "a register is bound to an operand that is absent",
                 bind.operand);
  }
  if (bind.item >= NEURON_BIND_SIZE0 && (bind.item & 3) >= operands[bind.operand]->ndim) {
    return field(offset, bind.item, "a register is bound to a dimension that is unused",
                 bind.operand);
  }
  return {};
}

Violation check_flow(const Instruction& instruction) {
  const FlowOp& op = instruction.flow;
  switch (instruction.opcode) {
    case NEURON_OP_ALU:
      if (!is_register_alu(op.alu)) {
        return violation(NEURON_FAULT_OP_NOT_ALLOWED, NEURON_INST_OP + 2, op.alu,
                         "registers have the operations add to mod, comparisons and bit "
                         "operations");
      }
      [[fallthrough]];
    case NEURON_OP_BRANCH:
      if (op.condition > NEURON_BRANCH_GE) {
        return field(NEURON_INST_OP + 3, op.condition, "the condition of a branch must be 0 to 6");
      }
      if (op.imm != instruction.scalar0.present()) {
        return field(NEURON_INST_OP + 2, op.imm, "the imm bit must say whether scalar0 is used");
      }
      if (op.imm && op.rb) {
        return field(NEURON_INST_OP + 1, op.rb, "register rb must be 0 where scalar0 is used");
      }
      return {};
    case NEURON_OP_LOOP:
      if (instruction.loop.step <= 0) {
        return field(NEURON_LOOP_STEP, static_cast<uint32_t>(instruction.loop.step),
                     "the step of a loop must be greater than 0");
      }
      if (instruction.loop.length == 0 || instruction.loop.length >= NEURON_PROGRAM_MAX) {
        return field(NEURON_LOOP_LENGTH, instruction.loop.length,
                     "the body of a loop must have 1 to 2^24 - 1 instructions");
      }
      return {};
    case NEURON_OP_TIME:
      if (op.rd % 2) {
        return field(NEURON_INST_OP, op.rd, "a register pair starts at an even register");
      }
      return {};
    case NEURON_OP_IDENT:
      if (instruction.scalar0.kind == NEURON_SCALAR_IMMEDIATE && instruction.scalar0.value > 3) {
        return field(NEURON_INST_SCALAR0, instruction.scalar0.value,
                     "ident knows 0 core, 1 chip, 2 rank and 3 generation");
      }
      return {};
    case NEURON_OP_SEM:
      if (instruction.scalar0.kind == NEURON_SCALAR_IMMEDIATE &&
          instruction.scalar0.value >= NEURON_SEMAPHORES) {
        return field(NEURON_INST_SCALAR0, instruction.scalar0.value,
                     "a semaphore number must be 0 to 255");
      }
      return {};
    default:
      return {};
  }
}

Violation check_address(const Instruction& instruction) {
  const AddressBody& body = instruction.address;
  if (body.count == 0) {
    return field(NEURON_ADDRESS_COUNT, 0, "the count of stores must be at least 1");
  }
  const bool writes =
      instruction.opcode == NEURON_OP_WRITE || instruction.opcode == NEURON_OP_CC_TRIGGER;
  if (!writes && (body.count != 1 || body.stride != 0)) {
    return field(NEURON_ADDRESS_COUNT, body.count,
                 "load, store, load_table and custom_operator have one address: count 1, stride 0");
  }
  return {};
}

Violation check_trigger(const DmaTriggerBody& trigger) {
  if (trigger.queue > 15) {
    return field(NEURON_DMA_TRIGGER_QUEUE, trigger.queue, "the queue must be 0 to 15");
  }
  for (unsigned e = 0; e < 16; ++e) {
    if (trigger.mask >> e & 1) continue;
    if (trigger.m2s_count[e] || trigger.s2m_count[e]) {
      return field(NEURON_DMA_TRIGGER_M2S_COUNT + 2 * e, trigger.m2s_count[e],
                   "descriptor counts of DMA engines outside the mask must be 0");
    }
  }
  return {};
}

}  // namespace

Violation check_encoding(Bytes bytes, unsigned engine, const Limits& limits) {
  Words words;
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const Instruction instruction = decode(bytes);
  if (instruction.isa != NEURON_ISA_VERSION) {
    return violation(NEURON_FAULT_ISA_VERSION, 1, instruction.isa,
                     "the instruction set version must be 1");
  }
  if (instruction.size != 0) {
    return violation(NEURON_FAULT_ISA_VERSION, 3, instruction.size,
                     "the size field must be 0 (128 bytes)");
  }
  const OpcodeInfo* info = find_opcode(instruction.opcode);
  if (info == nullptr) {
    return violation(NEURON_FAULT_ILLEGAL_OPCODE, 0, instruction.opcode,
                     "the opcode must be one of the instruction set");
  }
  const unsigned bit = engine < 6 ? 1u << engine : 0;
  const unsigned first = first_generation(*info, engine);
  if (first == 0) {
    return violation(NEURON_FAULT_WRONG_ENGINE, 0, instruction.opcode,
                     "this engine does not execute the opcode");
  }
  if (!(instruction.engines & bit)) {
    return violation(NEURON_FAULT_WRONG_ENGINE, 2, instruction.engines,
                     "the engine mask must name the engine that fetches the instruction");
  }
  if (first > limits.generation) {
    return violation(NEURON_FAULT_WRONG_GENERATION, 0, instruction.opcode,
                     "the opcode needs a later generation on this engine");
  }
  if (!info->available) {
    return violation(NEURON_FAULT_ILLEGAL_OPCODE, 0, instruction.opcode,
                     "the opcode is defined, but this device does not execute it");
  }
  if (Violation v = check_stray_bits(words, *info)) return v;
  if (instruction.rounding == 3) {
    return field(3, instruction.rounding, "the rounding must be 0 to 2");
  }
  for (unsigned i = 0; i < 2; ++i) {
    if (Violation v = check_wait(instruction.wait[i], NEURON_INST_WAIT0 + 4 * i)) return v;
  }
  for (unsigned i = 0; i < 2; ++i) {
    if (Violation v = check_update(instruction.update[i], NEURON_INST_UPDATE0 + 4 * i)) return v;
  }
  const unsigned slots = info->required | info->optional;
  const Operand* operands[] = {&instruction.dst, &instruction.src0, &instruction.src1};
  for (unsigned i = 0; i < 3; ++i) {
    if (!(slots >> i & 1)) continue;
    if (Violation v = check_operand(*operands[i], i, *info, engine, limits)) return v;
  }
  const bool control = instruction.group() <= 1 || instruction.group() == 7;
  if (slots & kSlotScalar0) {
    if (Violation v =
            check_scalar(instruction.scalar0, 0, info->required & kSlotScalar0, control, limits)) {
      return v;
    }
  }
  if (slots & kSlotScalar1) {
    if (Violation v =
            check_scalar(instruction.scalar1, 1, info->required & kSlotScalar1, control, limits)) {
      return v;
    }
  }
  for (unsigned i = 0; i < 4; ++i) {
    if (Violation v = check_binding(instruction.bind[i], i, instruction, slots)) return v;
  }
  if (slots & kSlotAddress) {
    if (Violation v = check_address(instruction)) return v;
  }
  if (slots & kSlotTrigger) {
    if (Violation v = check_trigger(instruction.trigger)) return v;
  }
  if (slots & (kSlotGenerate | kSlotIndirect)) {
    return check_dma_encoding(instruction, slots, limits);
  }
  if (meets_other_core(instruction.opcode)) return check_pair(instruction);
  if (instruction.group() == 1) return check_flow(instruction);
  return check_operations(instruction, engine, limits);
}

}  // namespace neuron::isa
