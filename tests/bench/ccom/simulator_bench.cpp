// SPDX-License-Identifier: Apache-2.0
// simulator: events per second of both engines, and a two-dimensional ring all-reduce of 100,000
// chips, folded and not, with the memory that it took.
#include <sys/resource.h>
#include <time.h>

#include "tests/bench/ccom/bench.h"
#include "tests/bench/ccom/trn1.h"

namespace neuron::bench {
namespace {

using ccom::Engine;
using ccom::Sharing;
using ccom::SimulationOptions;

constexpr uint64_t kBytes = 235'000'000;
constexpr uint32_t kManyChips = 100'000;

struct Timed {
  double seconds = 0;  // planning and simulating
  double events_per_second = 0;
  double events_per_cpu_second = 0;  // of all threads
  ccom::Simulation simulation;
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::optional<Timed> timed(uint32_t chips, const SimulationOptions& options) {
  Reduction wanted;
  wanted.algorithm = CCOM_TWO_D_RING;
  wanted.bytes = kBytes;
  wanted.channels = 1;
  const double begin = now_seconds();
  const ccom::Group group = trn1_chips(chips);
  const auto plan = plan_reduction(group, wanted);
  const double planned = now_seconds(), cpu = cpu_seconds();
  auto result =
      plan ? ccom::simulate(group, *plan, options) : ccom::Result<ccom::Simulation>(plan.error());
  const double end = now_seconds();
  if (result) {
    const auto events = static_cast<double>(result->events);
    return Timed{end - begin, events / (end - planned), events / (cpu_seconds() - cpu),
                 std::move(*result)};
  }
  std::fprintf(stderr, "%s\n", result.error().sentence.c_str());
  return std::nullopt;
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// The median of five, in processor time: what one core does, whoever else wants it.
bool rate(const char* name, uint32_t chips, const SimulationOptions& options, double goal) {
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) {
    const auto run = timed(chips, options);
    if (!run) return false;
    rates.push_back(run->events_per_cpu_second);
  }
  std::nth_element(rates.begin(), rates.begin() + 2, rates.end());
  report({name, rates[2], goal, "goal", "events/s", 1.0, Bound::kAtLeast});
  return true;
}

bool simulator() {
  SimulationOptions options;
  options.sharing = Sharing::kDivided;
  options.fold = false;
  if (!rate("simulator, events per second on one core", 8192, options, 15e6)) return false;
  options.engine = Engine::kEvents;
  if (!rate("simulator, the same by a queue of events", 2048, options, 1e6)) return false;
  options.engine = Engine::kDataflow;
  options.fold = true;
  const auto folded = timed(kManyChips, options);
  if (!folded) return false;
  report({"simulator, 100,000 chips folded", folded->seconds, 1, "goal", "s", 1.0, Bound::kAtMost});
  options.fold = false;
  options.threads = 2;
  const auto whole = timed(kManyChips, options);
  if (!whole) return false;
  report({"simulator, 100,000 chips on two cores", whole->seconds, 150, "goal", "s", 1.0,
          Bound::kAtMost});
  report({"simulator, memory of that", peak_bytes(), 2e9, "goal", "bytes", 1.0, Bound::kAtMost});
  std::printf(
      "{\"name\":\"simulator, 100,000 chips\", \"events\":%llu, \"steps\":%llu, "
      "\"events_per_second\":%.4g, \"events_per_cpu_second\":%.4g, \"model_ms\":%.3f, "
      "\"folded_model_ms\":%.3f, \"equal\":%s}\n",
      static_cast<unsigned long long>(whole->simulation.events),
      static_cast<unsigned long long>(whole->simulation.steps), whole->events_per_second,
      whole->events_per_cpu_second, static_cast<double>(whole->simulation.time_ps) * 1e-9,
      static_cast<double>(folded->simulation.time_ps) * 1e-9,
      whole->simulation.time_ps == folded->simulation.time_ps ? "true" : "false");
  std::fflush(stdout);
  return true;
}

const Bench kSimulator("simulator", simulator);

}  // namespace
}  // namespace neuron::bench
