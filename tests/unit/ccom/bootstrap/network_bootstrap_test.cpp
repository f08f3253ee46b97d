// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/network_bootstrap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <numeric>
#include <span>
#include <string>
#include <thread>

#include "tests/support/child.h"
#include "tests/unit/ccom/bootstrap/free_address.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

JoinOptions options_for(Rank rank, uint32_t size, const std::string& root,
                        milliseconds time = milliseconds(20000)) {
  JoinOptions options;
  options.rank = rank;
  options.size = size;
  options.root = root;
  options.deadline = base::Deadline::after(time);
  options.capabilities = 6u | rank;
  return options;
}

using Work = std::function<void(Result<std::unique_ptr<Bootstrap>>)>;

void join_as_threads(const std::vector<JoinOptions>& ranks, const Work& work) {
  std::vector<std::thread> threads;
  for (const JoinOptions& options : ranks) {
    threads.emplace_back([&work, &options] { work(Bootstrap::join(options)); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

std::vector<JoinOptions> all_ranks(uint32_t size, milliseconds time = milliseconds(20000)) {
  const std::string root = free_address();
  std::vector<JoinOptions> ranks;
  for (Rank i = 0; i < size; ++i) {
    ranks.push_back(options_for(size - 1 - i, size, root, time));  // rank 0 last
  }
  return ranks;
}

// A listening socket whose file is gone, as that of a leader.
class NamelessSocket {
 public:
  explicit NamelessSocket(int backlog) {
    char folder[] = "/tmp/ccom-test-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    snprintf(name.sun_path, sizeof(name.sun_path), "%s/s", folder);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    EXPECT_EQ(listen(listener_, backlog), 0);
    path_ = open(name.sun_path, O_PATH | O_CLOEXEC);
    EXPECT_GE(path_, 0);
    unlink(name.sun_path);
    rmdir(folder);
  }
  ~NamelessSocket() {
    close(path_);
    close(listener_);
  }
  int number() const { return path_; }

 private:
  int listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  int path_ = -1;
};

// A connection to the socket of this process that a descriptor with this number names.
int connected_to_descriptor(const std::string& number) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%s", number.c_str());
  const int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  return connect(made, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0 ? made : -1;
}

TEST(NetworkBootstrap, GathersThroughATreeWhateverTheOrderOfArrival) {
  constexpr uint32_t kSize = 20;
  std::atomic<int> right{0};
  join_as_threads(all_ranks(kSize), [&](auto joined) {
    ASSERT_TRUE(joined) << joined.error().sentence;
    Bootstrap& rank = **joined;
    EXPECT_EQ(rank.members().size(), kSize);
    EXPECT_EQ(rank.members()[7].process, getpid());
    EXPECT_EQ(rank.capabilities(), 6u);
    for (int round = 0; round < 10; ++round) {
      const Bytes mine(rank.rank() * 100, std::byte{static_cast<uint8_t>(rank.rank())});
      const auto all = rank.all_gather(mine, base::Deadline::after(milliseconds(20000)));
      ASSERT_TRUE(all) << all.error().sentence;
      for (Rank i = 0; i < kSize; ++i) {
        right += (*all)[i] == Bytes(i * 100, std::byte{static_cast<uint8_t>(i)});
      }
    }
  });
  EXPECT_EQ(right, 10 * static_cast<int>(kSize * kSize));
}

TEST(NetworkBootstrap, ExchangesDescriptorsAndLeavesNothingInTheFileSystem) {
  std::atomic<uint32_t> sum{0};
  join_as_threads(all_ranks(5), [&](auto joined) {
    ASSERT_TRUE(joined) << joined.error().sentence;
    const int mine = eventfd(1u << (4 * (*joined)->rank()), EFD_CLOEXEC | EFD_NONBLOCK);
    const auto all =
        (*joined)->exchange_descriptors(mine, base::Deadline::after(milliseconds(20000)));
    ASSERT_TRUE(all) << all.error().sentence;
    close(mine);
    for (const int descriptor : *all) {
      eventfd_t value = 0;
      if (eventfd_read(descriptor, &value) == 0) {
        sum += static_cast<uint32_t>(value);
      }
      close(descriptor);
    }
  });
  EXPECT_EQ(sum, 0x11111u);
}

// As when more ranks than the queue takes want to reach a process that is stopped.
TEST(NetworkBootstrap, ALeaderThatAcceptsNobodyIsWaitedForUntilTheDeadlineAndNoLonger) {
  constexpr uint32_t kSize = 4;
  std::latch over(kSize);
  std::atomic<int> timed_out{0}, full{0};
  join_as_threads(all_ranks(kSize), [&](auto joined) {
    ASSERT_TRUE(joined) << joined.error().sentence;
    if ((*joined)->rank() == 0) {
      const NamelessSocket socket(0);
      const std::string word = "+" + std::to_string(socket.number());
      EXPECT_TRUE((*joined)->all_gather(std::as_bytes(std::span(word)),
                                        base::Deadline::after(milliseconds(20000))));
      over.arrive_and_wait();
      return;
    }
    const auto deadline = base::Deadline::after(milliseconds(1000));
    const auto all = (*joined)->exchange_descriptors(-1, deadline);
    EXPECT_LT(base::Clock::now() - deadline.when(), milliseconds(5000));
    EXPECT_FALSE(all);
    if (!all) {
      timed_out += all.error().status == CCOM_TIMEOUT;
      full += all.error().sentence.find("accepts no ranks of its host") != std::string::npos;
    }
    over.arrive_and_wait();
  });
  EXPECT_EQ(timed_out, 3);
  EXPECT_EQ(full, 2) << "one is in the queue";
}

TEST(NetworkBootstrap, ARankThatConnectsAndSaysNothingIsNamedAndTheOthersAreHeard) {
  constexpr uint32_t kSize = 4;
  std::latch over(kSize);
  join_as_threads(all_ranks(kSize), [&](auto joined) {
    ASSERT_TRUE(joined) << joined.error().sentence;
    const Rank rank = (*joined)->rank();
    if (rank == 1) {
      const auto words = (*joined)->all_gather({}, base::Deadline::after(milliseconds(20000)));
      EXPECT_TRUE(words);
      const std::string word(reinterpret_cast<const char*>((*words)[0].data()), (*words)[0].size());
      const int silent = connected_to_descriptor(word.substr(1));
      EXPECT_GE(silent, 0);
      over.arrive_and_wait();
      close(silent);
      return;
    }
    const auto all = (*joined)->exchange_descriptors(-1, base::Deadline::after(milliseconds(1500)));
    EXPECT_FALSE(all);
    if (rank == 0 && !all) {
      EXPECT_EQ(all.error().status, CCOM_TIMEOUT);
      EXPECT_NE(all.error().sentence.find("ranks 1 did not bring their descriptors; process " +
                                          std::to_string(getpid()) +
                                          " of this host connected and sends nothing"),
                std::string::npos)
          << all.error().sentence;
    }
    over.arrive_and_wait();
  });
}

TEST(NetworkBootstrap, NamesTheRanksThatNeverCome) {
  auto ranks = all_ranks(6, milliseconds(300));
  ranks.erase(ranks.begin() + 1, ranks.begin() + 3);  // ranks 4 and 3
  std::atomic<int> named{0};
  join_as_threads(ranks, [&](auto joined) {
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().status, CCOM_TIMEOUT);
    named += joined.error().sentence.find("missing: rank 3, 4;") != std::string::npos;
    EXPECT_NE(joined.error().sentence.find("4 of 6"), std::string::npos) << joined.error().sentence;
  });
  EXPECT_EQ(named, 4);
}

TEST(NetworkBootstrap, NamesEveryRankThatSaysAnotherSizeOrVersion) {
  auto ranks = all_ranks(4);
  ranks[0].size = 16;    // rank 3
  ranks[1].version = 7;  // rank 2
  std::atomic<int> named{0};
  join_as_threads(ranks, [&](auto joined) {
    ASSERT_FALSE(joined);
    const std::string& sentence = joined.error().sentence;
    EXPECT_EQ(joined.error().status, CCOM_MISMATCH) << sentence;
    named += sentence.find("rank 3 (host ") != std::string::npos &&
             sentence.find("says 16 ranks, rank 0 (host ") != std::string::npos &&
             sentence.find("says 4") != std::string::npos &&
             sentence.find("has libccom 1.7") != std::string::npos;
  });
  EXPECT_EQ(named, 4);
}

TEST(NetworkBootstrap, NamesARankThatIsThereTwice) {
  auto ranks = all_ranks(3);
  ranks[0].rank = 1;
  std::atomic<int> named{0};
  join_as_threads(ranks, [&](auto joined) {
    ASSERT_FALSE(joined);
    named += joined.error().sentence.find("rank 1 is there twice") != std::string::npos;
  });
  EXPECT_EQ(named, 3);
}

TEST(NetworkBootstrap, TellsARankWithAnotherSecretAtOnceAndGoesOnWithoutIt) {
  auto ranks = all_ranks(3, milliseconds(300));
  for (JoinOptions& options : ranks) {
    options.secret = "the job's own";
  }
  JoinOptions stranger = ranks[0];
  stranger.secret = "another";
  std::thread thread([&] {
    const auto refused = Bootstrap::join(stranger);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, CCOM_REFUSED) << refused.error().sentence;
  });
  join_as_threads({ranks[2], ranks[1]}, [&](auto) {});
  thread.join();
}

int connect_to(const std::string& address) {
  const SystemAddress system = system_address(*parse_address(address));
  const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const base::Deadline until = base::Deadline::after(milliseconds(5000));
  while (connect(stranger, system.get(), system.length) != 0 && !until.expired()) {
    std::this_thread::yield();
  }
  return stranger;
}

TEST(NetworkBootstrap, JoinsAmongStrangersThatSendGarbageOrNothing) {
  const auto ranks = all_ranks(3);
  std::vector<int> strangers;
  std::vector<std::thread> threads;
  std::atomic<int> joined_ranks{0};
  const auto join = [&](size_t i) {
    threads.emplace_back([&, i] {
      auto joined = Bootstrap::join(ranks[i]);
      ASSERT_TRUE(joined) << joined.error().sentence;
      EXPECT_TRUE((*joined)->barrier(base::Deadline::after(milliseconds(20000))));
      ++joined_ranks;
    });
  };
  join(2);  // rank 0
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(connect_to(ranks[0].root));
    const std::string garbage = i % 3 == 0   ? "GET / HTTP/1.1\r\n\r\n"
                                : i % 3 == 1 ? std::string(2000, '\xff')
                                             : "";
    // A refused stranger may be closed already.
    EXPECT_TRUE(send(strangers.back(), garbage.data(), garbage.size(), MSG_NOSIGNAL) >= 0 ||
                errno == EPIPE || errno == ECONNRESET);
  }
  join(0);
  join(1);
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(joined_ranks, 3);
  for (const int stranger : strangers) {
    close(stranger);
  }
}

TEST(NetworkBootstrap, RefusesNamesAndPortsThatAreNone) {
  for (const char* root : {"localhost:4000", "10.0.0.1", "10.0.0.1:", "10.0.0.1:70000", "::1:4000",
                           "[::1]", "[10.0.0.1]:1", "", "10.0.0.1:0", "10.0.0.1:12x"}) {
    const auto joined = Bootstrap::join(options_for(1, 2, root));
    ASSERT_FALSE(joined) << root;
    EXPECT_EQ(joined.error().status, CCOM_INVALID);
    EXPECT_NE(joined.error().sentence.find("ADDRESS:PORT"), std::string::npos);
  }
}

TEST(NetworkBootstrap, SaysThatNobodyListensAtTheRoot) {
  const auto joined = Bootstrap::join(options_for(1, 2, free_address(), milliseconds(60)));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().status, CCOM_TIMEOUT);
  EXPECT_NE(joined.error().sentence.find("refused"), std::string::npos) << joined.error().sentence;
}

