// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>
#include <thread>

#include "runtime/collectives/instance_key.h"
#include "runtime/collectives/ultra_server.h"
#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/unit/runtime/collectives/fake_ccom.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeCcom;
using test::FakeMachine;
using test::Setting;
using ::testing::HasSubstr;

constexpr const char* kRoot = "10.0.0.1:99";

Message message_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(const Message& message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

// Answers ccom_run as `others` would: each gets what this rank, which is 0, has given and changes
// its own copy.
auto gather_with(uint32_t size,
                 std::function<void(uint32_t rank, std::byte* message, uint64_t)> change) {
  return [=](const ccom_collective_t& c) {
    auto* all = static_cast<std::byte*>(c.output);
    for (uint32_t rank = 0; rank < size; ++rank) {
      std::memcpy(all + rank * c.count, c.input, c.count);
      if (rank != 0) change(rank, all + rank * c.count, c.count);
    }
    return CCOM_SUCCESS;
  };
}

class WorldOfOneProcess : public ::testing::Test {
 protected:
  // Ranks 0 and 1 on cores of their own, or both on core 0.
  void join(milliseconds timeout = seconds(20), uint32_t second_core = 1) {
    cores_[0] = machine_.core(0);
    cores_[1] = machine_.core(second_core);
    auto meeting = std::make_shared<Meeting>(2);
    std::thread other([&] { ranks_[1] = *World::join(*cores_[1], 1, 2, meeting, "", timeout); });
    ranks_[0] = *World::join(*cores_[0], 0, 2, meeting, "", timeout);
    other.join();
  }

  FakeCcom fake_;
  FakeMachine machine_;
  std::array<std::unique_ptr<Core>, 2> cores_;
  std::array<std::shared_ptr<World>, 2> ranks_;
};

TEST_F(WorldOfOneProcess, EachRankTellsWhereItComputes) {
  const Setting emulator("NEURON_EMULATOR", "trn1.2xlarge");
  machine_.state.routing_ids = {5};
  join();
  for (const auto& world : ranks_) {
    ASSERT_EQ(world->members().size(), 2u);
    EXPECT_EQ(world->size(), 2u);
    for (uint32_t r = 0; r < 2; ++r) {
      const MemberPlace& place = world->members()[r];
      char host[64] = {};
      gethostname(host, sizeof(host) - 1);
      EXPECT_STREQ(place.host, host);
      EXPECT_EQ(place.process, getpid());
      EXPECT_EQ(place.embedded, 1u);
      EXPECT_EQ(place.device, 0u);
      EXPECT_EQ(place.chip, 5u);
      EXPECT_EQ(place.core, r);
      EXPECT_EQ(place.generation, 2u);
    }
    EXPECT_TRUE(world->check_reachable());
  }
  EXPECT_EQ(ranks_[1]->rank(), 1u);
  EXPECT_TRUE(fake_->joined.empty()) << "ranks of one process need no communicator";
}

TEST_F(WorldOfOneProcess, OnlyAnEmulatorInTheProcessIsItsOwn) {
  for (const auto& [value, embedded] :
       {std::pair{"unix:/run/neuron.socket", 0u}, {"", 0u}, {"trn1.2xlarge", 1u}}) {
    const Setting emulator("NEURON_EMULATOR", value);
    join();
    EXPECT_EQ(ranks_[0]->members()[1].embedded, embedded) << value;
  }
}

TEST_F(WorldOfOneProcess, ADeviceWithoutARoutingIdIsRefused) {
  const auto core = machine_.core();
  machine_.state.routing_ids = {};
  const auto meeting = std::make_shared<Meeting>(1);
  EXPECT_FALSE(World::join(*core, 0, 1, meeting, "", seconds(1)));
  machine_.state.routing_ids = {0};
  machine_.state.failing[NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP] = -EIO;
  const auto world = World::join(*core, 0, 1, meeting, "", seconds(1));
  ASSERT_FALSE(world);
  EXPECT_EQ(world.error().status, NRT_FAILURE);
  EXPECT_THAT(world.error().sentence, HasSubstr("asking for the routing id of device 0"));
}

TEST_F(WorldOfOneProcess, TwoRanksNeedTwoCores) {
  join(seconds(20), 0);
  const auto reachable = ranks_[0]->check_reachable();
  ASSERT_FALSE(reachable);
  EXPECT_EQ(reachable.error().status, NRT_INVALID);
  EXPECT_EQ(reachable.error().sentence,
            "ranks 0 and 1 are both on device 0 core 0; each needs a core of its own");
}

TEST_F(WorldOfOneProcess, EachRankGetsWhatAllHaveGiven) {
  join();
  uint64_t numbers[2] = {};
  std::thread other([&] {
    const auto all = ranks_[1]->exchange(Occasion::kAllGather, message_of("world"), &numbers[1]);
    ASSERT_TRUE(all);
    EXPECT_EQ(text_of(all->at(0)), "hello");
  });
  const auto all = ranks_[0]->exchange(Occasion::kAllGather, message_of("hello"), &numbers[0]);
  other.join();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(text_of(all->at(0)), "hello");
  EXPECT_EQ(text_of(all->at(1)), "world");
  EXPECT_EQ(numbers[0], 2u) << "behind that of joining";
  EXPECT_EQ(numbers[1], 2u);
}

TEST_F(WorldOfOneProcess, RanksThatAreInDifferentCallsAreToldBoth) {
  const std::pair<Occasion, const char*> occasions[] = {
      {Occasion::kJoin, "joins"},
      {Occasion::kBarrier, "is in nrt_barrier"},
      {Occasion::kAllGather, "is in nrt_all_gather"},
      {Occasion::kLoad, "brings a model with collectives"},
      {Occasion::kReady, "has made a model with collectives ready"}};
  join();
  for (const auto& [occasion, words] : occasions) {
    std::thread other([&] { EXPECT_FALSE(ranks_[1]->exchange(Occasion::kPrepare, {})); });
    const auto all = ranks_[0]->exchange(occasion, {});
    other.join();
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().status, NRT_INVALID);
    EXPECT_EQ(all.error().sentence,
              std::string("rank 0 ") + words +
                  " while rank 1 is in nrta_cc_prepare; all ranks make the same calls in the same "
                  "order");
  }
}

