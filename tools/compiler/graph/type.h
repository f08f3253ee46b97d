// SPDX-License-Identifier: Apache-2.0
//
// The types of elements that models have, and what a value becomes when it is stored as one.
// Callers: the graph, its importers and its lowering. Thread-safe: constants. Cannot fail.
#ifndef TOOLS_COMPILER_GRAPH_TYPE_H
#define TOOLS_COMPILER_GRAPH_TYPE_H

#include <cstddef>
#include <cstdint>

namespace neuron::graph {

enum class Type : uint8_t {
  kF32,
  kF64,
  kF16,
  kBf16,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
};

const char* type_name(Type type);  // "f32"
size_t type_bytes(Type type);
// Floating point; else whole numbers, of which bool is one with the values 0 and 1.
bool is_real(Type type);
bool is_unsigned(Type type);  // bool is, too

// The nearest value that the type has.
double rounded(Type type, double value);
// The low bits that the type has, with its sign. 64-bit unsigned numbers keep their bits.
int64_t wrapped(Type type, int64_t value);
// A number as a whole number of the type: toward zero; beyond its range the nearest end, NaN is 0.
int64_t truncated(Type type, double value);

}  // namespace neuron::graph

#endif
