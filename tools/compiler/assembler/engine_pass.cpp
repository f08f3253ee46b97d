// SPDX-License-Identifier: Apache-2.0
// The second pass: transfers, then labels and instructions of one engine.
#include <algorithm>
#include <cstring>

#include "driver/base/format.h"
#include "tools/compiler/assembler/instruction_parser.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/operand_parser.h"
#include "tools/compiler/assembler/source.h"
#include "tools/compiler/assembler/trigger_order.h"

namespace neuron::assembler {

using base::format;

namespace {

constexpr const char* kLocalPrefix = ".L";  // Labels that are not stored in the file

class EnginePass {
 public:
  EnginePass(Source& source, const ProgramText& text)
      : source_(source),
        text_(text),
        program_(source.program_of(text)),
        subgraph_(source.subgraph(text.subgraph)) {}

  void run();

 private:
  struct Label {
    uint32_t pc = 0;
  };
  struct Jump {
    uint32_t pc = 0;
    uint32_t line = 0;
    LabelUse use;
  };
  struct Loop {
    uint32_t pc = 0;
    uint32_t line = 0;
  };
  struct Entry {
    bool has_length = false;
  };

  void transfers();
  void line(const SourceLine& line);
  void label(Cursor& cursor, const std::string& name, const Token& at);
  void entry(Cursor& cursor);
  void debug_line(Cursor& cursor);
  void word(Cursor& cursor);
  void tables(Cursor& cursor, std::string_view directive);
  void instruction(Cursor& cursor, const SourceLine& line);
  void close_block(Cursor& cursor);
  void append(const isa::Instruction& instruction);
  void add_relocations(ParsedInstruction& parsed, uint32_t pc, Place at);
  void resolve_jumps();
  void complete_entries();
  void resolve_functions();
  void check(const SourceLine& line, uint32_t column, uint32_t pc);
  void check_triggers();

  uint32_t here() const { return program_.instructions(); }
  isa::MutableBytes bytes_at(uint32_t pc) {
    auto* first = reinterpret_cast<std::byte*>(program_.code.data());
    return isa::MutableBytes(first + size_t{pc} * NEURON_INSTRUCTION_BYTES,
                             NEURON_INSTRUCTION_BYTES);
  }

