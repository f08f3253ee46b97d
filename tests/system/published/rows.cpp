// SPDX-License-Identifier: Apache-2.0
#include "tests/system/published/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "driver/base/format.h"
#include "tests/support/files.h"

namespace neuron::published {
namespace {

constexpr size_t kColumns = 10;

template <class Use>
void for_lines(const Use& use) {
  std::istringstream text(test::read_file(rows_path()));
  for (std::string line; std::getline(text, line);) use(line);
}

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns(1);
  for (const char c : line) {
    if (c == '\t') {
      columns.emplace_back();
    } else {
      columns.back() += c;
    }
  }
  return columns;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

std::string rows_path() { return test::source("tests/system/published/rows.tsv"); }

std::vector<Row> read_rows() {
  std::vector<Row> rows;
  for_lines([&](const std::string& line) {
    if (line.empty() || line[0] == '#') return;
    Row& row = rows.emplace_back();
    const std::vector<std::string> c = columns_of(line);
    if (c.size() != kColumns) return;
    row = {c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9]};
  });
  return rows;
}

void write_rows(const std::vector<Row>& rows) {
  std::string text;
  for_lines([&](const std::string& line) {
    if (!line.empty() && line[0] == '#') text += line + "\n";
  });
  for (const Row& r : rows) {
    const std::array<std::string, kColumns> columns = {
        r.name, r.kind, r.chip, r.unit, r.published, r.ours, r.error, r.what, r.source, r.note};
    for (size_t i = 0; i < kColumns; ++i) text += columns[i] + (i + 1 < kColumns ? "\t" : "\n");
  }
  test::write_file(rows_path(), text);
}

std::string ours_text(double ours) { return base::format("{:.5g}", ours); }

std::string error_text(const std::string& published, const std::string& ours) {
  const double error = std::atof(ours.c_str()) / std::atof(published.c_str()) - 1;
  return base::format("{:+.1f}", error * 100);
}

Summary summary_of(const std::vector<Row>& rows) {
  Summary summary;
  std::vector<double> errors, of_programs;
  for (const Row& row : rows) {
    if (row.kind != "blind") continue;
    errors.push_back(std::fabs(std::atof(row.error.c_str())));
    if (!row.of_unit()) of_programs.push_back(errors.back());
    if (errors.back() < summary.worst && !summary.worst_row.empty()) continue;
    summary.worst = errors.back();
    summary.worst_row = row.name;
  }
  summary.blind = errors.size();
  summary.median = median_of(errors);
  summary.of_programs = median_of(of_programs);
  return summary;
}

}  // namespace neuron::published
