// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/source_frames.h"

#include <cstring>

namespace neuron::profile {
namespace {

using parquet::TableWriter;
using runtime::Result;

// The number and the name of each, in the order of the numbers.
Result<void> write_names(TableSet& tables, const char* table,
                         const std::vector<std::string>& names) {
  return tables.write(table, [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    for (size_t n = 0; n < names.size(); ++n) {
      to.set_text(t.field("id"), std::to_string(n + 1));
      to.set_text(t.field("name"), names[n]);
      NEURON_CHECK(to.end_row());
    }
    return {};
  });
}

uint32_t debug_of(const Program& program, unsigned engine, uint32_t pc) {
  uint32_t debug = 0;
  std::memcpy(&debug,
              program.engines[engine].bytes.data() + size_t{pc} * NEURON_INSTRUCTION_BYTES +
                  NEURON_INST_DEBUG,
              sizeof(debug));
  return debug;
}

}  // namespace

SourceFrames::SourceFrames(const Program& program) : program_(program) {
  for (const NamedRange& range : program.functions) {
    functions_.try_emplace(range.name, static_cast<uint32_t>(functions_.size() + 1));
  }
  for (unsigned engine = 0; engine < program.engines.size(); ++engine) {
    for (const ntff::TraceLine& line : program.engines[engine].lines) {
      if (line.file >= program.files.size()) continue;
      frames_.try_emplace(place_of(engine, line), static_cast<uint32_t>(frames_.size() + 1));
    }
  }
}

SourceFrames::Frame SourceFrames::place_of(unsigned, const ntff::TraceLine& line) const {
  const auto function = functions_.find(program_.function(line.debug));
  return {line.file, line.line, function != functions_.end() ? function->second : 0};
}

uint32_t SourceFrames::frame_of(unsigned engine, uint32_t debug) const {
  const ntff::TraceLine* line = program_.source(engine, debug);
  if (line == nullptr) return 0;
  const auto found = frames_.find(place_of(engine, *line));
  return found != frames_.end() ? found->second : 0;
}

std::string SourceFrames::kernel_name(unsigned engine, uint32_t pc, uint32_t debug) const {
  const ntff::TraceLine* line = program_.source(engine, debug);
  if (line == nullptr || !program_.files[line->file].ends_with(".py")) return {};
  return std::string(engine_name(engine)) + "." +
         std::to_string(program_.program_counter(engine, pc)) + ":0";
}

Result<void> SourceFrames::write(TableSet& tables) const {
  if (frames_.empty()) return {};
  NEURON_CHECK(write_places(tables));
  return write_kernels(tables);
}

Result<void> SourceFrames::write_places(TableSet& tables) const {
  std::vector<const Frame*> frames(frames_.size());
  for (const auto& [frame, number] : frames_) frames[number - 1] = &frame;
  NEURON_CHECK(
      tables.write("StackFrame", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
        for (size_t n = 1; n <= frames.size(); ++n) {
          to.set_text(t.field("id"), std::to_string(n));
          to.set(t.field("file_location_id"), static_cast<int64_t>(n));
          to.set_text(t.field("parent_frame_id"), "0");
          NEURON_CHECK(to.end_row());
        }
        return {};
      }));
  NEURON_CHECK(tables.write("StackFrameFileLocation",
                            [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
                              for (size_t n = 0; n < frames.size(); ++n) {
                                to.set_text(t.field("id"), std::to_string(n + 1));
                                to.set(t.field("file_name_id"), int64_t{frames[n]->file} + 1);
                                to.set(t.field("function_name_id"), frames[n]->function);
                                to.set(t.field("line_number"), frames[n]->line);
                                NEURON_CHECK(to.end_row());
                              }
                              return {};
                            }));
  NEURON_CHECK(write_names(tables, "StackFrameFileName", program_.files));
  std::vector<std::string> functions(functions_.size());
  for (const auto& [name, number] : functions_) functions[number - 1] = name;
  return write_names(tables, "StackFrameFunctionName", functions);
}

Result<void> SourceFrames::write_kernels(TableSet& tables) const {
  // A function, and the file of its first instruction.
  std::map<uint32_t, uint32_t> file_of;
  NEURON_CHECK(tables.write(
      "KernelInstructions", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
        for (unsigned engine = 0; engine < program_.engines.size(); ++engine) {
          for (uint32_t pc = 0; pc < program_.engines[engine].instructions(); ++pc) {
            const uint32_t debug = debug_of(program_, engine, pc);
            const std::string name = kernel_name(engine, pc, debug);
            if (name.empty()) continue;
            const ntff::TraceLine& line = *program_.source(engine, debug);
            const Frame frame = place_of(engine, line);
            to.set_text(t.field("kernel_instruction_name"), name);
            if (frame.function != 0) {
              file_of.try_emplace(frame.function, frame.file);
              to.set(t.field("stack_frame_id"), frame.function);
              to.set(t.field("stack_frame_depth"), 1);
            }
            to.set(t.field("pcore_idx"), program_.part);
            to.set_text(t.field("file_path"), program_.files[line.file]);
            to.set(t.field("line_number"), line.line);
            NEURON_CHECK(to.end_row());
          }
        }
        return {};
      }));
  return tables.write("KernelStackFrames",
                      [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
                        for (const auto& [name, number] : functions_) {
                          const auto file = file_of.find(number);
                          if (file == file_of.end()) continue;
                          to.set(t.field("stack_frame_id"), number);
                          to.set_text(t.field("fully_qualified_function_name"), name);
                          to.set(t.field("pcore_idx"), program_.part);
                          to.set_text(t.field("file_path"), program_.files[file->second]);
                          NEURON_CHECK(to.end_row());
                        }
                        return {};
                      });
}

}  // namespace neuron::profile
