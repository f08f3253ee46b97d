// SPDX-License-Identifier: Apache-2.0
// rows.tsv: published measurements, their classes, and what the model gives for them.
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
  std::string kind;     // fitted, blind, bound only, excluded
  std::string classed;  // of a blind row: before or after the model was last changed in its area
  std::string how;      // of a measured row: execution or rounds
  std::string numbers;  // published ones that no row before it has
  std::string chip, unit;
  std::string published, ours, error;  // error in per cent of what was published
  std::string what, source, note;

  bool measured() const { return kind != "excluded"; }
  bool blind() const { return kind == "blind"; }
  bool of_unit() const { return unit == "TFLOPS" || unit == "elements"; }
};

// The path of the file in the source tree.
std::string rows_path();
std::vector<Row> read_rows();
// Replaces ours, how and error in the file, whose comments stay.
void write_rows(const std::vector<Row>& rows);

// As the file has them.
std::string ours_text(double ours);
const char* how_text(bool of_rounds);
std::string error_text(const std::string& published, const std::string& ours);

// Rows, and the median of their absolute errors in per cent.
struct Errors {
  size_t rows = 0;
  double median = 0;
};

// Of the blind rows.
struct Summary {
  Errors all;
  Errors of_programs;    // those that are about a program, not a peak of a unit
  Errors before, after;  // as they were classed
  Errors plain, in_nki;  // each number once: by the first program for it, or by NKI's
  double worst = 0;      // in per cent
  std::string worst_row;
};
Summary summary_of(const std::vector<Row>& rows);

// What the errors of the blind rows should be at most, in per cent.
inline constexpr double kMedianGoal = 8, kWorstGoal = 25;
// For example "(goals 8 and 25: missed)".
std::string verdict(const Summary& summary);

}  // namespace neuron::published

#endif
