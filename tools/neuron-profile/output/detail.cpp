// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/detail.h"

#include <functional>
#include <map>
#include <optional>

#include "driver/base/json_text.h"
#include "tools/common/format.h"
#include "tools/neuron-profile/analysis/findings.h"
#include "tools/neuron-profile/output/report.h"

namespace neuron::profile {
namespace {

using base::json_string;
using runtime::format;

// A field of a row: its name, and its value as JSON has it.
using Field = std::pair<const char*, std::string>;
using Row = std::vector<Field>;
enum class Table : uint8_t { kInstruction, kDma, kSemaphore, kStream, kLink, kCollective, kPath };
using UseRow = std::function<void(const Row&)>;

// Nanoseconds, to the picosecond.
std::string nanoseconds(int64_t ps) {
  const char* sign = ps < 0 ? "-" : "";
  const uint64_t value = ps < 0 ? 0 - static_cast<uint64_t>(ps) : static_cast<uint64_t>(ps);
  if (value % 1000 == 0) return format("{}{}", sign, value / 1000);
  return format("{}{}.{:03}", sign, value / 1000, value % 1000);
}

class Rows final : public Visitor {
 public:
  Rows(const Program& program, uint64_t first, Table table, const UseRow& use)
      : program_(program), first_(first), table_(table), use_(use) {}

  void instruction(const InstructionEvent& e) override {
    if (table_ != Table::kInstruction) return;
    const Known& known = known_instruction(e.engine, e.pc, e.debug, e.opcode);
    use_({{"timestamp", since_first(e.begin)},
          {"duration", nanoseconds(static_cast<int64_t>(e.end - e.begin))},
          {"engine", known.engine},
          {"opcode", known.opcode},
          {"operands", known.text},
          {"pc", std::to_string(program_.program_counter(e.engine, e.pc))},
          {"setup", program_.is_setup(e.engine, e.pc) ? "true" : "false"},
          {"nki_source_location", known.line},
          {"elements", std::to_string(e.elements)},
          {"performance_mode", e.speed == 1 ? "\"\"" : format("\"{}x\"", e.speed)},
          {"evt_wait_time_ns", nanoseconds(static_cast<int64_t>(e.wait))},
          {"waited_for", e.wait == 0 ? "\"\"" : json_string(program_.cell(e.wait_cell))}});
  }

  void stream_instruction(const StreamEvent& e) override {
    const Stream* stream = program_.stream(e.stream);
    if (table_ == Table::kLink && stream != nullptr) received(e, *stream);
    if (table_ != Table::kStream) return;
    const ntff::StreamNote* note = program_.note(e.stream, e.pc);
    const bool sent = note != nullptr && sends(*note);
    const auto wait = stream != nullptr ? stream->wait_of(e.pc, e.wait_cell) : std::nullopt;
    const bool waited = wait && is_for_rank(*wait);
    use_({{"timestamp", since_first(e.begin)},
          {"duration", nanoseconds(static_cast<int64_t>(e.end - e.begin))},
          {"cc_core", std::to_string(e.stream)},
          {"opcode", json_string(opcode_name(e.opcode))},
          {"pc", std::to_string(e.pc)},
          {"description", json_string(stream != nullptr ? stream->text(e.pc) : "")},
          {"collective", json_string(stream != nullptr ? stream->collective_name(e.pc) : "")},
          {"peer", sent ? std::to_string(note->peer) : "-1"},
          {"bytes", std::to_string(note != nullptr ? note->bytes : 0)},
          {"evt_wait_time_ns", nanoseconds(static_cast<int64_t>(e.wait))},
          {"waited_for_rank", waited ? std::to_string(wait->peer) : "-1"}});
  }

