// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-compile/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "runtime/neff/npy_file.h"

namespace neuron::compile {
namespace {

using graph::Shape;
using graph::Tensor;
using graph::Type;
using runtime::fail;
using runtime::Result;

struct Named {
  std::string name, value;
};

Result<Named> split(const std::string& text, const char* example) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return fail(NRT_INVALID, "found '{}', expected {}", text, example);
  }
  return Named{text.substr(0, equals), text.substr(equals + 1)};
}

Result<int64_t> read_size(const std::string& text) {
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 1) {
    return fail(NRT_INVALID, "'{}' is no size; expected a number of at least 1", text);
  }
  return size;
}

Result<Tensor> read_array(const std::string& path) {
  NEURON_TRY(array, tools::read_npy_file(path));
  const std::string kind = array.type.substr(1);
  constexpr std::pair<const char*, Type> kKinds[] = {
      {"f4", Type::kF32}, {"f8", Type::kF64}, {"f2", Type::kF16}, {"i1", Type::kI8},
      {"i2", Type::kI16}, {"i4", Type::kI32}, {"i8", Type::kI64}, {"u1", Type::kU8},
      {"u2", Type::kU16}, {"u4", Type::kU32}, {"u8", Type::kU64}, {"b1", Type::kBool}};
  for (const auto& [name, type] : kKinds) {
    if (kind != name) continue;
    return Tensor::from_bytes(type, Shape(array.shape.begin(), array.shape.end()),
                              array.data.data());
  }
  return fail(NRT_INVALID, "{} has elements of type {}", path, array.type);
}

}  // namespace

Result<void> read_shape(const std::string& text, onnx::Bindings& bindings) {
  NEURON_TRY(named, split(text, "NAME=SHAPE, such as x=1x3x224x224"));
  Shape shape;
  std::string rest = named.value;
  while (!rest.empty()) {
    const size_t end = rest.find('x');
    NEURON_TRY(size, read_size(rest.substr(0, end)));
    shape.push_back(size);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  bindings.shapes[named.name] = shape;
  return {};
}

Result<void> read_dimension(const std::string& text, onnx::Bindings& bindings) {
  NEURON_TRY(named, split(text, "NAME=SIZE, such as batch=1"));
  NEURON_TRY(size, read_size(named.value));
  bindings.dimensions[named.name] = size;
  return {};
}

Result<void> donate(const std::vector<std::pair<std::string, std::string>>& donated,
                    graph::Graph& graph) {
  for (const auto& pair : donated) {
    const std::string &name = pair.first, &source = pair.second;
    const auto output = std::find_if(graph.outputs.begin(), graph.outputs.end(),
                                     [&](const auto& other) { return other.name == name; });
    if (output == graph.outputs.end()) {
      return fail(NRT_INVALID, "--donate {}={}: the model has no output \"{}\"", name, source,
                  name);
    }
    const auto node = [&](graph::Value value) -> const graph::Node& {
      return graph.nodes[static_cast<size_t>(value)];
    };
    const auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                    [&](graph::Value value) { return node(value).name == source; });
    if (input == graph.inputs.end()) {
      return fail(NRT_INVALID, "--donate {}={}: the model has no input \"{}\"", name, source,
                  source);
    }
    const graph::Node &from = node(*input), &to = node(output->value);
    if (from.type != to.type || from.shape != to.shape) {
      return fail(NRT_INVALID, "--donate {}={}: the output is {} {}, the input is {} {}", name,
                  source, graph::type_name(to.type), graph::shape_text(to.shape),
                  graph::type_name(from.type), graph::shape_text(from.shape));
    }
    for (const auto& other : graph.outputs) {
      if (other.donor != *input || &other == &*output) continue;
      return fail(NRT_INVALID, "--donate {}={}: output \"{}\" has the memory of that input already",
                  name, source, other.name);
    }
    output->donor = *input;
  }
  return {};
}

Result<Tensor> read_constant(const std::string& text) {
  if (text[0] == '@') return read_array(text.substr(1));
  const bool list = text[0] == '[';
  std::vector<double> values;
  bool whole = true;
  const char* at = text.c_str() + (list ? 1 : 0);
  for (;;) {  // bounded: each round reads a part of the text
    char* end = nullptr;
    values.push_back(std::strtod(at, &end));
    if (end == at) return fail(NRT_INVALID, "'{}' is no number, no [list] and no @FILE.npy", text);
    whole = whole && std::floor(values.back()) == values.back();
    at = end;
    while (*at == ' ') ++at;
    if (list && *at == ',') {
      ++at;
      continue;
    }
    break;
  }
  if (std::string(at) != (list ? "]" : "")) {
    return fail(NRT_INVALID, "'{}' is no number, no [list] and no @FILE.npy", text);
  }
  Tensor tensor = Tensor::zeros(whole ? Type::kI64 : Type::kF32,
                                list ? Shape{static_cast<int64_t>(values.size())} : Shape{});
  for (size_t i = 0; i < values.size(); ++i) tensor.set(i, values[i]);
  return tensor;
}

Result<void> set_target(const std::string& target, lowering::Options& options) {
  if (target == "trn1" || target == "trn1n" || target == "inf2") {
    options.generation = 2;
  } else if (target == "trn2") {
    options.generation = 3;
  } else if (target == "trn3") {
    options.generation = 4;
  } else if (target == "inf1") {
    return fail(NRT_INVALID,
                "inf1: the instruction set of Inferentia1 is not public, so no program can "
                "be made for it; expected trn1, trn1n, inf2, trn2 or trn3");
  } else {
    return fail(NRT_INVALID, "found '{}', expected trn1, trn1n, inf2, trn2 or trn3", target);
  }
  return {};
}

}  // namespace neuron::compile
