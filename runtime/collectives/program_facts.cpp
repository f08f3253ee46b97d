// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/program_facts.h"

#include <algorithm>

#include "hw/address_map.h"
#include "hw/isa.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

StreamFacts with_program(StreamFacts facts, const std::vector<uint32_t>& groups,
                         const ccom_device_stream_t& stream, const ccom_device_program_t& program) {
  facts.go = stream.cc_core + NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC + NEURON_CC_SEM_GO * 4;
  for (uint32_t n = 0; n < std::min(stream.count, program.plan_count); ++n) {
    const ccom_device_collective_t& collective = stream.collectives[n];
    CollectiveFacts one{.name = program.names[n],
                        .algorithm = program.algorithms[n],
                        .plan = program.plans[n],
                        .operation = neff::collective_name(collective.operation),
                        .type = neff::collective_type_name(collective.type),
                        .count = collective.count,
                        .ranks = {},
                        .group = n < groups.size() ? groups[n] : 0,
                        .size = program.sizes[n]};
    for (uint32_t m = 0; m < collective.size; ++m) one.ranks.push_back(collective.members[m].world);
    facts.collectives.push_back(std::move(one));
  }
  if (program.notes != nullptr) {
    facts.notes.assign(program.notes, program.notes + program.instructions);
    facts.waits.assign(program.waits, program.waits + 2 * size_t{program.instructions});
  }
  return facts;
}

}  // namespace neuron::runtime
