// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/simulator.h"

#include <algorithm>

#include "ccom/simulator/dataflow.h"
#include "ccom/simulator/events.h"
#include "ccom/simulator/network.h"
#include "ccom/simulator/survey.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kMaxWindow = 4096;

}  // namespace

void add_loads(const Network& network, const std::vector<uint64_t>& bytes, Simulation& result) {
  for (uint32_t resource = 0; resource < bytes.size(); ++resource) {
    if (bytes[resource] == 0) continue;
    const double seconds =
        static_cast<double>(bytes[resource]) / network.bytes_per_second(resource);
    const double time = static_cast<double>(std::max<uint64_t>(1, result.time_ps)) * 1e-12;
    result.loads.push_back({network.name(resource), bytes[resource], seconds / time});
  }
}

Result<Simulation> simulate(const Group& group, const Plan& plan,
                            const SimulationOptions& options) {
  if (!plan.schedule) return fail(CCOM_INVALID, "the plan to simulate has no schedule");
  const uint32_t window = options.window != 0 ? options.window : std::max(1u, plan.window);
  if (window > kMaxWindow) {
    return fail(CCOM_INVALID, "a window of {} messages is more than {}", window, kMaxWindow);
  }
  const bool divided = options.sharing == Sharing::kDivided;
  const Engine engine = options.engine != Engine::kAuto ? options.engine
                        : divided                       ? Engine::kDataflow
                                                        : Engine::kEvents;
  if (engine == Engine::kDataflow && !divided) {
    return fail(CCOM_INVALID,
                "the dataflow engine needs divided resources; take the engine of events for "
                "resources that messages queue for");
  }
  if (options.processors.of_node != 0 && divided) {
    return fail(CCOM_INVALID, "ranks cannot share processors where resources are divided");
  }
  const Schedule& schedule = *plan.schedule;
  NEURON_TRY(network, Network::make(group, schedule, options));
  Survey found;
  if (divided) {
    NEURON_TRY(looked, survey(schedule, network));
    found = std::move(looked);
  }
  auto result = engine == Engine::kDataflow
                    ? simulate_dataflow(schedule, network, found, window, options)
                    : simulate_events(schedule, network, found, window, options);
  if (result) {
    result->folded = network.folded();
    result->ranks = network.period();
  }
  return result;
}

}  // namespace neuron::ccom
