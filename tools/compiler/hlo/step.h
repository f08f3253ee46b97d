// SPDX-License-Identifier: Apache-2.0
//
// One instruction of a module while it is imported: its operands, and the values of its result.
// Callers: the opcodes. Thread-safe: no. Borrows the builder and the instruction. Fails: through
// the builder, which keeps the first problem.
#ifndef TOOLS_COMPILER_HLO_STEP_H
#define TOOLS_COMPILER_HLO_STEP_H

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/compiler/graph/builder.h"
#include "tools/compiler/hlo/module.pb.h"

namespace neuron::hlo {

using graph::at;
using graph::Builder;
using graph::Function;
using graph::Shape;
using graph::Tensor;
using graph::Type;
using graph::Value;

// One value, or those of a tuple.
using Values = std::vector<Value>;

// Of a number of PrimitiveType; empty for those without a form here.
std::optional<Type> type_of(int32_t element_type);
// Its name, for sentences; behind it that it is not supported, of those without a form here.
std::string element_type_text(int32_t element_type);
Shape shape_of(const file::Form& form);
// Whether its elements lie in rows, as those of C do; other layouts are those of a device, which
// front ends do not ask for.
bool usual_layout(const file::Form& form);
// Fails through the builder.
Value read_literal(Builder& b, const file::Literal& literal);

class Step {
 public:
  // Runs a computation of the module with arguments.
  using Run = std::function<Values(int64_t computation, const Values& arguments)>;
  // What a computation of two numbers gives: a function of both, or only the second.
  struct Combination {
    std::optional<Function> function;
    bool second = false;
  };
  using Combine = std::function<Combination(int64_t computation)>;

  Builder& b;                            // NOLINT: every line of an opcode names it
  const file::Instruction& instruction;  // NOLINT: as b
  std::vector<Values> operands;          // NOLINT: as b
  Run run;                               // NOLINT: as b
  Run run_each;                          // NOLINT: as b; of numbers, for each element of arrays
  Combine combine;                       // NOLINT: as b

  Value in(size_t number);
  size_t count() const { return operands.size(); }
  Shape shape() const { return shape_of(instruction.shape()); }
  std::vector<int64_t> dimensions() const {
    return {instruction.dimensions().begin(), instruction.dimensions().end()};
  }
  int64_t called(int number);
  // The operands of a product in the one type that holds both and what the result may hold.
  std::pair<Value, Value> same_type(Value a, Value c);
  // In the type that the module says of the result.
  Value in_result_type(Value x);
};

using Import = Values (*)(Step&);

struct Opcode {
  const char* name;  // of a custom call: "custom-call" and its target
  Import import;
};

// Whether the text of a custom call is the trace of an NKI kernel (tools/compiler/nki/TRACE.md).
bool is_kernel_trace(const std::string& text);

std::span<const Opcode> map_opcodes();
std::span<const Opcode> array_opcodes();
std::span<const Opcode> collective_opcodes();
std::span<const Opcode> convolution_opcodes();
std::span<const Opcode> fold_opcodes();
std::span<const Opcode> order_opcodes();
std::span<const Opcode> row_opcodes();

}  // namespace neuron::hlo

#endif
