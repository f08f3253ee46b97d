// SPDX-License-Identifier: Apache-2.0
// Descriptors that Pool makes: patterns, gathers and scatters through real rings.
#include <bit>
#include <numeric>
#include <random>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr unsigned kDone = 30;  // semaphore
constexpr uint16_t kAllLanes = 0xFFFF;
constexpr uint32_t kFill = 0xFFFFFFFF;  // of SBUF that nobody has written

class DmaGenerate : public EveryGeneration {
 protected:
  // The rings of a queue, as a driver sets them up; ring_address() says where they lie.
  void prepare(unsigned queue, uint16_t mask) {
    for (unsigned e = 0; e < 16; ++e) {
      if ((mask >> e & 1) != 0) set_up_queue(e, queue);
    }
  }
  static Instruction generate(uint64_t from, std::vector<isa::DmaDimension> from_dims, uint64_t to,
                              std::vector<isa::DmaDimension> to_dims, uint16_t mask = kAllLanes,
                              unsigned type = NEURON_DTYPE_U8) {
    Instruction i = inst(NEURON_OP_DMA_GENERATE);
    i.engines = 1 << kPool;
    i.generate.from = from;
    i.generate.to = to;
    std::copy(from_dims.begin(), from_dims.end(), i.generate.from_dims.begin());
    std::copy(to_dims.begin(), to_dims.end(), i.generate.to_dims.begin());
    i.dma.from_type = i.dma.to_type = static_cast<uint8_t>(type);
    i.dma.mask = mask;
    i.dma.queue = 3;
    i.dma.semaphore = kDone;
    i.dma.signal = true;
    return i;
  }
  static Instruction wait_for(unsigned value) {
    Instruction i = inst(NEURON_OP_EVENT);
    i.wait[0] = wait_ge(kDone, value);
    return i;
  }
  static Instruction indirect(unsigned opcode, isa::Operand tile, isa::Operand index, uint64_t base,
                              uint32_t row_bytes, uint32_t row_step, uint32_t rows,
                              uint16_t mask = kAllLanes) {
    Instruction i = inst(opcode);
    i.engines = 1 << kPool;
    i.dst = tile;
    i.src0 = index;
    i.indirect = {base, row_bytes, row_step, rows};
    i.dma.from_type = i.dma.to_type = tile.dtype;
    i.dma.mask = mask;
    i.dma.queue = 3;
    i.dma.semaphore = kDone;
    i.dma.signal = true;
    return i;
  }
  void set_index(unsigned partition, uint32_t at, uint32_t value) {
    ASSERT_TRUE(chip_->bus().write32(sbuf_address(partition, at), value, {}));
  }
  uint32_t sbuf_word(unsigned partition, uint32_t at) {
    uint32_t value = 0;
    EXPECT_TRUE(chip_->bus().read32(sbuf_address(partition, at), value, {}));
    return value;
  }
  uint16_t sbuf_half(unsigned partition, uint32_t at) {
    uint16_t value = 0;
    EXPECT_TRUE(chip_->bus().read(sbuf_address(partition, at),
                                  std::as_writable_bytes(std::span(&value, 1)), {}));
    return value;
  }
  template <class T>
  T* values(uint64_t address, size_t n) {
    return reinterpret_cast<T*>(memory(address, n * sizeof(T)));
  }
  void number_words(uint64_t address, size_t n) {
    for (size_t i = 0; i < n; ++i) values<uint32_t>(address, n)[i] = static_cast<uint32_t>(i * 7);
  }
  struct Raw {
    uint32_t control, meta;
    uint64_t address;
  };
  Raw descriptor(unsigned engine, bool s2m, unsigned slot) {
    Raw raw;
    std::memcpy(&raw, memory(ring_address(engine, 3, s2m) + slot * 16, 16), 16);
    return raw;
  }
  void finish(const std::vector<Instruction>& program) {
    load_and_run(kPool, program);
    ASSERT_EQ(fault(kPool), NEURON_FAULT_NONE) << chip_->describe_core(0);
    ASSERT_EQ(state(kPool), NEURON_STATE_HALTED) << chip_->describe_core(0);
  }
};

INSTANTIATE_TEST_SUITE_P(Generations, DmaGenerate, kGenerations);

