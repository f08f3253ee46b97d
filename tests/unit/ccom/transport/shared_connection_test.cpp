// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/shared_connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <random>
#include <set>
#include <vector>

#include "ccom/transport/arena_layout.h"

namespace neuron::ccom {
namespace {

struct ConnectedPair {
  explicit ConnectedPair(bool one_process = false) {
    for (auto& arena : arenas) arena = *Arena::create(ArenaLayout::of(2).heap + 4096);
    for (Rank rank = 0; rank < 2; ++rank) {
      SharedEnd end{rank, 1 - rank, 2, arenas[rank].get(), arenas[1 - rank].get(), one_process};
      ends[rank] = *make_shared_connection(end);
    }
  }
  std::unique_ptr<Arena> arenas[2];
  std::unique_ptr<Connection> ends[2];
};

TEST(SharedConnection, HandsMessagesOutInTheArenaWhereTheyLie) {
  ConnectedPair pair;
  std::byte* data = pair.arenas[0]->data() + ArenaLayout::of(2).heap;
  data[5] = std::byte{42};
  Signature signature;
  signature.count = 77;
  const MessageId id{1, 3, 9, 0};
  ASSERT_EQ(pair.ends[0]->send(id, data, 100, signature), Outcome::kDone);
  EXPECT_EQ(pair.ends[0]->sent(id), Outcome::kNotYet);
  Arrival arrival;
  EXPECT_EQ(pair.ends[1]->arrived({0, 3, 9, 0}, arrival), Outcome::kNotYet);
  ASSERT_EQ(pair.ends[1]->arrived(id, arrival), Outcome::kDone);
  EXPECT_EQ(arrival.bytes, 100u);
  EXPECT_EQ(arrival.signature->count, 77u);
  EXPECT_EQ(arrival.data[5], std::byte{42});
  data[5] = std::byte{43};
  EXPECT_EQ(arrival.data[5], std::byte{43});
  pair.ends[1]->consumed(id);
  EXPECT_EQ(pair.ends[0]->sent(id), Outcome::kDone);
}

TEST(SharedConnection, CopiesWhatThePeerCannotSee) {
  ConnectedPair pair;
  std::vector<std::byte> hidden(70000, std::byte{7});
  for (uint64_t n = 0; n < 1000; ++n) {
    const MessageId id{0, static_cast<uint16_t>(n % 3), 0, n};
    ASSERT_EQ(pair.ends[0]->send(id, hidden.data(), hidden.size(), {}), Outcome::kDone);
    Arrival arrival;
    ASSERT_EQ(pair.ends[1]->arrived(id, arrival), Outcome::kDone);
    ASSERT_EQ(std::memcmp(arrival.data, hidden.data(), hidden.size()), 0);
    pair.ends[1]->consumed(id);
  }
}

// Fresh pages for each message would cost more than its copy, and take a host's memory in the end.
TEST(SharedConnection, CopiesIntoAFewPlacesHoweverManyMessagesThereAre) {
  ConnectedPair pair;
  const std::vector<std::byte> hidden(70000);
  std::set<const std::byte*> places;
  for (uint64_t n = 0; n < 1000; ++n) {
    // Two are under way at a time, and are never all consumed.
    ASSERT_EQ(pair.ends[0]->send({0, 0, 0, n}, hidden.data(), hidden.size(), {}), Outcome::kDone);
    if (n == 0) continue;
    Arrival arrival;
    ASSERT_EQ(pair.ends[1]->arrived({0, 0, 0, n - 1}, arrival), Outcome::kDone);
    places.insert(arrival.data);
    pair.ends[1]->consumed({0, 0, 0, n - 1});
  }
  EXPECT_LE(places.size(), 3u);
}

// Random sizes, and a receiver that consumes in any order: no copy lies where another one is read.
TEST(SharedConnection, CopiesDoNotOverlapInWhicheverOrderTheyAreConsumed) {
  ConnectedPair pair;
  std::mt19937 random(5);
  struct Sent {
    MessageId id;
    std::vector<std::byte> bytes;
  };
  std::vector<Sent> under_way;
  for (uint64_t n = 0; n < 3000; ++n) {
    if (under_way.size() < 30) {
      Sent one{{0, static_cast<uint16_t>(random() % 8), 0, n},
               std::vector<std::byte>(1 + random() % 5000, static_cast<std::byte>(random()))};
      ASSERT_EQ(pair.ends[0]->send(one.id, one.bytes.data(), one.bytes.size(), {}), Outcome::kDone);
      under_way.push_back(std::move(one));
    }
    if (random() % 2 == 0 && under_way.size() < 30) continue;
    const size_t at = random() % under_way.size();
    Arrival arrival;
    ASSERT_EQ(pair.ends[1]->arrived(under_way[at].id, arrival), Outcome::kDone);
    ASSERT_EQ(arrival.bytes, under_way[at].bytes.size());
    ASSERT_EQ(std::memcmp(arrival.data, under_way[at].bytes.data(), arrival.bytes), 0) << n;
    pair.ends[1]->consumed(under_way[at].id);
    under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(at));
  }
}

TEST(SharedConnection, ARankThatFailedIsNotReadAnyMore) {
  ConnectedPair pair(true);
  std::vector<std::byte> data(100);
  const MessageId id{2, 0, 0, 0};
  ASSERT_EQ(pair.ends[0]->send(id, data.data(), data.size(), {}), Outcome::kDone);
  pair.ends[0]->withdraw(base::Deadline::after(std::chrono::seconds(5)));
  Arrival arrival;
  EXPECT_EQ(pair.ends[1]->arrived(id, arrival), Outcome::kFailed);
  EXPECT_EQ(pair.ends[1]->failure().status, CCOM_ABORTED);
  EXPECT_NE(pair.ends[1]->failure().sentence.find("rank 0 failed"), std::string::npos);
}

TEST(SharedConnection, ARankThatFailsWaitsForWhoReadsItsMemory) {
  ConnectedPair pair(true);
  std::vector<std::byte> data(100);
  const MessageId id{1, 0, 0, 0};
  ASSERT_EQ(pair.ends[0]->send(id, data.data(), data.size(), {}), Outcome::kDone);
  Arrival arrival;
  ASSERT_EQ(pair.ends[1]->arrived(id, arrival), Outcome::kDone);
  std::atomic<bool> read = false;
  auto withdrawn = std::async(std::launch::async, [&] {
    pair.ends[0]->withdraw(base::Deadline::after(std::chrono::seconds(5)));
    return read.load();
  });
  EXPECT_EQ(withdrawn.wait_for(std::chrono::milliseconds(5)), std::future_status::timeout);
  read = true;
  pair.ends[1]->consumed(id);
  EXPECT_TRUE(withdrawn.get());
}

TEST(SharedConnection, ARankThatFailsDoesNotWaitForWhatWasDeclined) {
  ConnectedPair pair(true);
  std::vector<std::byte> data(100);
  const MessageId id{1, 0, 0, 0};
  ASSERT_EQ(pair.ends[0]->send(id, data.data(), data.size(), {}), Outcome::kDone);
  Arrival arrival;
  ASSERT_EQ(pair.ends[1]->arrived(id, arrival), Outcome::kDone);
  pair.ends[1]->declined(id);
  const base::Moment begin = base::Clock::now();
  pair.ends[0]->withdraw(base::Deadline(begin + std::chrono::seconds(5)));
  EXPECT_LT(base::Clock::now(), begin + std::chrono::seconds(5));
}

TEST(SharedConnection, ASenderOfManyMessagesWaitsForTheReceiver) {
  ConnectedPair pair;
  uint64_t number = 0;
  while (number < 10000 &&
         pair.ends[0]->send({0, 0, 0, number}, nullptr, 0, {}) == Outcome::kDone) {
    ++number;
  }
  ASSERT_LT(number, 10000u);
  Arrival arrival;
  for (uint64_t n = 0; n < number; ++n) {
    ASSERT_EQ(pair.ends[1]->arrived({0, 0, 0, n}, arrival), Outcome::kDone);
    pair.ends[1]->consumed({0, 0, 0, n});
  }
  EXPECT_EQ(pair.ends[1]->progress(), Outcome::kDone);
  EXPECT_EQ(pair.ends[0]->send({0, 0, 0, number}, nullptr, 0, {}), Outcome::kDone);
  EXPECT_EQ(pair.ends[0]->sent({0, 0, 0, number - 1}), Outcome::kDone);
}

TEST(SharedConnection, RefusesADescriptorOutsideTheArena) {
  ConnectedPair pair;
  // As a process that writes nonsense into its ring.
  std::byte* ring =
      pair.arenas[0]->data() + ArenaLayout::of(2).connections + ArenaLayout::kConnectionBytes;
  const uint32_t kind = 1;
  const uint64_t place = pair.arenas[0]->size() - 10, bytes = 100, written = 1;
  std::memcpy(ring + 256, &kind, 4);
  std::memcpy(ring + 256 + 24, &place, 8);
  std::memcpy(ring + 256 + 32, &bytes, 8);
  std::memcpy(ring, &written, 8);
  Arrival arrival;
  EXPECT_EQ(pair.ends[1]->arrived({0, 0, 0, 0}, arrival), Outcome::kFailed);
  EXPECT_EQ(pair.ends[1]->failure().status, CCOM_MISMATCH);
}

TEST(Arena, PeersSeeOneAnothersMemory) {
  auto own = Arena::create(1);
  ASSERT_TRUE(own);
  EXPECT_EQ((*own)->size(), 2u << 20);
  auto other = Arena::map(dup((*own)->descriptor()));
  ASSERT_TRUE(other);
  (*own)->data()[12345] = std::byte{9};
  EXPECT_EQ((*other)->data()[12345], std::byte{9});
  EXPECT_TRUE((*own)->contains((*own)->data(), 2u << 20));
  EXPECT_FALSE((*own)->contains((*own)->data() + 1, 2u << 20));
}

TEST(Arena, RefusesWhatCouldShrinkUnderItsFeet) {
  EXPECT_EQ(Arena::map(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)).error().status,
            CCOM_INVALID);
  EXPECT_EQ(Arena::map(open("/dev/null", O_RDONLY)).error().status, CCOM_INVALID);
  EXPECT_EQ(Arena::create(0).error().status, CCOM_INVALID);
}

}  // namespace
}  // namespace neuron::ccom
