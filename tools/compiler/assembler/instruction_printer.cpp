// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/instruction_printer.h"

#include <algorithm>
#include <cstring>

#include "driver/base/format.h"
#include "driver/isa/opcode_table.h"
#include "tools/compiler/assembler/names.h"

namespace neuron::assembler {

using base::format;

namespace {

using Raw = std::array<std::byte, NEURON_INSTRUCTION_BYTES>;

constexpr const char* kCompare[] = {"?", ">=", "==", ">", "<=", "<", "!=", "?"};
// Marks in the text, to be replaced by names. If a program has such a value by chance, its line
// does not read back and is printed in another form.
constexpr uint64_t kAddressMark = 0xA5EEDBAD5EED0000ull;
constexpr int32_t kTargetMark = 0x5EED1ABE;

bool replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) return false;
  text.replace(at, from.size(), to);
  return true;
}

// The 64-bit field at that offset, if the opcode has one that prints as an address.
uint64_t* address_field(isa::Instruction& i, uint16_t offset) {
  const isa::OpcodeInfo* info = isa::find_opcode(i.opcode);
  const unsigned slots = info ? info->required | info->optional : 0u;
  if ((slots & isa::kSlotAddress) && offset == NEURON_ADDRESS_ADDR) return &i.address.addr;
  if (slots & isa::kSlotTrigger) {
    if (offset == NEURON_DMA_TRIGGER_M2S) return &i.trigger.m2s;
    if (offset == NEURON_DMA_TRIGGER_S2M) return &i.trigger.s2m;
  }
  if (slots & isa::kSlotGenerate) {
    if (offset == NEURON_DMA_GENERATE_TO) return &i.generate.to;
    if (offset == NEURON_DMA_GENERATE_FROM) return &i.generate.from;
  }
  if ((slots & isa::kSlotIndirect) && offset == NEURON_DMA_INDIRECT_BASE) return &i.indirect.base;
  return nullptr;
}

bool is_jump(const isa::Instruction& i) {
  return i.opcode == NEURON_OP_BRANCH || i.opcode == NEURON_OP_CALL;
}

std::string with_addend(std::string text, int64_t addend) {
  if (addend > 0) text += format(" + {}", addend);
  // INT64_MIN has no positive counterpart.
  if (addend < 0) text += format(" - {}", 0 - static_cast<uint64_t>(addend));
  return text;
}

// A relocation that no other spelling has: reloc(KIND SYMBOL + ADDEND at FIELD width WIDTH).
std::string spelled_out(const neff::Relocation& r) {
  const unsigned kind = r.kind - 1u;
  const bool usual = r.width == default_width(r.kind);
  return format("  reloc({} {} at {}{})", kRelocationKinds[kind < 8 ? kind : 0],
                with_addend(spelled(r.symbol), r.addend), r.field,
                usual ? std::string() : format(" width {}", r.width));
}

}  // namespace

InstructionPrinter::InstructionPrinter(const neff::Subgraph& subgraph,
                                       const neff::EngineProgram& program)
    : program_(program), blocks_(block_names(subgraph, program)) {
  for (const neff::Relocation& relocation : program.relocations) {
    relocations_[relocation.pc].push_back(&relocation);
  }
  for (unsigned number = 0; number < NEURON_SEM_PROGRAM_FIRST; ++number) {
    const std::string_view name = well_known_semaphore(static_cast<uint8_t>(number));
    if (!name.empty()) semaphores_[static_cast<uint8_t>(number)] = name;
  }
  for (const neff::Semaphore& semaphore : subgraph.semaphores) {
    // A name of the program hides a well-known one.
    if (const auto known = well_known_semaphore(semaphore.name)) semaphores_.erase(*known);
    semaphores_[semaphore.number] = spelled_semaphore(semaphore.name);
    symbols_.semaphores[semaphore.name] = semaphore.number;
  }
  for (const auto& [id, name] : blocks_) symbols_.blocks[name] = id;
}

isa::Bytes InstructionPrinter::bytes(uint32_t pc) const {
  const auto* first = reinterpret_cast<const std::byte*>(program_.code.data());
  return isa::Bytes(first + size_t{pc} * NEURON_INSTRUCTION_BYTES, NEURON_INSTRUCTION_BYTES);
}

std::string InstructionPrinter::semaphore(uint8_t number) const {
  const auto found = semaphores_.find(number);
  return found == semaphores_.end() ? format("s{}", number) : found->second;
}

