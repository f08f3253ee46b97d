// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/tables.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "tools/neuron-profile/analysis/summary.h"
#include "tools/neuron-profile/output/detail.h"
#include "tools/neuron-profile/output/report.h"
#include "tools/neuron-profile/parquet/table_writer.h"

namespace neuron::profile {
namespace {

using parquet::TableWriter;

// Nanoseconds, rounded to the nearest; of any number, since a damaged file may have any.
int64_t ns(int64_t ps) {
  const int64_t rest = ps % 1000;
  return ps / 1000 + (rest >= 500 ? 1 : rest <= -500 ? -1 : 0);
}

class Events final : public Visitor {
 public:
  Events(const Program& program, uint64_t first, const std::string& folder,
         const Collectives& collectives)
      : program_(program),
        first_(first),
        collectives_(collectives),
        instructions_(parquet::table("Instruction"), folder),
        transfers_(parquet::table("DmaPacketAggregated"), folder),
        updates_(parquet::table("SemaphoreUpdate"), folder),
        streams_(parquet::table("CcInstruction"), folder) {}

  void instruction(const InstructionEvent& e) override {
    TableWriter& to = instructions_;
    const auto [known, added] = known_.try_emplace({e.engine, e.pc});
    if (added) {
      const bool setup = program_.is_setup(e.engine, e.pc);
      known->second = {to.known(engine_name(e.engine)), to.known(opcode_name(e.opcode)),
                       to.known(program_.text(e.engine, e.pc, e.opcode)),
                       to.known(program_.line(e.engine, e.debug)),
                       to.known(std::string(engine_name(e.engine)) + (setup ? ": set-up" : ""))};
    }
    const int64_t begin = since_first(e.begin), end = since_first(e.end);
    to.set(i_.begin, begin);
    to.set(i_.end, end);
    to.set(i_.duration, end - begin);
    to.set_known(i_.engine, known->second.engine);
    to.set_known(i_.track, known->second.track);
    to.set(i_.core, program_.part);
    to.set_known(i_.opcode, known->second.opcode);
    to.set_known(i_.operands, known->second.text);
    to.set(i_.id, static_cast<int64_t>(to.rows()));
    to.set(i_.pc, program_.program_counter(e.engine, e.pc));
    to.set(i_.wait, ns(static_cast<int64_t>(e.wait)));
    to.set_known(i_.line, known->second.line);
    to.set(i_.elements, e.elements);
    if (e.speed > 1) to.set_text(i_.mode, e.speed == 2 ? "2x" : "4x");
    keep(to.end_row());
  }

  void stream_instruction(const StreamEvent& e) override {
    TableWriter& to = streams_;
    const int64_t begin = since_first(e.begin), end = since_first(e.end);
    const Stream* stream = program_.stream(e.stream);
    to.set(s_.begin, begin);
    to.set(s_.end, end);
    to.set(s_.duration, end - begin);
    to.set(s_.core, e.stream);
    to.set_text(s_.description, stream != nullptr ? stream->text(e.pc) : opcode_name(e.opcode));
    if (const CollectiveRun* run = collectives_.run_of(e); run != nullptr && run->trigger) {
      to.set_text(s_.trigger_engine, engine_name(run->trigger->engine));
      to.set(s_.trigger_begin, since_first(run->trigger->begin));
    }
    keep(to.end_row());
  }

