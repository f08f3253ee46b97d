// SPDX-License-Identifier: Apache-2.0
//
// Tables with a row for each executed instruction or less: Instruction, AssemblyInstruction,
// CoreBarriers, ActiveTime. Callers: the tables of a profile, with the instructions in their order.
// One thread. Borrows the program and the frames. Memory does not grow with the rows. Fails as the
// files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_INSTRUCTION_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_INSTRUCTION_TABLES_H

#include <array>

#include "tools/neuron-profile/analysis/busy_time.h"
#include "tools/neuron-profile/analysis/instruction_facts.h"
#include "tools/neuron-profile/output/source_frames.h"
#include "tools/neuron-profile/output/table_set.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

// Sums over instructions, for the summary.
struct Work {
  uint64_t psum_read = 0, psum_write = 0;
  uint64_t psum_to_sbuf = 0, psum_to_sbuf_count = 0;
  uint64_t adjusted_flops = 0, adjusted_transpose_flops = 0;
};

class InstructionTables {
 public:
  // `end`: of the execution; an engine is not active behind it.
  InstructionTables(const Program& program, const SourceFrames& frames, Origin origin, uint64_t end,
                    const std::string& folder);

  // The row that the next instruction gets.
  uint64_t next_row() const { return instructions_.rows(); }
  void add(const InstructionEvent& e, const InstructionFacts& facts);
  const Work& work() const { return work_; }
  runtime::Result<void> close(TableSet& tables);

 private:
  // Places of the fields.
  struct Fields {
    const parquet::Table& of = parquet::table("Instruction");
    size_t begin = of.field("start_ts"), end = of.field("end_ts"),
           duration = of.field("duration_ns"), engine = of.field("engine"),
           track = of.field("timeline_track"), core = of.field("pcore_idx"),
           opcode = of.field("opcode"), operands = of.field("operands"),
           compiler_opcode = of.field("compiler_opcode"),
           compiler_operands = of.field("compiler_operands"), id = of.field("id"),
           pc = of.field("pc"), compiler_pc = of.field("compiler_pc"),
           kernel = of.field("kernel_instruction_name"), wait = of.field("evt_wait_time_ns"),
           frames = of.field("stack_frame_ids"), line = of.field("nki_source_location"),
           sbuf_read = of.field("sbuf_read_bytes"), sbuf_write = of.field("sbuf_write_bytes"),
           psum_read = of.field("psum_read_bytes"), psum_write = of.field("psum_write_bytes"),
           psum_to_sbuf = of.field("psum_read_sbuf_write_bytes"),
           mode = of.field("performance_mode"), kind = of.field("tensor_instruction_type"),
           elements = of.field("tensor_elements"), flops = of.field("raw_flops"),
           adjusted = of.field("adjusted_flops"), moved = of.field("tensor_elements_transpose"),
           moved_flops = of.field("flops_transpose"),
           adjusted_moved = of.field("adjusted_flops_transpose"),
           activation = of.field("scalar_activation_fn");
  };
  struct AssemblyFields {
    const parquet::Table& of = parquet::table("AssemblyInstruction");
    size_t id = of.field("instruction_id"), opcode = of.field("compiler_opcode"),
           operands = of.field("compiler_operands"), pc = of.field("compiler_pc");
  };
  struct ActiveFields {
    const parquet::Table& of = parquet::table("ActiveTime");
    size_t begin = of.field("start_ts"), end = of.field("end_ts"), engine = of.field("engine"),
           core = of.field("pcore_idx"), duration = of.field("duration_ns");
  };
  struct Known {
    uint32_t engine, opcode, text, line, track;
    uint32_t frames, kernel, activation;  // 0: none, else 1 more
  };
  struct KnownAssembly {
    uint32_t opcode, text;
  };

  Known describe(const InstructionEvent& e, const InstructionFacts& facts);
  void set_work(const InstructionEvent& e, const InstructionFacts& facts);
  void add_assembly(const InstructionEvent& e, uint64_t row);
  void add_barrier(const InstructionEvent& e, const InstructionFacts& facts);
  void add_active(unsigned engine, uint64_t begin, uint64_t end);

  const Program& program_;
  const SourceFrames& frames_;
  const Origin origin_;
  const uint64_t end_;
  parquet::TableWriter instructions_, assembly_, barriers_, active_;
  const Fields f_;
  const AssemblyFields a_;
  const ActiveFields t_;
  KnownTexts<Known> known_;
  KnownTexts<KnownAssembly> known_assembly_;
  std::array<BusyTime, NEURON_CORE_ENGINES> busy_;
  Work work_;
  FirstFailure failure_;
};

}  // namespace neuron::profile

#endif
