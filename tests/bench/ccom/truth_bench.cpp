// SPDX-License-Identifier: Apache-2.0
// simulator-truth: model time of the host model beside runs of the executor for host memory, on 2
// to 8 ranks.
//
// Calibration, for each number of ranks: picoseconds per byte from meshes (all-reduce,
// reduce-scatter, all-gather), and what a message costs from rings, at sizes that lie between those
// that are tested. Each figure is the lower quartile of the periods of an operation that is
// repeated, and the median of several rounds; the spread is half of what lies between the rounds'
// extremes.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "ccom/plan/planner.h"
#include "ccom/progress/executor.h"
#include "ccom/simulator/host_model.h"
#include "ccom/transport/arena_layout.h"
#include "tests/bench/ccom/bench.h"

namespace neuron::bench {
namespace {

using namespace neuron::ccom;

constexpr int kRounds = 5;
constexpr uint32_t kRanks[] = {2, 4, 8};
constexpr uint64_t kCalibrated[] = {24 << 10,  48 << 10,   96 << 10, 192 << 10, 384 << 10,
                                    768 << 10, 1536 << 10, 3 << 20,  6 << 20,   12 << 20};
constexpr uint64_t kTested[] = {32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20};
constexpr uint64_t kLargest = 12 << 20;

// Ranks as threads of this process.
class Job {
 public:
  static std::unique_ptr<Job> make(uint32_t ranks) {
    auto job = std::unique_ptr<Job>(new Job(ranks));
    return job->executors_.size() == ranks ? std::move(job) : nullptr;
  }

  Plan plan(ccom_operation_t operation, ccom_algorithm_t algorithm, uint64_t bytes) const {
    Request request;
    request.operation = operation;
    request.type = CCOM_FP32;
    request.algorithm = algorithm;
    request.count = bytes / 4 / (operation == CCOM_ALL_REDUCE ? 1 : ranks_);
    Parameters parameters;
    parameters.channels = 1;
    auto plan = planner_->plan(request, parameters);
    if (plan) return std::move(*plan);
    std::fprintf(stderr, "%s\n", plan.error().sentence.c_str());
    return {};
  }

  // Seconds of one operation; negative: it failed.
  double measure(const Plan& wanted, uint64_t bytes) {
    const auto plan = std::make_shared<const Plan>(wanted);
    const uint64_t repetitions = std::clamp<uint64_t>((64u << 20) / bytes / ranks_, 10, 400);
    std::vector<double> ends;
    std::atomic<bool> good{true};
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        Signature signature;
        signature.kind = static_cast<uint8_t>(plan->request.operation);
        signature.type = static_cast<uint8_t>(plan->request.type);
        signature.count = plan->request.count;
        const Operands operands{buffers_[rank].get(), buffers_[rank].get() + kLargest};
        for (uint64_t i = 0; i < repetitions + 2; ++i) {
          signature.operation = operation_ + i;
          const auto result =
              executors_[rank]->run(plan, operands, signature, std::chrono::milliseconds(20000));
          if (!result) {
            if (good.exchange(false)) std::fprintf(stderr, "%s\n", result.error().sentence.c_str());
            return;
          }
          if (rank == 0) ends.push_back(now_seconds());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    operation_ += repetitions + 2;
    if (!good) return -1;
    std::vector<double> periods;
    for (size_t i = 2; i < ends.size(); ++i) periods.push_back(ends[i] - ends[i - 1]);
    std::sort(periods.begin(), periods.end());
    return periods[periods.size() / 4];
  }

  uint32_t ranks() const { return ranks_; }

 private:
  explicit Job(uint32_t ranks) : ranks_(ranks) {
    Group group{{}, Topology(*Topology::profile("host"), 1)};
    for (Rank rank = 0; rank < ranks; ++rank) group.places.push_back({0, 0, rank, 0});
    planner_ = std::make_unique<Planner>(group, CostParameters{});
    auto joined = Bootstrap::join_all(ranks);
    if (!joined) return;
    bootstraps_ = std::move(*joined);
    for (Rank rank = 0; rank < ranks; ++rank) {
      auto arena = Arena::create(ArenaLayout::of(ranks).heap + (2u << 20));
      if (!arena) return;
      arenas_.push_back(std::move(*arena));
      auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, 2 * kLargest));
      std::memset(memory, 0, 2 * kLargest);
      buffers_.emplace_back(memory, &std::free);
    }
    for (Rank rank = 0; rank < ranks; ++rank) {
      ExecutorContext context;
      context.rank = rank;
      context.size = ranks;
      context.bootstrap = bootstraps_[rank].get();
      for (const auto& arena : arenas_) context.arenas.push_back(arena.get());
      context.deadline = base::Deadline::after(std::chrono::milliseconds(10000));
      auto executor = make_host_executor(context);
      if (!executor) {
        std::fprintf(stderr, "%s\n", executor.error().sentence.c_str());
        return;
      }
      executors_.push_back(std::move(*executor));
    }
  }

