// SPDX-License-Identifier: Apache-2.0
//
// Whether the ranks of each group have planned their collectives alike.
//
// Each rank plans by itself. Ranks that plan differently, by their environment or because one of
// them is in place, would write where the others expect nothing. Callers: CollectivePrograms, on
// every rank with the same plans. Thread-safe: a function. Fails: NRT_INVALID with two ranks and
// both plans.
#ifndef RUNTIME_COLLECTIVES_PLAN_AGREEMENT_H
#define RUNTIME_COLLECTIVES_PLAN_AGREEMENT_H

#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

// `plans`: of each rank, a line for each operation.
Result<void> check_plans(const std::vector<neff::Collective>& operations,
                         const std::vector<std::string_view>& plans);

}  // namespace neuron::runtime

#endif
