// SPDX-License-Identifier: Apache-2.0
// Ratios of an earlier run on the same kind of processor, and what has moved since.
//
// Concepts: baselines/CPU.json holds a line for each benchmark: its ratio, its goal, what it is in
// terms of, and the day. CPU is vendor, family and model, because ratios to a peer differ between
// processors. A ratio that is more than 10 % better or worse than its baseline is told on stderr;
// that fails nothing, because a host's other load moves ratios, too. With
// NEURON_BENCH_BASELINE=write the lines of this run take their places in the file, and figures.py
// makes figures.md of all files. Callers: the benchmark programs, one thread. Fails: with a
// sentence on stderr.
#ifndef TESTS_BENCH_BASELINE_H
#define TESTS_BENCH_BASELINE_H

#include <map>
#include <string>

namespace neuron::bench {

struct BaselineRow {
  double ratio = 0;
  double goal = 0;  // 0: none
  bool at_most = false;
  bool met = false;
  std::string peer = {};  // what the ratio is in terms of
  std::string day = {};   // as in 2026-12-31
};

class Baseline {
 public:
  // The file of this processor.
  Baseline();
  explicit Baseline(std::string path);
  // Compares a ratio with its baseline, and keeps it for save(). True: it is more than a tenth
  // better or worse, which is told.
  bool look(const std::string& name, const BaselineRow& row);
  // Writes the file if NEURON_BENCH_BASELINE asks for it; what did not run keeps its old line.
  // False: it could not be written, or has a line that would be lost.
  bool save() const;

 private:
  const std::string path_;
  bool understood_ = true;  // every line of the file
  std::map<std::string, BaselineRow> before_, now_;
};

}  // namespace neuron::bench

#endif
