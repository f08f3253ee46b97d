// SPDX-License-Identifier: Apache-2.0
// Two programs of the two cores of a logical core: barriers inside, tiles across, deadlocks named.
#include <gmock/gmock.h>

#include "tests/unit/driver/emulator/neuroncore/pair_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::core {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kPipe = 8;

Instruction meet(unsigned opcode, unsigned semaphore) {
  Instruction i = inst(opcode);
  i.scalar0 = number(semaphore);
  i.wait[1] = wait_ge(semaphore, 1);
  i.update[1] = update(NEURON_UPDATE_DEC, semaphore);
  return i;
}
Instruction barrier(unsigned semaphore = kPipe) { return meet(NEURON_OP_BARRIER, semaphore); }
Instruction sendrecv(isa::Operand dst, isa::Operand src, unsigned semaphore = kPipe) {
  Instruction i = meet(NEURON_OP_SENDRECV, semaphore);
  i.dst = dst;
  i.src0 = src;
  return i;
}

class CoreMeeting : public PairMachine, public ::testing::WithParamInterface<unsigned> {
 protected:
  void SetUp() override { create(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Generations, CoreMeeting, ::testing::Values(3U, 4U));

// Each core leaves a word in HBM, which both share, and reads the other's behind the barrier.
TEST_P(CoreMeeting, ABarrierPutsWhatBothDidBeforeItAheadOfWhatBothDoBehindIt) {
  for (unsigned round = 0; round < 100; ++round) {
    for (unsigned core = 0; core < 2; ++core) {
      const uint32_t value = 1000 * round + core;
      // One of the two takes longer, by turns.
      const unsigned detour = round % 2 == core ? 500 : 1;
      start(core, kSp,
            {loop(1, 0, detour, 1, 1), inst(NEURON_OP_NOP), mov(2, value),
             store(kData + 64 * core, 2), barrier(), load_word(3, kData + 64 * (1 - core)),
             barrier(9), done(kSp)});
    }
    for (const chip::RunResult result : run_both(round)) {
      ASSERT_EQ(result, chip::RunResult::kQuiescent);
    }
    for (unsigned core = 0; core < 2; ++core) {
      expect_halted(core, kSp);
      ASSERT_EQ(chip_->read_register(at(core, kSp, NEURON_ENG_REG0 + 4 * 3)),
                1000 * round + 1 - core);
    }
  }
}

TEST_P(CoreMeeting, BothGoOnAtTheTimeOfTheLaterOneWhateverTheHostDoes) {
  std::vector<std::array<uint64_t, 2>> ends;
  for (unsigned round = 0; round < 20; ++round) {
    set_core(NEURON_V3_CORE_WINDOW(0) + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND,
             NEURON_CMD_RESET | 0x1F00);
    set_core(NEURON_V3_CORE_WINDOW(1) + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND,
             NEURON_CMD_RESET | 0x1F00);
    start(0, kSp, {inst(NEURON_OP_NOP), barrier(), done(kSp)});
    start(1, kSp, {loop(1, 0, 1000, 1, 1), inst(NEURON_OP_NOP), barrier(), done(kSp)});
    run_both(round);
    expect_halted(0, kSp);
    expect_halted(1, kSp);
    ends.push_back({time_of(0), time_of(1)});
    EXPECT_EQ(ends.back(), ends.front());
  }
  // A thousand rounds of 53.333 ns.
  EXPECT_GT(ends[0][0], 53'000'000U);
  EXPECT_LT(ends[0][0], 54'000'000U);
}

TEST_P(CoreMeeting, SendrecvSwapsTilesAndManyInARowStayApart) {
  constexpr unsigned kRounds = 12, kN = 64;
  for (const unsigned parts : {128u, 32u}) {
    for (unsigned core = 0; core < 2; ++core) {
      std::vector<Instruction> program;
      for (unsigned r = 0; r < kRounds; ++r) {
        for (unsigned p = 0; p < parts; ++p) {
          std::vector<uint32_t> row(kN);
          for (unsigned e = 0; e < kN; ++e) row[e] = core << 30 | r << 20 | p << 10 | e;
          put_row(core, p, r * kN * 4, row);
        }
        program.push_back(sendrecv(sbuf(parts, 0x8000 + r * kN * 4, NEURON_DTYPE_U32, kN),
                                   sbuf(parts, r * kN * 4, NEURON_DTYPE_U32, kN), 8 + r % 3));
      }
      program.push_back(done(kPool));
      start(core, kPool, program);
    }
    run_both(parts);
    for (unsigned core = 0; core < 2; ++core) {
      expect_halted(core, kPool);
      for (unsigned r = 0; r < kRounds; ++r) {
        for (unsigned p = 0; p < parts; ++p) {
          const std::vector<uint32_t> row = row_of(core, p, 0x8000 + r * kN * 4, kN);
          for (unsigned e = 0; e < kN; ++e) {
            ASSERT_EQ(row[e], (1 - core) << 30 | r << 20 | p << 10 | e) << r << " " << p;
          }
        }
      }
    }
  }
}

// In place: the tile is on its way before the other one's arrives.
TEST_P(CoreMeeting, SendrecvMayReceiveIntoTheTileThatItSends) {
  for (unsigned core = 0; core < 2; ++core) {
    for (unsigned p = 0; p < 32; ++p) put_row(core, p, 0, {core * 100 + p});
    start(core, kPool,
          {sendrecv(sbuf(32, 0, NEURON_DTYPE_U32, 1), sbuf(32, 0, NEURON_DTYPE_U32, 1)),
           done(kPool)});
  }
  run_both();
  for (unsigned p = 0; p < 32; ++p) {
    EXPECT_EQ(row_of(0, p, 0, 1)[0], 100 + p);
    EXPECT_EQ(row_of(1, p, 0, 1)[0], p);
  }
}

TEST_P(CoreMeeting, SendrecvMovesAllEightBytesOf64BitIntegers) {
  const isa::Operand sent = sbuf(32, 0, NEURON_DTYPE_I64, 1);
  const isa::Operand received = sbuf(32, 0x100, NEURON_DTYPE_I64, 1);
  for (unsigned core = 0; core < 2; ++core) {
    for (unsigned p = 0; p < 32; ++p) put_row(core, p, 0, {core * 100 + p, 7 + core});
    start(core, kPool, {sendrecv(received, sent), done(kPool)});
  }
  run_both();
  for (unsigned p = 0; p < 32; ++p) {
    EXPECT_EQ(row_of(0, p, 0x100, 2), (std::vector<uint32_t>{100 + p, 8}));
    EXPECT_EQ(row_of(1, p, 0x100, 2), (std::vector<uint32_t>{p, 7}));
  }
}

// Any bits arrive as they were sent: numbers, NaN with payload, scales and codes of blocks.
TEST_P(CoreMeeting, SendrecvMovesTheBitsOfEveryType) {
  constexpr unsigned kParts = 32, kN = 24, kRow = 256, kTo = 0x8000;
  const std::vector<uint8_t> types = isa::testing::types_of(GetParam());
  std::mt19937 random(23);
  std::array<std::vector<std::vector<uint32_t>>, 2> sent;
  for (unsigned core = 0; core < 2; ++core) {
    std::vector<Instruction> program;
    for (unsigned t = 0; t < types.size(); ++t) {
      const Instruction i = sendrecv(sbuf(kParts, kTo + t * kRow, types[t], kN),
                                     sbuf(kParts, t * kRow, types[t], kN), 8 + t % 3);
      ASSERT_TRUE(isa::testing::accepted(i, kPool, GetParam())) << isa::dtype_name(types[t]);
      program.push_back(i);
      for (unsigned p = 0; p < kParts; ++p) {
        std::vector<uint32_t> row(kRow / 4);
        for (uint32_t& word : row) word = static_cast<uint32_t>(random());
        put_row(core, p, t * kRow, row);
        put_row(core, p, kTo + t * kRow, std::vector<uint32_t>(kRow / 4));
        sent[core].push_back(row);
      }
    }
    program.push_back(done(kPool));
    start(core, kPool, program);
  }
  run_both();
  for (unsigned core = 0; core < 2; ++core) {
    expect_halted(core, kPool);
    for (unsigned t = 0; t < types.size(); ++t) {
      const size_t words = kN * isa::dtype_bytes(types[t]) / 4;
      for (unsigned p = 0; p < kParts; ++p) {
        std::vector<uint32_t> expected = sent[1 - core][t * kParts + p];
        std::fill(expected.begin() + static_cast<ptrdiff_t>(words), expected.end(), 0);
        ASSERT_EQ(row_of(core, p, kTo + t * kRow, kRow / 4), expected)
            << isa::dtype_name(types[t]) << " in partition " << p;
      }
    }
  }
}

TEST_P(CoreMeeting, TilesOfDifferentShapeOrTypeAreFaultsOfTheReceiver) {
  for (unsigned core = 0; core < 2; ++core) {
    for (unsigned p = 0; p < 64; ++p) put_row(core, p, 0, std::vector<uint32_t>(64));
  }
  const auto meet_with = [&](isa::Operand a, isa::Operand b) {
    for (unsigned core = 0; core < 2; ++core) {
      set_core(NEURON_V3_CORE_WINDOW(core) + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND,
               NEURON_CMD_RESET | 0x1F00);
      for (unsigned p = 0; p < 64; ++p) put_row(core, p, 0, std::vector<uint32_t>(64));
    }
    start(0, kPool, {sendrecv(a, a), done(kPool)});
    start(1, kPool, {sendrecv(b, b), done(kPool)});
    run_both();
    EXPECT_EQ(fault_of(0, kPool), fault_of(1, kPool));
    return fault_of(0, kPool);
  };
  EXPECT_EQ(meet_with(sbuf(64, 0, NEURON_DTYPE_U32, 8), sbuf(64, 0, NEURON_DTYPE_U32, 9)),
            NEURON_FAULT_OPERAND_SHAPE);
  EXPECT_EQ(meet_with(sbuf(64, 0, NEURON_DTYPE_U32, 8), sbuf(32, 0, NEURON_DTYPE_U32, 8)),
            NEURON_FAULT_OPERAND_SHAPE);
  EXPECT_EQ(meet_with(sbuf(64, 0, NEURON_DTYPE_U32, 8), sbuf(64, 0, NEURON_DTYPE_F32, 8)),
            NEURON_FAULT_OPERAND_DTYPE);
  EXPECT_EQ(meet_with(sbuf(64, 0, NEURON_DTYPE_U32, 8), sbuf(64, 0, NEURON_DTYPE_U32, 8)),
            NEURON_FAULT_NONE);
}

// 150 cycles and one for each 128 bytes, at 1.2 GHz, from when the later core is there: for both.
TEST_P(CoreMeeting, SendrecvTakesItsTimeFromTheArrivalOfTheLaterCoreForBoth) {
  constexpr int kN = 512;
  const isa::Operand tile = sbuf(128, 0, NEURON_DTYPE_U32, kN);
  constexpr uint64_t kTransfer = (150 + 128 * kN * 4 / 128) * 2500 / 3;
  std::array<std::array<uint64_t, 2>, 2> ends{};
  for (const bool exchanges : {false, true}) {
    for (unsigned core = 0; core < 2; ++core) {
      set_core(NEURON_V3_CORE_WINDOW(core) + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND,
               NEURON_CMD_RESET | 0x1F00);
      for (unsigned p = 0; p < 128; ++p) put_row(core, p, 0, std::vector<uint32_t>(kN));
      // Core 1 comes about 10 us later, long after the tile of core 0.
      std::vector<Instruction> program = {loop(1, 0, core == 1 ? 200 : 1, 1, 1),
                                          inst(NEURON_OP_NOP)};
      if (exchanges) program.push_back(sendrecv(tile, tile));
      program.push_back(done(kPool));
      start(core, kPool, program);
    }
    run_both();
    for (unsigned core = 0; core < 2; ++core) {
      expect_halted(core, kPool);
      ends[exchanges ? 1 : 0][core] = time_of(core);
    }
  }
  const uint64_t later = ends[0][1];
  for (unsigned core = 0; core < 2; ++core) {
    EXPECT_GE(ends[1][core], later + kTransfer) << core;
    EXPECT_LE(ends[1][core], later + kTransfer + 200'000) << core;
  }
}

// dst is written when the other core has been there, not before: what comes before the other core's
// arrival comes before the write.
TEST_P(CoreMeeting, StrictModeKnowsThatTheReceivedTileIsWrittenBehindTheOtherCoresArrival) {
  const isa::Operand source = sbuf(32, 0, NEURON_DTYPE_U32, 16);
  const isa::Operand received = sbuf(32, 0x400, NEURON_DTYPE_U32, 16);
  for (const bool ordered : {true, false}) {
    for (unsigned core = 0; core < 2; ++core) {
      set_core(NEURON_V3_CORE_WINDOW(core) + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND,
               NEURON_CMD_RESET | 0x1F00);
      for (unsigned p = 0; p < 32; ++p) {
        put_row(core, p, 0, std::vector<uint32_t>(16));
        put_row(core, p, 0x400, std::vector<uint32_t>(16));
      }
    }
    start(0, kPool, {sendrecv(received, source), done(kPool)});
    Instruction read = inst(NEURON_OP_TENSOR_COPY);
    read.dst = sbuf(32, 0x800, NEURON_DTYPE_U32, 16);
    read.src0 = received;
    const uint64_t let =
        NEURON_V3_CORE_DEVICE(uint64_t{1}) + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * 9;
    Instruction wait = inst(NEURON_OP_EVENT);
    wait.wait[0] = wait_ge(9, 1);
    if (ordered) {
      // DVE of core 0 reads the old tile, then lets Pool of core 1 come.
      start(0, kDve,
            {loop(1, 0, 100, 1, 1), inst(NEURON_OP_NOP), read, inst(NEURON_OP_DRAIN),
             write_word(let, 1), done(kDve)});
      start(1, kPool, {wait, sendrecv(received, source), done(kPool)});
    } else {
      // Core 1 is there from the beginning, and nothing says whether DVE reads the old tile.
      start(0, kDve, {loop(1, 0, 100, 1, 1), inst(NEURON_OP_NOP), read, done(kDve)});
      start(1, kPool, {sendrecv(received, source), done(kPool)});
      chip_->run_slice(1, std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
    }
    run_both(0, 300);
    EXPECT_EQ(fault_of(0, kDve), ordered ? NEURON_FAULT_NONE : NEURON_FAULT_RACE);
    if (ordered) {
      expect_halted(0, kPool);
      expect_halted(0, kDve);
      expect_halted(1, kPool);
    }
  }
}

// A debugger takes an engine from one barrier to another: the second one has to be told, too.
TEST_P(CoreMeeting, AnEngineThatADebuggerTakesToAnotherBarrierTellsTheOtherCoreOfIt) {
  start(0, kSp, {barrier(8), barrier(9), done(kSp)});
  chip_->run_slice(0, std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
  ASSERT_EQ(state_of(0, kSp), NEURON_STATE_WAITING);
  set_core(at(0, kSp, NEURON_ENG_CONTROL), NEURON_CMD_STOP);
  set_core(at(0, kSp, NEURON_ENG_PC), 1);
  set_core(at(0, kSp, NEURON_ENG_CONTROL), NEURON_CMD_CONTINUE);
  start(1, kSp, {barrier(9), done(kSp)});
  run_both();
  expect_halted(0, kSp);
  expect_halted(1, kSp);
}

// The tile is read when the engine arrives: an engine that writes it without order is trapped.
TEST_P(CoreMeeting, StrictModeTrapsAWriteOfTheTileThatNothingOrders) {
  const isa::Operand source = sbuf(32, 0, NEURON_DTYPE_U32, 16);
  for (unsigned core = 0; core < 2; ++core) {
    for (unsigned p = 0; p < 32; ++p) put_row(core, p, 0, std::vector<uint32_t>(16));
    start(core, kPool,
          {loop(1, 0, 50, 1, 1), inst(NEURON_OP_NOP),
           sendrecv(sbuf(32, 0x400, NEURON_DTYPE_U32, 16), source), done(kPool)});
  }
  Instruction write = inst(NEURON_OP_MEMSET);
  write.dst = source;
  start(0, kDve, {write, done(kDve)});
  run_both(0, 300);
  EXPECT_EQ(fault_of(0, kPool), NEURON_FAULT_RACE);
}

// Core 1 stores into a tile of core 0, which reads it: with a barrier between them, and without.
TEST_P(CoreMeeting, ARaceAcrossIsTrappedAndABarrierMakesItRight) {
  constexpr uint32_t kValue = 0x40490FDB;
  for (const bool ordered : {true, false}) {
    reset_both();
    put_row(0, 0, 0, {0});
    Instruction copy = inst(NEURON_OP_TENSOR_COPY);
    copy.dst = sbuf(1, 0x100, NEURON_DTYPE_U32, 1);
    copy.src0 = sbuf(1, 0, NEURON_DTYPE_U32, 1);
    Instruction meets = barrier();
    meets.engines = 1u << kDve;
    Instruction nop = inst(NEURON_OP_NOP);
    start(0, kDve, {ordered ? meets : nop, copy, done(kDve)});
    std::vector<Instruction> writer = {mov(1, kValue), store(sbuf_of(0, 0, 0), 1)};
    if (ordered) writer.push_back(barrier());
    writer.push_back(done(kSp));
    start(1, kSp, writer);
    // The store comes first in the host's time; nothing but a barrier says so to the program.
    chip_->run_slice(1, std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
    run_both(0, 300);
    if (ordered) {
      expect_halted(0, kDve);
      EXPECT_EQ(row_of(0, 0, 0x100, 1)[0], kValue);
      continue;
    }
    EXPECT_EQ(fault_of(0, kDve), NEURON_FAULT_RACE);
    const uint32_t other = chip_->read_register(at(0, kDve, NEURON_ENG_EXC_ADDR_HI));
    EXPECT_EQ(other >> NEURON_STRICT_ENGINE_SHIFT & 15, unsigned{NEURON_ENGINE_HOST})
        << "the other core, which is outside this one";
  }
}

TEST_P(CoreMeeting, ADeadlockAcrossNamesTheWaitOfEachCore) {
  // One waits at the barrier of semaphore 8, the other at that of 9.
  start(0, kSp, {barrier(8), done(kSp)});
  start(1, kSp, {barrier(9), done(kSp)});
  run_both(0, 200);
  EXPECT_EQ(state_of(0, kSp), NEURON_STATE_WAITING);
  EXPECT_EQ(state_of(1, kSp), NEURON_STATE_WAITING);
  EXPECT_THAT(chip_->describe_core(0),
              HasSubstr("waits for semaphore 8 >= 1, which is 0: the other core of the pair"));
  EXPECT_THAT(chip_->describe_core(1),
              HasSubstr("waits for semaphore 9 >= 1, which is 0: the other core of the pair"));
}

}  // namespace
}  // namespace neuron::core
