// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/parquet/schema_document.h"

#include "tools/neuron-profile/parquet/schema.h"

namespace neuron::profile::parquet {
namespace {

const char* type_of(Type type) {
  switch (type) {
    case Type::kBoolean:
      return "type: boolean";
    case Type::kInt32:
      return "type: integer, format: int32";
    case Type::kInt64:
      return "type: integer, format: int64";
    case Type::kFloat:
      return "type: number, format: float";
    case Type::kDouble:
      return "type: number, format: double";
    case Type::kText:
      return "type: string";
    case Type::kTexts:
      return "type: array, items: {type: string}";
  }
  return "type: string";
}

// In single quotes, where only those must be doubled.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string schema_document() {
  std::string out = "openapi: 3.0.3\ninfo:\n  title: tables of a profile\n  version: ";
  out += quoted(kSchemaVersion) + "\npaths: {}\ncomponents:\n  schemas:\n";
  for (const Table& table : tables()) {
    out += "    " + table.name +
           ":\n      type: object\n      description: " + quoted(table.description) + "\n";
    std::string required;
    for (const Field& field : table.fields) {
      if (field.required) required += (required.empty() ? "" : ", ") + field.name;
    }
    if (!required.empty()) out += "      required: [" + required + "]\n";
    out += "      properties:\n";
    for (const Field& field : table.fields) {
      out += "        " + field.name + ": {" + type_of(field.type);
      if (!field.unit.empty()) out += ", x-unit: " + quoted(field.unit);
      if (!field.description.empty()) out += ", description: " + quoted(field.description);
      out += "}\n";
    }
  }
  return out;
}

}  // namespace neuron::profile::parquet
