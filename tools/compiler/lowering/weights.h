// SPDX-License-Identifier: Apache-2.0
//
// The matrix of weights of a product on its way to SBUF.
//
// Concept: PE wants K on partitions, in parts of up to 128. Constants are stored in the order in
// which partitions read them, so that a descriptor has some KiB: for each block of columns, parts
// of K of one depth lie side by side, lane by lane. Other weights are read where they are. Callers:
// products, convolutions. Thread-safe: no. Borrows the workspace. Fails: without room the program
// has the error, and accesses are absent.
#ifndef TOOLS_COMPILER_LOWERING_WEIGHTS_H
#define TOOLS_COMPILER_LOWERING_WEIGHTS_H

#include <memory>
#include <vector>

#include "tools/compiler/lowering/windows.h"
#include "tools/compiler/lowering/workspace.h"

namespace neuron::lowering {

class Weights {
 public:
  // The value is [batch, K, columns]; it is read in blocks of `block` columns.
  Weights(Workspace& work, Value value, std::vector<DepthPart> parts, int64_t columns,
          int64_t block);

  // Columns from a multiple of the block on. If it keeps, all parts stay until the next call;
  // otherwise a part stays until the next one is asked for.
  void begin(int64_t batch, int64_t column, bool keeps);
  // [depth, columns of the block]
  TileAccess part(size_t number);

 private:
  struct Group {
    size_t first = 0, count = 0;
    int64_t depth = 0;
  };
  int64_t width() const { return std::min(block_, columns_ - column_); }
  void pack(const graph::Tensor& tensor);
  std::shared_ptr<const Tile> load(const Group& group);

  Workspace& work_;
  const std::vector<DepthPart> parts_;
  const int64_t columns_, block_;
  int64_t depth_ = 0;
  bool packed_ = false;
  Buffer place_;
  std::vector<Group> groups_;
  std::vector<size_t> group_of_;  // by part
  int64_t now_ = 0, column_ = 0;
  bool keeps_ = false;
  std::vector<std::shared_ptr<const Tile>> held_;  // by group
};

}  // namespace neuron::lowering

#endif
