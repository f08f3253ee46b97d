// SPDX-License-Identifier: Apache-2.0
//
// Numbers of some partitions of SBUF or PSUM, and pictures of them.
// Callers: Debugger. Thread-safe: values. Fails: a sentence for the person at the terminal.
#ifndef TOOLS_NEURON_DEBUG_TILE_H
#define TOOLS_NEURON_DEBUG_TILE_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/debug/target.h"

namespace neuron::debug {

struct Tile {
  uint32_t first = 0;                     // partition
  std::vector<std::vector<double>> rows;  // a partition each, all of one length
};

// `words`: memory, PARTITION[:COUNT], OFFSET, TYPE, COUNT.
Result<Tile> read_tile(const Target& target, std::span<const std::string> words);
// "12", "0x0c".
Result<uint32_t> number_of(const std::string& word);

// A character a number, a line a partition, and a line that says what the shades mean.
std::string text_picture(const Tile& tile);
// PNG in RGB, a pixel a number: the least is black, the greatest white; NaN red, infinite blue.
Result<std::vector<uint8_t>> png_picture(const Tile& tile);
// What the shades mean, for a person who looks at the picture.
std::string png_legend(const Tile& tile);

}  // namespace neuron::debug

#endif
