// SPDX-License-Identifier: Apache-2.0
#include "tests/system/onnx/node_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "driver/base/small_float.h"
#include "runtime/base/file.h"
#include "tools/compiler/graph/interpreter.h"
#include "tools/compiler/onnx/importer.h"
#include "tools/compiler/onnx/model.pb.h"
#include "tools/compiler/onnx/tensor_reader.h"
#include "tools/neuron-compile/check/comparison.h"
#include "tools/neuron-compile/check/device_run.h"

namespace neuron::onnx_cases {
namespace {

namespace file = onnx::file;
namespace files = std::filesystem;
using graph::SharedTensor;
using graph::Tensor;
using graph::Type;
using runtime::fail;
using runtime::Result;

constexpr const char* kPackage = "/usr/share/libonnx-testdata/data";

// What a data file holds: one tensor, a list of them, or nothing.
struct Data {
  bool sequence = false, absent = false;
  std::vector<Tensor> tensors;
};

// Older data sets have the bits of bf16 in u16.
Tensor of_model_type(Tensor tensor, Type type) {
  if (type != Type::kBf16 || tensor.type != Type::kU16) return tensor;
  Tensor real = Tensor::zeros(type, tensor.shape);
  for (size_t i = 0; i < real.reals.size(); ++i) {
    real.reals[i] = base::widen(base::kBf16, static_cast<uint32_t>(tensor.integers[i]));
  }
  return real;
}

Result<Tensor> read_one(const file::TensorData& data, const file::TypeData::Tensor& type) {
  NEURON_TRY(tensor, onnx::read_tensor(data, ""));
  const auto wanted = onnx::type_of(type.elem_type());
  return wanted ? of_model_type(std::move(tensor), *wanted) : std::move(tensor);
}

Result<Data> read_list(const file::SequenceData& list, const file::TypeData& type) {
  Data data;
  data.sequence = true;
  for (const file::TensorData& one : list.tensor_values()) {
    NEURON_TRY(tensor, read_one(one, type.sequence_type().elem_type().tensor_type()));
    data.tensors.push_back(std::move(tensor));
  }
  return data;
}

Result<Data> read_data(const std::string& path, const file::TypeData& type) {
  NEURON_TRY(bytes, tools::read_file(path));
  const auto parse = [&](auto& message) {
    return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  };
  Data data;
  if (type.has_sequence_type()) {
    file::SequenceData list;
    if (!parse(list)) return fail(NRT_INVALID, "{} is no sequence", path);
    return read_list(list, type);
  }
  if (type.has_optional_type()) {
    file::OptionalData optional;
    if (!parse(optional)) return fail(NRT_INVALID, "{} is no optional value", path);
    if (optional.has_sequence_value()) {
      return read_list(optional.sequence_value(), type.optional_type().elem_type());
    }
    data.absent = !optional.has_tensor_value();
    if (data.absent) return data;
    NEURON_TRY(tensor,
               read_one(optional.tensor_value(), type.optional_type().elem_type().tensor_type()));
    data.tensors.push_back(std::move(tensor));
    return data;
  }
  file::TensorData message;
  if (!parse(message)) return fail(NRT_INVALID, "{} is no tensor", path);
  NEURON_TRY(tensor, read_one(message, type.tensor_type()));
  data.tensors.push_back(std::move(tensor));
  return data;
}

std::vector<Result<Data>> read_all(const files::path& folder, const std::string& kind,
                                   const std::vector<const file::ValueData*>& values) {
  std::vector<Result<Data>> list;
  for (size_t i = 0;; ++i) {
    const files::path path = folder / (kind + "_" + std::to_string(i) + ".pb");
    if (!files::exists(path) || i >= values.size()) return list;
    list.push_back(read_data(path.string(), values[i]->type()));
  }
}

// The inputs of the model that are no initializers, in order.
std::vector<const file::ValueData*> inputs_of(const file::ModelData& model) {
  std::vector<const file::ValueData*> list;
  for (const file::ValueData& input : model.graph().input()) {
    const auto& constants = model.graph().initializer();
    const bool constant =
        std::any_of(constants.begin(), constants.end(),
                    [&](const file::TensorData& c) { return c.name() == input.name(); });
    if (!constant) list.push_back(&input);
  }
  return list;
}

void bind(onnx::Bindings& bindings, const std::string& name, const Data& data) {
  if (data.absent) {
    bindings.absent.push_back(name);
  } else if (data.sequence) {
    bindings.sequences[name] = data.tensors;
  } else {
    bindings.constants[name] = data.tensors[0];
  }
}

Outcome refused(const graph::Refusal& refusal) {
  return {std::string("refused-") + graph::class_name(refusal.kind), refusal.text()};
}

// Of a data file: text has no form, anything else that cannot be read is a fault of the reader.
Outcome unread(const std::string& sentence) {
  const bool text = sentence.find(onnx::data_type_text(8)) != std::string::npos;
  return {text ? "refused-strings" : "fail", sentence};
}

// The model with the inputs bound that its structure needs; `verdict` is empty if there is one.
Outcome compile_for(const std::vector<uint8_t>& bytes, const std::vector<std::string>& names,
                    const std::vector<Data>& inputs, graph::Graph& graph) {
  onnx::Bindings bindings;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].absent || inputs[i].sequence) {
      bind(bindings, names[i], inputs[i]);
    } else if (inputs[i].tensors[0].elements() != 0) {
      bindings.shapes[names[i]] = inputs[i].tensors[0].shape;
    } else {
      bind(bindings, names[i], inputs[i]);
    }
  }
  for (size_t round = 0; round <= inputs.size(); ++round) {
    auto imported = onnx::import_model(bytes, "case", "", bindings);
    if (!imported) return {"fail", imported.error().sentence};
    bool bound = false;
    for (const graph::Refusal& refusal : imported->refusals) {
      if (refusal.kind != graph::RefusalClass::kBinding) continue;
      for (const std::string& name : refusal.inputs) {
        const auto found = std::find(names.begin(), names.end(), name);
        const auto number = static_cast<size_t>(found - names.begin());
        if (number >= inputs.size() || bindings.constants.count(name) != 0) continue;
        bind(bindings, name, inputs[number]);
        bound = true;
      }
    }
    if (bound) continue;
    if (!imported->refusals.empty()) return refused(imported->refusals[0]);
    graph = std::move(imported->graph);
    return {};
  }
  return {"fail", "inputs are asked for again and again"};
}

