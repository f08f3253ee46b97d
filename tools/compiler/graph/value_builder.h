// SPDX-License-Identifier: Apache-2.0
//
// The values of a graph while it is written: constants, inputs, maps, and the first problem.
//
// A value whose operands are constants becomes a constant at once, computed by the interpreter;
// so shapes that a model computes are known when they are needed.
// Callers: Builder, which adds moves, reductions and products. Thread-safe: no. Owns the graph
// until finish(). Fails: the first problem since the last clear() is kept as a sentence; operations
// then return kNone, which all operations accept and pass on.
#ifndef TOOLS_COMPILER_GRAPH_VALUE_BUILDER_H
#define TOOLS_COMPILER_GRAPH_VALUE_BUILDER_H

#include <string>
#include <vector>

#include "driver/base/format.h"
#include "tools/compiler/graph/graph.h"

namespace neuron::graph {

// What a model may ask for while it is compiled. A fuzzer has smaller ones.
struct Limits {
  int64_t elements = int64_t{1} << 32;  // of a value
  int64_t nodes = 1 << 20;              // those with many regions count more
  // Constants are computed if they have so many elements, or no more than their operands have, and
  // while all such work together is below so many steps.
  int64_t folded = 1 << 16;
  int64_t work = int64_t{1} << 32;
  // Elements of all constants together, but for weights; and of all that are computed from others.
  int64_t constants = int64_t{1} << 29;
};

// Arrays have at most so many dimensions, whatever the limits are.
inline constexpr size_t kMostDimensions = 64;

class ValueBuilder {
 public:
  explicit ValueBuilder(std::string name, const Limits& limits = {});
  virtual ~ValueBuilder() = default;
  ValueBuilder(const ValueBuilder&) = delete;
  ValueBuilder& operator=(const ValueBuilder&) = delete;

  // What later nodes came from.
  void origin(const std::string& text) { origin_ = text; }

  bool ok() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }
  void clear() { problem_.clear(); }
  template <class... A>
  Value fail(fmt::format_string<A...> text, A&&... arguments) {
    return refuse(base::format(text, std::forward<A>(arguments)...));
  }

  // Fails if the limits do not allow an array of the shape: its strides may be computed then.
  bool allowed(const Shape& shape);
  // Fails if there are more than a list of places, one for each, may have.
  bool listable(int64_t count);
  const Shape& shape(Value value) const;
  Type type(Value value) const;
  int64_t rank(Value value) const { return static_cast<int64_t>(shape(value).size()); }
  // The axis counted from the front; fails if there is none of the number.
  int64_t axis(Value value, int64_t number) { return axis_of(rank(value), number); }
  int64_t axis_of(int64_t rank, int64_t number);
  // The size of a dimension; 1 and a failure if there is none.
  int64_t size(Value value, int64_t axis);
  // The elements of a constant, not its shape; null of other values.
  const Tensor* constant_of(Value value) const;

  Value input(const std::string& name, Type type, Shape shape);
  Value constant(Tensor tensor);
  // A constant that has its bytes in the file, once; so there may be as many as fit into memory.
  Value weights(Tensor tensor);
  Value scalar(Type type, double value) { return constant(Tensor::scalar(type, value)); }
  Value integers(std::vector<int64_t> values);  // one dimension of i64

  // Maps of a type that the function has. Operands of two are broadcast to each other.
  Value map(Function function, Value x);
  Value map(Function function, Value a, Value b);
  Value add(Value a, Value b) { return map(Function::kAdd, a, b); }
  Value subtract(Value a, Value b) { return map(Function::kSubtract, a, b); }
  Value multiply(Value a, Value b) { return map(Function::kMultiply, a, b); }
  Value divide(Value a, Value b) { return map(Function::kDivide, a, b); }
  // The other operand is a number of the same type.
  Value map(Function function, Value a, double b) { return map(function, a, scalar(type(a), b)); }
  Value select(Value condition, Value yes, Value no);
  Value cast(Value x, Type to);

  // By the rules of broadcasting.
  Value expand(Value x, const Shape& to);
  // Copies the regions, later ones over earlier ones; elsewhere the fill.
  Value regions(const std::vector<Value>& operands, Shape shape, std::vector<Region> list,
                double fill = 0);

  void output(const std::string& name, Value value);
  const Graph& graph() const { return graph_; }
  Graph finish() { return std::move(graph_); }

 protected:
  // The map of a value that was joined from others; kNone if it is to be computed as it is. `b` may
  // be kNone.
  virtual Value joined_map(Function function, Value a, Value b);
  Value append(Node node);
  static bool usable(std::initializer_list<Value> values);
  // The shape that both are broadcast to; false if there is none.
  static bool broadcast(Shape& shape, const Shape& other);

 private:
  Value refuse(std::string sentence);

  Limits limits_;
  Graph graph_;
  bool keeps_repeats_ = false;  // a constant that is repeated becomes no larger constant
  int64_t nodes_ = 0, work_ = 0, constants_ = 0, folded_ = 0;
  std::string origin_;
  std::string problem_;
};

}  // namespace neuron::graph

#endif