  Source& source_;
  const ProgramText& text_;
  neff::EngineProgram& program_;
  neff::Subgraph& subgraph_;
  InstructionSymbols symbols_;
  std::map<std::string, Label, std::less<>> labels_;
  std::vector<Jump> jumps_;
  std::vector<Loop> loops_;
  std::vector<Entry> entries_;  // Parallel to program_.entries
  std::map<uint32_t, neff::SourceLine> lines_;
  std::vector<std::pair<std::string, Reference>> functions_;  // Of transfers, by order
  std::map<uint32_t, Place> triggers_;                        // By pc; not those below .check off
};

void EnginePass::run() {
  for (const neff::Semaphore& semaphore : subgraph_.semaphores) {
    symbols_.semaphores[semaphore.name] = semaphore.number;
  }
  transfers();
  for (const SourceLine& text : text_.lines) {
    if (source_.full()) return;
    line(text);
  }
  if (!loops_.empty()) source_.add({loops_.back().line, 1, "this loop has no \"}\""});
  if (here() == 0) {
    if (!source_.result.ok()) return;  // A refused line may have been one
    source_.add({text_.place.line, text_.place.column,
                 format("{} of {} has no instruction; expected at least ret",
                        neff::engine_name(program_.engine), subgraph_.name)});
    return;
  }
  resolve_jumps();
  complete_entries();
  resolve_functions();
  if (source_.result.ok()) check_triggers();
  for (auto& [id, entry] : lines_) program_.lines.push_back(std::move(entry));
}

void EnginePass::transfers() {
  for (const SourceLine& text : text_.lines) {
    Cursor cursor(text.text, text.number, &source_.constants);
    if (!cursor.accept(".dma")) continue;
    std::string name, function;
    const uint32_t column = cursor.peek().column;
    neff::DmaTransfer transfer = parse_transfer(cursor, subgraph_, name, function);
    source_.add(cursor);
    if (!cursor.ok()) continue;
    if (!name.empty()) {
      const auto [place, added] = symbols_.blocks.try_emplace(name, transfer.id);
      if (!added && place->second != transfer.id) {
        source_.add({text.number, column,
                     format("found block {} with id {}, expected id {} as above", in_quotes(name),
                            transfer.id, place->second)});
      }
    }
    source_.places[format("{}/{}: dma[{}]", subgraph_.name, source_.files_of(text_).json,
                          program_.dma.size())] = {text.number, column};
    functions_.push_back({function, {text_.subgraph, 0, text.number, column, {}}});
    program_.dma.push_back(std::move(transfer));
  }
}

void EnginePass::line(const SourceLine& text) {
  Cursor cursor(text.text, text.number, &source_.constants);
  while (cursor.ok()) {
    const Token at = cursor.peek();
    const bool named = at.kind == Token::kName || at.kind == Token::kString;
    if (!named || cursor.peek_second().text != ":") break;
    const std::string name = cursor.name("a label");
    cursor.expect(":");
    label(cursor, name, at);
  }
  if (cursor.at_end()) {
    // A label alone.
  } else if (cursor.accept(".dma")) {
    return;
  } else if (cursor.accept(".entry")) {
    entry(cursor);
  } else if (cursor.accept(".line")) {
    debug_line(cursor);
  } else if (cursor.accept(".word")) {
    word(cursor);
  } else if (cursor.is(".function_sets") || cursor.is(".dve_table")) {
    tables(cursor, cursor.next().text);
  } else if (cursor.accept("}")) {
    close_block(cursor);
  } else if (cursor.peek().text.starts_with(".")) {
    cursor.expected(
        "a directive: .neff, .target, .subgraph, .equ, .sem, .input, .output, .var, .const, "
        ".queue, .member, .check, .engine, .dma, .entry, .line, .word, .function_sets or "
        ".dve_table");
  } else {
    instruction(cursor, text);
  }
  cursor.expect_end();
  source_.add(cursor);
}

void EnginePass::label(Cursor& cursor, const std::string& name, const Token& at) {
  if (!cursor.ok()) return;
  if (!labels_.try_emplace(name, Label{here()}).second) {
    return cursor.expected_at(at, "a name that no other label of this engine has");
  }
  if (name.starts_with(kLocalPrefix)) return;
  program_.entries.push_back({name, here(), 0, NEURON_ENTRY_LABEL});
  entries_.push_back({});
}

// .entry NAME main|function|label, pc=0, length=5
void EnginePass::entry(Cursor& cursor) {
  neff::ProgramEntry entry;
  Entry facts;
  entry.name = cursor.name("a name");
  entry.pc = here();
  const Token at = cursor.peek();
  const auto kind = index_of(kEntryKinds, cursor.name("main, function or label"));
  if (!kind) cursor.expected_at(at, "main, function or label");
  entry.kind = kind.value_or(0);
  while (cursor.ok() && !cursor.at_end()) {
    if (cursor.accept(",")) continue;
    const bool length = cursor.accept("length");
    if (!length) cursor.expect("pc");
    cursor.expect("=");
    const auto number =
        static_cast<uint32_t>(cursor.integer("a number of instructions", 0, NEURON_PROGRAM_MAX));
    (length ? entry.length : entry.pc) = number;
    facts.has_length |= length;
  }
  if (!cursor.ok()) return;
  labels_.try_emplace(entry.name, Label{entry.pc});
  program_.entries.push_back(std::move(entry));
  entries_.push_back(facts);
}

// .line 3 "attention/main" 12:4
void EnginePass::debug_line(Cursor& cursor) {
  neff::SourceLine line;
  const Token at = cursor.peek();
  line.debug = static_cast<uint32_t>(cursor.integer("a debug id", 1, UINT32_MAX));
  line.file = cursor.name("a file");
  line.line = static_cast<uint32_t>(cursor.integer("a line", 0, UINT32_MAX));
  if (cursor.accept(":")) {
    line.column = static_cast<uint16_t>(cursor.integer("a column", 0, 65535));
  }
  if (!cursor.ok()) return;
  const uint32_t id = line.debug;
  if (!lines_.emplace(id, std::move(line)).second) {
    cursor.expected_at(at, "an id that no other line has");
  }
}

// Bytes in the order of memory, eight digits each; what is left out is zero.
void EnginePass::word(Cursor& cursor) {
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes{};
  size_t at = 0;
  ParsedInstruction parsed;
  while (cursor.ok() && !cursor.at_end()) {
    if (cursor.is("reloc")) {
      parse_clause(cursor, symbols_, parsed);
      continue;
    }
    const Token token = cursor.word();
    bool good = token.text.size() == 8 && at < bytes.size();
    for (size_t i = 0; i < 4 && good; ++i) {
      uint64_t value = 0;
      good = parse_unsigned("0x" + std::string(token.text.substr(2 * i, 2)), value);
      bytes[at + i] = static_cast<std::byte>(value);
    }
    if (!good) cursor.expected_at(token, "at most 32 words of eight hexadecimal digits");
    at += 4;
  }
  if (!cursor.ok()) return;
  const uint32_t pc = here();
  append(isa::decode(bytes));
  std::memcpy(bytes_at(pc).data(), bytes.data(), bytes.size());
  add_relocations(parsed, pc, {cursor.line(), 1});
}

void EnginePass::add_relocations(ParsedInstruction& parsed, uint32_t pc, Place at) {
  for (neff::Relocation& relocation : parsed.relocations) {
    relocation.pc = pc;
    source_.places[format("{}/{}: relocation of \"{}\" at instruction {}", subgraph_.name,
                          source_.files_of(text_).bin, relocation.symbol, pc)] = at;
    program_.relocations.push_back(std::move(relocation));
  }
}

void EnginePass::tables(Cursor& cursor, std::string_view directive) {
  const bool sets = directive == ".function_sets";
  if (program_.engine != (sets ? NEURON_ENGINE_ACTIVATION : NEURON_ENGINE_DVE)) {
    return cursor.fail(1, format("found {} below {}; only {} has them", directive,
                                 neff::engine_name(program_.engine), sets ? "Activation" : "DVE"));
  }
  if (sets) {
    do {
      program_.activation_function_sets.push_back(cursor.name("a set of functions"));
    } while (cursor.ok() && cursor.accept(","));
    return;
  }
  const std::string directory = subgraph_.name + "/";
  neff::DveTableFiles files;
  files.control = directory + cursor.name("a file");
  cursor.accept(",");
  files.datapath = directory + cursor.name("a file");
  cursor.accept(",");
  files.opcode = directory + cursor.name("a file");
  if (cursor.ok()) program_.dve_tables.push_back(std::move(files));
}

void EnginePass::append(const isa::Instruction& instruction) {
  const uint32_t pc = here();
  program_.code.resize(program_.code.size() + NEURON_INSTRUCTION_BYTES);
  isa::encode(instruction, bytes_at(pc));
}

void EnginePass::instruction(Cursor& cursor, const SourceLine& line) {
  const uint32_t column = cursor.peek().column;
  ParsedInstruction parsed = parse_instruction(cursor, program_.engine, symbols_);
  if (!cursor.ok()) return;
  const uint32_t pc = here();
  if (pc == NEURON_PROGRAM_MAX) {
    return cursor.fail(column, format("a program has at most {} instructions", pc));
  }
  if (source_.options.debug_lines && parsed.instruction.debug == 0) {
    // Ids ascend with the lines; ids that the text gives are kept.
    uint32_t id = lines_.empty() ? 1 : lines_.rbegin()->first + 1;
    if (id != 0) {
      lines_[id] = {id, line.number, static_cast<uint16_t>(std::min(column, 65535u)),
                    source_.options.file_name};
      parsed.instruction.debug = id;
    }
  }
  append(parsed.instruction);
  add_relocations(parsed, pc, {line.number, column});
  if (parsed.instruction.opcode == NEURON_OP_DMA_TRIGGER) {
    if (line.checked) triggers_[pc] = {line.number, column};
  }
  if (parsed.label) jumps_.push_back({pc, line.number, *parsed.label});
  if (parsed.opens_block) {
    loops_.push_back({pc, line.number});
    parsed.instruction.loop.length = 1;  // Known at the "}"
    isa::encode(parsed.instruction, bytes_at(pc));
  }
  check(line, column, pc);
}

void EnginePass::check(const SourceLine& line, uint32_t column, uint32_t pc) {
  if (!source_.options.check || !line.checked) return;
  const isa::Violation violation = broken_rule(bytes_at(pc), program_.engine, program_.generation);
  if (!violation) return;
  source_.add({line.number, column,
               isa::describe(violation, isa::decode(bytes_at(pc))) +
                   "; to assemble it nevertheless: .check off"});
}

void EnginePass::close_block(Cursor& cursor) {
  if (loops_.empty()) return cursor.fail(1, "found \"}\", but no loop is open");
  const Loop loop = loops_.back();
  loops_.pop_back();
  const uint32_t length = here() - loop.pc - 1;
  if (length == 0) return cursor.fail(1, "the body of a loop has at least one instruction");
  isa::Instruction instruction = isa::decode(bytes_at(loop.pc));
  instruction.loop.length = length;
  isa::encode(instruction, bytes_at(loop.pc));
}

void EnginePass::resolve_jumps() {
  for (const Jump& jump : jumps_) {
    const auto found = labels_.find(jump.use.name);
    if (found == labels_.end()) {
      source_.add({jump.line, jump.use.column,
                   format("found {}, expected a label of this engine, or a distance as +3 or -3",
                          in_quotes(jump.use.name))});
      continue;
    }
    isa::Instruction instruction = isa::decode(bytes_at(jump.pc));
    instruction.flow.target =
        static_cast<int32_t>(found->second.pc) - static_cast<int32_t>(jump.pc);
    isa::encode(instruction, bytes_at(jump.pc));
  }
}

// Exactly one main entry; lengths up to the next function.
void EnginePass::complete_entries() {
  auto& entries = program_.entries;
  const auto is_main = [](const neff::ProgramEntry& e) { return e.kind == NEURON_ENTRY_MAIN; };
  if (std::none_of(entries.begin(), entries.end(), is_main)) {
    const auto label = std::find_if(entries.begin(), entries.end(),
                                    [](const auto& entry) { return entry.name == "main"; });
    if (label != entries.end()) {
      label->kind = NEURON_ENTRY_MAIN;
    } else {
      entries.insert(entries.begin(), {"main", 0, 0, NEURON_ENTRY_MAIN});
      entries_.insert(entries_.begin(), Entry());
    }
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (is_main(entries[i])) program_.main = static_cast<uint32_t>(i);
    if (entries_[i].has_length || entries[i].kind == NEURON_ENTRY_LABEL) continue;
    uint32_t end = here();
    for (const neff::ProgramEntry& other : entries) {
      if (other.kind != NEURON_ENTRY_LABEL && other.pc > entries[i].pc) {
        end = std::min(end, other.pc);
      }
    }
    entries[i].length = end > entries[i].pc ? end - entries[i].pc : 0;
  }
}

// A transfer as its .dma line names it: "load_x", or its id.
std::string block_text(const InstructionSymbols& symbols, uint32_t id) {
  for (const auto& [name, block] : symbols.blocks) {
    if (block == id) return in_quotes(name);
  }
  return std::to_string(id);
}

void EnginePass::check_triggers() {
  if (!source_.options.check) return;
  const auto wrong = find_wrong_trigger(program_);
  if (!wrong) return;
  const auto place = triggers_.find(wrong->pc);
  if (place == triggers_.end()) return;
  const neff::DmaTransfer& named = program_.dma[wrong->named];
  const std::string name = block_text(symbols_, named.id);
  const std::string& queue = subgraph_.queues[named.queue].name;
  const std::string expected =
      wrong->next
          ? format(
                "{}, the .dma of line {}: a trigger moves the next transfer of its queue, in the "
                "order of the .dma lines; write a .dma line for each transfer in the order in "
                "which the program triggers them, or give {} a queue of its own",
                block_text(symbols_, program_.dma[*wrong->next].id),
                functions_[*wrong->next].second.line, name)
          : format(
                "no trigger any more: the program has triggered every .dma line of that queue; "
                "write a .dma line for each transfer, also where one is repeated");
  source_.add({place->second.line, place->second.column,
               format("found {} as the next trigger of queue {}, expected {}", name,
                      in_quotes(queue), expected)});
}

void EnginePass::resolve_functions() {
  // As in the file: a function's section lasts to the next one of the queue set.
  std::vector<std::optional<uint32_t>> open(subgraph_.queues.size());
  for (size_t i = 0; i < functions_.size(); ++i) {
    const auto& [name, where] = functions_[i];
    neff::DmaTransfer& transfer = program_.dma[i];
    if (name == program_.entries[program_.main].name) {
      open[transfer.queue].reset();
    } else if (!name.empty()) {
      uint32_t entry = 0;
      while (entry < program_.entries.size() &&
             (program_.entries[entry].kind != NEURON_ENTRY_FUNCTION ||
              program_.entries[entry].name != name)) {
        ++entry;
      }
      if (entry == program_.entries.size()) {
        source_.add({where.line, where.column,
                     format("found function {}, expected an .entry {} function of this engine",
                            in_quotes(name), spelled(name))});
        continue;
      }
      open[transfer.queue] = entry;
    }
    transfer.function = open[transfer.queue];
  }
}

}  // namespace

void assemble_engine(Source& source, const ProgramText& program) {
  EnginePass(source, program).run();
}

}  // namespace neuron::assembler
