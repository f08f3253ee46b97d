// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <set>

#include "driver/base/format.h"
#include "tools/compiler/assembler/instruction_printer.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/program_printer.h"
#include "tools/compiler/assembler/sections.h"

namespace neuron::assembler {

using base::format;

namespace {

constexpr size_t kCommentColumn = 100;

std::string real_text(uint32_t bits) {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%.9g", static_cast<double>(std::bit_cast<float>(bits)));
  return buffer;
}

class EnginePrinter {
 public:
  EnginePrinter(const neff::Subgraph& subgraph, const neff::EngineProgram& program)
      : subgraph_(subgraph), program_(program), instructions_(subgraph, program) {}

  std::string transfers();
  std::string lines();
  std::string tables();
  std::string code();

 private:
  void find_labels();
  void find_loops();
  std::string access(const neff::DmaAccess& access) const;
  std::string transfer(const neff::DmaTransfer& transfer, const std::string& function) const;
  std::string entry(const neff::ProgramEntry& entry, bool with_pc) const;
  std::string comment(uint32_t pc, const std::string& text) const;
  uint32_t default_length(const neff::ProgramEntry& entry) const;

  const neff::Subgraph& subgraph_;
  const neff::EngineProgram& program_;
  InstructionPrinter instructions_;
  std::map<uint32_t, std::string> labels_;  // By pc
  std::set<uint32_t> loops_;                // That can be written as blocks
  std::map<uint32_t, unsigned> ends_;       // By pc: blocks that end in front of it
};

// x + 0x100 f32 [128:262144, 64]
std::string EnginePrinter::access(const neff::DmaAccess& access) const {
  std::string text = spelled(subgraph_.variables[access.variable].name);
  if (access.offset) text += format(" + {:#x}", access.offset);
  if (access.dtype != NEURON_DTYPE_U8) text += format(" {}", isa::dtype_name(access.dtype));
  text += " [";
  std::array<bool, 4> plain{};
  uint64_t contiguous = 1;
  for (unsigned d = 0; d < access.dimensions; ++d) {
    plain[d] = access.steps[d] >= 0 && static_cast<uint64_t>(access.steps[d]) == contiguous;
    contiguous *= access.sizes[d];
  }
  for (unsigned d = access.dimensions; d-- > 0;) {
    text += std::to_string(access.sizes[d]);
    if (!plain[d]) text += format(":{}", access.steps[d]);
    if (d > 0) text += ", ";
  }
  return text + "]";
}

std::string EnginePrinter::transfer(const neff::DmaTransfer& transfer,
                                    const std::string& function) const {
  const auto named = instructions_.blocks().find(transfer.id);
  std::string text = format(".dma {}", transfer.id);
  if (named != instructions_.blocks().end()) text += " " + named->second;
  text += " : ";
  for (size_t i = 0; i < transfer.from.size(); ++i) {
    text += (i ? ", " : "") + access(transfer.from[i]);
    if (!has_own_scale(transfer, transfer.from[i])) continue;
    text += " * " + real_text(std::bit_cast<uint32_t>(transfer.from[i].scale));
  }
  text += " -> " + access(transfer.to);
  text += ", queue=" + spelled(subgraph_.queues[transfer.queue].name);
  if (!transfer.instance.empty()) text += ", instance=" + spelled(transfer.instance);
  if (!function.empty()) text += ", function=" + spelled(function);
  if (transfer.starts_section) text += ", section";
  if (transfer.event) text += format(", event=e{}", *transfer.event);
  if (transfer.semaphore) {
    text += ", semaphore=" + instructions_.semaphore(*transfer.semaphore);
  }
  if (transfer.priority != 0) text += format(", priority={}", transfer.priority);
  std::string remote;
  for (uint8_t number : transfer.remote_semaphores) {
    remote += (remote.empty() ? "" : ", ") + std::to_string(number);
  }
  if (!remote.empty()) text += ", remote=[" + remote + "]";
  if (transfer.operation != neff::DmaOperation::kCopy) {
    text += format(", op={}", kTransferOperations[static_cast<int>(transfer.operation)]);
  }
  switch (transfer.operation) {
    case neff::DmaOperation::kFma:
      text += ", scale=" + real_text(std::bit_cast<uint32_t>(transfer.scale));
      break;
    case neff::DmaOperation::kMin:
    case neff::DmaOperation::kMax:
      text += transfer.constant_dtype == NEURON_DTYPE_F32
                  ? ", constant=" + real_text(transfer.constant)
                  : format(", constant={:#x} {}", transfer.constant,
                           isa::dtype_name(transfer.constant_dtype));
      break;
    case neff::DmaOperation::kTranspose:
      text += format(", shape=[{}, {}, {}, {}], element={}", transfer.transpose_shape[0],
                     transfer.transpose_shape[1], transfer.transpose_shape[2],
                     transfer.transpose_shape[3], transfer.transpose_element_bytes);
      break;
    default:
      break;
  }
  return text + "\n";
}

std::string EnginePrinter::transfers() {
  std::string text;
  FunctionSections sections(subgraph_, program_);
  for (const neff::DmaTransfer& each : program_.dma) {
    text += transfer(each, sections.opened_by(each));
  }
  return text;
}

std::string EnginePrinter::lines() {
  std::string text;
  for (const neff::SourceLine& line : program_.lines) {
    text += format(".line {} {} {}", line.debug, in_quotes(line.file), line.line);
    if (line.column) text += format(":{}", line.column);
    text += "\n";
  }
  return text;
}

std::string EnginePrinter::tables() {
  std::string text;
  for (const std::string& set : program_.activation_function_sets) {
    text += ".function_sets " + in_quotes(set) + "\n";
  }
  const auto name = [](const std::string& path) {
    return in_quotes(path.substr(path.rfind('/') + 1));
  };
  for (const neff::DveTableFiles& files : program_.dve_tables) {
    text += format(".dve_table {}, {}, {}\n", name(files.control), name(files.datapath),
                   name(files.opcode));
  }
  return text;
}

void EnginePrinter::find_labels() {
  const uint32_t count = program_.instructions();
  for (uint32_t pc = 0; pc < count; ++pc) {
    const isa::Instruction i = isa::decode(instructions_.bytes(pc));
    if (i.opcode != NEURON_OP_BRANCH && i.opcode != NEURON_OP_CALL) continue;
    const int64_t target = static_cast<int64_t>(pc) + i.flow.target;
    const bool relocated =
        std::any_of(program_.relocations.begin(), program_.relocations.end(),
                    [&](const auto& r) { return r.pc == pc && r.kind == NEURON_RELOC_PC; });
    if (target < 0 || target >= count || relocated) continue;
    const auto at = static_cast<uint32_t>(target);
    labels_[at] = format(".L{}", at);
  }
}

void EnginePrinter::find_loops() {
  std::vector<uint32_t> open;  // Ends of the blocks around
  for (uint32_t pc = 0; pc < program_.instructions(); ++pc) {
    while (!open.empty() && open.back() <= pc) open.pop_back();
    const isa::Instruction i = isa::decode(instructions_.bytes(pc));
    if (i.opcode != NEURON_OP_LOOP || i.loop.length == 0) continue;
    const uint64_t end = uint64_t{pc} + 1 + i.loop.length;
    if (end > (open.empty() ? program_.instructions() : open.back())) continue;
    if (!instructions_.print(pc, labels_, true).ends_with(" {")) continue;
    open.push_back(static_cast<uint32_t>(end));
    loops_.insert(pc);
    ++ends_[static_cast<uint32_t>(end)];
  }
}

uint32_t EnginePrinter::default_length(const neff::ProgramEntry& entry) const {
  if (entry.kind == NEURON_ENTRY_LABEL) return 0;
  uint32_t end = program_.instructions();
  for (const neff::ProgramEntry& other : program_.entries) {
    if (other.kind != NEURON_ENTRY_LABEL && other.pc > entry.pc) end = std::min(end, other.pc);
  }
  return end - entry.pc;
}

std::string EnginePrinter::entry(const neff::ProgramEntry& entry, bool with_pc) const {
  const bool usual = entry.length == default_length(entry);
  const bool twice =
      std::count_if(program_.entries.begin(), program_.entries.end(),
                    [&](const neff::ProgramEntry& e) { return e.name == entry.name; }) > 1;
  const bool plain = !with_pc && usual && !twice && !entry.name.starts_with(".L");
  const bool is_main = entry.name == "main";
  if (plain && (entry.kind == NEURON_ENTRY_LABEL || entry.kind == NEURON_ENTRY_MAIN) &&
      is_main == (entry.kind == NEURON_ENTRY_MAIN)) {
    return spelled(entry.name) + ":\n";
  }
  std::string text = format(".entry {} {}", spelled(entry.name), kEntryKinds[entry.kind]);
  if (with_pc) text += format(", pc={}", entry.pc);
  if (!usual) text += format(", length={}", entry.length);
  return text + "\n";
}

std::string EnginePrinter::comment(uint32_t pc, const std::string& text) const {
  const uint32_t debug = isa::decode(instructions_.bytes(pc)).debug;
  std::string comment = std::to_string(pc);
  const auto line = std::lower_bound(
      program_.lines.begin(), program_.lines.end(), debug,
      [](const neff::SourceLine& candidate, uint32_t id) { return candidate.debug < id; });
  if (debug != 0 && line != program_.lines.end() && line->debug == debug) {
    comment += format(" {}:{}", base::escaped(line->file), line->line);
  }
  const size_t used = std::min(text.size(), kCommentColumn);
  return std::string(kCommentColumn - used, ' ') + "  # " + comment;
}

std::string EnginePrinter::code() {
  find_labels();
  find_loops();
  const auto& entries = program_.entries;
  const bool in_order = std::is_sorted(entries.begin(), entries.end(),
                                       [](const auto& a, const auto& b) { return a.pc < b.pc; });
  std::string text;
  if (!in_order) {
    for (const neff::ProgramEntry& each : entries) text += entry(each, true);
  }
  size_t next_entry = in_order ? 0 : entries.size();
  unsigned depth = 0;
  const auto indent = [&] { return std::string(2 + 2 * size_t{depth}, ' '); };
  const auto close = [&](uint32_t pc) {
    const auto place = ends_.find(pc);
    for (unsigned n = place == ends_.end() ? 0 : place->second; n > 0; --n) {
      --depth;
      text += indent() + "}\n";
    }
  };
  const uint32_t count = program_.instructions();
  for (uint32_t pc = 0; pc < count; ++pc) {
    close(pc);
    for (; next_entry < entries.size() && entries[next_entry].pc == pc; ++next_entry) {
      text += entry(entries[next_entry], false);
    }
    if (const auto label = labels_.find(pc); label != labels_.end()) text += label->second + ":\n";
    const bool block = loops_.contains(pc);
    std::string line = indent() + instructions_.print(pc, labels_, block);
    const bool word = line.find_first_not_of(' ') == line.find(".word");
    const bool broken =
        !word && broken_rule(instructions_.bytes(pc), program_.engine, program_.generation);
    if (broken) text += ".check off\n";
    text += line + comment(pc, line) + "\n";
    if (broken) text += ".check on\n";
    if (block) ++depth;
  }
  close(count);
  return text;
}

}  // namespace

std::string engine_text(const neff::Subgraph& subgraph, const neff::EngineProgram& program,
                        const EngineFiles& files, uint32_t generation, const std::string& keys) {
  const std::string stem = neff::engine_name(program.engine);
  std::string text = format("\n.engine {}{}", stem, keys);
  if (program.engine == NEURON_ENGINE_CC || files.bin != stem + ".bin") {
    text += ", bin=" + in_quotes(files.bin);
  }
  if (files.json.empty()) {
    text += ", json=none";
  } else if (program.engine == NEURON_ENGINE_CC || files.json != stem + ".json") {
    text += ", json=" + in_quotes(files.json);
  }
  if (program.generation != generation) text += format(", generation={}", program.generation);
  EnginePrinter printer(subgraph, program);
  return text + "\n" + printer.tables() + printer.transfers() + printer.lines() + printer.code();
}

}  // namespace neuron::assembler
