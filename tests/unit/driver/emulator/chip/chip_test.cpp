// SPDX-License-Identifier: Apache-2.0
// The chip as a driver sees it: BAR0, BAR4 and host memory.
#include "driver/emulator/chip/chip.h"

#include <gtest/gtest.h>

#include <thread>

#include "driver/emulator/neuroncore/chip_factory.h"
#include "hw/control.h"
#include "hw/isa.h"
#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

using Clock = std::chrono::steady_clock;

// Where the blocks of a generation lie, from hw/address_map.h alone.
struct Map {
  const char* name;
  uint16_t pci_device;
  unsigned cores, topsps, engines, first_host_engine, cores_per_host_engine;
  uint64_t bar0, hole, misc_ram, simulation_reset, host, second_hbm, stack_bytes;
  uint64_t (*core)(unsigned);
  uint64_t (*core_device)(unsigned);
  uint64_t (*core_notification)(unsigned);
  uint64_t (*pe_counters)(unsigned);
  uint64_t (*topsp)(unsigned);
  uint64_t (*udma)(unsigned);
  uint64_t (*sdma)(unsigned);
  uint32_t (*reset_map)(unsigned core);
  uint64_t hole_device;
};

// Generations 3 and 4 differ in the size of a stack.
Map on_two_dies(const char* name, uint16_t pci_device, uint64_t stack_bytes) {
  return {name,
          pci_device,
          8,
          16,
          132,
          128,
          2,
          0x100000000,
          0x30000000,
          0x06C84000,
          0x06300010,
          uint64_t{1} << 46,
          0x4000000000,
          stack_bytes,
          [](unsigned i) -> uint64_t { return NEURON_V3_CORE_WINDOW(i); },
          [](unsigned i) -> uint64_t { return NEURON_V3_CORE_DEVICE(uint64_t{i}); },
          [](unsigned i) -> uint64_t { return NEURON_V3_CORE_NOTIFICATION(i); },
          [](unsigned i) -> uint64_t {
            constexpr uint64_t kOfDie[] = {0x06141000, 0x062C1000, 0x06541000, 0x066C1000};
            return kOfDie[i % 4] + i / 4 * uint64_t{0x40000000};
          },
          [](unsigned i) -> uint64_t { return NEURON_V3_TOPSP_WINDOW(i); },
          [](unsigned i) -> uint64_t { return NEURON_V3_UDMA(i); },
          [](unsigned i) -> uint64_t { return NEURON_V3_SDMA(i); },
          [](unsigned i) { return 0x10101u << i; },
          0x30000004};
}

const Map kMaps[] = {
    {"Trn1",
     NEURON_PCI_DEVICE_TRN1,
     2,
     6,
     34,
     32,
     1,
     0x40000000,
     0x3F000000,
     0x30FA0000,
     0x30647010,
     uint64_t{1} << 44,
     0x1000000000,
     0x400000000,
     [](unsigned i) -> uint64_t { return NEURON_V2_CORE_WINDOW(i); },
     [](unsigned i) -> uint64_t { return 0xFFFC0000000 + NEURON_V2_CORE_WINDOW(i); },
     [](unsigned i) -> uint64_t { return NEURON_V2_CORE_NOTIFICATION(i); },
     [](unsigned i) -> uint64_t { return NEURON_V2_CORE_PE_COUNTERS(i); },
     [](unsigned i) -> uint64_t { return NEURON_V2_TOPSP_WINDOW(i); },
     [](unsigned i) -> uint64_t { return NEURON_V2_UDMA(i); },
     [](unsigned i) -> uint64_t { return NEURON_V2_SDMA(i); },
     [](unsigned i) { return 1u << i | 7u << (8 + 3 * i); },
     0xFFFC0000000 + 0x3F000004},
    on_two_dies("Trn2", NEURON_PCI_DEVICE_TRN2, 0x600000000),
    on_two_dies("Trn3", NEURON_PCI_DEVICE_TRN3, 0x900000000),
};

class ChipTest : public testing::TestWithParam<Map> {
 protected:
  static constexpr uint64_t kErrorRing = 0x2000000;
  static constexpr uint32_t kErrorEntries = 64;
  static constexpr unsigned kSp = NEURON_ENGINE_SP;

  void build(ChipConfig config = {}) {
    config.routing_id = 6;
    config.pci_device = map.pci_device;
    std::string error;
    chip = core::create_chip(config, host, error);
    ASSERT_NE(chip, nullptr) << error;
  }
  void SetUp() override { build(); }