TEST_F(WorldOfOneProcess, ARankThatWaitsInVainIsToldWhoDidNotComeAndComesAgain) {
  join(milliseconds(1000));
  const auto alone = ranks_[0]->barrier();
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().status, NRT_TIMEOUT);
  EXPECT_THAT(alone.error().sentence, HasSubstr("rank 0 waited 1 s for the other ranks"));
  EXPECT_THAT(alone.error().sentence, HasSubstr("rank 1 of 2 did not come"));
  EXPECT_FALSE(ranks_[0]->failed()) << "they may meet again";
  std::thread other([&] { EXPECT_TRUE(ranks_[1]->barrier()); });
  EXPECT_TRUE(ranks_[0]->barrier());
  other.join();
}

TEST_F(WorldOfOneProcess, OneThreadOfARankHoldsExchangesTogether) {
  join(milliseconds(1000));
  auto held = ranks_[1]->hold();
  ASSERT_TRUE(held);
  std::thread second([&] {
    const auto refused = ranks_[1]->hold();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, NRT_TIMEOUT);
    EXPECT_EQ(refused.error().sentence,
              "another thread of rank 1 has waited 1 s for the other ranks");
  });
  second.join();
  held->unlock();
  EXPECT_TRUE(ranks_[1]->hold());
}

TEST_F(WorldOfOneProcess, AFailureIsToldToTheOtherRank) {
  join();
  EXPECT_EQ(ranks_[0]->failure_since(1), std::nullopt);
  ranks_[1]->note_failure("a NaN");
  EXPECT_EQ(ranks_[0]->failure_since(1), "rank 1 has failed (a NaN)");
  EXPECT_TRUE(ranks_[0]->check_peers());
}

