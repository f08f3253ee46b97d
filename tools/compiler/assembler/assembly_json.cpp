// SPDX-License-Identifier: Apache-2.0
// The JSON members. A key with its default is left out, except those that are always written; the
// order of keys is fixed. Both are part of the promise that the same program gives the same bytes.
#include <bit>
#include <boost/json.hpp>

#include "runtime/neff/collective_json.h"
#include "tools/compiler/assembler/assembly.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/sections.h"

namespace neuron::assembler {

namespace json = boost::json;

namespace {

std::string text(const json::value& value) { return json::serialize(value) + "\n"; }

template <class List>
json::array list_of(const List& values) {
  json::array list;
  for (const auto& value : values) list.emplace_back(value);
  return list;
}

json::array tensors(const neff::Model& model, const std::vector<neff::TensorInfo>& infos) {
  json::array list;
  for (const neff::TensorInfo& info : infos) {
    const neff::Subgraph& subgraph = model.subgraphs[info.subgraph];
    json::object tensor;
    tensor["name"] = info.name;
    tensor["variable"] = subgraph.variables[info.variable].name;
    tensor["subgraph"] = subgraph.name;
    tensor["dtype"] = neff::dtype_name(info.dtype);
    tensor["shape"] = list_of(info.shape);
    tensor["size"] = info.size;
    if (!info.format.empty()) tensor["format"] = info.format;
    tensor["timeseries"] = info.timeseries;
    list.push_back(std::move(tensor));
  }
  return list;
}

json::object variable_json(const neff::Subgraph& subgraph, uint32_t index,
                           const SubgraphFiles& files) {
  const neff::Variable& variable = subgraph.variables[index];
  json::object out;
  out["type"] = kVariableKinds[static_cast<int>(variable.kind)];
  out["var_id"] = variable.id;
  out["size"] = variable.size;
  if (variable.alignment) out["alignment"] = variable.alignment;
  if (variable.alternate_fabric) out["fabric_path"] = "alt";
  switch (variable.kind) {
    case neff::VariableKind::kFile:
      // Without the subgraph's directory.
      out["file_name"] = variable.file_name.substr(variable.file_name.find('/') + 1);
      if (const auto place = files.offsets.find(index); place != files.offsets.end()) {
        out["file_offset"] = place->second;
      }
      if (variable.compressed) out["encoding"] = "streams";
      break;
    case neff::VariableKind::kTmpBuf:
      if (variable.shared) out["shared"] = true;
      break;
    case neff::VariableKind::kVirtual:
      out["backing_variable_off"] = variable.backing_offset;
      break;
    case neff::VariableKind::kPointer:
      out["referenced_var_id"] = subgraph.variables[variable.referenced].id;
      break;
    case neff::VariableKind::kStateBuffer:
      if (variable.core_offset) out["core_offset"] = variable.core_offset;
      break;
    case neff::VariableKind::kDgeTable: {
      json::array ids;
      for (uint32_t index : variable.list) ids.emplace_back(subgraph.variables[index].id);
      out["list"] = std::move(ids);
      break;
    }
    default:
      break;
  }
  return out;
}

json::object queue_json(const neff::QueueSet& queue) {
  json::object out;
  out["type"] = kQueueKinds[static_cast<int>(queue.kind)];
  out["num_queues"] = queue.num_queues;
  if (queue.owner) out["owner"] = neff::engine_name(*queue.owner);
  if (!queue.instances.empty()) out["queue_instances"] = list_of(queue.instances);
  if (!queue.semaphore_set.empty()) out["semaphore_set"] = list_of(queue.semaphore_set);
  if (queue.semaphore) out["semaphore"] = *queue.semaphore;
  if (queue.alternate_fabric) out["fabric_path"] = "alt";
  const neff::QueueSet usual;
  if (queue.kind == neff::QueueKind::kDynamic && queue.ring_descriptors != usual.ring_descriptors) {
    out["ring_descriptors"] = queue.ring_descriptors;
  }
  return out;
}

void put_access(json::object& out, const neff::Subgraph& subgraph, const char* side,
                const neff::DmaAccess& access) {
  const std::string prefix = side;
  out[prefix] = subgraph.variables[access.variable].name;
  out[prefix + "_off"] = access.offset;
  json::array sizes, steps;
  for (unsigned d = 0; d < access.dimensions; ++d) {
    sizes.emplace_back(access.sizes[d]);
    steps.emplace_back(access.steps[d]);
  }
  out[prefix + "_sizes"] = std::move(sizes);
  out[prefix + "_steps"] = std::move(steps);
  if (access.dtype != NEURON_DTYPE_U8) out[prefix + "_dtype"] = neff::dtype_name(access.dtype);
}

void put_parameters(json::object& desc, const neff::DmaTransfer& transfer) {
  switch (transfer.operation) {
    case neff::DmaOperation::kFma:
      desc["scale"] = static_cast<double>(transfer.scale);
      break;
    case neff::DmaOperation::kMin:
    case neff::DmaOperation::kMax:
      desc["constant_dtype"] = neff::dtype_name(transfer.constant_dtype);
      if (transfer.constant_dtype == NEURON_DTYPE_F32) {
        desc["constant"] = static_cast<double>(std::bit_cast<float>(transfer.constant));
      } else if (transfer.constant_dtype == NEURON_DTYPE_I32) {
        desc["constant"] = static_cast<int32_t>(transfer.constant);
      } else {
        desc["constant"] = transfer.constant;
      }
      break;
    case neff::DmaOperation::kTranspose:
      desc["transpose_shape"] = list_of(transfer.transpose_shape);
      desc["transpose_element_size"] = transfer.transpose_element_bytes;
      break;
    default:
      break;
  }
}

json::object transfer_json(const neff::Subgraph& subgraph, const neff::DmaTransfer& transfer,
                           const std::string& function) {
  json::object entry;
  entry["id"] = transfer.id;
  entry["queue"] = subgraph.queues[transfer.queue].name;
  if (!transfer.instance.empty()) entry["instance_name"] = transfer.instance;
  if (!function.empty()) entry["function_start"] = function;
  if (transfer.starts_section) entry["section_start_desc"] = true;
  if (transfer.event) entry["event"] = *transfer.event;
  if (transfer.semaphore) entry["semaphore"] = *transfer.semaphore;
  if (transfer.priority != 0) entry["priority"] = transfer.priority;
  if (!transfer.remote_semaphores.empty()) {
    entry["remote_semaphores"] = list_of(transfer.remote_semaphores);
  }
  json::object desc;
  desc["op"] = kTransferOperations[static_cast<int>(transfer.operation)];
  if (transfer.from.size() == 1) {
    put_access(desc, subgraph, "from", transfer.from[0]);
  } else {
    json::array sources;
    for (const neff::DmaAccess& access : transfer.from) {
      json::object source;
      put_access(source, subgraph, "from", access);
      if (has_own_scale(transfer, access)) source["scale"] = static_cast<double>(access.scale);
      sources.push_back(std::move(source));
    }
    desc["from_arr"] = std::move(sources);
  }
  put_access(desc, subgraph, "to", transfer.to);
  put_parameters(desc, transfer);
  entry["desc"] = std::move(desc);
  return entry;
}

}  // namespace

std::string graph_json(const neff::Model& model) {
  json::array nodes;
  for (const neff::Subgraph& subgraph : model.subgraphs) {
    nodes.push_back(json::object{{"name", subgraph.name}, {"executor", "NeuronCore"}});
  }
  json::object graph;
  graph["format"] = NEFF_FORMAT;
  graph["version"] = 1;
  graph["target"] = model.target;
  graph["lnc"] = model.lnc;
  graph["nodes"] = std::move(nodes);
  graph["inputs"] = tensors(model, model.inputs);
  graph["outputs"] = tensors(model, model.outputs);
  return text(graph);
}

std::string definition_json(const neff::Model& model, const neff::Subgraph& subgraph,
                            const SubgraphFiles& files) {
  const auto members = [](const EngineFiles& names) {
    json::object out{{"bin", names.bin}};
    if (!names.json.empty()) out["json"] = names.json;
    return out;
  };
  json::object engines;
  for (size_t e = 0; e < files.engines.size(); ++e) {
    if (!files.engines[e].used) continue;
    engines[neff::engine_name(static_cast<uint8_t>(e))] = members(files.engines[e]);
  }
  json::object semaphores;
  for (const neff::Semaphore& semaphore : subgraph.semaphores) {
    semaphores[semaphore.name] = semaphore.number;
  }
  json::object queues;
  for (const neff::QueueSet& queue : subgraph.queues) queues[queue.name] = queue_json(queue);
  json::object variables;
  for (uint32_t v = 0; v < subgraph.variables.size(); ++v) {
    variables[subgraph.variables[v].name] = variable_json(subgraph, v, files);
  }
  json::object definition;
  definition["program"] =
      json::object{{"isa", NEURON_ISA_VERSION}, {"generation", model.generation}};
  definition["engines"] = std::move(engines);
  definition["semaphore"] = std::move(semaphores);
  definition["dma_queue"] = std::move(queues);
  definition["var"] = std::move(variables);
  if (!files.collectives.empty()) {
    json::array programs;
    for (size_t i = 0; i < files.collectives.size(); ++i) {
      json::object program = members(files.collectives[i]);
      program["stream"] = subgraph.collectives[i].stream;
      programs.push_back(std::move(program));
    }
    definition["cc"] = std::move(programs);
  }
  if (!subgraph.operations.empty()) {
    json::array operations;
    const auto name = [&](uint32_t variable) {
      return variable < subgraph.variables.size() ? subgraph.variables[variable].name : "";
    };
    for (const neff::Collective& c : subgraph.operations) {
      operations.push_back(tools::collective_json(c, name(c.input), name(c.output)));
    }
    definition["collectives"] = std::move(operations);
  }
  return text(definition);
}

std::string engine_json(const neff::Subgraph& subgraph, const neff::EngineProgram& program) {
  json::array list;
  FunctionSections sections(subgraph, program);
  for (const neff::DmaTransfer& transfer : program.dma) {
    list.push_back(transfer_json(subgraph, transfer, sections.opened_by(transfer)));
  }
  json::object out{{"dma", std::move(list)}};
  if (!program.activation_function_sets.empty()) {
    out["activation_function_sets"] = list_of(program.activation_function_sets);
  }
  if (!program.dve_tables.empty()) {
    json::array tables;
    for (const neff::DveTableFiles& files : program.dve_tables) {
      const auto name = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
      tables.push_back(json::object{{"control_table", name(files.control)},
                                    {"datapath_table", name(files.datapath)},
                                    {"opcode_table", name(files.opcode)}});
    }
    out["dve_tables"] = std::move(tables);
  }
  return text(out);
}

}  // namespace neuron::assembler
