// SPDX-License-Identifier: Apache-2.0
// Launches that a core repeats as one step against the same launches event by event: two chips get
// the same programs and the same accesses, and whatever a host can read is compared after each.
#include "driver/emulator/neuroncore/group/known_launches.h"

#include <malloc.h>

#include <functional>
#include <random>
#include <sstream>
#include <tuple>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/fault_plan.h"
#include "tests/support/setting.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

using Instructions = std::vector<Instruction>;

constexpr uint64_t kWorkRecord = kData + 0x8000;
constexpr uint64_t kLoaded = kData + 0x9000;           // loaded and stored by programs
constexpr unsigned kFirstCleared = 16, kCleared = 16;  // semaphores that the prologue clears

Instruction at_semaphores(std::array<isa::Wait, 2> wait, std::array<isa::Update, 2> updates = {}) {
  Instruction i = inst(NEURON_OP_EVENT);
  i.wait = wait;
  i.update = updates;
  return i;
}
Instruction load_from(unsigned rd, uint64_t address) {
  Instruction i = inst(NEURON_OP_LOAD);
  i.flow.rd = static_cast<uint8_t>(rd);
  i.address = {address, 0, 1};
  return i;
}
Instruction fill_tile(unsigned engine, uint32_t at, uint32_t value) {
  Instruction i = inst(NEURON_OP_MEMSET);
  i.engines = static_cast<uint8_t>(1u << engine);
  i.dst = sbuf(4, at, kU32, 8);
  i.scalar0 = number(value);
  return i;
}

struct Mains {
  std::array<Instructions, 5> of;
  Mains() { of.fill({inst(NEURON_OP_RET)}); }
};

