// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/register_substitution.h"

namespace neuron::core {
namespace {

uint32_t substituted_value(const isa::Binding& binding, uint32_t old, uint32_t value,
                           unsigned element_bytes) {
  switch (binding.mode) {
    case NEURON_BIND_REPLACE:
      return value;
    case NEURON_BIND_ADD:
      return old + value;
    default:
      return old + value * element_bytes;
  }
}

// A field narrower than a register must be able to hold the register's value, or the instruction
// would run with another value.
template <class T>
bool assign(T& field, uint32_t value) {
  field = static_cast<T>(value);
  return static_cast<uint32_t>(field) == value;
}

Fault illegal_binding(unsigned slot) {
  return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, 0,
                    static_cast<uint8_t>(NEURON_INST_BIND + 2 * slot));
}

Fault bind_operand(isa::Operand& operand, const isa::Binding& b, uint32_t value, unsigned slot) {
  const unsigned bytes = isa::dtype_bytes(operand.dtype);
  bool fits = true;
  if (b.item == NEURON_BIND_BASE) {
    operand.base = substituted_value(b, operand.base, value, bytes);
  } else if (b.item == NEURON_BIND_PARTS) {
    fits = assign(operand.parts, substituted_value(b, operand.parts, value, 1));
  } else if (b.item == NEURON_BIND_START) {
    fits = assign(operand.start, substituted_value(b, operand.start, value, 1));
  } else if (b.item >= NEURON_BIND_SIZE0 && b.item < NEURON_BIND_STEP0) {
    uint16_t& size = operand.size[b.item - NEURON_BIND_SIZE0];
    fits = assign(size, substituted_value(b, size, value, 1));
  } else if (b.item >= NEURON_BIND_STEP0 && b.item < NEURON_BIND_STEP0 + 4) {
    int16_t& step = operand.step[b.item - NEURON_BIND_STEP0];
    const uint32_t old = static_cast<uint32_t>(static_cast<int32_t>(step));
    fits = assign(step, substituted_value(b, old, value, 1));
  } else {
    return illegal_binding(slot);
  }
  return fits ? Fault{}
              : make_fault(NEURON_FAULT_OPERAND_RANGE, 0, value,
                           static_cast<uint8_t>(NEURON_INST_BIND + 2 * slot));
}

// Binds device addresses and patterns of instructions that make descriptors and sets `done`. Their
// operands in SBUF are bound like all others.
Fault bind_dma(isa::Instruction& i, const isa::Binding& b, uint32_t value, uint32_t high,
               unsigned slot, bool& done) {
  const bool generates = i.opcode == NEURON_OP_DMA_GENERATE;
  if (generates ? b.operand > 1 : b.operand != 2) {
    return generates ? illegal_binding(slot) : Fault{};
  }
  done = true;
  if (b.item == NEURON_BIND_BASE) {
    uint64_t& address = !generates       ? i.indirect.base
                        : b.operand == 0 ? i.generate.to
                                         : i.generate.from;
    const bool of_destination = generates ? b.operand == 0 : i.opcode == NEURON_OP_DMA_SCATTER;
    const unsigned dtype = of_destination ? i.dma.to_type : i.dma.from_type;
    if (b.mode == NEURON_BIND_ADD) {
      address += value;
    } else if (b.mode == NEURON_BIND_ADD_ELEMENTS) {
      address += uint64_t{value} * isa::dtype_bytes(dtype);
    } else if (b.mode == NEURON_BIND_ADD_PAIR) {
      address += value | uint64_t{high} << 32;
    } else {
      return illegal_binding(slot);
    }
    return {};
  }
  const bool size = b.item >= NEURON_BIND_SIZE0 && b.item < NEURON_BIND_STEP0;
  const bool step = b.item >= NEURON_BIND_STEP0 && b.item < NEURON_BIND_STEP0 + 4;
  if (!generates || (!size && !step) ||
      (b.mode != NEURON_BIND_REPLACE && b.mode != NEURON_BIND_ADD)) {
    return illegal_binding(slot);
  }
  auto& dims = b.operand == 0 ? i.generate.to_dims : i.generate.from_dims;
  if (size) {
    uint32_t& field = dims[b.item - NEURON_BIND_SIZE0].size;
    field = substituted_value(b, field, value, 1);
  } else {
    int32_t& field = dims[b.item - NEURON_BIND_STEP0].step;
    field = static_cast<int32_t>(substituted_value(b, static_cast<uint32_t>(field), value, 1));
  }
  return {};
}

}  // namespace

Fault substitute_registers(const Sequencer& s, const isa::Instruction& from, isa::Instruction& to) {
  to = from;
  for (isa::Scalar* scalar : {&to.scalar0, &to.scalar1}) {
    if (scalar->kind != NEURON_SCALAR_REGISTER) continue;
    scalar->value = s.registers[scalar->value % NEURON_REGISTERS];
    scalar->kind = NEURON_SCALAR_IMMEDIATE;
  }
  const bool has_address = to.opcode == NEURON_OP_WRITE || to.opcode == NEURON_OP_LOAD ||
                           to.opcode == NEURON_OP_STORE || to.opcode == NEURON_OP_CC_TRIGGER ||
                           to.opcode == NEURON_OP_LOAD_TABLE ||
                           to.opcode == NEURON_OP_CUSTOM_OPERATOR;
  for (unsigned slot = 0; slot < to.bind.size(); ++slot) {
    const isa::Binding& b = to.bind[slot];
    if (b.mode == NEURON_BIND_UNUSED) continue;
    const uint32_t value = s.registers[b.reg % NEURON_REGISTERS];
    if (has_address && b.operand == 0 && b.item == NEURON_BIND_BASE) {
      if (b.mode == NEURON_BIND_ADD) {
        to.address.addr += value;
      } else if (b.mode == NEURON_BIND_ADD_PAIR) {
        to.address.addr += value | uint64_t{s.registers[(b.reg + 1u) % NEURON_REGISTERS]} << 32;
      } else {
        return illegal_binding(slot);
      }
      continue;
    }
    if (to.opcode >= NEURON_OP_DMA_GENERATE && to.opcode <= NEURON_OP_DMA_SCATTER) {
      const uint32_t high = s.registers[(b.reg + 1u) % NEURON_REGISTERS];
      bool done = false;
      if (Fault fault = bind_dma(to, b, value, high, slot, done)) return fault;
      if (done) continue;
    }
    if (b.mode == NEURON_BIND_ADD_PAIR) return illegal_binding(slot);
    if (b.item == NEURON_BIND_SCALAR) {
      uint32_t& field = b.operand == 0   ? to.scalar0.value
                        : b.operand == 1 ? to.scalar1.value
                                         : to.vector.imm;
      const unsigned dtype = b.operand == 0   ? to.scalar0.dtype
                             : b.operand == 1 ? to.scalar1.dtype
                                              : to.dst.dtype;
      field = substituted_value(b, field, value, isa::dtype_bytes(dtype));
      continue;
    }
    isa::Operand* operands[] = {&to.dst, &to.src0, &to.src1};
    if (b.operand > 2 || !operands[b.operand]->present()) return illegal_binding(slot);
    if (Fault fault = bind_operand(*operands[b.operand], b, value, slot)) return fault;
  }
  return {};
}

}  // namespace neuron::core