class WorldOfProcesses : public ::testing::Test {
 protected:
  WorldOfProcesses() : core_(machine_.core()) {
    // The other rank is on the other core.
    fake_->run = gather_with(2, [](uint32_t, std::byte* message, uint64_t bytes) {
      if (bytes != 1 + sizeof(MemberPlace)) return;
      MemberPlace place;
      std::memcpy(&place, message + 1, sizeof(place));
      place.core = 1;
      std::memcpy(message + 1, &place, sizeof(place));
    });
  }
  Result<std::shared_ptr<World>> join(uint32_t size = 2) {
    return World::join(*core_, 0, size, nullptr, kRoot, milliseconds(5000));
  }
  // Lets the place of the other rank be another.
  void change(std::function<void(MemberPlace&)> how) {
    fake_->run = gather_with(2, [=](uint32_t, std::byte* message, uint64_t bytes) {
      if (bytes != 1 + sizeof(MemberPlace)) return;
      MemberPlace place;
      std::memcpy(&place, message + 1, sizeof(place));
      place.core = 1;
      how(place);
      std::memcpy(message + 1, &place, sizeof(place));
    });
  }
  std::string unreachable(std::function<void(MemberPlace&)> how) {
    change(how);
    const auto world = join();
    if (!world) return world.error().sentence;
    const auto reachable = (*world)->check_reachable();
    if (reachable) return "reachable";
    status_ = reachable.error().status;
    return reachable.error().sentence;
  }

  const Setting emulator_{"NEURON_EMULATOR", nullptr};
  FakeCcom fake_;
  FakeMachine machine_;
  std::unique_ptr<Core> core_;
  NRT_STATUS status_ = NRT_SUCCESS;
};

TEST_F(WorldOfProcesses, JoinsAtTheRootWithTheTimeThatTheRuntimeHas) {
  {
    const auto world = join();
    ASSERT_TRUE(world) << world.error().sentence;
    ASSERT_EQ(fake_->joined.size(), 1u);
    const auto& joined = fake_->joined.front();
    EXPECT_EQ(joined.rank, 0u);
    EXPECT_EQ(joined.size, 2u);
    EXPECT_EQ(joined.root, kRoot);
    EXPECT_EQ(joined.options.size_of, sizeof(ccom_options_t));
    EXPECT_EQ(joined.options.timeout_ms, 5000u);
    EXPECT_EQ(joined.options.local_device, 0u);
    ASSERT_EQ(fake_->ran.size(), 2u) << "how long the messages are, and the messages";
    for (const ccom_collective_t& ran : fake_->ran) {
      EXPECT_EQ(ran.size_of, sizeof(ccom_collective_t));
      EXPECT_EQ(ran.operation, CCOM_ALL_GATHER);
      EXPECT_EQ(ran.type, CCOM_UINT8);
      EXPECT_EQ(ran.timeout_ms, 5000u);
    }
    EXPECT_EQ(fake_->ran[0].count, 8u);
    EXPECT_TRUE((*world)->check_reachable());
    EXPECT_EQ(fake_->communicators, 1);
  }
  EXPECT_EQ(fake_->communicators, 0) << "a world frees its communicator";
}

TEST_F(WorldOfProcesses, SaysWhyItCannotJoinWithTheVariableOfTheRuntime) {
  fake_->init_result = CCOM_TIMEOUT;
  fake_->last_error = "rank 1 did not come in 5 s (CCOM_TIMEOUT_MS)";
  const auto world = join();
  ASSERT_FALSE(world);
  EXPECT_EQ(world.error().status, NRT_TIMEOUT);
  EXPECT_EQ(world.error().sentence,
            "joining at 10.0.0.1:99: rank 1 did not come in 5 s (NEURON_OPEN_COLLECTIVES_TIMEOUT)");
  fake_->last_error = "no such address";
  EXPECT_EQ(join().error().sentence, "joining at 10.0.0.1:99: no such address");
  EXPECT_EQ(fake_->communicators, 0);
}

TEST_F(WorldOfProcesses, NameRanksWhoseProcessesASignalHasStoppedIfTheySeeThem) {
  test::Process sleeper({"sleep", "60"});
  change([&](MemberPlace& other) { other.process = sleeper.pid(); });
  const auto world = join();
  ASSERT_TRUE(world) << world.error().sentence;
  EXPECT_EQ((*world)->stopped_ranks(), "");
  EXPECT_TRUE((*world)->sees_all_processes());
  sleeper.signal(SIGSTOP);
  char host[64] = {};
  gethostname(host, sizeof(host) - 1);
  const std::string expected = "rank 1 (process " + std::to_string(sleeper.pid()) + " on " + host +
                               ") is stopped by a signal";
  EXPECT_TRUE(test::eventually([&] { return (*world)->stopped_ranks() == expected; }))
      << (*world)->stopped_ranks();
  // In another container the number is that of another process.
  change([&](MemberPlace& other) {
    other.process = sleeper.pid();
    other.process_space += 1;
  });
  const auto apart = join();
  ASSERT_TRUE(apart) << apart.error().sentence;
  EXPECT_EQ((*apart)->stopped_ranks(), "");
  EXPECT_FALSE((*apart)->sees_all_processes());
}

