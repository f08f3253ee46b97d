// SPDX-License-Identifier: Apache-2.0
// A benchmark of ccom-ratios, registered by its file, so that no list has to be kept.
//
// Concepts: a bench prints lines of JSON on stdout, those with a goal through report(), or with
// what judged() returns. It returns false when it could not run. A goal that is missed does not end
// it, but the program fails in the end. Callers: main.cpp, one thread, in the order of the names.
// Fails: with a sentence on stderr.
#ifndef TESTS_BENCH_CCOM_BENCH_H
#define TESTS_BENCH_CCOM_BENCH_H

#include <string>

namespace neuron::bench {

// const Bench kScaling("scaling", run_scaling); in the file that defines run_scaling.
class Bench {
 public:
  Bench(const char* name, bool (*run)());
};

enum class Bound { kAtLeast, kAtMost };

struct Row {
  std::string name;
  double ours = 0;
  double peer = 0;
  std::string peer_name;
  std::string unit;
  double goal = 0;
  Bound bound = Bound::kAtLeast;
  bool measurable = true;  // false: this host cannot show whether the goal is met, so it is not
};

// Prints ours, peer, ours / peer and whether that ratio meets the goal, as `make bench` does.
void report(const Row& row);

// "true" or "false", as "met" of a line that a bench prints itself. A goal that is not met is
// counted.
const char* judged(bool met);

// Seconds on the steady clock.
double now_seconds();

}  // namespace neuron::bench

#endif
