// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a lowered graph: each reads its operands from HBM, works in SBUF, and writes its
// value to HBM. Nothing stays on the chip between tasks; the order of the program's operations is
// that of the nodes.
// Callers: lower(). Thread-safe: no. Fails: the program of the workspace keeps the first error.
#ifndef TOOLS_COMPILER_LOWERING_TASKS_H
#define TOOLS_COMPILER_LOWERING_TASKS_H

#include <string>
#include <vector>

#include "tools/compiler/lowering/workspace.h"

namespace neuron::lowering {

// Maps of one number of elements, in order; `stored` of them are wanted in HBM. Nobody reads the
// `spent` operands any more when the group is done, nor what they rename.
struct MapGroup {
  std::vector<Value> members;
  std::vector<bool> stored;
  std::vector<Value> spent;
};

// Elements of a row that is taken or written by its number.
inline constexpr int64_t kMostRowElements = 8192;

// How the operands of products are rounded before they are multiplied.
enum class ProductType : uint8_t { kF32, kBf16, kF16 };

void emit_maps(Workspace& work, const MapGroup& group);
void emit_move(Workspace& work, Value value);
void emit_product(Workspace& work, Value value, ProductType type);
void emit_reduce(Workspace& work, Value value);
void emit_gather(Workspace& work, Value value);
void emit_scatter(Workspace& work, Value value);
void emit_exchange(Workspace& work, Value value);
// All results of the kernel that the value is one of, once.
void emit_kernel(Workspace& work, Value value);
// Empty, or why the kernel cannot be a part of a program of this generation.
std::string kernel_problem(const Graph& graph, const Node& node, uint8_t generation);

// The border: tensors of the caller have the types of the model.
void emit_input(Workspace& work, Value value);
// Names the tensor of the caller, before it is stored. `value`, if it is one: is made there, if the
// tensor has the form of values inside.
void declare_output(Workspace& work, const graph::Output& output, Value value);
// Of a tensor that is declared. What overwrites an input comes behind everything that reads it.
void emit_output(Workspace& work, const graph::Output& output);
// Of the tensors of the program.
uint8_t border_dtype(graph::Type type);

}  // namespace neuron::lowering

#endif
