// SPDX-License-Identifier: Apache-2.0
// One measured size of one operation, and a block of them: the data of tables, JSON and
// comparisons. Callers: runs fill them, output shows them. Thread-safe: values.
#ifndef TOOLS_NCCOM_TEST_OUTPUT_ROW_H
#define TOOLS_NCCOM_TEST_OUTPUT_ROW_H

#include <ccom/ccom.h>

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::nccom {

struct Row {
  uint64_t size = 0;                           // bytes, as the operation counts them
  uint64_t count = 0;                          // elements of it
  uint64_t total_input = 0, total_output = 0;  // bytes of a rank's buffers
  std::vector<double> times_us;                // of all ranks' measured operations
  std::vector<double> rank_mean_us;            // by rank
  std::string algorithm;
  uint64_t checked = 0;   // ranks whose results were compared
  uint64_t compared = 0;  // their results, with those of unmeasured operations
  std::string failure;    // sentence; empty: none
  std::string log;        // file with what is known of the failure
};

// Rows of one operation in one arrangement of the ranks.
struct Block {
  std::string title;  // shown where there are several
  ccom_operation_t operation = CCOM_ALL_REDUCE;
  ccom_type_t type = CCOM_UINT8;
  uint32_t group_ranks = 0;  // of a replica group: the factor of the bus bandwidth
  uint32_t operations_per_iteration = 1;
  std::vector<Row> rows;
};

// Mean over all measured operations, microseconds; 0 without any.
double average(std::vector<double> values);
// Between the two nearest values.
double percentile(std::vector<double> values, double percent);

// Bytes per second of a row: size over mean time; times the factor of the operation.
double algorithm_rate(const Row& row);
double bus_rate(const Block& block, const Row& row);
// Mean over the rows that did not fail.
double average_bus_rate(const Block& block);
uint64_t failures(const std::vector<Block>& blocks);

}  // namespace neuron::nccom

#endif
