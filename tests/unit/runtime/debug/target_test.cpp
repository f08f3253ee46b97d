// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/control.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::debug {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr unsigned kPe = NEURON_ENGINE_PE, kSp = NEURON_ENGINE_SP;

class TargetOfASample : public testing::Test {
 protected:
  std::map<uint64_t, uint32_t>& registers() { return sample_.machine.state.registers; }
  uint64_t window() const { return sample_.core->place().window_bar0(); }
  uint64_t block(unsigned engine) const { return window() + NEURON_CORE_ENGINE(engine); }
  uint32_t wrapper(unsigned engine) const { return sample_.loaded->image(engine).wrapper; }

  test::LoadedSample sample_;
  Target target_{*sample_.loaded};
};

TEST(EngineNames, AreThoseOfTheAssemblerAndOfTheOriginal) {
  for (const auto& [names, engine] :
       {std::pair{std::array{"PE", "pe", "Tensor", "TENSOR"}, NEURON_ENGINE_PE},
        {std::array{"Activation", "activation", "Scalar", "scalar"}, NEURON_ENGINE_ACTIVATION},
        {std::array{"Pool", "POOL", "GpSimd", "gpsimd"}, NEURON_ENGINE_POOL},
        {std::array{"DVE", "dve", "Vector", "vEcToR"}, NEURON_ENGINE_DVE},
        {std::array{"SP", "sp", "Sync", "SYNC"}, NEURON_ENGINE_SP}}) {
    for (const char* name : names) EXPECT_EQ(engine_named(name), unsigned{engine}) << name;
  }
  for (const char* name : {"", "P", "PE ", "CC", "tensors"}) EXPECT_FALSE(engine_named(name));
}

TEST_F(TargetOfASample, TheStateOfAnEngineIsWhatItsRegistersSay) {
  registers()[block(kSp) + NEURON_ENG_STATUS] = 0xFFFFFFF0 | NEURON_STATE_BREAK;
  registers()[block(kSp) + NEURON_ENG_PC] = wrapper(kSp) + 2;
  registers()[block(kSp) + NEURON_ENG_WAITING] = 77;
  registers()[block(kSp) + NEURON_ENG_WAIT_VAL] = 5;
  registers()[block(kSp) + NEURON_ENG_TIME_LO] = 0x89ABCDEF;
  registers()[block(kSp) + NEURON_ENG_TIME_HI] = 0x12;
  const auto state = target_.state(kSp);
  ASSERT_TRUE(state) << state.error().sentence;
  EXPECT_EQ(state->state, unsigned{NEURON_STATE_BREAK});
  EXPECT_TRUE(state->stopped());
  EXPECT_EQ(state->at, (Place{kSp, 2}));
  EXPECT_EQ(state->waiting, 77u);
  EXPECT_EQ(state->wait_value, 5u);
  EXPECT_EQ(state->time_ps, 0x1289ABCDEFu);
  // The runtime's own instructions stand in front of the program.
  registers()[block(kSp) + NEURON_ENG_PC] = 0;
  EXPECT_EQ(target_.state(kSp)->at.pc, -int64_t{wrapper(kSp)});
}

TEST_F(TargetOfASample, AnEngineIsStoppedAtABreakpointAndAfterAStepOnly) {
  for (const auto& [state, stopped] : {std::pair{NEURON_STATE_BREAK, true},
                                       {NEURON_STATE_STOPPED, true},
                                       {NEURON_STATE_WAITING, false},
                                       {NEURON_STATE_RUNNING, false}}) {
    registers()[block(kPe) + NEURON_ENG_STATUS] = state;
    EXPECT_EQ(target_.state(kPe)->stopped(), stopped) << state;
  }
}

TEST_F(TargetOfASample, RegistersAndSemaphoresAreReadByTheirNumbers) {
  registers()[block(kPe) + NEURON_ENG_REG0 + 12] = 33;
  EXPECT_EQ(*target_.register_of(kPe, 3), 33u);
  EXPECT_EQ(*target_.register_of(kPe, 2), 0u);
  registers()[window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_READ + 80] = 9;
  EXPECT_EQ(*target_.semaphore(20), 9u);
  EXPECT_EQ(target_.semaphore_number("ready"), 20u);
  EXPECT_EQ(target_.semaphore_number("read"), std::nullopt);
  EXPECT_THAT(target_.semaphore_name(20), HasSubstr("ready"));
}

TEST_F(TargetOfASample, BytesOfAPartitionBeginAndEndAnywhere) {
  const uint64_t row = window() + NEURON_CORE_SBUF + 2 * NEURON_SBUF_PARTITION_STRIDE;
  registers()[row + 0x40] = 0x44332211;
  registers()[row + 0x44] = 0x88776655;
  EXPECT_THAT(*target_.bytes(Memory::kSbuf, 2, 0x41, 5), ElementsAre(0x22, 0x33, 0x44, 0x55, 0x66));
  EXPECT_THAT(*target_.bytes(Memory::kSbuf, 2, 0x44, 2), ElementsAre(0x55, 0x66));
  EXPECT_THAT(*target_.bytes(Memory::kSbuf, 2, 0x43, 1), ElementsAre(0x44));
  EXPECT_THAT(*target_.bytes(Memory::kSbuf, 2, 0x40, 0), IsEmpty());
  registers()[window() + NEURON_CORE_PSUM + NEURON_PSUM_PARTITION_STRIDE] = 0xDDCCBBAA;
  EXPECT_THAT(*target_.bytes(Memory::kPsum, 1, 0, 4), ElementsAre(0xAA, 0xBB, 0xCC, 0xDD));
}