  void write(uint64_t offset, uint32_t value, bool inline_run = false) {
    chip->write_register(offset, value, inline_run);
  }
  uint32_t read(uint64_t offset) { return chip->read_register(offset); }
  uint64_t semaphore(unsigned core, uint64_t alias, unsigned index) {
    return map.core(core) + NEURON_CORE_SEMAPHORES + alias + 4 * index;
  }

  // Error rings of both cores; errors() counts what arrived since.
  void watch_errors() {
    for (unsigned core = 0; core < map.cores; ++core) {
      const uint64_t queue = map.core_notification(core) + NEURON_NQ_BASE(NEURON_NQ_SLOT_ERROR);
      write(queue + NEURON_NQ_ADDRESS_HI, 0);
      write(queue + NEURON_NQ_ADDRESS_LO, static_cast<uint32_t>(kErrorRing + 0x10000 * core));
      write(queue + NEURON_NQ_SIZE, kErrorEntries * NEURON_NOTIFICATION_BYTES);
    }
  }
  uint32_t errors(unsigned core) {
    return read(map.core_notification(core) + NEURON_NQ_BASE(NEURON_NQ_SLOT_ERROR) +
                NEURON_NQ_TAIL);
  }
  neuron_notification error(unsigned core, unsigned index) {
    neuron_notification entry;
    std::memcpy(
        &entry,
        chip->hbm().direct(kErrorRing + 0x10000 * core + index * sizeof entry, sizeof entry),
        sizeof entry);
    return entry;
  }

