// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/body_parser.h"

#include <bit>

#include "driver/base/format.h"
#include "driver/isa/explain.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/operand_parser.h"

namespace neuron::assembler {
namespace {

using isa::Instruction;
using isa::OpcodeInfo;
using isa::OpWord;

struct Key {
  const char* name;
  bool has_value;  // "name=value"
  bool (*applies)(const OpcodeInfo&);
  void (*parse)(const BodyContext&);
};

// Bits of the operation word, as the opcode table names them.
template <OpWord Word, uint64_t Bits>
bool word(const OpcodeInfo& info) {
  return info.word == Word && (info.op_bits & Bits);
}
template <unsigned Slot>
bool slot(const OpcodeInfo& info) {
  return (info.required | info.optional) & Slot;
}
template <unsigned Opcode>
bool opcode(const OpcodeInfo& info) {
  return info.opcode == Opcode;
}

// One of several opcodes.
template <unsigned... Opcodes>
bool opcodes(const OpcodeInfo& info) {
  return ((info.opcode == Opcodes) || ...);
}

constexpr OpWord kVector = OpWord::kVector, kAct = OpWord::kAct, kPe = OpWord::kPe,
                 kPool = OpWord::kPool;
constexpr uint64_t kImm = 0xFFFFFFFFull << 32;

template <auto Field, auto Part>
auto& part(Instruction& i) {
  return (i.*Field).*Part;
}

template <auto Field, auto Part>
void flag(const BodyContext& c) {
  part<Field, Part>(c.out.instruction) = true;
}

uint8_t parse_alu(Cursor& cursor) {
  for (unsigned op = 0; op < 64; ++op) {
    const std::string_view name = isa::alu_name(op);
    if (name == "?" || !cursor.is(name)) continue;
    cursor.next();
    return static_cast<uint8_t>(op);
  }
  cursor.expected("an operation: " + isa::all_operations());
  return 0;
}
template <auto Field, auto Part>
void alu(const BodyContext& c) {
  part<Field, Part>(c.out.instruction) = parse_alu(c.cursor);
}

template <auto Field, auto Part, int64_t Minimum, int64_t Maximum>
void number(const BodyContext& c) {
  auto& field = part<Field, Part>(c.out.instruction);
  field = static_cast<std::remove_reference_t<decltype(field)>>(
      c.cursor.integer("a number", Minimum, Maximum));
}

template <auto Field, auto Part>
void real(const BodyContext& c) {
  part<Field, Part>(c.out.instruction) = parse_real_bits(c.cursor);
}

template <auto Field, auto Part, unsigned Offset>
void device_address(const BodyContext& c) {
  part<Field, Part>(c.out.instruction) = parse_device_address(c.cursor, Offset, c.out);
}

// The steps of activate2 before its function.
void activation_steps(const BodyContext& c) {
  for (unsigned steps = NEURON_PRE_NONE; steps <= NEURON_PRE_MUL_SUB; ++steps) {
    if (!c.cursor.accept(isa::step_name(steps))) continue;
    c.out.instruction.act.pre = static_cast<uint8_t>(steps);
    return;
  }
  c.cursor.expected("the steps before the function: none, mul, add, sub, mul_add or mul_sub");
}

template <auto Slot>
void scalar(const BodyContext& c) {
  const unsigned group = c.out.instruction.group();
  parse_scalar(c.cursor, group <= 1 || group == 7, c.out.instruction.*Slot);
}

template <unsigned Command>
void reduce_command(const BodyContext& c) {
  Instruction& i = c.out.instruction;
  (c.info.word == kAct ? i.act.reduce_command : i.vector.reduce_command) = Command;
}

// "32x64". Read as one word, because the lexer would take "0x64" for a hexadecimal number.
bool parse_pair(Cursor& cursor, const char* expected, unsigned& first, unsigned& second) {
  const Token token = cursor.word();
  const size_t x = token.text.find('x');
  uint64_t values[2] = {0, 0};
  if (x == std::string_view::npos || !parse_unsigned(token.text.substr(0, x), values[0]) ||
      !parse_unsigned(token.text.substr(x + 1), values[1]) || values[0] > 128 || values[1] > 128) {
    cursor.expected_at(token, expected);
    return false;
  }
  first = static_cast<unsigned>(values[0]);
  second = static_cast<unsigned>(values[1]);
  return true;
}

void tile_position(const BodyContext& c) {
  unsigned row = 0, column = 0;
  const Token at = c.cursor.peek();
  if (!parse_pair(c.cursor, "ROWxCOLUMN, as in 32x64", row, column)) return;
  if (row % 32 || column % 32 || row > 96 || column > 96) {
    return c.cursor.fail(at.column, "a tile begins at a multiple of 32 up to 96");
  }
  c.out.instruction.pe.row = static_cast<uint8_t>(row / 32);
  c.out.instruction.pe.column = static_cast<uint8_t>(column / 32);
}

void tile_size(const BodyContext& c) {
  unsigned rows = 0, columns = 0;
  const Token at = c.cursor.peek();
  if (!parse_pair(c.cursor, "ROWSxCOLUMNS, as in 64x128", rows, columns)) return;
  const auto code = [&](unsigned size) -> uint8_t {
    for (unsigned n = 0; n < 4; ++n) {
      if (size == 128u >> n) return static_cast<uint8_t>(n);
    }
    c.cursor.fail(at.column, "a tile has 128, 64 or 32 rows and columns");
    return 0;
  };
  c.out.instruction.pe.rows = code(rows);
  c.out.instruction.pe.columns = code(columns);
}

template <unsigned Dimension>
void pattern(const BodyContext& c) {
  isa::Pattern& pattern = c.out.instruction.pattern;
  pattern.size[Dimension] = static_cast<uint16_t>(c.cursor.integer("a size", 0, 65535));
  c.cursor.expect(":");
  pattern.step[Dimension] = static_cast<int32_t>(c.cursor.integer("a step", INT32_MIN, INT32_MAX));
}

// Numbers with "/" between.
template <class List>
void slashed(Cursor& cursor, const char* what, int64_t maximum, size_t from, List& list) {
  for (size_t i = from; i < list.size() && cursor.ok(); ++i) {
    if (i > 0) cursor.expect("/");
    list[i] = static_cast<typename List::value_type>(cursor.integer(what, 0, maximum));
  }
}

void shuffle_mask(const BodyContext& c) {
  slashed(c.cursor, "a row, or 255", 255, 0, c.out.instruction.shuffle);
}

// Bits of an element of dst: a whole number unless that is an f32.
void element_bits(const BodyContext& c) {
  Instruction& i = c.out.instruction;
  i.vector.imm =
      i.dst.dtype == NEURON_DTYPE_F32
          ? parse_real_bits(c.cursor)
          : static_cast<uint32_t>(c.cursor.integer(
                "a whole number, or the bits of this type as 0x...", INT32_MIN, UINT32_MAX));
}

void gather_elements(const BodyContext& c) {
  const Token at = c.cursor.peek();
  const auto elements = static_cast<uint32_t>(c.cursor.integer("1, 2, 4, ...", 1, 32768));
  if (!std::has_single_bit(elements)) return c.cursor.expected_at(at, "a power of two");
  c.out.instruction.pool.elements = static_cast<uint8_t>(std::countr_zero(elements));
}

// [SIZE:STEP, ...] in bytes, outermost first
template <auto Dims>
void dma_dimensions(const BodyContext& c) {
  std::vector<isa::DmaDimension> given;
  c.cursor.expect("[");
  while (c.cursor.ok() && !c.cursor.is("]")) {
    if (given.size() == 4) return c.cursor.expected("\"]\": there are at most 4 dimensions");
    isa::DmaDimension dimension;
    dimension.size = static_cast<uint32_t>(c.cursor.integer("a size", 0, UINT32_MAX));
    c.cursor.expect(":");
    dimension.step =
        static_cast<int32_t>(c.cursor.integer("a step in bytes", INT32_MIN, INT32_MAX));
    given.push_back(dimension);
    if (!c.cursor.accept(",")) break;
  }
  c.cursor.expect("]");
  auto& dims = c.out.instruction.generate.*Dims;
  for (size_t d = 0; d < given.size(); ++d) dims[d] = given[given.size() - 1 - d];
}

void dma_operation(const BodyContext& c) {
  const Token at = c.cursor.peek();
  const auto operation = index_of(kOperations, at.text);
  if (!operation) return c.cursor.expected(listed(kOperations));
  c.cursor.next();
  c.out.instruction.dma.operation = static_cast<uint8_t>(*operation);
}

template <auto Type>
void dma_type(const BodyContext& c) {
  if (c.cursor.accept("none")) return;
  c.out.instruction.dma.*Type = parse_dtype(c.cursor);
}

// 3, or &name of a queue set
void dma_queue(const BodyContext& c) {
  if (c.cursor.accept("&")) {
    neff::Relocation relocation;
    relocation.field = NEURON_RELOC_QUEUE_CTL;
    relocation.kind = NEURON_RELOC_QUEUE;
    relocation.width = 1;
    relocation.symbol = c.cursor.name("a queue set");
    c.out.relocations.push_back(std::move(relocation));
    return;
  }
  c.out.instruction.dma.queue = static_cast<uint8_t>(c.cursor.integer("a queue", 0, 15));
}

void dma_signal(const BodyContext& c) {
  isa::DmaControl& ctl = c.out.instruction.dma;
  ctl.signal = true;
  ctl.semaphore = parse_semaphore(c.cursor, c.symbols, NEURON_DMA_CTL + 6, c.out);
}

// One count for all engines of the mask, or sixteen.
template <auto Counts>
void counts(const BodyContext& c) {
  isa::DmaTriggerBody& body = c.out.instruction.trigger;
  auto& list = body.*Counts;
  const auto first = static_cast<uint16_t>(c.cursor.integer("a number of descriptors", 0, 65535));
  if (!c.cursor.is("/")) {
    for (unsigned e = 0; e < 16; ++e) list[e] = (body.mask >> e & 1) ? first : 0;
    return;
  }
  list[0] = first;
  slashed(c.cursor, "a number of descriptors", 65535, 1, list);
}

constexpr auto kV = &Instruction::vector;
constexpr auto kA = &Instruction::act;
constexpr auto kP = &Instruction::pe;
constexpr auto kT = &Instruction::trigger;
constexpr auto kG = &Instruction::generate;
constexpr auto kI = &Instruction::indirect;
constexpr auto kD = &Instruction::dma;
constexpr unsigned kDmaControl = isa::kSlotGenerate | isa::kSlotIndirect;

constexpr Key kKeys[] = {
    {"op", true, word<kVector, 0x3F>, alu<kV, &isa::VectorOp::op0>},
    {"op", true, word<kPool, 0x3F>, alu<kV, &isa::VectorOp::op0>},
    {"op0", true, word<kVector, 0x3F>, alu<kV, &isa::VectorOp::op0>},
    {"op0", true, word<kPool, 0x3F>, alu<kV, &isa::VectorOp::op0>},
    {"op1", true, word<kVector, 0x3F << 6>, alu<kV, &isa::VectorOp::op1>},
    {"rev0", false, word<kVector, 1 << 12>, flag<kV, &isa::VectorOp::rev0>},
    {"rev1", false, word<kVector, 1 << 13>, flag<kV, &isa::VectorOp::rev1>},
    {"reduce", true, word<kVector, 0x3F << 14>, alu<kV, &isa::VectorOp::reduce>},
    {"axes", true, word<kVector, 7 << 24>, number<kV, &isa::VectorOp::axes, 0, 7>},
    {"negate", false, word<kVector, 1 << 23>, flag<kV, &isa::VectorOp::negate>},
    {"invert", false, word<kVector, 1 << 27>, flag<kV, &isa::VectorOp::invert>},
    {"value", true, opcodes<NEURON_OP_MEMSET, NEURON_OP_MATCH_REPLACE8>, element_bits},
    {"start", true, opcode<NEURON_OP_RANGE_SELECT>, real<kV, &isa::VectorOp::imm>},
    {"quarter", true, opcode<NEURON_OP_QUANTIZE_MX>, number<kV, &isa::VectorOp::imm, 0, 3>},
    {"mask", true, slot<isa::kSlotShuffle>, shuffle_mask},
    {"reset", false, word<kVector, 7 << 20>, reduce_command<NEURON_REDUCE_RESET>},
    {"reduce", false, word<kVector, 7 << 20>, reduce_command<NEURON_REDUCE_ACCUMULATE>},
    {"reset_reduce", false, word<kVector, 7 << 20>, reduce_command<NEURON_REDUCE_RESET_ACCUMULATE>},
    {"load_reduce", false, word<kVector, 7 << 20>, reduce_command<NEURON_REDUCE_LOAD_ACCUMULATE>},

    {"scale", true, opcode<NEURON_OP_ACTIVATE>, scalar<&Instruction::scalar0>},
    {"bias", true, opcode<NEURON_OP_ACTIVATE>, scalar<&Instruction::scalar1>},
    {"steps", true, opcode<NEURON_OP_ACTIVATE2>, activation_steps},
    {"rev0", false, word<kAct, 1 << 28>, flag<kA, &isa::ActOp::rev0>},
    {"rev1", false, word<kAct, 1 << 29>, flag<kA, &isa::ActOp::rev1>},
    {"reduce", true, word<kAct, 0x3F << 16>, alu<kA, &isa::ActOp::reduce>},
    {"reset", false, word<kAct, 7 << 22>, reduce_command<NEURON_REDUCE_RESET>},
    {"reduce", false, word<kAct, 7 << 22>, reduce_command<NEURON_REDUCE_ACCUMULATE>},
    {"reset_reduce", false, word<kAct, 7 << 22>, reduce_command<NEURON_REDUCE_RESET_ACCUMULATE>},
    {"load_reduce", false, word<kAct, 7 << 22>, reduce_command<NEURON_REDUCE_LOAD_ACCUMULATE>},
    {"set", true, word<kAct, 0xFF << 8>, number<kA, &isa::ActOp::table_set, 0, 255>},
    {"param", true, word<kAct, kImm>, real<kA, &isa::ActOp::param>},

    {"new", false, opcodes<NEURON_OP_MATMUL, NEURON_OP_MATMUL_MX, NEURON_OP_MATMUL_SPARSE>,
     [](const BodyContext&) {}},
    {"acc", false, opcodes<NEURON_OP_MATMUL, NEURON_OP_MATMUL_MX, NEURON_OP_MATMUL_SPARSE>,
     flag<kP, &isa::PeOp::accumulate>},
    {"swap", false, word<kPe, 1 << 12>, flag<kP, &isa::PeOp::swap>},
    {"at", true, word<kPe, 0xF>, tile_position},
    {"tile", true, word<kPe, 0xF0>, tile_size},
    {"mode", true, word<kPe, 7 << 8>, number<kP, &isa::PeOp::mode, 0, 7>},
    {"onezero_moving", false, word<kPe, 1 << 13>, flag<kP, &isa::PeOp::onezero_moving>},
    {"onezero_stationary", false, word<kPe, 1 << 14>, flag<kP, &isa::PeOp::onezero_stationary>},

    {"quarter", true, word<kPe, 3 << 15>, number<kP, &isa::PeOp::quarter, 0, 3>},

    {"offset", true, opcodes<NEURON_OP_IOTA, NEURON_OP_NONZERO_WITH_COUNT>,
     scalar<&Instruction::scalar0>},
    {"offset", true, opcode<NEURON_OP_AFFINE_SELECT>, scalar<&Instruction::scalar1>},
    {"elements", true, word<kPool, 0xF << 12>, gather_elements},
    {"count", true, word<kPool, 0xFFFFull << 16>,
     number<&Instruction::pool, &isa::PoolOp::count, 0, 65535>},
    {"padding", true, opcode<NEURON_OP_NONZERO_WITH_COUNT>,
     number<kV, &isa::VectorOp::imm, INT32_MIN, UINT32_MAX>},
    {"n", true, opcode<NEURON_OP_TOPK>, number<kV, &isa::VectorOp::imm, 0, UINT32_MAX>},
    {"operator", true, opcode<NEURON_OP_CUSTOM>, number<kV, &isa::VectorOp::imm, 0, UINT32_MAX>},
    {"channel", true, slot<isa::kSlotPattern>,
     number<kV, &isa::VectorOp::imm, INT32_MIN, UINT32_MAX>},
    {"p0", true, slot<isa::kSlotPattern>, pattern<0>},
    {"p1", true, slot<isa::kSlotPattern>, pattern<1>},
    {"p2", true, slot<isa::kSlotPattern>, pattern<2>},
    {"p3", true, slot<isa::kSlotPattern>, pattern<3>},

    {"s0", true, slot<isa::kSlotScalar0>, scalar<&Instruction::scalar0>},
    {"s1", true, slot<isa::kSlotScalar1>, scalar<&Instruction::scalar1>},

    {"at", true, slot<isa::kSlotAddress>,
     device_address<&Instruction::address, &isa::AddressBody::addr, NEURON_ADDRESS_ADDR>},
    {"count", true, slot<isa::kSlotAddress>,
     number<&Instruction::address, &isa::AddressBody::count, 0, 65535>},
    {"stride", true, slot<isa::kSlotAddress>,
     number<&Instruction::address, &isa::AddressBody::stride, INT32_MIN, INT32_MAX>},

    {"block", true, slot<isa::kSlotTrigger>,
     number<kT, &isa::DmaTriggerBody::block, 0, UINT32_MAX>},
    {"queue", true, slot<isa::kSlotTrigger>, number<kT, &isa::DmaTriggerBody::queue, 0, 255>},
    {"m2s", true, slot<isa::kSlotTrigger>,
     device_address<kT, &isa::DmaTriggerBody::m2s, NEURON_DMA_TRIGGER_M2S>},
    {"s2m", true, slot<isa::kSlotTrigger>,
     device_address<kT, &isa::DmaTriggerBody::s2m, NEURON_DMA_TRIGGER_S2M>},
    {"stride", true, slot<isa::kSlotTrigger>,
     number<kT, &isa::DmaTriggerBody::stride, 0, UINT32_MAX>},
    {"mask", true, slot<isa::kSlotTrigger>, number<kT, &isa::DmaTriggerBody::mask, 0, 0xFFFF>},
    {"m2s_count", true, slot<isa::kSlotTrigger>, counts<&isa::DmaTriggerBody::m2s_count>},
    {"s2m_count", true, slot<isa::kSlotTrigger>, counts<&isa::DmaTriggerBody::s2m_count>},

    {"to", true, slot<isa::kSlotGenerate>,
     device_address<kG, &isa::DmaGenerateBody::to, NEURON_DMA_GENERATE_TO>},
    {"to_dims", true, slot<isa::kSlotGenerate>, dma_dimensions<&isa::DmaGenerateBody::to_dims>},
    {"from", true, slot<isa::kSlotGenerate>,
     device_address<kG, &isa::DmaGenerateBody::from, NEURON_DMA_GENERATE_FROM>},
    {"from_dims", true, slot<isa::kSlotGenerate>, dma_dimensions<&isa::DmaGenerateBody::from_dims>},
    {"scale", true, slot<isa::kSlotGenerate>, real<kG, &isa::DmaGenerateBody::scale>},
    {"limit", true, slot<isa::kSlotGenerate>,
     number<kG, &isa::DmaGenerateBody::limit, 0, UINT32_MAX>},
    {"at", true, slot<isa::kSlotIndirect>,
     device_address<kI, &isa::DmaIndirectBody::base, NEURON_DMA_INDIRECT_BASE>},
    {"row_bytes", true, slot<isa::kSlotIndirect>,
     number<kI, &isa::DmaIndirectBody::row_bytes, 0, UINT32_MAX>},
    {"row_step", true, slot<isa::kSlotIndirect>,
     number<kI, &isa::DmaIndirectBody::row_step, 0, UINT32_MAX>},
    {"rows", true, slot<isa::kSlotIndirect>,
     number<kI, &isa::DmaIndirectBody::rows, 0, UINT32_MAX>},
    {"op", true, slot<kDmaControl>, dma_operation},
    {"from_type", true, slot<kDmaControl>, dma_type<&isa::DmaControl::from_type>},
    {"to_type", true, slot<kDmaControl>, dma_type<&isa::DmaControl::to_type>},
    {"acc", false, slot<kDmaControl>, flag<kD, &isa::DmaControl::accumulate>},
    {"skip", false, slot<kDmaControl>, flag<kD, &isa::DmaControl::skip>},
    {"queue", true, slot<kDmaControl>, dma_queue},
    {"dge", false, slot<kDmaControl>, flag<kD, &isa::DmaControl::generator>},
    {"priority", true, slot<kDmaControl>, number<kD, &isa::DmaControl::priority, 0, 3>},
    {"mask", true, slot<kDmaControl>, number<kD, &isa::DmaControl::mask, 0, 0xFFFF>},
    {"signal", true, slot<kDmaControl>, dma_signal},

    {"start", true, slot<isa::kSlotLoop>, scalar<&Instruction::scalar0>},
    {"end", true, slot<isa::kSlotLoop>, scalar<&Instruction::scalar1>},
    {"step", true, slot<isa::kSlotLoop>,
     number<&Instruction::loop, &isa::LoopBody::step, INT32_MIN, INT32_MAX>},
    {"length", true, slot<isa::kSlotLoop>,
     number<&Instruction::loop, &isa::LoopBody::length, 0, UINT32_MAX>},
    {"unsigned", false, word<OpWord::kFlow, 1 << 28>,
     flag<&Instruction::flow, &isa::FlowOp::is_unsigned>},
};

}  // namespace

void start_body(Cursor& cursor, const OpcodeInfo& info, const InstructionSymbols& symbols,
                ParsedInstruction& out) {
  if (slot<isa::kSlotAddress>(info)) out.instruction.address.count = 1;
  const Token& token = cursor.peek();
  const bool block = info.opcode == NEURON_OP_DMA_TRIGGER &&
                     (token.kind == Token::kNumber || token.kind == Token::kString ||
                      (token.kind == Token::kName && cursor.peek_second().text != "="));
  if (!block) return;
  // The whole body comes from the ring that holds the block's transfers.
  neff::Relocation relocation;
  relocation.field = NEURON_DMA_TRIGGER_M2S;
  relocation.kind = NEURON_RELOC_DMA_BLOCK;
  if (token.kind == Token::kNumber) {
    relocation.symbol = std::to_string(cursor.integer("a block id", 0, UINT32_MAX));
  } else {
    const Token at = token;
    const std::string name = cursor.name("a block");
    const auto found = symbols.blocks.find(name);
    if (found == symbols.blocks.end()) {
      return cursor.expected_at(at, "the name or id of a .dma of this engine");
    }
    relocation.symbol = std::to_string(found->second);
  }
  out.relocations.push_back(std::move(relocation));
}

void parse_function(Cursor& cursor, Instruction& instruction) {
  const Token token = cursor.peek();
  for (unsigned function = 0; function <= NEURON_ACT_RECIPROCAL; ++function) {
    if (!cursor.is(isa::activation_name(function))) continue;
    cursor.next();
    instruction.act.function = static_cast<uint8_t>(function);
    return;
  }
  uint64_t number = 256;
  if (token.kind == Token::kName && token.text.starts_with("table") &&
      parse_unsigned(token.text.substr(5), number) && number < 256) {
    cursor.next();
    instruction.act.function = static_cast<uint8_t>(number);
    return;
  }
  cursor.expected("an activation function, or table128 to table255: " + isa::all_functions());
}

bool parse_item(const BodyContext& context) {
  Cursor& cursor = context.cursor;
  const Token token = cursor.peek();
  const bool has_value = token.kind == Token::kName && cursor.peek_second().text == "=";
  for (const Key& key : kKeys) {
    if (key.has_value != has_value || !cursor.is(key.name) || !key.applies(context.info)) continue;
    // "r5 = 3" of the flow instructions is not a key.
    cursor.next();
    if (has_value) cursor.expect("=");
    key.parse(context);
    return true;
  }
  return context.info.opcode >> 8 == 1 && parse_flow_word(context);
}

std::string keys_of(const OpcodeInfo& info) {
  std::string text;
  std::string_view last;
  for (const Key& key : kKeys) {
    if (!key.applies(info) || key.name == last) continue;
    last = key.name;
    text += (text.empty() ? "" : ", ") + std::string(key.name) + (key.has_value ? "=" : "");
  }
  return text.empty() ? "none" : text;
}

}  // namespace neuron::assembler
