// SPDX-License-Identifier: Apache-2.0
// simulator-truth-between-hosts: the simulator that draws the charts, simulate() with its engine of
// events, beside runs of libccom over tcp.
//
// Each rank is a process that treats the others as processes of other hosts, on loopback. Messages
// queue for the processors of this host. Prices are FITTED to the points of some sizes and numbers
// of ranks (calibrated), in three classes of sizes, because the provider sends small, middle and
// large messages in different ways. The errors are those of the other points: sizes that were left
// out, and numbers of ranks that were left out, for all sizes.
#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ccom/request/names.h"
#include "ccom/simulator/simulator.h"
#include "tests/bench/ccom/bench.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::bench {
namespace {

using namespace neuron::ccom;

constexpr int kRounds = 5;
constexpr uint64_t kSizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};

// Of three: up to 32 KiB, up to 512 KiB, above.
size_t class_of(uint64_t bytes) { return bytes <= 32 << 10 ? 0 : bytes <= 512 << 10 ? 1 : 2; }

// The smaller size of each class.
bool calibrates(uint32_t ranks, uint64_t bytes) {
  return bytes == kSizes[2 * class_of(bytes)] && (ranks == 2 || ranks == 4);
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
  double seconds;  // the least of the rounds' quartiles
};

// Logarithms of what is fitted.
enum Price { kLatency, kRate, kHeader, kSend, kReceive, kReduce, kPrices };
using Prices = std::array<double, kPrices>;

class Truth {
 public:
  bool run() {
    for (const Kind& kind : kKinds) {
      for (const uint32_t ranks : kRanks) {
        if (!measure(kind, ranks)) return false;
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
              " -d fp32 -b 4K -e 4M -f 4 -n 20 -w 3 -t p25 --json - 2>/dev/null",
          {});
      boost::system::error_code error;
      const auto value = boost::json::parse(run.output, error);
      if (error || run.ending != 0) {
        std::fprintf(stderr, "simulator-truth-between-hosts: %s\n", run.output.c_str());
        return false;
      }
      for (const auto& row : value.at("results").as_array()) {
        const auto bytes = static_cast<uint64_t>(row.at("size(B)").as_int64());
        const double seconds = row.at("time:p25(us)").to_number<double>() * 1e-6;
        const auto [at, fresh] = least.try_emplace(bytes, seconds);
        if (!fresh) at->second = std::min(at->second, seconds);
      }
    }
    for (const auto& [bytes, seconds] : least) points_.push_back({&kind, ranks, bytes, seconds});
    return true;
  }

  // Sizes of an all-gather are rounded up to whole blocks, which changes no size here.
  static uint64_t nominal(uint64_t bytes) {
    return *std::min_element(std::begin(kSizes), std::end(kSizes), [&](uint64_t a, uint64_t b) {
      return std::llabs(static_cast<long long>(a - bytes)) <
             std::llabs(static_cast<long long>(b - bytes));
    });
  }

  // Ranks share the processors of this host, each of which serves one message at a time.
  double simulated(const Point& point, const Prices& prices) const {
    NodeProfile node = *Topology::profile("host");
    node.chips = 1;
    const uint32_t processors = std::max(1u, std::thread::hardware_concurrency());
    node.ranks_per_chip = std::min(processors, point.ranks);
    node.on_chip = {std::exp(prices[kRate]),
                    static_cast<uint64_t>(std::exp(prices[kLatency]) * 1e12)};
    Group group{{}, Topology(node, 1)};
    Group apart{{}, Topology(node, point.ranks)};  // for the plan: a host for each rank
    for (Rank rank = 0; rank < point.ranks; ++rank) {
      group.places.push_back({0, 0, rank % node.ranks_per_chip, 0});
      apart.places.push_back({rank, 0, 0, 0});
    }
    Request request;
    request.operation = point.kind->operation;
    request.algorithm = point.kind->algorithm;
    request.type = CCOM_FP32;
    request.count = point.bytes / 4 / (request.operation == CCOM_ALL_REDUCE ? 1 : point.ranks);
    const auto plan = Planner(apart, {}).plan(request);
    SimulationOptions options;
    options.costs.header_bytes = static_cast<uint64_t>(std::exp(prices[kHeader]));
    options.costs.send_ps = static_cast<uint64_t>(std::exp(prices[kSend]) * 1e12);
    options.costs.receive_ps = static_cast<uint64_t>(std::exp(prices[kReceive]) * 1e12);
    options.costs.reduce_bytes_per_second = std::exp(prices[kReduce]);
    options.costs.copy_bytes_per_second = std::exp(prices[kReduce]);
    const auto result = plan ? simulate(group, *plan, options) : Result<Simulation>(plan.error());
    if (!result) std::fprintf(stderr, "%s\n", result.error().sentence.c_str());
    return result ? static_cast<double>(result->time_ps) * 1e-12 : 1e9;
  }

