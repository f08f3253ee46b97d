// SPDX-License-Identifier: Apache-2.0
//
// A model as the compiler sees it: values with a type and a static shape, each made by one node.
//
// Concepts: there are ten kinds of nodes, and importers express every operator of a model by
// them. A map computes each element alone. A move copies parts of its operands to parts of its
// result: transposing, slicing, padding, joining, repeating are moves. A product multiplies
// matrices. A reduce folds one dimension. A gather reads rows whose numbers are data, a scatter
// writes them. An exchange is between ranks that compute the same graph.
// A kernel is a program that its author wrote. Nodes are listed so that
// operands stand before what uses them. Callers: importers (through Builder), the interpreter, the
// lowering. Thread-safe: values.
#ifndef TOOLS_COMPILER_GRAPH_GRAPH_H
#define TOOLS_COMPILER_GRAPH_GRAPH_H

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tools/compiler/graph/exchange.h"
#include "tools/compiler/graph/tensor.h"

namespace neuron::graph {

enum class Kind : uint8_t {
  kInput,
  kConstant,
  kMap,
  kMove,
  kProduct,
  kReduce,
  kGather,
  kScatter,
  kExchange,
  kKernel,
};

// What a map computes of its operands' elements, which have its shape. Arithmetic has operands of
// its own type, comparisons give bool.
enum class Function : uint8_t {
  kCast,  // one operand of any type
  kNegate,
  kAbsolute,
  kExp,
  kLog,
  kSqrt,
  kFloor,
  kCeil,
  kRound,  // half to even
  kSign,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kSigmoid,
  kSoftplus,
  kNot,    // all bits; of bool: the other value
  kIsNan,  // bool
  kIsInf,  // bool
  kAdd,    // two operands from here
  kSubtract,
  kMultiply,
  kDivide,     // of integers: toward zero
  kModulo,     // the sign of the divisor
  kRemainder,  // the sign of the dividend
  kPower,
  kMaximum,  // NaN if one is
  kMinimum,
  kAnd,  // bits
  kOr,
  kXor,
  kShiftLeft,
  kShiftRight,  // with zeros
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kSelect,  // bool operand, then value if true, value if false
};

const char* function_name(Function function);
bool gives_bool(Function function);  // whatever its operands are

// The same box of elements in an operand and in the result, with distances in elements.
struct Region {
  struct Dimension {
    int64_t size = 1, to_step = 0, from_step = 0;
  };
  uint32_t operand = 0;
  int64_t to = 0, from = 0;
  std::vector<Dimension> dimensions;
};

using Value = int32_t;  // the number of the node that makes it
inline constexpr Value kNone = -1;

struct Node {
  Kind kind = Kind::kConstant;
  Function function =
      Function::kAdd;  // map; of reduce, scatter and exchange: add, multiply, maximum, minimum
  Type type = Type::kF32;
  Shape shape;
  std::vector<Value> operands;
  std::string origin;  // the node of the model that it came from
  std::string name;    // input

  // Its elements. Constants that differ in shape only share them, so the shape is that of the node.
  std::shared_ptr<const Tensor> constant;

  // Move: regions in order, later ones over earlier ones; elsewhere `fill`.
  std::vector<Region> regions;
  double fill = 0;

  // Product: [batch, rows, depth] times [batch, depth, columns]; the left operand is
  // [batch, depth, rows] if `turned`. Reduce: [rows, depth, columns] to [rows, columns].
  // Gather: data [depth, columns], numbers [rows]; result [rows, columns], rows whose number is not
  // within the data are 0. Scatter: the same with data, numbers and new rows; the result is the
  // data with rows combined by `function` (or replaced, if `replaces`), numbers outside skipped.
  int64_t batch = 1, rows = 1, depth = 1, columns = 1;
  bool turned = false;
  bool replaces = false;

  // Kernel: result number `result` of a trace (tools/compiler/nki/TRACE.md) that is called with the
  // operands; its results are nodes one behind the other.
  std::shared_ptr<const std::string> trace;
  int64_t result = 0;

  std::shared_ptr<const Exchange> exchange;  // with `function`, if it combines
};

struct Output {
  std::string name;
  Value value = kNone;
  // An input of the same type and shape, whose memory the output may have: programs that train give
  // a weight and its new value one tensor.
  Value donor = kNone;
};

struct Graph {
  std::string name;
  std::deque<Node> nodes;  // growing moves none, so builders may hold references
  std::vector<Value> inputs;
  std::vector<Output> outputs;
};

// Which nodes the outputs need.
std::vector<bool> needed(const Graph& graph);

// A move that only gives its operand another shape.
bool renames(const Node& node, const Graph& graph);
// The same, of an operand of so many elements.
bool renames(const Node& node, int64_t elements);

}  // namespace neuron::graph

#endif
