// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/unit/ccom/plan/groups.h"
#include "tests/unit/ccom/proof/written_schedule.h"

namespace neuron::ccom {
namespace {

RC_GTEST_PROP(AnyShape, IsServedByAnyAlgorithmThatSaysItCan, ()) {
  const auto nodes = *rc::gen::inRange<size_t>(1, 5);
  std::vector<uint32_t> sizes(nodes, *rc::gen::inRange(1u, 7u));
  if (*rc::gen::inRange(0, 2) == 1) {
    for (uint32_t& size : sizes) size = *rc::gen::inRange(1u, 7u);
  }
  Group group = make_group(sizes, *rc::gen::inRange(1u, 3u));
  if (*rc::gen::inRange(0, 3) == 0) {
    for (size_t i = group.places.size(); i > 1; --i) {
      std::swap(group.places[i - 1], group.places[*rc::gen::inRange<size_t>(0, i)]);
    }
  }
  const auto operation =
      static_cast<ccom_operation_t>(*rc::gen::inRange(0, int{CCOM_OPERATION_COUNT}));
  Request request = make_request(operation, group.ranks(), *rc::gen::inRange<uint64_t>(0, 200),
                                 *rc::gen::inRange(0u, 64u), *rc::gen::inRange(0, 2) == 1,
                                 *rc::gen::inRange(0u, 1000u));
  request.type = *rc::gen::element(CCOM_UINT8, CCOM_BF16, CCOM_FP32, CCOM_INT64);
  const Planner planner(group, {});
  const auto candidates = planner.candidates(request);
  RC_ASSERT(!candidates.empty());
  request.algorithm = *rc::gen::elementOf(candidates);
  Parameters parameters;
  parameters.channels = *rc::gen::inRange(0u, 5u);
  parameters.segments = *rc::gen::inRange(0u, 7u);
  parameters.chunk_bytes = *rc::gen::element<uint64_t>(0, 16, 100);
  parameters.window = *rc::gen::inRange(1u, 6u);
  const auto plan = planner.plan(request, parameters);
  if (!plan) RC_FAIL(plan.error().sentence);
  RC_ASSERT(plan->algorithm == request.algorithm);
  const auto good = check_schedule(*plan->schedule, request, plan->window);
  if (!good) {
    RC_FAIL(std::string(algorithm_name(request.algorithm)) + " " + operation_name(operation) +
            ": " + good.error().sentence);
  }
}

RC_GTEST_PROP(AnyShape, IsNotServedWhenAnyOneStepIsMissing, ()) {
  const Group group =
      make_group(std::vector<uint32_t>(*rc::gen::inRange<size_t>(1, 4), *rc::gen::inRange(1u, 5u)));
  const auto operation =
      static_cast<ccom_operation_t>(*rc::gen::inRange(0, int{CCOM_OPERATION_COUNT}));
  Request request = make_request(operation, group.ranks(), *rc::gen::inRange<uint64_t>(1, 100),
                                 *rc::gen::inRange(0u, 16u));
  const Planner planner(group, {});
  request.algorithm = *rc::gen::elementOf(planner.candidates(request));
  Parameters parameters;
  parameters.segments = *rc::gen::inRange(1u, 4u);
  const auto plan = planner.plan(request, parameters);
  if (!plan) RC_FAIL(plan.error().sentence);
  WrittenSchedule spoiled(*plan->schedule);
  // A wait may be more than what the bytes need, and local steps without bytes do nothing.
  std::vector<std::pair<std::vector<Step>*, size_t>> places;
  for (auto& rank : spoiled.steps) {
    for (auto& steps : rank) {
      for (size_t i = 0; i < steps.size(); ++i) {
        const bool message =
            steps[i].kind == StepKind::kSend || steps[i].kind == StepKind::kReceive;
        if (message || steps[i].bytes != 0) places.emplace_back(&steps, i);
      }
    }
  }
  RC_PRE(!places.empty());
  RC_ASSERT(check_schedule(spoiled, request, 2).has_value());
  const auto& [steps, at] = places[*rc::gen::inRange<size_t>(0, places.size())];
  steps->erase(steps->begin() + static_cast<ptrdiff_t>(at));
  RC_ASSERT(!check_schedule(spoiled, request, 2).has_value());
}

}  // namespace
}  // namespace neuron::ccom
