// SPDX-License-Identifier: Apache-2.0
// A device shared by a daemon: launches hot and cold, large copies, many clients at once. Each
// client is a process of its own (tests/multi/worker.cpp), asked in turn with its peer.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/support/daemon.h"

namespace neuron::bench {
namespace {

constexpr char kEmpty[] = "empty.neff";
constexpr int kClients = 8;

// A daemon and workers, made when a benchmark is run.
struct Shared {
  explicit Shared(const char* profile) : daemon(folder, profile) {}
  std::string start(int count, const char* copies = "mapping") {
    for (int core = 0; core < count; ++core) {
      workers.push_back(
          std::make_unique<test::Worker>(folder, daemon.emulator(), core, kEmpty,
                                         test::Environment{{"NEURON_EMULATOR_COPY", copies}}));
    }
    for (const auto& worker : workers) {
      if (worker->line() != "ready") return "a worker does not start: " + worker->log();
    }
    return "";
  }
  std::string start_embedded() {
    embedded = std::make_unique<test::Worker>(folder, "trn1.2xlarge", 0, kEmpty);
    return embedded->line() == "ready" ? "" : "a worker does not start: " + embedded->log();
  }

  test::Folder folder;
  test::Daemon daemon;
  std::vector<std::unique_ptr<test::Worker>> workers;
  std::unique_ptr<test::Worker> embedded;
};

// The number that a worker answers; negative if it fails.
double number(test::Worker& worker, const char* question) {
  const double value = std::atof(worker.ask(question).c_str());
  return value > 0 ? value : -1;
}

// Two processes that wake each other in turn through words of shared memory.
class FutexPair {
 public:
  FutexPair() {
    words_ = static_cast<std::atomic<uint32_t>*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    child_ = test::Child::forked([this] {
      for (uint32_t turn = 1; await(0, turn); ++turn) post(1, turn);
      return 0;
    });
  }
  ~FutexPair() {
    child_.kill();
    ::munmap(words_, 4096);
  }
  // Microseconds of one round trip.
  double round() {
    constexpr int kTimes = 500;
    const double start = now_seconds();
    for (int i = 0; i < kTimes; ++i) {
      post(0, ++turn_);
      if (!await(1, turn_)) return -1;
    }
    return (now_seconds() - start) / kTimes * 1e6;
  }

 private:
  // A cache line apart.
  std::atomic<uint32_t>& word(int index) { return words_[index * 16]; }
  bool await(int index, uint32_t value) {
    const timespec patience = {60, 0};
    for (uint32_t seen; (seen = word(index).load()) != value;) {
      if (::syscall(SYS_futex, &word(index), FUTEX_WAIT, seen, &patience, nullptr, 0) != 0 &&
          errno == ETIMEDOUT) {
        return false;
      }
    }
    return true;
  }
  void post(int index, uint32_t value) {
    word(index).store(value);
    ::syscall(SYS_futex, &word(index), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }

  std::atomic<uint32_t>* words_ = nullptr;
  test::Child child_;
  uint32_t turn_ = 0;
};

}  // namespace

Ratio launch_shared() {
  Ratio ratio{.name = "launch-shared",
              .peer_name = "embedded device",
              .unit = "us per launch",
              .goal = 3,
              .smaller_is_better = true};
  auto shared = std::make_shared<Shared>("trn1.2xlarge");
  ratio.error = shared->start(1);
  if (ratio.error.empty()) ratio.error = shared->start_embedded();
  ratio.ours = [shared] { return number(*shared->workers[0], "launch 4000"); };
  ratio.peer = [shared] { return number(*shared->embedded, "launch 4000"); };
  return ratio;
}

Ratio launch_shared_cold() {
  Ratio ratio{.name = "launch-shared-cold",
              .peer_name = "futex round trip between processes",
              .unit = "us",
              .goal = 3,
              .smaller_is_better = true};
  auto shared = std::make_shared<Shared>("trn1.2xlarge");
  auto pair = std::make_shared<FutexPair>();
  ratio.error = shared->start(1);
  ratio.ours = [shared] { return number(*shared->workers[0], "cold 25"); };
  ratio.peer = [pair] { return pair->round(); };
  return ratio;
}

namespace {

Ratio copies(const char* name, const char* way, double goal) {
  Ratio ratio{
      .name = name, .peer_name = "two memcpy", .unit = "bytes/s", .goal = goal, .rounds = 5};
  auto shared = std::make_shared<Shared>("trn1.2xlarge");
  ratio.error = shared->start(1, way);
  ratio.ours = [shared] { return number(*shared->workers[0], "copy 2"); };
  ratio.peer = [shared] { return number(*shared->workers[0], "memcpy 2"); };
  return ratio;
}

// Rates of all clients at once.
struct Together {
  std::shared_ptr<Shared> shared;
  std::vector<double> run() {
    for (const auto& worker : shared->workers) worker->process().say("rate 400");
    std::vector<double> rates;
    for (const auto& worker : shared->workers) rates.push_back(std::atof(worker->line().c_str()));
    return rates;
  }
};

}  // namespace

Ratio copy_shared() { return copies("copy-shared", "mapping", 0.8); }
// Beside it: no goal, every byte goes through descriptors and the socket's files.
Ratio copy_shared_descriptors() { return copies("copy-shared-descriptors", "descriptors", 0); }

Ratio clients() {
  Ratio ratio{.name = "clients",
              .peer_name = "one process",
              .unit = "launches/s",
              .goal = 1.2,
              .rounds = 5};
  Together together{std::make_shared<Shared>("trn1.32xlarge")};
  ratio.error = together.shared->start(kClients);
  ratio.ours = [together]() mutable {
    double sum = 0;
    for (const double rate : together.run()) sum += rate > 0 ? rate : -1e12;
    return sum;
  };
  ratio.peer = [together] { return number(*together.shared->workers[0], "rate 400"); };
  return ratio;
}

Ratio clients_fairness() {
  Ratio ratio{.name = "clients-fairness",
              .peer_name = "the fastest of 8 processes",
              .unit = "launches/s",
              .goal = 0.5,
              .rounds = 5};
  Together together{std::make_shared<Shared>("trn1.32xlarge")};
  ratio.error = together.shared->start(kClients);
  auto rates = std::make_shared<std::vector<double>>();
  ratio.ours = [together, rates]() mutable {
    *rates = together.run();
    return *std::min_element(rates->begin(), rates->end());
  };
  ratio.peer = [rates] { return *std::max_element(rates->begin(), rates->end()); };
  return ratio;
}

}  // namespace neuron::bench
