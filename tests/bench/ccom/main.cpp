// SPDX-License-Identifier: Apache-2.0
// ccom-ratios: runs the benchmarks of libccom; --has NAME says by its exit code whether there is
// one of that name. Exit code 1: a benchmark could not run, or a goal was missed.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "tests/bench/baseline.h"
#include "tests/bench/ccom/bench.h"

namespace neuron::bench {
namespace {

std::map<std::string, bool (*)()>& benches() {
  static std::map<std::string, bool (*)()> all;
  return all;
}

int missed_goals = 0;

Baseline& baseline() {
  static Baseline known;
  return known;
}

}  // namespace

Bench::Bench(const char* name, bool (*run)()) { benches()[name] = run; }

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const char* judged(bool met) {
  if (!met) ++missed_goals;
  return met ? "true" : "false";
}

void report(const Row& row) {
  const double ratio = row.ours / row.peer;
  const bool at_most = row.bound == Bound::kAtMost;
  const bool met = row.measurable && (at_most ? ratio <= row.goal : ratio >= row.goal);
  std::printf(
      "{\"name\":\"%s\", \"ours\":%.6g, \"peer\":%.6g, \"peer_name\":\"%s\", \"unit\":\"%s\", "
      "\"ratio\":%.3f, \"goal\":%.2f, \"bound\":\"%s\", \"met\":%s}\n",
      row.name.c_str(), row.ours, row.peer, row.peer_name.c_str(), row.unit.c_str(), ratio,
      row.goal, at_most ? "at most" : "at least", judged(met));
  std::fflush(stdout);
  baseline().look(row.name, {ratio, row.goal, at_most, met, row.peer_name});
}

int missed() { return missed_goals; }
bool save_baseline() { return baseline().save(); }

}  // namespace neuron::bench

int main(int argc, char** argv) {
  auto& all = neuron::bench::benches();
  const bool has = argc == 3 && !std::strcmp(argv[1], "--has");
  const bool only = argc == 3 && !std::strcmp(argv[1], "--only");
  if (argc != 1 && !has && !only) {
    std::fprintf(stderr, "usage: ccom-ratios [--only NAME | --has NAME]\n");
    return 2;
  }
  if (has) return all.count(argv[2]) ? 0 : 1;
  if (only && !all.count(argv[2])) {
    std::fprintf(stderr, "no benchmark is called %s\n", argv[2]);
    return 1;
  }
  bool good = true;
  for (const auto& [name, run] : all) {
    if (only && name != argv[2]) continue;
    if (!run()) {
      std::fprintf(stderr, "%s could not run\n", name.c_str());
      good = false;
    }
  }
  if (const int missed = neuron::bench::missed(); missed != 0) {
    std::fprintf(stderr, "%d goals were missed; their lines have \"met\":false\n", missed);
    good = false;
  }
  good = neuron::bench::save_baseline() && good;
  return good ? 0 : 1;
}
