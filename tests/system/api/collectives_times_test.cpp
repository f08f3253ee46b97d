// SPDX-License-Identifier: Apache-2.0
//
// Model times of collectives whose host threads are held up at random: they are those of the first
// run, to the picosecond, whatever order the host gives the cores.
//
// NEURON_TEST_RUNS says how often each operation runs: 12 unless it is set, 1,000 by hand.
#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <random>

#include "driver/base/backoff.h"
#include "tests/system/api/collectives_support.h"

namespace neuron::test {
namespace {

unsigned runs() {
  const char* text = std::getenv("NEURON_TEST_RUNS");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 12;
}

// Stops threads of this process for up to a third of a millisecond, wherever they are: a signal to
// one of them, again and again, whose handler sleeps.
class Disturbance {
 public:
  Disturbance() {
    struct sigaction action {};
    action.sa_handler = [](int) {
      // A generator of its own: the one of the thread that is interrupted may be in use.
      static std::atomic<uint32_t> state{1};
      const uint32_t random = state.fetch_add(0x9E3779B9u, std::memory_order_relaxed) * 0x85EBCA6Bu;
      const timespec nap{0, static_cast<long>(random >> 8) % 300'000};
      const int saved = errno;
      nanosleep(&nap, nullptr);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    sigaction(number(), &action, nullptr);
    thread_ = std::thread([this] { disturb(); });
  }
  ~Disturbance() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
    // One that a thread has not taken yet is dropped; the default action would end the process.
    std::signal(number(), SIG_IGN);
  }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  static int number() { return SIGRTMIN + 4; }
  static std::vector<pid_t> threads() {
    std::vector<pid_t> found;
    DIR* folder = opendir("/proc/self/task");
    if (folder == nullptr) return found;
    while (const dirent* entry = readdir(folder)) {
      const pid_t thread = std::atoi(entry->d_name);
      if (thread > 0 && thread != static_cast<pid_t>(::syscall(SYS_gettid)))
        found.push_back(thread);
    }
    closedir(folder);
    return found;
  }
  void disturb() {
    std::minstd_rand random(7);
    while (!stop_.load(std::memory_order_relaxed)) {
      const std::vector<pid_t> all = threads();
      for (int i = 0; i < 20 && !all.empty(); ++i) {
        const pid_t thread = all[random() % all.size()];
        // One that has ended meanwhile is no loss.
        if (::syscall(SYS_tgkill, getpid(), thread, number()) == 0) {
          count_.fetch_add(1, std::memory_order_relaxed);
        }
        base::sleep_for(std::chrono::microseconds(random() % 100));
      }
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> count_{0};
  std::thread thread_;
};

struct Case {
  const char* name;
  ccom_operation_t operation;
  bool whole_input, whole_output;  // the size of all blocks, else of one
};
constexpr std::array kCases = {
    Case{"all_reduce", CCOM_ALL_REDUCE, false, false},
    Case{"all_gather", CCOM_ALL_GATHER, false, true},
    Case{"reduce_scatter", CCOM_REDUCE_SCATTER, true, false},
    Case{"all_to_all", CCOM_ALL_TO_ALL, true, true},
    Case{"broadcast", CCOM_BROADCAST, false, false},
    Case{"reduce", CCOM_REDUCE, false, false},
    Case{"gather", CCOM_GATHER, false, true},
    Case{"scatter", CCOM_SCATTER, true, false},
    Case{"send_receive", CCOM_SEND_RECEIVE, false, false},
    Case{"permute", CCOM_PERMUTE, false, false},
    Case{"all_gather_v", CCOM_ALL_GATHER_V, false, true},
    Case{"reduce_scatter_v", CCOM_REDUCE_SCATTER_V, true, false},
    Case{"all_to_all_v", CCOM_ALL_TO_ALL_V, true, true},
};

Bytes model_of(const Case& of, uint32_t ranks, uint64_t count) {
  CollectiveOptions options;
  options.group_size = ranks;
  options.count = count;
  if (of.operation == CCOM_SEND_RECEIVE) options.pairs = {{0, ranks - 1}};
  if (of.operation == CCOM_PERMUTE) {
    for (uint32_t r = 0; r < ranks; ++r) options.pairs.push_back({r, (r + 1) % ranks});
  }
  const bool varies = of.operation >= CCOM_ALL_GATHER_V;
  if (varies) {
    const uint64_t blocks = of.operation == CCOM_ALL_TO_ALL_V ? uint64_t{ranks} * ranks : ranks;
    for (uint64_t i = 0; i < blocks; ++i) {
      options.counts.push_back(count);
      options.displacements.push_back(i % ranks * count);
      if (of.operation == CCOM_ALL_TO_ALL_V) {
        options.receive_displacements.push_back(i % ranks * count);
      }
    }
    options.count = 0;
  }
  return through(of.name, of.operation, of.whole_input ? ranks * count : count,
                 of.whole_output ? ranks * count : count, options);
}

class CollectiveTimes : public Collectives, public testing::WithParamInterface<Case> {};

TEST_P(CollectiveTimes, AreEqualFromRunToRunWhenHostThreadsAreHeldUp) {
  for (const uint32_t ranks : {2u, 8u}) {
    for (const uint64_t count : {100u, 16384u}) {
      const Bytes neff = model_of(GetParam(), ranks, count);
      std::vector<uint64_t> first(ranks);
      std::vector<std::unique_ptr<RankModel>> models(ranks);
      on_ranks(ranks, [&](uint32_t rank) {
        models[rank] = std::make_unique<RankModel>(neff, rank, ranks);
        if (models[rank]->status != NRT_SUCCESS) return;
        models[rank]->run();  // which also tells the queues where the tensors are
        models[rank]->run();
        first[rank] = models[rank]->device_ps();
      });
      for (const auto& model : models) ASSERT_EQ(model->status, NRT_SUCCESS) << model->sentence;
      const Disturbance disturbance;
      std::atomic<unsigned> others{0};
      on_ranks(ranks, [&](uint32_t rank) {
        for (unsigned run = 0; run < runs(); ++run) {
          models[rank]->run();
          const uint64_t found = models[rank]->device_ps();
          if (models[rank]->status == NRT_SUCCESS && found == first[rank]) continue;
          if (others.fetch_add(1) > 3) continue;
          ADD_FAILURE() << "run " << run << " of rank " << rank << " of " << ranks << ", " << count
                        << " elements: " << found << " ps, first " << first[rank] << " ps "
                        << models[rank]->sentence;
        }
      });
      EXPECT_EQ(others.load(), 0U);
      EXPECT_GT(disturbance.count(), 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CollectiveTimes, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace neuron::test