  uint32_t ranks_;
  uint64_t operation_ = 1;
  std::unique_ptr<Planner> planner_;
  std::vector<std::unique_ptr<Bootstrap>> bootstraps_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> buffers_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

struct Cell {
  uint32_t ranks;
  ccom_operation_t operation;
  ccom_algorithm_t algorithm;
  uint64_t bytes;  // of the vector, or of what is gathered
  auto operator<=>(const Cell&) const = default;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Prices {
  HostModel model;
  // Picoseconds of one, by the size of the vector.
  std::map<ccom_operation_t, HostCurve> message;
};

class Truth {
 public:
  bool run() {
    collect();
    for (const uint32_t ranks : kRanks) {
      jobs_[ranks] = Job::make(ranks);
      if (!jobs_[ranks]) return false;
    }
    // Rounds go through all cells, so that whatever else the machine does meets all of them.
    for (int round = 0; round < kRounds; ++round) {
      for (auto& [cell, values] : measured_) {
        Job& job = *jobs_[cell.ranks];
        const double seconds =
            job.measure(job.plan(cell.operation, cell.algorithm, cell.bytes), cell.bytes);
        if (seconds < 0) return false;
        values.push_back(seconds);
      }
    }
    calibrate();
    return compare();
  }

 private:
  void collect() {
    for (const uint32_t ranks : kRanks) {
      for (const uint64_t bytes : kCalibrated) {
        for (const auto operation : {CCOM_ALL_REDUCE, CCOM_REDUCE_SCATTER, CCOM_ALL_GATHER}) {
          measured_[{ranks, operation, CCOM_MESH, bytes}];
        }
        for (const auto operation : {CCOM_ALL_REDUCE, CCOM_ALL_GATHER}) {
          measured_[{ranks, operation, CCOM_RING, bytes}];
        }
      }
      for (const uint64_t bytes : kTested) {
        for (const auto operation : {CCOM_ALL_REDUCE, CCOM_REDUCE_SCATTER, CCOM_ALL_GATHER}) {
          measured_[{ranks, operation, CCOM_MESH, bytes}];
        }
        for (const auto operation : {CCOM_ALL_REDUCE, CCOM_ALL_GATHER}) {
          measured_[{ranks, operation, CCOM_RING, bytes}];
        }
      }
    }
  }

  double real_ps(const Cell& cell) const { return 1e12 * median(measured_.at(cell)); }

  HostSimulation simulated(const Cell& cell, const HostModel& model) {
    const Plan plan = jobs_[cell.ranks]->plan(cell.operation, cell.algorithm, cell.bytes);
    const auto result = simulate_host(plan, model);
    if (!result) std::fprintf(stderr, "%s\n", result.error().sentence.c_str());
    return result ? *result : HostSimulation{};
  }