TEST_P(DmaGenerate, MovesAMatrixIntoSbufAndEveryEngineOfTheMaskSignals) {
  prepare(3, kAllLanes);
  number_words(kData, 128 * 128);
  finish({generate(kData, {{512, 1}, {128, 512}}, sbuf_address(0, 0x100),
                   {{512, 1}, {128, NEURON_SBUF_PARTITION_STRIDE}}),
          wait_for(16), inst(NEURON_OP_HALT)});
  EXPECT_EQ(semaphore(kDone), 16u);
  for (unsigned p = 0; p < 128; ++p) {
    for (unsigned w = 0; w < 128; ++w) ASSERT_EQ(sbuf_word(p, 0x100 + 4 * w), (p * 128 + w) * 7);
  }
  // Row r went to engine r mod 16: 8 rows and the word that signals, behind a write barrier.
  const Raw row = descriptor(5, false, 1);
  EXPECT_EQ(row.address, kData + 21 * 512);
  EXPECT_EQ(row.control, 512u | 1u << 24 | NEURON_DESC_FIRST | NEURON_DESC_LAST);
  EXPECT_EQ(row.meta, NEURON_META_DEFAULT);
  EXPECT_EQ(descriptor(5, true, 1).address, sbuf_address(21, 0x100));
  EXPECT_EQ(descriptor(5, false, 7).meta, NEURON_META_DEFAULT | NEURON_META_WRITE_BARRIER);
  EXPECT_EQ(descriptor(5, false, 8).control & 0xFFFF, 4u);
  EXPECT_EQ(descriptor(5, true, 8).address, semaphore_increment(kDone));
}

TEST_P(DmaGenerate, EnginesWithoutARowSignalAllTheSame) {
  prepare(3, 0x00F1);
  number_words(kData, 4);
  finish({generate(kData, {{16, 1}}, kData + 0x1000, {{16, 1}}, 0x00F1), wait_for(5),
          inst(NEURON_OP_HALT)});
  EXPECT_EQ(std::memcmp(memory(kData, 16), memory(kData + 0x1000, 16), 16), 0);
}

TEST_P(DmaGenerate, FourDimensionsAndRowsCutDifferentlyOnBothSidesMeetElementByElement) {
  prepare(3, 0x0003);
  constexpr uint32_t kElements = 3 * 4 * 5 * 2;
  for (uint32_t i = 0; i < 4096; ++i) values<uint16_t>(kData, 4096)[i] = static_cast<uint16_t>(i);
  // 2-byte elements; a negative step, a step of 0 and a gap on one side, three runs on the other.
  finish({generate(kData + 200, {{3, 2}, {4, -10}, {5, 0}, {2, 400}}, kData + 0x8000,
                   {{40, 2}, {3, 100}}, 0x0003, NEURON_DTYPE_BF16),
          wait_for(2), inst(NEURON_OP_HALT)});
  uint32_t n = 0;
  for (int d = 0; d < 2; ++d) {
    for (int c = 0; c < 5; ++c) {
      for (int b = 0; b < 4; ++b) {
        for (int a = 0; a < 3; ++a, ++n) {
          const uint64_t to = kData + 0x8000 + n / 40 * 100 + n % 40 * 2;
          ASSERT_EQ(values<uint16_t>(to, 1)[0], (200 + 2 * a - 10 * b + 400 * d) / 2) << n;
        }
      }
    }
  }
  EXPECT_EQ(n, kElements);
}

TEST_P(DmaGenerate, RowsAbove64KibAreCutOnTheirEngine) {
  prepare(3, 0x0001);
  constexpr uint32_t kBytes = 3 * 65536 + 100;
  number_words(kData, kBytes / 4);
  finish({generate(kData, {{kBytes, 1}}, kData + 0x100000, {{kBytes, 1}}, 0x0001), wait_for(1),
          inst(NEURON_OP_HALT)});
  EXPECT_EQ(std::memcmp(memory(kData, kBytes), memory(kData + 0x100000, kBytes), kBytes), 0);
  EXPECT_EQ(descriptor(0, false, 0).control & 0xFFFF, 0u);
  EXPECT_EQ(descriptor(0, false, 3).control & 0xFFFF, 100u);
}