TEST_F(WorldOfProcesses, AMemberOfAnotherVersionIsRefused) {
  fake_->run = [](const ccom_collective_t& c) {
    auto* all = static_cast<std::byte*>(c.output);
    std::memcpy(all, c.input, c.count);
    std::memcpy(all + c.count, c.input, c.count);
    if (c.count == 8) all[8] = std::byte{8};  // the second message is a short one
    return CCOM_SUCCESS;
  };
  const auto world = join();
  ASSERT_FALSE(world);
  EXPECT_EQ(world.error().status, NRT_INVALID);
  EXPECT_EQ(world.error().sentence, "a rank runs another version of libnrt.so.1");
}

TEST_F(WorldOfProcesses, RanksAreReachableWithChipsOfOneGenerationAndCoresOfTheirOwn) {
  EXPECT_EQ(unreachable([](MemberPlace& p) { p.process += 1; }), "reachable");
  EXPECT_EQ(unreachable([](MemberPlace& p) { p.instance_key += 1; }), "reachable");
  EXPECT_EQ(unreachable([](MemberPlace& p) { p.generation = 3; }),
            "rank 0 has a chip of generation 2, rank 1 one of generation 3");
  EXPECT_EQ(unreachable([](MemberPlace& p) { p.core = 0; }),
            "ranks 0 and 1 are both on device 0 core 0; each needs a core of its own");
  EXPECT_EQ(unreachable([](MemberPlace& p) {
              p.core = 0;
              p.chip = 9;
            }),
            "reachable");
  EXPECT_EQ(unreachable([](MemberPlace& p) {
              p.core = 0;
              p.instance_key += 1;
            }),
            "reachable")
      << "each instance has a core 0";
}

TEST_F(WorldOfProcesses, InstancesAreNumberedByTheirFirstRank) {
  change([](MemberPlace& p) { p.instance_key += 1; });
  const auto world = join();
  ASSERT_TRUE(world) << world.error().sentence;
  EXPECT_EQ((*world)->members()[0].instance, 0u);
  EXPECT_EQ((*world)->members()[1].instance, 1u);
  EXPECT_TRUE((*world)->spans_instances());
}

TEST_F(WorldOfProcesses, NodesOfAnUltraServerAreOneInstanceAndTheirRanksAreNumbered) {
  const auto alone = join();
  ASSERT_TRUE(alone);
  EXPECT_EQ((*alone)->members()[0].node, 0u);
  EXPECT_EQ((*alone)->members()[0].credit, 0u) << "chip and core number it";
  EXPECT_EQ((*alone)->credit_numbering(), 0u);
  machine_.state.pod.v1.state = NEURON_POD_E_STATE_ULTRASERVER;
  machine_.state.pod.v1.pod_sz = 4;
  machine_.state.pod.v1.node_id = 2;
  machine_.state.pod.v1.pod_id[0] = 9;
  change([](MemberPlace& p) {
    p.core = 0;
    p.node = 3;
  });
  const auto world = join();
  ASSERT_TRUE(world) << world.error().sentence;
  EXPECT_TRUE((*world)->check_reachable()) << "each node has a core 0";
  EXPECT_FALSE((*world)->spans_instances());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const MemberPlace& member = (*world)->members()[rank];
    EXPECT_EQ(member.instance, 0u);
    EXPECT_EQ(member.node, 2 + rank);
    EXPECT_EQ(member.credit, 1 + rank);
    EXPECT_EQ(member.instance_key, instance_key_of_ultra_server(9));
  }
  EXPECT_NE((*world)->credit_numbering(), 0u);
  // A rank of an instance that is no node of it.
  change([](MemberPlace& p) { p.instance_key += 1; });
  const auto mixed = join();
  ASSERT_TRUE(mixed);
  EXPECT_TRUE((*mixed)->spans_instances());
  EXPECT_EQ((*mixed)->credit_numbering(), 0u);
}

