// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-compile/check/comparison.h"

#include <algorithm>
#include <cmath>

#include "driver/base/format.h"

namespace neuron::compile {
namespace {

bool within(double found, double expected, double absolute, double relative) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return found == expected;
  return std::fabs(found - expected) <= absolute + relative * std::fabs(expected);
}

}  // namespace

std::string difference(const graph::Tensor& found, const graph::Tensor& expected,
                       const Bound& bound) {
  if (found.type != expected.type || found.shape != expected.shape) {
    return base::format("found {} {}, expected {} {}", graph::type_name(found.type),
                        graph::shape_text(found.shape), graph::type_name(expected.type),
                        graph::shape_text(expected.shape));
  }
  const auto count = static_cast<size_t>(found.elements());
  double largest = 0;
  if (bound.of_largest > 0) {
    for (const double x : expected.reals) {
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
    }
  }
  const double absolute = std::max(bound.absolute, bound.of_largest * largest);
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < count; ++i) {
    const bool same = graph::is_real(found.type)
                          ? within(found.reals[i], expected.reals[i], absolute, bound.relative)
                          : found.integers[i] == expected.integers[i];
    if (same) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return "";
  return base::format("{} of {} elements differ; element {} is {}, expected {}", wrong, count,
                      first, found.real(first), expected.real(first));
}

}  // namespace neuron::compile
