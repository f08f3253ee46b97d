// SPDX-License-Identifier: Apache-2.0
// Where each field of an instruction lies: the one description that decoding, encoding and the
// search for stray bits share.
//
// Callers: codec.cpp and check_encoding.cpp. `visit_*` calls io(bit, width, field) for every field;
// the reader fills the field, the writer stores it, the coverage visitor marks its bits. No field
// crosses an aligned 64-bit word. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_ISA_FIELDS_H
#define DRIVER_ISA_FIELDS_H

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "driver/isa/instruction.h"
#include "driver/isa/opcode_table.h"

namespace neuron::isa {

static_assert(std::endian::native == std::endian::little, "instructions are little endian");

using Words = std::array<uint64_t, NEURON_INSTRUCTION_BYTES / 8>;

constexpr uint64_t field_mask(unsigned width) {
  return width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}

struct FieldReader {
  const Words& words;
  template <class T>
  void operator()(unsigned bit, unsigned width, T& field) const {
    field = static_cast<T>((words[bit / 64] >> (bit % 64)) & field_mask(width));
  }
};

struct FieldWriter {
  Words& words;
  template <class T>
  void operator()(unsigned bit, unsigned width, const T& field) const {
    words[bit / 64] |= (static_cast<uint64_t>(field) & field_mask(width)) << (bit % 64);
  }
};

struct FieldCoverage {
  Words& words;
  template <class T>
  void operator()(unsigned bit, unsigned width, const T&) const {
    words[bit / 64] |= field_mask(width) << (bit % 64);
  }
};

template <class Io, class W>
void visit_wait(const Io& io, unsigned bit, W& wait) {
  io(bit, 8, wait.index);
  io(bit + 8, 3, wait.condition);
  io(bit + 11, 1, wait.event);
  io(bit + 12, 1, wait.is_register);
  io(bit + 16, 16, wait.value);
}

template <class Io, class U>
void visit_update(const Io& io, unsigned bit, U& update) {
  io(bit, 8, update.index);
  io(bit + 8, 3, update.operation);
  io(bit + 11, 1, update.at_complete);
  io(bit + 12, 1, update.is_register);
  io(bit + 16, 16, update.value);
}

template <class Io, class B>
void visit_binding(const Io& io, unsigned bit, B& bind) {
  io(bit, 6, bind.reg);
  io(bit + 6, 4, bind.item);
  io(bit + 10, 2, bind.operand);
  io(bit + 12, 3, bind.mode);
}

template <class Io, class O>
void visit_operand(const Io& io, unsigned bit, O& operand) {
  io(bit, 20, operand.base);
  io(bit + 20, 8, operand.start);
  io(bit + 28, 8, operand.parts);
  io(bit + 36, 6, operand.dtype);
  io(bit + 42, 2, operand.space);
  io(bit + 44, 3, operand.ndim);
  io(bit + 47, 1, operand.saturate);
  io(bit + 48, 1, operand.indirect);
  io(bit + 49, 5, operand.bias);
  for (unsigned d = 0; d < 4; ++d) {
    io(bit + 64 + 32 * d, 16, operand.size[d]);
    io(bit + 80 + 32 * d, 16, operand.step[d]);
  }
}

template <class Io, class P>
void visit_pattern(const Io& io, unsigned bit, P& pattern) {
  for (unsigned d = 0; d < 4; ++d) {
    io(bit + 32 * d, 32, pattern.step[d]);
    io(bit + 128 + 16 * d, 16, pattern.size[d]);
  }
}

template <class Io, class S>
void visit_scalar(const Io& io, unsigned bit, S& scalar) {
  io(bit, 32, scalar.value);
  io(bit + 32, 2, scalar.kind);
  io(bit + 34, 6, scalar.dtype);
  io(bit + 40, 2, scalar.space);
  io(bit + 42, 7, scalar.start);
}

template <class Io, class I>
void visit_op(const Io& io, OpWord word, I& instruction) {
  constexpr unsigned bit = NEURON_INST_OP * 8;
  switch (word) {
    case OpWord::kNone:
      break;
    case OpWord::kVector: {
      auto& op = instruction.vector;
      io(bit, 6, op.op0);
      io(bit + 6, 6, op.op1);
      io(bit + 12, 1, op.rev0);
      io(bit + 13, 1, op.rev1);
      io(bit + 14, 6, op.reduce);
      io(bit + 20, 3, op.reduce_command);
      io(bit + 23, 1, op.negate);
      io(bit + 24, 3, op.axes);
      io(bit + 27, 1, op.invert);
      io(bit + 32, 32, op.imm);
      break;
    }
    case OpWord::kAct: {
      auto& op = instruction.act;
      io(bit, 8, op.function);
      io(bit + 8, 8, op.table_set);
      io(bit + 16, 6, op.reduce);
      io(bit + 22, 3, op.reduce_command);
      io(bit + 25, 3, op.pre);
      io(bit + 28, 1, op.rev0);
      io(bit + 29, 1, op.rev1);
      io(bit + 32, 32, op.param);
      break;
    }
    case OpWord::kPe: {
      auto& op = instruction.pe;
      io(bit, 2, op.row);
      io(bit + 2, 2, op.column);
      io(bit + 4, 2, op.rows);
      io(bit + 6, 2, op.columns);
      io(bit + 8, 3, op.mode);
      io(bit + 11, 1, op.accumulate);
      io(bit + 12, 1, op.swap);
      io(bit + 13, 1, op.onezero_moving);
      io(bit + 14, 1, op.onezero_stationary);
      io(bit + 15, 2, op.quarter);
      break;
    }
    case OpWord::kFlow: {
      auto& op = instruction.flow;
      io(bit, 6, op.rd);
      io(bit + 6, 6, op.ra);
      io(bit + 12, 6, op.rb);
      io(bit + 18, 1, op.imm);
      io(bit + 19, 6, op.alu);
      io(bit + 25, 3, op.condition);
      io(bit + 28, 1, op.is_unsigned);
      io(bit + 32, 32, op.target);
      break;
    }
    case OpWord::kPool:
      io(bit, 6, instruction.vector.op0);
      io(bit + 12, 4, instruction.pool.elements);
      io(bit + 16, 16, instruction.pool.count);
      io(bit + 32, 32, instruction.vector.imm);
      break;
  }
}

template <class Io, class I>
void visit_head(const Io& io, I& instruction) {
  io(0, 12, instruction.opcode);
  io(12, 4, instruction.isa);
  io(16, 6, instruction.engines);
  io(24, 1, instruction.trace);
  io(25, 1, instruction.brk);
  io(26, 1, instruction.drain);
  io(27, 1, instruction.nan);
  io(28, 2, instruction.rounding);
  io(30, 2, instruction.size);
  io(NEURON_INST_DEBUG * 8, 32, instruction.debug);
  visit_wait(io, NEURON_INST_WAIT0 * 8, instruction.wait[0]);
  visit_wait(io, NEURON_INST_WAIT1 * 8, instruction.wait[1]);
  visit_update(io, NEURON_INST_UPDATE0 * 8, instruction.update[0]);
  visit_update(io, NEURON_INST_UPDATE1 * 8, instruction.update[1]);
  for (unsigned i = 0; i < 4; ++i) {
    visit_binding(io, NEURON_INST_BIND * 8 + 16 * i, instruction.bind[i]);
  }
}

template <class Io, class C>
void visit_dma_control(const Io& io, C& ctl) {
  constexpr unsigned bit = NEURON_DMA_CTL * 8;
  io(bit, 4, ctl.operation);
  io(bit + 4, 6, ctl.from_type);
  io(bit + 10, 6, ctl.to_type);
  io(bit + 16, 1, ctl.accumulate);
  io(bit + 17, 1, ctl.skip);
  io(bit + 18, 4, ctl.queue);
  io(bit + 22, 1, ctl.generator);
  io(bit + 23, 2, ctl.priority);
  io(bit + 32, 16, ctl.mask);
  io(bit + 48, 8, ctl.semaphore);
  io(bit + 56, 1, ctl.signal);
}

template <class Io, class I>
void visit_body(const Io& io, const OpcodeInfo& info, I& instruction) {
  const unsigned slots = info.required | info.optional;
  if (slots & kSlotDst) visit_operand(io, NEURON_INST_DST * 8, instruction.dst);
  if (slots & kSlotSrc0) visit_operand(io, NEURON_INST_SRC0 * 8, instruction.src0);
  if (slots & kSlotSrc1) visit_operand(io, NEURON_INST_SRC1 * 8, instruction.src1);
  if (slots & kSlotPattern) visit_pattern(io, NEURON_INST_SRC1 * 8, instruction.pattern);
  if (slots & kSlotScalar0) visit_scalar(io, NEURON_INST_SCALAR0 * 8, instruction.scalar0);
  if (slots & kSlotScalar1) visit_scalar(io, NEURON_INST_SCALAR1 * 8, instruction.scalar1);
  if (slots & kSlotAddress) {
    io(NEURON_ADDRESS_ADDR * 8, 64, instruction.address.addr);
    io(NEURON_ADDRESS_STRIDE * 8, 32, instruction.address.stride);
    io(NEURON_ADDRESS_COUNT * 8, 16, instruction.address.count);
  }
  if (slots & kSlotLoop) {
    io(NEURON_LOOP_STEP * 8, 32, instruction.loop.step);
    io(NEURON_LOOP_LENGTH * 8, 32, instruction.loop.length);
  }
  if (slots & kSlotTrigger) {
    auto& trigger = instruction.trigger;
    io(NEURON_DMA_TRIGGER_M2S * 8, 64, trigger.m2s);
    io(NEURON_DMA_TRIGGER_S2M * 8, 64, trigger.s2m);
    io(NEURON_DMA_TRIGGER_STRIDE * 8, 32, trigger.stride);
    io(NEURON_DMA_TRIGGER_MASK * 8, 16, trigger.mask);
    io(NEURON_DMA_TRIGGER_QUEUE * 8, 8, trigger.queue);
    io(NEURON_DMA_TRIGGER_BLOCK * 8, 32, trigger.block);
    for (unsigned e = 0; e < 16; ++e) {
      io((NEURON_DMA_TRIGGER_M2S_COUNT + 2 * e) * 8, 16, trigger.m2s_count[e]);
      io((NEURON_DMA_TRIGGER_S2M_COUNT + 2 * e) * 8, 16, trigger.s2m_count[e]);
    }
  }
  if (slots & kSlotShuffle) {
    for (unsigned r = 0; r < NEURON_SHUFFLE_ROWS; ++r) {
      io((NEURON_SHUFFLE_MASK + r) * 8, 8, instruction.shuffle[r]);
    }
  }
  if (slots & kSlotGenerate) {
    auto& body = instruction.generate;
    io(NEURON_DMA_GENERATE_TO * 8, 64, body.to);
    io(NEURON_DMA_GENERATE_FROM * 8, 64, body.from);
    for (unsigned d = 0; d < 4; ++d) {
      io((NEURON_DMA_GENERATE_TO_DIMS + 8 * d) * 8, 32, body.to_dims[d].size);
      io((NEURON_DMA_GENERATE_TO_DIMS + 8 * d + 4) * 8, 32, body.to_dims[d].step);
      io((NEURON_DMA_GENERATE_FROM_DIMS + 8 * d) * 8, 32, body.from_dims[d].size);
      io((NEURON_DMA_GENERATE_FROM_DIMS + 8 * d + 4) * 8, 32, body.from_dims[d].step);
    }
    visit_dma_control(io, instruction.dma);
    io(NEURON_DMA_GENERATE_SCALE * 8, 32, body.scale);
    io(NEURON_DMA_GENERATE_LIMIT * 8, 32, body.limit);
  }
  if (slots & kSlotIndirect) {
    auto& body = instruction.indirect;
    io(NEURON_DMA_INDIRECT_BASE * 8, 64, body.base);
    io(NEURON_DMA_INDIRECT_ROW_BYTES * 8, 32, body.row_bytes);
    io(NEURON_DMA_INDIRECT_ROW_STEP * 8, 32, body.row_step);
    io(NEURON_DMA_INDIRECT_ROWS * 8, 32, body.rows);
    visit_dma_control(io, instruction.dma);
  }
  visit_op(io, info.word, instruction);
}

}  // namespace neuron::isa

#endif