// Generation, and whether strict mode is on.
class KnownLaunchesTest : public CoreMachine,
                          public ::testing::WithParamInterface<std::tuple<unsigned, bool>> {
 protected:
  void SetUp() override {}

  // Takes the steps on a chip that executes every launch event by event, and on one that repeats
  // launches. What note() sees is the same. At least so many launches are repeated.
  void compare(const std::function<void()>& steps, unsigned repeated) {
    std::array<std::vector<std::string>, 2> notes;
    for (const bool allowed : {false, true}) {
      const test::Setting strict("NEURON_EMULATOR_STRICT", std::get<1>(GetParam()) ? "1" : "0");
      const test::Setting known("NEURON_EMULATOR_KNOWN_LAUNCHES", allowed ? "1" : "0");
      create(std::get<0>(GetParam()));
      notes_.clear();
      const uint64_t before = KnownLaunches::repeated_by_this_thread();
      steps();
      if (HasFatalFailure()) return;
      const uint64_t times = KnownLaunches::repeated_by_this_thread() - before;
      if (allowed) {
        EXPECT_GE(times, repeated);
        all_repeated_ += times;
      } else {
        EXPECT_EQ(times, 0u);
      }
      notes[allowed ? 1 : 0] = notes_;
    }
    ASSERT_EQ(notes[0].size(), notes[1].size());
    for (size_t n = 0; n < notes[0].size(); ++n) {
      ASSERT_EQ(first_difference(notes[0][n], notes[1][n]), "") << "note " << n;
    }
  }
  static std::string first_difference(const std::string& a, const std::string& b) {
    std::istringstream left(a), right(b);
    std::string x, y;
    while (true) {
      const bool more = static_cast<bool>(std::getline(left, x));
      if (static_cast<bool>(std::getline(right, y)) != more) return "one is shorter";
      if (!more) return "";
      if (x != y) return "event by event: " + x + "; as one step: " + y;
    }
  }

  // All that a host can read.
  void note() {
    std::ostringstream text;
    const auto word = [&](const char* what, uint64_t at, uint32_t value) {
      if (value != 0) text << what << ' ' << std::hex << at << " = " << value << '\n';
    };
    text << chip_->describe_core(0) << '\n';
    for (uint32_t at = 0; at < 0x30; at += 4) {
      word("control", at, core_register(window_ + NEURON_CORE_CONTROL + at));
    }
    for (unsigned e = 0; e < 5; ++e) {
      text << "engine " << e << '\n';
      for (uint32_t at = 0; at < 0x300; at += 4) word("register", at, get(e, at));
    }
    const uint64_t cells = window_ + NEURON_CORE_SEMAPHORES;
    for (unsigned n = 0; n < NEURON_SEMAPHORES; ++n) word("semaphore", n, semaphore(n));
    for (unsigned n = 0; n < NEURON_EVENTS; ++n) {
      word("event", n, core_register(cells + NEURON_SEM_BLOCK_EVENT + 4 * n));
    }
    const auto bytes = [&](const char* what, uint64_t from, uint64_t size) {
      for (uint64_t at = 0; at < size; at += 4) word(what, from + at, this->word(from + at));
    };
    bytes("record", kDone, 5 * 64);
    bytes("launch", kLaunch, 64);
    bytes("work", kWorkRecord, sizeof(neuron_work_record));
    bytes("ring", kErrors, kRingBytes);
    bytes("ring", kTrace, 10 * kRingBytes);
    bytes("data", kData, 0x200);
    bytes("data", kLoaded, 0x100);
    for (unsigned d = 0; d < 2; ++d) {
      for (const uint32_t half : {NEURON_UDMA_M2S, NEURON_UDMA_S2M}) {
        for (uint32_t at = NEURON_UDMAQ_CFG; at <= NEURON_UDMAQ_CURRENT; at += 4) {
          word("queue", d * NEURON_UDMA_SIZE + half + at,
               core_register(udma(d) + NEURON_UDMA_QUEUE(half, 0) + at));
        }
      }
    }
    for (unsigned p = 0; p < 4; ++p) {
      for (uint32_t at = 0; at < 64; at += 4) {
        uint32_t value = 0;
        if (chip_->bus().read32(sbuf_address(p, at), value, {})) word("sbuf", p << 16 | at, value);
      }
    }
    notes_.push_back(text.str());
  }

  Instruction trigger(unsigned queue, uint16_t mask, unsigned count) const {
    Instruction i = CoreMachine::trigger(queue, mask, count);
    const uint64_t base = chip_->bus().layout().device_of(udma(0));
    i.trigger.m2s = base + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, queue) + NEURON_UDMAQ_TAIL_INC;
    i.trigger.s2m = base + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, queue) + NEURON_UDMAQ_TAIL_INC;
    i.trigger.stride = generation_ == 2 ? NEURON_V2_UDMA_STRIDE : NEURON_V3_UDMA_STRIDE;
    return i;
  }
  // Rewinds a half of queue 0 of the first two DMA engines.
  Instruction rewind(bool s2m) const {
    const uint64_t base = chip_->bus().layout().device_of(udma(0));
    return write_word(
        base + NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, 0) +
            (s2m ? NEURON_UDMAQ_S2M_SW_CONTROL : NEURON_UDMAQ_M2S_SW_CONTROL),
        NEURON_UDMAQ_SW_RESET, 2,
        static_cast<int>(generation_ == 2 ? NEURON_V2_UDMA_STRIDE : NEURON_V3_UDMA_STRIDE));
  }
  uint64_t set_alias(unsigned index) const {
    return device_address(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET + 4 * index);
  }
  uint64_t event_alias(unsigned index) const {
    return device_address(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_EVENT + 4 * index);
  }

  // What the runtime puts around a model, with a prologue like that of a model with queues and
  // events.
  Instructions sp_program(const Instructions& main) const {
    Instructions p{at_semaphores({wait_ge(NEURON_SEM_LAUNCH, 1)},
                                 {update(NEURON_UPDATE_DEC, NEURON_SEM_LAUNCH, false)}),
                   load_from(0, kLaunch + offsetof(neuron_launch_record, flags)),
                   alu(1, 0, NEURON_ALU_AND, 1),
                   branch(2, NEURON_BRANCH_EQ, 1, 0),
                   load_from(2, kLoaded),
                   write_word(set_alias(kFirstCleared), 0, kCleared, 4),
                   load_from(10, event_alias(9)),
                   branch(2, NEURON_BRANCH_EQ, 10, 0),
                   write_word(event_alias(9), 0, 1, 4),
                   rewind(false),
                   rewind(true),
                   at_semaphores({}, {update(NEURON_UPDATE_INC, 0), update(NEURON_UPDATE_INC, 1)}),
                   at_semaphores({}, {update(NEURON_UPDATE_INC, 2), update(NEURON_UPDATE_INC, 3)}),
                   call(4),
                   at_semaphores({wait_ge(NEURON_SEM_DONE, 4)},
                                 {update(NEURON_UPDATE_SUB, NEURON_SEM_DONE, false, 4)}),
                   inst(NEURON_OP_COMPLETE)};
    p.push_back(branch(-static_cast<int>(p.size())));
    p.insert(p.end(), main.begin(), main.end());
    return p;
  }
  static Instructions worker_program(unsigned e, const Instructions& main) {
    Instruction done = at_semaphores({}, {update(NEURON_UPDATE_INC, NEURON_SEM_DONE)});
    done.drain = true;
    Instructions p{at_semaphores({wait_ge(e, 1)}, {update(NEURON_UPDATE_DEC, e, false)}), call(3),
                   done, branch(-3)};
    p.insert(p.end(), main.begin(), main.end());
    return p;
  }
  Instructions program_of(unsigned e, const Mains& mains) const {
    return e == kSp ? sp_program(mains.of[e]) : worker_program(e, mains.of[e]);
  }
  void start(const Mains& mains = {}) {
    for (unsigned e = 0; e < 5; ++e) load(e, program_of(e, mains));
    auto* launch = launch_record();
    launch->work_record = kWorkRecord;
    launch->exec_id = 1;
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
  neuron_launch_record* launch_record() {
    return reinterpret_cast<neuron_launch_record*>(memory(kLaunch, sizeof(neuron_launch_record)));
  }
  void set_up_queues() {
    for (const unsigned d : {0u, 1u}) {
      set_up_queue(d, 0);
      for (const unsigned slot : {0u, 1u, 2u, 3u}) {
        add_copy(d, 0, slot, kData + d * 64, kData + 0x100 + d * 64, 64);
      }
    }
  }
  void launch(unsigned times = 1) {
    for (unsigned n = 0; n < times; ++n) {
      ++launch_record()->exec_id;
      increment(NEURON_SEM_LAUNCH);
      ASSERT_EQ(run(), chip::RunResult::kQuiescent);
      note();
    }
  }
  void set_all_modes(uint32_t mode) {
    for (unsigned e = 0; e < 5; ++e) set(e, NEURON_ENG_MODE, mode);
  }
  void set_up_rings() {
    for (unsigned e = 0; e < 5; ++e) set_up_ring(e, kTrace + e * kRingBytes);
    for (const unsigned slot : {NEURON_NQ_SLOT_NOTIFY, NEURON_NQ_SLOT_SEMAPHORE}) {
      set_up_ring(slot, kTrace + slot * kRingBytes);
    }
    set_up_ring(NEURON_NQ_SLOT_TRANSFER, kTrace + 9 * kRingBytes);
    set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
  }
  void reset_core() {
    set_core(window_ + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND, NEURON_CMD_RESET);
  }
  // The word of an instruction in the memory of a program.
  uint32_t* code_word(unsigned e, unsigned pc, unsigned at) {
    return reinterpret_cast<uint32_t*>(
        memory(kCode + e * 0x10000 + pc * NEURON_INSTRUCTION_BYTES + at, 4));
  }
  void arm(const std::string& line) {
    std::vector<chip::FaultSpec> specs;
    std::string error;
    ASSERT_TRUE(chip::parse_fault_plan(line, specs, error)) << error;
    for (const chip::FaultSpec& spec : specs) ASSERT_TRUE(chip_->faults().arm(spec)) << line;
  }

 private:
  std::vector<std::string> notes_;

 protected:
  uint64_t all_repeated_ = 0;  // by this test
};

