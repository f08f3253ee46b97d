// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/tables.h"

#include <map>
#include <unordered_map>
#include <vector>

#include "tools/neuron-profile/analysis/summary.h"
#include "tools/neuron-profile/output/detail.h"
#include "tools/neuron-profile/output/instruction_tables.h"
#include "tools/neuron-profile/output/program_tables.h"
#include "tools/neuron-profile/output/report.h"
#include "tools/neuron-profile/output/table_folder.h"
#include "tools/neuron-profile/output/transfer_tables.h"
#include "tools/neuron-profile/output/usage_tables.h"
#include "tools/neuron-profile/parquet/table_writer.h"

namespace neuron::profile {
namespace {

using parquet::TableWriter;

class Events final : public Visitor {
 public:
  Events(const Program& program, const SourceFrames& frames, const Summary& summary,
         const std::string& folder)
      : program_(program),
        first_(summary.first),
        collectives_(summary.collectives),
        instructions_(program, frames, Origin{summary.first}, summary.total, folder),
        transfers_(program, Origin{summary.first}, folder),
        usage_(program, Origin{summary.first}, summary.total, folder),
        packets_(program),
        dependencies_([this](const Dependency& one) { flow(one); }),
        updates_(parquet::table("SemaphoreUpdate"), folder),
        flows_(parquet::table("Flow"), folder),
        streams_(parquet::table("CcInstruction"), folder) {}

  void instruction(const InstructionEvent& e) override {
    const InstructionFacts& facts = facts_of_place(e.engine, e.pc);
    dependencies_.instruction(e, instructions_.next_row());
    instructions_.add(e, facts);
    usage_.add(e, facts);
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
    const InstructionFacts& facts = facts_of_place(e.trigger, e.pc);
    TransferTables::Detail detail;
    detail.changes = dependencies_.changed_by(e);
    detail.trigger = dependencies_.transfer(e, transfers_.next_row());
    detail.block = facts.block;
    if (e.stream != kNoStream) detail.collective = variable_of(e);
    const std::vector<Packet>& packets = packets_.of(e, facts.row_bytes, detail.changes != kNoCell);
    transfers_.add(e, detail, packets);
    usage_.add(e, detail.trigger ? detail.trigger->end : e.begin, facts.block, packets);
  }

  void update(const UpdateEvent& e) override {
    TableWriter& to = updates_;
    dependencies_.update(e);
    to.set(u_.time, since_first(e.time));
    to.set_text(u_.id, program_.cell(e.cell));
    to.set(u_.value, e.after);
    to.set_text(u_.source, update_source_text(program_, e));
    to.set(u_.core, program_.part);
    if ((e.cell & 256) != 0) to.set_truth(u_.twice, e.before == e.after);
    if (e.source < NEURON_CORE_ENGINES && e.operation != NEURON_UPDATE_NONE) {
      constexpr const char* kNames[] = {"none",        "sem_inc",    "sem_dec", "sem_add_imm",
                                        "sem_sub_imm", "sem_wr_imm", "evt_set", "evt_clr"};
      to.set(u_.mode, e.operation);
      to.set_text(u_.operation, kNames[e.operation & 7]);
      to.set_text(u_.timing, e.at_complete ? "complete" : "read");
    }
    failure_.keep(to.end_row());
  }

  void gap(uint32_t slot, uint64_t) override {
    if (slot == NEURON_NQ_SLOT_TRANSFER) packets_.lost();
  }

  const TransferTables& transfers() const { return transfers_; }
  const Work& work() const { return instructions_.work(); }

  Result<void> close(TableSet& tables) {
    dependencies_.finish();
    NEURON_CHECK(failure_.state());
    NEURON_CHECK(instructions_.close(tables));
    NEURON_CHECK(transfers_.close(tables));
    NEURON_CHECK(usage_.close(tables));
    for (TableWriter* writer : {&updates_, &flows_, &streams_}) {
      NEURON_CHECK(tables.close(*writer));
    }
    return {};
  }

 private:
  // Places of the fields.
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
           source = of.field("update_source"), core = of.field("pcore_idx"),
           twice = of.field("double_set_or_clear"), mode = of.field("update_mode"),
           operation = of.field("update_operation_type"),
           timing = of.field("update_trigger_timing");
  };
  struct FlowFields {
    const parquet::Table& of = parquet::table("Flow");
    size_t from = of.field("in_id"), to = of.field("out_id"), from_table = of.field("in_table"),
           to_table = of.field("out_table"), kind = of.field("dependency_type"),
           gap = of.field("gap_time");
  };

