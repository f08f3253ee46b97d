// SPDX-License-Identifier: Apache-2.0
// One core's memories and compute units without sequencers: instructions are checked as a sequencer
// checks them and then executed at once. What the tests of the units share.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_UNIT_MACHINE_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_UNIT_MACHINE_H

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"
#include "driver/emulator/neuroncore/engines/indirection.h"
#include "driver/emulator/neuroncore/engines/scalar_engine.h"
#include "driver/emulator/neuroncore/engines/tensor_engine.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/isa/indirection.h"
#include "driver/isa/instruction.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"

namespace neuron::core {

inline isa::Scalar pointer(uint32_t at, unsigned dtype = NEURON_DTYPE_F32) {
  return {at, NEURON_SCALAR_POINTER, static_cast<uint8_t>(dtype), NEURON_SPACE_SBUF, 0};
}

class UnitMachine : public ::testing::Test {
 protected:
  // The instruction on `engine`, which must accept it.
  void run(unsigned engine, Instruction i) {
    const Fault fault = attempt(engine, i);
    ASSERT_FALSE(fault) << isa::fault_name(fault.code) << ": " << isa::disassemble(i);
  }
  void dve(const Instruction& i) { run(NEURON_ENGINE_DVE, i); }

  // Fault::offset and code of what refuses it, checks included.
  Fault attempt(unsigned engine, Instruction& i) {
    i.engines = static_cast<uint8_t>(1u << engine);
    std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes{};
    isa::encode(i, bytes);
    for (const isa::Violation& v :
         {isa::check_encoding(bytes, engine, limits_), isa::check_operands(i, engine, limits_)}) {
      if (!v) continue;
      refusal_ = isa::describe(v, i);
      return make_fault(static_cast<neuron_fault>(v.code), 0, v.value, v.offset);
    }
    return execute(engine, i);
  }

  UnitContext& unit_of(unsigned engine) {
    return engine == NEURON_ENGINE_ACTIVATION ? act_ : engine == NEURON_ENGINE_POOL ? pool_ : dve_;
  }

  Fault execute(unsigned engine, const Instruction& i) {
    Executed::all().note(i, engine, limits_.generation);
    UnitContext& unit = unit_of(engine);
    unit.engine = engine;
    unit.rounding = i.rounding == 2 ? numerics::Rounding::kStochastic : default_rounding_;
    unit.subnormals = subnormals_;
    unit.seed = seed_;
    unit.xorwow = engine == NEURON_ENGINE_POOL || limits_.vector_xorwow;
    Fault fault = pe_.check_scatter(i);
    if (!fault) {
      fault = isa::has_indirection(i) ? indirection_.run(unit, i,
                                                         [&](const Instruction& tiles) {
                                                           return execute_direct(engine, tiles);
                                                         })
                                      : execute_direct(engine, i);
    }
    if (!fault && unit.rounding == numerics::Rounding::kStochastic && i.dst.present()) {
      unit.random_position += numbers_of(i.dst);
    }
    return fault;
  }

  Fault execute_direct(unsigned engine, const Instruction& i) {
    UnitContext& unit = unit_of(engine);
    if (engine == NEURON_ENGINE_PE) return pe_.execute(unit, i);
    if (engine == NEURON_ENGINE_ACTIVATION && i.group() == 4) return execute_activate(unit, i);
    if (engine == NEURON_ENGINE_POOL && i.group() == 5) return execute_pool(unit, i);
    return execute_vector(unit, i);
  }

  // Elements of one partition, in stream order, as fp32.
  void put(const isa::Operand& at, unsigned part, const std::vector<float>& values) {
    OperandView(memory_, at).store(part, 0, values.size(), values.data(), {}, nullptr);
  }
  std::vector<float> get(const isa::Operand& at, unsigned part) {
    std::vector<float> values(at.elements());
    OperandView(memory_, at).load(part, 0, values.size(), values.data());
    return values;
  }
  void fill(const isa::Operand& at, const std::function<float(unsigned, unsigned)>& f) {
    for (unsigned p = 0; p < at.parts; ++p) {
      std::vector<float> row(at.elements());
      for (unsigned e = 0; e < row.size(); ++e) row[e] = f(p, e);
      put(at, p, row);
    }
  }
  template <class T>
  void put_raw(const isa::Operand& at, unsigned part, const std::vector<T>& values) {
    OperandView(memory_, at)
        .store_raw(part, 0, values.size(), reinterpret_cast<const std::byte*>(values.data()));
  }
  template <class T>
  std::vector<T> get_raw(const isa::Operand& at, unsigned part) {
    std::vector<T> values(at.elements());
    OperandView(memory_, at)
        .load_raw(part, 0, values.size(), reinterpret_cast<std::byte*>(values.data()));
    return values;
  }
  static Instruction make(unsigned opcode, isa::Operand dst, isa::Operand a = {},
                          isa::Operand b = {}) {
    Instruction i;
    i.opcode = static_cast<uint16_t>(opcode);
    i.dst = dst;
    i.src0 = a;
    i.src1 = b;
    return i;
  }

  isa::Limits limits_;  // of the generation whose instructions the test executes
  CoreMemory memory_{NEURON_V4_SBUF_PARTITION_BYTES};
  std::unique_ptr<Scratch> scratch_ = std::make_unique<Scratch>();
  UnitContext act_{memory_, *scratch_, NEURON_ENGINE_ACTIVATION};
  UnitContext pool_{memory_, *scratch_, NEURON_ENGINE_POOL};
  UnitContext dve_{memory_, *scratch_, NEURON_ENGINE_DVE};
  TensorEngine pe_;
  Indirection indirection_;
  numerics::Rounding default_rounding_ = numerics::Rounding::kNearestEven;
  numerics::Subnormals subnormals_ = numerics::Subnormals::kKeep;
  uint64_t seed_ = 0;
  std::string refusal_;
};

// For what several generations execute: INSTANTIATE_TEST_SUITE_P(Generations, SUITE, ...).
class UnitOfAGeneration : public UnitMachine, public ::testing::WithParamInterface<unsigned> {
 protected:
  UnitOfAGeneration() { limits_ = isa::limits_of(GetParam()); }
};

}  // namespace neuron::core

#endif