TEST_P(DmaGenerate, AFullRingMakesItWaitInModelTimeAndIdsFollowTheWraps) {
  prepare(3, 0x0001);
  constexpr uint32_t kRows = 1000;  // of a ring with 64 slots
  number_words(kData, kRows * 2);
  Instruction copy =
      generate(kData, {{4, 1}, {kRows, 8}}, kData + 0x10000, {{4, 1}, {kRows, 12}}, 0x0001);
  finish({copy, wait_for(1), inst(NEURON_OP_HALT)});
  for (uint32_t r = 0; r < kRows; ++r) {
    ASSERT_EQ(word(kData + 0x10000 + 12 * r), word(kData + 8 * r)) << r;
  }
  // 1001 packets: the last lies in slot 40 of the 16th time around.
  EXPECT_EQ(descriptor(0, false, 40).control >> 24 & 3, (1 + 1000 / 64) & 3u);
  EXPECT_EQ(descriptor(0, false, 41).control >> 24 & 3, (1 + 1000 / 64 - 1) & 3u);
  // Each packet takes 50 ns on the only engine.
  EXPECT_GT(time(), 1000 * 50'000u);
}

TEST_P(DmaGenerate, OneInstructionAfterTheOtherUsesTheSameRings) {
  prepare(3, 0x0101);
  number_words(kData, 1024);
  Instruction copy =
      generate(kData, {{64, 1}, {10, 64}}, kData + 0x10000, {{64, 1}, {10, 64}}, 0x0101);
  copy.bind[0] = {1, NEURON_BIND_BASE, 0, NEURON_BIND_ADD};
  copy.bind[1] = {1, NEURON_BIND_BASE, 1, NEURON_BIND_ADD};
  std::vector<Instruction> program = {loop(1, 0, 640 * 6, 640, 1), copy, wait_for(12),
                                      inst(NEURON_OP_HALT)};
  finish(program);
  EXPECT_EQ(std::memcmp(memory(kData, 3840), memory(kData + 0x10000, 3840), 3840), 0);
}

TEST_P(DmaGenerate, RegistersMoveBothAddressesByBytesElementsAndPairsAndSetSizes) {
  prepare(3, 0x0001);
  number_words(kData, 4096);
  Instruction copy = generate(kData, {{4, 4}, {2, 64}}, kData + 0x10000, {{4, 4}, {2, 64}}, 0x0001,
                              NEURON_DTYPE_F32);
  copy.bind[0] = {2, NEURON_BIND_BASE, 1, NEURON_BIND_ADD_ELEMENTS};  // from += 4 r2
  copy.bind[1] = {4, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};      // to += r5:r4
  copy.bind[2] = {6, NEURON_BIND_SIZE0, 0, NEURON_BIND_REPLACE};
  copy.bind[3] = {6, NEURON_BIND_SIZE0, 1, NEURON_BIND_REPLACE};
  finish({mov(2, 100), mov(4, 0xFFFFFF00), mov(5, 0xFFFFFFFF), mov(6, 7), copy, wait_for(1),
          inst(NEURON_OP_HALT)});
  for (unsigned r = 0; r < 2; ++r) {
    for (unsigned w = 0; w < 7; ++w) {
      EXPECT_EQ(word(kData + 0x10000 - 0x100 + 64 * r + 4 * w), (100 + 16 * r + w) * 7);
    }
  }
}

TEST_P(DmaGenerate, ABindingThatTheInstructionDoesNotHaveIsIllegal) {
  prepare(3, 0x0001);
  Instruction copy = generate(kData, {{4, 1}}, kData + 64, {{4, 1}}, 0x0001);
  copy.bind[0] = {2, NEURON_BIND_BASE, 1, NEURON_BIND_REPLACE};
  load_and_run(kPool, {copy, inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kPool), NEURON_FAULT_ILLEGAL_FIELD);
}

// --- bounds ---

TEST_P(DmaGenerate, ARowBeyondTheLimitOfItsDynamicSideFaultsAndNothingIsWritten) {
  prepare(3, 0x0001);
  set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
  number_words(kData, 64);
  // Into the core: `from` is the dynamic side. Row 3 ends one byte behind the limit.
  Instruction copy = generate(kData, {{16, 1}, {4, 16}}, sbuf_address(0, 0),
                              {{16, 1}, {4, NEURON_SBUF_PARTITION_STRIDE}}, 0x0001);
  copy.bind[0] = {2, NEURON_BIND_BASE, 1, NEURON_BIND_ADD};
  copy.generate.limit = 64;
  load_and_run(kPool, {mov(2, 1), copy, inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kPool), NEURON_FAULT_DMA_OOB);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_INFO), 49u);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_ADDR_LO), kData + 49);
  EXPECT_EQ(sbuf_word(0, 0), kFill);
  EXPECT_EQ(notification(kErrors, 0).word >> NEURON_NW_CODE_SHIFT & 0xFF, NEURON_FAULT_DMA_OOB);
}