  void transfer(const TransferEvent& e) override {
    TableWriter& to = transfers_;
    const auto [known, added] = queues_.try_emplace(e.queue);
    if (added) {
      const Queue* queue = program_.queue(e.queue);
      known->second = {to.known(program_.queue_name(e.queue)),
                       to.known(queue == nullptr ? "unknown"
                                : queue->dynamic ? "software_dynamic"
                                                 : "data")};
    }
    const int64_t begin = since_first(e.begin), end = since_first(e.end);
    const auto bytes = static_cast<int64_t>(e.bytes);
    to.set(t_.begin, begin);
    to.set(t_.end, end);
    to.set(t_.duration, end - begin);
    to.set(t_.id, static_cast<int64_t>(to.rows()));
    to.set(t_.core, program_.part);
    to.set(t_.block, e.dma_engine);
    to.set(t_.queue, e.queue);
    to.set_known(t_.queue_name, known->second.name);
    to.set_known(t_.queue_type, known->second.type);
    to.set_text(t_.op, opcode_name(e.opcode));
    if (e.stream != kNoStream) to.set_text(t_.variable, variable_of(e));
    to.set(t_.read, bytes);
    to.set(t_.write, e.writes == 0 ? 0 : bytes);
    to.set(t_.bytes, bytes);
    to.set_real(t_.rate, e.end == e.begin ? 0
                                          : static_cast<double>(e.bytes) * 1e12 /
                                                static_cast<double>(e.end - e.begin));
    to.set_text(t_.source, places_text(e.reads));
    to.set_text(t_.dest, places_text(e.writes));
    to.set_text(t_.semaphore, "-1");
    keep(to.end_row());
  }

  void update(const UpdateEvent& e) override {
    TableWriter& to = updates_;
    to.set(u_.time, since_first(e.time));
    to.set_text(u_.id, program_.cell(e.cell));
    to.set(u_.value, e.after);
    to.set_text(u_.source, update_source_text(program_, e));
    to.set(u_.core, program_.part);
    keep(to.end_row());
  }

  Result<size_t> close() {
    NEURON_CHECK(state_);
    size_t tables = 0;
    for (TableWriter* writer : {&instructions_, &transfers_, &updates_, &streams_}) {
      NEURON_CHECK(writer->close());
      tables += writer->rows() != 0 ? 1 : 0;
    }
    return tables;
  }

 private:
  // Places of the fields.
  struct InstructionFields {
    const parquet::Table& of = parquet::table("Instruction");
    size_t begin = of.field("start_ts"), end = of.field("end_ts"),
           duration = of.field("duration_ns"), engine = of.field("engine"),
           track = of.field("timeline_track"), core = of.field("pcore_idx"),
           opcode = of.field("opcode"), operands = of.field("operands"), id = of.field("id"),
           pc = of.field("pc"), wait = of.field("evt_wait_time_ns"),
           line = of.field("nki_source_location"), elements = of.field("tensor_elements"),
           mode = of.field("performance_mode");
  };
  struct TransferFields {
    const parquet::Table& of = parquet::table("DmaPacketAggregated");
    size_t begin = of.field("start_ts"), end = of.field("end_ts"),
           duration = of.field("duration_ns"), id = of.field("id"), core = of.field("pcore_idx"),
           block = of.field("block_id"), queue = of.field("queue_idx"),
           queue_name = of.field("queue_name"), queue_type = of.field("queue_type"),
           op = of.field("op"), variable = of.field("variable"), read = of.field("read_bytes"),
           write = of.field("write_bytes"), bytes = of.field("transfer_bytes"),
           rate = of.field("throughput"), source = of.field("source"), dest = of.field("dest"),
           semaphore = of.field("semaphore_id");
  };
  struct StreamFields {
    const parquet::Table& of = parquet::table("CcInstruction");
    size_t begin = of.field("start_ts"), end = of.field("end_ts"),
           duration = of.field("duration_ns"), core = of.field("core_idx"),
           description = of.field("description"), trigger_engine = of.field("trigger_engine"),
           trigger_begin = of.field("trigger_start_ts");
  };
  struct UpdateFields {
    const parquet::Table& of = parquet::table("SemaphoreUpdate");
    size_t time = of.field("timestamp"), id = of.field("id"), value = of.field("value"),
           source = of.field("update_source"), core = of.field("pcore_idx");
  };
  struct Known {
    uint32_t engine, opcode, text, line, track;
  };
  struct KnownQueue {
    uint32_t name, type;
  };

