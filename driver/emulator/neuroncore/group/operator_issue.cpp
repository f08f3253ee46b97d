// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/operator_issue.h"

#include <cerrno>
#include <new>

namespace neuron::core {

Fault OperatorIssue::execute(Issue& issue) {
  state_.post_records();  // the host's clock goes on for a while
  strict_.acquire_memory(issue.s);
  strict_.release_memory(issue.s, issue.now);
  ModelTime time = 0;
  try {
    const Fault fault = runner_.run(state_.bus, state_.access_of(issue.s, issue.now),
                                    issue.i.address.addr, state_.limits.generation, time);
    if (fault) return fault;
  } catch (const std::bad_alloc&) {
    return operator_failure(NEURON_OPERATOR_NOT_STARTED, 0, ENOMEM);
  }
  issue.cost.interval += time;
  return {};
}

}  // namespace neuron::core
