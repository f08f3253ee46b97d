// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/program_tables.h"

#include <algorithm>

namespace neuron::profile {
namespace {

using parquet::TableWriter;

Result<void> write_neff(const Program& program, const std::optional<NeffFacts>& neff,
                        TableSet& tables) {
  return tables.write("NeffHeader", [&](TableWriter& to, const parquet::Table& t) {
    to.set_text(t.field("network_name"), program.name);
    to.set_text(t.field("uuid"), program.uuid);
    to.set_text(t.field("hash"), neff ? neff->hash : std::to_string(program.hash));
    if (neff) {
      const auto set = [&](const char* field, uint64_t value) {
        to.set(t.field(field), static_cast<int64_t>(value));
      };
      set("header_size", neff->header_bytes);
      set("data_size", neff->data_bytes);
      set("major_version", neff->major);
      set("minor_version", neff->minor);
      to.set_text(t.field("package_version"), std::to_string(neff->package_version));
      to.set_text(t.field("build_version"), neff->build_version);
      set("neuroncore_count", neff->logical_cores * neff->physical_of_logical);
      set("logical_neuroncore_count", neff->logical_cores);
      set("pcore_count_per_lnc", neff->physical_of_logical);
    }
    return to.end_row();
  });
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (const uint64_t size : shape) text += (text.size() == 1 ? "" : " ") + std::to_string(size);
  return text + "]";
}

// Whether a port of the model is one of this part. An older profile does not say.
bool belongs_to(const Program& program, const PortInfo& port) {
  const auto& all = program.variables;
  return all.empty() || std::any_of(all.begin(), all.end(), [&](const Variable& variable) {
           return variable.name == port.name &&
                  (variable.kind == "input" || variable.kind == "output");
         });
}

// A tensor's row, but for what only ports have.
Result<void> end_tensor(TableWriter& to, const char* type, const Variable& tensor,
                        const TransferTables::Load& load) {
  const parquet::Table& t = to.table();
  to.set_text(t.field("variable_name"), tensor.name);
  to.set_text(t.field("type"), type);
  to.set(t.field("size"), static_cast<int64_t>(tensor.bytes));
  if (load.transfers != 0) {
    const auto set = [&](const char* field, uint64_t value) {
      to.set(t.field(field), static_cast<int64_t>(value));
    };
    set("load_to_sbuf_avg_size_bytes", load.bytes / load.transfers);
    set("load_to_sbuf_total_size_bytes", load.bytes);
    set("load_to_sbuf_dma_count", load.transfers);
    if (tensor.bytes != 0) {
      to.set_real(t.field("load_to_sbuf_repeat_factor"),
                  static_cast<double>(load.bytes) / static_cast<double>(tensor.bytes));
    }
  }
  return to.end_row();
}

Result<void> write_tensors(const ProgramFacts& facts, TableSet& tables) {
  const Program& program = facts.program;
  std::map<std::string, TransferTables::Load> by_name;
  for (const auto& [variable, load] : facts.loads) {
    TransferTables::Load& sum = by_name[program.variables[variable].name];
    sum.bytes += load.bytes;
    sum.transfers += load.transfers;
  }
  return tables.write("TensorInfo", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    for (const PortInfo& port : facts.ports) {
      if (!belongs_to(program, port)) continue;
      if (!port.format.empty()) to.set_text(t.field("format"), port.format);
      if (!port.type.empty()) to.set_text(t.field("shape"), shape_text(port.shape));
      to.set(t.field("pcore_idx"), program.part);
      const Variable tensor{.name = port.name, .kind = {}, .bytes = port.bytes};
      NEURON_CHECK(end_tensor(to, port.output ? "OUT" : "IN", tensor, by_name[port.name]));
    }
    for (const Variable& variable : program.variables) {
      if (variable.kind != "weight") continue;
      to.set(t.field("pcore_idx"), program.part);
      NEURON_CHECK(end_tensor(to, "WEIGHT", variable, by_name[variable.name]));
    }
    return {};
  });
}

// Ports of the bus and channels of the memory are not modelled: 0.
Result<void> write_queues(const Program& program, TableSet& tables) {
  return tables.write(
      "DmaQueuesInfo", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
        for (const Queue& queue : program.queues) {
          for (uint32_t engine = 0; engine < std::min(queue.engines, 16u); ++engine) {
            to.set_text(t.field("name"), program.queue_name(queue.number));
            to.set_text(t.field("type"), program.queue_type(queue.number));
            to.set(t.field("pcore_idx"), program.part);
            to.set(t.field("idx"), queue.number);
            to.set(t.field("engine_idx"), engine);
            NEURON_CHECK(to.end_row());
          }
        }
        return {};
      });
}

Result<void> write_memory(const ProgramFacts& facts, TableSet& tables) {
  const Program& program = facts.program;
  uint64_t ports = 0;
  for (const PortInfo& port : facts.ports) ports += belongs_to(program, port) ? port.bytes : 0;
  std::vector<std::pair<std::string, uint64_t>> uses = {{"Weights", program.weights_bytes},
                                                        {"IO", ports},
                                                        {"Scratchpad", program.temporary_bytes},
                                                        {"DMA Rings", program.ring_bytes}};
  for (unsigned engine = 0; engine < program.engines.size(); ++engine) {
    uses.emplace_back(std::string(engine_name(engine)) + " Instructions",
                      program.engines[engine].bytes.size());
  }
  return tables.write("HbmUsageSummaryByType",
                      [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
                        for (const auto& [type, bytes] : uses) {
                          if (bytes == 0) continue;
                          to.set(t.field("neuron_device_idx"), program.device);
                          to.set(t.field("neuroncore_idx"), program.core);
                          to.set_text(t.field("usage_type"), type);
                          to.set(t.field("usage_bytes"), static_cast<int64_t>(bytes));
                          NEURON_CHECK(to.end_row());
                        }
                        return {};
                      });
}

}  // namespace

Result<void> write_program(const ProgramFacts& facts, TableSet& tables) {
  NEURON_CHECK(write_neff(facts.program, facts.neff, tables));
  NEURON_CHECK(write_tensors(facts, tables));
  NEURON_CHECK(write_queues(facts.program, tables));
  return write_memory(facts, tables);
}

Result<void> write_schema(TableSet& tables) {
  std::vector<std::string> names = tables.names();
  names.emplace_back("SchemaFields");
  return tables.write("SchemaFields",
                      [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
                        for (const std::string& name : names) {
                          const parquet::Table& table = parquet::table(name);
                          for (const parquet::Field& field : table.fields) {
                            to.set_text(t.field("table_name"), table.name);
                            to.set_text(t.field("table_description"), table.description);
                            to.set_text(t.field("field_name"), field.name);
                            to.set_text(t.field("field_description"), field.description);
                            to.set_text(t.field("field_type"), field.type_name);
                            to.set_truth(t.field("field_required"), field.required);
                            if (!field.unit.empty()) to.set_text(t.field("field_unit"), field.unit);
                            NEURON_CHECK(to.end_row());
                          }
                        }
                        return {};
                      });
}

}  // namespace neuron::profile