TEST_P(DmaGenerate, ARowBeyondTheLimitIsLeftWhenTheProgramSaysSo) {
  prepare(3, 0x0003);
  number_words(kData, 64);
  // Out of the core's memory: `to` is the dynamic side; a negative offset is outside too.
  Instruction copy = generate(kData, {{16, 1}, {4, 16}}, kData + 0x1000, {{16, 1}, {4, 16}}, 3);
  copy.bind[0] = {2, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
  copy.generate.limit = 64;
  copy.dma.skip = true;
  finish({mov(2, 0xFFFFFFF0), mov(3, 0xFFFFFFFF), copy, wait_for(2), inst(NEURON_OP_HALT)});
  EXPECT_EQ(word(kData + 0xFF0), 0u);  // row 0 lies in front of the base
  for (unsigned w = 0; w < 12; ++w) EXPECT_EQ(word(kData + 0x1000 + 4 * w), (w + 4) * 7);
  EXPECT_EQ(word(kData + 0x1030), 0u);
}

// --- rings that cannot be used ---

TEST_P(DmaGenerate, AQueueThatNobodyHasSetUpIsAFaultOfTheInstruction) {
  prepare(3, 0x0001);
  set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
  load_and_run(kPool,
               {generate(kData, {{4, 1}}, kData + 64, {{4, 1}}, 0x0021), inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kPool), NEURON_FAULT_DMA_RING);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_INFO), 5u << 8 | 3);  // DMA engine 5, queue 3
  EXPECT_EQ(notification(kErrors, 0).word >> NEURON_NW_CODE_SHIFT & 0xFF, NEURON_FAULT_DMA_RING);
}

TEST_P(DmaGenerate, AFullRingThatNobodyServesIsADeadlockThatNamesTheQueue) {
  prepare(3, 0x0001);
  // Paused by its owner: descriptors stay.
  set_core(udma(0) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 3) + NEURON_UDMAQ_CFG,
           NEURON_UDMAQ_CFG_RESET);
  load_and_run(kPool, {generate(kData, {{4, 1}, {100, 8}}, kData + 0x1000, {{4, 1}, {100, 8}}, 1),
                       inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(kPool), NEURON_STATE_WAITING);
  EXPECT_NE(chip_->describe_core(0).find("waits for room in the rings of DMA queue 3"),
            std::string::npos)
      << chip_->describe_core(0);
  // It goes on when the queue does.
  set_core(udma(0) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 3) + NEURON_UDMAQ_CFG,
           NEURON_UDMAQ_CFG_RUNNING);
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(state(kPool), NEURON_STATE_HALTED) << chip_->describe_core(0);
}

TEST_P(DmaGenerate, ARestartedProgramBeginsItsInstructionAnew) {
  prepare(3, 0x0001);
  const uint64_t cfg = udma(0) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 3) + NEURON_UDMAQ_CFG;
  set_core(cfg, NEURON_UDMAQ_CFG_RESET);
  const std::vector<Instruction> program = {
      generate(kData, {{4, 1}, {100, 8}}, kData + 0x1000, {{4, 1}, {100, 8}}, 1),
      inst(NEURON_OP_HALT)};
  load_and_run(kPool, program);
  ASSERT_EQ(state(kPool), NEURON_STATE_WAITING);
  set(kPool, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
  set_core(cfg, NEURON_UDMAQ_CFG_RUNNING);
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(semaphore(kDone), 0u);  // the first 64 rows only
  load_and_run(kPool, program);
  EXPECT_EQ(state(kPool), NEURON_STATE_HALTED) << chip_->describe_core(0);
  EXPECT_EQ(semaphore(kDone), 1u);
}

TEST_P(DmaGenerate, AFaultOfAGeneratedDescriptorNamesTheInstruction) {
  prepare(3, 0x0001);
  load_and_run(kPool, {generate(kData, {{4, 1}}, 0x123400000000, {{4, 1}}, 1), wait_for(1),
                       inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kPool), NEURON_FAULT_DMA_BUS);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_PC), 0u);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_FIELD) >> 16, NEURON_OP_DMA_GENERATE);
}

// --- compute ---

