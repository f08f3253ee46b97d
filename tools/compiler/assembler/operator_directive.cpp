// SPDX-License-Identifier: Apache-2.0
// .operator relu = "my_ops" (x f32 [2, 3], double 0.5, int64 7, scalar 2.0) -> y f32 [2, 3],
// multicore
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "driver/base/format.h"
#include "hw/custom_operator.h"
#include "hw/neff_program.h"
#include "tools/compiler/assembler/operand_parser.h"
#include "tools/compiler/assembler/source.h"

namespace neuron::assembler {

using base::format;

namespace {

// A number behind its kind; false if no kind stands there.
bool parse_number(Cursor& cursor, neuron_operator_argument& argument) {
  const bool real = cursor.accept("double");
  const bool integer = !real && cursor.accept("int64");
  if (!real && !integer && !cursor.accept("scalar")) return false;
  const Token at = cursor.peek();
  const std::string text(cursor.word().text);
  char* end = nullptr;
  const bool whole = text.find_first_not_of("+-0123456789") == std::string::npos;
  if (integer || (!real && whole)) {
    argument.kind = integer ? NEURON_OPERATOR_INT64 : NEURON_OPERATOR_SCALAR_INT;
    argument.value = static_cast<uint64_t>(std::strtoll(text.c_str(), &end, 10));
  } else {
    argument.kind = real ? NEURON_OPERATOR_DOUBLE : NEURON_OPERATOR_SCALAR;
    argument.value = std::bit_cast<uint64_t>(std::strtod(text.c_str(), &end));
  }
  if (text.empty() || *end != '\0') cursor.expected_at(at, "a number");
  return true;
}

}  // namespace

// "x f32 [2, 3]": the name is a reference from the call table.
void Directives::operator_tensor(Cursor& cursor, uint32_t table,
                                 neuron_operator_argument& argument) {
  const Token at = cursor.peek();
  const std::string name = cursor.name("a variable, or double, int64 or scalar with a number");
  const Shape shape = parse_shape(cursor);
  if (!cursor.ok()) return;
  const bool large = std::any_of(shape.shape.begin(), shape.shape.end(), [](uint32_t size) {
    return size > NEURON_OPERATOR_DIMENSION_MAX;
  });
  if (large || shape.shape.size() > NEURON_OPERATOR_DIMENSIONS) {
    return cursor.expected_at(at, "a tensor of at most 8 dimensions of at most 65535 elements");
  }
  argument.kind = NEURON_OPERATOR_TENSOR;
  argument.dtype = shape.dtype;
  argument.dimensions = static_cast<uint32_t>(shape.shape.size());
  std::copy(shape.shape.begin(), shape.shape.end(), argument.size);
  source_.references.push_back({current_subgraph(), table, cursor.line(), at.column, name});
}

// The variable of a file with these contents.
void Directives::file_variable(const std::string& name, std::vector<uint8_t> contents) {
  neff::Subgraph& subgraph = source_.subgraph(current_subgraph());
  neff::Variable variable;
  variable.name = name;
  variable.kind = neff::VariableKind::kFile;
  variable.id = static_cast<uint32_t>(subgraph.variables.size());
  variable.size = contents.size();
  variable.file_name = subgraph.name + "/" + name;
  source_.assembly().members[variable.file_name] = std::move(contents);
  subgraph.variables.push_back(std::move(variable));
}

void Directives::custom_operator(Cursor& cursor) {
  const uint32_t current = current_subgraph();
  const Token at = cursor.peek();
  const std::string name = cursor.name("a name of the call");
  cursor.expect("=");
  const Token file_at = cursor.peek();
  const std::string file = cursor.string("the file of a library of neuron-operator");
  const auto has = [&](const std::string& variable) {
    neff::Subgraph& subgraph = source_.subgraph(current);
    return variable_named(subgraph, variable) != subgraph.variables.size();
  };
  const std::string description_name = name + ".description";
  if (cursor.ok() && (has(name) || has(description_name))) {
    return cursor.expected_at(at, "a name that no other variable has");
  }
  if (!cursor.ok()) return;
  const std::string image = file.substr(file.rfind('/') + 1) + ".image";
  if (!has(image)) {
    auto contents = source_.options.read ? source_.options.read(file)
                                         : runtime::Result<std::vector<uint8_t>>(runtime::fail(
                                               NRT_INVALID, "files cannot be read here"));
    if (!contents) return cursor.fail(file_at.column, contents.error().sentence);
    file_variable(image, std::move(*contents));
  }
  neuron_operator_description description{};
  description.magic = NEURON_OPERATOR_MAGIC;
  description.version = NEURON_OPERATOR_VERSION;
  neff::Subgraph& subgraph = source_.subgraph(current);
  description.image_bytes = subgraph.variables[variable_named(subgraph, image)].size;
  const auto table =
      static_cast<uint32_t>(subgraph.variables.size()) + 1;  // behind the description
  source_.references.push_back({current, table, cursor.line(), at.column, description_name});
  source_.references.push_back({current, table, cursor.line(), at.column, image});
  uint32_t tensors = 1;
  cursor.expect("(");
  while (cursor.ok() && !cursor.is(")")) {
    if (description.arguments + 1 == NEURON_OPERATOR_ARGUMENTS) {
      return cursor.expected("at most 15 arguments");
    }
    neuron_operator_argument& argument = description.argument[description.arguments++];
    if (!parse_number(cursor, argument)) {
      operator_tensor(cursor, table, argument);
      ++tensors;
    }
    if (!cursor.accept(",")) break;
  }
  cursor.expect(")");
  cursor.expect("->");
  operator_tensor(cursor, table, description.argument[description.arguments++]);
  std::string called = name;
  while (cursor.accept(",")) {
    if (cursor.accept("multicore")) {
      description.flags = NEURON_OPERATOR_MULTICORE;
      continue;
    }
    if (!cursor.accept("name")) return cursor.expected("name= or multicore");
    cursor.expect("=");
    called = cursor.name("an operator of the library");
  }
  if (cursor.ok() && (called.empty() || called.size() >= NEURON_OPERATOR_NAME)) {
    return cursor.expected_at(at, format("a name of at most {} bytes", NEURON_OPERATOR_NAME - 1));
  }
  if (!cursor.ok()) return;
  source_.assembly().options.feature_bits |= NEFF_FEATURE_CUSTOM_OPERATORS;
  std::copy(called.begin(), called.end(), description.name);
  std::vector<uint8_t> bytes(sizeof(description));
  std::memcpy(bytes.data(), &description, sizeof(description));
  file_variable(description_name, std::move(bytes));
  neff::Variable call;
  call.name = name;
  call.kind = neff::VariableKind::kDgeTable;
  call.id = table;
  call.size = sizeof(uint64_t) * (NEURON_CALL_TENSORS + tensors);
  source_.subgraph(current).variables.push_back(std::move(call));
}

}  // namespace neuron::assembler
