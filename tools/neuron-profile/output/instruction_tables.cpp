// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/instruction_tables.h"

#include <algorithm>

namespace neuron::profile {
namespace {

uint64_t key_of(const InstructionEvent& e) { return uint64_t{e.engine} << 32 | e.pc; }

}  // namespace

InstructionTables::InstructionTables(const Program& program, const SourceFrames& frames,
                                     Origin origin, uint64_t end, const std::string& folder)
    : program_(program),
      frames_(frames),
      origin_(origin),
      end_(end),
      instructions_(parquet::table("Instruction"), folder),
      assembly_(parquet::table("AssemblyInstruction"), folder),
      barriers_(parquet::table("CoreBarriers"), folder),
      active_(parquet::table("ActiveTime"), folder) {
  for (unsigned engine = 0; engine < busy_.size(); ++engine) {
    busy_[engine] = BusyTime(
        [this, engine](uint64_t begin, uint64_t finish) { add_active(engine, begin, finish); });
  }
}

InstructionTables::Known InstructionTables::describe(const InstructionEvent& e,
                                                     const InstructionFacts& facts) {
  parquet::TableWriter& to = instructions_;
  const auto some = [&](const std::string& text) { return text.empty() ? 0 : to.known(text) + 1; };
  const uint32_t frame = frames_.frame_of(e.engine, e.debug);
  const bool setup = program_.is_setup(e.engine, e.pc);
  return {.engine = to.known(engine_name(e.engine)),
          .opcode = to.known(opcode_name(e.opcode)),
          .text = to.known(program_.text(e.engine, e.pc, e.opcode)),
          .line = to.known(program_.line(e.engine, e.debug)),
          .track = to.known(std::string(engine_name(e.engine)) + (setup ? ": set-up" : "")),
          .frames = some(frame == 0 ? "" : "[" + std::to_string(frame) + "]"),
          .kernel = some(frames_.kernel_name(e.engine, e.pc, e.debug)),
          .activation = some(facts.activation)};
}

void InstructionTables::add(const InstructionEvent& e, const InstructionFacts& facts) {
  parquet::TableWriter& to = instructions_;
  const Known& known = known_.of(key_of(e), to, [&] { return describe(e, facts); });
  const uint64_t row = next_row();
  const int64_t begin = origin_.since(e.begin), end = origin_.since(e.end);
  to.set(f_.begin, begin);
  to.set(f_.end, end);
  to.set(f_.duration, end - begin);
  to.set_known(f_.engine, known.engine);
  to.set_known(f_.track, known.track);
  to.set(f_.core, program_.part);
  to.set_known(f_.opcode, known.opcode);
  to.set_known(f_.operands, known.text);
  to.set(f_.id, static_cast<int64_t>(row));
  to.set(f_.pc, program_.program_counter(e.engine, e.pc));
  to.set(f_.wait, ns(static_cast<int64_t>(e.wait)));
  to.set_known(f_.line, known.line);
  to.set(f_.elements, e.elements);
  if (known.frames != 0) to.set_known(f_.frames, known.frames - 1);
  if (known.kernel != 0) to.set_known(f_.kernel, known.kernel - 1);
  if (known.activation != 0) to.set_known(f_.activation, known.activation - 1);
  if (e.speed > 1) to.set_text(f_.mode, e.speed == 2 ? "2x" : "4x");
  set_work(e, facts);
  if (program_.has(e.engine, e.pc) && !program_.is_setup(e.engine, e.pc)) {
    to.set_known(f_.compiler_opcode, known.opcode);
    to.set_known(f_.compiler_operands, known.text);
    to.set(f_.compiler_pc, program_.program_counter(e.engine, e.pc));
    add_assembly(e, row);
  }
  failure_.keep(to.end_row());
  if (facts.meets_core) add_barrier(e, facts);
  busy_[e.engine].add(e.begin, std::min(e.end, end_));
}

void InstructionTables::set_work(const InstructionEvent& e, const InstructionFacts& facts) {
  parquet::TableWriter& to = instructions_;
  const auto set = [&](size_t field, uint64_t value) {
    to.set(field, static_cast<int64_t>(value));
  };
  if (facts.has_bytes) {
    set(f_.sbuf_read, facts.sbuf_read);
    set(f_.sbuf_write, facts.sbuf_write);
    set(f_.psum_read, facts.psum_read);
    set(f_.psum_write, facts.psum_write);
    const uint64_t moved = facts.sbuf_write != 0 ? facts.psum_read : 0;
    set(f_.psum_to_sbuf, moved);
    work_.psum_read += facts.psum_read;
    work_.psum_write += facts.psum_write;
    work_.psum_to_sbuf += moved;
    work_.psum_to_sbuf_count += moved != 0 ? 1 : 0;
  }
  if (!facts.multiplies || !facts.has_bytes) return;
  const auto adjusted = static_cast<uint64_t>(static_cast<double>(facts.flops) * facts.bf16_passes);
  work_.adjusted_flops += adjusted;
  work_.adjusted_transpose_flops += facts.transposes ? adjusted : 0;
  to.set_text(f_.kind, facts.transposes ? "TRANSPOSE" : "REGULAR");
  set(f_.flops, facts.flops);
  set(f_.adjusted, adjusted);
  set(f_.moved, facts.transposes ? e.elements : 0);
  set(f_.moved_flops, facts.transposes ? facts.flops : 0);
  set(f_.adjusted_moved, facts.transposes ? adjusted : 0);
}

void InstructionTables::add_assembly(const InstructionEvent& e, uint64_t row) {
  parquet::TableWriter& to = assembly_;
  const KnownAssembly& known = known_assembly_.of(key_of(e), to, [&] {
    return KnownAssembly{to.known(opcode_name(e.opcode)),
                         to.known(program_.text(e.engine, e.pc, e.opcode))};
  });
  to.set(a_.id, static_cast<int64_t>(row));
  to.set_known(a_.opcode, known.opcode);
  to.set_known(a_.operands, known.text);
  to.set(a_.pc, program_.program_counter(e.engine, e.pc));
  failure_.keep(to.end_row());
}

// From when the engine began to wait for the other core.
void InstructionTables::add_barrier(const InstructionEvent& e, const InstructionFacts& facts) {
  parquet::TableWriter& to = barriers_;
  const parquet::Table& t = to.table();
  const uint64_t since = e.wait == 0 ? e.begin : e.wait_end - std::min(e.wait, e.wait_end);
  const int64_t begin = origin_.since(std::min(since, e.begin)), end = origin_.since(e.end);
  to.set(t.field("start_ts"), begin);
  to.set(t.field("end_ts"), end);
  to.set(t.field("duration_ns"), end - begin);
  to.set_text(t.field("engine_name"), engine_name(e.engine));
  to.set(t.field("id"), static_cast<int64_t>(to.rows()));
  to.set(t.field("semaphore"), facts.semaphore);
  to.set(t.field("compiler_pc"), program_.program_counter(e.engine, e.pc));
  to.set_text(t.field("compiler_opcode"), opcode_name(e.opcode));
  to.set_text(t.field("compiler_operands"), program_.text(e.engine, e.pc, e.opcode));
  to.set(t.field("pcore_idx"), program_.part);
  failure_.keep(to.end_row());
}

void InstructionTables::add_active(unsigned engine, uint64_t begin, uint64_t end) {
  parquet::TableWriter& to = active_;
  const int64_t from = origin_.since(begin), until = origin_.since(end);
  to.set(t_.begin, from);
  to.set(t_.end, until);
  to.set_text(t_.engine, engine_name(engine));
  to.set(t_.core, program_.part);
  to.set(t_.duration, until - from);
  failure_.keep(to.end_row());
}

runtime::Result<void> InstructionTables::close(TableSet& tables) {
  for (BusyTime& busy : busy_) busy.finish();
  NEURON_CHECK(failure_.state());
  for (parquet::TableWriter* writer : {&instructions_, &assembly_, &barriers_, &active_}) {
    NEURON_CHECK(tables.close(*writer));
  }
  return {};
}

}  // namespace neuron::profile