TEST_F(TargetOfASample, BytesThatAPartitionHasNotAreRefused) {
  EXPECT_TRUE(target_.bytes(Memory::kSbuf, 127, NEURON_SBUF_PARTITION_STRIDE - 4, 4));
  EXPECT_TRUE(target_.bytes(Memory::kPsum, 127, NEURON_PSUM_PARTITION_STRIDE - 4, 4));
  for (const auto& [partition, offset, count] : {std::tuple{128u, 0u, 4u},
                                                 {0u, NEURON_SBUF_PARTITION_STRIDE - 4u, 5u},
                                                 {0u, UINT32_MAX, 4u}}) {
    const auto read = target_.bytes(Memory::kSbuf, partition, offset, count);
    ASSERT_FALSE(read) << partition << " " << offset;
    EXPECT_THAT(read.error().sentence, HasSubstr("SBUF has 128 partitions"));
  }
  const auto psum = target_.bytes(Memory::kPsum, 0, NEURON_PSUM_PARTITION_STRIDE, 1);
  ASSERT_FALSE(psum);
  EXPECT_THAT(psum.error().sentence, HasSubstr("PSUM has 128 partitions, and no 1 bytes from"));
}

TEST_F(TargetOfASample, ACommandIsWrittenToItsEngineWithTheStepsBeforeIt) {
  ASSERT_TRUE(target_.command(kPe, NEURON_CMD_STEP, 4));
  EXPECT_EQ(registers()[block(kPe) + NEURON_ENG_STEPS], 4u);
  EXPECT_EQ(registers()[block(kPe) + NEURON_ENG_CONTROL], unsigned{NEURON_CMD_STEP});
  ASSERT_TRUE(target_.command(kPe, NEURON_CMD_CONTINUE, 9));
  EXPECT_EQ(registers()[block(kPe) + NEURON_ENG_STEPS], 4u) << "steps are of a step";
  EXPECT_EQ(registers()[block(kPe) + NEURON_ENG_CONTROL], unsigned{NEURON_CMD_CONTINUE});
}

TEST_F(TargetOfASample, BreakpointsAreThoseOfTheListAndNoOthers) {
  const auto word = [&](unsigned engine, unsigned number) {
    return registers()[block(engine) + NEURON_ENG_BREAK0 + 4ull * number];
  };
  ASSERT_TRUE(target_.set_breakpoints({{kPe, 0}, {kSp, -1}, {kPe, 2}}));
  EXPECT_EQ(word(kPe, 0), 1u << 31 | wrapper(kPe));
  EXPECT_EQ(word(kPe, 1), 1u << 31 | (wrapper(kPe) + 2));
  EXPECT_EQ(word(kPe, 2), 0u);
  EXPECT_EQ(word(kSp, 0), 1u << 31 | (wrapper(kSp) - 1));
  ASSERT_TRUE(target_.set_breakpoints({{kPe, 1}}));
  EXPECT_EQ(word(kPe, 0), 1u << 31 | (wrapper(kPe) + 1));
  EXPECT_EQ(word(kPe, 1), 0u);
  EXPECT_EQ(word(kSp, 0), 0u);

  std::vector<Place> many(8, Place{kPe, 0});
  many.push_back({kSp, 0});
  EXPECT_TRUE(target_.set_breakpoints(many));
  many.push_back({kPe, 1});
  const auto refused = target_.set_breakpoints(many);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().sentence, "PE has 8 breakpoints, which is all that an engine can have");
}

TEST_F(TargetOfASample, PlacesCountAsTheFileDoesWithTheRuntimesInstructionsInFront) {
  EXPECT_EQ(target_.instructions(kPe), sample_.loaded->image(kPe).instructions - wrapper(kPe));
  ASSERT_GE(target_.instructions(kPe), 3u);
  const auto last = static_cast<int64_t>(target_.instructions(kPe)) - 1;
  EXPECT_TRUE(target_.has({kPe, 0}));
  EXPECT_TRUE(target_.has({kPe, last}));
  EXPECT_FALSE(target_.has({kPe, last + 1}));
  EXPECT_TRUE(target_.has({kPe, -int64_t{wrapper(kPe)}}));
  EXPECT_FALSE(target_.has({kPe, -int64_t{wrapper(kPe)} - 1}));

  EXPECT_EQ(target_.instruction({kPe, 0}).opcode, NEURON_OP_EVENT);
  EXPECT_EQ(target_.instruction({kPe, 0}).debug, 1u);
  EXPECT_THAT(target_.text({kPe, 0}), HasSubstr("event"));
  EXPECT_EQ(target_.line({kPe, 0}), "matmul.py:40");
  EXPECT_EQ(target_.line({kPe, 1}), "") << "the file says nothing of it";
  EXPECT_EQ(target_.line({kPe, -1}), "") << "the runtime's own";
  EXPECT_EQ(target_.section({kPe, 0}), "");
  EXPECT_THAT(target_.first_places([](const Place& p) { return p.engine == kPe && p.pc >= 1; }),
              ElementsAre(Place{kPe, 1}));
}

}  // namespace
}  // namespace neuron::debug