  // Registers of a v2 engine in the public driver's order.
  void init_engine(unsigned engine, uint32_t queue_config) {
    const uint64_t unit = map.udma(engine);
    const uint64_t wrapper = map.sdma(engine);
    if (engine < 32 && map.cores == 2) {
      write(wrapper + 0x100, 0xFFFF);
      write(wrapper + 0x104, 0xFFFF);
    }
    for (unsigned q = 0; q < NEURON_DMA_QUEUES; ++q) {
      write(unit + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, q) + NEURON_UDMAQ_CFG, queue_config);
      write(unit + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, q) + NEURON_UDMAQ_CFG, queue_config);
    }
    const std::pair<uint32_t, uint32_t> defaults[] = {
        {0x310, 0x01000400},   {0x124, 0x0000086F},   {0x3A300, 0x05F5E100}, {0x408, 0},
        {0x254, 0x010FFFFF},   {0x258, 0x102},        {0x118, 0x00010008},   {0x2038C, 0},
        {0x20124, 0x00400008}, {0x20128, 0x40804080}, {0x20380, 0x1004},     {0x304, 0x00010041},
        {0x308, 0x4181},       {0x20308, 0x4181},     {0x11C, 0x00010008},   {0x2011C, 0x00010008},
        {0x3A300, 0xFFFFFFFF},
    };
    for (const auto& [offset, value] : defaults) write(unit + offset, value);
    for (unsigned q = 0; q < NEURON_DMA_QUEUES; ++q) {
      for (unsigned word = 0; word < 4; ++word) {
        write(unit + 0x3C400 + 0x40 * q + 4 * word, 0xFFFFFFFF);
      }
    }
    write(unit + 0x3B460, read(unit + 0x3B460) & ~1u);
    for (unsigned group = 0; group < 4; ++group) write(unit + 0x38000 + 0x40 * group, 0xFF);
    for (unsigned group = 0; group < 3; ++group) write(unit + 0x3A000 + 0x40 * group, 0xFF);
    for (unsigned table = 0; table < 7; ++table) {
      write(unit + 0x3A900 + 0x40 * table, 1);
      write(unit + 0x3AB00 + 8 * table, table);
      write(unit + 0x3AB04 + 8 * table, 0);
    }
    for (const uint32_t path : {0x3AD00u, 0x3AE00u, 0x3AF00u, 0x3B000u, 0x3B100u, 0x3B200u}) {
      write(unit + path, 0);
    }
    write(wrapper + 0x1C, 1);
    write(wrapper + 0x20, 1);
    write(wrapper + 0x00, 1);
    if (map.cores == 2) return;
    write(wrapper + 0x800, 0x26);
    if (engine >= 128) return;
    write(NEURON_V3_FIS(engine) + 0x90, read(NEURON_V3_FIS(engine) + 0x90) | 1u << 11);
    write(NEURON_V3_FIS(engine) + 0xD0, read(NEURON_V3_FIS(engine) + 0xD0) | 1u << 2);
  }
  void init_queue(unsigned engine, unsigned queue, uint32_t length, uint64_t m2s, uint64_t s2m) {
    for (const bool half : {false, true}) {
      const uint64_t q =
          map.udma(engine) + NEURON_UDMA_QUEUE(half ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, queue);
      const uint64_t ring = half ? s2m : m2s;
      if (!half) write(q + NEURON_UDMAQ_M2S_RATE_LIMIT, 3);
      write(q + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RESET);
      write(q + (half ? NEURON_UDMAQ_S2M_SW_CONTROL : NEURON_UDMAQ_M2S_SW_CONTROL),
            NEURON_UDMAQ_SW_RESET);
      write(q + NEURON_UDMAQ_BASE_LO, static_cast<uint32_t>(ring));
      write(q + NEURON_UDMAQ_BASE_HI, static_cast<uint32_t>(ring >> 32));
      write(q + NEURON_UDMAQ_LENGTH, length);
      write(q + (half ? NEURON_UDMAQ_S2M_CMPL_CFG : NEURON_UDMAQ_M2S_CMPL_CFG), 0);
      write(q + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING);
    }
  }
  // One copy through queue 0 of an engine with rings at 16 and 17 MiB.
  void copy(unsigned engine, uint64_t from, uint64_t to, uint32_t bytes) {
    init_queue(engine, 0, 64, 0x1000000, 0x1100000);
    const uint32_t m2s[] = {bytes | 1u << 24 | NEURON_DESC_FIRST | NEURON_DESC_LAST,
                            NEURON_META_DEFAULT, static_cast<uint32_t>(from),
                            static_cast<uint32_t>(from >> 32)};
    const uint32_t s2m[] = {bytes | 1u << 24, 0, static_cast<uint32_t>(to),
                            static_cast<uint32_t>(to >> 32)};
    std::memcpy(chip->hbm().direct(0x1000000, 16), m2s, 16);
    std::memcpy(chip->hbm().direct(0x1100000, 16), s2m, 16);
    const uint64_t unit = map.udma(engine);
    write(unit + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, 0) + NEURON_UDMAQ_TAIL_INC, 1);
    write(unit + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 0) + NEURON_UDMAQ_TAIL_INC, 1);
  }

  // SP of core 0 runs `event wait(semaphore 7 >= 1)`, then halts.
  void start_program() {
    const uint32_t head = 1u << NEURON_HEAD_ISA_SHIFT | 1u << (NEURON_HEAD_ENGINES_SHIFT + kSp);
    uint32_t code[2][32] = {};
    code[0][0] = head | NEURON_OP_EVENT;
    code[0][2] = NEURON_SEM_LAUNCH | NEURON_WAIT_GE << 8 | 1u << 16;
    code[1][0] = head | NEURON_OP_HALT;
    std::memcpy(chip->hbm().direct(0x3000000, sizeof code), code, sizeof code);
    write(block(NEURON_ENG_PROG_LO), 0x3000000);
    write(block(NEURON_ENG_PROG_COUNT), 2);
    write(block(NEURON_ENG_CONTROL), NEURON_CMD_START, true);
    ASSERT_EQ(chip->run_group(0, Clock::now() + std::chrono::seconds(5)), RunResult::kQuiescent);
    ASSERT_EQ(state(), static_cast<uint32_t>(NEURON_STATE_WAITING));
  }
  uint64_t block(uint32_t reg) { return map.core(0) + NEURON_CORE_ENGINE(kSp) + reg; }
  uint32_t state() { return read(block(NEURON_ENG_STATUS)) & 15; }

  const Map& map = GetParam();
  TestHost host;
  std::unique_ptr<Chip> chip;
};

