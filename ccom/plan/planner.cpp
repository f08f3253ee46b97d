// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/planner.h"

#include <ccom/ccom_device.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "ccom/plan/build.h"
#include "ccom/plan/calibration.h"
#include "ccom/plan/cost.h"
#include "ccom/plan/places.h"
#include "ccom/proof/checker.h"
#include "ccom/request/layout.h"
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

uint64_t hash_of_pairs(const Request& request) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const ccom_pair_t& pair : request.pairs) {
    hash = (hash ^ (uint64_t{pair.source} << 32 | pair.target)) * 0x100000001b3u;
  }
  return hash;
}

// Whether adding some contributions, and the next ones to their sum, gives the bits of adding them
// all: not where a sum is kept in more bits than the type has, or divided at the end.
bool adds_in_steps(const Request& request) {
  switch (request.type) {
    case CCOM_FP8_E3:
    case CCOM_FP8_E4:
    case CCOM_FP8_E5:
    case CCOM_FP16:
    case CCOM_BF16:
      return false;
    default:
      return request.reduction != CCOM_AVERAGE;
  }
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
  std::set<std::array<uint64_t, 9>> kinds;
};

Planner::Planner(Group group, CostParameters costs, Judge judge)
    : group_(std::move(group)),
      places_(std::make_shared<const Places>(group_)),
      costs_(complete_costs(costs, group_.topology)),
      judge_(std::move(judge)),
      checked_(std::make_shared<Checked>()) {}

void Planner::price(const CostParameters& costs) {
  costs_ = complete_costs(costs, group_.topology);
}

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
  const std::array<uint64_t, 9> kind = {
      static_cast<uint64_t>(plan.algorithm) << 32 | static_cast<uint64_t>(request.operation),
      uint64_t{request.in_place} << 32 | static_cast<uint64_t>(request.type),
      request.root,
      parameters.channels,
      parameters.segments,
      slices,
      plan.window,
      size,
      hash_of_pairs(request)};
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
  constexpr size_t kMostKinds = 4096;  // beyond, they are checked again
  if (checked_->kinds.size() >= kMostKinds) checked_->kinds.clear();
  checked_->kinds.insert(kind);
  return {};
}

size_t Planner::proved() const {
  const std::lock_guard lock(checked_->mutex);
  return checked_->kinds.size();
}

Plan Planner::made(ccom_algorithm_t algorithm, const Request& request, const Parameters& wanted,
                   Parameters& chosen) const {
  const Choice choice = choose(algorithm, request, group_, *places_, costs_, wanted);
  chosen = choice.parameters;
  Plan plan;
  plan.request = request;
  plan.algorithm = algorithm;
  plan.window = chosen.window;
  plan.predicted_ps = ccom::predict(algorithm, request, group_, *places_, costs_, chosen);
  plan.schedule = build(algorithm, request, group_, *places_, choice);
  plan.shape = format("{} with {} channels, {} segments, chunks of {} B, window {}{}",
                      algorithm_name(algorithm), chosen.channels, chosen.segments,
                      chosen.chunk_bytes, chosen.window, choice.flat ? ", flat" : "");
  return plan;
}

// The algorithm with the least time, and that time if a judge has found it (else 0).
Result<ccom_algorithm_t> Planner::quickest(const Request& request, const Parameters& parameters,
                                           uint64_t& judged_ps) const {
  std::vector<std::pair<uint64_t, ccom_algorithm_t>> by_time;
  for (const ccom_algorithm_t algorithm : candidates(request)) {
    by_time.emplace_back(predict(algorithm, request, parameters), algorithm);
  }
  std::stable_sort(by_time.begin(), by_time.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  judged_ps = 0;
  if (!judge_) return by_time.front().second;
  std::optional<ccom_algorithm_t> best;
  std::optional<Error> problem;
  for (const auto& [time, algorithm] : by_time) {
    if (best && time / kJudged > by_time.front().first) break;
    Parameters chosen;
    const auto judged =
        judge_(group_, made(algorithm, request, parameters, chosen), best ? judged_ps : 0);
    if (!judged) {
      if (!problem) problem = judged.error();
      continue;
    }
    if (best && *judged >= judged_ps) continue;
    judged_ps = *judged;
    best = algorithm;
  }
  if (best) return *best;
  return problem->with("{} on {} ranks cannot be judged with any algorithm",
                       operation_name(request.operation), group_.ranks());
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
  ccom_algorithm_t algorithm = wish.algorithm;
  if (algorithm != CCOM_ALGORITHM_AUTO) {
    const std::string why = refusal(algorithm, request, group_, *places_);
    if (!why.empty() && wish.strict) {
      return fail(CCOM_UNSUPPORTED, "{} cannot do {} for this group of {} ranks: {}; these can: {}",
                  algorithm_name(algorithm), operation_name(request.operation), group_.ranks(), why,
                  join(candidates(request)));
    }
    if (!why.empty()) algorithm = CCOM_ALGORITHM_AUTO;
  }
  const bool automatic = algorithm == CCOM_ALGORITHM_AUTO;
  uint64_t judged_ps = 0;
  if (automatic) {
    NEURON_TRY(found, quickest(request, parameters, judged_ps));
    algorithm = found;
    by = judge_ ? "it has the least simulated time" : "it has the least predicted time";
  }
  Parameters chosen;
  Plan plan = made(algorithm, request, parameters, chosen);
  plan.automatic = automatic;
  if (judged_ps != 0) plan.predicted_ps = judged_ps;
  plan.why = format("{} with {} channels, {} segments: {} ({:.3f} us)",
                    algorithm_name(plan.algorithm), plan.schedule->channels(), chosen.segments, by,
                    static_cast<double>(plan.predicted_ps) / 1e6);
  NEURON_CHECK(check(plan, chosen));
  return plan;
}

ccom_algorithm_t Planner::device_default(const Request& request) const {
  if (request.algorithm != CCOM_ALGORITHM_AUTO) return request.algorithm;
  const char* wish = std::getenv("CCOM_ALGORITHM");
  if (!reduces(request.operation) || (wish != nullptr && *wish != '\0')) {
    return CCOM_ALGORITHM_AUTO;
  }
  const auto can = [&](ccom_algorithm_t algorithm) {
    return refusal(algorithm, request, group_, *places_).empty();
  };
  if (!can(CCOM_MESH)) return CCOM_ALGORITHM_AUTO;
  if (group_.ranks() <= CCOM_DEVICE_ARRIVALS + 1) {
    // To the bits of the mesh, with one message to the other node in the place of one to each of
    // its ranks, and as few bytes as there can be. More nodes would wait for one another in turn.
    const bool chain = places_->nodes.size() == 2 && adds_in_steps(request) && can(CCOM_NODE_CHAIN);
    return chain ? CCOM_NODE_CHAIN : CCOM_MESH;
  }
  // Of its own node from all others, and of each other node from one.
  size_t most = 0;
  for (const auto& ranks : places_->nodes) most = std::max(most, ranks.size());
  const bool few = most + places_->nodes.size() - 2 <= CCOM_DEVICE_ARRIVALS;
  if (few && can(CCOM_HIERARCHICAL)) return CCOM_HIERARCHICAL;
  return can(CCOM_RECURSIVE) ? CCOM_RECURSIVE : can(CCOM_TREE) ? CCOM_TREE : CCOM_ALGORITHM_AUTO;
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
