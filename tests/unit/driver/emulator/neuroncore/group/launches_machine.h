// SPDX-License-Identifier: Apache-2.0
// Two chips that get the same programs and the same accesses: one repeats launches as one step, the
// other executes each event by event. What the tests of known launches share.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_GROUP_LAUNCHES_MACHINE_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_GROUP_LAUNCHES_MACHINE_H

#include <functional>
#include <sstream>
#include <tuple>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/fault_plan.h"
#include "driver/emulator/neuroncore/group/known_launches.h"
#include "tests/support/setting.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {

using Instructions = std::vector<Instruction>;

inline constexpr uint64_t kWorkRecord = kData + 0x8000;
inline constexpr uint64_t kLoaded = kData + 0x9000;           // loaded and stored by programs
inline constexpr unsigned kFirstCleared = 16, kCleared = 16;  // semaphores that the prologue clears

inline Instruction at_semaphores(std::array<isa::Wait, 2> wait,
                                 std::array<isa::Update, 2> updates = {}) {
  Instruction i = inst(NEURON_OP_EVENT);
  i.wait = wait;
  i.update = updates;
  return i;
}
inline Instruction load_from(unsigned rd, uint64_t address) {
  Instruction i = inst(NEURON_OP_LOAD);
  i.flow.rd = static_cast<uint8_t>(rd);
  i.address = {address, 0, 1};
  return i;
}
inline Instruction fill_tile(unsigned engine, uint32_t at, uint32_t value) {
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
class LaunchesMachine : public CoreMachine,
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

inline const auto kLaunchesMachines =
    ::testing::Combine(::testing::Values(2u, 3u, 4u), ::testing::Bool());

}  // namespace neuron::core

#endif