TEST_P(ChipTest, AcceptsTheProbeOfThePublicDriverWithoutAnError) {
  EXPECT_EQ(read(map.misc_ram + NEURON_FW_ROUTING_ID), 6u);
  write(map.misc_ram + NEURON_FW_RESET, 1);
  write(map.misc_ram + NEURON_FW_TRIGGER, 1);
  EXPECT_EQ(read(map.misc_ram + NEURON_FW_RESET), 0u);
  EXPECT_EQ(read(map.misc_ram + NEURON_FW_STATUS) & 8, 0u);
  watch_errors();
  for (unsigned engine = 0; engine < map.engines; ++engine) {
    init_engine(engine, 0x00030000);
    if (engine < map.first_host_engine) continue;
    for (unsigned queue = 0; queue < map.cores_per_host_engine; ++queue) {
      init_queue(engine, queue, 0x2000, 0x1000000, 0x1100000);
    }
  }
  for (unsigned core = 0; core < map.cores; ++core) {
    EXPECT_EQ(read(map.pe_counters(core) + 0x100), 0u);
    EXPECT_EQ(errors(core), 0u);
  }
  const uint64_t queue = map.udma(map.first_host_engine) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 0);
  EXPECT_EQ(read(queue + NEURON_UDMAQ_LENGTH), 0x2000u);
  EXPECT_EQ(read(map.udma(5) + 0x254), 0x010FFFFFu);
}

TEST_P(ChipTest, CopiesFromHostToHbmThroughItsHostEngine) {
  std::byte* memory = host.add(0x4000, 0x1000);
  for (int i = 0; i < 0x1000; ++i) memory[i] = std::byte(i * 7);
  copy(map.first_host_engine + 1, map.host + 0x4000, map.second_hbm + 0x5000000, 0x1000);
  EXPECT_EQ(std::memcmp(memory, chip->hbm().direct(map.second_hbm + 0x5000000, 0x1000), 0x1000), 0);
}

// Of rings of clients nobody knows how long whoever rang waits.
TEST_P(ChipTest, RefusesWhatComesTooLateOnTheHostsOwnEnginesAlone) {
  chip.reset();
  ChipConfig config;
  config.patience = {.descriptor_ns = 1};  // nothing is as quick as that
  build(config);
  watch_errors();
  std::byte* memory = host.add(0x4000, 0x1000);
  *chip->hbm().direct(0x5000000, 1) = std::byte{7};
  copy(map.first_host_engine + 1, 0x5000000, map.host + 0x4000, 0x1000);
  EXPECT_EQ(*memory, std::byte{0});
  const uint64_t state = map.udma(map.first_host_engine + 1) + NEURON_UDMA_STATE;
  EXPECT_EQ(read(state), static_cast<uint32_t>(NEURON_UDMA_STATE_ABORT));
  for (unsigned core = 0; core < map.cores; ++core) {
    EXPECT_EQ(errors(core), 0u) << "a notification would be written too late as well";
  }
  copy(1, 0x5000000, map.host + 0x4000, 0x1000);
  EXPECT_EQ(*memory, std::byte{7});
}

TEST_P(ChipTest, ReadsAllOnesWhereNothingIsAndNotifies) {
  watch_errors();
  EXPECT_EQ(read(map.hole), 0xFFFFFFFFu);
  write(map.hole + 4, 1);
  EXPECT_EQ(read(map.bar0), 0xFFFFFFFFu);
  EXPECT_EQ(errors(0), 3u);
  const neuron_notification entry = error(0, 1);
  EXPECT_EQ(entry.word >> NEURON_NW_CODE_SHIFT & 0xFF, static_cast<uint32_t>(NEURON_FAULT_BUS));
  EXPECT_EQ(entry.info[0] | uint64_t{entry.info[1]} << 32, map.hole_device);
}

TEST_P(ChipTest, NotifiesADmaErrorToTheOwningCore) {
  watch_errors();
  copy(17, 0xA00000000, 0x5000000, 64);  // between the stacks
  EXPECT_EQ(errors(0), 0u);
  ASSERT_EQ(errors(1), 1u);
  EXPECT_EQ(error(1, 0).info[0], 17u << 8);
  EXPECT_EQ(error(1, 0).word >> NEURON_NW_CODE_SHIFT & 0xFF,
            static_cast<uint32_t>(NEURON_FAULT_DMA_BUS));
}

TEST_P(ChipTest, HasSemaphoresInCoresAndTopsps) {
  watch_errors();
  write(semaphore(1, NEURON_SEM_BLOCK_INC, 100), 3);
  EXPECT_EQ(read(semaphore(1, NEURON_SEM_BLOCK_READ, 100)), 3u);
  EXPECT_EQ(read(semaphore(0, NEURON_SEM_BLOCK_READ, 100)), 0u);
  for (unsigned i = 0; i < map.topsps; ++i) {
    const uint64_t window = map.topsp(i);
    write(window + NEURON_SEM_BLOCK_SET + 4 * i, 10 + i);
    EXPECT_EQ(read(window + NEURON_SEM_BLOCK_READ + 4 * i), 10 + i);
  }
  EXPECT_EQ(errors(0) + errors(1), 0u);
}

