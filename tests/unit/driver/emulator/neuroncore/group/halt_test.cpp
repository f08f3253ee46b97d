// SPDX-License-Identifier: Apache-2.0
// A core that is halted or reset in the middle of an instruction.
#include <thread>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

using Clock = std::chrono::steady_clock;

// 2^20 elements of each of 128 partitions, one by one, because the destination overlaps the source.
Instruction many_elements() {
  Instruction i = inst(NEURON_OP_TENSOR_COPY);
  i.src0 = tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F32, {1024, 1024}, {0, 0});
  i.dst = tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F32, {2, 1024, 512}, {1, 0, 0});
  return i;
}

// Sorts rows of 2^20 elements.
Instruction long_sort() {
  Instruction i = inst(NEURON_OP_CUSTOM);
  i.src0 = tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F32, {1024, 1024}, {1, 1});
  i.dst = tile(NEURON_SPACE_SBUF, 0, 128, 65536, NEURON_DTYPE_F32, {1024, 1024}, {1, 0});
  i.vector.imm = 2;
  return i;
}

class Halt : public CoreMachine {
 protected:
  // Seconds from the reset until both it and the runner of the group are done.
  double seconds_of_reset(unsigned engine, const Instruction& instruction) {
    fill_sbuf(128, 16384);
    load(engine, {instruction, update_of_a_peer(), inst(NEURON_OP_HALT)});
    chip::RunResult result = chip::RunResult::kBusy;
    std::atomic<bool> ended = false;
    std::thread runner([&] {
      result = run(60'000);
      ended = true;
    });
    // Its length is what this test needs: it is still at it.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_FALSE(ended) << "the instruction of engine " << engine
                        << " is not a long one: " << chip_->describe_core(0) << " fault "
                        << fault(engine) << " info " << get(engine, NEURON_ENG_EXC_INFO)
                        << " field " << std::hex << get(engine, NEURON_ENG_EXC_FIELD);
    const auto start = Clock::now();
    chip_->reset(1);
    runner.join();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    EXPECT_EQ(result, chip::RunResult::kQuiescent);
    return took;
  }
  // What comes behind the instruction that is dropped.
  static Instruction update_of_a_peer() {
    return write_word(NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(1) +
                          NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * 20,
                      1);
  }
  uint32_t semaphore_of_the_other_core() {
    return core_register(NEURON_V2_CORE_WINDOW(1) + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_READ +
                         4 * 20);
  }
};

TEST_F(Halt, OfAnInstructionOfManySecondsTakesLessThanOne) {
  EXPECT_LT(seconds_of_reset(kDve, many_elements()), 1);
  EXPECT_LT(seconds_of_reset(kPool, long_sort()), 1);
  EXPECT_EQ(semaphore_of_the_other_core(), 0u) << "nothing behind the instruction has happened";
  // And the core is as after any reset.
  EXPECT_EQ(state(kDve), NEURON_STATE_IDLE);
  Instruction set = inst(NEURON_OP_MEMSET);
  set.dst = sbuf(1, 0, NEURON_DTYPE_F32, 4);
  set.vector.imm = 0x3F800000;
  load_and_run(kDve, {set, inst(NEURON_OP_HALT)});
  EXPECT_EQ(sbuf_float(0, 12), 1.0f);
}

TEST_F(Halt, LetsNothingRunUntilTheReset) {
  chip_->halt(1);
  EXPECT_EQ(chip_->halted(), 1u);
  load(kSp, {mov(3, 7), inst(NEURON_OP_HALT)});
  EXPECT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(register_of(kSp, 3), 0u);
  chip_->reset(1);
  EXPECT_EQ(chip_->halted(), 0u);
  load(kSp, {mov(3, 7), inst(NEURON_OP_HALT)});
  EXPECT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(register_of(kSp, 3), 7u);
}

}  // namespace
}  // namespace neuron::core
