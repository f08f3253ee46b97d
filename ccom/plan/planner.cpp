// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/planner.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

#include "ccom/plan/build.h"
#include "ccom/plan/calibration.h"
#include "ccom/plan/cost.h"
#include "ccom/plan/places.h"
#include "ccom/proof/checker.h"
#include "ccom/request/names.h"
#include "ccom/request/validate.h"

namespace neuron::ccom {
namespace {

struct Wish {
  ccom_algorithm_t algorithm = CCOM_ALGORITHM_AUTO;
  bool strict = false;  // named for this operation: an error if it cannot do it
};

std::string known_algorithms() {
  std::string names;
  for (int i = 1; i < CCOM_ALGORITHM_COUNT; ++i) {
    if (i > 1) names += ", ";
    names += algorithm_name(static_cast<ccom_algorithm_t>(i));
  }
  return names;
}

// Reads CCOM_ALGORITHM: NAME for every operation that it supports, or
// OPERATION=NAME;OPERATION=NAME.
Result<Wish> wish_of_environment(ccom_operation_t operation) {
  const char* text = std::getenv("CCOM_ALGORITHM");
  std::string_view rest = text != nullptr ? text : "";
  Wish wish;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    const std::string_view name = equals == std::string_view::npos ? item : item.substr(equals + 1);
    const ccom_algorithm_t algorithm = algorithm_named(name);
    if (algorithm == CCOM_ALGORITHM_COUNT) {
      return fail(CCOM_INVALID, "CCOM_ALGORITHM names algorithm \"{}\"; known are auto, {}", name,
                  known_algorithms());
    }
    if (equals == std::string_view::npos) {
      if (!wish.strict) wish.algorithm = algorithm;
      continue;
    }
    const ccom_operation_t named = operation_named(item.substr(0, equals));
    if (named == CCOM_OPERATION_COUNT) {
      return fail(
          CCOM_INVALID,
          "CCOM_ALGORITHM names operation \"{}\"; write it as all_reduce=ring;broadcast=tree",
          item.substr(0, equals));
    }
    if (named == operation) wish = {algorithm, true};
  }
  return wish;
}

std::string join(const std::vector<ccom_algorithm_t>& algorithms) {
  std::string text;
  for (const ccom_algorithm_t algorithm : algorithms) {
    if (!text.empty()) text += ", ";
    text += algorithm_name(algorithm);
  }
  return text;
}

}  // namespace

// Kinds of schedules that have passed the checker.
struct Planner::Checked {
  std::mutex mutex;
  std::set<std::array<uint64_t, 8>> kinds;
};

Planner::Planner(Group group, CostParameters costs)
    : group_(std::move(group)),
      places_(std::make_shared<const Places>(group_)),
      costs_(complete_costs(costs, group_.topology)),
      checked_(std::make_shared<Checked>()) {}

std::vector<ccom_algorithm_t> Planner::candidates(const Request& request) const {
  std::vector<ccom_algorithm_t> result;
  if (!validate(request, group_.ranks())) return result;
  for (int i = 1; i < CCOM_ALGORITHM_COUNT; ++i) {
    const auto algorithm = static_cast<ccom_algorithm_t>(i);
    if (refusal(algorithm, request, group_, *places_).empty()) result.push_back(algorithm);
  }
  return result;
}

uint64_t Planner::predict(ccom_algorithm_t algorithm, const Request& request,
                          const Parameters& parameters) const {
  const Choice choice = choose(algorithm, request, group_, *places_, costs_, parameters);
  return ccom::predict(algorithm, request, group_, *places_, costs_, choice.parameters);
}

