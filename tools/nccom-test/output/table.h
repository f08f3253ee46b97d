// SPDX-License-Identifier: Apache-2.0
// The table that people read: columns by title, right-aligned, four spaces between them.
// Callers: main, tests. Thread-safe: functions of their arguments. Cannot fail.
#ifndef TOOLS_NCCOM_TEST_OUTPUT_TABLE_H
#define TOOLS_NCCOM_TEST_OUTPUT_TABLE_H

#include <string>
#include <vector>

#include "tools/nccom-test/input/options.h"
#include "tools/nccom-test/output/row.h"

namespace neuron::nccom {

struct TableOptions {
  std::vector<Statistic> statistics{{"avg", -1}};
  bool algorithm = false;
  bool totals = false;
  bool gibibytes = false;
};

TableOptions table_options(const Options& options);

// "10.0", "6.19": at most two digits behind the point, at least one.
std::string trimmed(double value);
double in_unit(double bytes_per_second, bool gibibytes);
const char* unit(bool gibibytes);  // "GB/s"

std::string time_title(const Statistic& statistic);
double time_value(const Row& row, const Statistic& statistic);

std::string format_table(const Block& block, const TableOptions& options);
std::string format_csv(const std::vector<Block>& blocks, const TableOptions& options);

}  // namespace neuron::nccom

#endif