TEST_P(ChipTest, RunsAGroupInlineWhereTheCallerPromisedTo) {
  start_program();
  write(semaphore(0, NEURON_SEM_BLOCK_INC, NEURON_SEM_LAUNCH), 1, true);
  EXPECT_EQ(chip->run_group(0, Clock::now() + std::chrono::seconds(5)), RunResult::kQuiescent);
  EXPECT_EQ(state(), static_cast<uint32_t>(NEURON_STATE_HALTED));
}

TEST_P(ChipTest, RunsAGroupInAWorkerWhereNobodyPromised) {
  start_program();
  write(semaphore(0, NEURON_SEM_BLOCK_INC, NEURON_SEM_LAUNCH), 1);
  const auto limit = Clock::now() + std::chrono::seconds(10);
  while (state() != NEURON_STATE_HALTED && Clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(state(), static_cast<uint32_t>(NEURON_STATE_HALTED));
}

TEST_P(ChipTest, RunsAGroupThatADescriptorHasWoken) {
  start_program();
  const uint32_t one = 1;
  std::memcpy(chip->hbm().direct(0x5000000, 4), &one, 4);
  copy(map.first_host_engine, 0x5000000,
       map.core_device(0) + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * NEURON_SEM_LAUNCH,
       4);
  const auto limit = Clock::now() + std::chrono::seconds(10);
  while (state() != NEURON_STATE_HALTED && Clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(state(), static_cast<uint32_t>(NEURON_STATE_HALTED));
}

TEST_P(ChipTest, ResetsTheCoresOfTheMapAndNothingElse) {
  watch_errors();
  start_program();
  init_queue(0, 3, 64, 0x1000000, 0x1100000);
  init_queue(16, 3, 64, 0x1000000, 0x1100000);
  init_queue(map.first_host_engine, 0, 64, 0x1000000, 0x1100000);
  write(semaphore(0, NEURON_SEM_BLOCK_SET, 50), 5);
  write(semaphore(1, NEURON_SEM_BLOCK_SET, 50), 6);
  write(map.topsp(map.topsps / map.cores - 1) + NEURON_SEM_BLOCK_SET, 7);
  write(map.topsp(map.topsps / map.cores) + NEURON_SEM_BLOCK_SET, 8);
  *chip->hbm().direct(0x5000000, 1) = std::byte{9};
  write(map.misc_ram + NEURON_FW_RESET_MAP, map.reset_map(0));
  write(map.misc_ram + NEURON_FW_RESET, 2);
  write(map.misc_ram + NEURON_FW_TRIGGER, 1);
  const auto length = [&](unsigned engine, unsigned queue) {
    return read(map.udma(engine) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, queue) + NEURON_UDMAQ_LENGTH);
  };
  EXPECT_EQ(state(), static_cast<uint32_t>(NEURON_STATE_IDLE));
  EXPECT_EQ(read(semaphore(0, NEURON_SEM_BLOCK_READ, 50)), 0u);
  EXPECT_EQ(read(semaphore(1, NEURON_SEM_BLOCK_READ, 50)), 6u);
  EXPECT_EQ(read(map.topsp(map.topsps / map.cores - 1) + NEURON_SEM_BLOCK_READ), 0u);
  EXPECT_EQ(read(map.topsp(map.topsps / map.cores) + NEURON_SEM_BLOCK_READ), 8u);
  EXPECT_EQ(length(0, 3), 0u);
  EXPECT_EQ(length(16, 3), 64u);
  EXPECT_EQ(length(map.first_host_engine, 0),
            64u);  // the driver's own ring serves others meanwhile
  const uint64_t size = NEURON_NQ_BASE(NEURON_NQ_SLOT_ERROR) + NEURON_NQ_SIZE;
  EXPECT_EQ(read(map.core_notification(0) + size), 0u);
  EXPECT_NE(read(map.core_notification(1) + size), 0u);
  EXPECT_EQ(*chip->hbm().direct(0x5000000, 1), std::byte{9});
}

TEST_P(ChipTest, ResetOfTheWholeDeviceIncludesTheHostsRings) {
  init_queue(map.first_host_engine, 0, 64, 0x1000000, 0x1100000);
  write(semaphore(1, NEURON_SEM_BLOCK_SET, 50), 6);
  chip->reset(0);
  EXPECT_EQ(read(map.udma(map.first_host_engine) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 0) +
                 NEURON_UDMAQ_LENGTH),
            0u);
  EXPECT_EQ(read(semaphore(1, NEURON_SEM_BLOCK_READ, 50)), 0u);
}

