// SPDX-License-Identifier: Apache-2.0
//
// An array of numbers while a model is compiled: constants, and the values of the interpreter.
//
// Elements are held wider than their type: floating-point ones as double, all others as int64_t, so
// that what the interpreter computes from them is more exact than any device.
// Callers: all of the compiler. Thread-safe: values. Cannot fail.
#ifndef TOOLS_COMPILER_GRAPH_TENSOR_H
#define TOOLS_COMPILER_GRAPH_TENSOR_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/compiler/graph/type.h"

namespace neuron::graph {

using Shape = std::vector<int64_t>;

// A dimension or a number of one that is not negative, as an index.
inline size_t at(int64_t index) { return static_cast<size_t>(index); }

// The product of the dimensions; 1 for a scalar, the largest number where 64 bits do not hold it.
int64_t elements_of(const Shape& shape);
// The distance between neighbours of each dimension, in elements, of an array without gaps; the
// largest number as above.
Shape strides_of(const Shape& shape);
std::string shape_text(const Shape& shape);  // "2x3", "scalar"

struct Tensor {
  Type type = Type::kF32;
  Shape shape;
  std::vector<double> reals;      // of floating-point types
  std::vector<int64_t> integers;  // of the others

  // All elements are 0.
  static Tensor zeros(Type type, Shape shape);
  static Tensor scalar(Type type, double value);
  static Tensor of_integers(Type type, Shape shape, std::vector<int64_t> values);
  static Tensor of_reals(Type type, Shape shape, std::vector<double> values);

  int64_t elements() const { return elements_of(shape); }
  double real(size_t index) const;      // of any type
  int64_t integer(size_t index) const;  // of any type
  // Stores what the type can hold of the number.
  void set(size_t index, double value);

  // Elements in their types, little endian, without gaps; and back. `bytes` has as many as needed.
  std::vector<uint8_t> bytes() const;
  static Tensor from_bytes(Type type, Shape shape, const uint8_t* bytes);
};

}  // namespace neuron::graph

#endif