  // What the code says of a place. A loop executes it many times.
  const InstructionFacts& facts_of_place(unsigned engine, uint32_t pc) {
    constexpr size_t kMostPlaces = 1u << 16;
    if (facts_.size() >= kMostPlaces) facts_.clear();
    const auto [known, added] = facts_.try_emplace(uint64_t{engine} << 32 | pc);
    if (added) known->second = facts_of(program_, engine, pc);
    return known->second;
  }

  void flow(const Dependency& one) {
    TableWriter& to = flows_;
    const auto table = [](bool transfer) {
      return transfer ? "DmaPacketAggregated" : "Instruction";
    };
    to.set(g_.from, static_cast<int64_t>(one.from));
    to.set(g_.to, static_cast<int64_t>(one.to));
    to.set_text(g_.from_table, table(one.from_transfer));
    to.set_text(g_.to_table, table(one.to_transfer));
    to.set_text(g_.kind, one.kind == DependencyKind::kTrigger     ? "trigger"
                         : one.kind == DependencyKind::kSemaphore ? "semaphore"
                                                                  : "transfers");
    to.set(g_.gap, ns(one.gap));
    failure_.keep(to.end_row());
  }

  // What a transfer of a collective is of: "all_reduce of 1024 float32 (add), to rank 1".
  std::string variable_of(const TransferEvent& e) const {
    const ntff::StreamNote* note =
        e.stream == kNoStream || e.writes == 0 ? nullptr : program_.note(e.stream, e.pc);
    if (note == nullptr) return {};
    const std::string name = program_.stream(e.stream)->collective_name(e.pc);
    return sends(*note) ? name + ", to rank " + std::to_string(note->peer) : name;
  }

  int64_t since_first(uint64_t time) const { return ns(static_cast<int64_t>(time - first_)); }
  void keep(const Result<void>& result) { failure_.keep(result); }