std::string InstructionPrinter::print(uint32_t pc, const std::map<uint32_t, std::string>& labels,
                                      bool block) const {
  const isa::Bytes raw_bytes = bytes(pc);
  const isa::Instruction instruction = isa::decode(raw_bytes);
  const auto place = relocations_.find(pc);
  const Relocations relocations = place == relocations_.end() ? Relocations() : place->second;
  Raw again;
  isa::encode(instruction, again);
  if (std::memcmp(again.data(), raw_bytes.data(), again.size()) == 0) {
    std::string label;
    if (is_jump(instruction)) {
      const auto found =
          labels.find(static_cast<uint32_t>(static_cast<int64_t>(pc) + instruction.flow.target));
      if (found != labels.end()) label = found->second;
    }
    std::string text = symbolic(instruction, relocations, label, block);
    if (comes_back(text, instruction, relocations)) return text;
  }
  return raw(raw_bytes, relocations);
}

std::string InstructionPrinter::symbolic(const isa::Instruction& instruction,
                                         Relocations relocations, const std::string& label,
                                         bool block) const {
  isa::Instruction plain = instruction;
  plain.wait = {};
  plain.update = {};
  plain.debug = 0;
  // The name that replaces each mark in the text.
  std::vector<std::pair<std::string, std::string>> names;
  const neff::Relocation* whole_body = nullptr;
  const bool jump = is_jump(instruction);
  if (!label.empty()) {
    plain.flow.target = kTargetMark;
    names.emplace_back(format("{:+}", kTargetMark), label);
  }
  std::erase_if(relocations, [&](const neff::Relocation* r) {
    uint64_t* field = r->width == 8 ? address_field(plain, r->field) : nullptr;
    if (field != nullptr) {
      *field = kAddressMark + names.size();
      names.emplace_back(format("{:#X}", *field), address(*r));
      names.back().first[1] = 'x';
      return true;
    }
    if (r->kind == NEURON_RELOC_DMA_BLOCK && instruction.opcode == NEURON_OP_DMA_TRIGGER) {
      whole_body = r;
      return true;
    }
    if (r->kind == NEURON_RELOC_PC && jump && r->field == NEURON_INST_OP + 4 && r->addend == 0) {
      plain.flow.target = kTargetMark;
      names.assign(1, {format("{:+}", kTargetMark), "&" + spelled(r->symbol)});
      return true;
    }
    return false;
  });
  const isa::OpcodeInfo* info = isa::find_opcode(instruction.opcode);
  const bool dma_control =
      info && ((info->required | info->optional) & (isa::kSlotGenerate | isa::kSlotIndirect));
  const int engine = program_.engine;
  std::string text = isa::disassemble(plain, engine);
  for (const auto& [mark, name] : names) replace(text, mark, name);
  if (whole_body != nullptr) {
    isa::Instruction empty;
    empty.opcode = instruction.opcode;
    empty.engines = static_cast<uint8_t>(1u << engine);
    const std::string body = isa::disassemble(empty, engine);
    std::string name = whole_body->symbol;
    uint64_t id = 0;
    if (parse_unsigned(name, id)) {
      const auto found = blocks_.find(static_cast<uint32_t>(id));
      if (found != blocks_.end()) name = found->second;
    }
    if (text.starts_with(body)) text = "dma_trigger " + name + text.substr(body.size());
  }
  if (dma_control && instruction.dma.signal) {
    replace(text, format("signal=s{}", instruction.dma.semaphore),
            "signal=" + counter(instruction.dma.semaphore, false, NEURON_DMA_CTL + 6, relocations));
  }
  if (dma_control) {
    std::erase_if(relocations, [&](const neff::Relocation* r) {
      return r->kind == NEURON_RELOC_QUEUE && r->width == 1 && r->addend == 0 &&
             r->field == NEURON_RELOC_QUEUE_CTL &&
             replace(text, format("queue={}", instruction.dma.queue),
                     "queue=&" + spelled(r->symbol));
    });
  }
  if (block) replace(text, format(", length={}", instruction.loop.length), " {");
  const bool ends_in_block = block && text.ends_with(" {");
  if (ends_in_block) text.resize(text.size() - 2);
  text += clauses(instruction, relocations);
  for (const neff::Relocation* r : relocations) text += spelled_out(*r);
  if (ends_in_block) text += " {";
  return text;
}

std::string InstructionPrinter::address(const neff::Relocation& relocation) const {
  if (relocation.kind == NEURON_RELOC_CORE && relocation.addend == kGoOfStream &&
      relocation.symbol.size() == 4 && relocation.symbol.starts_with("cc:") &&
      relocation.symbol[3] >= '0' && relocation.symbol[3] < '0' + CCOM_MAX_STREAMS) {
    return "&" + relocation.symbol;
  }
  const std::string kind = relocation.kind == NEURON_RELOC_VAR_ADDR
                               ? std::string()
                               : std::string(kRelocationKinds[relocation.kind - 1]) + ":";
  const std::string symbol = relocation.kind == NEURON_RELOC_SEM_ADDR && relocation.of_peer()
                                 ? format("{}:", kPeer) + spelled(relocation.symbol.substr(5))
                                 : spelled(relocation.symbol);
  return with_addend("&" + kind + symbol, relocation.addend);
}

