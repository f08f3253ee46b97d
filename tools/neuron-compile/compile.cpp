// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-compile/compile.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>

#include "driver/base/format.h"
#include "runtime/base/file.h"
#include "runtime/neff/header.h"
#include "tools/common/exit_status.h"
#include "tools/common/progress_bar.h"
#include "tools/compiler/hlo/importer.h"
#include "tools/execution/session.h"
#include "tools/neuron-compile/check/comparison.h"
#include "tools/neuron-compile/check/device_run.h"
#include "tools/neuron-compile/refusal_report.h"

namespace neuron::compile {
namespace {

using graph::SharedTensor;
using graph::Tensor;
using runtime::Result;

int say(const std::string& sentence, int status) {
  std::fprintf(stderr, "neuron-compile: %s\n", sentence.c_str());
  return status;
}

// Inputs that depend on their number alone.
SharedTensor made_up(const graph::Node& node, unsigned number) {
  std::mt19937 random(number);
  Tensor tensor = Tensor::zeros(node.type, node.shape);
  for (size_t i = 0; i < static_cast<size_t>(tensor.elements()); ++i) {
    const uint32_t bits = random();
    // Whole numbers are often indices, so they are small.
    tensor.set(i, graph::is_real(node.type) ? bits / 2147483648.0 - 1 : bits % 2);
  }
  return std::make_shared<const Tensor>(std::move(tensor));
}

Bound bound_of(const Options& options) {
  return options.lowering.products == lowering::ProductType::kF32 ? kModelBound : kNarrowBound;
}

// As many ranks as the collectives name, each with inputs of its own.
int check_ranks(const graph::Graph& graph, const lowering::Lowered& lowered, const Options& options,
                uint32_t ranks) {
  std::vector<std::vector<SharedTensor>> inputs(ranks);
  unsigned number = 0;
  for (auto& of_rank : inputs) {
    for (const graph::Value input : graph.inputs) {
      of_rank.push_back(made_up(graph.nodes[static_cast<size_t>(input)], number++));
    }
  }
  auto session = execution::Session::open(ranks);
  if (!session) return say("--check: " + session.error().sentence, tools::kFailed);
  auto runs = run_ranks_on_device(lowered.neff, graph, inputs);
  if (!runs) return say("--check: " + runs.error().sentence, tools::kFailed);
  const auto expected = graph::evaluate_ranks(graph, inputs);
  int status = tools::kDone;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < expected[rank].size(); ++i) {
      const std::string wrong =
          difference(*(*runs)[rank].outputs[i], *expected[rank][i], bound_of(options));
      if (wrong.empty()) continue;
      status = say(base::format("--check: rank {}, output \"{}\": {}", rank,
                                base::escaped(graph.outputs[i].name), wrong),
                   kDifferent);
    }
  }
  if (status == tools::kDone) {
    std::printf("check   %zu outputs of %u ranks are as the reference computes them, on %s\n",
                graph.outputs.size(), ranks, (*session)->instance_type().c_str());
  }
  return status;
}

int check(const graph::Graph& graph, const lowering::Lowered& lowered, const Options& options) {
  if (const std::string node = graph::not_computed(graph); !node.empty()) {
    return say(base::format("--check: node \"{}\" is an NKI kernel, which the reference does not "
                            "compute; check the kernel alone, and the model without it",
                            base::escaped(node)),
               tools::kFailed);
  }
  if (const uint32_t ranks = graph::ranks_of(graph); ranks > 0) {
    return check_ranks(graph, lowered, options, ranks);
  }
  std::vector<SharedTensor> inputs;
  for (const graph::Value input : graph.inputs) {
    inputs.push_back(
        made_up(graph.nodes[static_cast<size_t>(input)], static_cast<unsigned>(inputs.size())));
  }
  auto session = execution::Session::open(1);
  if (!session) return say("--check: " + session.error().sentence, tools::kFailed);
  auto run = run_on_device(lowered.neff, graph, inputs, true);
  if (!run) return say("--check: " + run.error().sentence, tools::kFailed);
  const std::vector<SharedTensor> expected = graph::evaluate(graph, inputs);
  int status = tools::kDone;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string wrong = difference(*run->outputs[i], *expected[i], bound_of(options));
    if (wrong.empty()) continue;
    status =
        say(base::format("--check: output \"{}\": {}", base::escaped(graph.outputs[i].name), wrong),
            kDifferent);
  }
  if (status == tools::kDone) {
    std::printf("check   %s as the reference computes %s; %.2f us on %s",
                expected.size() == 1 ? "the output is"
                                     : (std::to_string(expected.size()) + " outputs are").c_str(),
                expected.size() == 1 ? "it" : "them", run->device_us,
                (*session)->instance_type().c_str());
    if (lowered.predicted) std::printf(", %.2f us predicted", lowered.predicted->microseconds);
    std::printf("\n");
  }
  return status;
}