  // What a transfer of a collective is of: "all_reduce of 1024 float32 (add), to rank 1".
  std::string variable_of(const TransferEvent& e) const {
    const ntff::StreamNote* note =
        e.stream == kNoStream || e.writes == 0 ? nullptr : program_.note(e.stream, e.pc);
    if (note == nullptr) return {};
    const std::string name = program_.stream(e.stream)->collective_name(e.pc);
    return sends(*note) ? name + ", to rank " + std::to_string(note->peer) : name;
  }

  int64_t since_first(uint64_t time) const { return ns(static_cast<int64_t>(time - first_)); }
  void keep(const Result<void>& result) {
    if (state_ && !result) state_ = result;
  }

  const Program& program_;
  const uint64_t first_;
  const Collectives& collectives_;
  TableWriter instructions_, transfers_, updates_, streams_;
  const InstructionFields i_;
  const TransferFields t_;
  const UpdateFields u_;
  const StreamFields s_;
  std::map<std::pair<unsigned, uint32_t>, Known> known_;
  std::map<unsigned, KnownQueue> queues_;
  Result<void> state_;
};

// A table that is small enough to be written at once: `fill` sets and ends its rows.
template <class Fill>
Result<size_t> write_small(const char* name, const std::string& folder, Fill&& fill) {
  const parquet::Table& table = parquet::table(name);
  TableWriter writer(table, folder);
  NEURON_CHECK(fill(writer, table));
  NEURON_CHECK(writer.close());
  return writer.rows() != 0 ? 1 : 0;
}

Result<size_t> write_summary(const Profile& profile, uint32_t part, const Summary& summary,
                             const std::string& folder) {
  return write_small("Summary", folder, [&](TableWriter& to, const parquet::Table& table) {
    for (const Metric& metric : metrics_of(profile, part, summary)) {
      for (size_t n = 0; n < table.fields.size(); ++n) {
        if (table.fields[n].name != metric.name) continue;
        if (table.fields[n].type == parquet::Type::kInt64) {
          to.set(n, static_cast<int64_t>(metric.value));
        } else {
          to.set_real(n, metric.value);
        }
      }
    }
    return to.end_row();
  });
}

Result<size_t> write_opcodes(const Summary& summary, const std::string& folder) {
  return write_small(
      "OpcodeSummary", folder, [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
        for (const auto& [key, totals] : summary.opcodes) {
          to.set_text(t.field("engine"), engine_name(key.first));
          to.set_text(t.field("opcode"), opcode_name(key.second));
          to.set(t.field("instruction_count"), static_cast<int64_t>(totals.count));
          to.set(t.field("instruction_time_ns"), ns(static_cast<int64_t>(totals.time)));
          to.set(t.field("active_time_ns"), ns(static_cast<int64_t>(totals.active)));
          to.set_real(t.field("active_time_percent"), summary.total == 0
                                                          ? 0
                                                          : static_cast<double>(totals.active) /
                                                                static_cast<double>(summary.total));
          NEURON_CHECK(to.end_row());
        }
        return {};
      });
}

Result<size_t> write_collectives(const Program& program, const Summary& summary,
                                 const std::string& folder) {
  return write_small("CcOp", folder, [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    for (const CollectiveRun& run : summary.collectives.runs) {
      const Collective& of = program.stream(run.stream)->collectives[run.collective];
      const auto since = [&](uint64_t time) {
        return ns(static_cast<int64_t>(time - summary.first));
      };
      std::string ranks;
      for (const uint32_t r : of.ranks) ranks += (ranks.empty() ? "" : ",") + std::to_string(r);
      to.set(t.field("start_ts"), since(run.begin));
      to.set(t.field("end_ts"), since(run.end));
      to.set(t.field("duration_ns"), since(run.end) - since(run.begin));
      to.set_text(t.field("operation"), of.operation);
      to.set_text(t.field("algorithm"), of.algorithm);
      to.set(t.field("num_elements"), static_cast<int64_t>(of.count));
      to.set_text(t.field("dtype"), of.type);
      to.set(t.field("op_id"), run.collective);
      to.set(t.field("stream_id"), run.stream);
      to.set(t.field("stream_index"), run.stream);
      to.set(t.field("replica_group_id"), of.group);
      to.set_text(t.field("replica_group"), "[" + ranks + "]");
      if (of.sized) {
        const uint64_t time = run.end - run.begin;
        to.set(t.field("input_size"), static_cast<int64_t>(of.input_bytes));
        to.set(t.field("output_size"), static_cast<int64_t>(of.output_bytes));
        to.set_real(t.field("algorithm_bandwidth"), of.algorithm_rate(time));
        to.set_real(t.field("bus_bandwidth"), of.bus_rate(time));
      }
      if (run.trigger) {
        const int64_t trigger = since(run.trigger->begin);
        to.set_text(t.field("trigger_engine"), engine_name(run.trigger->engine));
        to.set(t.field("trigger_start_ts"), trigger);
        to.set(t.field("cc_trigger_start_delay"), since(run.begin) - trigger);
      }
      NEURON_CHECK(to.end_row());
    }
    return {};
  });
}

Result<size_t> write_streams(const Program& program, const std::string& folder) {
  return write_small("CcStream", folder,
                     [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
                       for (const Stream& stream : program.streams) {
                         to.set(t.field("stream_id"), stream.number);
                         to.set(t.field("stream_index"), stream.number);
                         to.set_text(t.field("cc_core_ids"), std::to_string(stream.number));
                         NEURON_CHECK(to.end_row());
                       }
                       return {};
                     });
}

Result<size_t> write_metadata(const Profile& profile, const Part& part, const Execution& execution,
                              const std::string& folder) {
  const Program& program = part.program;
  const Machine machine = machine_of(program.generation);
  return write_small("Metadata", folder, [&](TableWriter& to, const parquet::Table& t) {
    to.set_text(t.field("profile_schema_version"), parquet::kSchemaVersion);
    to.set(t.field("ntff_version"), ntff::kVersion);
    to.set(t.field("num_physical_cores"), static_cast<int64_t>(profile.parts().size()));
    to.set_truth(t.field("vnc_enabled"), profile.parts().size() > 1);
    to.set(t.field("last_hw_timestamp"), ns(static_cast<int64_t>(execution.device_ps)));
    to.set_text(t.field("first_ts"), std::to_string(execution.begin_ns));
    to.set_text(t.field("last_ts"), std::to_string(execution.end_ns));
    to.set_real(t.field("hbm_ddr_bandwidth"), machine.hbm_bytes_per_second);
    to.set_real(t.field("dma_ddr_bandwidth"), machine.dma_bytes_per_second);
    to.set(t.field("num_dma_engines_per_neuroncore"), 16);
    to.set(t.field("tensor_engine_num_rows"), 128);
    to.set(t.field("tensor_engine_num_cols"), 128);
    to.set_real(t.field("tensor_engine_clock_freq"), machine.clock_hz * 1e-9);
    const isa::Timing& timing = isa::timing_of(program.generation);
    const auto ghz = [](const isa::Clock& clock) {
      return 1e3 * static_cast<double>(clock.cycles) / static_cast<double>(clock.picoseconds);
    };
    const std::pair<std::string, const isa::Clock&> engines[] = {
        {"vector", timing.vector}, {"scalar", timing.others}, {"gpsimd", timing.others}};
    for (const auto& [engine, clock] : engines) {
      to.set_real(t.field(engine + "_engine_clock_freq"), ghz(clock));
      to.set(t.field(engine + "_engine_num_channels"), 128);
    }
    to.set_real(t.field("neuroncore_clock_freq"), ghz(timing.others));
    to.set(t.field("ticks_per_nanosec"), 1000);
    to.set_text(t.field("runtime_version"), program.runtime_version);
    to.set(t.field("neuroncore_idx"), program.core);
    to.set(t.field("neuron_device_idx"), program.device);
    to.set_text(t.field("profile_name"), program.name);
    to.set_truth(t.field("is_simulation"), true);
    return to.end_row();
  });
}

Result<size_t> write_execution(const Part& part, size_t index, const std::string& folder) {
  const Execution& execution = part.executions[index];
  return write_small("ExecutionInfo", folder, [&](TableWriter& to, const parquet::Table& t) {
    to.set(t.field("execution_index"), static_cast<int64_t>(index));
    to.set_text(t.field("neff_name"), part.program.name);
    to.set(t.field("execution_start_ts"), static_cast<int64_t>(execution.begin_ns));
    to.set(t.field("execution_end_ts"), static_cast<int64_t>(execution.end_ns));
    to.set(t.field("num_subgraphs"), 1);
    return to.end_row();
  });
}

Result<size_t> write_neff(const Program& program, const std::string& folder) {
  return write_small("NeffHeader", folder, [&](TableWriter& to, const parquet::Table& t) {
    to.set_text(t.field("network_name"), program.name);
    to.set_text(t.field("uuid"), program.uuid);
    to.set_text(t.field("hash"), std::to_string(program.hash));
    return to.end_row();
  });
}

Result<size_t> write_warnings(const Profile& profile, const std::string& folder) {
  const std::string text = warnings(profile);
  if (text.empty()) return 0;
  return write_small("Warning", folder, [&](TableWriter& to, const parquet::Table& t) {
    to.set_text(t.field("message"), text);
    to.set_text(t.field("category"), "dropped events");
    return to.end_row();
  });
}

Result<size_t> write_schema(const std::string& folder) {
  return write_small("SchemaFields", folder,
                     [](TableWriter& to, const parquet::Table& t) -> Result<void> {
                       for (const parquet::Table& table : parquet::tables()) {
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

// NAME.parquet or NAME_NUMBER.parquet of a table.
bool is_of_tables(const std::filesystem::path& file) {
  if (file.extension() != ".parquet") return false;
  std::string name = file.stem().string();
  const size_t letters = name.find_last_not_of("0123456789");
  if (letters != std::string::npos && letters + 1 < name.size() && name[letters] == '_') {
    name.resize(letters);
  }
  const auto& tables = parquet::tables();
  return std::any_of(tables.begin(), tables.end(),
                     [&](const parquet::Table& table) { return table.name == name; });
}

// Tables of an earlier profile would be mixed with those of this one. Other files stay: the folder
// is one that the user has named.
Result<void> remove_tables(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_of_tables(entry.path())) old.push_back(entry.path());
  }
  for (const auto& file : old) {
    if (!error) std::filesystem::remove(file, error);
  }
  if (!error) return {};
  return runtime::fail(NRT_INVALID,
                       "the tables of an earlier profile in '{}' cannot be removed: {}", folder,
                       error.message());
}

}  // namespace

Result<size_t> write_tables(Profile& profile, uint32_t part, size_t execution,
                            const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return runtime::fail(NRT_INVALID, "the folder '{}' for tables cannot be made: {}", folder,
                         error.message());
  }
  NEURON_CHECK(remove_tables(folder));
  const Part& of = profile.parts()[part];
  NEURON_TRY(summary, summarize(profile, part, execution));
  Events events(of.program, summary.first, folder, summary.collectives);
  NEURON_CHECK(profile.visit(part, execution, events));
  NEURON_TRY(tables, events.close());
  size_t count = tables;
  for (auto&& written :
       {write_summary(profile, part, summary, folder), write_opcodes(summary, folder),
        write_collectives(of.program, summary, folder), write_streams(of.program, folder),
        write_metadata(profile, of, of.executions[execution], folder),
        write_execution(of, execution, folder), write_neff(of.program, folder),
        write_warnings(profile, folder), write_schema(folder)}) {
    NEURON_TRY(one, written);
    count += one;
  }
  return count;
}

}  // namespace neuron::profile
