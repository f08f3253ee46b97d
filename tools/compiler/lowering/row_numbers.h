// SPDX-License-Identifier: Apache-2.0
//
// Constants that have a number for each row, as the biases of convolutions are.
//
// Each for itself would be a transfer whose place in SBUF others leave late, and what is loaded
// behind it would wait. So they lie side by side in one constant and come with one transfer.
// Callers: lower(), residents. Thread-safe: no state. Cannot fail.
#ifndef TOOLS_COMPILER_LOWERING_ROW_NUMBERS_H
#define TOOLS_COMPILER_LOWERING_ROW_NUMBERS_H

#include <cstdint>
#include <vector>

#include "tools/compiler/lowering/layout.h"

namespace neuron::lowering {

// In the order in which maps need them; as many as find room in few columns.
std::vector<graph::Value> row_numbers(const graph::Graph& graph, const std::vector<bool>& needed);

// Columns of the value: one for each tile of rows.
int64_t number_columns(const graph::Graph& graph, graph::Value value);

// All of them, partition by partition; lanes without a row have 0.
std::vector<uint8_t> number_bytes(const graph::Graph& graph,
                                  const std::vector<graph::Value>& values);

}  // namespace neuron::lowering

#endif
