// SPDX-License-Identifier: Apache-2.0
// Several threads at both cores of a chip: launches, copies, semaphores, register reads, resets.
// Meant for the thread sanitizer too.
#include <thread>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kThreadPatience{20};
constexpr uint64_t kDevice = NEURON_V2_BAR0_DEVICE_BASE;
constexpr chip::Access kHostDma{chip::Origin::kDma, 0, NEURON_ENGINE_DMA, 0};

Clock::time_point soon(int milliseconds = 5000) {
  return Clock::now() + std::chrono::milliseconds(milliseconds);
}

uint64_t engine_register(unsigned core, unsigned engine, uint32_t at) {
  return NEURON_V2_CORE_WINDOW(core) + NEURON_CORE_ENGINE(engine) + at;
}
uint64_t semaphore_cell(unsigned core, uint64_t alias, unsigned index) {
  return NEURON_V2_CORE_WINDOW(core) + NEURON_CORE_SEMAPHORES + alias + 4 * index;
}

class Threads : public CoreMachine {
 protected:
  void start(unsigned core, const std::vector<Instruction>& program) {
    const uint64_t code = kCode + 0x80000 * core;
    for (size_t n = 0; n < program.size(); ++n) {
      isa::encode(program[n],
                  isa::MutableBytes(memory(code + n * NEURON_INSTRUCTION_BYTES, 128), 128));
    }
    start_again(core, program.size());
  }
  void start_again(unsigned core, size_t instructions) {
    const std::pair<uint32_t, uint64_t> values[] = {
        {NEURON_ENG_PROG_LO, kCode + 0x80000 * core},
        {NEURON_ENG_PROG_COUNT, instructions},
        {NEURON_ENG_DONE_LO, kDone + done(core) * 64},
        {NEURON_ENG_CONTROL, NEURON_CMD_START},
    };
    for (const auto& [at, value] : values) {
      set_core(engine_register(core, kSp, at), static_cast<uint32_t>(value));
    }
  }
  static unsigned done(unsigned core) { return 8 + core; }
  static std::vector<Instruction> launched() {
    Instruction wait = inst(NEURON_OP_EVENT);
    wait.wait[0] = wait_ge(NEURON_SEM_LAUNCH, 1);
    wait.update[0] = update(NEURON_UPDATE_SUB, NEURON_SEM_LAUNCH, false, 1);
    return {wait, loop(1, 0, 20, 1, 1), inst(NEURON_OP_NOP), inst(NEURON_OP_COMPLETE), branch(-4)};
  }
  void launch(unsigned core, bool inline_run) {
    chip_->write_register(semaphore_cell(core, NEURON_SEM_BLOCK_INC, NEURON_SEM_LAUNCH), 1,
                          inline_run);
  }
  bool completed(unsigned core, unsigned count) {
    for (const auto deadline = soon(); completions(done(core)) != count;) {
      if (Clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

// Posted writes press back: who floods a core with resets waits for them, and readers get in.
TEST_F(Threads, AFloodOfResetsKeepsNobodyOut) {
  std::atomic<bool> over{false};
  std::atomic<unsigned> resets{0};
  std::thread flood([&] {
    const uint64_t command = NEURON_V2_CORE_WINDOW(0) + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND;
    // Relaxed: it only ends the thread.
    while (!over.load(std::memory_order_relaxed)) {
      chip_->write_register(command, NEURON_CMD_RESET | 0x1F00, false);
      resets.fetch_add(1, std::memory_order_relaxed);
    }
  });
  std::thread runner([&] {
    while (!over.load(std::memory_order_relaxed)) (void)chip_->run_group(0, soon(1));
  });
  const auto begin = Clock::now();
  while (resets.load(std::memory_order_relaxed) < 500 && Clock::now() < begin + kThreadPatience) {
    std::this_thread::yield();
  }
  for (unsigned i = 0; i < 20; ++i) {
    (void)chip_->read_register(engine_register(0, kSp, NEURON_ENG_ID));
  }
  over.store(true, std::memory_order_relaxed);
  flood.join();
  runner.join();
  EXPECT_LT(Clock::now() - begin, kThreadPatience);
}

TEST_F(Threads, AReadDoesNotOvertakeAWriteOfTheSameThread) {
  const uint64_t entry = engine_register(0, kSp, NEURON_ENG_ENTRY);
  std::atomic<bool> over{false};
  // Those that hold the core now and then, and leave what is written meanwhile to be applied.
  std::thread visitors[2];
  for (std::thread& visitor : visitors) {
    visitor = std::thread([&] {
      // Relaxed: it only ends the thread.
      while (!over.load(std::memory_order_relaxed)) (void)chip_->read_register(entry);
    });
  }
  unsigned overtaken = 0;
  for (uint32_t i = 1; i <= 20000; ++i) {
    chip_->write_register(entry, i, false);
    overtaken += chip_->read_register(entry) != i ? 1 : 0;
  }
  over.store(true, std::memory_order_relaxed);
  for (std::thread& visitor : visitors) visitor.join();
  EXPECT_EQ(overtaken, 0u);
}

// A write that finds somebody waiting for the core leaves its word to that one, who may give up.
TEST_F(Threads, NoWriteIsLostBetweenThreadsThatWaitForTheCoreInVain) {
  constexpr unsigned kIndex = 20;
  const uint64_t increment = semaphore_cell(0, NEURON_SEM_BLOCK_INC, kIndex);
  for (unsigned round = 1; round <= 200; ++round) {
    std::thread runner([&] {
      for (unsigned i = 0; i < 8; ++i) {
        (void)chip_->run_group(0, Clock::now() + std::chrono::microseconds(i * round % 7));
      }
    });
    std::thread visitor([&] {
      for (unsigned i = 0; i < 8; ++i) {
        (void)chip_->read_register(engine_register(0, kSp, NEURON_ENG_ID));
      }
    });
    for (unsigned i = 0; i < 8; ++i) chip_->write_register(increment, 1, true);
    runner.join();
    visitor.join();
    ASSERT_EQ(chip_->read_register(semaphore_cell(0, NEURON_SEM_BLOCK_READ, kIndex)), 8 * round);
  }
}

TEST_F(Threads, DmaReadsRegistersOfARunningCoreWithoutABusFault) {
  start(0, {loop(1, 0, 100'000'000, 1, 1), inst(NEURON_OP_NOP), inst(NEURON_OP_HALT)});
  std::atomic<bool> end = false;
  std::thread runner([&] {
    while (!end.load()) (void)chip_->run_group(0, soon(20));
  });
  unsigned refused = 0;
  for (int i = 0; i < 200; ++i) {
    uint32_t id = 0;
    refused += !chip_->bus().read32(kDevice + engine_register(0, kSp, NEURON_ENG_ID), id, kHostDma);
    refused += id != (0x4E0E0200u | kSp);
  }
  end.store(true);
  runner.join();
  EXPECT_EQ(refused, 0u);
}

TEST_F(Threads, TwoRunningCoresReadEachOthersRegisters) {
  for (unsigned core = 0; core < 2; ++core) {
    Instruction read = inst(NEURON_OP_LOAD);
    read.address.addr = kDevice + engine_register(1 - core, kSp, NEURON_ENG_ID);
    read.address.count = 1;
    read.flow.rd = 2;
    start(core, {loop(1, 0, 2000, 1, 1), read, inst(NEURON_OP_HALT)});
  }
  std::thread other([&] { EXPECT_EQ(chip_->run_group(1, soon()), chip::RunResult::kQuiescent); });
  EXPECT_EQ(chip_->run_group(0, soon()), chip::RunResult::kQuiescent);
  other.join();
  for (unsigned core = 0; core < 2; ++core) {
    EXPECT_EQ(core_register(engine_register(core, kSp, NEURON_ENG_STATUS)) & 0xF,
              uint32_t{NEURON_STATE_HALTED});
    EXPECT_EQ(core_register(engine_register(core, kSp, NEURON_ENG_REG0 + 8)), 0x4E0E0200u | kSp);
  }
}

TEST_F(Threads, NoLaunchOrIncrementIsLostAmongReadersAndCopies) {
  constexpr unsigned kRounds = 100;
  constexpr unsigned kHostQueue = 32;
  for (unsigned core = 0; core < 2; ++core) start(core, launched());
  set_up_queue(kHostQueue, 0);
  std::vector<std::thread> threads;
  // Launches: of core 0 by its own thread, of core 1 by the chip's workers.
  for (unsigned core = 0; core < 2; ++core) {
    threads.emplace_back([this, core] {
      for (unsigned n = 1; n <= kRounds; ++n) {
        launch(core, core == 0);
        if (core == 0) {
          EXPECT_EQ(chip_->run_group(0, soon()), chip::RunResult::kQuiescent);
        }
        ASSERT_TRUE(completed(core, n)) << "core " << core << " launch " << n;
      }
    });
  }
  threads.emplace_back([this] {
    for (unsigned n = 0; n < 4 * kRounds; ++n) {
      for (unsigned core = 0; core < 2; ++core) {
        chip_->write_register(semaphore_cell(core, NEURON_SEM_BLOCK_INC, 100), 1);
        (void)core_register(semaphore_cell(core, NEURON_SEM_BLOCK_READ, 100));
        (void)core_register(engine_register(core, kSp, NEURON_ENG_PC));
      }
    }
  });
  threads.emplace_back([this] {
    // Each round copies a block and increments a semaphore of core 1.
    const uint64_t m2s = NEURON_V2_UDMA(kHostQueue) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 0);
    const uint64_t s2m = NEURON_V2_UDMA(kHostQueue) + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, 0);
    const uint32_t one = 1;
    std::memcpy(memory(kData + 0x10000, 4), &one, 4);
    for (unsigned n = 0; n < kRounds; ++n) {
      const unsigned slot = 2 * n % 64;
      std::memset(memory(kData, 256), static_cast<int>(n), 256);
      add_copy(kHostQueue, 0, slot, kData, kData + 0x1000, 256);
      add_copy(kHostQueue, 0, slot + 1, kData + 0x10000,
               kDevice + semaphore_cell(1, NEURON_SEM_BLOCK_INC, 100), 4);
      // Nobody here promises to run the core that the transfer touches.
      chip_->write_register(s2m + NEURON_UDMAQ_TAIL_INC, 2);
      chip_->write_register(m2s + NEURON_UDMAQ_TAIL_INC, 2);
      ASSERT_EQ(std::memcmp(memory(kData, 256), memory(kData + 0x1000, 256), 256), 0);
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(core_register(semaphore_cell(0, NEURON_SEM_BLOCK_READ, 100)), 4 * kRounds);
  EXPECT_EQ(core_register(semaphore_cell(1, NEURON_SEM_BLOCK_READ, 100)), 5 * kRounds);
}

TEST_F(Threads, ResetsOfOneCoreLeaveLaunchesOfTheOtherAlone) {
  constexpr unsigned kRounds = 50;
  for (unsigned core = 0; core < 2; ++core) start(core, launched());
  std::jthread resets([this] {
    const size_t instructions = launched().size();
    for (unsigned n = 0; n < kRounds; ++n) {
      launch(1, false);
      (void)chip_->describe_core(1);
      chip_->reset(1u << 1);
      start_again(1, instructions);
    }
  });
  std::jthread watcher([this] {
    for (unsigned n = 0; n < kRounds; ++n) {
      EXPECT_NE(chip_->describe_core(0).find("SP"), std::string::npos);
      (void)chip_->run_group(1, soon(1));
    }
  });
  for (unsigned n = 1; n <= kRounds; ++n) {
    launch(0, n % 2 == 0);
    if (n % 2 == 0) {
      EXPECT_EQ(chip_->run_group(0, soon()), chip::RunResult::kQuiescent);
    }
    ASSERT_TRUE(completed(0, n)) << n;
  }
  resets.join();
  watcher.join();
  launch(1, true);
  const unsigned before = completions(done(1));
  (void)chip_->run_group(1, soon());
  EXPECT_GE(completions(done(1)), before);
  EXPECT_EQ(core_register(engine_register(1, kSp, NEURON_ENG_EXC_CODE)), 0u);
}

// A launch that arrives while a visitor holds the core is left to the visitor, who has to say so.
TEST_F(Threads, NoLaunchIsLostAmongVisitorsOfAQuietCore) {
  constexpr unsigned kRounds = 100;
  start(0, launched());
  std::atomic<bool> end = false;
  const auto visit = [&] {
    while (!end.load()) (void)chip_->describe_core(0);
  };
  std::jthread first(visit);
  std::jthread second(visit);
  unsigned done = 0;
  for (bool completes = true; completes && done < kRounds; done += completes) {
    launch(0, false);
    completes = completed(0, done + 1);
  }
  end.store(true);
  EXPECT_EQ(done, kRounds) << "launches that ran";
}

TEST_F(Threads, AChipIsDestroyedWhileItsWorkersRunBothCores) {
  for (unsigned core = 0; core < 2; ++core) {
    start(core, {loop(1, 0, 100'000'000, 1, 1), inst(NEURON_OP_NOP), inst(NEURON_OP_HALT)});
    launch(core, false);  // wakes a worker
  }
  std::thread reader([this] {
    for (unsigned n = 0; n < 20; ++n) (void)core_register(engine_register(0, kSp, NEURON_ENG_PC));
  });
  reader.join();
  chip_.reset();
  SUCCEED() << "joined its workers";
}

}  // namespace
}  // namespace neuron::core
