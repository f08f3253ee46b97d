// SPDX-License-Identifier: Apache-2.0
//
// One of ONNX's own test cases: a model with data sets of inputs and the outputs they must give.
//
// Concept: inputs go in by position. An input that decides a shape is bound as a constant, which
// the refusal of the importer asks for; the case is then compiled once more. A case passes if all
// of its data sets do.
// Callers: the runner and the tests of this folder; one thread, with an open execution::Session
// where `device` is set. Fails: never; the outcome says what went wrong.
#ifndef TESTS_SYSTEM_ONNX_NODE_CASE_H
#define TESTS_SYSTEM_ONNX_NODE_CASE_H

#include <string>
#include <vector>

#include "tools/compiler/lowering/lower.h"

namespace neuron::onnx_cases {

struct Way {
  bool device = false;  // else the reference interpreter
  lowering::Options lowering;
};

struct Outcome {
  // "pass", "differs" (an output has other values), "refused-" and the class, or "fail".
  std::string verdict;
  std::string detail;
};

// The folder has model.onnx and test_data_set_N/.
Outcome run_case(const std::string& folder, const Way& way);

struct Case {
  std::string name;  // "node/test_add"
  std::string folder;
};

// Of the package, sorted by name; empty if it is not installed.
std::vector<Case> all_cases();

// The verdicts of a table of names and verdicts; empty if it cannot be read.
std::vector<std::pair<std::string, std::string>> read_table(const std::string& path);

}  // namespace neuron::onnx_cases

#endif