  void transfer(const TransferEvent& e) override {
    const ntff::StreamNote* note = e.stream == kNoStream ? nullptr : program_.note(e.stream, e.pc);
    const bool sent = note != nullptr && sends(*note) && e.writes != 0;
    if (table_ == Table::kLink && sent) {
      use_({{"timestamp", since_first(e.begin)},
            {"duration", nanoseconds(static_cast<int64_t>(e.end - e.begin))},
            {"direction", "\"out\""},
            {"peer", std::to_string(note->peer)},
            {"transfer_size", std::to_string(e.bytes)},
            {"collective", json_string(program_.stream(e.stream)->collective_name(e.pc))},
            {"cc_core", std::to_string(e.stream)},
            {"engine_idx", std::to_string(e.dma_engine)},
            {"source", json_string(places_text(e.reads))},
            {"dest", json_string(places_text(e.writes))}});
    }
    if (table_ != Table::kDma) return;
    const Known& known = known_instruction(e.trigger, e.pc, e.debug, e.opcode);
    use_({{"timestamp", since_first(e.begin)},
          {"duration", nanoseconds(static_cast<int64_t>(e.end - e.begin))},
          {"transfer_size", std::to_string(e.bytes)},
          {"dma_queue", json_string(program_.queue_name(e.queue))},
          {"queue_idx", std::to_string(e.queue)},
          {"engine_idx", std::to_string(e.dma_engine)},
          {"descriptors", std::to_string(e.descriptors)},
          {"source", json_string(places_text(e.reads))},
          {"dest", json_string(places_text(e.writes))},
          {"semaphore_id", "\"-1\""},
          {"trigger_engine", known.engine},
          {"trigger_pc", std::to_string(program_.program_counter(e.trigger, e.pc))},
          {"trigger", known.opcode},
          {"peer", sent ? std::to_string(note->peer) : "-1"},
          {"nki_source_location", known.line}});
  }

  void update(const UpdateEvent& e) override {
    if (table_ != Table::kSemaphore) return;
    use_({{"timestamp", since_first(e.time)},
          {"id", json_string(program_.cell(e.cell))},
          {"value", std::to_string(e.after)},
          {"before", std::to_string(e.before)},
          {"update_source", json_string(update_source_text(program_, e))}});
  }

 private:
  // Messages of other ranks. The DMA engines that moved them are theirs: here they are known from
  // when this rank began to wait for them until it saw them.
  void received(const StreamEvent& e, const Stream& stream) {
    for (const ntff::StreamWait& wait : stream.waits_of(e.pc)) {
      if (!is_arrival(wait)) continue;
      use_({{"timestamp", since_first(e.begin_of_wait())},
            {"duration", nanoseconds(static_cast<int64_t>(e.seen() - e.begin_of_wait()))},
            {"direction", "\"in\""},
            {"peer", std::to_string(wait.peer)},
            {"transfer_size", std::to_string(wait.bytes)},
            {"collective", json_string(stream.collective_name(e.pc))},
            {"cc_core", std::to_string(e.stream)},
            {"engine_idx", "-1"},
            {"source", json_string("peer")},
            {"dest", "\"\""}});
    }
  }

  // What depends on the place alone: a loop executes it many times.
  struct Known {
    std::string engine, opcode, text, line;
  };
  const Known& known_instruction(unsigned engine, uint32_t pc, uint32_t debug, unsigned opcode) {
    const auto [found, added] = known_.try_emplace({engine, pc});
    if (added) {
      found->second = {json_string(engine_name(engine)), json_string(opcode_name(opcode)),
                       json_string(program_.text(engine, pc, opcode)),
                       json_string(program_.line(engine, debug))};
    }
    return found->second;
  }
  std::string since_first(uint64_t time) const {
    return nanoseconds(static_cast<int64_t>(time - first_));
  }

