// SPDX-License-Identifier: Apache-2.0
// Every instruction with every type in every place that the checks accept gives what it gives in
// fp32 (in int32 where it works on bits), rounded once to the type of its result. The numbers are
// small, so every type has them; formats and rounding are worked out by small_values.h.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/isa/small_values.h"
#include "tests/unit/driver/isa/type_probe.h"
#include "tests/unit/driver/isa/value_checks.h"

namespace neuron::core {
namespace {

namespace samples = isa::testing;
using samples::Sample;

constexpr unsigned kShown[] = {0, 1, 15, 31};  // partitions whose results are compared

class TypeValues : public EveryGeneration {
 protected:
  uint64_t address_of(const isa::Operand& operand, unsigned partition) const {
    return operand.space == NEURON_SPACE_PSUM ? psum_address(partition, operand.base)
                                              : sbuf_address(partition, operand.base);
  }
  void put(uint64_t address, const std::vector<std::byte>& bytes) {
    ASSERT_TRUE(chip_->bus().write(address, bytes, {}));
  }

  // 0 to 3 in all elements of an operand; the same numbers whatever its type.
  void fill(const isa::Operand& operand, bool all) {
    if (!operand.present()) return;
    const size_t width = isa::dtype_bytes(operand.dtype);
    std::vector<std::byte> row(operand.elements() * width);
    for (unsigned p = 0; p < operand.parts; ++p) {
      if (!all && std::find(std::begin(kShown), std::end(kShown), p) == std::end(kShown)) continue;
      for (size_t n = 0; n < operand.elements(); ++n) {
        const uint64_t code = codes(operand.dtype)[(n * 7 + n / 5 + p) % 4];
        std::memcpy(row.data() + n * width, &code, width);
      }
      put(address_of(operand, p), row);
    }
  }
  const std::array<uint64_t, 4>& codes(uint8_t type) {
    const auto found = codes_.find(type);
    if (found != codes_.end()) return found->second;
    std::array<uint64_t, 4> four = {};
    for (unsigned n = 0; n < 4; ++n) {
      const auto code = samples::code_of(type, n);
      EXPECT_TRUE(code) << isa::dtype_name(type) << " has no " << n;
      four[n] = code.value_or(0);
    }
    return codes_[type] = four;
  }

  // The numbers of the result, after inputs were filled and the instruction executed.
  std::vector<double> results(const Sample& sample) {
    const Instruction& i = sample.instruction;
    std::vector<Instruction> program;
    const std::vector<std::byte> zeros(4096);
    for (const unsigned p : kShown) put(address_of(i.dst, p), zeros);
    // These read other partitions than the one that they write; the others do not.
    const bool all = i.group() == 2 || i.group() == 5 || i.opcode == NEURON_OP_STREAM_SHUFFLE ||
                     i.opcode == NEURON_OP_TRANSPOSE32;
    if (i.opcode == NEURON_OP_MATMUL) {
      Instruction weights = inst(NEURON_OP_LDWEIGHTS);
      weights.src0 = sbuf(128, 0, i.src0.dtype, 128);
      fill(weights.src0, true);
      program.push_back(weights);
    }
    fill(i.src0, all);
    fill(i.src1, all);
    if (i.opcode == NEURON_OP_READ_ACC) program.push_back(accumulation(sample.engine));
    const float one = 1;
    std::vector<std::byte> scalar(4);
    std::memcpy(scalar.data(), &one, 4);
    for (const unsigned p : kShown) put(sbuf_address(p, 0x1000), scalar);
    program.push_back(i);
    Instruction halt = inst(NEURON_OP_HALT);
    halt.drain = true;
    program.push_back(halt);
    load(sample.engine, program, 0);
    EXPECT_EQ(run(), chip::RunResult::kQuiescent);
    EXPECT_EQ(state(sample.engine), NEURON_STATE_HALTED)
        << isa::fault_name(fault(sample.engine)) << ": " << isa::disassemble(i);
    std::vector<double> numbers;
    const size_t width = isa::dtype_bytes(i.dst.dtype);
    std::vector<std::byte> row(i.dst.elements() * width);
    for (const unsigned p : kShown) {
      if (p >= i.dst.parts) break;
      EXPECT_TRUE(chip_->bus().read(address_of(i.dst, p), row, {}));
      for (size_t n = 0; n < i.dst.elements(); ++n) {
        uint64_t code = 0;
        std::memcpy(&code, row.data() + n * width, width);
        numbers.push_back(samples::number_of(i.dst.dtype, code));
      }
    }
    return numbers;
  }