Result<void> Planner::check(const Plan& plan, const Parameters& parameters) const {
  if (group_.ranks() > kCheckedRanks) return {};
  const Request& request = plan.request;
  // Each small request leaves other parts empty; large ones differ only in sizes.
  constexpr uint64_t kSmall = 1024;
  const uint64_t parts = uint64_t{group_.ranks()} * parameters.channels * parameters.segments;
  const uint64_t size =
      request.count < kSmall ? request.count : kSmall + (request.count % parts != 0 ? 1 : 0);
  const uint64_t slices = parameters.chunk_bytes == 0
                              ? 0
                              : 1 + std::min<uint64_t>(request.count / parameters.chunk_bytes, 64);
  const std::array<uint64_t, 8> kind = {
      static_cast<uint64_t>(plan.algorithm) << 32 | static_cast<uint64_t>(request.operation),
      uint64_t{request.in_place} << 32 | static_cast<uint64_t>(request.type),
      request.root,
      parameters.channels,
      parameters.segments,
      slices,
      plan.window,
      size};
  {
    const std::lock_guard lock(checked_->mutex);
    if (checked_->kinds.contains(kind)) return {};
  }
  const auto good = check_schedule(*plan.schedule, request, plan.window);
  if (!good) {
    return good.error().with("{} planned by {} for {} ranks is wrong, and not used",
                             operation_name(request.operation), algorithm_name(plan.algorithm),
                             group_.ranks());
  }
  const std::lock_guard lock(checked_->mutex);
  checked_->kinds.insert(kind);
  return {};
}

Result<Plan> Planner::plan(const Request& request, const Parameters& parameters) const {
  NEURON_CHECK(validate(request, group_.ranks()));
  Wish wish{request.algorithm, true};
  const char* by = "the caller asked for it";
  if (wish.algorithm == CCOM_ALGORITHM_AUTO) {
    NEURON_TRY(found, wish_of_environment(request.operation));
    wish = found;
    by = "CCOM_ALGORITHM asks for it";
  }
  Plan plan;
  plan.request = request;
  plan.algorithm = wish.algorithm;
  if (wish.algorithm != CCOM_ALGORITHM_AUTO) {
    const std::string why = refusal(wish.algorithm, request, group_, *places_);
    if (!why.empty() && wish.strict) {
      return fail(CCOM_UNSUPPORTED, "{} cannot do {} for this group of {} ranks: {}; these can: {}",
                  algorithm_name(wish.algorithm), operation_name(request.operation), group_.ranks(),
                  why, join(candidates(request)));
    }
    if (!why.empty()) plan.algorithm = CCOM_ALGORITHM_AUTO;
  }
  if (plan.algorithm == CCOM_ALGORITHM_AUTO) {
    uint64_t best = ~uint64_t{0};
    for (const ccom_algorithm_t algorithm : candidates(request)) {
      const uint64_t time = predict(algorithm, request, parameters);
      if (time >= best) continue;
      best = time;
      plan.algorithm = algorithm;
    }
    by = "it has the least predicted time";
  }
  const Choice choice = choose(plan.algorithm, request, group_, *places_, costs_, parameters);
  const Parameters& chosen = choice.parameters;
  plan.window = chosen.window;
  plan.predicted_ps = ccom::predict(plan.algorithm, request, group_, *places_, costs_, chosen);
  plan.schedule = build(plan.algorithm, request, group_, *places_, choice);
  plan.why = format("{} with {} channels, {} segments: {} ({:.3f} us)",
                    algorithm_name(plan.algorithm), plan.schedule->channels(), chosen.segments, by,
                    static_cast<double>(plan.predicted_ps) / 1e6);
  NEURON_CHECK(check(plan, chosen));
  return plan;
}

std::string Planner::explain(const Request& request) const {
  if (const auto valid = validate(request, group_.ranks()); !valid) {
    return valid.error().sentence + "\n";
  }
  struct Row {
    ccom_algorithm_t algorithm;
    uint64_t time;
  };
  std::vector<Row> rows;
  std::string refused;
  for (int i = 1; i < CCOM_ALGORITHM_COUNT; ++i) {
    const auto algorithm = static_cast<ccom_algorithm_t>(i);
    const std::string why = refusal(algorithm, request, group_, *places_);
    if (why.empty()) {
      rows.push_back({algorithm, predict(algorithm, request)});
    } else {
      refused += format("  {:<22} cannot: {}\n", algorithm_name(algorithm), why);
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.time < b.time; });
  const auto chosen = plan(request);
  std::string text = format("{} of {} elements, {} ranks on {} nodes: {}\n",
                            operation_name(request.operation), request.count, group_.ranks(),
                            places_->nodes.size(), chosen ? chosen->why : chosen.error().sentence);
  for (const Row& row : rows) {
    text += format("  {:<22} {:>14.3f} us{}\n", algorithm_name(row.algorithm),
                   static_cast<double>(row.time) / 1e6,
                   chosen && chosen->algorithm == row.algorithm ? "  <- chosen" : "");
  }
  return text + refused;
}

}  // namespace neuron::ccom
