// SPDX-License-Identifier: Apache-2.0
// What the checks accept, a core executes: every instruction, with every type in every place.
#include <bit>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::core {
namespace {

namespace samples = isa::testing;

// Those of generation 2, which all have; what the later ones add: LaterSamples.
class IsaSamples : public EveryGeneration {
 protected:
  // Runs one instruction between what it needs and a halt.
  void expect_runs(samples::Sample sample) {
    // The sample writes to the SBUF of core 0 of generation 2.
    uint64_t& to = sample.instruction.generate.to;
    if (to >= NEURON_V2_BAR0_DEVICE_BASE) to += device_address(0) - NEURON_V2_BAR0_DEVICE_BASE;
    std::vector<Instruction> program;
    if (sample.instruction.opcode == NEURON_OP_MATMUL) {
      Instruction weights = inst(NEURON_OP_LDWEIGHTS);
      weights.src0 = sbuf(128, 0, sample.instruction.src0.dtype, 128);
      program.push_back(weights);
    }
    program.push_back(sample.instruction);
    Instruction halt = inst(NEURON_OP_HALT);
    halt.drain = true;
    program.push_back(halt);
    load(sample.engine, program, 0);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
    EXPECT_EQ(state(sample.engine), NEURON_STATE_HALTED)
        << isa::fault_name(fault(sample.engine)) << ": " << isa::disassemble(sample.instruction);
    if (state(sample.engine) != NEURON_STATE_HALTED) {
      set(sample.engine, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Generations, IsaSamples, kGenerations);

// Flow has tests of its own: a sample alone would leave the program.
bool runs_alone(const Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_BRK:
    case NEURON_OP_COMPLETE:
    case NEURON_OP_BRANCH:
    case NEURON_OP_LOOP:
    case NEURON_OP_CALL:
    case NEURON_OP_RET:
    case NEURON_OP_LOAD_TABLE:       // needs an image of a table
    case NEURON_OP_CUSTOM_OPERATOR:  // needs a call table
    case NEURON_OP_CC_ADVANCE:       // of collective cores
      return false;
    default:
      return i.group() != 6;
  }
}

TEST_P(IsaSamples, EveryOpcodeRunsToTheEndOfItsProgram) {
  clear_tiles();
  unsigned count = 0;
  for (samples::Sample sample : samples::samples_of(GetParam())) {
    if (samples::first_generation_of(sample) != 2 || !runs_alone(sample.instruction)) continue;
    if (sample.instruction.address.count != 0) {
      sample.instruction.address = {kData, 0, sample.instruction.address.count};
    }
    expect_runs(sample);
    ++count;
  }
  EXPECT_GT(count, 45U);
  EXPECT_EQ(word(kData), 1U);  // of cc_trigger, the last of those that write there
}

TEST_P(IsaSamples, EveryTypeThatTheChecksAllowIsExecuted) {
  clear_tiles();
  unsigned count = 0;
  for (const samples::Sample& sample : samples::samples_of(GetParam())) {
    if (samples::first_generation_of(sample) != 2 || sample.instruction.group() < 2) continue;
    if (!runs_alone(sample.instruction)) continue;
    clear_tiles();
    for (unsigned place = 0; place < samples::kPlaces; ++place) {
      for (const uint8_t type : samples::types_of(GetParam())) {
        for (const samples::Sample& form : samples::forms(sample, place, type)) {
          expect_runs(form);
          ++count;
        }
      }
    }
  }
  EXPECT_GT(count, 1000U);
}

// 128 rows of 64 elements each way, on as many queues as the mask has engines.
TEST_P(IsaSamples, DescriptorsAreMadeAndFollowed) {
  clear_tiles();
  constexpr unsigned kQueue = 3, kSemaphore = 40;
  for (unsigned engine = 0; engine < 16; ++engine) set_up_queue(engine, kQueue);
  Instruction rows = inst(NEURON_OP_IOTA);
  rows.dst = sbuf(128, 0x400, NEURON_DTYPE_U32, 1);
  rows.pattern.size[0] = 1;
  rows.vector.imm = 1;  // row p for partition p
  load_and_run(NEURON_ENGINE_POOL, {rows, inst(NEURON_OP_HALT)});
  uint32_t expected = 0;
  unsigned count = 0;
  for (const samples::Sample& sample : samples::samples_of(GetParam())) {
    if (!samples::is_dma(sample.instruction)) continue;
    for (const unsigned place : {samples::kPlaceFrom, samples::kPlaceTo}) {
      for (const uint8_t type : samples::types_of(GetParam())) {
        for (samples::Sample form : samples::forms(sample, place, type)) {
          form.instruction.dma.queue = kQueue;
          form.instruction.dma.signal = true;
          form.instruction.dma.semaphore = kSemaphore;
          expected += static_cast<uint32_t>(std::popcount(form.instruction.dma.mask));
          expect_runs(form);
          ASSERT_EQ(semaphore(kSemaphore), expected) << isa::disassemble(form.instruction);
          ++count;
        }
      }
    }
  }
  EXPECT_GT(count, 100U);
}

TEST_P(IsaSamples, AGeneratedCastArrivesInEveryPartition) {
  clear_tiles();
  for (unsigned engine = 0; engine < 16; ++engine) set_up_queue(engine, 3);
  for (const samples::Sample& sample : samples::samples_of(GetParam())) {
    if (sample.instruction.opcode != NEURON_OP_DMA_GENERATE) continue;
    auto* source = reinterpret_cast<float*>(memory(sample.instruction.generate.from, 128 * 2048));
    for (unsigned n = 0; n < 128 * 512; ++n) source[n] = static_cast<float>(n / 512 + 1);
    expect_runs(sample);
    EXPECT_EQ(semaphore(sample.instruction.dma.semaphore), 16U);
    for (unsigned partition = 0; partition < 128; ++partition) {
      const float pair = sbuf_float(partition, 1020);  // the last two bf16
      uint32_t bits;
      std::memcpy(&bits, &pair, 4);
      const float value = static_cast<float>(partition + 1);
      uint32_t wanted;
      std::memcpy(&wanted, &value, 4);
      EXPECT_EQ(bits >> 16, wanted >> 16) << partition;
      EXPECT_EQ(bits & 0xFFFF, wanted >> 16) << partition;
    }
  }
}

}  // namespace
}  // namespace neuron::core