  // What leaves a sum in the accumulators that read_acc reads.
  Instruction accumulation(unsigned engine) {
    const bool vector = engine == NEURON_ENGINE_DVE;
    Instruction i = inst(vector ? NEURON_OP_TENSOR_SCALAR_REDUCE : NEURON_OP_ACTIVATE);
    i.src0 = sbuf(128, 0x400, NEURON_DTYPE_F32, 7);
    i.dst = sbuf(128, 0x2000, NEURON_DTYPE_F32, 7);
    fill(i.src0, false);
    if (vector) {
      i.scalar0 = real(1);
      i.vector.op0 = NEURON_ALU_MUL;
      i.vector.reduce = NEURON_ALU_ADD;
      i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
    } else {
      i.act.function = NEURON_ACT_COPY;
      i.act.reduce = NEURON_ALU_ADD;
      i.act.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
    }
    return i;
  }

  static std::string first_difference(const Sample& form, const std::vector<double>& found,
                                      const std::vector<double>& exact) {
    for (size_t n = 0; n < found.size(); ++n) {
      const double expected = samples::rounded_to(form.instruction.dst.dtype, exact[n]);
      if (found[n] == expected || (std::isnan(found[n]) && std::isnan(expected))) continue;
      return "element " + std::to_string(n) + ": found " + std::to_string(found[n]) +
             ", expected " + std::to_string(expected) + " for " + std::to_string(exact[n]);
    }
    return {};
  }

  // The sample with the widest types that are accepted in its places.
  static Sample widest(const Sample& sample) {
    Sample wide = sample;
    for (const uint8_t type : {NEURON_DTYPE_F32, NEURON_DTYPE_I32}) {
      for (const unsigned places : {3u, 2u, 1u, 7u}) {
        const Instruction i = samples::with_type(sample.instruction, places, type);
        const bool has = (places & 1) == 0 || i.dst.present();
        if (has && samples::accepted(i, sample.engine, sample.generation)) {
          return {i, sample.engine, sample.generation, sample.keeps_engine};
        }
      }
    }
    return wide;
  }

 private:
  std::map<uint8_t, std::array<uint64_t, 4>> codes_;

 protected:
  // The last wide form and its results: many forms share one.
  std::string known_text_;
  std::vector<double> known_;
};

INSTANTIATE_TEST_SUITE_P(Generations, TypeValues, kGenerations);

TEST_P(TypeValues, OfEveryInstructionAreThoseOfFp32RoundedOnce) {
  fill_sbuf(128, 0x8000);
  for (unsigned p = 0; p < 128; ++p) {
    put(address_of(psum(128, 0, NEURON_DTYPE_F32, 1), p), std::vector<std::byte>(8192));
  }
  unsigned compared = 0;
  for (const Sample& sample : samples::samples_of_every_engine(GetParam())) {
    if (!samples::value_checks(sample.instruction).by_type_values()) continue;
    for (unsigned place = 0; place < samples::kPlaces; ++place) {
      for (const uint8_t type : samples::types_of(GetParam())) {
        for (Sample form : samples::forms(sample, place, type)) {
          // The form in wide types: what differs in its operation stays.
          Sample wide = widest(form);
          for (Sample* each : {&form, &wide}) {
            Instruction& i = each->instruction;
            if (i.opcode == NEURON_OP_MEMSET) {
              i.vector.imm = static_cast<uint32_t>(codes(i.dst.dtype)[3]);  // its own bits
            }
            if (i.opcode == NEURON_OP_DROPOUT) i.scalar0 = real(0);  // nothing by chance
          }
          const std::string text =
              isa::disassemble(wide.instruction) + isa::engine_name(wide.engine);
          if (text != known_text_) {
            known_ = results(wide);
            known_text_ = text;
          }
          const std::vector<double>& exact = known_;
          const std::vector<double> found = results(form);
          ASSERT_EQ(exact.size(), found.size()) << isa::disassemble(form.instruction);
          EXPECT_EQ(first_difference(form, found, exact), "")
              << isa::disassemble(form.instruction) << "\n  where fp32 is "
              << isa::disassemble(wide.instruction);
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 1000U);
}

}  // namespace
}  // namespace neuron::core
