// SPDX-License-Identifier: Apache-2.0
//
// Whether a matrix product overwrites or adds, where the kernel left it to the compiler: the first
// product that writes a PSUM location since its tile was made overwrites it, later ones add.
//
// This is a property of each location of a tile, so one call may need both; runs() then says where
// it must be split. Tiles that a kernel placed on the same bytes do not know of each other. Zeros
// count as nothing written: adding to them and overwriting them give the same. What it means that
// another engine wrote anything else in between is not documented, so such a call is refused.
// Callers: the operations of this folder. Thread-safe: no. A value.
#ifndef TOOLS_COMPILER_NKI_ACCUMULATION_H
#define TOOLS_COMPILER_NKI_ACCUMULATION_H

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "hw/isa.h"
#include "runtime/base/error.h"
#include "tools/compiler/program_builder/access.h"

namespace neuron::nki {

class Accumulation {
 public:
  // Elements [first, first + count) of the destination's stream, which all overwrite or all add.
  struct Run {
    uint64_t first = 0;
    uint64_t count = 0;
    bool accumulate = false;
  };

  // A tile of PSUM was made: nothing has written its locations. Or it was dropped.
  void made(const builder::TileAccess& all);
  void dropped(uint32_t tile) { tiles_.erase(tile); }
  // Another engine wrote these elements, or a product scattered into them; `line` for messages.
  void written(const builder::TileAccess& given, bool zeros, uint32_t line);
  // A product writes these elements.
  void multiplied(const builder::TileAccess& access);
  // How a product without a word about it has to write them.
  runtime::Result<std::vector<Run>> runs(const builder::TileAccess& access) const;

 private:
  using Lanes = std::array<uint64_t, 2>;  // A bit for each partition
  struct Column {
    Lanes product{};  // Written by a product last
    Lanes other{};    // Written by another engine last, and not with zeros
    uint32_t line = 0;
  };
  // Two bytes are the smallest element in PSUM.
  struct State {
    uint32_t first = 0;  // The tile's first byte / 2
    std::vector<Column> columns;
    const Column* at(uint32_t key) const {
      return key - first < columns.size() ? &columns[key - first] : nullptr;
    }
    Column* at(uint32_t key) {
      return key - first < columns.size() ? &columns[key - first] : nullptr;
    }
  };
  std::map<uint32_t, State> tiles_;  // By TileAccess::tile
};

}  // namespace neuron::nki

#endif
