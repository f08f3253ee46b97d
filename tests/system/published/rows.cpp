// SPDX-License-Identifier: Apache-2.0
#include "tests/system/published/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "driver/base/format.h"
#include "tests/support/files.h"

namespace neuron::published {
namespace {

constexpr size_t kColumns = 13;

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

double error_of(const Row& row) { return std::fabs(std::atof(row.error.c_str())); }

// Of those blind rows that `use` is true of.
template <class Use>
Errors errors_of(const std::vector<Row>& rows, const Use& use) {
  std::vector<double> errors;
  for (const Row& row : rows) {
    if (row.blind() && use(row)) errors.push_back(error_of(row));
  }
  return {errors.size(), median_of(errors)};
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
    row = {c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], c[12]};
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
        r.name,      r.kind, r.classed, r.how,  r.numbers, r.chip, r.unit,
        r.published, r.ours, r.error,   r.what, r.source,  r.note};
    for (size_t i = 0; i < kColumns; ++i) text += columns[i] + (i + 1 < kColumns ? "\t" : "\n");
  }
  test::write_file(rows_path(), text);
}

std::string ours_text(double ours) { return base::format("{:.5g}", ours); }

const char* how_text(bool of_rounds) { return of_rounds ? "rounds" : "execution"; }

std::string error_text(const std::string& published, const std::string& ours) {
  const double error = std::atof(ours.c_str()) / std::atof(published.c_str()) - 1;
  return base::format("{:+.1f}", error * 100);
}

Summary summary_of(const std::vector<Row>& rows) {
  const std::string kNki = "nki-";  // a row without a number of its own is that of NKI's program
  std::set<std::string> twice;
  for (const Row& row : rows) {
    if (row.numbers != "0" || !row.name.starts_with(kNki)) continue;
    twice.insert(row.name.substr(kNki.size()));
  }
  Summary summary;
  for (const Row& row : rows) {
    if (!row.blind() || error_of(row) < summary.worst) continue;
    summary.worst = error_of(row);
    summary.worst_row = row.name;
  }
  summary.all = errors_of(rows, [](const Row&) { return true; });
  summary.of_programs = errors_of(rows, [](const Row& row) { return !row.of_unit(); });
  summary.before = errors_of(rows, [](const Row& row) { return row.classed == "before"; });
  summary.after = errors_of(rows, [](const Row& row) { return row.classed == "after"; });
  summary.plain = errors_of(rows, [](const Row& row) { return row.numbers != "0"; });
  summary.in_nki = errors_of(rows, [&](const Row& row) { return !twice.contains(row.name); });
  return summary;
}

std::string verdict(const Summary& summary) {
  const bool median = summary.all.median <= kMedianGoal, worst = summary.worst <= kWorstGoal;
  const char* const word = median && worst ? "met"
                           : median        ? "the second missed"
                           : worst         ? "the first missed"
                                           : "missed";
  return base::format("(goals {:.0f} and {:.0f}: {})", kMedianGoal, kWorstGoal, word);
}

}  // namespace neuron::published
