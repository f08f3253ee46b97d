// SPDX-License-Identifier: Apache-2.0
// Launches that a core repeats as one step against the same launches event by event, as in
// known_launches_test.cpp: programs and accesses by chance.
#include <random>

#include "tests/unit/driver/emulator/neuroncore/group/launches_machine.h"

namespace neuron::core {
namespace {

class RandomLaunches : public LaunchesMachine {};

INSTANTIATE_TEST_SUITE_P(Generations, RandomLaunches, kLaunchesMachines);

// Programs of every kind of control instruction, and accesses between the launches, by chance.
TEST_P(RandomLaunches, OfProgramsThatSucceed) {
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
TEST_P(RandomLaunches, OfProgramsThatMayFail) {
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