TEST_P(ChipTest, OfRevision255ResetsThroughTheSimulationRegister) {
  write(map.simulation_reset, 1);  // an ordinary chip has no such register
  EXPECT_EQ(read(map.simulation_reset), 0xFFFFFFFFu);
  ChipConfig config;
  config.revision = NEURON_PCI_REVISION_QEMU;
  build(config);
  write(semaphore(0, NEURON_SEM_BLOCK_SET, 50), 6);
  write(map.simulation_reset, 1);
  EXPECT_EQ(read(map.simulation_reset), 0u);
  EXPECT_EQ(read(semaphore(0, NEURON_SEM_BLOCK_READ, 50)), 0u);
}

TEST_P(ChipTest, WithOneCoreHasNoWindowOfTheSecond) {
  ChipConfig config;
  config.cores = 1;
  build(config);
  EXPECT_EQ(read(semaphore(1, NEURON_SEM_BLOCK_READ, 0)), 0xFFFFFFFFu);
  EXPECT_EQ(chip->run_group(1, Clock::now()), RunResult::kQuiescent);
  EXPECT_NE(chip->describe_core(1).find("has no core 1"), std::string::npos);
  EXPECT_FALSE(chip->describe_core(0).empty());
}

TEST_P(ChipTest, IsNotBuiltWithCoresThatItsGenerationDoesNotHave) {
  ChipConfig config;
  config.cores = map.cores + 1;
  config.pci_device = map.pci_device;
  std::string error;
  EXPECT_EQ(core::create_chip(config, host, error), nullptr);
  EXPECT_NE(error.find("not " + std::to_string(map.cores + 1)), std::string::npos);
}

TEST_P(ChipTest, RunsEveryCoreOnItsOwn) {
  for (unsigned core = 0; core < map.cores; ++core) {
    write(semaphore(core, NEURON_SEM_BLOCK_SET, 60), 20 + core);
    EXPECT_EQ(read(map.core(core) + NEURON_CORE_CONTROL + NEURON_CORE_ID) & 0xFF, core);
  }
  for (unsigned core = 0; core < map.cores; ++core) {
    uint32_t value = 0;
    ASSERT_TRUE(chip->bus().read32(
        map.core_device(core) + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_READ + 4 * 60, value,
        Access{}));
    EXPECT_EQ(value, 20 + core);
  }
}

TEST_P(ChipTest, ShowsItsStacksInBar4WhereTheDriverLooksForThem) {
  const std::vector<MemoryPiece> pieces = chip->bar4();
  ASSERT_EQ(pieces.size(), map.cores == 2 ? 2u : 4u);
  EXPECT_EQ(pieces[1].bar4, map.cores == 2 ? 0x400000000u : 0x1000000000u);
  EXPECT_EQ(pieces[1].bytes, map.stack_bytes);
  EXPECT_EQ(pieces[1].file, chip->hbm().file_offset(map.second_hbm));
}

INSTANTIATE_TEST_SUITE_P(Generations, ChipTest, testing::ValuesIn(kMaps),
                         [](const auto& info) { return std::string(info.param.name); });

// What generation 3 alone has.
class Trn2Chip : public testing::Test {
 protected:
  void SetUp() override { build(1, 0); }
  void build(uint8_t revision, uint64_t hbm) {
    ChipConfig config;
    config.pci_device = NEURON_PCI_DEVICE_TRN2;
    config.revision = revision;
    config.hbm_bytes_each = hbm;
    std::string error;
    chip = core::create_chip(config, host, error);
    ASSERT_NE(chip, nullptr) << error;
  }
  TestHost host;
  std::unique_ptr<Chip> chip;
};

