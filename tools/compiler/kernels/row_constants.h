// SPDX-License-Identifier: Apache-2.0
//
// Tiles that are the same for all rows of a matrix: a number in each partition, and an input row in
// each partition.
// Callers: kernels. Thread-safe: no state. Cannot fail; Program keeps errors.
#ifndef TOOLS_COMPILER_KERNELS_ROW_CONSTANTS_H
#define TOOLS_COMPILER_KERNELS_ROW_CONSTANTS_H

#include <bit>
#include <cstdint>
#include <string>

#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

inline builder::Tile constant_column(builder::Program& program, const char* name, float value) {
  const builder::Tile tile = program.sbuf(name, NEURON_PARTITIONS, 1, NEURON_DTYPE_F32);
  program.memset(builder::Engine::kPool, tile.all(), std::bit_cast<uint32_t>(value));
  return tile;
}

inline builder::Tile broadcast_row(builder::Program& program, const std::string& name,
                                   uint8_t dtype, uint64_t columns) {
  const builder::Buffer row = program.input(name, dtype, {columns});
  const builder::Tile tile =
      program.sbuf(name, NEURON_PARTITIONS, static_cast<uint32_t>(columns), dtype);
  program.dma(builder::Engine::kActivation, tile.all(), row.broadcast(NEURON_PARTITIONS));
  return tile;
}

}  // namespace neuron::kernels

#endif