std::string InstructionPrinter::counter(uint8_t number, bool event, uint16_t field,
                                        Relocations& relocations) const {
  for (auto it = relocations.begin(); it != relocations.end(); ++it) {
    const neff::Relocation& r = **it;
    if (r.kind != NEURON_RELOC_SEMAPHORE || r.field != field || event) continue;
    relocations.erase(it);
    return "&" + spelled(r.symbol);
  }
  return event ? format("e{}", number) : semaphore(number);
}

std::string InstructionPrinter::clauses(const isa::Instruction& i, Relocations& relocations) const {
  std::string text;
  bool any = false;
  for (unsigned n = 0; n < 2; ++n) {
    const isa::Wait& wait = i.wait[n];
    if (wait.condition == NEURON_WAIT_NONE) continue;
    text += any ? ", " : n == 1 ? "  wait(-, " : "  wait(";
    any = true;
    const auto field = static_cast<uint16_t>(NEURON_INST_WAIT0 + 4 * n);
    text += format("{} {} {}{}", counter(wait.index, wait.event, field, relocations),
                   kCompare[wait.condition & 7], wait.is_register ? "r" : "", wait.value);
  }
  if (any) text += ")";
  any = false;
  for (unsigned n = 0; n < 2; ++n) {
    const isa::Update& update = i.update[n];
    if (update.operation == NEURON_UPDATE_NONE) continue;
    text += any ? ", " : n == 1 ? "  then(-, " : "  then(";
    any = true;
    const auto field = static_cast<uint16_t>(NEURON_INST_UPDATE0 + 4 * n);
    const bool event = update.operation >= NEURON_UPDATE_EVENT_SET;
    text += counter(update.index, event, field, relocations);
    const char* reg = update.is_register ? "r" : "";
    switch (update.operation) {
      case NEURON_UPDATE_INC:
        text += "++";
        break;
      case NEURON_UPDATE_DEC:
        text += "--";
        break;
      case NEURON_UPDATE_ADD:
        text += format(" += {}{}", reg, update.value);
        break;
      case NEURON_UPDATE_SUB:
        text += format(" -= {}{}", reg, update.value);
        break;
      case NEURON_UPDATE_WRITE:
        text += format(" = {}{}", reg, update.value);
        break;
      default:
        text += update.operation == NEURON_UPDATE_EVENT_SET ? " = 1" : " = 0";
        break;
    }
    if (!update.at_complete) text += "!";
  }
  if (any) text += ")";
  if (i.debug) text += format("  @{}", i.debug);
  return text;
}

bool InstructionPrinter::comes_back(const std::string& text, const isa::Instruction& instruction,
                                    const Relocations& relocations) const {
  Cursor cursor(text, 1);
  ParsedInstruction parsed = parse_instruction(cursor, program_.engine, symbols_);
  cursor.expect_end();
  if (!cursor.ok() || parsed.relocations.size() != relocations.size()) return false;
  // Labels and blocks are resolved by the assembler.
  if (parsed.label) parsed.instruction.flow.target = instruction.flow.target;
  if (parsed.opens_block) parsed.instruction.loop.length = instruction.loop.length;
  Raw wanted, got;
  isa::encode(instruction, wanted);
  isa::encode(parsed.instruction, got);
  if (wanted != got) return false;
  for (size_t i = 0; i < relocations.size(); ++i) {
    const neff::Relocation& a = *relocations[i];
    const neff::Relocation& b = parsed.relocations[i];
    if (a.field != b.field || a.kind != b.kind || a.width != b.width || a.symbol != b.symbol ||
        a.addend != b.addend) {
      return false;
    }
  }
  return true;
}

std::string InstructionPrinter::raw(isa::Bytes bytes, const Relocations& relocations) const {
  size_t used = bytes.size();
  while (used > 4 && std::all_of(bytes.begin() + static_cast<ptrdiff_t>(used) - 4,
                                 bytes.begin() + static_cast<ptrdiff_t>(used),
                                 [](std::byte b) { return b == std::byte{0}; })) {
    used -= 4;
  }
  std::string text = ".word";
  for (size_t i = 0; i < used; ++i) {
    text += format("{}{:02X}", i % 4 == 0 ? " " : "", static_cast<unsigned>(bytes[i]));
  }
  for (const neff::Relocation* r : relocations) text += spelled_out(*r);
  return text;
}

}  // namespace neuron::assembler
