// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-compile/check/device_run.h"

#include <future>
#include <optional>

#include "tools/execution/session.h"

namespace neuron::compile {
namespace {

using execution::Port;
using graph::Tensor;
using graph::Type;
using runtime::fail;
using runtime::Result;

// The type that a tensor of the program has: there is no f64.
Type border_type(Type type) { return type == Type::kF64 ? Type::kF32 : type; }

std::vector<uint8_t> border_bytes(const Tensor& tensor) {
  if (tensor.type != Type::kF64) return tensor.bytes();
  return Tensor::of_reals(Type::kF32, tensor.shape, tensor.reals).bytes();
}

const Port* find(const execution::Model& model, const std::string& name, bool input) {
  for (const Port& port : model.ports()) {
    if (port.input == input && port.name == name) return &port;
  }
  return nullptr;
}

Result<DeviceRun> run(const std::vector<uint8_t>& neff, const graph::Graph& graph,
                      const std::vector<graph::SharedTensor>& inputs, bool timed, uint32_t core,
                      uint32_t ranks) {
  NEURON_TRY(model, execution::Model::load(neff, core, ranks));
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = graph.nodes[static_cast<size_t>(graph.inputs[i])].name;
    const Port* port = find(*model, name, true);
    if (port == nullptr) return fail(NRT_INVALID, "the program has no input \"{}\"", name);
    const std::vector<uint8_t> bytes = border_bytes(*inputs[i]);
    if (bytes.size() != port->bytes) {
      return fail(NRT_INVALID, "input \"{}\" has {} bytes, the program's has {}", name,
                  bytes.size(), port->bytes);
    }
    NEURON_CHECK(port->write(bytes));
  }
  DeviceRun run;
  NEURON_TRY(report, model->execute());
  if (timed) {
    NEURON_TRY(second, model->execute());
    report = second;
  }
  run.device_us = static_cast<double>(report.device_ps) * 1e-6;
  for (size_t i = 0; i < run.busy_us.size(); ++i) {
    run.busy_us[i] = static_cast<double>(report.engines[i].busy_ps) * 1e-6;
  }
  for (const graph::Output& output : graph.outputs) {
    const graph::Node& node = graph.nodes[static_cast<size_t>(output.value)];
    const Port* port = find(*model, output.name, false);
    if (port == nullptr) return fail(NRT_INVALID, "the program has no output \"{}\"", output.name);
    NEURON_TRY(bytes, port->read());
    Tensor tensor = Tensor::from_bytes(border_type(node.type), node.shape, bytes.data());
    tensor.type = node.type;
    run.outputs.push_back(std::make_shared<const Tensor>(std::move(tensor)));
  }
  return run;
}

}  // namespace

Result<DeviceRun> run_on_device(const std::vector<uint8_t>& neff, const graph::Graph& graph,
                                const std::vector<graph::SharedTensor>& inputs, bool timed) {
  return run(neff, graph, inputs, timed, 0, 0);
}

Result<std::vector<DeviceRun>> run_ranks_on_device(
    const std::vector<uint8_t>& neff, const graph::Graph& graph,
    const std::vector<std::vector<graph::SharedTensor>>& inputs) {
  const auto ranks = static_cast<uint32_t>(inputs.size());
  std::vector<std::future<Result<DeviceRun>>> working;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    working.push_back(std::async(std::launch::async, [&, rank] {
      return run(neff, graph, inputs[rank], false, rank, ranks);
    }));
  }
  std::vector<DeviceRun> runs;
  std::optional<runtime::Error> wrong;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto done = working[rank].get();
    if (done) {
      runs.push_back(std::move(*done));
    } else if (!wrong) {
      wrong = done.error().with("rank {}", rank);
    }
  }
  if (wrong) return *wrong;
  return runs;
}

}  // namespace neuron::compile