  void calibrate() {
    const auto online = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    for (const uint32_t ranks : kRanks) {
      Prices& prices = prices_[ranks];
      HostModel& model = prices.model;
      model.processors = online;
      const auto real = [&](ccom_operation_t operation, uint64_t bytes,
                            ccom_algorithm_t algorithm = CCOM_MESH) {
        return real_ps({ranks, operation, algorithm, bytes});
      };
      // What is left of a straight line through the two smallest sizes where there are no bytes;
      // less than anything that was measured, however badly these two went.
      double start = std::max(
          0.0, 2 * real(CCOM_ALL_REDUCE, kCalibrated[0]) - real(CCOM_ALL_REDUCE, kCalibrated[1]));
      for (const uint64_t bytes : kCalibrated) {
        for (const auto operation : {CCOM_ALL_REDUCE, CCOM_REDUCE_SCATTER, CCOM_ALL_GATHER}) {
          start = std::min(start, 0.98 * real(operation, bytes));
        }
      }
      model.start_ps = static_cast<uint64_t>(start);
      const double turns = static_cast<double>(ranks) / std::min(ranks, online);
      for (const uint64_t bytes : kCalibrated) {
        const auto per_byte = [&](ccom_operation_t operation) {
          return std::max(0.0, real(operation, bytes) - start) / static_cast<double>(bytes) / turns;
        };
        // All-reduce: every byte of the vector is read from each rank and written to each, a part
        // of it by each rank. Reduce-scatter: written once.
        const double all = per_byte(CCOM_ALL_REDUCE);
        const double part = per_byte(CCOM_REDUCE_SCATTER) * ranks;
        const double read = std::clamp((part - all) / (ranks - 1), 0.0, all);
        model.read.set(bytes, read);
        model.write.set(bytes, all - read);
        model.copy.set(bytes, per_byte(CCOM_ALL_GATHER));
      }
      for (const uint64_t bytes : kCalibrated) {
        for (const auto operation : {CCOM_ALL_REDUCE, CCOM_ALL_GATHER}) {
          const Cell ring{ranks, operation, CCOM_RING, bytes};
          const HostSimulation without = simulated(ring, model);
          const double rest = real_ps(ring) - static_cast<double>(without.time_ps);
          prices.message[operation].set(bytes,
                                        std::max(0.0, rest / std::max(1u, without.messages)));
        }
      }
      std::printf(
          "{\"name\":\"simulator-truth calibration\", \"ranks\":%u, \"start_us\":%.3f, "
          "\"message_us\":%.3f, \"read_ps_per_byte\":%.1f, \"write_ps_per_byte\":%.1f, "
          "\"copy_ps_per_byte\":%.1f}\n",
          ranks, start * 1e-6, prices.message[CCOM_ALL_GATHER].at(kCalibrated[0]) * 1e-6,
          model.read.at(1 << 20), model.write.at(1 << 20), model.copy.at(1 << 20));
    }
  }

  bool compare() {
    std::vector<double> errors, spreads;
    for (const auto& [cell, values] : measured_) {
      if (std::find(std::begin(kTested), std::end(kTested), cell.bytes) == std::end(kTested)) {
        continue;
      }
      HostModel model = prices_[cell.ranks].model;
      if (cell.algorithm == CCOM_RING) {
        model.message_ps =
            static_cast<uint64_t>(prices_[cell.ranks].message[cell.operation].at(cell.bytes));
      }
      const double real = real_ps(cell);
      const double model_ps = static_cast<double>(simulated(cell, model).time_ps);
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      errors.push_back(std::abs(model_ps / real - 1));
      spreads.push_back((*most - *least) / 2 / median(values));
      const char* operation = cell.operation == CCOM_ALL_REDUCE   ? "all_reduce"
                              : cell.operation == CCOM_ALL_GATHER ? "all_gather"
                                                                  : "reduce_scatter";
      std::printf(
          "{\"name\":\"simulator-truth\", \"ranks\":%u, \"operation\":\"%s\", \"algorithm\":\"%s\","
          " \"kibibytes\":%llu, \"real_us\":%.2f, \"model_us\":%.2f, \"error_percent\":%.1f, "
          "\"spread_percent\":%.1f}\n",
          cell.ranks, operation, cell.algorithm == CCOM_MESH ? "mesh" : "ring",
          static_cast<unsigned long long>(cell.bytes >> 10), real * 1e-6, model_ps * 1e-6,
          (model_ps / real - 1) * 100, spreads.back() * 100);
    }
    const double error = median(errors), spread = median(spreads);
    std::sort(errors.begin(), errors.end());
    const double p95 = errors[errors.size() * 95 / 100];
    std::printf(
        "{\"name\":\"simulator-truth, cells\", \"cells\":%zu, \"median\":%.4f, \"p95\":%.4f, "
        "\"spread\":%.4f}\n",
        errors.size(), error, p95, spread);
    // A host whose own runs differ by more than half of the goal shows nothing.
    constexpr double kGoal = 0.10;
    report({"simulator-truth, median error", error, 1, "the measured time", "of it", kGoal,
            Bound::kAtMost, spread <= kGoal / 2});
    report({"simulator-truth, runs of one cell apart", spread, 1, "the measured time", "of it"});
    std::fflush(stdout);
    return true;
  }

  std::map<uint32_t, std::unique_ptr<Job>> jobs_;
  std::map<Cell, std::vector<double>> measured_;
  std::map<uint32_t, Prices> prices_;  // by number of ranks
};

bool simulator_truth() { return Truth().run(); }

const Bench kTruth("simulator-truth", simulator_truth);

}  // namespace
}  // namespace neuron::bench
