// SPDX-License-Identifier: Apache-2.0
// simulator-truth-between-hosts: the simulator that draws the charts, simulate() with its engine of
// events, beside runs of libccom over tcp.
//
// Each rank is a process that treats the others as processes of other hosts, on loopback, by the
// provider "stream". The model has what such a message does: both sides and reductions occupy the
// processors of this host, which the ranks share; the kernel copies in and out; a long message is
// offered first, and copied out piece by piece. Sizes of offers and pieces are the provider's own,
// all prices are FITTED at once to the points of some sizes and numbers of ranks (calibrated). The
// errors are those of the other points: sizes that were left out, and numbers of ranks that were
// left out, for all sizes. Everything is measured twice, one pass behind the other, and the least
// counts: how far the passes are apart says how much the errors are worth.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ccom/plan/calibration.h"
#include "ccom/request/names.h"
#include "ccom/simulator/simulator.h"
#include "tests/bench/ccom/bench.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::bench {
namespace {

using namespace neuron::ccom;

constexpr int kPasses = 2;
constexpr int kRounds = 3;
constexpr int kStarts = 4;
constexpr int kAttempts = 1500;
constexpr uint32_t kTimes = 4;
constexpr uint64_t kSizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};

const double kCacheBytes = static_cast<double>(std::max(1L << 18, sysconf(_SC_LEVEL2_CACHE_SIZE)));
constexpr const char* kProvider = "stream";
constexpr uint64_t kEagerBytes = 64 << 10;  // the provider's kAtOnce
constexpr uint64_t kPieceBytes = 64 << 10;  // and what it reads at once

// Every second size, so that one of them is sent at once, one is offered, and one is in no cache.
bool calibrates(uint32_t ranks, uint64_t bytes) {
  const auto at = std::find(std::begin(kSizes), std::end(kSizes), bytes) - std::begin(kSizes);
  return at % 2 == 1 && (ranks == 2 || ranks == 4);
}

struct Kind {
  const char* name;  // as nccom-test calls it
  ccom_operation_t operation;
  const char* algorithm_name;
  ccom_algorithm_t algorithm;
};
constexpr Kind kKinds[] = {
    {"allr", CCOM_ALL_REDUCE, "ring", CCOM_RING}, {"allr", CCOM_ALL_REDUCE, "mesh", CCOM_MESH},
    {"allr", CCOM_ALL_REDUCE, "tree", CCOM_TREE}, {"allg", CCOM_ALL_GATHER, "ring", CCOM_RING},
    {"allg", CCOM_ALL_GATHER, "mesh", CCOM_MESH},
};
constexpr uint32_t kRanks[] = {2, 3, 4};

struct Point {
  const Kind* kind;
  uint32_t ranks;
  uint64_t bytes;
  double seconds;                           // the least of all rounds' means
  double apart;                             // the passes, each with the least of its rounds
  std::optional<Plan> plan = std::nullopt;  // as soon as it was simulated
  uint64_t longest = 1;                     // message of rank 0
};

// Logarithms of what is fitted.
enum Price {
  kStart,        // of an operation, of a rank's processor
  kLatency,      // between two processes
  kSend,         // of a message, of a processor
  kReceive,      //
  kSwitch,       // of a processor from one rank to another
  kWait,         // of a receive that had to wait
  kOffer,        // of a message that is offered, of each side
  kSendRate,     // of copies
  kReceiveRate,  //
  kReduce,
  kFar,  // by how much copies and reductions are slower where the buffers are in no cache
  kPrices
};
using Prices = std::array<double, kPrices>;
constexpr const char* kNames[] = {
    "start_us", "latency_us",    "send_us",          "receive_us",      "switch_us", "wait_us",
    "offer_us", "send_GB_per_s", "receive_GB_per_s", "reduce_GB_per_s", "far"};

