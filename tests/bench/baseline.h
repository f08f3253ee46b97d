// SPDX-License-Identifier: Apache-2.0
// Ratios of an earlier run on the same kind of processor, and what has moved since.
//
// Concepts: baselines/CPU.json holds one ratio for each benchmark; CPU is vendor, family and model,
// because ratios to a peer differ between processors. A ratio that is more than 10 % better or
// worse than its baseline is told on stderr; that fails nothing, because a host's other load moves
// ratios, too. With NEURON_BENCH_BASELINE=write the ratios of this run take their places in the
// file. Callers: the benchmark programs, one thread. Fails: with a sentence on stderr.
#ifndef TESTS_BENCH_BASELINE_H
#define TESTS_BENCH_BASELINE_H

#include <map>
#include <string>

namespace neuron::bench {

class Baseline {
 public:
  Baseline();
  // Compares a ratio with its baseline, and keeps it for save().
  void look(const std::string& name, double ratio, bool smaller_is_better);
  // Writes the file if NEURON_BENCH_BASELINE asks for it; what did not run keeps its old ratio.
  // False: it could not be written.
  bool save() const;

 private:
  std::string path_;
  std::map<std::string, double> before_, now_;
};

}  // namespace neuron::bench

#endif