// The value of an input in the type that the model gives it.
Result<void> bind_constants(const Options& options, onnx::Bindings& bindings) {
  for (const auto& [name, text] : options.constants) {
    auto tensor = read_constant(text);
    if (!tensor) return tensor.error().with("--constant {}", name);
    bindings.constants[name] = std::move(*tensor);
  }
  return {};
}

// The time that the chip's prices say, and what share of it each engine has work.
void print_prediction(const builder::Prediction& predicted) {
  constexpr const char* kNames[] = {"PE", "Activation", "Pool", "DVE", "SP", "DMA"};
  std::printf("time    %.2f us predicted; busy", predicted.microseconds);
  for (size_t i = 0; i < predicted.busy.size(); ++i) {
    if (i == NEURON_ENGINE_SP) continue;  // starts transfers, and has no time of its own
    std::printf("%s %s %.0f %%", i == 0 ? "" : ",", kNames[i],
                100 * predicted.busy[i] / std::max(predicted.microseconds, 1e-6));
  }
  std::printf("\n");
}

bool is_module(const Options& options, const std::filesystem::path& path) {
  if (options.framework == Framework::kByName) return path.extension() != ".onnx";
  return options.framework == Framework::kXla;
}

// Why the file is no HLO module, and what it is or may be.
std::string no_module(const Options& options, const std::vector<uint8_t>& bytes,
                      const runtime::Error& error) {
  if (neff::parse_header(bytes)) {
    return "the file is a NEFF, which is compiled already; neuron-run executes it, and "
           "neuron-packager info shows what it is";
  }
  if (options.framework != Framework::kByName) return error.sentence;
  return error.sentence +
         "; an ONNX model has a name that ends with .onnx, or --framework ONNX says what it is";
}

// From the graph on, whatever it came from.
int finish(const Options& options, graph::Graph& graph, const std::vector<graph::Refusal>& refusals,
           std::chrono::steady_clock::time_point begin) {
  if (!refusals.empty()) {
    return report(options.model, refusals, options.json, options.neuronx_cc);
  }
  if (auto donated = donate(options.donated, graph); !donated) {
    return say(donated.error().sentence, tools::kWrongUsage);
  }
  auto lowered = [&] {
    tools::ProgressBar bar("compiling " + options.model, "nodes");
    lowering::Options wishes = options.lowering;
    wishes.progress = [&bar](size_t done, size_t total) { bar.show(done, total); };
    return lowering::lower(graph, wishes);
  }();
  if (!lowered) return say(options.model + ": " + lowered.error().sentence, tools::kFailed);
  if (!lowered->refusals.empty()) {
    return report(options.model, lowered->refusals, options.json, options.neuronx_cc);
  }
  if (auto written = tools::write_file(options.output, lowered->neff); !written) {
    return say(written.error().sentence, tools::kFailed);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%s: %s, %zu tasks, %zu bytes, compiled in %.2f s\n", options.output.c_str(),
              options.target.c_str(), lowered->tasks, lowered->neff.size(), took.count());
  std::printf("HBM     %s\n", lowered->memory.text().c_str());
  if (lowered->predicted) print_prediction(*lowered->predicted);
  for (const std::string& note : lowered->notes) std::printf("note    %s\n", note.c_str());
  return options.check ? check(graph, *lowered, options) : tools::kDone;
}

}  // namespace

int compile(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  if (options.lowering.physical_cores > 1 && options.lowering.generation < 3) {
    return say(
        base::format(
            "{}--lnc 2: a core of {} is one physical core; only those of trn2 and trn3 are two",
            options.neuronx_cc ? "[NCC_EARG001] " : "", options.target),
        tools::kWrongUsage);
  }
  auto bytes = tools::read_file(options.model);
  if (!bytes) return say(bytes.error().sentence, tools::kFailed);
  onnx::Bindings bindings = options.bindings;
  if (auto bound = bind_constants(options, bindings); !bound) {
    return say(bound.error().sentence, tools::kWrongUsage);
  }
  const std::filesystem::path path(options.model);
  if (is_module(options, path)) {
    auto module = hlo::import_module(*bytes, path.stem().string());
    const bool bound = !bindings.shapes.empty() || !bindings.dimensions.empty() ||
                       !bindings.constants.empty() || !bindings.end_at.empty() ||
                       bindings.batch != 0;
    // What is no module at all is told before what its options are for.
    if (bound && module) {
      return say(
          "--shape, --dim, --batch, --constant and --end-at are for ONNX models; an HLO "
          "module has its shapes already",
          tools::kWrongUsage);
    }
    if (!module) {
      return say(options.model + ": " + no_module(options, *bytes, module.error()), kNotAModel);
    }
    return finish(options, module->graph, module->refusals, begin);
  }
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  auto imported = onnx::import_model(*bytes, path.stem().string(), folder, bindings);
  if (!imported) return say(options.model + ": " + imported.error().sentence, kNotAModel);
  for (const std::string& sentence : imported->unknown) say(sentence, tools::kWrongUsage);
  if (!imported->unknown.empty()) return tools::kWrongUsage;
  return finish(options, imported->graph, imported->refusals, begin);
}

}  // namespace neuron::compile
