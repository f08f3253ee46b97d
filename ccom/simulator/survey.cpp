// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/survey.h"

#include <algorithm>
#include <unordered_set>

namespace neuron::ccom {

Result<Survey> survey(const Schedule& schedule, const Network& network) {
  Survey result;
  result.channels = schedule.channels();
  result.flows.assign(network.resources(), 0);
  result.waits.resize(uint64_t{network.symmetry()} * schedule.channels());
  Step step;
  std::unordered_set<Rank> peers;
  std::vector<Hop> hops;
  for (Rank rank = 0; rank < network.symmetry(); ++rank) {
    for (uint32_t channel = 0; channel < schedule.channels(); ++channel) {
      const auto program = schedule.program(rank, channel);
      peers.clear();
      Rank last = rank;
      while (program->next(step)) {
        if (step.kind == StepKind::kWait) {
          if (step.channel >= schedule.channels()) {
            return fail(CCOM_INVALID, "rank {} channel {} waits for channel {} of {}", rank,
                        channel, step.channel, schedule.channels());
          }
          result.waits[uint64_t{rank} * schedule.channels() + step.channel].push_back(
              step.position);
        }
        if (step.kind != StepKind::kSend || step.peer == last) continue;
        last = step.peer;
        if (last >= network.ranks() || last == rank) {
          return fail(CCOM_INVALID, "rank {} channel {} sends to rank {} of {}", rank, channel,
                      last, network.ranks());
        }
        if (!peers.insert(last).second) continue;
        NEURON_CHECK(network.path(rank, last, hops));
        for (const Hop& hop : hops) ++result.flows[network.typical(hop.resource)];
      }
    }
  }
  for (auto& positions : result.waits) {
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    if (!positions.empty() && positions.front() == 0) positions.erase(positions.begin());
  }
  return result;
}

}  // namespace neuron::ccom
