// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/local_bootstrap.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

void on_all(std::vector<std::unique_ptr<Bootstrap>>& ranks,
            const std::function<void(Bootstrap&)>& work) {
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    threads.emplace_back([&work, &rank] { work(*rank); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

Bytes bytes_of(Rank rank) { return Bytes(rank + 1, std::byte{static_cast<uint8_t>(rank)}); }

TEST(LocalBootstrap, GathersWhatEveryRankGivesInTheOrderOfTheRanks) {
  auto ranks = Bootstrap::join_all(5);
  ASSERT_TRUE(ranks);
  std::atomic<int> right{0};
  on_all(*ranks, [&](Bootstrap& rank) {
    for (int round = 0; round < 20; ++round) {
      const auto all =
          rank.all_gather(bytes_of(rank.rank()), base::Deadline::after(milliseconds(5000)));
      ASSERT_TRUE(all) << all.error().sentence;
      for (Rank i = 0; i < 5; ++i) {
        right += (*all)[i] == bytes_of(i);
      }
    }
  });
  EXPECT_EQ(right, 5 * 5 * 20);
}

TEST(LocalBootstrap, GivesEveryRankDescriptorsOfItsOwn) {
  auto ranks = Bootstrap::join_all(3);
  std::atomic<int> counter{0};
  on_all(*ranks, [&](Bootstrap& rank) {
    const int mine = eventfd(rank.rank() + 1, EFD_CLOEXEC | EFD_NONBLOCK);
    const auto all = rank.exchange_descriptors(mine, base::Deadline::after(milliseconds(5000)));
    ASSERT_TRUE(all);
    close(mine);
    for (const int descriptor : *all) {
      eventfd_t value = 0;
      counter += eventfd_read(descriptor, &value) == 0 ? static_cast<int>(value) : 0;
      close(descriptor);
    }
  });
  EXPECT_EQ(counter, 1 + 2 + 3);  // each event counter is read empty once
}

TEST(LocalBootstrap, ADescriptorThatCannotBeDuplicatedIsSaidToAllAtOnce) {
  auto ranks = Bootstrap::join_all(3);
  std::atomic<int> named{0};
  const auto begin = base::Clock::now();
  on_all(*ranks, [&](Bootstrap& rank) {
    constexpr int kNotOpen = 1 << 24;
    const auto all = rank.exchange_descriptors(rank.rank() == 1 ? kNotOpen : -1,
                                               base::Deadline::after(milliseconds(60000)));
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().status, CCOM_SYSTEM);
    named += all.error().sentence.find("rank 1 cannot duplicate descriptor 16777216") !=
             std::string::npos;
  });
  EXPECT_EQ(named, 3);
  EXPECT_LT(base::Clock::now() - begin, milliseconds(30000));
}

TEST(LocalBootstrap, NamesTheRankThatDoesNotCome) {
  auto ranks = Bootstrap::join_all(3);
  const auto first = (*ranks)[0]->all_gather({}, base::Deadline::after(milliseconds(5)));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().status, CCOM_TIMEOUT);
  EXPECT_NE(first.error().sentence.find("1, 2"), std::string::npos) << first.error().sentence;
  // Who comes late learns the same at once.
  const auto late = (*ranks)[1]->all_gather({}, base::Deadline::after(milliseconds(60000)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().sentence, first.error().sentence);
}

TEST(LocalBootstrap, TellsEveryRankOfAnAbort) {
  auto ranks = Bootstrap::join_all(4);
  std::atomic<int> told{0};
  for (auto& rank : *ranks) {
    rank->on_failure(
        [&](Rank who, const Error& why) { told += who == 2 && why.status == CCOM_ABORTED; });
  }
  (*ranks)[2]->abort(fail(CCOM_ABORTED, "rank 2 gave up"));
  EXPECT_EQ(told, 4);
  const auto after = (*ranks)[0]->all_gather({}, base::Deadline::after(milliseconds(60000)));
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().status, CCOM_ABORTED);
}

TEST(LocalBootstrap, ANoticeReachesAllRanksAndEndsNothing) {
  auto ranks = Bootstrap::join_all(3);
  EXPECT_FALSE((*ranks)[0]->told(NoticeAbout::kProgram, 0));
  (*ranks)[2]->tell(NoticeAbout::kProgram, 7, "its model has failed");
  (*ranks)[0]->tell(NoticeAbout::kProgram, 7, "rank 2 has failed");
  for (const auto& rank : *ranks) {
    const auto notice = rank->told(NoticeAbout::kProgram, 5);
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->rank, 2u);
    EXPECT_EQ(notice->number, 7u);
    EXPECT_EQ(notice->sentence, "its model has failed");
    EXPECT_FALSE(rank->told(NoticeAbout::kProgram, 8));
  }
  on_all(*ranks, [](Bootstrap& rank) {
    EXPECT_TRUE(rank.all_gather({}, base::Deadline::after(milliseconds(5000))));
  });
}

TEST(LocalBootstrap, RegroupsTheSameRanksAgainAndAgain) {
  auto ranks = Bootstrap::join_all(3);
  std::atomic<int> groups{0};
  on_all(*ranks, [&](Bootstrap& rank) {
    for (int i = 0; i < 200; ++i) {
      auto group = rank.regroup({2, 0, 1}, base::Deadline::after(milliseconds(5000)));
      ASSERT_TRUE(group) << group.error().sentence;
      groups += (*group)->members().size() == 3;
    }
  });
  EXPECT_EQ(groups, 600);
}

TEST(LocalBootstrap, RegroupsThoseWhoAreLeft) {
  auto ranks = Bootstrap::join_all(4);
  (*ranks)[1].reset();
  ranks->erase(ranks->begin() + 1);
  std::atomic<uint32_t> sum{0};
  on_all(*ranks, [&](Bootstrap& rank) {
    auto group = rank.regroup({0, 1, 2, 3}, base::Deadline::after(milliseconds(5000)));
    ASSERT_TRUE(group);
    EXPECT_EQ((*group)->members().size(), 3u);
    EXPECT_TRUE((*group)->barrier(base::Deadline::after(milliseconds(5000))));
    sum += 1u << (4 * (*group)->rank());
  });
  EXPECT_EQ(sum, 0x111u);
}

}  // namespace
}  // namespace neuron::ccom
