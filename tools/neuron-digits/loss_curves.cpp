// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/loss_curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace neuron::digits {
namespace {

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

// The losses that are drawn: from the lowest to the highest, on a logarithmic scale.
class Scale {
 public:
  explicit Scale(const std::vector<LossCurve>& curves) {
    for (const LossCurve& curve : curves) {
      epochs_ = std::max(epochs_, curve.losses.size());
      for (const double loss : curve.losses) {
        if (!(loss > 0) || !std::isfinite(loss)) continue;
        low_ = std::min(low_, loss);
        high_ = std::max(high_, loss);
      }
    }
    if (low_ > high_) low_ = high_ = 1;
    if (high_ < low_ * 1.01) high_ = low_ * 1.01;
  }
  size_t epochs() const { return epochs_; }
  double low() const { return low_; }
  double high() const { return high_; }
  // 0 for the lowest loss, 1 for the highest; a loss that cannot be drawn is put at the top.
  double place(double loss) const {
    if (!(loss > 0) || !std::isfinite(loss)) return 1;
    return std::clamp(std::log(loss / low_) / std::log(high_ / low_), 0.0, 1.0);
  }
  double loss_at(double place) const { return low_ * std::pow(high_ / low_, place); }

 private:
  size_t epochs_ = 0;
  double low_ = 1e300, high_ = 1e-300;
};

constexpr std::array kMarks = {'f', 'n', 's', 'o', '+'};
constexpr std::array kColours = {"#1f6fb4", "#c8382e", "#2c9044", "#8250a0", "#666666"};

}  // namespace

std::string csv_header(const std::vector<LossCurve>& curves) {
  std::string line = "epoch";
  for (const LossCurve& curve : curves) line += "," + curve.name;
  return line + "\n";
}

std::string csv_row(const std::vector<LossCurve>& curves, size_t epoch) {
  std::string line = text("%zu", epoch + 1);
  for (const LossCurve& curve : curves) line += text(",%.9g", curve.losses[epoch]);
  return line + "\n";
}

std::string draw_text(const std::vector<LossCurve>& curves) {
  constexpr int kWidth = 72, kHeight = 18;
  const Scale scale(curves);
  std::vector<std::string> rows(kHeight, std::string(kWidth, ' '));
  for (size_t c = 0; c < curves.size(); ++c) {
    const std::vector<double>& losses = curves[c].losses;
    for (int column = 0; column < kWidth && !losses.empty(); ++column) {
      const size_t epoch = column * (losses.size() - 1) / (kWidth - 1);
      const int row =
          static_cast<int>(std::lround((1 - scale.place(losses[epoch])) * (kHeight - 1)));
      char& cell = rows[row][column];
      cell = cell == ' ' ? kMarks[c % kMarks.size()] : '*';
    }
  }
  std::string out;
  for (int row = 0; row < kHeight; ++row) {
    const bool labelled = row % 4 == 0 || row == kHeight - 1;
    out += labelled ? text("%9.4f |", scale.loss_at(1 - row / (kHeight - 1.0))) : "          |";
    out += rows[row] + "\n";
  }
  out += "          +" + std::string(kWidth, '-') + "\n";
  out += text("           epoch 1%*s\n", kWidth - 7, text("epoch %zu", scale.epochs()).c_str());
  out += "           ";
  for (size_t c = 0; c < curves.size(); ++c) {
    out += text("%c = %s   ", kMarks[c % kMarks.size()], curves[c].name.c_str());
  }
  return out + "* = several\n";
}

std::string draw_svg(const std::vector<LossCurve>& curves, const std::string& title) {
  constexpr double kLeft = 70, kTop = 40, kWidth = 620, kHeight = 340;
  const Scale scale(curves);
  const auto y = [&](double loss) { return kTop + kHeight * (1 - scale.place(loss)); };
  const double last = scale.epochs() > 1 ? static_cast<double>(scale.epochs() - 1) : 1;
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 440\" "
      "font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"720\" height=\"440\" fill=\"white\"/>\n";
  out += text("<text x=\"%g\" y=\"24\" font-size=\"16\">%s</text>\n", kLeft, title.c_str());
  for (int line = 0; line <= 5; ++line) {
    const double loss = scale.loss_at(line / 5.0);
    out += text(
        "<path d=\"M%g %.1fh%g\" stroke=\"#ddd\"/><text x=\"%g\" y=\"%.1f\" "
        "text-anchor=\"end\">%.3g</text>\n",
        kLeft, y(loss), kWidth, kLeft - 8, y(loss) + 4, loss);
  }
  out += text("<path d=\"M%g %gv%gh%g\" fill=\"none\" stroke=\"black\"/>\n", kLeft, kTop, kHeight,
              kWidth);
  out += text(
      "<text x=\"%g\" y=\"%g\">1</text><text x=\"%g\" y=\"%g\" text-anchor=\"end\">%zu</text>"
      "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">epoch</text>"
      "<text transform=\"translate(18 %g) rotate(-90)\" text-anchor=\"middle\">mean cross "
      "entropy, training digits</text>\n",
      kLeft, kTop + kHeight + 20, kLeft + kWidth, kTop + kHeight + 20, scale.epochs(),
      kLeft + kWidth / 2, kTop + kHeight + 20, kTop + kHeight / 2);
  for (size_t c = 0; c < curves.size(); ++c) {
    const char* colour = kColours[c % kColours.size()];
    out += text("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", colour);
    for (size_t e = 0; e < curves[c].losses.size(); ++e) {
      out += text("%.1f,%.1f ", kLeft + kWidth * static_cast<double>(e) / last,
                  y(curves[c].losses[e]));
    }
    const double row = kTop + 20 + 20 * static_cast<double>(c);
    out += text(
        "\"/>\n<path d=\"M%g %gh24\" stroke-width=\"2\" stroke=\"%s\"/>"
        "<text x=\"%g\" y=\"%g\">%s</text>\n",
        kLeft + kWidth - 220, row, colour, kLeft + kWidth - 188, row + 4, curves[c].name.c_str());
  }
  return out + "</svg>\n";
}

}  // namespace neuron::digits
