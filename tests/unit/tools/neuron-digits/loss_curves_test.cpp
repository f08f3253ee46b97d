// SPDX-License-Identifier: Apache-2.0
// The curves as files and as text, to the letter.
#include "tools/neuron-digits/loss_curves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/tools/golden.h"

namespace neuron::digits {
namespace {

LossCurve falling(const std::string& name, double from, double factor, size_t epochs) {
  LossCurve curve{name, {}};
  for (size_t e = 0; e < epochs; ++e, from *= factor) curve.losses.push_back(from);
  return curve;
}

std::string all_of(const std::vector<LossCurve>& curves, const std::string& title) {
  std::string text = csv_header(curves);
  for (size_t e = 0; e < curves[0].losses.size(); ++e) text += csv_row(curves, e);
  return text + draw_text(curves) + draw_svg(curves, title);
}

TEST(LossCurves, AreDrawnAndWrittenAsBefore) {
  std::string text = all_of({falling("fp32", 2.3, 0.7, 20), falling("bf16", 2.2, 0.75, 20),
                             falling("bf16 sr", 2.25, 0.72, 20), falling("a", 3, 0.9, 20),
                             falling("b", 1, 0.99, 20), falling("c", 5, 0.5, 20)},
                            "Losses");
  const double inf = std::numeric_limits<double>::infinity();
  text += all_of({{"odd", {2, inf, std::nan(""), -1, 0, 0.5}}}, "Odd");
  text += all_of({{"flat", {1, 1, 1}}}, "Flat");
  text += all_of({{"one", {0.25}}}, "One");
  testing::expect_golden("digits_losses.txt", text);
}

}  // namespace
}  // namespace neuron::digits
