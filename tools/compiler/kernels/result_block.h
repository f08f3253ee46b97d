// SPDX-License-Identifier: Apache-2.0
//
// A block of a product's result while PE sums it up in all of PSUM: up to 512 rows of 1024 columns.
// K may then be the outermost loop, so that products begin before all operands have arrived.
// Callers: kernels. Thread-safe: no. Borrows the program. Cannot fail; Program keeps errors.
#ifndef TOOLS_COMPILER_KERNELS_RESULT_BLOCK_H
#define TOOLS_COMPILER_KERNELS_RESULT_BLOCK_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

// Rows or columns of a tile.
struct Span {
  uint32_t first = 0, count = 0;
};

class ResultBlock {
 public:
  static constexpr uint32_t kHigh = NEURON_PE_MAX_M, kWide = NEURON_PE_MAX_N;
  static constexpr uint32_t kTogether = 2;  // Banks of a row
  static constexpr uint32_t kColumns = kTogether * kWide;
  static constexpr uint32_t kRows = NEURON_PSUM_BANKS / kTogether * kHigh;

  // Calls work(rows, columns) for each block of a result of `high` x `wide`, a row of blocks after
  // the other. Each is a section of the program.
  template <class Work>
  static void for_each(builder::Program& program, uint32_t high, uint32_t wide, Work&& work) {
    for (uint32_t row = 0; row < high; row += kRows) {
      for (uint32_t column = 0; column < wide; column += kColumns) {
        program.section("block_" + std::to_string(row) + "_" + std::to_string(column));
        work(Span{row, std::min(kRows, high - row)},
             Span{column, std::min(kColumns, wide - column)});
      }
    }
  }

  ResultBlock(builder::Program& program, const builder::Buffer& result)
      : program_(program), result_(result) {
    for (builder::Tile& bank : banks_) bank = program.psum("sum", kHigh, kWide);
    for (builder::Tile& out : outputs_) out = program.sbuf("output", kHigh, kColumns, result.dtype);
  }
  // The sums of rows from `row` and columns from `column` of the block on.
  builder::TileAccess sums(uint32_t row, uint32_t column) const {
    return banks_[row / kHigh * kTogether + column / kWide].all();
  }
  // Activation and DVE copy by turns; Pool computes nothing here, so stores delay no other work.
  void store(const Span& rows, const Span& columns) {
    for (uint32_t row = 0; row < rows.count; row += kHigh) {
      const builder::Tile& out = outputs_[next_++ % outputs_.size()];
      for (uint32_t column = 0; column < columns.count; column += kWide) {
        const builder::TileAccess to = out.column_range(column, kWide);
        if ((row / kHigh + column / kWide) % 2 == 0) {
          program_.activate(to, NEURON_ACT_COPY, sums(row, column));
        } else {
          program_.tensor_copy(builder::Engine::kDve, to, sums(row, column));
        }
      }
      program_.dma(builder::Engine::kPool,
                   result_.block(rows.first + row, kHigh, columns.first, columns.count),
                   out.column_range(0, columns.count));
    }
  }

 private:
  builder::Program& program_;
  builder::Buffer result_;
  std::array<builder::Tile, NEURON_PSUM_BANKS> banks_;
  std::array<builder::Tile, 4> outputs_;
  uint32_t next_ = 0;
};

}  // namespace neuron::kernels

#endif
