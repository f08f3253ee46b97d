// SPDX-License-Identifier: Apache-2.0
//
// Does the same work on many pieces in two sets of tiles: one set is computed on while the other is
// loaded or stored. Many pieces are done in a hardware loop.
// Callers: kernels. Thread-safe: no state. Cannot fail; Program keeps errors.
#ifndef TOOLS_COMPILER_KERNELS_PAIRS_H
#define TOOLS_COMPILER_KERNELS_PAIRS_H

#include <cstdint>
#include <string>

#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

struct Piece {
  uint64_t first = 0;  // Its number in the first round
  int64_t step = 0;    // What each round of the loop adds to the number
  unsigned set = 0;    // 0 or 1
};

// Calls body(Piece) for each of `count` pieces; `name` begins the names of their sections.
template <class Body>
void for_pairs(builder::Program& program, const std::string& name, uint64_t count,
               const Body& body) {
  uint64_t piece = 0;
  if (const uint64_t pairs = count / 2; pairs >= 2) {
    program.section(name + "_in_pairs");
    program.loop(static_cast<uint32_t>(pairs), [&] {
      for (unsigned set = 0; set < 2; ++set) body(Piece{set, 2, set});
    });
    piece = pairs * 2;
  }
  for (; piece < count; ++piece) {
    program.section(name + "_" + std::to_string(piece));
    body(Piece{piece, 0, static_cast<unsigned>(piece % 2)});
  }
}

}  // namespace neuron::kernels

#endif