  const Program& program_;
  const uint64_t first_;
  const Collectives& collectives_;
  InstructionTables instructions_;
  TransferTables transfers_;
  UsageTables usage_;
  Packets packets_;
  Dependencies dependencies_;
  TableWriter updates_, flows_, streams_;
  const UpdateFields u_;
  const FlowFields g_;
  const StreamFields s_;
  std::unordered_map<uint64_t, InstructionFacts> facts_;
  FirstFailure failure_;
};

// What the rows of the tables add up to.
struct Counted {
  Work work;
  uint64_t rows = 0;
};

Result<void> write_summary(const Profile& profile, uint32_t part, const Summary& summary,
                           const Counted& counted, TableSet& tables) {
  const Work& work = counted.work;
  std::vector<Metric> metrics = metrics_of(profile, part, summary);
  const auto count = [&](const char* name, uint64_t value) {
    metrics.push_back({name, static_cast<double>(value), true});
  };
  count("psum_read_bytes", work.psum_read);
  count("psum_write_bytes", work.psum_write);
  count("psum_read_sbuf_write_count", work.psum_to_sbuf_count);
  count("psum_read_sbuf_write_bytes", work.psum_to_sbuf);
  count("adjusted_hardware_flops", work.adjusted_flops);
  count("adjusted_transpose_flops", work.adjusted_transpose_flops);
  count("total_row_count", counted.rows);
  return tables.write("Summary", [&](TableWriter& to, const parquet::Table& table) {
    for (const Metric& metric : metrics) {
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

Result<void> write_opcodes(const Summary& summary, TableSet& tables) {
  // Several opcodes have one name.
  std::map<std::pair<std::string, std::string>, Totals> by_name;
  for (const auto& [key, totals] : summary.opcodes) {
    Totals& sum = by_name[{engine_name(key.first), opcode_name(key.second)}];
    sum.count += totals.count;
    sum.time += totals.time;
    sum.active += totals.active;
  }
  return tables.write(
      "OpcodeSummary", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
        for (const auto& [key, totals] : by_name) {
          to.set_text(t.field("engine"), key.first);
          to.set_text(t.field("opcode"), key.second);
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

Result<void> write_collectives(const Program& program, const Summary& summary, TableSet& tables) {
  return tables.write("CcOp", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
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

Result<void> write_streams(const Program& program, TableSet& tables) {
  return tables.write("CcStream", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    for (const Stream& stream : program.streams) {
      to.set(t.field("stream_id"), stream.number);
      to.set(t.field("stream_index"), stream.number);
      to.set_text(t.field("cc_core_ids"), std::to_string(stream.number));
      NEURON_CHECK(to.end_row());
    }
    return {};
  });
}

Result<void> write_metadata(const Profile& profile, const Part& part, const Execution& execution,
                            TableSet& tables) {
  const Program& program = part.program;
  const Machine machine = machine_of(program.generation);
  return tables.write("Metadata", [&](TableWriter& to, const parquet::Table& t) {
    to.set_text(t.field("profile_schema_version"), parquet::kSchemaVersion);
    to.set(t.field("ntff_version"), profile.version());
    to.set(t.field("num_physical_cores"), static_cast<int64_t>(profile.parts().size()));
    to.set_truth(t.field("vnc_enabled"), profile.parts().size() > 1);
    to.set(t.field("first_hw_timestamp"), 0);
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
    if (!program.instance.empty()) to.set_text(t.field("instance_type"), program.instance);
    to.set(t.field("neuroncore_idx"), program.core);
    to.set(t.field("neuron_device_idx"), program.device);
    to.set_text(t.field("profile_name"), program.name);
    to.set_truth(t.field("is_simulation"), true);
    return to.end_row();
  });
}

Result<void> write_execution(const Part& part, size_t index, uint64_t rows, TableSet& tables) {
  const Execution& execution = part.executions[index];
  return tables.write("ExecutionInfo", [&](TableWriter& to, const parquet::Table& t) {
    to.set(t.field("execution_index"), static_cast<int64_t>(index));
    to.set_text(t.field("neff_name"), part.program.name);
    to.set(t.field("execution_start_ts"), static_cast<int64_t>(execution.begin_ns));
    to.set(t.field("execution_end_ts"), static_cast<int64_t>(execution.end_ns));
    to.set(t.field("num_subgraphs"), 1);
    to.set(t.field("row_count"), static_cast<int64_t>(rows));
    return to.end_row();
  });
}

Result<void> write_warnings(const Profile& profile, TableSet& tables) {
  return tables.write("Warning", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    for (const Notice& notice : notices(profile)) {
      to.set_text(t.field("message"), notice.sentence);
      to.set_text(t.field("category"), notice.category);
      NEURON_CHECK(to.end_row());
    }
    return {};
  });
}

}  // namespace

Result<size_t> write_tables(Profile& profile, uint32_t part, size_t execution,
                            const TablesWishes& wishes) {
  NEURON_TRY(folder, TableFolder::open(wishes.folder, wishes.inputs));
  TableSet tables(folder.hidden());
  const Part& of = profile.parts()[part];
  NEURON_TRY(summary, summarize(profile, part, execution));
  const SourceFrames frames(of.program);
  Events events(of.program, frames, summary, folder.hidden());
  NEURON_CHECK(profile.visit_in_order(part, execution, events));
  NEURON_CHECK(events.close(tables));
  NEURON_CHECK(write_collectives(of.program, summary, tables));
  // The rows that these two count are those of what happened.
  const uint64_t rows = tables.rows();
  NEURON_CHECK(write_execution(of, execution, rows, tables));
  NEURON_CHECK(write_summary(profile, part, summary, {events.work(), rows}, tables));
  NEURON_CHECK(write_opcodes(summary, tables));
  NEURON_CHECK(write_streams(of.program, tables));
  NEURON_CHECK(write_metadata(profile, of, of.executions[execution], tables));
  NEURON_CHECK(write_program({.program = of.program,
                              .ports = profile.parts()[0].program.ports,
                              .neff = wishes.neff,
                              .loads = events.transfers().loads()},
                             tables));
  NEURON_CHECK(frames.write(tables));
  NEURON_CHECK(write_warnings(profile, tables));
  NEURON_CHECK(write_schema(tables));
  NEURON_CHECK(folder.publish());
  return tables.names().size();
}

}  // namespace neuron::profile
