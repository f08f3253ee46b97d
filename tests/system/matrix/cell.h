// SPDX-License-Identifier: Apache-2.0
// One cell of the matrix: operation, type, size, ranks, algorithm, executor; and which are
// expected.
//
// Concepts: expected_cells() is a table written by hand, from what the interface promises; it knows
// neither planner nor runner. The runner (grid.h) makes its cells from the enumerations of the
// library. A cell that one of them has and the other has not fails the test by its name. Which
// cells belong to the short run follows from their names alone. Thread-safe: values.
#ifndef TESTS_SYSTEM_MATRIX_CELL_H
#define TESTS_SYSTEM_MATRIX_CELL_H

#include <cstdint>
#include <map>
#include <string>

namespace neuron::matrix {

enum class Expectation : uint8_t {
  kResult,
  kRefusal,
  kNothing,  // there is no element, and no program of a device without one
};

struct Expected {
  Expectation kind = Expectation::kResult;
  std::string part;  // of the sentence of a refusal
};

// "all_reduce/fp32/9001/ranks4/ring/tcp" to what must come of it.
std::map<std::string, Expected> expected_cells(bool all);

// Of NEURON_TEST_MATRIX=all, or of the short run.
bool belongs_to_short_run(const std::string& name);

}  // namespace neuron::matrix

#endif
