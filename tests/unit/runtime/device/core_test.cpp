// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/udma.h"
#include "runtime/device/core_turn.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr uint32_t kEngines = 0x1F << 8;

uint64_t command_of(const Core& core) {
  return core.place().window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND;
}

TEST(NotificationReader, GivesEntriesOfItsPhaseInOrderAndAroundTheRing) {
  std::array<neuron_notification, 3> ring{};
  NotificationReader reader;
  neuron_notification entry;
  EXPECT_FALSE(reader.next(entry)) << "without a ring there is none";
  reader.attach(reinterpret_cast<const std::byte*>(ring.data()), sizeof(ring));
  EXPECT_FALSE(reader.next(entry));
  ring[0] = {.pc = 10, .word = 1};
  ring[1] = {.pc = 11, .word = 1};
  ASSERT_TRUE(reader.next(entry));
  EXPECT_EQ(entry.pc, 10u);
  EXPECT_EQ(reader.position(), 1u);
  ASSERT_TRUE(reader.next(entry));
  EXPECT_EQ(entry.pc, 11u);
  EXPECT_FALSE(reader.next(entry));
  ring[2] = {.pc = 12, .word = 3};
  ASSERT_TRUE(reader.next(entry));
  EXPECT_EQ(reader.position(), 0u) << "the ring begins anew";
  EXPECT_FALSE(reader.next(entry)) << "entries of the last round are old";
  ring[0] = {.pc = 13, .word = 2};
  ASSERT_TRUE(reader.next(entry));
  EXPECT_EQ(entry.pc, 13u);
}

TEST(Core, ReadsWhatItsCollectiveCoresTellUntilAnotherQueueReplacesTheirs) {
  FakeMachine machine;
  const auto core = machine.core(1);
  auto first = core->notifications_of(2, 100);
  ASSERT_TRUE(first) << first.error().sentence;
  const auto& asked = machine.state.notifications.back();
  const uint32_t number = 1 * core->place().chip->cc_cores + 2;
  EXPECT_EQ(asked.nq_dev_id, number);
  EXPECT_EQ(asked.size, 128 * sizeof(neuron_notification)) << "a power of two, with a free entry";
  const uint64_t mode = core->place().chip->cc_notification(number) +
                        NEURON_NQ_BASE(NEURON_NQ_SLOT_NOTIFY) + NEURON_NQ_MODE;
  EXPECT_EQ(machine.state.written.back(), (std::pair<uint64_t, uint32_t>(mode, 1)));
  neuron_notification entry{};
  EXPECT_FALSE((*first)->next(entry));
  EXPECT_FALSE((*first)->closed());
  const auto second = core->notifications_of(2, 100);
  ASSERT_TRUE(second) << second.error().sentence;
  EXPECT_TRUE((*first)->closed()) << "its memory is freed";
  EXPECT_FALSE((*first)->next(entry));
  EXPECT_FALSE((*second)->closed());
}

TEST(Core, HasRecordsInOnePageOfHostMemory) {
  FakeMachine machine;
  const auto core = machine.core(1);
  EXPECT_EQ(core->launch_address(), core->completion_address() + 64);
  EXPECT_EQ(core->work_address(), core->completion_address() + 128);
  auto* page = machine.state.bytes_at(core->completion_address());
  EXPECT_EQ(reinterpret_cast<std::byte*>(&core->completion()), page);
  EXPECT_EQ(reinterpret_cast<std::byte*>(&core->launch()), page + 64);
  EXPECT_EQ(core->completion().sequence, 0u);
  uint32_t one = 0;
  ASSERT_TRUE(core->one().read(&one, 0, 4));
  EXPECT_EQ(one, 1u);
  EXPECT_EQ(core->number(), 1u);
  EXPECT_EQ(core->hbm(), 1u);
  EXPECT_EQ(core->semaphore_inc(3),
            core->window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 12);
}

