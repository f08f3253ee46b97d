// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/plan_agreement.h"

#include <algorithm>
#include <numeric>

namespace neuron::runtime {
namespace {

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), lines.back().size() + 1));
  }
  return lines;
}

Result<void> check_group(const std::vector<uint32_t>& group, size_t operation,
                         const std::vector<Lines>& plans) {
  const auto plan = [&](uint32_t rank) {
    return operation < plans[rank].size() ? plans[rank][operation] : std::string_view();
  };
  for (const uint32_t rank : group) {
    // A rank that there is not was refused before.
    if (std::max(rank, group[0]) >= plans.size() || plan(rank) == plan(group[0])) continue;
    return fail(
        NRT_INVALID,
        "collective {}: rank {} has {}, rank {} has {}; ranks of a group need the same "
        "program, CCOM_ALGORITHM, CCOM_GROUPING and CCOM_CALIBRATION, and are in place together",
        operation + 1, group[0], plan(group[0]), rank, plan(rank));
  }
  return {};
}

}  // namespace

Result<void> check_plans(const std::vector<neff::Collective>& operations,
                         const std::vector<std::string_view>& plans) {
  std::vector<Lines> lines(plans.size());
  std::transform(plans.begin(), plans.end(), lines.begin(), lines_of);
  std::vector<uint32_t> everybody(plans.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  for (size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].groups.empty()) NEURON_CHECK(check_group(everybody, i, lines));
    for (const auto& group : operations[i].groups) NEURON_CHECK(check_group(group, i, lines));
  }
  return {};
}

}  // namespace neuron::runtime
