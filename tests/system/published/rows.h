// SPDX-License-Identifier: Apache-2.0
// rows.tsv: every published measurement, its class, and what the model gives for it.
//
// Callers: the program model-times and the test of the file. Thread-safe: values. Cannot fail: a
// line that is not a row has an empty name, which the test refuses.
#ifndef TESTS_SYSTEM_PUBLISHED_ROWS_H
#define TESTS_SYSTEM_PUBLISHED_ROWS_H

#include <string>
#include <vector>

namespace neuron::published {

struct Row {
  std::string name;
  std::string kind;  // fitted, blind, bound only, excluded
  std::string chip, unit;
  std::string published, ours, error;  // error in per cent of what was published
  std::string what, source, note;

  bool measured() const { return kind != "excluded"; }
  bool of_unit() const { return unit == "TFLOPS" || unit == "elements"; }
};

// The path of the file in the source tree.
std::string rows_path();
std::vector<Row> read_rows();
// Replaces ours and error in the file, whose comments stay.
void write_rows(const std::vector<Row>& rows);

// As the file has them.
std::string ours_text(double ours);
std::string error_text(const std::string& published, const std::string& ours);

// Absolute errors of the blind rows, in per cent.
struct Summary {
  size_t blind = 0;
  double median = 0, worst = 0;
  double of_programs = 0;  // The median of those that are about a program, not a peak of a unit
  std::string worst_row;
};
Summary summary_of(const std::vector<Row>& rows);

}  // namespace neuron::published

#endif
