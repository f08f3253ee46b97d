// SPDX-License-Identifier: Apache-2.0
// Compiles the models, executes them on the emulated chip, compares every value with the reference
// interpreter and prints one JSON object a line: model time, what bounds it, how it was predicted,
// bytes, sizes. Then rows of wall time beside onnxruntime's, if that has been fetched.
//   compiler-times [-O0] [--trn2] [--small] [--quick] [--no-check] [NAME...]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>

#include "tests/bench/compiler/models.h"
#include "tests/bench/compiler/onnxruntime.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/compiler/onnx/importer.h"
#include "tools/execution/session.h"
#include "tools/neuron-compile/check/comparison.h"
#include "tools/neuron-compile/check/device_run.h"

namespace neuron::bench {
namespace {

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

graph::SharedTensor numbers(const graph::Node& node) {
  std::mt19937 random(7);
  graph::Tensor tensor = graph::Tensor::zeros(node.type, node.shape);
  for (size_t i = 0; i < static_cast<size_t>(tensor.elements()); ++i) {
    tensor.set(i, graph::is_real(node.type) ? random() / 2147483648.0 - 1 : random() % 2);
  }
  return std::make_shared<const graph::Tensor>(std::move(tensor));
}

// Goal of all models whose values fit SBUF: bytes in terms of the least.
constexpr double kMostBytes = 1.3;
// Of the executed model time, by which the predicted one may be off.
constexpr double kMostOff = 0.1;

struct Way {
  lowering::Options lowering;
  bool checks = true;
  bool quick = false;  // large models are not compared
};

// Bytes of constants, inputs and outputs: each must move once.
double least_bytes(const graph::Graph& graph) {
  const std::vector<bool> needed = graph::needed(graph);
  double bytes = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    const bool loaded = node.kind == graph::Kind::kInput || node.kind == graph::Kind::kConstant;
    // Single numbers are part of instructions.
    const auto elements = static_cast<double>(graph::elements_of(node.shape));
    if (needed[i] && loaded && elements > 1) bytes += 4 * elements;
  }
  for (const graph::Output& output : graph.outputs) {
    const graph::Node& node = graph.nodes[static_cast<size_t>(output.value)];
    bytes += 4 * static_cast<double>(graph::elements_of(node.shape));
  }
  return bytes;
}

int fail(const Model& model, const std::string& sentence) {
  std::fprintf(stderr, "compiler-times: %s: %s\n", model.name.c_str(), sentence.c_str());
  return 1;
}

int measure(const Model& model, const Way& way) {
  const auto bytes = model.write().bytes();
  const double begin = now();
  auto imported = onnx::import_model(bytes, model.name, ".", {});
  if (!imported) return fail(model, imported.error().sentence);
  if (!imported->refusals.empty()) return fail(model, imported->refusals[0].sentence);
  const graph::Graph& graph = imported->graph;
  auto lowered = lowering::lower(graph, way.lowering);
  if (!lowered) return fail(model, lowered.error().sentence);
  if (!lowered->refusals.empty()) return fail(model, lowered->refusals[0].sentence);
  const double compiled = now() - begin;
  std::vector<graph::SharedTensor> inputs;
  for (const graph::Value input : graph.inputs) {
    inputs.push_back(numbers(graph.nodes[static_cast<size_t>(input)]));
  }
  const double start = now();
  auto run = compile::run_on_device(lowered->neff, graph, inputs, true);
  if (!run) return fail(model, run.error().sentence);
  const double executed = now() - start;
  std::string wrong;
  const bool checks = way.checks && !(way.quick && model.large);
  if (checks) {
    const auto expected = graph::evaluate(graph, inputs);
    for (size_t i = 0; i < expected.size() && wrong.empty(); ++i) {
      wrong = compile::difference(*run->outputs[i], *expected[i], compile::kModelBound);
    }
  }
  const double pe = run->busy_us[0], act = run->busy_us[1], dve = run->busy_us[3];
  const double bound = std::max({pe, lowered->moved.dma_us, act, dve});
  const double moved = static_cast<double>(lowered->moved.bytes) / least_bytes(graph);
  const double predicted = lowered->predicted ? lowered->predicted->microseconds : 0;
  const bool met = bound / run->device_us >= model.least_share && moved <= kMostBytes &&
                   std::abs(predicted / run->device_us - 1) <= kMostOff;
  std::printf(
      "{\"bench\":\"compiler\",\"model\":\"%s\",\"model_us\":%.2f,\"predicted_ratio\":%.3f,"
      "\"goal_predicted\":\"within 10 %%\",\"bound_us\":%.2f,"
      "\"bound_share\":%.3f,\"pe_us\":%.2f,\"activation_us\":%.2f,\"dve_us\":%.2f,"
      "\"pool_us\":%.2f,\"dma_us\":%.2f,\"dma_bytes_ratio\":%.2f,\"transfers\":%zu,"
      "\"compile_s\":%.2f,\"execute_s\":%.2f,\"neff_bytes\":%zu,\"tasks\":%zu,\"values\":\"%s\","
      "\"goal_share\":%.2f,\"goal_bytes\":%.1f,\"met\":%s}\n",
      model.name.c_str(), run->device_us, predicted / run->device_us, bound, bound / run->device_us,
      pe, act, dve, run->busy_us[2], lowered->moved.dma_us, moved, lowered->moved.transfers,
      compiled, executed, lowered->neff.size(), lowered->tasks,
      !checks         ? "not compared"
      : wrong.empty() ? "as the reference"
                      : "differ",
      model.least_share, kMostBytes, met ? "true" : "false");
  std::fflush(stdout);
  return wrong.empty() ? 0 : fail(model, wrong);
}

}  // namespace
}  // namespace neuron::bench

int main(int argc, char** argv) {
  using namespace neuron;  // NOLINT: this file is the program
  bench::Way way;
  bool small = false;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "-O0") {
      way.lowering.level = 0;
    } else if (word == "--trn2") {
      way.lowering.generation = 3;
    } else if (word == "--small") {
      small = true;
    } else if (word == "--quick") {
      way.quick = true;
    } else if (word == "--no-check") {
      way.checks = false;
    } else {
      names.push_back(word);
    }
  }
  auto session = execution::Session::open(1);
  if (!session) {
    std::fprintf(stderr, "compiler-times: %s\n", session.error().sentence.c_str());
    return 1;
  }
  int status = 0;
  for (const bench::Model& model : bench::models()) {
    bool wanted = names.empty() && !(small && model.large);
    for (const std::string& name : names) wanted = wanted || name == model.name;
    if (wanted) status |= bench::measure(model, way);
  }
  if (small) return status;
  const bench::Compared compared = bench::against_onnxruntime(names, way.lowering);
  if (compared.skipped > 0) {
    std::fprintf(stderr, "compiler-times: %d rows skipped\n", compared.skipped);
  }
  if (compared.failed > 0) status = 1;
  return status;
}
