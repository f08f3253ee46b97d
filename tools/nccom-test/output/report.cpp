// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/output/report.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdio>

#include "driver/base/json_text.h"
#include "runtime/neff/json_document.h"
#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;

namespace {

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.10g", value);
  // A whole number is written so that it reads as a float.
  const std::string result = text;
  return result.find_first_of(".en") == std::string::npos ? result + ".0" : result;
}

// Without the braces.
std::string row_json(const Block& block, const Row& row, const TableOptions& options) {
  std::string text = "\"size(B)\": " + std::to_string(row.size) +
                     ", \"count(elems)\": " + std::to_string(row.count);
  if (options.totals) {
    text += ", \"total_input_size(B)\": " + std::to_string(row.total_input) +
            ", \"total_output_size(B)\": " + std::to_string(row.total_output);
  }
  text += ", \"type\": " + base::json_string(type_name(block.type));
  if (row.failure.empty()) {
    const std::string rate = unit(options.gibibytes);
    text += ", " + base::json_string("algbw(" + rate + ")") + ": " +
            number(in_unit(algorithm_rate(row), options.gibibytes)) + ", " +
            base::json_string("busbw(" + rate + ")") + ": " +
            number(in_unit(bus_rate(block, row), options.gibibytes));
    for (const Statistic& statistic : options.statistics) {
      text += ", " + base::json_string(time_title(statistic)) + ": " +
              number(time_value(row, statistic));
    }
  }
  text += ", \"operation\": " + base::json_string(operation_name(block.operation)) +
          ", \"ranks\": " + std::to_string(block.group_ranks);
  if (!row.algorithm.empty()) text += ", \"algorithm\": " + base::json_string(row.algorithm);
  if (row.checked != 0) {
    text += ", \"checked_ranks\": " + std::to_string(row.checked) +
            ", \"checked_results\": " + std::to_string(row.compared);
  }
  if (!row.rank_mean_us.empty()) {
    size_t slowest = 0, quickest = 0;
    for (size_t i = 0; i < row.rank_mean_us.size(); ++i) {
      if (row.rank_mean_us[i] > row.rank_mean_us[slowest]) slowest = i;
      if (row.rank_mean_us[i] < row.rank_mean_us[quickest]) quickest = i;
    }
    text += ", \"quickest_rank\": {\"rank\": " + std::to_string(quickest) +
            ", \"time:avg(us)\": " + number(row.rank_mean_us[quickest]) +
            "}, \"slowest_rank\": {\"rank\": " + std::to_string(slowest) +
            ", \"time:avg(us)\": " + number(row.rank_mean_us[slowest]) + "}";
  }
  if (!row.failure.empty()) text += ", \"failure\": " + base::json_string(row.failure);
  if (!row.log.empty()) text += ", \"log_file\": " + base::json_string(row.log);
  return text;
}

constexpr const char* kNamed = "\"schema\": \"nccom-test\", \"schema_version\": 1, ";

double number_at(const boost::json::object& row, const char* key) {
  const auto* value = row.if_contains(key);
  if (value == nullptr) return -1;
  if (value->is_double()) return value->get_double();
  if (value->is_int64()) return static_cast<double>(value->get_int64());
  if (value->is_uint64()) return static_cast<double>(value->get_uint64());
  return -1;
}

std::string text_at(const boost::json::object& row, const char* key) {
  const auto* value = row.if_contains(key);
  if (value == nullptr || !value->is_string()) return "";
  return {value->get_string().data(), value->get_string().size()};
}

bool same(const Block& block, const Row& row, const BaselineRow& other) {
  return other.size == row.size &&
         (other.operation.empty() || other.operation == operation_name(block.operation)) &&
         (other.ranks == 0 || other.ranks == block.group_ranks) &&
         (other.type.empty() || other.type == type_name(block.type));
}

const BaselineRow* partner_of(const Block& block, const Row& row,
                              const std::vector<BaselineRow>& baseline) {
  const auto found = std::find_if(baseline.begin(), baseline.end(), [&](const BaselineRow& other) {
    return same(block, row, other);
  });
  return found == baseline.end() ? nullptr : &*found;
}

std::string name_of(const Block& block, const Row& row) {
  return format("{} {} {} B", operation_name(block.operation), type_name(block.type), row.size);
}

ccom::Error no_partner() {
  return fail(CCOM_INVALID,
              "the baseline has no row with an operation, ranks, size and type of this run");
}

}  // namespace

std::string format_report(const std::vector<Block>& blocks, const TableOptions& options,
                          const Facts& configuration, bool names_schema) {
  std::string text = std::string("{\n  ") + (names_schema ? kNamed : "") + "\"results\": [";
  bool first = true;
  for (const Block& block : blocks) {
    for (const Row& row : block.rows) {
      text += std::string(first ? "" : ",") + "\n    {" + row_json(block, row, options) + "}";
      first = false;
    }
  }
  text += "\n  ],\n  \"configuration\": {";
  first = true;
  for (const auto& [key, value] : configuration) {
    text += std::string(first ? "" : ",") + "\n    " + base::json_string(key) + ": " +
            base::json_string(value);
    first = false;
  }
  return text + "\n  }\n}\n";
}

std::string format_lines(const std::vector<Block>& blocks, const TableOptions& options) {
  std::string text;
  for (const Block& block : blocks) {
    for (const Row& row : block.rows) {
      text += std::string("{") + kNamed + row_json(block, row, options) + "}\n";
    }
  }
  return text;
}