INSTANTIATE_TEST_SUITE_P(Generations, KnownLaunchesTest,
                         ::testing::Combine(::testing::Values(2u, 3u, 4u), ::testing::Bool()));

TEST_P(KnownLaunchesTest, AnEmptyModel) {
  compare(
      [this] {
        start();
        launch(8);
      },
      6);
}

TEST_P(KnownLaunchesTest, SeveralLaunchesThatWaitForEachOther) {
  compare(
      [this] {
        start();
        launch(3);
        increment(NEURON_SEM_LAUNCH, 5);
        increment(NEURON_SEM_LAUNCH, 2);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        note();
        launch(2);
      },
      10);
}

// The launches of one host count for the other, which gives other numbers and limits.
TEST_P(KnownLaunchesTest, WhatTheLaunchRecordAsksForIsNewEachTime) {
  compare(
      [this] {
        start();
        launch(3);
        launch_record()->exec_id = 900;
        launch(2);
        launch_record()->work_record = 0;
        launch(2);
        launch_record()->work_record = kWorkRecord;
        launch_record()->time_limit = 50'000'000;
        launch(2);
        launch_record()->flags = NEURON_LAUNCH_REBIND;  // another way through the prologue
        launch(3);
        memory(kLoaded, 4)[0] = std::byte{7};
        launch(3);
        launch_record()->flags = 0;
        launch(2);
        launch_record()->time_limit = 200'000;  // in the middle of the launch
        launch(1);
      },
      9);
}

TEST_P(KnownLaunchesTest, ALimitIsMetAtTheSameEventWhereverItLies) {
  compare(
      [this] {
        for (uint64_t limit = 60'000; limit < 1'500'000; limit += 45'000) {
          reset_core();
          launch_record()->time_limit = 0;
          start();
          launch(3);
          launch_record()->time_limit = limit;
          launch(1);
        }
      },
      20);
}

