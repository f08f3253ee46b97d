// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/output/table.h"

#include <algorithm>
#include <cstdio>

#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::format;

namespace {

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::vector<std::string> titles(const TableOptions& options) {
  std::vector<std::string> result = {"size(B)", "count(elems)"};
  if (options.totals) {
    result.insert(result.end(), {"total_input_size(B)", "total_output_size(B)"});
  }
  result.push_back("type");
  for (const Statistic& statistic : options.statistics) result.push_back(time_title(statistic));
  result.push_back(format("algbw({})", unit(options.gibibytes)));
  result.push_back(format("busbw({})", unit(options.gibibytes)));
  if (options.algorithm) result.push_back("algorithm");
  return result;
}

std::vector<std::string> cells(const Block& block, const Row& row, const TableOptions& options) {
  std::vector<std::string> result = {std::to_string(row.size), std::to_string(row.count)};
  if (options.totals) {
    result.push_back(std::to_string(row.total_input));
    result.push_back(std::to_string(row.total_output));
  }
  result.push_back(type_name(block.type));
  for (const Statistic& statistic : options.statistics) {
    result.push_back(trimmed(time_value(row, statistic)));
  }
  result.push_back(fixed(in_unit(algorithm_rate(row), options.gibibytes), 2));
  result.push_back(fixed(in_unit(bus_rate(block, row), options.gibibytes), 2));
  if (options.algorithm) result.push_back(row.algorithm);
  return result;
}

std::string line(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i != 0) text += "    ";
    text += std::string(widths[i] - std::min(widths[i], cells[i].size()), ' ') + cells[i];
  }
  return text + "\n";
}

std::string quoted_csv(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

}  // namespace

TableOptions table_options(const Options& options) {
  return {options.statistics, options.show_algorithm, options.show_totals, options.gibibytes};
}

std::string trimmed(double value) {
  std::string text = fixed(value, 2);
  if (text.back() == '0') text.pop_back();
  return text;
}

double in_unit(double bytes_per_second, bool gibibytes) {
  return bytes_per_second / (gibibytes ? 1073741824.0 : 1e9);
}

const char* unit(bool gibibytes) { return gibibytes ? "GiB/s" : "GB/s"; }

std::string time_title(const Statistic& statistic) { return "time:" + statistic.name + "(us)"; }

double time_value(const Row& row, const Statistic& statistic) {
  if (statistic.percentile >= 0) return percentile(row.times_us, statistic.percentile);
  if (statistic.name == "min") return percentile(row.times_us, 0);
  if (statistic.name == "max") return percentile(row.times_us, 100);
  return average(row.times_us);
}

std::string format_table(const Block& block, const TableOptions& options) {
  const std::vector<std::string> head = titles(options);
  std::vector<size_t> widths;
  for (const std::string& title : head) widths.push_back(title.size());
  std::vector<std::vector<std::string>> body;
  for (const Row& row : block.rows) {
    body.push_back(row.failure.empty() ? cells(block, row, options)
                                       : std::vector<std::string>{std::to_string(row.size)});
    for (size_t i = 0; i < body.back().size(); ++i) {
      widths[i] = std::max(widths[i], body.back()[i].size());
    }
  }
  std::string text = block.title.empty() ? "" : block.title + "\n";
  text += line(head, widths);
  for (size_t i = 0; i < body.size(); ++i) {
    std::string row = line(body[i], widths);
    if (!block.rows[i].failure.empty()) {
      row.pop_back();
      // The words of the original, which runs its collectives through neuron-bench.
      row += "    Failure running neuron-bench - " +
             (block.rows[i].log.empty() ? block.rows[i].failure : "log file " + block.rows[i].log) +
             "\n";
    }
    text += row;
  }
  text += "Avg bus bandwidth:\t" + fixed(in_unit(average_bus_rate(block), options.gibibytes), 4) +
          unit(options.gibibytes) + "\n";
  return text;
}

std::string format_csv(const std::vector<Block>& blocks, const TableOptions& options) {
  std::vector<std::string> head = titles(options);
  std::string text = "operation,ranks";
  for (const std::string& title : head) text += "," + title;
  text += ",failure\n";
  for (const Block& block : blocks) {
    for (const Row& row : block.rows) {
      text +=
          std::string(operation_name(block.operation)) + "," + std::to_string(block.group_ranks);
      std::vector<std::string> values = cells(block, row, options);
      if (!row.failure.empty()) std::fill(values.begin() + 2, values.end(), "");
      for (const std::string& value : values) text += "," + quoted_csv(value);
      text += "," + quoted_csv(row.failure) + "\n";
    }
  }
  return text;
}

}  // namespace neuron::nccom
