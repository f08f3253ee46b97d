// SPDX-License-Identifier: Apache-2.0
#include "tools/common/format.h"

#include <algorithm>
#include <cstdio>

#include "tools/common/command_line.h"
#include "tools/common/json_text.h"

namespace neuron::tools {
namespace {

namespace json = boost::json;

std::string scaled(double value, double step, const char* const* units, unsigned count) {
  unsigned unit = 0;
  while (value >= step && unit + 1 < count) {
    value /= step;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
                units[unit]);
  return text;
}

std::string with_unit(double value, Unit unit) {
  static constexpr const char* kBytes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  static constexpr const char* kRates[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  static constexpr const char* kTimes[] = {"us", "ms", "s"};
  char text[32];
  switch (unit) {
    case Unit::kBytes:
      return scaled(value, 1024, kBytes, 6);
    case Unit::kBytesPerSecond:
      return scaled(value, 1000, kRates, 5);
    case Unit::kMicroseconds:
      return scaled(value, 1000, kTimes, 3);
    case Unit::kPercent:
      std::snprintf(text, sizeof text, "%.1f %%", value);
      return text;
    case Unit::kNone:
      break;
  }
  return {};
}

// The elements of a list of plain values, a space between them; anything deeper as JSON.
std::string plain(const json::value& value, const char* between) {
  if (value.is_null()) return {};
  if (value.is_string()) return std::string(value.get_string());
  if (!value.is_array()) return json_text(value);
  std::string out;
  for (const json::value& element : value.get_array()) {
    if (element.is_array() || element.is_object()) return json_text(value);
    out += (out.empty() ? "" : between) + plain(element, between);
  }
  return out;
}

std::string text_of(const Records& records, const Style& style) {
  const size_t count = records.columns.size();
  std::vector<size_t> widths(count);
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : records.columns) lines[0].push_back(column.heading);
  for (const auto& row : records.rows) {
    lines.emplace_back();
    for (size_t c = 0; c < count; ++c) {
      lines.back().push_back(text_cell(row[c], records.columns[c].unit));
    }
  }
  for (const auto& line : lines) {
    for (size_t c = 0; c < count; ++c) widths[c] = std::max(widths[c], columns_of(line[c]));
  }
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string text;
    for (size_t c = 0; c < count; ++c) {
      // Numbers stand at the right, where their units are below each other.
      const bool number = i > 0 && records.rows[i - 1][c].is_number();
      const std::string pad(widths[c] - columns_of(lines[i][c]), ' ');
      text += (c ? "  " : "") + (number ? pad + lines[i][c] : lines[i][c] + pad);
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += (i == 0 ? painted(style, Paint::kStrong, text) : text) + "\n";
  }
  return out;
}

json::object object_of(const Records& records, const std::vector<json::value>& row) {
  json::object object;
  for (size_t c = 0; c < records.columns.size(); ++c) {
    object[records.columns[c].name] = row[c];
  }
  return object;
}

std::string csv_of(const Records& records, bool with_headings) {
  std::string out;
  for (size_t c = 0; with_headings && c < records.columns.size(); ++c) {
    out += (c ? "," : "") + csv_cell(json::value(records.columns[c].name));
  }
  if (with_headings) out += "\n";
  for (const auto& row : records.rows) {
    for (size_t c = 0; c < records.columns.size(); ++c) {
      out += (c ? "," : "") + csv_cell(row[c]);
    }
    out += "\n";
  }
  return out;
}

}  // namespace

void add_format_option(Command& line, Format& format) {
  line.choice(
      "--format", {"text", "json", "ndjson", "csv"}, static_cast<size_t>(format),
      [&format](size_t word) { format = static_cast<Format>(word); },
      "how to print: for people, as one JSON document, as a JSON object a line, or with commas");
}

json::object document(std::string_view schema, unsigned version) {
  json::object object;
  object["schema"] = schema;
  object["schema_version"] = version;
  return object;
}

std::string text_cell(const json::value& value, Unit unit) {
  if (value.is_null()) return "-";
  if (value.is_bool()) return value.get_bool() ? "yes" : "no";
  if (value.is_number() && unit != Unit::kNone) return with_unit(value.to_number<double>(), unit);
  return printable(plain(value, ", "));
}

std::string csv_cell(const json::value& value) {
  const std::string text = plain(value, " ");
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string render(const Records& records, Format format, const Style& style, Place place) {
  if (format == Format::kText) return text_of(records, style);
  if (format == Format::kCsv) return csv_of(records, place != Place::kLater);
  json::object whole = document(records.schema, records.version);
  if (format == Format::kNdjson) {
    std::string out;
    for (const auto& row : records.rows) {
      json::object line = whole;
      for (const json::key_value_pair& member : object_of(records, row)) {
        line[member.key()] = member.value();
      }
      out += json_text(line) + "\n";
    }
    return out;
  }
  for (const json::key_value_pair& member : records.about) whole[member.key()] = member.value();
  json::array list;
  for (const auto& row : records.rows) list.push_back(object_of(records, row));
  whole[records.list] = std::move(list);
  return json_text(whole, place == Place::kAlone ? 4 : 0) + "\n";
}

}  // namespace neuron::tools
