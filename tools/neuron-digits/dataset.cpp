// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/dataset.h"

#include <zlib.h>

#include <cstdlib>
#include <memory>

namespace neuron::digits {

std::vector<Digit> read_dataset(const std::string& path, std::string& error) {
  std::vector<Digit> digits;
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (!file) {
    error = path + ": cannot be opened; give the file of handwritten digits with --data";
    return {};
  }
  char line[1024];
  while (gzgets(file.get(), line, sizeof line)) {
    Digit digit{};
    const char* at = line;
    for (int column = 0; column < 65; ++column) {
      char* end = nullptr;
      const long value = std::strtol(at, &end, 10);
      const bool last = column == 64;
      const bool terminated = last ? (*end == '\n' || *end == '\r' || *end == '\0') : *end == ',';
      if (end == at || !terminated || value < 0 || value > (last ? 9 : 16)) {
        error = path + ": line " + std::to_string(digits.size() + 1) + ", column " +
                std::to_string(column + 1) + ": expected " +
                (last ? "a label 0..9" : "a pixel 0..16 and a comma");
        return {};
      }
      if (last) {
        digit.label = static_cast<int>(value);
      } else {
        digit.pixels[column] = static_cast<float>(value);
      }
      at = end + 1;
    }
    digits.push_back(digit);
  }
  int code = Z_OK;
  const char* text = gzerror(file.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) {
    error = path + ": damaged after line " + std::to_string(digits.size()) + ": " + text;
    return {};
  }
  if (digits.empty()) error = path + ": holds no digits";
  return digits;
}

std::array<std::string, 8> draw(const Digit& digit) {
  static const char kShades[] = " .:-=+*#%@";
  std::array<std::string, 8> lines;
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) {
      lines[row].append(2, kShades[static_cast<int>(digit.pixels[row * 8 + column]) * 9 / 16]);
    }
  }
  return lines;
}

}  // namespace neuron::digits