TEST_P(DmaGenerate, CastsAndScalesAndAddsToTheDestination) {
  prepare(3, 0x0003);
  for (int i = 0; i < 256; ++i) values<float>(kData, 256)[i] = static_cast<float>(i) / 4;
  Instruction cast = generate(kData, {{64, 4}, {4, 256}}, kData + 0x1000, {{64, 2}, {4, 128}}, 3);
  cast.dma.operation = NEURON_DMA_CAST;
  cast.dma.from_type = NEURON_DTYPE_F32;
  cast.dma.to_type = NEURON_DTYPE_BF16;
  Instruction fma = generate(kData + 0x1000, {{256, 2}}, kData, {{256, 4}}, 3);
  fma.dma.operation = NEURON_DMA_FMA;
  fma.dma.from_type = NEURON_DTYPE_BF16;
  fma.dma.to_type = NEURON_DTYPE_F32;
  fma.dma.accumulate = true;
  fma.generate.scale = std::bit_cast<uint32_t>(-2.0f);
  finish({cast, wait_for(2), fma, wait_for(4), inst(NEURON_OP_HALT)});
  for (int i = 0; i < 256; ++i) {
    ASSERT_EQ(values<float>(kData, 256)[i], -static_cast<float>(i) / 4) << i;
  }
}

TEST_P(DmaGenerate, TransposesMatricesLargerThanABlock) {
  prepare(3, 0x0007);
  constexpr uint32_t kRows = 150, kColumns = 128;
  for (uint32_t i = 0; i < kRows * kColumns; ++i) {
    values<uint16_t>(kData, kRows * kColumns)[i] = static_cast<uint16_t>(i * 3);
  }
  Instruction transpose =
      generate(kData, {{kColumns, 2}, {kRows, kColumns * 2}}, sbuf_address(0, 64),
               {{kRows, 2}, {kColumns, NEURON_SBUF_PARTITION_STRIDE}}, 0x0007, NEURON_DTYPE_BF16);
  transpose.dma.operation = NEURON_DMA_TRANSPOSE;
  finish({transpose, wait_for(3), inst(NEURON_OP_HALT)});
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t c = 0; c < kColumns; ++c) {
      ASSERT_EQ(sbuf_half(c, 64 + 2 * r), static_cast<uint16_t>((r * kColumns + c) * 3));
    }
  }
}

TEST_P(DmaGenerate, ResultsAreRoundedAsTheInstructionSays) {
  prepare(3, 1);
  for (int i = 0; i < 512; ++i) values<float>(kData, 512)[i] = 1.0f + 1.0f / 256;  // half a step
  Instruction cast = generate(kData, {{512, 4}}, kData + 0x1000, {{512, 2}}, 1);
  cast.dma.operation = NEURON_DMA_CAST;
  cast.dma.from_type = NEURON_DTYPE_F32;
  cast.dma.to_type = NEURON_DTYPE_BF16;
  const auto ups = [&] {
    const uint16_t* results = values<uint16_t>(kData + 0x1000, 512);
    return std::count(results, results + 512, 0x3F81);
  };
  finish({cast, wait_for(1), inst(NEURON_OP_HALT)});
  EXPECT_EQ(ups(), 0);  // to even
  cast.rounding = 2;
  finish({cast, wait_for(2), inst(NEURON_OP_HALT)});
  EXPECT_NEAR(static_cast<double>(ups()), 256, 60);
}

TEST_P(DmaGenerate, MoreRowsThanAnInstructionCanMakeAreRefusedBeforeAnyIsWritten) {
  prepare(3, 1);
  load_and_run(kPool, {generate(kData, {{4, 1}, {70000, 8}}, kData, {{4, 1}, {70000, 8}}, 1),
                       inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kPool), NEURON_FAULT_OPERAND_SHAPE);
  EXPECT_EQ(core_register(udma(0) + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, 3) + NEURON_UDMAQ_TAIL) &
                NEURON_UDMA_INDEX_MASK,
            0u);
}

// --- gather and scatter ---

class DmaIndirect : public DmaGenerate {
 protected:
  static constexpr uint32_t kIndexAt = 0x8000;
  isa::Operand index(unsigned parts) { return sbuf(parts, kIndexAt, NEURON_DTYPE_U32, 1); }
};

INSTANTIATE_TEST_SUITE_P(Generations, DmaIndirect, kGenerations);