Result<std::vector<BaselineRow>> parse_baseline(const std::string& text, const std::string& file) {
  const auto value = neff::parse_json({reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                                      file, {64u << 20, 16, 4u << 20});
  if (!value) return ccom::Error{CCOM_INVALID, value.error().sentence};
  const auto* top = value->if_object();
  const auto* results = top == nullptr ? nullptr : top->if_contains("results");
  const auto* list = results == nullptr ? nullptr : results->if_array();
  if (list == nullptr) {
    return fail(CCOM_INVALID, "{}: \"results\" is no list; it is no report of nccom-test", file);
  }
  std::vector<BaselineRow> rows;
  for (size_t i = 0; i < list->size(); ++i) {
    const auto* row = (*list)[i].if_object();
    if (row == nullptr) return fail(CCOM_INVALID, "{}: results[{}] is no object", file, i);
    if (row->if_contains("failure") != nullptr) continue;
    BaselineRow read;
    const double size = number_at(*row, "size(B)");
    if (size < 0) {
      return fail(CCOM_INVALID, "{}: results[{}] has no number \"size(B)\"", file, i);
    }
    read.size = static_cast<uint64_t>(size);
    read.operation = text_at(*row, "operation");
    read.type = text_at(*row, "type");
    read.algorithm = text_at(*row, "algorithm");
    read.ranks = static_cast<uint64_t>(std::max(0.0, number_at(*row, "ranks")));
    const double gigabytes = number_at(*row, "busbw(GB/s)");
    const double gibibytes = number_at(*row, "busbw(GiB/s)");
    read.bus_rate = gigabytes >= 0   ? gigabytes * 1e9
                    : gibibytes >= 0 ? gibibytes * 1073741824.0
                                     : 0;
    read.time_us = std::max(0.0, number_at(*row, "time:avg(us)"));
    if (read.bus_rate == 0 && read.time_us == 0) {
      return fail(CCOM_INVALID, "{}: results[{}] has neither \"busbw(GB/s)\" nor \"time:avg(us)\"",
                  file, i);
    }
    rows.push_back(read);
  }
  return rows;
}

Result<Comparison> compare(const std::vector<Block>& blocks,
                           const std::vector<BaselineRow>& baseline, double tolerance,
                           bool gibibytes) {
  Comparison result;
  for (const Block& block : blocks) {
    for (const Row& row : block.rows) {
      if (!row.failure.empty()) continue;
      const BaselineRow* other = partner_of(block, row, baseline);
      const std::string name = name_of(block, row);
      if (other == nullptr) {
        result.text += name + ": not in the baseline\n";
        continue;
      }
      ++result.compared;
      const double rate = bus_rate(block, row);
      const bool by_rate = other->bus_rate > 0 && rate > 0;
      const double time = average(row.times_us);
      const double change = by_rate              ? rate / other->bus_rate - 1
                            : other->time_us > 0 ? other->time_us / std::max(time, 1e-9) - 1
                                                 : 0;
      const bool slower = change < -tolerance;
      result.slower += slower ? 1 : 0;
      char text[160];
      if (by_rate) {
        std::snprintf(text, sizeof text, ": %.2f %s, baseline %.2f, %+.1f %%%s\n",
                      in_unit(rate, gibibytes), unit(gibibytes),
                      in_unit(other->bus_rate, gibibytes), change * 100,
                      slower ? ", slower than tolerated" : "");
      } else {
        std::snprintf(text, sizeof text, ": %.2f us, baseline %.2f, %+.1f %%%s\n", time,
                      other->time_us, change * 100, slower ? ", slower than tolerated" : "");
      }
      result.text += name + text;
    }
  }
  if (result.compared == 0) return no_partner();
  return result;
}

Result<Beside> put_beside(const std::vector<Block>& simulated,
                          const std::vector<BaselineRow>& measured,
                          std::optional<double> tolerance) {
  Beside result;
  std::vector<double> apart;
  for (const Block& block : simulated) {
    for (const Row& row : block.rows) {
      if (!row.failure.empty()) continue;
      const std::string name = name_of(block, row);
      const BaselineRow* other = partner_of(block, row, measured);
      if (other == nullptr || other->time_us <= 0) {
        result.text +=
            name + (other == nullptr ? ": not measured\n" : ": measured without times\n");
        continue;
      }
      const double time = average(row.times_us), change = time / other->time_us - 1;
      const bool outside = tolerance && std::fabs(change) > *tolerance;
      ++result.compared;
      result.outside += outside ? 1 : 0;
      apart.push_back(std::fabs(change) * 100);
      char text[160];
      std::snprintf(text, sizeof text, ": simulated %.3f us, measured %.3f us, %+.1f %%%s", time,
                    other->time_us, change * 100, outside ? ", further than tolerated" : "");
      result.text += name + text;
      if (!other->algorithm.empty() && !row.algorithm.empty() &&
          other->algorithm != row.algorithm) {
        result.text += format("; simulated is {}, measured {}", row.algorithm, other->algorithm);
      }
      result.text += "\n";
    }
  }
  if (result.compared == 0) return no_partner();
  char text[120];
  std::snprintf(text, sizeof text, "apart: median %.1f %%, worst %.1f %%, of %llu rows\n",
                percentile(apart, 50), percentile(apart, 100),
                static_cast<unsigned long long>(result.compared));
  result.text += text;
  return result;
}

}  // namespace neuron::nccom