TEST(Core, StartsByHaltingAndHasATraceRingForEachEngineAndOneForErrors) {
  FakeMachine machine;
  const auto core = machine.core();
  EXPECT_EQ(machine.state.written.front().first, command_of(*core));
  EXPECT_EQ(machine.state.written.front().second, NEURON_CMD_RESET | kEngines | 7u << 13);
  ASSERT_EQ(machine.state.notifications.size(), NEURON_CORE_ENGINES + 1u);
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const auto& queue = machine.state.notifications[engine];
    EXPECT_EQ(queue.nq_type, static_cast<uint32_t>(NQ_TYPE_TRACE));
    EXPECT_EQ(queue.engine_index, static_cast<uint32_t>(NEURON_NQ_SLOT_TRACE(engine)));
    EXPECT_EQ(queue.size, 64u * NEURON_NOTIFICATION_BYTES);
    EXPECT_EQ(queue.force_alloc_mem, 1u);
    EXPECT_EQ(
        machine.state.registers[core->place().notification() +
                                NEURON_NQ_BASE(NEURON_NQ_SLOT_TRACE(engine)) + NEURON_NQ_MODE],
        1u)
        << "old entries are overwritten";
  }
  const auto& errors = machine.state.notifications.back();
  EXPECT_EQ(errors.nq_type, static_cast<uint32_t>(NQ_TYPE_ERROR));
  EXPECT_EQ(machine.state.registers.count(core->place().notification() +
                                          NEURON_NQ_BASE(NEURON_NQ_SLOT_ERROR) + NEURON_NQ_MODE),
            0u)
      << "an error is kept until it was read";
}

TEST(Core, TellsTheDeviceHowFarErrorsWereRead) {
  FakeMachine machine;
  const auto core = machine.core();
  ASSERT_TRUE(core->acknowledge_errors());
  EXPECT_THAT(
      machine.state.written.back(),
      Pair(core->place().notification() + NEURON_NQ_BASE(NEURON_NQ_SLOT_ERROR) + NEURON_NQ_HEAD,
           core->errors.position()));
}

TEST(Core, HaltsInTwoStepsWhileOtherRanksCreditsAreThere) {
  FakeMachine machine;
  const auto core = machine.core();
  core->collectives = CollectivesState::kClean;
  core->current_model = &machine;
  core->current_binding = &machine;
  machine.state.written.clear();
  ASSERT_TRUE(core->halt());
  const uint32_t sp = 1u << NEURON_ENGINE_SP;
  EXPECT_THAT(machine.state.written,
              ElementsAre(Pair(command_of(*core), NEURON_CMD_RESET | (0x1Fu & ~sp) << 8 | 7u << 13),
                          Pair(command_of(*core), NEURON_CMD_RESET | sp << 8)));
  EXPECT_EQ(core->current_model, nullptr);
  EXPECT_EQ(core->current_binding, nullptr);
  core->collectives = CollectivesState::kLost;
  machine.state.written.clear();
  ASSERT_TRUE(core->halt());
  EXPECT_EQ(machine.state.written.size(), 1u);
}

// A write to a PCI device may still be on its way when its call has returned; a read pushes it.
TEST(Core, HasHaltedWhenARegisterWasReadBehindTheLastReset) {
  FakeMachine machine;
  const auto core = machine.core();
  const uint64_t status = core->place().window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_STATUS;
  for (const auto state : {CollectivesState::kClean, CollectivesState::kLost}) {
    core->collectives = state;
    std::vector<std::pair<char, uint64_t>> accesses;
    machine.state.on_write = [&](uint64_t offset, uint32_t) { accesses.emplace_back('w', offset); };
    machine.state.on_read = [&](uint64_t offset) { accesses.emplace_back('r', offset); };
    ASSERT_TRUE(core->halt());
    machine.state.on_write = nullptr;
    machine.state.on_read = nullptr;
    ASSERT_GE(accesses.size(), 2u);
    EXPECT_EQ(accesses.end()[-2], std::pair('w', command_of(*core)));
    EXPECT_EQ(accesses.back(), std::pair('r', status));
  }
}

TEST(Core, ForgetsCollectivesOnlyIfItEverHadSome) {
  FakeMachine machine;
  const auto core = machine.core();
  core->lose_collectives();
  EXPECT_EQ(core->collectives, CollectivesState::kUnknown);
  EXPECT_EQ(core->collectives_age, 0u);
  core->collectives = CollectivesState::kClean;
  core->lose_collectives();
  EXPECT_EQ(core->collectives, CollectivesState::kLost);
  EXPECT_EQ(core->collectives_age, 1u);
}

