// SPDX-License-Identifier: Apache-2.0
#include "tools/kernels/fault_programs.h"

#include "tools/program_builder/program.h"

namespace neuron::kernels {

using builder::Engine;
using builder::Program;

namespace {

isa::Instruction make(std::uint16_t opcode) {
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

isa::Operand row(std::uint8_t space, std::uint8_t start, std::uint8_t parts) {
  isa::Operand operand;
  operand.space = space;
  operand.start = start;
  operand.parts = parts;
  operand.dtype = NEURON_DTYPE_F32;
  operand.ndim = 1;
  operand.size[0] = 16;
  operand.step[0] = 1;
  return operand;
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
  isa::Instruction i = make(NEURON_OP_MATMUL);
  i.dst = row(NEURON_SPACE_PSUM, 0, 128);
  i.src0 = row(NEURON_SPACE_SBUF, 0, 128);
  return one("no_weights", Engine::kPe, i);
}

Neff illegal_opcode() { return one("illegal_opcode", Engine::kActivation, make(0x0FF)); }

}  // namespace neuron::kernels