TEST_P(DmaIndirect, GathersTheRowThatEachPartitionNames) {
  prepare(3, kAllLanes);
  number_words(kData, 1000 * 16);
  std::mt19937 random(3);
  std::vector<uint32_t> rows(128);
  for (unsigned p = 0; p < 128; ++p) set_index(p, kIndexAt, rows[p] = random() % 1000);
  // Two halves of 32 bytes each, apart in the tile.
  const isa::Operand tile_of_rows =
      tile(NEURON_SPACE_SBUF, 0, 128, 0x40, NEURON_DTYPE_F32, {8, 2}, {1, 20});
  finish({indirect(NEURON_OP_DMA_GATHER, tile_of_rows, index(128), kData, 64, 64, 1000),
          wait_for(16), inst(NEURON_OP_HALT)});
  for (unsigned p = 0; p < 128; ++p) {
    for (unsigned w = 0; w < 16; ++w) {
      ASSERT_EQ(sbuf_word(p, 0x40 + (w / 8) * 80 + (w % 8) * 4), (rows[p] * 16 + w) * 7);
    }
  }
}

TEST_P(DmaIndirect, ScattersAddsToRowsInMemory) {
  prepare(3, kAllLanes);
  auto* table = values<float>(kData, 64 * 4);
  std::iota(table, table + 64 * 4, 0.0f);
  for (unsigned p = 0; p < 32; ++p) {
    set_index(p, kIndexAt, 63 - p);
    for (unsigned w = 0; w < 4; ++w) set_sbuf(p, 4 * w, 1000.0f * static_cast<float>(p + 1));
  }
  Instruction scatter = indirect(NEURON_OP_DMA_SCATTER, sbuf(32, 0, NEURON_DTYPE_F32, 4), index(32),
                                 kData, 16, 16, 64);
  scatter.dma.operation = NEURON_DMA_ADD;
  scatter.dma.accumulate = true;
  finish({scatter, wait_for(16), inst(NEURON_OP_HALT)});
  for (unsigned row = 0; row < 64; ++row) {
    const float added = row >= 32 ? 1000.0f * static_cast<float>(64 - row) : 0;
    for (unsigned w = 0; w < 4; ++w) {
      EXPECT_EQ(table[row * 4 + w], static_cast<float>(row * 4 + w) + added);
    }
  }
}

TEST_P(DmaIndirect, AnIndexOutOfBoundsFaultsWithTheIndexFound) {
  prepare(3, 1);
  for (unsigned p = 0; p < 32; ++p) set_index(p, kIndexAt, p == 9 ? 100 : p);
  load_and_run(kPool, {indirect(NEURON_OP_DMA_GATHER, sbuf(32, 0, NEURON_DTYPE_F32, 4), index(32),
                                kData, 16, 16, 100, 1),
                       inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kPool), NEURON_FAULT_DMA_OOB);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_INFO), 100u);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_FIELD) & 0xFF, NEURON_DMA_INDIRECT_ROWS);
  EXPECT_EQ(sbuf_word(0, 0), kFill);  // nothing of it has happened
}

TEST_P(DmaIndirect, AnIndexOutOfBoundsLeavesItsRowWhenTheProgramSaysSo) {
  prepare(3, 3);
  number_words(kData, 400);
  for (unsigned p = 0; p < 32; ++p) {
    set_index(p, kIndexAt, p % 2 != 0 ? 0xFFFFFFFF : p);
    set_sbuf(p, 0, -1.0f);
  }
  Instruction gather = indirect(NEURON_OP_DMA_GATHER, sbuf(32, 0, NEURON_DTYPE_F32, 1), index(32),
                                kData, 4, 16, 100, 3);
  gather.dma.skip = true;
  finish({gather, wait_for(2), inst(NEURON_OP_HALT)});
  for (unsigned p = 0; p < 32; ++p) {
    EXPECT_EQ(sbuf_word(p, 0), p % 2 != 0 ? std::bit_cast<uint32_t>(-1.0f) : p * 4 * 7);
  }
}

