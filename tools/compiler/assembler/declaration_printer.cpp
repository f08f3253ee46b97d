// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "driver/base/format.h"
#include "driver/isa/instruction.h"
#include "runtime/neff/collective_json.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/program_printer.h"

namespace neuron::assembler {

using base::format;

namespace {

std::string shape_text(uint8_t dtype, const std::vector<uint32_t>& shape) {
  std::string sizes;
  for (uint32_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return format("{} [{}]", isa::dtype_name(dtype), sizes);
}

std::string tensor_keys(const neff::TensorInfo& info) {
  std::string text;
  if (!info.format.empty()) text += ", format=" + spelled(info.format);
  if (info.timeseries) text += ", timeseries";
  return text;
}

// The tensor that is declared with this variable.
const neff::TensorInfo* tensor_of(const std::vector<neff::TensorInfo>& list, uint32_t subgraph,
                                  uint32_t variable) {
  for (const neff::TensorInfo& info : list) {
    if (info.subgraph == subgraph && info.variable == variable) return &info;
  }
  return nullptr;
}

std::string variable_text(const neff::Subgraph& subgraph, uint32_t index,
                          const neff::TensorInfo* tensor, const SubgraphFiles& files) {
  const neff::Variable& variable = subgraph.variables[index];
  std::string text = format(".var {} : ", spelled(variable.name));
  if (tensor != nullptr) text += shape_text(tensor->dtype, tensor->shape) + " ";
  text += kVariableKinds[static_cast<int>(variable.kind)];
  if (variable.id != index) text += format(", id={}", variable.id);
  const bool pointer = variable.kind == neff::VariableKind::kPointer;
  if (tensor == nullptr && !pointer) text += format(", size={}", variable.size);
  if (variable.alignment) text += format(", align={}", variable.alignment);
  if (variable.alternate_fabric) text += ", fabric=alt";
  switch (variable.kind) {
    case neff::VariableKind::kFile:
      text += ", file=" + in_quotes(variable.file_name.substr(variable.file_name.find('/') + 1));
      if (const auto place = files.offsets.find(index); place != files.offsets.end()) {
        text += format(", offset={}", place->second);
      }
      if (variable.compressed) text += ", encoding=streams";
      break;
    case neff::VariableKind::kTmpBuf:
      if (variable.shared) text += ", shared=yes";
      break;
    case neff::VariableKind::kVirtual:
      if (variable.backing_offset) text += format(", backing={}", variable.backing_offset);
      break;
    case neff::VariableKind::kPointer:
      text += ", to=" + spelled(subgraph.variables[variable.referenced].name);
      break;
    case neff::VariableKind::kStateBuffer:
      if (variable.core_offset) text += format(", offset={}", variable.core_offset);
      break;
    case neff::VariableKind::kDgeTable: {
      std::string names;
      for (uint32_t other : variable.list) {
        names += (names.empty() ? "" : ", ") + spelled(subgraph.variables[other].name);
      }
      text += ", list=[" + names + "]";
      break;
    }
    default:
      break;
  }
  if (tensor != nullptr) {
    if (tensor->name != variable.name) text += ", name=" + in_quotes(tensor->name);
    text += tensor_keys(*tensor);
  }
  return text + "\n";
}

// The end of a line: the number, and the name for people.
std::string semaphore_text(const neff::Subgraph& subgraph, uint8_t number) {
  for (const neff::Semaphore& s : subgraph.semaphores) {
    if (s.number == number) return format("{}  # {}", number, base::escaped(s.name));
  }
  return std::to_string(number);
}

std::string queue_text(const neff::Subgraph& subgraph, const neff::QueueSet& queue) {
  std::string text = format(".queue {} = {}, engines={}", spelled(queue.name),
                            kQueueKinds[static_cast<int>(queue.kind)], queue.num_queues);
  if (queue.owner) text += format(", owner={}", neff::engine_name(*queue.owner));
  if (queue.alternate_fabric) text += ", fabric=alt";
  std::string names;
  for (const std::string& name : queue.instances) {
    names += (names.empty() ? "" : ", ") + spelled(name);
  }
  if (!names.empty()) text += ", instances=[" + names + "]";
  std::string numbers;
  for (uint8_t number : queue.semaphore_set) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(number);
  }
  if (!numbers.empty()) text += ", semaphores=[" + numbers + "]";
  const neff::QueueSet usual;
  if (queue.kind == neff::QueueKind::kDynamic && queue.ring_descriptors != usual.ring_descriptors) {
    text += format(", ring={}", queue.ring_descriptors);
  }
  if (queue.semaphore) text += ", semaphore=" + semaphore_text(subgraph, *queue.semaphore);
  return text + "\n";
}

std::string list_text(const std::vector<uint64_t>& values) {
  std::string text;
  for (const uint64_t value : values) text += (text.empty() ? "" : ", ") + format("{}", value);
  return "[" + text + "]";
}

std::string collective_text(const neff::Subgraph& subgraph, const neff::Collective& c) {
  std::string text = format(".collective {}", neff::collective_name(c.operation));
  const auto side = [&](uint32_t variable, uint64_t offset, const neff::RowsOfSbuf& rows) {
    std::string place = spelled(subgraph.variables[variable].name);
    if (offset != 0) place += format(" + {}", offset);
    if (rows.present()) place += format(" [{}, {}]", rows.partitions, rows.row_bytes);
    return place;
  };
  if (c.operation != CCOM_BARRIER) {
    text += format(" {}", isa::dtype_name(dtype_of(neff::collective_type_name(c.type))));
    if (c.operation < CCOM_BARRIER) text += format(" [{}]", c.count);
    if (tools::reduces(c.operation)) {
      text += format(" {}", neff::collective_reduction_name(c.reduction));
    }
    text += format(" : {} -> {}", side(c.input, c.input_offset, c.input_rows),
                   side(c.output, c.output_offset, c.output_rows));
  }
  if (!c.counts.empty()) text += ", counts=" + list_text(c.counts);
  if (!c.displacements.empty()) text += ", displacements=" + list_text(c.displacements);
  if (!c.receive_displacements.empty()) {
    text += ", receive_displacements=" + list_text(c.receive_displacements);
  }
  if (c.algorithm != CCOM_ALGORITHM_AUTO) {
    text += format(", algorithm={}", neff::collective_algorithm_name(c.algorithm));
  }
  if (c.root != 0) text += format(", root={}", c.root);
  std::string lists;
  for (const auto& group : c.groups) {
    lists += (lists.empty() ? "" : ", ") + list_text({group.begin(), group.end()});
  }
  if (!lists.empty()) text += ", groups=[" + lists + "]";
  lists.clear();
  for (const ccom_pair_t& pair : c.pairs) {
    lists += (lists.empty() ? "" : ", ") + list_text({pair.source, pair.target});
  }
  if (!lists.empty()) text += ", pairs=[" + lists + "]";
  if (c.stream != 0) text += format(", stream={}", c.stream);
  if (c.semaphore_add != 1) text += format(", add={}", c.semaphore_add);
  if (c.semaphore) text += ", semaphore=" + semaphore_text(subgraph, *c.semaphore);
  return text + "\n";
}

}  // namespace

bool tensors_follow_variables(const neff::Model& model) {
  const auto follows = [](const std::vector<neff::TensorInfo>& list, const neff::Model& m,
                          neff::VariableKind kind) {
    size_t next = 0;
    for (uint32_t s = 0; s < m.subgraphs.size(); ++s) {
      const auto& variables = m.subgraphs[s].variables;
      for (uint32_t v = 0; v < variables.size(); ++v) {
        if (variables[v].kind != kind) continue;
        // Every variable of the kind is the next tensor.
        if (next == list.size() || list[next].subgraph != s || list[next].variable != v ||
            list[next].size != variables[v].size) {
          return false;
        }
        ++next;
      }
    }
    return next == list.size();
  };
  return follows(model.inputs, model, neff::VariableKind::kInput) &&
         follows(model.outputs, model, neff::VariableKind::kOutput);
}

std::string tensors_text(const neff::Model& model, uint32_t subgraph) {
  std::string text;
  const auto add = [&](const char* directive, const std::vector<neff::TensorInfo>& list) {
    for (const neff::TensorInfo& info : list) {
      if (info.subgraph != subgraph) continue;
      const std::string& variable = model.subgraphs[info.subgraph].variables[info.variable].name;
      text +=
          format("{} {} : {}", directive, spelled(info.name), shape_text(info.dtype, info.shape));
      if (variable != info.name) text += ", variable=" + spelled(variable);
      text += tensor_keys(info) + "\n";
    }
  };
  add(".input", model.inputs);
  add(".output", model.outputs);
  return text;
}

std::string declarations_text(const neff::Model& model, uint32_t index, const SubgraphFiles& files,
                              bool tensors_with_variables, const Remarks& remarks) {
  const neff::Subgraph& subgraph = model.subgraphs[index];
  std::string text;
  for (const neff::Semaphore& semaphore : subgraph.semaphores) {
    text += format(".sem {} = {}\n", spelled(semaphore.name), semaphore.number);
  }
  for (uint32_t v = 0; v < subgraph.variables.size(); ++v) {
    const neff::TensorInfo* tensor = nullptr;
    const auto kind = subgraph.variables[v].kind;
    if (tensors_with_variables && kind == neff::VariableKind::kInput) {
      tensor = tensor_of(model.inputs, index, v);
    }
    if (tensors_with_variables && kind == neff::VariableKind::kOutput) {
      tensor = tensor_of(model.outputs, index, v);
    }
    text += variable_text(subgraph, v, tensor, files);
    const auto remark = remarks.find(subgraph.variables[v].file_name);
    if (remark == remarks.end()) continue;
    text.insert(text.size() - 1, "  # " + remark->second);
  }
  for (const neff::QueueSet& queue : subgraph.queues) text += queue_text(subgraph, queue);
  for (const neff::Collective& c : subgraph.operations) text += collective_text(subgraph, c);
  return text;
}

}  // namespace neuron::assembler