TEST(NetworkBootstrap, TellsAllRanksOfAnAbortAndRegroupsThem) {
  constexpr uint32_t kSize = 12;
  std::atomic<int> regrouped{0};
  join_as_threads(all_ranks(kSize), [&](auto joined) {
    ASSERT_TRUE(joined) << joined.error().sentence;
    Bootstrap& rank = **joined;
    std::atomic<int> told{0};
    rank.on_failure(
        [&](Rank who, const Error& why) { told += who == 5 && why.status == CCOM_ABORTED; });
    if (rank.rank() == 5) {
      rank.abort(fail(CCOM_ABORTED, "rank 5 has seen enough"));
    }
    const auto round = rank.all_gather({}, base::Deadline::after(milliseconds(20000)));
    ASSERT_FALSE(round);
    EXPECT_EQ(round.error().status, CCOM_ABORTED);
    std::vector<Rank> all(kSize);
    std::iota(all.begin(), all.end(), 0);
    auto group = rank.regroup(all, base::Deadline::after(milliseconds(20000)));
    ASSERT_TRUE(group) << group.error().sentence;
    EXPECT_EQ((*group)->rank(), rank.rank());
    EXPECT_TRUE((*group)->barrier(base::Deadline::after(milliseconds(20000))));
    regrouped += told == 1;
  });
  EXPECT_EQ(regrouped, static_cast<int>(kSize));
}

