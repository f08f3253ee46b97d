// SPDX-License-Identifier: Apache-2.0
// Registers put into instructions: whatever they hold, an instruction that the checks accept keeps
// to its operands.
#include "driver/emulator/neuroncore/group/register_substitution.h"

#include <gmock/gmock.h>

#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"
#include "tests/unit/driver/isa/samples.h"

namespace neuron::core {
namespace {

namespace samples = isa::testing;

constexpr uint8_t kRegister = 5;
constexpr uint32_t kHostile[] = {
    0,       1,       2,          3,          4,          5,          31,         32,
    63,      64,      96,         100,        127,        128,        129,        255,
    256,     1000,    0x7FFF,     0x8000,     0xFFFF,     0x10000,    0x3FFFF,    0x40000,
    1 << 24, 1 << 30, 0x40000001, 0x7FFFFFFF, 0x80000000, 0xFFFFFF00, 0xFFFFFFFC, 0xFFFFFFFF};

class RegisterSubstitution : public UnitMachine {
 protected:
  // What the checks say to the instruction with the register's value in it.
  isa::Violation check(const samples::Sample& sample, const Instruction& i, uint32_t value) {
    limits_ = isa::limits_of(sample.generation);
    s_.registers[kRegister] = value;
    if (Fault fault = substitute_registers(s_, i, bound_)) {
      return {fault.code, 0, fault.offset, 0, fault.info, "the value does not fit"};
    }
    return isa::check_operands(bound_, sample.engine, limits_);
  }
  bool encodes(const samples::Sample& sample, const Instruction& i) {
    return !isa::check_encoding(samples::raw(i), sample.engine, isa::limits_of(sample.generation));
  }

  Sequencer s_;
  Instruction bound_;
};

samples::Sample sample_of(unsigned opcode) {
  for (const samples::Sample& sample : samples::samples()) {
    if (sample.instruction.opcode == opcode) return sample;
  }
  ADD_FAILURE() << "no sample of " << isa::opcode_name(opcode);
  return {};
}

isa::Binding binding(unsigned operand, unsigned item, unsigned mode) {
  return {kRegister, static_cast<uint8_t>(item), static_cast<uint8_t>(operand),
          static_cast<uint8_t>(mode)};
}

// Every compute instruction, every field that a register may give, every value: what is accepted
// is executed, and would end this process if it left the core's memory.
TEST_F(RegisterSubstitution, NoValueOfARegisterLeadsAnInstructionOutOfTheMemory) {
  for (unsigned p = 0; p < NEURON_PARTITIONS; ++p) std::memset(memory_.sbuf(p), 0, 0x10000);
  size_t executed = 0, refused = 0;
  for (const samples::Sample& sample : samples::samples()) {
    const unsigned group = sample.instruction.group();
    if (group < 2 || group > 5 || isa::meets_other_core(sample.instruction.opcode)) continue;
    if (sample.instruction.opcode == NEURON_OP_LOAD_TABLE) continue;
    if (sample.instruction.opcode == NEURON_OP_CUSTOM_OPERATOR) continue;  // has no unit
    for (unsigned operand = 0; operand < 3; ++operand) {
      for (unsigned item = 0; item < NEURON_BIND_STEP0 + 4; ++item) {
        for (const unsigned mode : {NEURON_BIND_REPLACE, NEURON_BIND_ADD}) {
          Instruction i = sample.instruction;
          i.bind[0] = binding(operand, item, mode);
          if (!encodes(sample, i)) continue;
          for (const uint32_t value : kHostile) {
            if (check(sample, i, value)) {
              ++refused;
              continue;
            }
            (void)execute(sample.engine, bound_);  // a fault is as good as a result
            ++executed;
          }
        }
      }
    }
  }
  EXPECT_GT(executed, 5000U);
  EXPECT_GT(refused, 5000U);
}

// Each quarter has 4 rows of 16; a fifth would lie behind them, the 1000th behind the memory.
TEST_F(RegisterSubstitution, TheQuarterOfScaleRowsIsCheckedWithTheValueOfItsRegister) {
  const samples::Sample sample = sample_of(NEURON_OP_QUANTIZE_MX);
  Instruction i = sample.instruction;
  i.vector.imm = 0;
  i.bind[0] = binding(2, NEURON_BIND_SCALAR, NEURON_BIND_REPLACE);
  ASSERT_TRUE(encodes(sample, i));
  for (uint32_t value = 0; value < 4; ++value) EXPECT_FALSE(check(sample, i, value)) << value;
  for (const uint32_t value : {4u, 31u, 1000u, 1u << 30, ~0u}) {
    const isa::Violation v = check(sample, i, value);
    EXPECT_EQ(v.code, NEURON_FAULT_ILLEGAL_FIELD) << value;
    EXPECT_EQ(v.offset, NEURON_INST_OP + 4);
    EXPECT_THAT(isa::describe(v, bound_), ::testing::HasSubstr("quarter"));
  }
}

TEST_F(RegisterSubstitution, AFieldThatCannotHoldTheValueRefusesIt) {
  const samples::Sample sample = sample_of(NEURON_OP_RECIPROCAL);
  Instruction i = sample.instruction;
  i.bind[1] = binding(1, NEURON_BIND_PARTS, NEURON_BIND_REPLACE);
  const isa::Violation v = check(sample, i, 256 + i.src0.parts);
  EXPECT_EQ(v.code, NEURON_FAULT_OPERAND_RANGE) << "not the low bits of it";
  EXPECT_EQ(v.offset, NEURON_INST_BIND + 2);
}

}  // namespace
}  // namespace neuron::core
