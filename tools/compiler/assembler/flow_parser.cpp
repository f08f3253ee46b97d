// SPDX-License-Identifier: Apache-2.0
#include "driver/base/format.h"
#include "tools/compiler/assembler/body_parser.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/operand_parser.h"

namespace neuron::assembler {
namespace {

constexpr const char* kConditions[] = {"always", "eq", "ne", "lt", "le", "gt", "ge"};

struct Operator {
  std::string_view mark;
  unsigned alu;
};
constexpr Operator kOperators[] = {
    {"+", NEURON_ALU_ADD}, {"-", NEURON_ALU_SUB}, {"*", NEURON_ALU_MUL}, {"/", NEURON_ALU_DIV},
    {"&", NEURON_ALU_AND}, {"|", NEURON_ALU_OR},  {"<<", NEURON_ALU_SHL}};

isa::Scalar whole(Cursor& cursor) {
  isa::Scalar scalar;
  if (cursor.at_register()) {
    scalar.kind = NEURON_SCALAR_REGISTER;
    scalar.value = cursor.reg();
    scalar.dtype = NEURON_DTYPE_I32;
    return scalar;
  }
  scalar.kind = NEURON_SCALAR_IMMEDIATE;
  scalar.dtype = NEURON_DTYPE_I32;
  scalar.value =
      static_cast<uint32_t>(cursor.integer("a register or a number", INT32_MIN, UINT32_MAX));
  return scalar;
}

// "r1 = r2 add r3", "r1 = r2 + 5", "r1 = r2 add" (the second operand follows as s0)
void parse_alu(const BodyContext& c) {
  isa::FlowOp& op = c.out.instruction.flow;
  op.rd = c.cursor.reg();
  c.cursor.expect("=");
  op.ra = c.cursor.reg();
  bool found = false;
  for (const Operator& entry : kOperators) {
    if (found || !c.cursor.accept(entry.mark)) continue;
    op.alu = static_cast<uint8_t>(entry.alu);
    found = true;
  }
  for (unsigned alu = 0; alu < 64 && !found; ++alu) {
    const std::string_view name = isa::alu_name(alu);
    if (name == "?" || !c.cursor.accept(name)) continue;
    op.alu = static_cast<uint8_t>(alu);
    found = true;
  }
  if (!found) return c.cursor.expected("an operation, as add, mul, shl, + or -");
  if (c.cursor.at_register()) {
    op.rb = c.cursor.reg();
  } else if (c.cursor.peek().kind == Token::kNumber || c.cursor.is("-")) {
    c.out.instruction.scalar0 = whole(c.cursor);
  }
}

void parse_target(const BodyContext& c) {
  isa::FlowOp& op = c.out.instruction.flow;
  if (c.cursor.is("+") || c.cursor.is("-")) {
    op.target = static_cast<int32_t>(c.cursor.integer("a distance", INT32_MIN, INT32_MAX));
    return;
  }
  if (c.cursor.accept("&")) {
    neff::Relocation relocation;
    relocation.field = NEURON_INST_OP + 4;
    relocation.kind = NEURON_RELOC_PC;
    relocation.width = 4;
    relocation.symbol = c.cursor.name("an entry");
    c.out.relocations.push_back(std::move(relocation));
    return;
  }
  const Token at = c.cursor.peek();
  c.out.label = LabelUse{c.cursor.name("a label"), at.column};
}

bool parse_branch(const BodyContext& c, unsigned& registers) {
  isa::Instruction& i = c.out.instruction;
  for (unsigned condition = 0; condition < std::size(kConditions); ++condition) {
    if (!c.cursor.accept(kConditions[condition])) continue;
    i.flow.condition = static_cast<uint8_t>(condition);
    return true;
  }
  if (c.cursor.at_register()) {
    if (registers == 2) return false;
    (registers == 0 ? i.flow.ra : i.flow.rb) = c.cursor.reg();
    ++registers;
    return true;
  }
  if (c.cursor.peek().kind == Token::kNumber) {
    i.scalar0 = whole(c.cursor);
    return true;
  }
  parse_target(c);
  return true;
}

// "r0 = 0 .. 4 step 1 {", or "r0" in front of keys, or the "{" behind them
bool parse_loop(const BodyContext& c) {
  isa::Instruction& i = c.out.instruction;
  if (c.cursor.accept("{")) {
    c.out.opens_block = true;
    return true;
  }
  if (!c.cursor.at_register()) return false;
  i.flow.rd = c.cursor.reg();
  if (!c.cursor.accept("=")) return true;
  i.scalar0 = whole(c.cursor);
  c.cursor.expect("..");
  i.scalar1 = whole(c.cursor);
  i.loop.step = 1;
  if (c.cursor.accept("step")) {
    i.loop.step = static_cast<int32_t>(c.cursor.integer("a step", INT32_MIN, INT32_MAX));
  }
  return true;
}

}  // namespace

bool parse_flow_word(const BodyContext& c) {
  isa::Instruction& i = c.out.instruction;
  const bool target = c.cursor.peek().kind == Token::kName ||
                      c.cursor.peek().kind == Token::kString || c.cursor.is("+") ||
                      c.cursor.is("-") || c.cursor.is("&");
  switch (i.opcode) {
    case NEURON_OP_ALU:
      if (!c.cursor.at_register()) return false;
      parse_alu(c);
      break;
    case NEURON_OP_BRANCH: {
      // One call parses all of the words, because the number of registers matters.
      unsigned registers = 0;
      if (!target && c.cursor.peek().kind != Token::kNumber) return false;
      if (!parse_branch(c, registers)) return false;
      while (c.cursor.ok() && !c.out.label) {
        const bool comma = c.cursor.is(",");
        const Token& next = c.cursor.peek();
        const Token after = c.cursor.peek_second();
        if (comma ? after.text == "s0" || after.text == "unsigned"
                  : next.text == "s0" || next.text == "unsigned") {
          break;
        }
        if (comma) c.cursor.next();
        if (c.cursor.at_register() || c.cursor.peek().kind == Token::kNumber) {
          if (!parse_branch(c, registers)) return false;
          continue;
        }
        break;
      }
      break;
    }
    case NEURON_OP_CALL:
      if (!target) return false;
      parse_target(c);
      break;
    case NEURON_OP_LOOP:
      return parse_loop(c);
    case NEURON_OP_STORE:
      if (!c.cursor.at_register()) return false;
      i.flow.ra = c.cursor.reg();
      break;
    default:
      if (!c.cursor.at_register()) return false;
      i.flow.rd = c.cursor.reg();
      if ((i.opcode == NEURON_OP_MOV || i.opcode == NEURON_OP_SEM || i.opcode == NEURON_OP_IDENT) &&
          c.cursor.accept("=")) {
        i.scalar0 = whole(c.cursor);
      }
      break;
  }
  return true;
}

}  // namespace neuron::assembler