// An operation several times in a row, as it is measured: no rank waits for the others in between.
// Each begins with a copy, which stands for its call. What is measured is the mean, since ranks
// that share a processor have short and long operations in turns.
class Repeated final : public Schedule {
 public:
  Repeated(std::shared_ptr<const Schedule> one, uint32_t times, uint64_t begin_bytes)
      : one_(std::move(one)), times_(times), begin_bytes_(begin_bytes) {}

  uint32_t ranks() const override { return one_->ranks(); }
  uint32_t channels() const override { return one_->channels(); }
  std::unique_ptr<Program> program(Rank rank, uint32_t channel) const override {
    return std::make_unique<Times>(*this, rank, channel);
  }
  uint64_t input_bytes(Rank rank) const override { return one_->input_bytes(rank); }
  uint64_t output_bytes(Rank rank) const override { return one_->output_bytes(rank); }
  uint64_t scratch_bytes(Rank rank) const override { return one_->scratch_bytes(rank); }

 private:
  class Times final : public Program {
   public:
    Times(const Repeated& all, Rank rank, uint32_t channel)
        : all_(all), rank_(rank), channel_(channel) {}
    bool next(Step& step) override {
      if (!program_ || !program_->next(step)) {
        if (done_ == all_.times_) return false;
        ++done_;
        program_ = all_.one_->program(rank_, channel_);
        step = Step{};
        step.bytes = channel_ == 0 ? all_.begin_bytes_ : 0;
      } else if (step.kind == StepKind::kWait) {
        step.position += 1 + (done_ - 1) * (1 + all_.steps(rank_, step.channel));
      }
      return true;
    }

   private:
    const Repeated& all_;
    Rank rank_;
    uint32_t channel_;
    uint32_t done_ = 0;
    std::unique_ptr<Program> program_;
  };

  uint64_t steps(Rank rank, uint32_t channel) const {
    const auto program = one_->program(rank, channel);
    Step step;
    uint64_t steps = 0;
    while (program->next(step)) ++steps;
    return steps;
  }

  std::shared_ptr<const Schedule> one_;
  uint32_t times_;
  uint64_t begin_bytes_;
};

