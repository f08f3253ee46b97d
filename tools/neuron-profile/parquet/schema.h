// SPDX-License-Identifier: Apache-2.0
//
// The tables of a profile as Parquet: names and types of the published schema 7.4.0, of which those
// are here that a profile of an emulated core has something for.
// Callers: TableWriter, the tables of a profile. Thread-safe: constant. A name that is none is a
// mistake of this program: std::logic_error.
#ifndef TOOLS_NEURON_PROFILE_PARQUET_SCHEMA_H
#define TOOLS_NEURON_PROFILE_PARQUET_SCHEMA_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::profile::parquet {

inline constexpr const char* kSchemaVersion = "7.4.0";

enum class Type : uint8_t { kBoolean, kInt32, kInt64, kFloat, kDouble, kText, kTexts };

struct Field {
  std::string name, type_name, unit, description;
  Type type = Type::kInt64;
  bool required = false;
  bool measured = true;  // false: null in every row; of a required field 0, or no text
};

struct Table {
  std::string name, description;
  std::vector<Field> fields;

  // The number of a field that is filled: of one that is not measured this is a mistake too.
  size_t field(std::string_view name) const;
};

const std::vector<Table>& tables();
const Table& table(std::string_view name);

}  // namespace neuron::profile::parquet

#endif
