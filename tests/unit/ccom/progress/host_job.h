// SPDX-License-Identifier: Apache-2.0
// A job of host executors whose ranks are threads of the test, as one process or as if each were a
// process of its own.
//
// Callers: tests. Threads: on_all() runs its work on one thread for each rank. Owns: everything.
#ifndef TESTS_UNIT_CCOM_PROGRESS_HOST_JOB_H
#define TESTS_UNIT_CCOM_PROGRESS_HOST_JOB_H

#include <memory>
#include <string>
#include <vector>

#include "ccom/transport/arena.h"
#include "ccom/transport/arena_layout.h"
#include "tests/unit/ccom/progress/network_job.h"

namespace neuron::ccom {

// Says that every rank has a process of its own, so that addresses mean nothing to others.
class ApartBootstrap final : public Bootstrap {
 public:
  explicit ApartBootstrap(Bootstrap& real) : real_(real), members_(real.members()) {
    for (Member& member : members_) member.process = 1000000 + static_cast<int32_t>(member.rank);
  }
  Rank rank() const override { return real_.rank(); }
  const std::vector<Member>& members() const override { return members_; }
  uint64_t capabilities() const override { return real_.capabilities(); }
  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine,
                                        base::Deadline deadline) override {
    return real_.all_gather(mine, deadline);
  }
  Result<std::vector<int>> exchange_descriptors(int mine, base::Deadline deadline) override {
    return real_.exchange_descriptors(mine, deadline);
  }
  void on_failure(std::function<void(Rank, const Error&)> handler) override {
    real_.on_failure(std::move(handler));
  }
  void abort(const Error& why) override { real_.abort(why); }
  void tell(NoticeAbout about, uint64_t number, const std::string& sentence) override {
    real_.tell(about, number, sentence);
  }
  std::optional<Notice> told(NoticeAbout about, uint64_t since) const override {
    return real_.told(about, since);
  }
  std::vector<Rank> dead() const override { return real_.dead(); }
  Result<std::unique_ptr<Bootstrap>> regroup(const std::vector<Rank>& survivors,
                                             base::Deadline deadline) override {
    return real_.regroup(survivors, deadline);
  }

 private:
  Bootstrap& real_;
  std::vector<Member> members_;
};

struct HostJob {
  explicit HostJob(uint32_t ranks, bool apart = false, bool rank_order = true,
                   milliseconds timeout = milliseconds(20000))
      : planner(planner_of(ranks, ranks)), interrupted(ranks) {
    auto joined = Bootstrap::join_all(ranks);
    EXPECT_TRUE(joined) << joined.error().sentence;
    bootstraps = std::move(*joined);
    const uint64_t bytes = ArenaLayout::of(ranks).heap + (64u << 20);
    for (Rank rank = 0; rank < ranks; ++rank) {
      auto arena = Arena::create(bytes);
      EXPECT_TRUE(arena) << arena.error().sentence;
      arenas.push_back(std::move(*arena));
      apart_bootstraps.push_back(std::make_unique<ApartBootstrap>(*bootstraps[rank]));
    }
    for (Rank rank = 0; rank < ranks; ++rank) {
      ExecutorContext context;
      context.rank = rank;
      context.size = ranks;
      context.bootstrap = apart ? apart_bootstraps[rank].get() : bootstraps[rank].get();
      for (const auto& arena : arenas) context.arenas.push_back(arena.get());
      context.rank_order = rank_order;
      context.deadline = base::Deadline::after(milliseconds(10000));
      context.timeout = timeout;
      context.interrupted = &interrupted[rank];
      context.interruption = [] { return fail(CCOM_RANK_DEAD, "rank 1 (host test) died"); };
      auto executor = make_host_executor(context);
      EXPECT_TRUE(executor) << executor.error().sentence;
      executors.push_back(std::move(*executor));
    }
  }

  uint32_t ranks() const { return static_cast<uint32_t>(executors.size()); }

  void on_all(const std::function<void(Rank)>& work) {
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&work, rank] { work(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::shared_ptr<const Plan> plan(const Request& request) const {
    auto plan = planner.plan(request, {});
    EXPECT_TRUE(plan) << plan.error().sentence;
    return plan ? std::make_shared<const Plan>(std::move(*plan)) : nullptr;
  }

  // Memory that peers can read in place.
  std::byte* heap(Rank rank) const { return arenas[rank]->data() + ArenaLayout::of(ranks()).heap; }

  Planner planner;
  std::vector<std::atomic<uint32_t>> interrupted;
  std::vector<std::unique_ptr<Bootstrap>> bootstraps;
  std::vector<std::unique_ptr<ApartBootstrap>> apart_bootstraps;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<Executor>> executors;
};

}  // namespace neuron::ccom

#endif