  double misfit(const Prices& prices, size_t of) const {
    double sum = 0;
    for (const Point& point : points_) {
      if (class_of(point.bytes) != of || !calibrates(point.ranks, nominal(point.bytes))) continue;
      sum += std::min(1.5, std::abs(std::log(simulated(point, prices) / point.seconds)));
    }
    return sum;
  }

  // Downhill, price by price, with steps that become smaller.
  void fit() {
    for (size_t of = 0; of < prices_.size(); ++of) {
      Prices& prices = prices_[of];
      prices = {std::log(20e-6), std::log(2e9),  std::log(10e3),
                std::log(5e-6),  std::log(5e-6), std::log(5e9)};
      double least = misfit(prices, of);
      for (double step = 1; step > 0.02; step /= 2) {
        for (bool better = true; better;) {
          better = false;
          for (double& price : prices) {
            for (const double change : {step, -step}) {
              price += change;
              const double found = misfit(prices, of);
              if (found < least - 1e-6) {
                least = found;
                better = true;
                break;
              }
              price -= change;
            }
          }
        }
      }
      std::printf(
          "{\"name\":\"simulator-truth-between-hosts, prices\", \"class\":%zu, "
          "\"FITTED\":{\"latency_us\":%.2f, \"GB_per_s\":%.3f, \"header_bytes\":%.0f, "
          "\"send_us\":%.2f, \"receive_us\":%.2f, \"reduce_GB_per_s\":%.2f}}\n",
          of, std::exp(prices[kLatency]) * 1e6, std::exp(prices[kRate]) * 1e-9,
          std::exp(prices[kHeader]), std::exp(prices[kSend]) * 1e6,
          std::exp(prices[kReceive]) * 1e6, std::exp(prices[kReduce]) * 1e-9);
    }
  }

  static std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    }
    return "unknown";
  }

  bool compare() const {
    std::vector<double> fitted, others;
    for (const Point& point : points_) {
      const double model = simulated(point, prices_[class_of(point.bytes)]);
      const bool calibrated = calibrates(point.ranks, nominal(point.bytes));
      (calibrated ? fitted : others).push_back(std::abs(model / point.seconds - 1));
      std::printf(
          "{\"name\":\"simulator-truth-between-hosts\", \"operation\":\"%s\", "
          "\"algorithm\":\"%s\", "
          "\"ranks\":%u, \"bytes\":%llu, \"real_us\":%.1f, \"simulated_us\":%.1f, "
          "\"error_percent\":%.1f, \"point\":\"%s\"}\n",
          point.kind->name, point.kind->algorithm_name, point.ranks,
          static_cast<unsigned long long>(point.bytes), point.seconds * 1e6, model * 1e6,
          (model / point.seconds - 1) * 100, calibrated ? "FITTED" : "left out");
    }
    std::sort(fitted.begin(), fitted.end());
    std::sort(others.begin(), others.end());
    const double median = others[others.size() / 2], worst = others.back();
    std::printf(
        "{\"name\":\"simulator-truth-between-hosts, points left out\", \"processor\":\"%s\", "
        "\"points\":%zu, \"median\":%.3f, \"worst\":%.3f, \"FITTED_median\":%.3f, "
        "\"bound\":\"at most\", \"goal_median\":0.10, \"goal_worst\":0.30, \"met\":%s}\n",
        processor().c_str(), others.size(), median, worst, fitted[fitted.size() / 2],
        judged(median <= 0.10 && worst <= 0.30));
    std::fflush(stdout);
    return true;
  }

  std::vector<Point> points_;
  std::array<Prices, 3> prices_{};
};

bool event_truth() { return Truth().run(); }

const Bench kEventTruth("simulator-truth-between-hosts", event_truth);

}  // namespace
}  // namespace neuron::bench
