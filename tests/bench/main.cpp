// SPDX-License-Identifier: Apache-2.0
// neuron-ratios: runs the benchmarks of this folder; one line of JSON each on stdout.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/bench/baseline.h"
#include "tests/bench/peer_environment.h"
#include "tests/bench/ratio.h"

namespace neuron::bench {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

enum class Outcome { kMet, kMissed, kNotRun };

Outcome run(const Ratio& ratio, Baseline& baseline) {
  if (!ratio.error.empty()) {
    std::fprintf(stderr, "%s cannot run: %s\n", ratio.name.c_str(), ratio.error.c_str());
    return Outcome::kNotRun;
  }
  std::vector<double> ours, peer;
  ratio.ours();
  ratio.peer();
  for (int i = 0; i < ratio.rounds; ++i) {
    ours.push_back(ratio.ours());
    peer.push_back(ratio.peer());
    if (ours.back() < 0 || peer.back() < 0) {
      std::fprintf(stderr, "%s: a round of %s failed\n", ratio.name.c_str(),
                   ours.back() < 0 ? "ours" : ratio.peer_name.c_str());
      return Outcome::kNotRun;
    }
  }
  const double a = median(ours), b = median(peer);
  const bool met = ratio.smaller_is_better ? a / b <= ratio.goal : a / b >= ratio.goal;
  std::printf(
      "{\"name\":\"%s\", \"ours\":%.6g, \"peer\":%.6g, \"peer_name\":\"%s\", \"unit\":\"%s\", "
      "\"ratio\":%.3f, "
      "\"goal\":%.2f, \"bound\":\"%s\", \"met\":%s}\n",
      ratio.name.c_str(), a, b, ratio.peer_name.c_str(), ratio.unit.c_str(), a / b, ratio.goal,
      ratio.smaller_is_better ? "at most" : "at least", met ? "true" : "false");
  std::fflush(stdout);
  baseline.look(ratio.name, {a / b, ratio.goal, ratio.smaller_is_better, met, ratio.peer_name});
  return met ? Outcome::kMet : Outcome::kMissed;
}

using Make = std::vector<Ratio> (*)();
template <Ratio (*Single)()>
std::vector<Ratio> one() {
  return {Single()};
}

}  // namespace
}  // namespace neuron::bench

int main(int argc, char** argv) {
  using namespace neuron::bench;
  // Peers read their environment when they are loaded: set it and start over.
  const bool started_over =
      !set_peer_environment(__builtin_cpu_supports("avx512f") ? "SkylakeX" : "Haswell");
  if (!std::getenv("NEURON_EMULATOR")) setenv("NEURON_EMULATOR", "trn1.2xlarge", 1);
  if (!started_over) execv("/proc/self/exe", argv);
  if (argc == 2 && !std::strcmp(argv[1], "--strict-worker")) return strict_worker();
  if (argc == 2 && !std::strcmp(argv[1], "--init-worker")) return init_worker();
  const char* only = argc == 3 && !std::strcmp(argv[1], "--only") ? argv[2] : nullptr;
  if (argc != 1 && !only) {
    std::fprintf(stderr, "usage: neuron-ratios [--only NAME]\n");
    return 2;
  }
  const struct {
    const char* name;
    Make make;
  } all[] = {{"host", host},
             {"launch", one<launch>},
             {"hbm-copy", hbm_copy},
             {"neff-load", one<neff_load>},
             {"tensor-write", tensor_write},
             {"matmul-f32", matmul_f32},
             {"async-launch", one<async_launch>},
             {"overlap", one<overlap>},
             {"overlap-collective", overlap_collective},
             {"two-cores", one<two_cores>},
             {"matmul-bf16", matmul_bf16},
             {"matmul-fp8-double-row", one<matmul_double_row>},
             {"matmul-mxfp8", one<matmul_mxfp8>},
             {"softmax", one<softmax>},
             {"layernorm", one<layernorm>},
             {"gelu", one<gelu>},
             {"attention", one<attention>},
             {"strict", strict},
             {"trace-idle", trace_idle},
             {"trace-on", trace_on},
             {"view", view},
             {"builder", builder_operations},
             {"file-to-hbm", file_to_hbm},
             {"init", init},
             {"threads", one<threads>},
             {"probe", one<probe>},
             {"launch-shared", one<launch_shared>},
             {"launch-shared-cold", one<launch_shared_cold>},
             {"copy-shared", one<copy_shared>},
             {"copy-shared-descriptors", one<copy_shared_descriptors>},
             {"clients", one<clients>},
             {"clients-fairness", one<clients_fairness>},
             {"freed-after-kill", freed_after_kill},
             {"monitor", one<monitor>},
             {"ls", one<ls>},
             {"nki-trace", nki_trace},
             {"nki-run", one<nki_run>},
             {"nki-values", nki_values},
             {"serve", one<serve>},
             {"serve-p99", one<serve_p99>},
             {"serve-overload", one<serve_overload>},
             {"serve-ordinary", one<serve_ordinary>}};
  Baseline baseline;
  bool found = false, good = true;
  int missed = 0;
  for (const auto& entry : all) {
    if (only && std::strcmp(only, entry.name) != 0) continue;
    found = true;
    for (const Ratio& ratio : entry.make()) {
      const Outcome outcome = run(ratio, baseline);
      missed += outcome == Outcome::kMissed ? 1 : 0;
      good = outcome == Outcome::kMet && good;
    }
  }
  if (missed != 0) {
    std::fprintf(stderr, "%d goals were missed; their lines have \"met\":false\n", missed);
  }
  if (!found) std::fprintf(stderr, "no benchmark is called %s\n", only);
  good = baseline.save() && good;
  return found && good ? 0 : 1;
}
