// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/memory.h"

#include <algorithm>
#include <numeric>

#include "driver/base/format.h"
#include "hw/address_map.h"

namespace neuron::lowering {
namespace {

// Layers that are named; the others hold less than each of these.
constexpr size_t kNamed = 5;

// The size of the first dimension that all inputs have; 0: there is none.
int64_t common_batch(const graph::Graph& graph) {
  int64_t batch = 0;
  for (const graph::Value input : graph.inputs) {
    const auto& shape = graph.nodes[static_cast<size_t>(input)].shape;
    if (shape.empty() || (batch != 0 && shape[0] != batch)) return 0;
    batch = shape[0];
  }
  return batch;
}

}  // namespace

uint64_t Memory::weights() const {
  return std::accumulate(layers.begin(), layers.end(), uint64_t{0},
                         [](uint64_t sum, const auto& layer) { return sum + layer.weights; });
}

uint64_t Memory::values() const {
  return std::accumulate(layers.begin(), layers.end(), uint64_t{0},
                         [](uint64_t sum, const auto& layer) { return sum + layer.values; });
}

LayerMemory& Memory::layer_of(const std::string& name) {
  const auto [place, is_new] = numbers.try_emplace(name, layers.size());
  if (is_new) layers.push_back({name});
  return layers[place->second];
}

void Memory::add_weights(const std::string& layer, uint64_t bytes) {
  layer_of(layer).weights += bytes;
}

void Memory::add_values(const std::string& layer, uint64_t bytes) {
  layer_of(layer).values += bytes;
}

std::string Memory::text() const {
  return base::format("{} weights, {} inputs and outputs, {} values between layers",
                      bytes_text(weights()), bytes_text(tensors), bytes_text(values()));
}

std::string bytes_text(uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return base::format("{:.1f} GB", number / 1e9);
  if (bytes >= 1'000'000) return base::format("{:.1f} MB", number / 1e6);
  if (bytes >= 10'000) return base::format("{:.1f} kB", number / 1e3);
  return base::format("{} bytes", bytes);
}

uint64_t hbm_of(uint8_t generation) {
  const uint64_t stack = generation == 2   ? NEURON_V2_HBM_SIZE
                         : generation == 3 ? NEURON_V3_HBM_SIZE
                                           : NEURON_V4_HBM_SIZE;
  return stack - NEURON_V2_HBM_CARVE_OUT;
}

std::string excess(const Memory& memory, uint64_t hbm, const graph::Graph& graph) {
  if (memory.total() <= hbm) return "";
  std::string text = base::format("the model needs {} of HBM ({}), and a core has {}",
                                  bytes_text(memory.total()), memory.text(), bytes_text(hbm));
  std::vector<LayerMemory> largest = memory.layers;
  std::stable_sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) {
    return a.weights + a.values > b.weights + b.values;
  });
  largest.resize(std::min(largest.size(), kNamed));
  for (size_t i = 0; i < largest.size(); ++i) {
    text += base::format("{}\"{}\" {} weights and {} values", i == 0 ? "; most of it: " : ", ",
                         base::escaped(largest[i].layer), bytes_text(largest[i].weights),
                         bytes_text(largest[i].values));
  }
  if (memory.weights() >= hbm) {
    return text + "; the weights alone are too much, so the model has to be split over cores";
  }
  const int64_t batch = common_batch(graph);
  const uint64_t each =
      batch > 1 ? (memory.total() - memory.weights()) / static_cast<uint64_t>(batch) : 0;
  const uint64_t fits = each != 0 ? (hbm - memory.weights()) / each : 0;
  if (fits == 0) {
    return text + "; smaller inputs need less, or the model has to be split over cores";
  }
  return text + base::format(
                    "; with a first dimension of {} instead of {} it would fit, if all but the "
                    "weights grows with it (--batch, or --shape)",
                    fits, batch);
}

}  // namespace neuron::lowering