// What the rank is told of numbers from `since` on, within a time that only a lost notice takes.
std::optional<Notice> await_notice(const Bootstrap& rank, uint64_t since) {
  const base::Deadline until = base::Deadline::after(milliseconds(10000));
  auto notice = rank.told(NoticeAbout::kProgram, since);
  while (!notice && !until.expired()) {
    std::this_thread::sleep_for(milliseconds(1));
    notice = rank.told(NoticeAbout::kProgram, since);
  }
  return notice;
}

TEST(NetworkBootstrap, ANoticeOfAnyRankReachesAllRanksAndEndsNothing) {
  constexpr uint32_t kSize = 12;  // rank 9 is a leaf below rank 1
  std::atomic<int> right{0};
  join_as_threads(all_ranks(kSize), [&](auto joined) {
    ASSERT_TRUE(joined) << joined.error().sentence;
    Bootstrap& rank = **joined;
    std::atomic<int> failures{0};
    rank.on_failure([&](Rank, const Error&) { ++failures; });
    uint64_t number = 100;
    for (const Rank teller : {9u, 0u, 1u, 4u}) {
      EXPECT_FALSE(rank.told(NoticeAbout::kProgram, ++number)) << "before it is told";
      ASSERT_TRUE(rank.barrier(base::Deadline::after(milliseconds(20000))));
      const std::string sentence = format("rank {} found a NaN", teller);
      if (rank.rank() == teller) {
        rank.tell(NoticeAbout::kProgram, number, sentence);
        rank.tell(NoticeAbout::kProgram, number, "what else has this number");
      }
      const auto notice = await_notice(rank, number);
      ASSERT_TRUE(notice) << rank.rank();
      right += notice->rank == teller && notice->number == number && notice->sentence == sentence;
      ASSERT_TRUE(rank.barrier(base::Deadline::after(milliseconds(20000))));
    }
    EXPECT_EQ(failures, 0);
  });
  EXPECT_EQ(right, 4 * static_cast<int>(kSize));
}