TEST(Core, WorksAgainAfterARecovery) {
  FakeMachine machine;
  const auto core = machine.core(1);
  core->current_model = &machine;
  core->completion().sequence = 9;
  core->collectives = CollectivesState::kClean;
  machine.state.notifications.clear();
  ASSERT_TRUE(core->recover());
  EXPECT_THAT(machine.state.resets, ElementsAre(2u)) << "this core alone";
  EXPECT_EQ(core->current_model, nullptr);
  EXPECT_EQ(core->completion().sequence, 0u);
  EXPECT_EQ(core->collectives, CollectivesState::kLost);
  EXPECT_EQ(machine.state.notifications.size(), NEURON_CORE_ENGINES + 1u);
  EXPECT_FALSE(core->unusable());
}

TEST(Core, IsUnusableOnceAResetHasFailed) {
  for (const auto& [call, what] :
       {std::pair{NEURON_IOCTL_NC_RESET, "asking for a reset"},
        std::pair{NEURON_IOCTL_NC_RESET_READY, "waiting for the reset"},
        std::pair{NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, "notification queue"}}) {
    FakeMachine machine;
    const auto core = machine.core();
    machine.state.failing[call] = -EIO;
    const auto recovered = core->recover();
    ASSERT_FALSE(recovered);
    EXPECT_THAT(recovered.error().sentence, HasSubstr(what));
    EXPECT_THAT(recovered.error().sentence,
                HasSubstr("device 0 core 0 cannot be used until the runtime is closed and "
                          "initialised again"));
    EXPECT_TRUE(core->unusable());
  }
}

TEST(Core, DoesNotTrustAResetThatIsNotDone) {
  FakeMachine machine;
  const auto core = machine.core();
  machine.state.reset_result = 1;
  EXPECT_FALSE(core->recover());
  EXPECT_TRUE(core->unusable());
}

TEST(Core, CountsTheWorkSinceItWasAskedLast) {
  FakeMachine machine;
  const auto core = machine.core();
  auto* work = reinterpret_cast<neuron_work_record*>(machine.state.bytes_at(core->work_address()));
  *work = {};
  work->executions = 2;
  work->model_ps = 100;
  work->collectives_ps = 10;
  work->engine_busy_ps[4] = 7;
  work->multiply_accumulates = 8;
  work->dma_bytes = 9;
  work->link_bytes = 11;
  EXPECT_EQ(core->take_work().model_ps, 100u);
  work->executions = 3;
  work->model_ps = 150;
  work->collectives_ps = 12;
  work->engine_busy_ps[4] = 8;
  work->multiply_accumulates = 18;
  work->dma_bytes = 19;
  work->link_bytes = 12;
  const neuron_work_record done = core->take_work();
  EXPECT_EQ(done.executions, 1u);
  EXPECT_EQ(done.model_ps, 50u);
  EXPECT_EQ(done.collectives_ps, 2u);
  EXPECT_EQ(done.engine_busy_ps[4], 1u);
  EXPECT_EQ(done.multiply_accumulates, 10u);
  EXPECT_EQ(done.dma_bytes, 10u);
  EXPECT_EQ(done.link_bytes, 1u);
  EXPECT_EQ(core->take_work().model_ps, 0u);
}

TEST(CoreTurn, IsGivenBackAtItsEnd) {
  FakeMachine machine;
  const auto core = machine.core();
  {
    const auto turn = CoreTurn::take(*core);
    ASSERT_TRUE(turn);
    EXPECT_FALSE(core->turn.try_lock());
  }
  EXPECT_TRUE(core->turn.try_lock());
  core->turn.unlock();
}

TEST(CoreTurn, GivesUpAtTheCoresLimitAndSaysSo) {
  FakeMachine machine;
  const auto core = machine.core(0, 0);
  const auto turn = CoreTurn::take(*core);
  ASSERT_TRUE(turn);
  const auto second = CoreTurn::take(*core);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, NRT_TIMEOUT);
  EXPECT_EQ(second.error().sentence,
            "device 0 core 0 was busy with other executions for 0 s (2 x NEURON_RT_EXEC_TIMEOUT)");
}

}  // namespace
}  // namespace neuron::runtime