Outcome run_set(const std::vector<uint8_t>& bytes, const file::ModelData& model,
                const files::path& folder, const Way& way) {
  std::vector<std::string> names;
  const auto model_inputs = inputs_of(model);
  for (const file::ValueData* input : model_inputs) names.push_back(input->name());
  std::vector<const file::ValueData*> model_outputs;
  for (const file::ValueData& output : model.graph().output()) model_outputs.push_back(&output);
  std::vector<Data> inputs;
  std::vector<Tensor> expected;
  for (auto& input : read_all(folder, "input", model_inputs)) {
    if (!input) return unread(input.error().sentence);
    inputs.push_back(std::move(*input));
  }
  for (auto& output : read_all(folder, "output", model_outputs)) {
    if (!output) return unread(output.error().sentence);
    for (Tensor& tensor : output->tensors) expected.push_back(std::move(tensor));
  }
  graph::Graph graph;
  const Outcome compiled = compile_for(bytes, names, inputs, graph);
  if (!compiled.verdict.empty()) return compiled;
  if (graph.outputs.size() != expected.size()) {
    return {"fail", base::format("{} outputs, expected {}", graph.outputs.size(), expected.size())};
  }
  std::vector<SharedTensor> values;
  for (const graph::Value input : graph.inputs) {
    const std::string& name = graph.nodes[static_cast<size_t>(input)].name;
    const auto number =
        static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (number >= inputs.size()) return {"fail", "no data for input " + name};
    values.push_back(std::make_shared<const Tensor>(inputs[number].tensors[0]));
  }
  std::vector<SharedTensor> outputs;
  if (way.device) {
    auto lowered = lowering::lower(graph, way.lowering);
    if (!lowered) return {"fail", lowered.error().sentence};
    if (!lowered->refusals.empty()) return refused(lowered->refusals[0]);
    auto run = compile::run_on_device(lowered->neff, graph, values);
    if (!run) return {"fail", run.error().sentence};
    outputs = std::move(run->outputs);
  } else {
    outputs = graph::evaluate(graph, values);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    // Programs have no f64: what a device gives is f32.
    if (way.device && expected[i].type == Type::kF64) {
      for (double& value : expected[i].reals) value = graph::rounded(Type::kF32, value);
    }
    const std::string wrong = compile::difference(*outputs[i], expected[i], compile::kExactBound);
    if (!wrong.empty()) return {"differs", "output " + std::to_string(i) + ": " + wrong};
  }
  return {"pass", ""};
}

}  // namespace

Outcome run_case(const std::string& folder, const Way& way) {
  auto bytes = tools::read_file(folder + "/model.onnx");
  if (!bytes) return {"fail", bytes.error().sentence};
  file::ModelData model;
  if (!model.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
    return {"fail", "model.onnx is no model"};
  }
  Outcome outcome{"fail", "it has no data"};
  for (int set = 0;; ++set) {
    const files::path path = files::path(folder) / ("test_data_set_" + std::to_string(set));
    if (!files::exists(path)) return outcome;
    outcome = run_set(*bytes, model, path, way);
    if (outcome.verdict != "pass") return outcome;
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> list;
  std::error_code error;
  for (const auto& group : files::directory_iterator(kPackage, error)) {
    if (!group.is_directory()) continue;
    for (const auto& entry : files::directory_iterator(group.path())) {
      if (!files::exists(entry.path() / "model.onnx")) continue;
      list.push_back({group.path().filename().string() + "/" + entry.path().filename().string(),
                      entry.path().string()});
    }
  }
  std::sort(list.begin(), list.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return list;
}

std::vector<std::pair<std::string, std::string>> read_table(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, verdict;
    words >> name >> verdict;
    rows.emplace_back(name, verdict);
  }
  return rows;
}

}  // namespace neuron::onnx_cases
