// SPDX-License-Identifier: Apache-2.0
//
// One list of records in four formats: text for people, json (one document), ndjson (an object a
// line, for streams) and csv. Callers: operator tools. Thread-safe: values. Cannot fail.
//
// In the machine formats numbers have no units: the unit is the end of the field's name (_bytes,
// _seconds, _percent, _bytes_per_second). An unknown value is null (csv: empty). A document names
// its schema and the schema's version. The version grows when a field changes its meaning or is
// removed, not when one is added. Only the records are on standard output: banners and notes belong
// to standard error.
#ifndef TOOLS_COMMON_FORMAT_H
#define TOOLS_COMMON_FORMAT_H

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/terminal.h"

namespace neuron::tools {

class Command;

enum class Format { kText, kJson, kNdjson, kCsv };

// --format text|json|ndjson|csv; `format` is the default until the option is read.
void add_format_option(Command& line, Format& format);

enum class Unit { kNone, kBytes, kBytesPerSecond, kPercent, kMicroseconds };

struct Column {
  std::string name;     // "memory_used_bytes"
  std::string heading;  // "MEMORY USED", of the text
  Unit unit = Unit::kNone;
};

struct Records {
  std::string schema;  // "neuron-doctor"
  unsigned version = 1;
  std::string list;  // what the records are: "checks"
  std::vector<Column> columns;
  std::vector<std::vector<boost::json::value>> rows;  // as many cells as columns
  boost::json::object about = {};                     // beside the list in json
};

// The position of an output among the outputs of one run. In a series each json document is one
// line, because a reader of a stream cannot tell where a longer one ends; csv has its headings
// once.
enum class Place { kAlone, kFirst, kLater };

std::string render(const Records& records, Format format, const Style& style,
                   Place place = Place::kAlone);

// A document of a shape of its own: {"schema": ..., "schema_version": ..., then the members}.
boost::json::object document(std::string_view schema, unsigned version);

// A cell as people read it ("1.5 GiB"), and as csv has it (quoted where it must be).
std::string text_cell(const boost::json::value& value, Unit unit);
std::string csv_cell(const boost::json::value& value);

}  // namespace neuron::tools

#endif