TEST_F(Trn2Chip, TakesAMapOrZeroInTheSimulationRegister) {
  build(NEURON_PCI_REVISION_QEMU, 1u << 30);
  const auto cell = [](unsigned core, uint64_t alias) {
    return NEURON_V3_CORE_WINDOW(core) + NEURON_CORE_SEMAPHORES + alias;
  };
  for (const unsigned core : {3u, 4u}) chip->write_register(cell(core, NEURON_SEM_BLOCK_SET), 5);
  chip->write_register(NEURON_V3_SIM_RESET, 0x10101u << 3);
  EXPECT_EQ(chip->read_register(NEURON_V3_SIM_RESET), 0u);
  EXPECT_EQ(chip->read_register(cell(3, NEURON_SEM_BLOCK_READ)), 0u);
  EXPECT_EQ(chip->read_register(cell(4, NEURON_SEM_BLOCK_READ)), 5u);
  chip->write_register(NEURON_V3_SIM_RESET, 0);
  EXPECT_EQ(chip->read_register(cell(4, NEURON_SEM_BLOCK_READ)), 0u);
  EXPECT_EQ(chip->bar4()[3].bar4, 3u << 30) << "a quarter of the BAR for each stack";
}

TEST_F(Trn2Chip, HasMemoryOnBothDiesAndTheHostBetweenThem) {
  for (unsigned stack = 0; stack < 4; ++stack) {
    const uint64_t base = NEURON_V3_HBM_BASE(uint64_t{stack});
    EXPECT_EQ(chip->bus().direct(base + 0x5FFFFFFFF, 1), chip->hbm().direct(base + 0x5FFFFFFFF, 1));
    EXPECT_NE(chip->bus().direct(base, 1), nullptr);
    EXPECT_EQ(chip->bus().direct(base + 0x600000000, 1), nullptr) << "behind the 24 GiB";
  }
  std::byte* memory = host.add(0x4000, 64);
  EXPECT_EQ(chip->bus().direct(NEURON_V3_HOST_BASE + 0x4000, 64), memory);
  EXPECT_EQ(chip->bus().direct(NEURON_V3_HOST_BASE + NEURON_V3_DIE_BIT + 0x4000, 64), nullptr);
}

TEST(Trn3Chip, HasStacksOf36GibibytesInTheMapOfTrn2) {
  TestHost host;
  ChipConfig config;
  config.pci_device = NEURON_PCI_DEVICE_TRN3_SECOND;
  std::string error;
  const std::unique_ptr<Chip> chip = core::create_chip(config, host, error);
  ASSERT_NE(chip, nullptr) << error;
  for (unsigned stack = 0; stack < 4; ++stack) {
    const uint64_t base = NEURON_V3_HBM_BASE(uint64_t{stack});
    EXPECT_NE(chip->bus().direct(base + 0x8FFFFFFFF, 1), nullptr);
    EXPECT_EQ(chip->bus().direct(base + 0x900000000, 1), nullptr) << "behind the 36 GiB";
    EXPECT_EQ(chip->bar4()[stack].bar4, stack * (uint64_t{64} << 30));
    EXPECT_EQ(chip->bar4()[stack].bytes, uint64_t{36} << 30);
  }
}

TEST_F(Trn2Chip, ReachesEveryBlockByItsDeviceAddressToo) {
  // TOPSP 9 is number 1 of the second die; engine 100 belongs to its second SENG.
  chip->write_register(NEURON_V3_TOPSP_WINDOW(9) + NEURON_SEM_BLOCK_SET, 11);
  uint32_t value = 0;
  EXPECT_TRUE(chip->bus().read32(0x8082C0000000 + NEURON_SEM_BLOCK_READ, value, Access{}));
  EXPECT_EQ(value, 11u);
  chip->write_register(NEURON_V3_UDMA(100) + 0x254, 0x010FFFFF);
  EXPECT_TRUE(chip->bus().read32(0x805000000000 + 0x04400000 + 0x254, value, Access{}));
  EXPECT_EQ(value, 0x010FFFFFu);
  EXPECT_STREQ(chip->bus().name_of(0x805000000000 + 0x04400000), "DMA engine 100");
  EXPECT_TRUE(chip->layout().is_register(0x805000000000));
  EXPECT_FALSE(chip->layout().is_register(0x804000000000));
  EXPECT_FALSE(chip->layout().is_register(0x807000000000)) << "SBUF of core 7";
  EXPECT_TRUE(chip->layout().is_core(0x807000000000));
  EXPECT_TRUE(chip->layout().is_register(0x807000000000 + NEURON_CORE_SEMAPHORES));
}

}  // namespace
}  // namespace neuron::chip
