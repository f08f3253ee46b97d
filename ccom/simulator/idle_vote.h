// SPDX-License-Identifier: Apache-2.0
// How several workers agree that none of them will ever have work again.
//
// A worker is idle between begin_idle() and resume(). It may find work at any time while it is
// idle, because another worker has left some before it became idle, and it counts that by resume()
// before it does any of it. So all are stuck once each has found nothing while all were idle and
// the count of resumes was the same. Each votes with that count; a worker that has ended agrees
// with all.
// Callers: one object for all workers of a simulation, one thread a worker. Thread-safe: all
// accesses are sequentially consistent. Fails: never.
#ifndef CCOM_SIMULATOR_IDLE_VOTE_H
#define CCOM_SIMULATOR_IDLE_VOTE_H

#include <atomic>
#include <cstdint>
#include <vector>

namespace neuron::ccom {

class IdleVote {
 public:
  // What a worker sees before it looks for work.
  struct View {
    uint64_t resumes = 0;
    bool all_idle = false;
  };

  explicit IdleVote(uint32_t workers) : votes_(workers) {
    for (auto& vote : votes_) vote.store(kNone);
  }

  uint32_t workers() const { return static_cast<uint32_t>(votes_.size()); }
  void begin_idle() { idle_.fetch_add(1); }
  View view() const {
    const uint64_t resumes = resumes_.load();
    return {resumes, idle_.load() == workers()};
  }

  // The idle worker has found nothing after `seen`. Whether all are stuck. `between` is called
  // between any two accesses: a test lets other workers go on there.
  template <class Between>
  bool agree(uint32_t worker, const View& seen, const Between& between) {
    if (!seen.all_idle) return false;
    votes_[worker].store(seen.resumes);
    between();
    bool agreed = true;
    for (const auto& vote : votes_) {
      const uint64_t v = vote.load();
      between();
      agreed = agreed && (v == seen.resumes || v == kEnded);
    }
    // Last of all: a worker that was counted as idle may have gone on and ended before its vote
    // was read, with a message to this one. It has counted its resume before.
    return resumes_.load() == seen.resumes && agreed;
  }
  bool agree(uint32_t worker, const View& seen) {
    return agree(worker, seen, [] {});
  }

  // The idle worker goes on. The order matters: one that reads the new count of resumes must not
  // count this one as idle.
  void resume(uint32_t worker) {
    votes_[worker].store(kNone);
    idle_.fetch_sub(1);
    resumes_.fetch_add(1);
  }
  // The worker, which is not idle, has done all that it had to do.
  void end(uint32_t worker) {
    votes_[worker].store(kEnded);
    idle_.fetch_add(1);
  }

 private:
  static constexpr uint64_t kEnded = UINT64_MAX, kNone = UINT64_MAX - 1;

  std::atomic<uint32_t> idle_{0};  // workers, also those that have ended
  std::atomic<uint64_t> resumes_{0};
  std::vector<std::atomic<uint64_t>> votes_;
};

}  // namespace neuron::ccom

#endif