TEST_P(DmaIndirect, ATransposingGatherMakesRowsColumns) {
  prepare(3, 0x0F);
  for (uint32_t i = 0; i < 500 * 96; ++i) {
    values<uint16_t>(kData, 500 * 96)[i] = static_cast<uint16_t>(i);
  }
  std::vector<uint32_t> rows(80);
  for (unsigned p = 0; p < 80; ++p) set_index(p, kIndexAt, rows[p] = (p * 37) % 500);
  isa::Operand turned = sbuf(96, 0, NEURON_DTYPE_BF16, 80);
  Instruction gather =
      indirect(NEURON_OP_DMA_GATHER, turned, index(80), kData, 96 * 2, 96 * 2, 500, 0x0F);
  gather.dma.operation = NEURON_DMA_TRANSPOSE;
  finish({gather, wait_for(4), inst(NEURON_OP_HALT)});
  for (unsigned c = 0; c < 96; ++c) {
    for (unsigned p = 0; p < 80; ++p) {
      ASSERT_EQ(sbuf_half(c, 2 * p), static_cast<uint16_t>(rows[p] * 96 + c));
    }
  }
}

TEST_P(DmaIndirect, ATransposingGatherLeavesColumnsOfIndicesThatAreOutOfBounds) {
  prepare(3, 3);
  for (uint32_t i = 0; i < 10 * 32; ++i) values<uint16_t>(kData, 320)[i] = static_cast<uint16_t>(i);
  for (unsigned p = 0; p < 8; ++p) set_index(p, kIndexAt, p == 3 ? 10 : p);
  for (unsigned c = 0; c < 32; ++c) {
    for (uint32_t at = 0; at < 16; at += 4) set_index(c, at, 0x77777777);
  }
  Instruction gather = indirect(NEURON_OP_DMA_GATHER, sbuf(32, 0, NEURON_DTYPE_BF16, 8), index(8),
                                kData, 64, 64, 10, 3);
  gather.dma.operation = NEURON_DMA_TRANSPOSE;
  gather.dma.skip = true;
  finish({gather, wait_for(2), inst(NEURON_OP_HALT)});
  for (unsigned c = 0; c < 32; ++c) {
    for (unsigned p = 0; p < 8; ++p) {
      ASSERT_EQ(sbuf_half(c, 2 * p), p == 3 ? 0x7777 : p * 32 + c);
    }
  }
}

TEST_P(DmaIndirect, EqualRowsOfAScatterAreBothAdded) {
  prepare(3, kAllLanes);
  values<float>(kData, 1)[0] = 1;
  for (unsigned p = 0; p < 32; ++p) {
    set_index(p, kIndexAt, 0);
    set_sbuf(p, 0, 2.0f);
  }
  Instruction scatter =
      indirect(NEURON_OP_DMA_SCATTER, sbuf(32, 0, NEURON_DTYPE_F32, 1), index(32), kData, 4, 4, 1);
  scatter.dma.operation = NEURON_DMA_ADD;
  scatter.dma.accumulate = true;
  finish({scatter, wait_for(16), inst(NEURON_OP_HALT)});
  EXPECT_EQ(values<float>(kData, 1)[0], 65.0f);
}

TEST_P(DmaIndirect, TheTableOfRowsMovesByARegister) {
  prepare(3, 1);
  number_words(kData, 400);
  for (unsigned p = 0; p < 32; ++p) set_index(p, kIndexAt, p);
  Instruction gather = indirect(NEURON_OP_DMA_GATHER, sbuf(32, 0, NEURON_DTYPE_F32, 1), index(32),
                                kData, 4, 4, 32, 1);
  gather.bind[0] = {8, NEURON_BIND_BASE, 2, NEURON_BIND_ADD};
  finish({mov(8, 400), gather, wait_for(1), inst(NEURON_OP_HALT)});
  for (unsigned p = 0; p < 32; ++p) EXPECT_EQ(sbuf_word(p, 0), (100 + p) * 7);
}

TEST_P(DmaGenerate, GeneratedTransfersTakeModelTimeThatDoesNotDependOnTheHost) {
  std::vector<uint64_t> times;
  for (int round = 0; round < 3; ++round) {
    prepare(3, kAllLanes);
    load_and_run(kPool, {generate(kData, {{512, 1}, {128, 512}}, sbuf_address(0, 0),
                                  {{512, 1}, {128, NEURON_SBUF_PARTITION_STRIDE}}),
                         wait_for(16 * (1 + round)), inst(NEURON_OP_HALT)});
    ASSERT_EQ(state(kPool), NEURON_STATE_HALTED);
    times.push_back(time());
  }
  EXPECT_EQ(times[1], times[2]);
  EXPECT_GT(times[1], 600'000u + 1'300'000u);  // generation, then a DMA's start
  EXPECT_LT(times[1], 6'000'000u);
}

}  // namespace
}  // namespace neuron::core
