// SPDX-License-Identifier: Apache-2.0
// simulator-events: events per second of one core by the engine of events, where messages queue for
// links and nothing is folded. The time that each simulation finds is printed, so that two builds
// can be compared to the picosecond.
#include <time.h>

#include <vector>

#include "ccom/simulator/chip_costs.h"
#include "tests/bench/ccom/bench.h"
#include "tests/bench/ccom/trn1.h"

namespace neuron::bench {
namespace {

constexpr int kRounds = 5;
constexpr double kGoal = 8e6;
constexpr double kMessageGoal = 64;

struct Case {
  const char* name;
  ccom_operation_t operation;
  ccom_algorithm_t algorithm;
  uint32_t chips;
  uint32_t channels;
  uint32_t window;
  uint64_t bytes;
  // Steps take the time that chips take for them, and messages queue for HBM and DMA, too.
  bool chip = false;
  uint32_t segments = 1;
  uint64_t until_ps = 0;  // the simulation ends there; 0: at the end
};
constexpr Case kCases[] = {
    {"two_d_ring, 2048 chips", CCOM_ALL_REDUCE, CCOM_TWO_D_RING, 2048, 1, 1, 235'000'000},
    {"two_d_ring, 2048 chips, costs", CCOM_ALL_REDUCE, CCOM_TWO_D_RING, 2048, 1, 1, 235'000'000,
     true},
    {"two_d_ring, 65,536 chips, 3 ms", CCOM_ALL_REDUCE, CCOM_TWO_D_RING, 65536, 1, 4, 235'000'000,
     false, 1, 3'000'000'000},
    {"ring, 256 chips, 8 channels", CCOM_ALL_REDUCE, CCOM_RING, 256, 8, 4, 64 << 20},
    {"ring, 256 chips, 8 channels, costs", CCOM_ALL_REDUCE, CCOM_RING, 256, 8, 4, 64 << 20, true},
    {"hierarchical, 1024 chips, costs", CCOM_ALL_REDUCE, CCOM_HIERARCHICAL, 1024, 8, 4, 64 << 20,
     true},
    {"tree, 2048 chips", CCOM_ALL_REDUCE, CCOM_TREE, 2048, 1, 4, 64 << 20, false, 0},
    {"tree, 32,768 chips", CCOM_ALL_REDUCE, CCOM_TREE, 32768, 1, 4, 64 << 20, false, 0},
    {"mesh, 512 chips, costs", CCOM_ALL_REDUCE, CCOM_MESH, 512, 1, 4, 64 << 20, true},
    {"all-to-all, 512 chips", CCOM_ALL_TO_ALL, CCOM_MESH, 512, 1, 4, 64 << 20},
    {"all-to-all, 2048 chips", CCOM_ALL_TO_ALL, CCOM_MESH, 2048, 1, 4, 64 << 20},
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool measure(const Case& wanted) {
  const ccom::Group group = trn1_chips(wanted.chips);
  ccom::Request request;
  request.operation = wanted.operation;
  request.type = CCOM_BF16;
  request.algorithm = wanted.algorithm;
  const uint64_t parts = uint64_t{wanted.channels} * group.ranks();
  request.count = (wanted.bytes / 2 + parts - 1) / parts * parts;
  if (wanted.operation == CCOM_ALL_TO_ALL) request.count /= group.ranks();
  ccom::CostParameters costs;
  costs.medium = ccom::Medium::kDevice;
  const auto plan = ccom::Planner(group, costs)
                        .plan(request, {wanted.channels, wanted.segments, 0, wanted.window});
  if (!plan) {
    std::fprintf(stderr, "%s\n", plan.error().sentence.c_str());
    return false;
  }
  ccom::SimulationOptions options;
  options.fold = false;
  options.until_ps = wanted.until_ps;
  if (wanted.chip) {
    options.costs = ccom::chip_costs(1);
    options.memory = true;
  }
  std::vector<double> rates;
  ccom::Simulation last;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = cpu_seconds();
    auto result = ccom::simulate(group, *plan, options);
    const double taken = cpu_seconds() - begin;
    if (!result) {
      std::fprintf(stderr, "%s\n", result.error().sentence.c_str());
      return false;
    }
    rates.push_back(static_cast<double>(result->events) / taken);
    last = std::move(*result);
  }
  std::sort(rates.begin(), rates.end());
  const std::string name = std::string("simulator-events, ") + wanted.name;
  report({name, rates[kRounds / 2], kGoal, "goal", "events/s", 1.0, Bound::kAtLeast});
  options.loads = true;  // counts messages, which takes time
  const auto counted = ccom::simulate(group, *plan, options);
  const double bytes = static_cast<double>(counted->message_bytes) /
                       static_cast<double>(std::max<uint64_t>(1, counted->most_messages));
  report({name + ", a live message", bytes, kMessageGoal, "goal", "bytes", 1.0, Bound::kAtMost});
  std::printf(
      "{\"name\":\"%s\", \"events\":%llu, \"steps\":%llu, \"best_events_per_cpu_second\":%.4g, "
      "\"model_ps\":%llu, \"most_live_messages\":%llu}\n",
      name.c_str(), static_cast<unsigned long long>(last.events),
      static_cast<unsigned long long>(last.steps), rates.back(),
      static_cast<unsigned long long>(last.time_ps),
      static_cast<unsigned long long>(counted->most_messages));
  std::fflush(stdout);
  return true;
}

bool simulator_events() {
  bool good = true;
  for (const Case& wanted : kCases) good = measure(wanted) && good;
  return good;
}

const Bench kSimulatorEvents("simulator-events", simulator_events);

}  // namespace
}  // namespace neuron::bench
