// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/runtime/collectives/fake_ccom.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeCcom;
using test::FakeMachine;

class Registry : public ::testing::Test {
 protected:
  void open(const std::string& root) {
    Configuration configuration;
    configuration.root = root;
    configuration.collectives_timeout_s = 7;
    session_ = std::move(*Session::open(configuration, {}));
  }
  Result<std::shared_ptr<World>> world(uint32_t core, uint32_t rank, uint32_t size) {
    return registry().world(*session_, **session_->core(core), rank, size);
  }
  CollectivesRegistry& registry() { return CollectivesRegistry::of(*session_); }

  FakeCcom fake_;
  FakeMachine machine_;
  std::unique_ptr<Session> session_;
};

TEST_F(Registry, IsOneOfItsSession) {
  open("");
  EXPECT_EQ(&registry(), &registry());
}

TEST_F(Registry, RefusesARankThatDoesNotExist) {
  open("");
  for (const auto& [rank, size] : {std::pair{0u, 0u}, {2u, 2u}}) {
    const auto refused = world(0, rank, size);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, NRT_INVALID);
    EXPECT_EQ(refused.error().sentence, "rank " + std::to_string(rank) + " of " +
                                            std::to_string(size) + " ranks does not exist");
  }
}

TEST_F(Registry, ManyRanksNeedAnAddressWhereTheyMeet) {
  open("");
  const auto refused = world(0, 0, 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_INVALID);
  EXPECT_EQ(refused.error().sentence,
            "3 ranks do not fit the 2 virtual cores of this process, and NEURON_RT_ROOT_COMM_ID "
            "(ADDRESS:PORT of rank 0), where those of other processes would meet, is not set");
  session_.reset();
  open("10.0.0.1:99");
  EXPECT_TRUE(world(0, 0, 3));
}

TEST_F(Registry, RanksOfTheProcessMeetInMemoryAndAreRemembered) {
  open("");
  std::shared_ptr<World> first, second;
  std::thread other([&] { second = *world(1, 1, 2); });
  first = *world(0, 0, 2);
  other.join();
  EXPECT_EQ(second->members()[0].core, 0u);
  EXPECT_EQ(first->members()[1].core, 1u);
  EXPECT_TRUE(fake_->joined.empty());
  EXPECT_EQ(*world(0, 0, 2), first) << "without the other rank";
  EXPECT_EQ(*world(1, 1, 2), second);
  const auto alone = world(0, 0, 1);
  ASSERT_TRUE(alone) << "a world of another size is another one";
  EXPECT_NE(*alone, first);
}

TEST_F(Registry, RanksOfProcessesMeetAtTheRootInTheTimeOfTheConfiguration) {
  open("10.0.0.1:99");
  const auto first = *world(1, 1, 2);
  ASSERT_EQ(fake_->joined.size(), 1u);
  EXPECT_EQ(fake_->joined[0].root, "10.0.0.1:99");
  EXPECT_EQ(fake_->joined[0].rank, 1u);
  EXPECT_EQ(fake_->joined[0].size, 2u);
  EXPECT_EQ(fake_->joined[0].options.timeout_ms, 7000u);
  EXPECT_EQ(*world(1, 1, 2), first);
  EXPECT_EQ(fake_->joined.size(), 1u);
}

TEST_F(Registry, AWorldThatHasFailedIsJoinedAnewWithoutItsCredits) {
  open("10.0.0.1:99");
  Core& core = **session_->core(0);
  const auto first = *world(0, 0, 2);
  core.collectives = CollectivesState::kClean;
  const uint32_t age = core.collectives_age;
  fake_->run = [](const ccom_collective_t&) { return CCOM_RANK_DEAD; };
  EXPECT_FALSE(first->barrier());
  fake_->run = nullptr;
  const auto second = world(0, 0, 2);
  ASSERT_TRUE(second);
  EXPECT_NE(*second, first);
  EXPECT_EQ(fake_->joined.size(), 2u);
  EXPECT_EQ(core.collectives, CollectivesState::kLost);
  EXPECT_EQ(core.collectives_age, age + 1);
}

TEST_F(Registry, ARankThatCannotJoinMayTryAgain) {
  open("10.0.0.1:99");
  fake_->init_result = CCOM_TIMEOUT;
  const auto refused = world(0, 0, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_TIMEOUT);
  fake_->init_result = CCOM_SUCCESS;
  EXPECT_TRUE(world(0, 0, 2));
}

}  // namespace
}  // namespace neuron::runtime
