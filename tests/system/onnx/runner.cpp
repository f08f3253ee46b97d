// SPDX-License-Identifier: Apache-2.0
// Runs ONNX's own test cases: on the reference interpreter, or with --device on a NeuronCore.
//   onnx-runner [--device] [--trn2] [-O0] [--every N] [--table] [--verbose] [NAME...]
// Prints the cases that do not pass and the counts; --table prints expected.tsv.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/system/onnx/node_case.h"
#include "tools/execution/session.h"

int main(int argc, char** argv) {
  using namespace neuron;  // NOLINT: this file is the program
  onnx_cases::Way way;
  size_t every = 1;
  bool table = false, verbose = false;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--device") {
      way.device = true;
    } else if (word == "--trn2") {
      way.lowering.generation = 3;
    } else if (word == "-O0") {
      way.lowering.level = 0;
    } else if (word == "--table") {
      table = true;
    } else if (word == "--verbose") {
      verbose = true;
    } else if (word == "--every" && i + 1 < argc) {
      every = std::max<size_t>(1, std::strtoul(argv[++i], nullptr, 10));
    } else {
      names.push_back(word);
    }
  }
  std::unique_ptr<execution::Session> session;
  if (way.device) {
    auto opened = execution::Session::open(1);
    if (!opened) {
      std::fprintf(stderr, "onnx-runner: %s\n", opened.error().sentence.c_str());
      return 1;
    }
    session = std::move(*opened);
  }
  const auto cases = onnx_cases::all_cases();
  if (cases.empty()) {
    std::fprintf(stderr, "onnx-runner: there are no cases; install the package libonnx-testdata\n");
    return 1;
  }
  std::map<std::string, int> counts;
  for (size_t i = 0; i < cases.size(); ++i) {
    bool wanted = names.empty() && i % every == 0;
    for (const std::string& name : names) {
      wanted = wanted || cases[i].name.find(name) != std::string::npos;
    }
    if (!wanted) continue;
    if (verbose) {
      std::fprintf(stderr, "%s\n", cases[i].name.c_str());
    }
    const onnx_cases::Outcome outcome = run_case(cases[i].folder, way);
    ++counts[outcome.verdict];
    if (table) {
      std::printf("%s\t%s\n", cases[i].name.c_str(), outcome.verdict.c_str());
    } else if (outcome.verdict != "pass" || !names.empty()) {
      std::printf("%-16s %s: %s\n", outcome.verdict.c_str(), cases[i].name.c_str(),
                  outcome.detail.c_str());
    }
  }
  for (const auto& [verdict, count] : counts) {
    std::fprintf(stderr, "%6d %s\n", count, verdict.c_str());
  }
  return counts.count("fail") == 0 && counts.count("differs") == 0 ? 0 : 1;
}
