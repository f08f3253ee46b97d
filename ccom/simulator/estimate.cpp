// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/estimate.h"

#include <algorithm>
#include <cmath>

#include "ccom/simulator/dataflow.h"
#include "ccom/simulator/event_flows.h"
#include "ccom/simulator/events.h"
#include "ccom/simulator/flow.h"
#include "ccom/simulator/network.h"

namespace neuron::ccom {
namespace {

constexpr uint64_t kSampledLanes = 24;
constexpr uint64_t kStepsOfSample = 2'000'000;  // the rest of a longer program is not read

struct SampledProgram {
  double steps = 0;
  double program_bytes = 0;
  double flows = 0;  // that exist at a time
};

// Flows that a lane keeps: one for each peer, or, where idle ones are forgotten, those of the sends
// that it starts before it waits, and as many whose credits are on their way back.
SampledProgram read(Program& program, bool forgets) {
  SampledProgram sample;
  StepWork step;
  Rank last = UINT32_MAX;
  double changes = 0, run = 0, longest_run = 0;
  while (sample.steps < kStepsOfSample && program.next_work(step)) {
    ++sample.steps;
    if (step.kind == StepKind::kReceive) run = 0;
    if (step.kind != StepKind::kSend) continue;
    if (step.peer != last) ++changes;
    last = step.peer;
    longest_run = std::max(longest_run, ++run);
  }
  sample.program_bytes = static_cast<double>(program.memory_bytes());
  sample.flows = forgets ? std::min(changes, 2 * longest_run) : changes;
  return sample;
}

}  // namespace

Result<SimulationEstimate> estimate(const Group& group, const Plan& plan,
                                    const SimulationOptions& options) {
  if (!plan.schedule) return fail(CCOM_INVALID, "the plan to simulate has no schedule");
  const Schedule& schedule = *plan.schedule;
  NEURON_TRY(network, Network::make(group, schedule, options));
  SimulationEstimate result;
  result.ranks = network.period();
  result.folded = network.folded();
  const bool queued = options.sharing == Sharing::kQueued;
  const uint64_t lanes = uint64_t{network.period()} * schedule.channels();
  const uint64_t samples = std::min(lanes, kSampledLanes);
  SampledProgram sum;
  for (uint64_t i = 0; i < samples; ++i) {
    // The first and the last lane, which may be roots, and others between them in odd distances, so
    // that they are of all channels.
    const uint64_t lane = samples == 1 ? 0 : (lanes - 1) * i / (samples - 1);
    const auto program = schedule.program(static_cast<Rank>(lane / schedule.channels()),
                                          static_cast<uint32_t>(lane % schedule.channels()));
    const SampledProgram found = read(*program, queued && options.jitter_ps == 0);
    sum.steps += found.steps;
    sum.program_bytes += found.program_bytes;
    sum.flows += found.flows;
  }
  const double share = static_cast<double>(lanes) / static_cast<double>(samples);
  const uint32_t window = std::max(1u, options.window != 0 ? options.window : plan.window);
  const auto of_flow = static_cast<double>(queued ? EventFlows::bytes_of_flow(window)
                                                  : Flows::bytes_of_flow(window));
  result.steps = sum.steps * share;
  result.memory_bytes =
      static_cast<double>(lanes * (queued ? event_lane_bytes() : dataflow_lane_bytes())) +
      share * (sum.program_bytes + sum.flows * of_flow) + 16.0 * network.resources() +
      static_cast<double>(sizeof(Place)) * group.ranks();
  return result;
}

}  // namespace neuron::ccom
