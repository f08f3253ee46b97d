// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/operand_parser.h"

#include <bit>
#include <charconv>
#include <limits>

#include "driver/base/format.h"
#include "tools/compiler/assembler/names.h"

namespace neuron::assembler {
namespace {

constexpr const char* kItems[] = {"base",  "parts", "start", "scalar", "size0", "size1",
                                  "size2", "size3", "step0", "step1",  "step2", "step3"};
constexpr const char* kOperands[] = {"dst", "src0", "src1"};
constexpr std::string_view kConditions[] = {">=", "==", ">", "<=", "<", "!="};

isa::Operand& operand_of(isa::Instruction& instruction, unsigned which) {
  return which == 0 ? instruction.dst : which == 1 ? instruction.src0 : instruction.src1;
}

uint8_t parse_space(Cursor& cursor) {
  if (cursor.accept("sbuf")) return NEURON_SPACE_SBUF;
  if (cursor.accept("psum")) return NEURON_SPACE_PSUM;
  cursor.expected("\"sbuf\" or \"psum\"");
  return NEURON_SPACE_ABSENT;
}

// Where an indirect operand has its offsets, behind `by`.
void parse_index(Cursor& cursor, isa::Operand& operand) {
  if (!cursor.accept("&")) return cursor.expected("\"&\", as in by &sbuf[0, 0x2000] u16");
  if (!cursor.accept("sbuf")) return cursor.expected("\"sbuf\", where an index lies");
  isa::IndexPlace index;
  cursor.expect("[");
  const Token at = cursor.peek();
  index.start = static_cast<uint8_t>(cursor.integer("a first partition", 0, 127));
  if (cursor.ok() && index.start % 32 != 0) {
    return cursor.expected_at(at, "0, 32, 64 or 96, where an index may start");
  }
  cursor.expect(",");
  index.base =
      static_cast<uint32_t>(cursor.integer("a byte offset in the partition", 0, (1 << 18) - 1));
  cursor.expect("]");
  index.dtype = parse_dtype(cursor);
  operand.set_index(index);
}

void parse_dimensions(Cursor& cursor, isa::Operand& operand) {
  struct Dimension {
    uint16_t size = 0;
    std::optional<int16_t> step;
    Token at;
  };
  std::vector<Dimension> dimensions;  // Outermost first
  cursor.expect("[");
  while (cursor.ok()) {
    if (dimensions.size() == 4) {
      cursor.expected("\"]\": a tensor has at most 4 free dimensions");
      break;
    }
    Dimension dimension;
    dimension.at = cursor.peek();
    dimension.size = static_cast<uint16_t>(cursor.integer("a size", 0, 65535));
    if (cursor.accept(":")) {
      dimension.step = static_cast<int16_t>(cursor.integer("a step", -32768, 32767));
    }
    dimensions.push_back(dimension);
    if (!cursor.accept(",")) break;
  }
  if (cursor.accept("by")) parse_index(cursor, operand);
  cursor.expect("]");
  operand.ndim = static_cast<uint8_t>(dimensions.size());
  uint64_t contiguous = 1;
  for (unsigned d = 0; d < operand.ndim; ++d) {
    const Dimension& dimension = dimensions[operand.ndim - 1 - d];
    operand.size[d] = dimension.size;
    if (!dimension.step && contiguous > 32767) {
      cursor.fail(dimension.at.column,
                  base::format("the step of this dimension would be {}, expected at most 32767; "
                               "give a step as in {}:STEP",
                               contiguous, dimension.size));
      return;
    }
    operand.step[d] = dimension.step.value_or(static_cast<int16_t>(contiguous));
    contiguous *= dimension.size;
  }
}

// A number with its sign, as it stands; the caller knows what it may be.
struct Number {
  bool negative = false;
  Token token;
  bool hexadecimal() const { return token.text.starts_with("0x") || token.text.starts_with("0X"); }
};

Number parse_number(Cursor& cursor) {
  Number number;
  number.negative = cursor.accept("-");
  if (!number.negative) cursor.accept("+");
  if (cursor.peek().kind != Token::kNumber && !cursor.is("inf") && !cursor.is("nan")) {
    cursor.expected("a number");
    return number;
  }
  number.token = cursor.next();
  return number;
}

uint32_t whole_bits(Cursor& cursor, const Number& number, const char* expected) {
  uint64_t value = 0;
  const uint64_t most = number.negative ? uint64_t{1} << 31 : UINT32_MAX;
  if (!parse_unsigned(number.token.text, value) || value > most) {
    cursor.expected_at(number.token, expected);
    return 0;
  }
  const auto bits = static_cast<uint32_t>(value);
  return number.negative ? 0u - bits : bits;
}

uint32_t real_bits(Cursor& cursor, const Number& number) {
  if (number.hexadecimal()) return whole_bits(cursor, number, "at most 32 bits");
  const std::string_view text = number.token.text;
  float value = 0;
  if (text == "inf") {
    value = std::numeric_limits<float>::infinity();
  } else if (text == "nan") {
    value = std::numeric_limits<float>::quiet_NaN();
  } else {
    const auto [at, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || at != text.data() + text.size()) {
      cursor.expected_at(number.token, "a number that fits into an f32");
    }
  }
  const auto bits = std::bit_cast<uint32_t>(value);
  return number.negative ? bits | 0x80000000u : bits;
}

void parse_relocation(Cursor& cursor, ParsedInstruction& out) {
  neff::Relocation relocation;
  cursor.expect("(");
  const Token at = cursor.peek();
  const auto kind = index_of(kRelocationKinds, cursor.name("a kind of relocation"));
  if (!kind) return cursor.expected_at(at, listed(kRelocationKinds));
  relocation.kind = static_cast<uint8_t>(*kind + 1);
  relocation.symbol = cursor.peek().kind == Token::kNumber ? std::string(cursor.next().text)
                                                           : cursor.name("a name");
  relocation.width = default_width(relocation.kind);
  if (cursor.is("+") || cursor.is("-")) {
    relocation.addend = cursor.integer("an addend", INT64_MIN + 1, INT64_MAX);
  }
  cursor.expect("at");
  relocation.field = static_cast<uint16_t>(
      cursor.integer("a byte of the instruction", 0, NEURON_INSTRUCTION_BYTES - 1));
  if (cursor.accept("width")) {
    relocation.width = static_cast<uint8_t>(cursor.integer("a width in bytes", 0, 8));
  }
  cursor.expect(")");
  out.relocations.push_back(std::move(relocation));
}

// The semaphore or event of a wait or update; `field` is the byte of its number.
uint8_t parse_counter(Cursor& cursor, const InstructionSymbols& symbols, uint16_t field,
                      ParsedInstruction& out, bool& event) {
  event = false;
  if (cursor.accept("&")) {
    neff::Relocation relocation;
    relocation.field = field;
    relocation.kind = NEURON_RELOC_SEMAPHORE;
    relocation.width = 1;
    relocation.symbol = cursor.name("a semaphore");
    out.relocations.push_back(std::move(relocation));
    return 0;
  }
  const Token at = cursor.peek();
  const std::string name = cursor.name("a semaphore, s0 to s255, or an event, e0 to e255");
  if (!cursor.ok()) return 0;
  uint64_t number = 0;
  if (at.kind == Token::kName && (name[0] == 's' || name[0] == 'e') && name.size() > 1 &&
      parse_unsigned(std::string_view(name).substr(1), number) && name[1] != 'x') {
    if (number > 255) cursor.expected_at(at, "a number up to 255");
    event = name[0] == 'e';
    return static_cast<uint8_t>(number);
  }
  if (const auto found = symbols.semaphores.find(name); found != symbols.semaphores.end()) {
    return found->second;
  }
  if (const auto known = well_known_semaphore(name)) return *known;
  cursor.expected_at(at, "a semaphore; name it with .sem before");
  return 0;
}

uint16_t parse_value(Cursor& cursor, bool& is_register) {
  is_register = cursor.at_register();
  if (is_register) return cursor.reg();
  return static_cast<uint16_t>(cursor.integer("a register or a number", 0, 65535));
}

void parse_wait(Cursor& cursor, const InstructionSymbols& symbols, unsigned slot,
                ParsedInstruction& out) {
  isa::Wait& wait = out.instruction.wait[slot];
  const auto field = static_cast<uint16_t>(NEURON_INST_WAIT0 + 4 * slot);
  wait.index = parse_counter(cursor, symbols, field, out, wait.event);
  for (size_t i = 0; i < std::size(kConditions); ++i) {
    if (!cursor.is(kConditions[i])) continue;
    cursor.next();
    wait.condition = static_cast<uint8_t>(NEURON_WAIT_GE + i);
    break;
  }
  if (wait.condition == NEURON_WAIT_NONE) return cursor.expected("one of >= == > <= < !=");
  wait.value = parse_value(cursor, wait.is_register);
}

void parse_update(Cursor& cursor, const InstructionSymbols& symbols, unsigned slot,
                  ParsedInstruction& out) {
  isa::Update& update = out.instruction.update[slot];
  const auto field = static_cast<uint16_t>(NEURON_INST_UPDATE0 + 4 * slot);
  bool event = false;
  update.index = parse_counter(cursor, symbols, field, out, event);
  const Token at = cursor.peek();
  if (event) {
    cursor.expect("=");
    const auto value = cursor.integer("0 or 1", 0, 1);
    update.operation = value ? NEURON_UPDATE_EVENT_SET : NEURON_UPDATE_EVENT_CLEAR;
  } else if (cursor.accept("++")) {
    update.operation = NEURON_UPDATE_INC;
  } else if (cursor.accept("--")) {
    update.operation = NEURON_UPDATE_DEC;
  } else if (cursor.is("+=") || cursor.is("-=") || cursor.is("=")) {
    cursor.next();
    update.operation = at.text == "+="   ? NEURON_UPDATE_ADD
                       : at.text == "-=" ? NEURON_UPDATE_SUB
                                         : NEURON_UPDATE_WRITE;
    update.value = parse_value(cursor, update.is_register);
  } else {
    cursor.expected("one of ++ -- += -= =");
  }
  update.at_complete = !cursor.accept("!");
}

template <class Parse>
void parse_slots(Cursor& cursor, const char* what, const Parse& parse) {
  cursor.expect("(");
  for (unsigned slot = 0; cursor.ok(); ++slot) {
    if (slot == 2) return cursor.expected(base::format("\")\": {}", what));
    if (!cursor.accept("-")) parse(slot);
    if (!cursor.accept(",")) break;
  }
  cursor.expect(")");
}

}  // namespace

bool at_tensor(const Cursor& cursor) { return cursor.is("sbuf") || cursor.is("psum"); }

uint8_t parse_dtype(Cursor& cursor) {
  const bool named = cursor.peek().kind == Token::kName;
  const auto dtype = named ? dtype_of(cursor.peek().text) : uint8_t{NEURON_DTYPE_NONE};
  if (dtype == NEURON_DTYPE_NONE) {
    cursor.expected("a data type, as f32, bf16, i32");
    return dtype;
  }
  cursor.next();
  return dtype;
}

void parse_tensor(Cursor& cursor, isa::Instruction& instruction, unsigned which) {
  isa::Operand& operand = operand_of(instruction, which);
  if (!at_tensor(cursor)) {
    return cursor.expected("a tensor, as in sbuf[0:128, 0x0] f32 [64]");
  }
  operand.space = parse_space(cursor);
  cursor.expect("[");
  operand.start = static_cast<uint8_t>(cursor.integer("a first partition", 0, 255));
  cursor.expect(":");
  operand.parts = static_cast<uint8_t>(cursor.integer("a number of partitions", 0, 255));
  cursor.expect(",");
  operand.base =
      static_cast<uint32_t>(cursor.integer("a byte offset in the partition", 0, (1 << 20) - 1));
  if (cursor.is("+")) {
    const Token at = cursor.next();
    if (instruction.bind[0].mode != NEURON_BIND_UNUSED) {
      return cursor.fail(at.column,
                         "a second register stands inside an operand; bind it with bind1");
    }
    isa::Binding& bind = instruction.bind[0];
    bind.reg = cursor.reg();
    bind.item = NEURON_BIND_BASE;
    bind.operand = static_cast<uint8_t>(which);
    bind.mode = NEURON_BIND_ADD;
    if (cursor.accept("*")) {
      cursor.expect("e");
      bind.mode = NEURON_BIND_ADD_ELEMENTS;
    }
  }
  cursor.expect("]");
  operand.dtype = parse_dtype(cursor);
  while (cursor.accept("/")) {
    if (cursor.accept("sat")) {
      operand.saturate = true;
    } else {
      operand.bias = static_cast<uint8_t>(cursor.integer("\"sat\" or an exponent bias", 0, 31));
    }
  }
  parse_dimensions(cursor, operand);
}

uint32_t parse_real_bits(Cursor& cursor) {
  const Number number = parse_number(cursor);
  return cursor.ok() ? real_bits(cursor, number) : 0;
}

void parse_scalar(Cursor& cursor, bool raw, isa::Scalar& scalar) {
  const auto type = [&] {
    const Token& token = cursor.peek();
    const bool given = token.kind == Token::kName && dtype_of(token.text) != NEURON_DTYPE_NONE;
    return given ? parse_dtype(cursor) : static_cast<uint8_t>(NEURON_DTYPE_NONE);
  };
  if (cursor.accept("&")) {
    scalar.kind = NEURON_SCALAR_POINTER;
    scalar.space = parse_space(cursor);
    cursor.expect("[");
    scalar.start = static_cast<uint8_t>(cursor.integer("a first partition", 0, 127));
    cursor.expect(",");
    scalar.value =
        static_cast<uint32_t>(cursor.integer("a byte offset in the partition", 0, UINT32_MAX));
    cursor.expect("]");
    scalar.dtype = type();
    return;
  }
  if (cursor.at_register()) {
    scalar.kind = NEURON_SCALAR_REGISTER;
    scalar.value = cursor.reg();
    scalar.dtype = type();
    return;
  }
  const Number number = parse_number(cursor);
  if (!cursor.ok()) return;
  scalar.kind = NEURON_SCALAR_IMMEDIATE;
  scalar.dtype = type();
  uint64_t ignored = 0;
  const bool whole = parse_unsigned(number.token.text, ignored);
  if (scalar.dtype == NEURON_DTYPE_NONE && !number.hexadecimal() && !(raw && whole)) {
    scalar.dtype = NEURON_DTYPE_F32;
  }
  scalar.value =
      scalar.dtype == NEURON_DTYPE_F32
          ? real_bits(cursor, number)
          : whole_bits(cursor, number, "a whole number, or the bits of this type as 0x...");
}

void parse_binding(Cursor& cursor, isa::Instruction& instruction) {
  const Token name = cursor.next();  // "bind0"
  const auto index = static_cast<unsigned>(name.text.back() - '0');
  isa::Binding& bind = instruction.bind[index];
  if (bind.mode != NEURON_BIND_UNUSED) {
    return cursor.fail(name.column, base::format("register binding {} is used already", index));
  }
  cursor.expect("(");
  const Token target = cursor.peek();
  const std::string text = cursor.name("OPERAND.ITEM, as in dst.base");
  const size_t dot = text.find('.');
  const auto operand = index_of(kOperands, std::string_view(text).substr(0, dot));
  const auto item = dot == std::string::npos
                        ? std::nullopt
                        : index_of(kItems, std::string_view(text).substr(dot + 1));
  if (!operand || !item) {
    return cursor.expected_at(target, base::format("one of {} with a dot and one of {}",
                                                   listed(kOperands), listed(kItems)));
  }
  bind.operand = static_cast<uint8_t>(*operand);
  bind.item = static_cast<uint8_t>(*item);
  const bool replace = cursor.accept("=");
  if (!replace) cursor.expect("+=");
  bind.reg = cursor.reg();
  bind.mode = replace ? NEURON_BIND_REPLACE : NEURON_BIND_ADD;
  if (!replace && cursor.accept("*")) {
    cursor.expect("e");
    bind.mode = NEURON_BIND_ADD_ELEMENTS;
  } else if (!replace && cursor.accept(":")) {
    cursor.expect("pair");
    bind.mode = NEURON_BIND_ADD_PAIR;
  }
  cursor.expect(")");
}

bool parse_clause(Cursor& cursor, const InstructionSymbols& symbols, ParsedInstruction& out) {
  if (cursor.accept("wait")) {
    parse_slots(cursor, "an instruction has two waits; put an event instruction before it",
                [&](unsigned slot) { parse_wait(cursor, symbols, slot, out); });
  } else if (cursor.accept("then")) {
    parse_slots(cursor, "an instruction has two updates; put an event instruction behind it",
                [&](unsigned slot) { parse_update(cursor, symbols, slot, out); });
  } else if (cursor.accept("reloc")) {
    parse_relocation(cursor, out);
  } else if (cursor.accept("@")) {
    out.instruction.debug = static_cast<uint32_t>(cursor.integer("a debug id", 0, UINT32_MAX));
  } else {
    return false;
  }
  return true;
}

uint8_t parse_semaphore(Cursor& cursor, const InstructionSymbols& symbols, uint16_t field,
                        ParsedInstruction& out) {
  bool event = false;
  const Token at = cursor.peek();
  const uint8_t number = parse_counter(cursor, symbols, field, out, event);
  if (event) cursor.expected_at(at, "a semaphore; this cannot be an event");
  return number;
}

uint64_t parse_device_address(Cursor& cursor, uint16_t field, ParsedInstruction& out) {
  if (!cursor.accept("&")) return cursor.address("an address, or & with the name of a variable");
  neff::Relocation relocation;
  relocation.field = field;
  relocation.width = 8;
  relocation.kind = NEURON_RELOC_VAR_ADDR;
  const Token at = cursor.peek();
  relocation.symbol = cursor.name("a variable, or a kind of relocation and a colon");
  if (at.kind == Token::kName && relocation.symbol == "cc" && cursor.accept(":")) {
    // The register that starts the collectives of a stream.
    relocation.kind = NEURON_RELOC_CORE;
    relocation.symbol = base::format("cc:{}", cursor.integer("a stream", 0, CCOM_MAX_STREAMS - 1));
    relocation.addend = kGoOfStream;
    out.relocations.push_back(std::move(relocation));
    return 0;
  }
  if (at.kind == Token::kName && cursor.accept(":")) {
    const auto kind = index_of(kRelocationKinds, relocation.symbol);
    if (!kind) {
      cursor.expected_at(at, listed(kRelocationKinds));
      return 0;
    }
    relocation.kind = static_cast<uint8_t>(*kind + 1);
    relocation.symbol = cursor.name("a name");
    if (relocation.kind == NEURON_RELOC_SEM_ADDR && relocation.symbol == kPeer &&
        cursor.accept(":")) {
      relocation.symbol += ":" + cursor.name("a semaphore of the other core");
    }
  }
  if (cursor.is("+") || cursor.is("-")) {
    relocation.addend = cursor.integer("an addend", INT64_MIN + 1, INT64_MAX);
  }
  out.relocations.push_back(std::move(relocation));
  return 0;
}

}  // namespace neuron::assembler