TEST(NetworkBootstrap, EveryRankIsToldSomethingWhenAllTellAtOnce) {
  constexpr uint32_t kSize = 11;
  std::atomic<int> told{0};
  join_as_threads(all_ranks(kSize), [&](auto joined) {
    ASSERT_TRUE(joined) << joined.error().sentence;
    Bootstrap& rank = **joined;
    for (uint64_t number = 1; number <= 20; ++number) {
      if (rank.rank() % 2 == 0) {
        rank.tell(NoticeAbout::kProgram, number, format("rank {}", rank.rank()));
      }
      const auto notice = await_notice(rank, number);
      told += notice && notice->number == number && notice->rank % 2 == 0 &&
              notice->sentence == format("rank {}", notice->rank);
      ASSERT_TRUE(rank.barrier(base::Deadline::after(milliseconds(20000))));
    }
  });
  EXPECT_EQ(told, 20 * static_cast<int>(kSize));
}

TEST(NetworkBootstrap, ANoticeOfARankThatLeavesBehindItIsHeard) {
  std::atomic<int> told{0};
  join_as_threads(all_ranks(3), [&](auto joined) {
    ASSERT_TRUE(joined) << joined.error().sentence;
    ASSERT_TRUE((*joined)->barrier(base::Deadline::after(milliseconds(20000))));
    if ((*joined)->rank() == 2) {
      (*joined)->tell(NoticeAbout::kProgram, 3, "it has failed and goes");
    } else {
      const auto notice = await_notice(**joined, 0);
      told += notice && notice->sentence == "it has failed and goes";
    }
  });
  EXPECT_EQ(told, 2);
}

