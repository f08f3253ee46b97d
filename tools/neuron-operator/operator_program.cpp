// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-operator/operator_program.h"

#include <algorithm>
#include <charconv>

#include "driver/isa/instruction.h"
#include "runtime/base/file.h"
#include "tools/compiler/program_builder/custom_call.h"

namespace neuron::operators {

using runtime::fail;
using runtime::Result;

namespace {

struct TensorType {
  uint8_t dtype = NEURON_DTYPE_NONE;
  std::vector<uint64_t> shape;
};

// "f32[2,3]"
Result<TensorType> read_type(const std::string& text) {
  const auto refuse = [&] {
    return fail(NRT_INVALID, "found the tensor {}, expected a type and a shape such as f32[2,3]",
                text);
  };
  const size_t bracket = text.find('[');
  if (bracket == std::string::npos || text.back() != ']') return refuse();
  TensorType type;
  for (unsigned dtype = 1; dtype <= NEURON_DTYPE_I64; ++dtype) {
    if (text.substr(0, bracket) == isa::dtype_name(dtype)) type.dtype = static_cast<uint8_t>(dtype);
  }
  if (type.dtype == NEURON_DTYPE_NONE) return refuse();
  const char* at = text.data() + bracket + 1;
  const char* end = text.data() + text.size() - 1;
  while (at < end) {
    uint64_t size = 0;
    const auto [next, status] = std::from_chars(at, end, size);
    if (status != std::errc() || size == 0 || (next != end && *next != ',')) return refuse();
    type.shape.push_back(size);
    at = next + 1;
  }
  return type;
}

// All of the word is the number.
template <class Number>
Result<Number> read_number(const std::string& word, const char* expected) {
  Number number{};
  const char* first = word.data() + (word.starts_with('+') ? 1 : 0);
  const char* end = word.data() + word.size();
  const auto [stop, status] = std::from_chars(first, end, number);
  if (status == std::errc() && stop == end) return number;
  return fail(NRT_INVALID, "found the argument {}, expected {}", word, expected);
}
constexpr const char* kWhole = "a whole number of 64 bits";
constexpr const char* kReal = "a number such as 0.25";

}  // namespace

Result<std::vector<uint8_t>> operator_program(const OperatorRequest& request) {
  NEURON_TRY(contents, ask_library(request.library));
  const auto op = std::find_if(contents.operators.begin(), contents.operators.end(),
                               [&](const LibraryOperator& o) { return o.name == request.name; });
  if (op == contents.operators.end()) {
    std::string names;
    for (const LibraryOperator& o : contents.operators) names += " " + o.name;
    return fail(NRT_INVALID, "{} has no operator {}; it has{}", request.library, request.name,
                names);
  }
  if (op->kinds.size() != request.arguments.size()) {
    return fail(NRT_INVALID, "operator {} has {} arguments, found {}", op->name, op->kinds.size(),
                request.arguments.size());
  }
  NEURON_TRY(shape, ask_shape(request.library, request.name, request.arguments));
  NEURON_TRY(result, read_type(shape));
  builder::Program program(request.name, request.generation);
  builder::CustomCall call;
  call.name = request.name;
  call.multicore = contents.multicore;
  NEURON_TRY(image, tools::read_file(request.library));
  call.image = std::move(image);
  unsigned tensors = 0;
  for (size_t n = 0; n < request.arguments.size(); ++n) {
    const std::string& word = request.arguments[n];
    const bool whole = word.find_first_not_of("+-0123456789") == std::string::npos;
    if (op->kinds[n] == 't') {
      NEURON_TRY(type, read_type(word));
      const std::string number = std::to_string(tensors++);
      call.arguments.emplace_back(program.input("input" + number, type.dtype, type.shape));
    } else if (op->kinds[n] == 'i') {
      NEURON_TRY(number, read_number<int64_t>(word, kWhole));
      call.arguments.push_back(builder::CustomArgument::integer(number));
    } else if (op->kinds[n] == 'd') {
      NEURON_TRY(number, read_number<double>(word, kReal));
      call.arguments.push_back(builder::CustomArgument::real(number));
    } else if (whole) {
      NEURON_TRY(number, read_number<int64_t>(word, kWhole));
      call.arguments.push_back(builder::CustomArgument::whole_scalar(number));
    } else {
      NEURON_TRY(number, read_number<double>(word, kReal));
      call.arguments.push_back(builder::CustomArgument::scalar(number));
    }
  }
  builder::custom_operator(program, call, program.output("output0", result.dtype, result.shape));
  return program.build();
}

}  // namespace neuron::operators