// Three nodes in turn. A CC core counts the credits of 128 ranks.
TEST_F(WorldOfProcesses,
       NodesOfAnUltraServerAreInstancesWhereItsRanksAreMoreThanCreditsAreCountedOf) {
  machine_.state.pod.v1.state = NEURON_POD_E_STATE_ULTRASERVER;
  machine_.state.pod.v1.pod_sz = 4;
  machine_.state.pod.v1.node_id = 0;
  for (const uint32_t ranks : {128u, 129u}) {
    fake_->run = gather_with(ranks, [](uint32_t rank, std::byte* message, uint64_t bytes) {
      if (bytes != 1 + sizeof(MemberPlace)) return;
      MemberPlace place;
      std::memcpy(&place, message + 1, sizeof(place));
      place.node = rank % 3;
      place.chip = rank / 3 / 8;
      place.core = rank / 3 % 8;
      std::memcpy(message + 1, &place, sizeof(place));
    });
    const auto world = join(ranks);
    ASSERT_TRUE(world) << world.error().sentence;
    EXPECT_TRUE((*world)->check_reachable());
    EXPECT_EQ((*world)->spans_instances(), ranks == 129);
    EXPECT_EQ((*world)->credit_numbering() == 0, ranks == 129);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const MemberPlace& member = (*world)->members()[rank];
      EXPECT_EQ(member.instance, ranks == 129 ? rank % 3 : 0);
      EXPECT_EQ(member.node, rank % 3);
      EXPECT_EQ(member.credit, ranks == 129 ? 0 : 1 + rank);
    }
  }
}

TEST_F(WorldOfProcesses, ANodeThatIsOnItsOwnIsAnInstance) {
  machine_.state.pod.v1.pod_sz = 4;
  machine_.state.pod.v1.node_id = 1;
  for (const uint32_t state : {NEURON_POD_E_STATE_SINGLE_NODE, NEURON_POD_E_STATE_FAILED}) {
    machine_.state.pod.v1.state = state;
    EXPECT_FALSE(ultra_server_of(0, ""));
  }
  machine_.state.pod.v1.state = NEURON_POD_E_STATE_ULTRASERVER;
  ASSERT_TRUE(ultra_server_of(0, ""));
  EXPECT_EQ(ultra_server_of(0, "")->node, 1u);
  machine_.state.pod.v1.node_id = 4;
  EXPECT_FALSE(ultra_server_of(0, "")) << "no address names it";
  machine_.state.failing[NEURON_IOCTL_POD_STATUS_V2] = -EBUSY;
  EXPECT_FALSE(ultra_server_of(0, "")) << "it is electing";
}

TEST_F(WorldOfProcesses, DevicesOfAProcessAreAnInstanceOfTheirOwn) {
  uint64_t shared = 0, own = 0;
  for (const char* emulator : {"", "trn1.2xlarge"}) {
    const Setting setting("NEURON_EMULATOR", emulator);
    change([](MemberPlace&) {});
    const auto world = join();
    ASSERT_TRUE(world) << world.error().sentence;
    EXPECT_FALSE((*world)->spans_instances());
    (*emulator == 0 ? shared : own) = (*world)->members()[0].instance_key;
  }
  EXPECT_NE(shared, own);
}

TEST_F(WorldOfProcesses, MessagesMayHaveDifferentLengths) {
  const auto world = join();
  ASSERT_TRUE(world);
  fake_->run = [](const ccom_collective_t& c) {
    auto* all = static_cast<std::byte*>(c.output);
    std::memcpy(all, c.input, c.count);
    if (c.count == 8) {
      const uint64_t length = 7;
      std::memcpy(all + 8, &length, 8);
    } else {
      EXPECT_EQ(c.count, 7u) << "as long as the longest";
      std::memcpy(all + c.count, c.input, 1);
      std::memcpy(all + c.count + 1, "longer", 6);
    }
    return CCOM_SUCCESS;
  };
  uint64_t number = 0;
  const auto all = (*world)->exchange(Occasion::kBarrier, message_of("ab"), &number);
  ASSERT_TRUE(all) << all.error().sentence;
  EXPECT_EQ(text_of(all->at(0)), "ab");
  EXPECT_EQ(text_of(all->at(1)), "longer");
  EXPECT_EQ(number, 2u);
}