TEST(NetworkBootstrap, SplitsIntoGroupsWithLowestRanksThatListen) {
  std::atomic<int> right{0};
  join_as_threads(all_ranks(7), [&](auto joined) {
    ASSERT_TRUE(joined);
    for (int round = 0; round < 3; ++round) {
      const bool odd = (*joined)->rank() % 2 == 1;
      const std::vector<Rank> mine =
          odd ? std::vector<Rank>{5, 3, 1} : std::vector<Rank>{0, 2, 4, 6};
      auto group = (*joined)->regroup(mine, base::Deadline::after(milliseconds(20000)));
      ASSERT_TRUE(group) << group.error().sentence;
      ASSERT_EQ((*group)->members().size(), mine.size());
      right += mine[(*group)->rank()] == (*joined)->rank();
      EXPECT_TRUE((*group)->barrier(base::Deadline::after(milliseconds(20000))));
    }
  });
  EXPECT_EQ(right, 3 * 7);
}

// A process for each rank; `work` runs in the child, whose exit status says whether it was content.
std::vector<test::Child> fork_ranks(const std::vector<JoinOptions>& ranks,
                                    const std::function<bool(std::unique_ptr<Bootstrap>)>& work) {
  std::vector<test::Child> children;
  for (const JoinOptions& options : ranks) {
    children.push_back(test::Child::forked([&] {
      auto joined = Bootstrap::join(options);
      return joined && work(std::move(*joined)) ? 0 : 1;
    }));
  }
  return children;
}

TEST(NetworkBootstrap, TellsSurvivorsOfAKilledRankInTimeAndRegroupsThem) {
  constexpr uint32_t kSize = 11;  // rank 1 has children 9 and 10
  for (const Rank victim : {1u, 0u, 10u}) {
    auto ranks = all_ranks(kSize);
    int killed[2];
    ASSERT_EQ(pipe2(killed, O_CLOEXEC), 0);
    auto children = fork_ranks(ranks, [&](std::unique_ptr<Bootstrap> rank) {
      // Static: a child of its own, whose bootstrap outlives this call.
      static std::atomic<int64_t> told{0};
      static std::atomic<bool> named{false};
      const std::string name = format("rank {} ", victim);
      rank->on_failure([victim, name](Rank who, const Error& why) {
        named = who == victim && why.status == CCOM_RANK_DEAD &&
                why.sentence.find(name) != std::string::npos;
        told = base::Clock::now().time_since_epoch().count();
      });
      if (!rank->barrier(base::Deadline::after(milliseconds(20000)))) {
        return false;
      }
      if (rank->rank() == victim) {
        const int64_t now = base::Clock::now().time_since_epoch().count();
        static_cast<void>(!write(killed[1], &now, sizeof(now)));
        kill(getpid(), SIGKILL);
      }
      if (rank->all_gather({}, base::Deadline::after(milliseconds(20000)))) {
        return false;
      }
      std::vector<Rank> survivors;
      for (Rank i = 0; i < kSize; ++i) {
        if (i != victim) {
          survivors.push_back(i);
        }
      }
      auto group = rank->regroup(survivors, base::Deadline::after(milliseconds(10000)));
      if (!group || (*group)->members().size() != kSize - 1 ||
          !(*group)->barrier(base::Deadline::after(milliseconds(10000)))) {
        return false;
      }
      int64_t when = 0;
      if (rank->rank() == (victim == 2 ? 3u : 2u)) {
        // One survivor compares the times.
        static_cast<void>(!read(killed[0], &when, sizeof(when)));
        const int64_t took = told - when;
        if (took > 1'000'000'000) {
          return false;
        }
      }
      return named.load();
    });
    for (size_t i = 0; i < children.size(); ++i) {
      const test::Ending ending = children[i].wait();
      if (ranks[i].rank != victim) {
        EXPECT_EQ(ending, 0) << "rank " << ranks[i].rank << " when " << victim << " was killed";
      }
    }
    close(killed[0]);
    close(killed[1]);
  }
}

}  // namespace
}  // namespace neuron::ccom