  const Program& program_;
  const uint64_t first_;
  const Table table_;
  const UseRow& use_;
  std::map<std::pair<unsigned, uint32_t>, Known> known_;
};

void path_rows(const Program& program, const CriticalPath& path, uint64_t first,
               const UseRow& use) {
  for (const Step& step : path.steps) {
    const bool dma = step.kind == StepKind::kTransfer || step.kind == StepKind::kDmaStart;
    const unsigned engine = dma ? step.trigger : step.engine;
    const Stream* stream = step.stream == kNoStream ? nullptr : program.stream(step.stream);
    use({{"timestamp", nanoseconds(static_cast<int64_t>(step.begin - first))},
         {"duration", nanoseconds(static_cast<int64_t>(step.time()))},
         {"kind", json_string(step_name(step.kind))},
         {"engine", json_string(step.stream == kNoStream ? engine_name(engine)
                                                         : format("CC core {}", step.stream))},
         {"pc", std::to_string(program.program_counter(engine, step.pc))},
         {"peer", step.peer == kNoPeer ? "-1" : std::to_string(step.peer)},
         {"bytes", std::to_string(step.bytes)},
         {"collective", json_string(stream != nullptr ? stream->collective_name(step.pc) : "")},
         {"queue", dma ? json_string(program.queue_name(step.queue)) : "\"\""},
         {"waited_for", step.cell == kNoCell ? "\"\"" : json_string(program.cell(step.cell))},
         {"nki_source_location", json_string(program.line(engine, step.debug))},
         {"operands",
          json_string(stream != nullptr ? stream->text(step.pc)
                                        : program.text(engine, step.pc, step.opcode))}});
  }
}

// Bytes a second; -1: not known.
std::string rate_text(double rate) { return format("{:.0f}", rate); }

void collective_rows(const Program& program, const Summary& summary, const UseRow& use) {
  for (const CollectiveRun& run : summary.collectives.runs) {
    const Stream& stream = *program.stream(run.stream);
    const Collective& of = stream.collectives[run.collective];
    std::string ranks;
    for (const uint32_t rank : of.ranks) ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
    use({{"timestamp", nanoseconds(static_cast<int64_t>(run.begin - summary.first))},
         {"duration", nanoseconds(static_cast<int64_t>(run.end - run.begin))},
         {"collective", json_string(of.name)},
         {"operation", json_string(of.operation)},
         {"algorithm", json_string(of.algorithm)},
         {"num_elements", std::to_string(of.count)},
         {"dtype", json_string(of.type)},
         {"cc_core", std::to_string(run.stream)},
         {"number", std::to_string(run.collective)},
         {"rank", std::to_string(stream.rank)},
         {"replica_group_id", std::to_string(of.group)},
         {"replica_group", json_string(ranks)},
         {"input_size", of.sized ? std::to_string(of.input_bytes) : "-1"},
         {"output_size", of.sized ? std::to_string(of.output_bytes) : "-1"},
         {"algorithm_bandwidth", rate_text(of.sized ? of.algorithm_rate(run.end - run.begin) : -1)},
         {"bus_bandwidth", rate_text(of.sized ? of.bus_rate(run.end - run.begin) : -1)},
         {"trigger_engine", json_string(run.trigger ? engine_name(run.trigger->engine) : "")},
         {"trigger_pc", run.trigger ? std::to_string(program.program_counter(run.trigger->engine,
                                                                             run.trigger->pc))
                                    : "-1"},
         {"cc_trigger_start_delay",
          run.trigger ? nanoseconds(static_cast<int64_t>(run.begin - run.trigger->begin)) : "-1"}});
  }
}

// The names of the fields of its rows, in their order: a table without rows has columns, too.
const char* header_of(Table table) {
  switch (table) {
    case Table::kInstruction:
      return "timestamp,duration,engine,opcode,operands,pc,setup,nki_source_location,elements,"
             "performance_mode,evt_wait_time_ns,waited_for\n";
    case Table::kDma:
      return "timestamp,duration,transfer_size,dma_queue,queue_idx,engine_idx,descriptors,"
             "source,dest,semaphore_id,trigger_engine,trigger_pc,trigger,peer,"
             "nki_source_location\n";
    case Table::kSemaphore:
      return "timestamp,id,value,before,update_source\n";
    case Table::kStream:
      return "timestamp,duration,cc_core,opcode,pc,description,collective,peer,bytes,"
             "evt_wait_time_ns,waited_for_rank\n";
    case Table::kLink:
      return "timestamp,duration,direction,peer,transfer_size,collective,cc_core,engine_idx,"
             "source,dest\n";
    case Table::kCollective:
      return "timestamp,duration,collective,operation,algorithm,num_elements,dtype,cc_core,"
             "number,rank,replica_group_id,replica_group,input_size,output_size,"
             "algorithm_bandwidth,bus_bandwidth,trigger_engine,trigger_pc,"
             "cc_trigger_start_delay\n";
    case Table::kPath:
      return "timestamp,duration,kind,engine,pc,peer,bytes,collective,queue,waited_for,"
             "nki_source_location,operands\n";
  }
  return "\n";
}

std::optional<Table> table_of(const std::string& name) {
  if (name == "instruction") return Table::kInstruction;
  if (name == "dma") return Table::kDma;
  if (name == "semaphore") return Table::kSemaphore;
  if (name == "cc") return Table::kStream;
  if (name == "link") return Table::kLink;
  if (name == "collective") return Table::kCollective;
  if (name == "path") return Table::kPath;
  return std::nullopt;
}

}  // namespace

std::string places_text(unsigned places) {
  std::string text;
  const auto add = [&](unsigned bit, const char* name) {
    if ((places & bit) != 0) text += (text.empty() ? "" : "+") + std::string(name);
  };
  add(NEURON_PLACE_HBM, "hbm");
  add(NEURON_PLACE_CORE, "sbuf");
  add(NEURON_PLACE_HOST, "host");
  add(NEURON_PLACE_OTHER, "peer");
  return text.empty() ? "register" : text;
}

std::string update_source_text(const Program& program, const UpdateEvent& update) {
  if (update.source == NEURON_ENGINE_DMA) {
    return format("DMA engine {} {}", update.dma_engine, program.queue_name(update.queue));
  }
  if (update.source == NEURON_ENGINE_CC) return "collective core";
  return update.source < NEURON_CORE_ENGINES ? engine_name(update.source) : "host";
}

Result<void> write_detail_json(Profile& profile, uint32_t part, size_t execution, Sink& sink) {
  NEURON_TRY(summary, summarize(profile, part, execution));
  const Program& program = profile.parts()[part].program;
  sink.write("{\"summary\":[{");
  bool first = true;
  for (const Metric& metric : metrics_of(profile, part, summary)) {
    sink.write(format("{}\"{}\":{:.12g}", first ? "" : ",", metric.name, metric.value));
    first = false;
  }
  sink.write(
      format("}}],\"metadata\":{{\"name\":{},\"uuid\":\"{}\",\"neuroncore_idx\":{},\"neuron_device_"
             "idx\":{},"
             "\"execution\":{},\"dropped_events\":{},\"first_timestamp_offset_ns\":{}}}",
             json_string(program.name), program.uuid, program.core, program.device, execution + 1,
             profile.lost(), nanoseconds(static_cast<int64_t>(summary.first))));
  for (const char* name : {"instruction", "dma", "semaphore", "collective", "cc", "link"}) {
    const Table table = *table_of(name);
    const bool of_collectives =
        table == Table::kCollective || table == Table::kStream || table == Table::kLink;
    if (of_collectives && program.streams.empty()) continue;
    sink.write(format(",\n\"{}\":[", name));
    bool row_before = false;
    const UseRow use = [&](const Row& row) {
      std::string text = row_before ? ",\n{" : "\n{";
      row_before = true;
      for (const Field& field : row) {
        if (text.back() != '{') text += ',';
        text += format("\"{}\":{}", field.first, field.second);
      }
      sink.write(text + "}");
    };
    if (table == Table::kCollective) {
      collective_rows(program, summary, use);
    } else {
      Rows rows(program, summary.first, table, use);
      NEURON_CHECK(profile.visit(part, execution, rows));
    }
    sink.write("]");
  }
  sink.write("}\n");
  return sink.close();
}

Result<void> write_detail_csv(Profile& profile, uint32_t part, size_t execution,
                              const std::string& name, Sink& sink) {
  const auto table = table_of(name);
  if (!table) {
    return runtime::fail(NRT_INVALID,
                         "there is no table '{}'; expected instruction, dma, semaphore, "
                         "collective, cc, link or path",
                         name);
  }
  sink.write(header_of(*table));
  const UseRow use = [&](const Row& row) {
    std::string text;
    bool first = true;
    for (const Field& field : row) {
      if (!first) text += ',';
      first = false;
      // A string of JSON without quotes inside is the same in CSV.
      const bool plain = field.second.find('\\') == std::string::npos;
      text += plain ? field.second : tools::csv_cell(boost::json::value(field.second));
    }
    sink.write(text + "\n");
  };
  NEURON_TRY(summary, summarize(profile, part, execution));
  const Program& program = profile.parts()[part].program;
  if (*table == Table::kPath) {
    NEURON_TRY(timeline, Timeline::read(profile, part, execution));
    path_rows(program, critical_path(timeline, program, summary.collectives, summary.total),
              summary.first, use);
    return sink.close();
  }
  if (*table == Table::kCollective) {
    collective_rows(program, summary, use);
    return sink.close();
  }
  Rows rows(program, summary.first, *table, use);
  NEURON_CHECK(profile.visit(part, execution, rows));
  return sink.close();
}

}  // namespace neuron::profile