TEST_F(WorldOfProcesses, ARankOfAnotherVersionSaysNothingThatIsKnown) {
  const auto world = join();
  ASSERT_TRUE(world);
  fake_->run = gather_with(2, [](uint32_t, std::byte* message, uint64_t bytes) {
    if (bytes == 1) message[0] = std::byte{6};
  });
  const auto barrier = (*world)->barrier();
  ASSERT_FALSE(barrier);
  EXPECT_THAT(barrier.error().sentence,
              HasSubstr("rank 0 is in nrt_barrier while rank 1 runs another version of "
                        "libnrt.so.1;"));
  fake_->run = [](const ccom_collective_t& c) {
    std::memset(c.output, 0, 2 * c.count);
    std::memcpy(c.output, c.input, c.count);
    return CCOM_SUCCESS;
  };
  EXPECT_THAT((*world)->barrier().error().sentence, HasSubstr("runs another version"))
      << "a message of no byte";
}

TEST_F(WorldOfProcesses, HasFailedAfterAnExchangeThatFailed) {
  const auto world = join();
  ASSERT_TRUE(world);
  EXPECT_FALSE((*world)->failed());
  fake_->run = [](const ccom_collective_t&) { return CCOM_RANK_DEAD; };
  fake_->last_error = "rank 1 has ended";
  const auto barrier = (*world)->barrier();
  ASSERT_FALSE(barrier);
  EXPECT_EQ(barrier.error().status, NRT_FAILURE);
  EXPECT_EQ(barrier.error().sentence, "rank 1 has ended");
  EXPECT_TRUE((*world)->failed());
}

TEST_F(WorldOfProcesses, APeerThatIsGoneIsNamedWithoutAWait) {
  const auto world = join();
  ASSERT_TRUE(world);
  EXPECT_TRUE((*world)->check_peers());
  EXPECT_FALSE((*world)->failed());
  fake_->status = CCOM_RANK_DEAD;
  fake_->last_error = "rank 1 has ended";
  fake_->run = [](const ccom_collective_t&) { return CCOM_RANK_DEAD; };
  const auto peers = (*world)->check_peers();
  ASSERT_FALSE(peers);
  EXPECT_EQ(peers.error().sentence, "rank 1 has ended");
  EXPECT_EQ(fake_->ran.back().count, 1u);
  EXPECT_TRUE((*world)->failed());
  // A library that does not fail the next call either.
  fake_->run = nullptr;
  EXPECT_EQ((*world)->check_peers().error().sentence, "another rank is gone");
}

TEST_F(WorldOfProcesses, OneThreadOfARankIsInAnExchangeAtATime) {
  const auto world = World::join(*core_, 0, 2, nullptr, kRoot, milliseconds(1000));
  ASSERT_TRUE(world);
  std::promise<void> begun, over;
  fake_->run = [&](const ccom_collective_t&) {
    begun.set_value();
    over.get_future().wait_for(seconds(60));
    return CCOM_ABORTED;
  };
  std::thread first([&] { EXPECT_FALSE((*world)->barrier()); });
  begun.get_future().wait();
  const auto second = (*world)->barrier();
  over.set_value();
  first.join();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, NRT_TIMEOUT);
  EXPECT_EQ(second.error().sentence, "another thread of rank 0 has waited 1 s for the other ranks");
}

TEST_F(WorldOfProcesses, FailuresTravelWithTheNumberOfExchanges) {
  const auto world = join();
  ASSERT_TRUE(world);
  ASSERT_TRUE((*world)->barrier());
  (*world)->note_failure("a reset");
  ASSERT_EQ(fake_->told.size(), 1u);
  EXPECT_EQ(fake_->told[0].number, 2u);
  EXPECT_EQ(fake_->told[0].sentence, "a reset");
  EXPECT_EQ((*world)->failure_since(0), std::nullopt);
  ccom_notice_t notice{sizeof(notice), 2, 1, "a NaN"};
  fake_->notices = {notice};
  EXPECT_EQ((*world)->failure_since(2), "rank 1 has failed (a NaN)");
  EXPECT_EQ((*world)->failure_since(3), std::nullopt);
}

}  // namespace
}  // namespace neuron::runtime
