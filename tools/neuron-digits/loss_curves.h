// SPDX-License-Identifier: Apache-2.0
// Loss by epoch of several trainings, as text for a terminal, CSV and SVG. The scale of the loss is
// logarithmic. Callers: neuron-digits train. Values; nothing here fails or does input or output.
#ifndef TOOLS_NEURON_DIGITS_LOSS_CURVES_H
#define TOOLS_NEURON_DIGITS_LOSS_CURVES_H

#include <string>
#include <vector>

namespace neuron::digits {

struct LossCurve {
  std::string name;
  std::vector<double> losses;  // after epoch 1, 2, ...; all curves are of the same length
};

// Columns: epoch, then the curves.
std::string csv_header(const std::vector<LossCurve>& curves);
std::string csv_row(const std::vector<LossCurve>& curves, size_t epoch);  // from 0
std::string draw_text(const std::vector<LossCurve>& curves);
std::string draw_svg(const std::vector<LossCurve>& curves, const std::string& title);

}  // namespace neuron::digits

#endif
