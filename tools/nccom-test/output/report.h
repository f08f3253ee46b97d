// SPDX-License-Identifier: Apache-2.0
// Writes the JSON report, reads an earlier one, and compares both.
//
// Concepts: "results" holds one object for each row, with the titles of the table's columns as
// keys; "configuration" holds the options of the run. A baseline is such a report, of this program
// or of the original one (whose rows have no operation). Callers: main, tests. Thread-safe:
// functions of their arguments. Fails with the file and the field.
#ifndef TOOLS_NCCOM_TEST_OUTPUT_REPORT_H
#define TOOLS_NCCOM_TEST_OUTPUT_REPORT_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/nccom-test/output/table.h"

namespace neuron::nccom {

// Text of all values is shown as JSON strings.
using Facts = std::vector<std::pair<std::string, std::string>>;

// `names_schema`: with the members by which the documents of --format name their schema; the
// original's documents have none.
std::string format_report(const std::vector<Block>& blocks, const TableOptions& options,
                          const Facts& configuration, bool names_schema = false);
// An object a line, for each row.
std::string format_lines(const std::vector<Block>& blocks, const TableOptions& options);

struct BaselineRow {
  std::string operation;  // empty: any
  uint64_t ranks = 0;     // 0: any
  uint64_t size = 0;
  std::string type;     // empty: any
  double bus_rate = 0;  // bytes/s
  double time_us = 0;
  std::string algorithm;  // empty: not told
};

ccom::Result<std::vector<BaselineRow>> parse_baseline(const std::string& text,
                                                      const std::string& file);

struct Comparison {
  uint64_t compared = 0;
  uint64_t slower = 0;
  std::string text;  // a line for each row
};

// Compares bus bandwidths, or times where there is no bandwidth. A row without a partner is shown
// and is not a failure; if no row has a partner, the comparison itself fails.
ccom::Result<Comparison> compare(const std::vector<Block>& blocks,
                                 const std::vector<BaselineRow>& baseline, double tolerance,
                                 bool gibibytes);

// Puts simulated times beside those of a measured run, with the difference in percent of the
// measured ones, a summary, and the algorithms where they differ. `tolerance`: what the difference
// may be, in either direction; `outside` counts the rows beyond it. A row without a partner is
// shown; if no row has one, the comparison itself fails.
struct Beside {
  uint64_t compared = 0;
  uint64_t outside = 0;
  std::string text;
};
ccom::Result<Beside> put_beside(const std::vector<Block>& simulated,
                                const std::vector<BaselineRow>& measured,
                                std::optional<double> tolerance);

}  // namespace neuron::nccom

#endif
