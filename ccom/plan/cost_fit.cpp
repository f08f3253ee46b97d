// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/cost_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ccom/plan/calibration.h"
#include "ccom/request/layout.h"

namespace neuron::ccom {
namespace {

// Logarithms of the prices: they differ by orders of magnitude and are never below zero.
constexpr size_t kPrices = 6;
using Point = std::array<double, kPrices>;

Point point_of(const CostParameters& costs) {
  return {std::log(static_cast<double>(costs.local_latency_ps)),
          std::log(costs.local_bytes_per_second),
          std::log(static_cast<double>(costs.remote_latency_ps)),
          std::log(costs.remote_bytes_per_second),
          std::log(costs.reduce_bytes_per_second),
          std::log(static_cast<double>(costs.step_ps))};
}

CostParameters costs_at(const Point& point, Medium medium) {
  const auto time = [](double value) {
    return static_cast<uint64_t>(std::max(1.0, std::exp(value)));
  };
  CostParameters costs;
  costs.medium = medium;
  costs.local_latency_ps = time(point[0]);
  costs.local_bytes_per_second = std::exp(point[1]);
  costs.remote_latency_ps = time(point[2]);
  costs.remote_bytes_per_second = std::exp(point[3]);
  costs.reduce_bytes_per_second = std::exp(point[4]);
  costs.step_ps = time(point[5]);
  return costs;
}

class Fitter {
 public:
  Fitter(const Group& group, Medium medium, const std::vector<Observation>& observations)
      : group_(group), medium_(medium), observations_(observations) {}

  // |log(predicted / measured)| of each observation.
  std::vector<double> errors(const Point& point) const {
    const Planner planner(group_, costs_at(point, medium_));
    std::vector<double> result;
    for (const Observation& o : observations_) {
      const auto predicted =
          static_cast<double>(std::max<uint64_t>(1, planner.predict(o.algorithm, o.request)));
      result.push_back(std::abs(std::log(predicted * 1e-12 / o.seconds)));
    }
    return result;
  }

  // The sum of absolute values limits the effect of observations that a busy host disturbed. The
  // square keeps a price from fitting half of the observations at the cost of the others.
  double badness(const Point& point) const {
    double sum = 0;
    for (const double error : errors(point)) sum += error + std::min(error * error, 1.0) / 4;
    return sum / static_cast<double>(observations_.size());
  }

  double median_error(const Point& point) const {
    std::vector<double> all = errors(point);
    const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    return std::expm1(*middle);
  }

  // Descends along one price, or two at once, with smaller and smaller steps.
  Point descend(Point point) const {
    double least = badness(point);
    for (const double step : {2.0, 1.0, 0.5, 0.2, 0.08, 0.03}) {
      bool better = true;
      for (int turn = 0; better && turn < 40; ++turn) {
        better = false;
        for (size_t i = 0; i < kPrices; ++i) {
          for (const double way : {step, -step}) {
            better = try_it(point, i, way, i, 0, least) || better;
          }
          // A latency and a rate can compensate each other at medium sizes.
          const size_t partner = (i + 1) % kPrices;
          for (const double way : {step, -step}) {
            better = try_it(point, i, way, partner, way, least) || better;
          }
        }
      }
    }
    return point;
  }

  // Whether any observation depends on the price.
  bool is_known(const Point& best, size_t price, double least) const {
    for (const double way : {2.0, -2.0}) {
      Point other = best;
      other[price] += way;
      if (badness(other) > least * 1.01 + 1e-4) return true;
    }
    return false;
  }

 private:
  bool try_it(Point& point, size_t i, double way, size_t j, double other_way, double& least) const {
    Point trial = point;
    trial[i] += way;
    trial[j] += other_way;
    for (const double value : trial) {
      if (value < 0 || value > 41) return false;  // between a picosecond and 10^17
    }
    const double found = badness(trial);
    if (found >= least * (1 - 1e-6)) return false;
    least = found;
    point = trial;
    return true;
  }

  const Group& group_;
  const Medium medium_;
  const std::vector<Observation>& observations_;
};

// Starts from the steps of all-gather rings, in which one message follows the other.
void start_from_rings(const Group& group, const std::vector<Observation>& observations,
                      CostParameters& costs) {
  std::vector<Sample> samples;
  const double steps = std::max(1u, group.ranks() - 1);
  for (const Observation& o : observations) {
    if (o.algorithm != CCOM_RING || o.request.operation != CCOM_ALL_GATHER) continue;
    samples.push_back({o.request.count * element_bytes(o.request.type), o.seconds / steps});
  }
  if (const auto line = fit(samples)) {
    costs.local_latency_ps = std::max<uint64_t>(1, line->latency_ps);
    costs.local_bytes_per_second = line->bytes_per_second;
  }
}

}  // namespace

Result<CostFit> fit_costs(const Group& group, Medium medium,
                          const std::vector<Observation>& observations) {
  std::vector<Observation> good;
  for (const Observation& o : observations) {
    if (o.seconds > 0 && std::isfinite(o.seconds)) good.push_back(o);
  }
  constexpr size_t kLeast = 6;
  if (good.size() < kLeast || group.ranks() < 2) {
    return fail(CCOM_INVALID,
                "{} measurements among {} ranks do not give {} prices; measure two ranks or more "
                "at several sizes",
                good.size(), group.ranks(), kPrices);
  }
  CostParameters none;
  none.medium = medium;
  CostParameters start = complete_costs(none, group.topology);
  const Fitter fitter(group, medium, good);
  const Point built_in = point_of(start);
  start_from_rings(group, good, start);
  const Point from_rings = fitter.descend(point_of(start));
  const Point from_built_in = fitter.descend(built_in);
  const bool rings = fitter.badness(from_rings) < fitter.badness(from_built_in);
  const Point best = rings ? from_rings : from_built_in;
  const double least = fitter.badness(best);
  CostFit result;
  result.costs = costs_at(best, medium);
  result.error = fitter.median_error(best);
  result.before = fitter.median_error(built_in);
  CostParameters& costs = result.costs;
  if (!fitter.is_known(best, 0, least)) costs.local_latency_ps = 0;
  if (!fitter.is_known(best, 1, least)) costs.local_bytes_per_second = 0;
  if (!fitter.is_known(best, 2, least)) costs.remote_latency_ps = 0;
  if (!fitter.is_known(best, 3, least)) costs.remote_bytes_per_second = 0;
  if (!fitter.is_known(best, 4, least)) costs.reduce_bytes_per_second = 0;
  if (!fitter.is_known(best, 5, least)) costs.step_ps = 0;
  return result;
}

}  // namespace neuron::ccom