TEST_P(KnownLaunchesTest, EntriesOfAllRingsAndTraces) {
  compare(
      [this] {
        start();
        launch(3);
        set_up_rings();
        launch(4);
        set_all_modes(2);
        launch(4);
        set_all_modes(0);
        launch(3);
        for (unsigned e = 0; e < 5; ++e) set_up_ring(e, 0);
        launch(3);
        set_up_ring(NEURON_NQ_SLOT_SEMAPHORE, 0);
        launch(3);
      },
      10);
}

TEST_P(KnownLaunchesTest, TheBeginningOfAModelThatComputesAndTransfers) {
  Mains mains;
  mains.of[kDve] = {fill_tile(kDve, 0, 5), at_semaphores({}, {update(NEURON_UPDATE_INC, 16)}),
                    inst(NEURON_OP_RET)};
  mains.of[kPool] = {at_semaphores({wait_ge(16, 1)}), fill_tile(kPool, 64, 6), inst(NEURON_OP_RET)};
  for (const bool traced : {false, true}) {
    compare(
        [&] {
          set_up_queues();
          mains.of[kSp] = {trigger(0, 3, 1),
                           inst(NEURON_OP_DRAIN),
                           at_semaphores({}, {update(NEURON_UPDATE_INC, 20)}),
                           trigger(0, 1, 2),
                           at_semaphores({wait_ge(20, 1)}),
                           inst(NEURON_OP_RET)};
          for (uint32_t n = 0; n < 32; ++n) memory(kData + n * 4, 4)[0] = std::byte(n + 1);
          if (traced) set_up_rings();
          start(mains);
          if (traced) set_all_modes(2);
          launch(6);
        },
        3);
  }
}

TEST_P(KnownLaunchesTest, WhatAHostDoesBetweenTwoLaunches) {
  compare(
      [this] {
        set_up_queues();
        start();
        launch(3);
        increment(kFirstCleared + 2, 5);  // cleared by the prologue
        launch(2);
        increment(50);  // of nobody
        launch(2);
        set_core(window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_EVENT + 4 * 9, 1);
        launch(2);
        set_core(window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET + 4 * NEURON_SEM_DONE, 1);
        launch(2);
        set(kSp, NEURON_ENG_MODE, 1);
        launch(2);
        set(kPe, NEURON_ENG_EXEC_ID, 4711);
        launch(2);
        set_sbuf(0, 0, 2.0f);
        launch(2);
        set(kPool, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
        set(kPool, NEURON_ENG_REG0 + 4 * 12, 99);
        set(kPool, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        launch(4);
      },
      8);
}

TEST_P(KnownLaunchesTest, BreakpointsAndSteps) {
  compare(
      [this] {
        start();
        launch(4);
        set(kSp, NEURON_ENG_BREAK0, 1u << 31 | 12);
        launch(1);
        set(kSp, NEURON_ENG_STEPS, 2);
        set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_STEP);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        note();
        set(kSp, NEURON_ENG_BREAK0, 0);
        set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        note();
        launch(3);
      },
      3);
}

// Bytes that change while a program runs are a fault of the engine that fetches them again.
TEST_P(KnownLaunchesTest, AnyByteOfTheInstructionsCounts) {
  const auto on_each_instruction = [this](unsigned e, unsigned instructions) {
    for (unsigned pc = 0; pc < instructions; ++pc) {
      reset_core();
      start();
      launch(3);
      *code_word(e, pc, NEURON_INST_DEBUG) ^= 0x100;
      launch(1);
      *code_word(e, pc, NEURON_INST_DEBUG) ^= 0x100;
      launch(1);
    }
  };
  compare(
      [&] {
        on_each_instruction(kSp, 17);
        on_each_instruction(kDve, 4);
      },
      20);
}

TEST_P(KnownLaunchesTest, ProgramsThatResembleOneThatIsKnown) {
  const auto with = [this](unsigned e, unsigned pc,
                           const std::function<void(Instruction&)>& change) {
    reset_core();
    start();
    launch(3);
    Instructions program = program_of(e, {});
    change(program[pc]);
    for (const Instructions& next : {program, program_of(e, {})}) {
      set(e, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
      load(e, next);
      ASSERT_EQ(run(), chip::RunResult::kQuiescent);
      launch(3);
    }
  };
  compare(
      [&] {
        with(kSp, 11, [](Instruction& i) { i.update[0] = update(NEURON_UPDATE_INC, 30); });
        with(kSp, 12, [](Instruction& i) { i.update[1].at_complete = false; });
        with(kSp, 15, [](Instruction& i) { i.scalar0 = number(77); });
        with(kSp, 15, [](Instruction& i) { i.debug = 1234; });
        with(kSp, 15, [](Instruction& i) { i.trace = true; });
        with(kSp, 5, [](Instruction& i) { i.address.count = 3; });
        with(kSp, 5, [](Instruction& i) { i.scalar0 = number(3); });
        with(kSp, 10, [](Instruction& i) { i.scalar0 = number(0); });
        with(kDve, 2, [](Instruction& i) { i.update[0] = update(NEURON_UPDATE_ADD, 15, true, 1); });
        with(kPe, 0, [](Instruction& i) { i.drain = true; });
        with(kPe, 2, [](Instruction& i) { i.drain = false; });
        with(kAct, 2, [](Instruction& i) { i.update[1] = update(NEURON_UPDATE_INC, 60); });
      },
      12);
}

TEST_P(KnownLaunchesTest, FaultsThatArePlannedBetweenLaunches) {
  compare(
      [this] {
        start();
        launch(3);
        arm(R"({"at":"sram","kind":"uncorrectable","core":0,"n":7})");
        launch(2);
        chip_->faults().clear();
        reset_core();
        start();
        launch(4);
        std::ostringstream of_the_record;
        of_the_record << R"({"at":"hbm","kind":"uncorrectable","address":")" << std::showbase
                      << std::hex << kLaunch << R"(","bytes":64})";
        arm(of_the_record.str());
        launch(2);
        chip_->faults().clear();
        reset_core();
        start();
        launch(4);
        arm(R"({"at":"engine.instruction","kind":"hang","core":0,"engine":1,"n":5})");
        launch(2);
      },
      5);
}

