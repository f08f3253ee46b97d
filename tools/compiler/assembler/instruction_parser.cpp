// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/instruction_parser.h"

#include <algorithm>

#include "driver/base/format.h"
#include "driver/isa/opcode_table.h"
#include "tools/compiler/assembler/body_parser.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/operand_parser.h"

namespace neuron::assembler {
namespace {

using isa::Instruction;

class Parser {
 public:
  Parser(Cursor& cursor, int engine, const InstructionSymbols& symbols)
      : cursor_(cursor), engine_(engine), symbols_(symbols) {}

  ParsedInstruction parse();

 private:
  void parse_operands();
  void parse_items();
  bool parse_flag(std::string_view word);
  void parse_engines();

  Cursor& cursor_;
  int engine_;
  const InstructionSymbols& symbols_;
  ParsedInstruction out_;
  const isa::OpcodeInfo* info_ = nullptr;
};

const isa::OpcodeInfo* opcode_named(std::string_view name) {
  for (const isa::OpcodeInfo& info : isa::all_opcodes()) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

ParsedInstruction Parser::parse() {
  const Token mnemonic = cursor_.peek();
  if (mnemonic.kind == Token::kName) info_ = opcode_named(mnemonic.text);
  if (info_ == nullptr) {
    cursor_.expected("an instruction, as matmul, tensor_copy or event, or a directive, as .var");
    return out_;
  }
  if (!info_->available) {
    cursor_.fail(mnemonic.column,
                 base::format("found {}, an instruction of generation {}; expected one that "
                              "this device executes",
                              info_->name, info_->generation));
    return out_;
  }
  cursor_.next();
  Instruction& instruction = out_.instruction;
  instruction.opcode = info_->opcode;
  if (engine_ >= 0) instruction.engines = static_cast<uint8_t>(1u << engine_);
  start_body(cursor_, *info_, symbols_, out_);
  if (instruction.group() >= 2) parse_operands();
  parse_items();
  const bool imm = instruction.opcode == NEURON_OP_ALU || instruction.opcode == NEURON_OP_BRANCH;
  if (imm) instruction.flow.imm = instruction.scalar0.present();
  // In the order of the bytes, whatever the order of the keys.
  std::stable_sort(out_.relocations.begin(), out_.relocations.end(),
                   [](const auto& a, const auto& b) { return a.field < b.field; });
  return std::move(out_);
}

// [dst] [=] [function] [src0] [, src1]
void Parser::parse_operands() {
  Instruction& instruction = out_.instruction;
  const unsigned slots = info_->required | info_->optional;
  if (slots & isa::kSlotDst) {
    parse_tensor(cursor_, instruction, 0);
    if (cursor_.accept("=")) {
      if (instruction.opcode == NEURON_OP_ACTIVATE || instruction.opcode == NEURON_OP_ACTIVATE2) {
        parse_function(cursor_, instruction);
      }
      if (slots & isa::kSlotSrc0) parse_tensor(cursor_, instruction, 1);
    }
  } else if (slots & isa::kSlotSrc0) {
    parse_tensor(cursor_, instruction, 1);
  }
  const Token second = cursor_.peek_second();
  if ((slots & isa::kSlotSrc1) && cursor_.is(",") &&
      (second.text == "sbuf" || second.text == "psum")) {
    cursor_.next();
    parse_tensor(cursor_, instruction, 2);
  }
}

void Parser::parse_items() {
  const BodyContext context{cursor_, *info_, symbols_, out_};
  while (cursor_.ok() && !cursor_.at_end()) {
    if (parse_clause(cursor_, symbols_, out_)) continue;
    if (cursor_.accept(",")) continue;
    if (out_.opens_block) {
      cursor_.expected("the end of the line");
      return;
    }
    const Token token = cursor_.peek();
    if (token.kind == Token::kName && token.text.size() == 5 && token.text.starts_with("bind") &&
        token.text[4] >= '0' && token.text[4] <= '3') {
      parse_binding(cursor_, out_.instruction);
      continue;
    }
    if (token.kind == Token::kName && parse_flag(token.text)) continue;
    if (!parse_item(context)) {
      cursor_.expected(
          base::format("one of {}'s keys: {}; or trace, break, drain, nan, round, engines, "
                       "wait(...), then(...)",
                       info_->name, keys_of(*info_)));
    }
  }
}

bool Parser::parse_flag(std::string_view word) {
  Instruction& instruction = out_.instruction;
  bool* const flag = word == "trace"   ? &instruction.trace
                     : word == "break" ? &instruction.brk
                     : word == "drain" ? &instruction.drain
                     : word == "nan"   ? &instruction.nan
                                       : nullptr;
  if (flag != nullptr) {
    cursor_.next();
    *flag = true;
    return true;
  }
  if (word != "round" && word != "engines") return false;
  cursor_.next();
  cursor_.expect("=");
  if (word == "engines") {
    parse_engines();
    return true;
  }
  if (cursor_.accept("nearest")) {
    instruction.rounding = 1;
  } else if (cursor_.accept("stochastic")) {
    instruction.rounding = 2;
  } else {
    cursor_.expected("\"nearest\" or \"stochastic\"");
  }
  return true;
}

void Parser::parse_engines() {
  uint8_t engines = 0;
  do {
    const Token at = cursor_.peek();
    const uint8_t engine = neff::engine_from_name(at.text);
    if (engine > NEURON_ENGINE_CC) {
      return cursor_.expected("an engine: PE, Activation, Pool, DVE, SP or CC");
    }
    cursor_.next();
    engines = static_cast<uint8_t>(engines | 1u << engine);
  } while (cursor_.accept("|"));
  out_.instruction.engines = engines;
}

}  // namespace

ParsedInstruction parse_instruction(Cursor& cursor, int engine, const InstructionSymbols& symbols) {
  return Parser(cursor, engine, symbols).parse();
}

std::optional<Instruction> parse_instruction(std::string_view text, int engine, Diagnostic& error) {
  Cursor cursor(text, 1);
  ParsedInstruction parsed = parse_instruction(cursor, engine, {});
  if (cursor.ok() && (parsed.label || parsed.opens_block || !parsed.relocations.empty())) {
    cursor.fail(1,
                "names of labels, blocks and variables need a program around them; give numbers");
  }
  if (cursor.ok()) return parsed.instruction;
  error = *cursor.error();
  return std::nullopt;
}

isa::Violation broken_rule(isa::Bytes bytes, unsigned engine, unsigned generation) {
  const isa::Limits limits = isa::limits_of(generation);
  if (const isa::Violation violation = isa::check_encoding(bytes, engine, limits)) return violation;
  const Instruction instruction = isa::decode(bytes);
  const bool bound = std::any_of(instruction.bind.begin(), instruction.bind.end(),
                                 [](const auto& b) { return b.mode != NEURON_BIND_UNUSED; });
  return bound ? isa::Violation() : isa::check_operands(instruction, engine, limits);
}

}  // namespace neuron::assembler
