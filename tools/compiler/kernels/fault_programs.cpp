// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/kernels/fault_programs.h"

#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

using builder::Engine;
using builder::Program;

namespace {

isa::Instruction make(uint16_t opcode) {
  isa::Instruction instruction;
  instruction.opcode = opcode;
  return instruction;
}

Neff one(const char* name, Engine engine, const isa::Instruction& instruction) {
  Program program(name);
  program.section("fault");
  program.raw(engine, make(NEURON_OP_NOP));
  program.raw(engine, instruction);
  return program.build();
}

isa::Operand row(uint8_t space, uint8_t start, uint8_t parts, uint32_t base = 0) {
  isa::Operand operand;
  operand.base = base;
  operand.space = space;
  operand.start = start;
  operand.parts = parts;
  operand.dtype = NEURON_DTYPE_F32;
  operand.ndim = 1;
  operand.size[0] = 16;
  operand.step[0] = 1;
  return operand;
}

isa::Instruction zeros(const isa::Operand& dst) {
  isa::Instruction instruction = make(NEURON_OP_MEMSET);
  instruction.dst = dst;
  return instruction;
}

// Semaphore 200 orders the second instruction after the first.
isa::Instruction signalling(isa::Instruction instruction) {
  instruction.update[0] = {200, NEURON_UPDATE_INC, true, false, 0};
  return instruction;
}
isa::Instruction waiting(isa::Instruction instruction) {
  instruction.wait[0] = {200, NEURON_WAIT_GE, false, false, 1};
  return instruction;
}

}  // namespace

Neff deadlock() {
  isa::Instruction i = make(NEURON_OP_EVENT);
  i.wait[0] = {200, NEURON_WAIT_GE, false, false, 1};
  return one("deadlock", Engine::kPe, i);
}

Neff bad_partition() {
  isa::Instruction i = make(NEURON_OP_MEMSET);
  i.dst = row(NEURON_SPACE_SBUF, 8, 8);
  return one("bad_partition", Engine::kDve, i);
}

Neff bad_partition_register() {
  Program program("bad_partition_register");
  program.section("fault");
  isa::Instruction set = make(NEURON_OP_MOV);
  set.flow.rd = 1;
  set.scalar0 = {8, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
  isa::Instruction use = make(NEURON_OP_MEMSET);
  use.dst = row(NEURON_SPACE_SBUF, 0, 8);
  use.bind[0] = {1, NEURON_BIND_START, 0, NEURON_BIND_REPLACE};
  program.raw(Engine::kDve, make(NEURON_OP_NOP));
  program.raw(Engine::kDve, set);
  program.raw(Engine::kDve, use);
  return program.build();
}

Neff endless_loop() { return one("endless_loop", Engine::kPool, make(NEURON_OP_BRANCH)); }

Neff bad_address() {
  isa::Instruction i = make(NEURON_OP_WRITE);
  i.address = {0xF00000000ull, 0, 1};
  i.scalar0 = {1, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
  return one("bad_address", Engine::kSp, i);
}

Neff no_weights() {
  Program program("no_weights");
  program.section("fault");
  isa::Instruction i = make(NEURON_OP_MATMUL);
  i.dst = row(NEURON_SPACE_PSUM, 0, 128);
  i.src0 = row(NEURON_SPACE_SBUF, 0, 128);
  program.raw(Engine::kDve, signalling(zeros(i.src0)));
  program.raw(Engine::kPe, waiting(i));
  return program.build();
}

Neff unwritten_read() {
  Program program("unwritten_read");
  program.section("fault");
  isa::Instruction i = make(NEURON_OP_TENSOR_COPY);
  i.dst = row(NEURON_SPACE_SBUF, 0, 32, 1024);
  i.src0 = row(NEURON_SPACE_SBUF, 0, 32);
  i.dst.size[0] = i.src0.size[0] = 17;
  program.raw(Engine::kDve, zeros(row(NEURON_SPACE_SBUF, 0, 32)));
  program.raw(Engine::kDve, i);
  return program.build();
}

Neff unordered_read() {
  Program program("unordered_read");
  program.section("fault");
  isa::Instruction i = make(NEURON_OP_TENSOR_COPY);
  i.dst = row(NEURON_SPACE_SBUF, 0, 32, 1024);
  i.src0 = row(NEURON_SPACE_SBUF, 0, 32);
  program.raw(Engine::kPool, zeros(i.src0));
  for (int n = 0; n < 8; ++n) program.raw(Engine::kDve, make(NEURON_OP_NOP));
  program.raw(Engine::kDve, i);
  return program.build();
}

Neff unordered_transfer() {
  Program program("unordered_transfer");
  const builder::Buffer x = program.input("x", NEURON_DTYPE_F32, {128, 16});
  const builder::Tile tile = program.sbuf("tile", 128, 16, NEURON_DTYPE_F32);
  program.section("fault");
  program.dma(Engine::kSp, tile.all(), x.all());
  isa::Instruction i = make(NEURON_OP_MEMSET);
  i.dst = row(NEURON_SPACE_SBUF, 0, 128, tile.base);
  program.raw(Engine::kDve, i);
  return program.build();
}

Neff psum_collision() {
  Program program("psum_collision");
  program.section("fault");
  isa::Instruction act = make(NEURON_OP_ACTIVATE);
  act.dst = row(NEURON_SPACE_PSUM, 0, 32);
  act.src0 = row(NEURON_SPACE_SBUF, 0, 32);
  program.raw(Engine::kDve, signalling(zeros(act.src0)));
  program.raw(Engine::kDve, zeros(act.dst));
  program.raw(Engine::kActivation, waiting(act));
  return program.build();
}

Neff foreign_accumulation() {
  Program program("foreign_accumulation");
  program.section("fault");
  isa::Instruction weights = make(NEURON_OP_LDWEIGHTS);
  weights.src0 = row(NEURON_SPACE_SBUF, 0, 32);
  isa::Instruction matmul = make(NEURON_OP_MATMUL);
  matmul.dst = row(NEURON_SPACE_PSUM, 0, 16);
  matmul.src0 = row(NEURON_SPACE_SBUF, 0, 32);
  matmul.pe.swap = matmul.pe.accumulate = true;
  program.raw(Engine::kDve, zeros(matmul.dst));
  program.raw(Engine::kDve, signalling(zeros(weights.src0)));
  program.raw(Engine::kPe, waiting(weights));
  program.raw(Engine::kPe, matmul);
  return program.build();
}

Neff outside_domain() {
  Program program("outside_domain");
  program.section("fault");
  isa::Instruction act = make(NEURON_OP_ACTIVATE);
  act.dst = row(NEURON_SPACE_SBUF, 0, 32, 1024);
  act.src0 = row(NEURON_SPACE_SBUF, 0, 32);
  act.act.function = NEURON_ACT_LOG;
  program.raw(Engine::kDve, signalling(zeros(act.src0)));
  program.raw(Engine::kActivation, waiting(act));
  return program.build();
}

Neff past_the_bank() {
  isa::Instruction i = make(NEURON_OP_MATMUL);
  i.dst = row(NEURON_SPACE_PSUM, 0, 16, NEURON_PSUM_BANK_BYTES - 32);
  i.src0 = row(NEURON_SPACE_SBUF, 0, 32);
  return one("past_the_bank", Engine::kPe, i);
}

Neff illegal_opcode() { return one("illegal_opcode", Engine::kActivation, make(0x0FF)); }

}  // namespace neuron::kernels