TEST_P(KnownLaunchesTest, ResetsAndStarts) {
  compare(
      [this] {
        for (int round = 0; round < 3; ++round) {
          start();
          launch(4);
          set(kAct, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
          launch(2);
          reset_core();
        }
        start();
        launch(4);
        set(kPool, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
        load(kPool, program_of(kPool, {}));
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        launch(4);
      },
      6);
}

TEST_P(KnownLaunchesTest, AnExecutionThatWaitsForTheHost) {
  Mains mains;
  mains.of[kAct] = {at_semaphores({wait_ge(40, 1)}, {update(NEURON_UPDATE_DEC, 40, false)}),
                    inst(NEURON_OP_RET)};
  compare(
      [&] {
        start(mains);
        for (int n = 0; n < 4; ++n) {
          launch(1);  // stops in a deadlock
          increment(40);
          ASSERT_EQ(run(), chip::RunResult::kQuiescent);
          note();
        }
        increment(40, 2);
        launch(2);
      },
      2);
}

TEST_P(KnownLaunchesTest, RecordsWithoutMemoryAreTheSameFault) {
  compare(
      [this] {
        start();
        set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
        launch(3);
        set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
        set(kSp, NEURON_ENG_DONE_HI, 0x7F00);
        set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        launch(1);
      },
      1);
}

// The end of a loop's body counts its register up, also if the body's last instruction has loaded
// into it.
TEST_P(KnownLaunchesTest, AWordThatIsLoadedIntoTheCounterOfALoop) {
  Mains mains;
  mains.of[kSp] = {loop(3, 0, 100, 1, 1), load_from(3, kLoaded + 4), inst(NEURON_OP_RET)};
  compare(
      [&] {
        memory(kLoaded + 4, 4)[0] = std::byte{99};
        start(mains);
        launch(3);
        memory(kLoaded + 4, 4)[0] = std::byte{100};
        launch(3);
      },
      2);
}

// A program may do the same for ever, and the host's memory has an end.
TEST_P(KnownLaunchesTest, OfALongProgramLittleIsRemembered) {
  const test::Setting strict("NEURON_EMULATOR_STRICT", std::get<1>(GetParam()) ? "1" : "0");
  const auto used = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const auto kept_of = [&](const Instruction& instruction, uint32_t times) {
    create(std::get<0>(GetParam()));
    Mains mains;
    mains.of[kSp] = {loop(3, 0, times, 1, 1), instruction, inst(NEURON_OP_RET)};
    start(mains);
    set_up_queues();
    set_up_ring(kSp, kTrace);
    const size_t before = used();
    for (int n = 0; n < 3; ++n) {
      increment(NEURON_SEM_LAUNCH);
      EXPECT_EQ(run(60'000), chip::RunResult::kQuiescent);
    }
    EXPECT_EQ(completions(kSp), 3u);
    return used() - before;
  };
  create(std::get<0>(GetParam()));
  Instruction traced = inst(NEURON_OP_NOP);
  traced.trace = true;
  Instruction rewinds = rewind(false);
  rewinds.address.count = 50'000;
  rewinds.address.stride = 0;
  for (const auto& [instruction, times] : {std::pair(load_from(5, kLoaded), 300'000u),
                                           std::pair(traced, 300'000u), std::pair(rewinds, 10u)}) {
    EXPECT_LT(kept_of(instruction, times), 4u << 20);
  }
}

// Six buffers that take turns are more than a core remembers. It remembers some of them, and does
// not forget each before its turn comes again.
TEST_P(KnownLaunchesTest, MoreLaunchesThatTakeTurnsThanAreRemembered) {
  constexpr uint32_t kLaunches = 600;
  create(std::get<0>(GetParam()));
  start();
  launch_record()->flags = NEURON_LAUNCH_REBIND;
  const uint64_t repeated = KnownLaunches::repeated_by_this_thread();
  const uint64_t remembered = KnownLaunches::remembered_by_this_thread();
  for (uint32_t n = 0; n < kLaunches; ++n) {
    memory(kLoaded, 4)[0] = std::byte(n % 6);
    increment(NEURON_SEM_LAUNCH);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
  EXPECT_GT(KnownLaunches::repeated_by_this_thread() - repeated, kLaunches / 2);
  EXPECT_LT(KnownLaunches::remembered_by_this_thread() - remembered, kLaunches / 10);
}

// It would be compared each time for nothing.
TEST_P(KnownLaunchesTest, OnePartOfTwoIsNotRemembered) {
  create(std::get<0>(GetParam()));
  start();
  const uint64_t remembered = KnownLaunches::remembered_by_this_thread();
  for (uint32_t n = 1; n < 8; ++n) {
    launch_record()->pair = n;
    increment(NEURON_SEM_LAUNCH);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
  EXPECT_EQ(KnownLaunches::remembered_by_this_thread(), remembered);
}

// What the launch writes into a ring itself is not there yet when the words are compared.
TEST_P(KnownLaunchesTest, AProgramThatReadsItsOwnRing) {
  constexpr uint64_t kRing = kTrace + NEURON_NQ_SLOT_SEMAPHORE * uint64_t{kRingBytes};
  constexpr uint32_t kOfTheWrapper = 16;  // entries
  constexpr uint32_t kPerLaunch = kRingBytes / NEURON_NOTIFICATION_BYTES;
  Mains mains;
  mains.of[kSp] = {
      loop(3, 0, kPerLaunch - kOfTheWrapper, 1, 1),
      at_semaphores({}, {update(NEURON_UPDATE_INC, 20)}),
      load_from(5, kRing + 40 * NEURON_NOTIFICATION_BYTES + offsetof(neuron_notification, word)),
      alu(6, 5, NEURON_ALU_AND, 1),
      branch(3, NEURON_BRANCH_EQ, 6, 0),
      inst(NEURON_OP_NOP),
      inst(NEURON_OP_NOP),
      mov(5, 0),
      mov(6, 0),
      inst(NEURON_OP_RET)};
  compare(
      [&] {
        set_up_ring(NEURON_NQ_SLOT_SEMAPHORE, kRing);
        const uint64_t queues =
            generation_ == 2 ? NEURON_V2_CORE_NOTIFICATION(0) : NEURON_V3_CORE_NOTIFICATION(0);
        set_core(queues + NEURON_NQ_BASE(NEURON_NQ_SLOT_SEMAPHORE) + NEURON_NQ_MODE, 1);
        start(mains);
        launch(8);
      },
      0);
}

// Programs of every kind of control instruction, and accesses between the launches, by chance.
TEST_P(KnownLaunchesTest, RandomProgramsAndAccesses) {
  for (unsigned seed = 0; seed < 25; ++seed) {
    compare(
        [&] {
          std::mt19937 random(seed);
          const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
          const auto instruction = [&](unsigned e) {
            Instruction i = inst(NEURON_OP_NOP);
            switch (below(12)) {
              case 0:
                i = mov(3 + below(4), below(9));
                break;
              case 1:
                i = alu(3 + below(4), 3 + below(4), NEURON_ALU_ADD, below(5));
                break;
              case 2:
                i = load_from(3 + below(4), kLoaded + 4 * below(8));
                break;
              case 3:
                i = load_from(3 + below(4), set_alias(kFirstCleared + below(kCleared)));
                break;
              case 4:
                i = write_word(set_alias(kFirstCleared + below(kCleared)), below(3));
                break;
              case 5:
                i = branch(2, NEURON_BRANCH_EQ, 3 + below(4), below(3));
                break;
              case 6:
                i = at_semaphores({},
                                  {update(NEURON_UPDATE_INC, kFirstCleared + e, below(2) == 0)});
                if (below(16) == 0) i.update[1] = update(NEURON_UPDATE_INC, 40 + e);
                break;
              case 7:
                if (below(4) != 0) break;
                i = at_semaphores(
                    {wait_ge(below(2) == 0 ? 40 + below(5) : kFirstCleared + below(5), 1)});
                break;
              case 8:
                i = inst(below(2) == 0 ? NEURON_OP_DRAIN : NEURON_OP_TIME);
                i.flow.rd = 8;
                break;
              case 9:
                i = below(4) == 0 ? store(kLoaded + 4 * below(16), 3 + below(4))
                                  : inst(NEURON_OP_NOP);
                break;
              case 10:
                i = below(4) == 0 && e == kDve ? fill_tile(kDve, 32 * below(2), below(100))
                                               : inst(NEURON_OP_NOP);
                break;
              default:
                i = loop(9, 0, 1 + below(3), 1, 1);
                break;
            }
            i.trace = below(8) == 0;
            i.debug = below(3);
            return i;
          };
          Mains mains;
          for (unsigned e = 0; e < 5; ++e) {
            Instructions main;
            for (unsigned n = below(7); n > 0; --n) main.push_back(instruction(e));
            main.push_back(inst(NEURON_OP_NOP));  // where a branch or the body of a loop may end
            main.push_back(inst(NEURON_OP_NOP));
            main.push_back(inst(NEURON_OP_RET));
            mains.of[e] = main;
          }
          if (below(2) == 0) set_up_queues();
          if (below(2) == 0) set_up_rings();
          start(mains);
          for (unsigned n = 0; n < 10; ++n) {
            launch(3);
            switch (below(9)) {
              case 0:
                increment(40 + below(5), 1 + below(4));
                break;
              case 1:
                memory(kLoaded + 4 * below(8), 4)[0] = std::byte(below(3));
                break;
              case 2:
                set_all_modes(2 * below(2));
                break;
              case 3:
                increment(kFirstCleared + below(kCleared));
                break;
              case 4:
                set_core(
                    window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET + 4 * (40 + below(5)),
                    3);
                break;
              case 5:
                reset_core();
                start(mains);
                break;
              default:
                break;
            }
            ASSERT_EQ(run(), chip::RunResult::kQuiescent);
            note();
          }
        },
        0);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
  EXPECT_GT(all_repeated_, 100u);
}

// As above, with less care: waits that may never hold, updates that may be refused, two reports in
// one launch, and a host that stops engines and writes between a launch and its first event.
TEST_P(KnownLaunchesTest, RandomProgramsThatMayFail) {
  for (unsigned seed = 100; seed < 110; ++seed) {
    compare(
        [&] {
          std::mt19937 random(seed);
          const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
          const auto wait = [&](unsigned e) {
            isa::Wait w = wait_ge(kFirstCleared + (below(3) == 0 ? below(5) : e), below(3));
            if (below(6) == 0) w.index = static_cast<uint8_t>(40 + below(5));
            if (below(4) == 0) {
              w.condition = static_cast<uint8_t>(NEURON_WAIT_GE + below(6));
              w.value = static_cast<uint16_t>(below(2));
            }
            if (below(8) == 0) {
              w.is_register = true;
              w.value = static_cast<uint16_t>(3 + below(4));
            }
            if (below(8) == 0) {
              w.event = true;
              w.index = static_cast<uint8_t>(10 + below(2));
              w.value = 0;
            }
            return w;
          };
          const auto change = [&](unsigned e) {
            isa::Update u =
                update(NEURON_UPDATE_INC, kFirstCleared + (below(3) ? e : below(5)), below(2) == 0);
            switch (below(7)) {
              case 0:
                u.operation = NEURON_UPDATE_ADD;
                u.value = static_cast<uint16_t>(below(3));
                break;
              case 1:
                u.operation = NEURON_UPDATE_WRITE;
                u.value = static_cast<uint16_t>(below(3));
                break;
              case 2:
                u.operation = NEURON_UPDATE_ADD;
                u.is_register = true;
                u.value = static_cast<uint16_t>(3 + below(4));
                break;
              case 3:
                u.index = static_cast<uint8_t>(40 + below(5));
                u.operation = below(2) == 0 ? NEURON_UPDATE_WRITE : NEURON_UPDATE_INC;
                u.value = 1;
                break;
              default:
                break;
            }
            return u;
          };
          unsigned loops = 0;
          const auto instruction = [&](unsigned e) {
            Instruction i = inst(NEURON_OP_NOP);
            switch (below(16)) {
              case 0:
                i = mov(3 + below(4), below(4));
                break;
              case 1:
                i = alu(3 + below(4), 3 + below(4), NEURON_ALU_ADD, below(3));
                break;
              case 2:
                i = load_from(3 + below(4), kLoaded + 4 + 4 * below(8));
                break;
              case 3:
                i = load_from(3 + below(4), below(3) == 0
                                                ? event_alias(10 + below(2))
                                                : set_alias(kFirstCleared + below(kCleared)));
                break;
              case 4:
                i = write_word(set_alias(kFirstCleared + below(kCleared)), below(3), 1 + below(2),
                               4);
                break;
              case 5:
                i = branch(2, NEURON_BRANCH_EQ, 3 + below(4), below(3));
                break;
              case 6:
              case 7:
              case 8:
                i = at_semaphores({}, {change(e)});
                if (below(3) == 0) i.update[1] = change(e);
                break;
              case 9:
              case 10:
                if (below(3) != 0) break;
                i = at_semaphores({wait(e)});
                if (below(2) == 0) i.wait[1] = wait(e);
                if (below(2) == 0) i.update[0] = change(e);
                break;
              case 11:
                i = inst(NEURON_OP_DRAIN);
                break;
              case 12:
                i = write_word(semaphore_increment(kFirstCleared + below(kCleared)), below(2));
                break;
              case 13:
                if (below(12) == 0) i = inst(below(2) == 0 ? NEURON_OP_COMPLETE : NEURON_OP_NOTIFY);
                break;
              case 14:
                if (below(6) == 0) i = write_word(event_alias(10 + below(2)), below(2));
                break;
              default:
                i = loop(9 + loops++ % 16, 0, 1 + below(4), 1, 1 + below(2));
                break;
            }
            i.trace = below(8) == 0;
            i.debug = below(3);
            if (below(10) == 0) i.drain = true;
            return i;
          };
          Mains mains;
          for (unsigned e = 0; e < 5; ++e) {
            Instructions main;
            for (unsigned n = below(3) * below(4); n > 0; --n) main.push_back(instruction(e));
            main.push_back(inst(NEURON_OP_NOP));
            main.push_back(inst(NEURON_OP_NOP));
            main.push_back(inst(NEURON_OP_RET));
            mains.of[e] = main;
          }
          if (below(2) == 0) set_up_queues();
          if (below(2) == 0) set_up_rings();
          start(mains);
          const uint64_t cells = window_ + NEURON_CORE_SEMAPHORES;
          const auto disturbance = [&] {
            const unsigned e = below(5);
            switch (below(14)) {
              case 0:
                return increment(40 + below(5), 1 + below(4));
              case 1:
                memory(kLoaded + 4 + 4 * below(8), 4)[0] = std::byte(below(3));
                return;
              case 2:
                return set_all_modes(2 * below(2));
              case 3:
                return increment(kFirstCleared + below(kCleared));
              case 4:
                return set_core(cells + NEURON_SEM_BLOCK_SET + 4 * (40 + below(5)), below(4));
              case 5:
                return set_core(cells + NEURON_SEM_BLOCK_EVENT + 4 * (10 + below(2)), below(2));
              case 6:
                return set_core(cells + NEURON_SEM_BLOCK_SET + 4 * (kFirstCleared + below(5)),
                                below(3));
              case 7:
                set(e, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
                set(e, NEURON_ENG_REG0 + 4 * (3 + below(4)), below(3));
                return set(e, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
              case 8:
                return set(e, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
              case 9:
                return set(e, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
              case 10:
                if (below(2) == 0) return set_up_ring(e, kTrace + e * kRingBytes);
                return set_up_ring(e, 0);
              case 11:
                launch_record()->time_limit = below(2) == 0 ? 0 : 100'000 * below(30);
                return;
              case 12:
                launch_record()->flags = below(2) == 0 ? 0 : NEURON_LAUNCH_REBIND;
                return;
              default:
                reset_core();
                return start(mains);
            }
          };
          for (unsigned n = 0; n < 14; ++n) {
            launch(3 + below(3));
            if (core_register(window_ + NEURON_CORE_CONTROL + NEURON_CORE_FAULTS) != 0 &&
                below(3) != 0) {
              reset_core();
              start(mains);
              launch(3);
            }
            disturbance();
            if (below(3) == 0) disturbance();
            if (below(3) == 0) {
              ++launch_record()->exec_id;
              increment(NEURON_SEM_LAUNCH, 1 + below(3));
              if (below(2) == 0) disturbance();
            }
            ASSERT_EQ(run(), chip::RunResult::kQuiescent);
            note();
          }
        },
        0);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
  EXPECT_GT(all_repeated_, 100u);
}

}  // namespace
}  // namespace neuron::core
