// SPDX-License-Identifier: Apache-2.0
// Whatever a program asks for, its core looks at least every millisecond whether it was halted.
#include "tests/unit/driver/emulator/neuroncore/looks.h"

#include <array>
#include <set>

#include "driver/emulator/neuroncore/strict/strict_footprint.h"
#include "tests/support/sanitized.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::core {
namespace {

namespace samples = isa::testing;

constexpr uint64_t kLarge = uint64_t{1} << 20;  // elements of a partition, the most there may be
// A millisecond is the promise. A processor that others use as well has cold caches. What a busy
// host adds is not there each time, so the best of some runs counts.
constexpr double kMostMs = test::kSanitized ? 60 : 12;
// An instruction is given up then: what it does over and over has been seen by that time.
constexpr double kLongEnoughMs = 150;

// Makes a stream of `kLarge` elements, or of nearly as many: the further dimensions visit the same
// bytes again.
void repeat(isa::Operand& operand) {
  while (operand.present() && operand.ndim < 4 && operand.elements() < kLarge) {
    const uint64_t missing = kLarge / operand.elements();
    if (missing < 2) return;
    operand.size[operand.ndim] = static_cast<uint16_t>(std::min<uint64_t>(missing, 0x4000));
    operand.step[operand.ndim] = 0;
    ++operand.ndim;
  }
}

class LooksTest : public CoreMachine {
 protected:
  void SetUp() override {
    CoreMachine::SetUp();
    clear_tiles();
  }
  // Milliseconds between two looks; below 0 if the core refuses the instruction.
  double longest_ms(const samples::Sample& sample) {
    load(sample.engine, {sample.instruction, inst(NEURON_OP_HALT)}, 0);
    double longest = 0;
    {
      const Looks looks(kLongEnoughMs, [this] { chip_->halt(1); });
      run(10'000);
      longest = Looks::longest_ms();
    }
    if (chip_->halted() != 0) {
      chip_->reset(1);
      clear_tiles();
      return longest;
    }
    const bool refused = state(sample.engine) == NEURON_STATE_FAULT;
    if (state(sample.engine) != NEURON_STATE_HALTED) {
      set(sample.engine, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
    }
    return refused ? -1 : longest;
  }
};

TEST_F(LooksTest, OfTheLargestInstructionsOfEveryKindComeInTime) {
  // Which operands are made large: an instruction wants the sizes of some of them to agree.
  constexpr unsigned kDst = 1, kFirst = 2, kSecond = 4;
  std::set<unsigned> seen;
  for (const samples::Sample& sample : samples::samples()) {
    const unsigned group = sample.instruction.group();
    if (sample.generation != 2 || group < 2 || group > 5) continue;
    for (const unsigned which :
         {kDst | kFirst | kSecond, kDst | kFirst, kDst | kSecond, kDst, kFirst | kSecond, kFirst}) {
      samples::Sample large = sample;
      if ((which & kDst) != 0) repeat(large.instruction.dst);
      if ((which & kFirst) != 0) repeat(large.instruction.src0);
      if ((which & kSecond) != 0) repeat(large.instruction.src1);
      // What is made for the first of its kind is there the second time.
      if (longest_ms(large) < 0) continue;
      double ms = longest_ms(large);
      for (int again = 0; again < 3 && ms >= kMostMs; ++again) ms = longest_ms(large);
      EXPECT_LT(ms, kMostMs) << isa::disassemble(large.instruction);
      seen.insert(sample.instruction.opcode);
      break;
    }
  }
  EXPECT_GT(seen.size(), 20U) << "most kinds take operands of this size";
}

// Every other element, so that none continues the one before.
isa::Operand scattered(uint32_t base) {
  isa::Operand operand;
  operand.space = NEURON_SPACE_SBUF;
  operand.parts = 128;
  operand.base = base;
  operand.dtype = NEURON_DTYPE_U8;
  operand.ndim = 3;
  operand.size = {64, 512, 32, 1};
  operand.step = {2, 128, 1, 0};
  return operand;
}

TEST(StrictFootprint, IsGivenUpInTheMiddleAndRightTheNextTime) {
  StrictFootprint footprint;
  StrictFootprint other;
  const std::span<const StrictSegment> there = other.of(scattered(1));
  const std::vector<StrictSegment> wanted(there.begin(), there.end());
  ASSERT_FALSE(wanted.empty());
  {
    const Looks looks;
    (void)other.of(scattered(2));
    EXPECT_GE(Looks::count(), scattered(2).elements() / 4096) << "by the elements that it draws";
  }
  const std::atomic<bool> halted = true;
  {
    const base::Abandonment program(halted);
    EXPECT_THROW((void)footprint.of(scattered(0)), base::Abandoned);
    EXPECT_THROW((void)footprint.of(scattered(1)), base::Abandoned);
  }
  const std::span<const StrictSegment> found = footprint.of(scattered(1));
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t n = 0; n < wanted.size(); ++n) {
    ASSERT_EQ(found[n].column, wanted[n].column) << n;
    ASSERT_EQ(found[n].count, wanted[n].count) << n;
    ASSERT_EQ(found[n].mask, wanted[n].mask) << n;
  }
}

}  // namespace
}  // namespace neuron::core
