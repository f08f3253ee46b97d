// SPDX-License-Identifier: Apache-2.0
// scaling: published training rates on one and on sixteen trn1.32xlarge nodes beside the model.
//
// A step on sixteen nodes is one of a node, plus the exposed part of its all-reduces of gradients,
// whose time is simulated. Which part is exposed, and how often gradients are reduced, is not
// published: these are knobs, FITTED to the rows. The model explains the rows; it does not predict
// them, and the line says what it gives without each knob.
#include <cmath>

#include "ccom/simulator/chip_costs.h"
#include "tests/bench/ccom/bench.h"
#include "tests/bench/ccom/trn1.h"

namespace neuron::bench {
namespace {

constexpr uint32_t kNodes = 16;
constexpr uint32_t kChipsOfNode = 16;

struct Training {
  const char* name;
  double batch;            // samples of a step on one node
  double rate_1, rate_16;  // published, samples per second
  double published;        // percent, as published
  double gradient_bytes;   // of a node
  const char* gradients;
  uint32_t reductions;  // of a step: FITTED
  double exposed;       // part of each: FITTED
};

constexpr Training kRows[] = {
    {"BERT-Large phase 1", 16384, 2846, 42484, 93, 0.67e9, "bf16", 32, 0.39},
    {"BERT-Large phase 2", 32768, 479, 7187, 94, 0.67e9, "bf16", 512, 0.25},
    {"GPT-3 6.7B", 64, 7.31, 110, 94, 26.8e9, "fp32", 1, 0.44},
};

bool scaling() {
  const ccom::Group group = trn1_chips(kNodes * kChipsOfNode);
  double worst = 0;
  for (const Training& row : kRows) {
    Reduction wanted;
    wanted.bytes = static_cast<uint64_t>(row.gradient_bytes);
    wanted.window = 4;
    // Messages queue for links, HBM and DMA; steps cost what they do on the chips.
    ccom::SimulationOptions options;
    options.memory = true;
    options.costs = ccom::chip_costs(2);
    const auto reduction = best_pipeline(group, wanted, options);
    if (!reduction) return false;
    const double one = row.batch / row.rate_1, seconds = reduction->us * 1e-6;
    const auto efficiency = [&](double reductions, double exposed) {
      return 100 * one / (one + reductions * exposed * seconds);
    };
    const double measured = 100 * row.rate_16 / (kNodes * row.rate_1);
    const double model = efficiency(row.reductions, row.exposed);
    worst = std::max(worst, std::abs(model - row.published));
    std::printf(
        "{\"name\":\"scaling\", \"row\":\"%s\", \"published_percent\":%.0f, "
        "\"from_rates_percent\":%.1f, \"model_percent\":%.1f, \"FITTED\":{\"reductions_per_step\":"
        "%u, \"exposed\":%.2f}, \"without_exposed_percent\":%.1f, \"once_per_step_percent\":%.1f, "
        "\"step_of_one_node_s\":%.3f, \"gradients\":\"%.2f GB of %s\", \"all_reduce_ms\":%.2f, "
        "\"segments\":%u}\n",
        row.name, row.published, measured, model, row.reductions, row.exposed,
        efficiency(row.reductions, 1), efficiency(1, 1), one, row.gradient_bytes * 1e-9,
        row.gradients, reduction->us * 1e-3, reduction->segments);
  }
  std::printf(
      "{\"name\":\"scaling, largest difference in points\", \"found\":%.2f, \"bound\":\"at most\", "
      "\"goal\":1.00, \"met\":%s}\n",
      worst, judged(worst <= 1));
  std::fflush(stdout);
  return true;
}

const Bench kScaling("scaling", scaling);

}  // namespace
}  // namespace neuron::bench
