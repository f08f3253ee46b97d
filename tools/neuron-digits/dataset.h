// SPDX-License-Identifier: Apache-2.0
// The handwritten digits of digits.csv.gz: 64 pixels of 0..16 and a label a row.
// Callers: neuron-digits. Values. Fails: an empty result and a sentence that names the file and the
// line.
#ifndef TOOLS_NEURON_DIGITS_DATASET_H
#define TOOLS_NEURON_DIGITS_DATASET_H

#include <array>
#include <string>
#include <vector>

namespace neuron::digits {

struct Digit {
  std::array<float, 64> pixels;  // 8 rows of 8, 0..16
  int label;
};

// All rows of the gzip-compressed file.
std::vector<Digit> read_dataset(const std::string& path, std::string& error);

// Eight lines of the picture, two columns a pixel, in shades of ASCII.
std::array<std::string, 8> draw(const Digit& digit);

}  // namespace neuron::digits

#endif