class Truth {
 public:
  bool run() {
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const Kind& kind : kKinds) {
        for (const uint32_t ranks : kRanks) {
          if (!measure(kind, ranks)) return false;
        }
      }
    }
    fit();
    return compare();
  }

 private:
  bool measure(const Kind& kind, uint32_t ranks) {
    std::map<uint64_t, double> least;
    for (int round = 0; round < kRounds; ++round) {
      const test::Run run = test::shell(
          test::built("bin/nccom-test ") + kind.name + " -r " + std::to_string(ranks) +
              " --processes --backend network --no-shared-memory --fast-order --algorithm " +
              kind.algorithm_name +
              " -d fp32 -b 4K -e 4M -f 4 -n 50 -w 5 -t avg --json - 2>/dev/null",
          {});
      boost::system::error_code error;
      const auto value = boost::json::parse(run.output, error);
      if (error || run.ending != 0) {
        std::fprintf(stderr, "simulator-truth-between-hosts: %s\n", run.output.c_str());
        return false;
      }
      for (const auto& row : value.at("results").as_array()) {
        const auto bytes = static_cast<uint64_t>(row.at("size(B)").as_int64());
        const double seconds = row.at("time:avg(us)").to_number<double>() * 1e-6;
        const auto [at, fresh] = least.try_emplace(bytes, seconds);
        if (!fresh) at->second = std::min(at->second, seconds);
      }
    }
    for (const auto& [bytes, seconds] : least) {
      // A name of its own: clang 14 captures no part of a structured binding.
      const uint64_t size = bytes;
      const auto known = std::find_if(points_.begin(), points_.end(), [&](const Point& point) {
        return point.kind == &kind && point.ranks == ranks && point.bytes == size;
      });
      if (known == points_.end()) {
        points_.push_back({&kind, ranks, bytes, seconds, 0});
      } else {
        known->apart = std::abs(known->seconds / seconds - 1);
        known->seconds = std::min(known->seconds, seconds);
      }
    }
    return true;
  }

  // Sizes of an all-gather are rounded up to whole blocks, which changes no size here.
  static uint64_t nominal(uint64_t bytes) {
    return *std::min_element(std::begin(kSizes), std::end(kSizes), [&](uint64_t a, uint64_t b) {
      return std::llabs(static_cast<long long>(a - bytes)) <
             std::llabs(static_cast<long long>(b - bytes));
    });
  }

  // As the library plans there: for ranks of one host, since that is where these are.
  static bool make_plan(const Group& group, Point& point) {
    Request request;
    request.operation = point.kind->operation;
    request.algorithm = point.kind->algorithm;
    request.type = CCOM_FP32;
    request.count = point.bytes / 4 / (request.operation == CCOM_ALL_REDUCE ? 1 : point.ranks);
    auto plan = Planner(group, network_costs({}, kProvider)).plan(request);
    if (!plan) {
      std::fprintf(stderr, "%s\n", plan.error().sentence.c_str());
      return false;
    }
    const auto program = plan->schedule->program(0, 0);
    for (Step step; program->next(step);) {
      if (step.kind == StepKind::kSend) point.longest = std::max(point.longest, step.bytes);
    }
    point.plan = std::move(*plan);
    return true;
  }

  // The time that one more operation takes.
  double simulated(Point& point, const Prices& prices) const {
    const auto ps = [&](Price price) {
      return static_cast<uint64_t>(std::exp(prices[price]) * 1e12);
    };
    NodeProfile node = *Topology::profile("host");
    node.chips = 1;
    node.ranks_per_chip = point.ranks;
    node.on_chip = {0, ps(kLatency)};  // loopback has no rate but that of the copies
    Group group{{}, Topology(node, 1)};
    for (Rank rank = 0; rank < point.ranks; ++rank) group.places.push_back({0, 0, rank, 0});
    if (!point.plan && !make_plan(group, point)) return 1e9;
    // What of a message does not fit into the second-level cache comes from afar.
    const double near = std::min(1.0, kCacheBytes / static_cast<double>(point.longest));
    const double slower = near + (1 - near) * std::exp(prices[kFar]);
    SimulationOptions options;
    const uint32_t processors = std::max(1u, std::thread::hardware_concurrency());
    options.processors = {processors,
                          ps(kSwitch),
                          ps(kWait),
                          std::exp(prices[kSendRate]) / slower,
                          std::exp(prices[kReceiveRate]) / slower,
                          kEagerBytes,
                          ps(kOffer),
                          kPieceBytes};
    options.costs.send_ps = ps(kSend);
    options.costs.receive_ps = ps(kReceive);
    options.costs.reduce_bytes_per_second = std::exp(prices[kReduce]) / slower;
    options.costs.copy_bytes_per_second = std::exp(prices[kReduce]) / slower;
    const auto begin =
        static_cast<uint64_t>(std::exp(prices[kStart]) * options.costs.copy_bytes_per_second);
    double seconds[2] = {};
    for (const uint32_t times : {1u, kTimes}) {
      Plan plan;
      plan.schedule = std::make_shared<Repeated>(point.plan->schedule, times, begin);
      plan.window = point.plan->window;
      const auto result = simulate(group, plan, options);
      if (!result) {
        std::fprintf(stderr, "%s\n", result.error().sentence.c_str());
        return 1e9;
      }
      seconds[times == 1 ? 0 : 1] = static_cast<double>(result->time_ps) * 1e-12;
    }
    return (seconds[1] - seconds[0]) / (kTimes - 1);
  }

  double misfit(const Prices& prices) {
    double sum = 0;
    for (Point& point : points_) {
      if (!calibrates(point.ranks, nominal(point.bytes))) continue;
      const double error = std::log(simulated(point, prices) / point.seconds);
      sum += std::min(1.5, std::abs(error));
    }
    return sum;
  }

  // Downhill from several places, which are the same in every run, since there are valleys.
  void fit() {
    const Prices begin = {std::log(2e-6), std::log(1e-6), std::log(3e-6),  std::log(2e-6),
                          std::log(4e-6), std::log(1e-6), std::log(20e-6), std::log(14e9),
                          std::log(14e9), std::log(14e9), std::log(2.5)};
    std::mt19937_64 random(1);
    double least = 1e9;
    for (int start = 0; start < kStarts; ++start) {
      Prices prices = begin;
      for (double& price : prices) {
        if (start != 0) price += std::uniform_real_distribution<double>(-1.5, 1.5)(random);
      }
      const double found = descend(prices, random);
      if (found < least) {
        least = found;
        prices_ = prices;
      }
    }
    std::printf("{\"name\":\"simulator-truth-between-hosts, prices\", \"FITTED\":{");
    for (size_t i = 0; i < prices_.size(); ++i) {
      const double unit = i == kFar ? 1 : i >= kSendRate ? 1e-9 : 1e6;
      std::printf("%s\"%s\":%.3g", i == 0 ? "" : ", ", kNames[i], std::exp(prices_[i]) * unit);
    }
    std::printf("}}\n");
  }

  // All prices change a little at once, and less and less; what is better is kept.
  double descend(Prices& prices, std::mt19937_64& random) {
    double least = misfit(prices);
    std::normal_distribution<double> change(0, 1);
    double step = 0.5;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      Prices others = prices;
      const bool one = attempt % 2 == 0;  // or only one of them
      const size_t only = random() % kPrices;
      for (size_t i = 0; i < others.size(); ++i) {
        if (!one || i == only) others[i] += step * change(random) / (one ? 1 : 2);
      }
      const double found = misfit(others);
      if (found < least) {
        least = found;
        prices = others;
        step = std::min(1.0, step * 1.5);
      } else {
        step = std::max(0.01, step * 0.97);
      }
    }
    return least;
  }

  static std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    }
    return "unknown";
  }

  bool compare() {
    std::vector<double> fitted, others, apart;
    for (Point& point : points_) {
      const double model = simulated(point, prices_);
      const bool calibrated = calibrates(point.ranks, nominal(point.bytes));
      (calibrated ? fitted : others).push_back(std::abs(model / point.seconds - 1));
      if (!calibrated) apart.push_back(point.apart);
      std::printf(
          "{\"name\":\"simulator-truth-between-hosts\", \"operation\":\"%s\", "
          "\"algorithm\":\"%s\", "
          "\"ranks\":%u, \"bytes\":%llu, \"real_us\":%.1f, \"simulated_us\":%.1f, "
          "\"error_percent\":%.1f, \"passes_apart_percent\":%.1f, \"point\":\"%s\"}\n",
          point.kind->name, point.kind->algorithm_name, point.ranks,
          static_cast<unsigned long long>(point.bytes), point.seconds * 1e6, model * 1e6,
          (model / point.seconds - 1) * 100, point.apart * 100, calibrated ? "FITTED" : "left out");
    }
    std::sort(fitted.begin(), fitted.end());
    std::sort(others.begin(), others.end());
    std::sort(apart.begin(), apart.end());
    const double median = others[others.size() / 2], worst = others.back();
    std::printf(
        "{\"name\":\"simulator-truth-between-hosts, points left out\", \"processor\":\"%s\", "
        "\"points\":%zu, \"median\":%.3f, \"worst\":%.3f, \"FITTED_median\":%.3f, "
        "\"passes_apart_median\":%.3f, \"passes_apart_worst\":%.3f}\n",
        processor().c_str(), others.size(), median, worst, fitted[fitted.size() / 2],
        apart[apart.size() / 2], apart.back());
    report({"simulator-truth-between-hosts, median error", median, 1, "the measured time", "of it",
            0.10, Bound::kAtMost});
    report({"simulator-truth-between-hosts, worst error", worst, 1, "the measured time", "of it",
            0.30, Bound::kAtMost});
    return true;
  }

  std::vector<Point> points_;
  Prices prices_{};
};

bool event_truth() { return Truth().run(); }

const Bench kEventTruth("simulator-truth-between-hosts", event_truth);

}  // namespace
}  // namespace neuron::bench
