// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/control_flow.h"

#include <algorithm>

#include "driver/base/format.h"
#include "hw/address_map.h"
#include "tools/compiler/program_builder/draft.h"

namespace neuron::builder {
namespace {

using isa::immediate;

constexpr uint8_t kOperations[] = {NEURON_ALU_ADD, NEURON_ALU_SUB, NEURON_ALU_MUL,
                                   NEURON_ALU_DIV, NEURON_ALU_MOD, NEURON_ALU_MIN,
                                   NEURON_ALU_MAX, NEURON_ALU_AND, NEURON_ALU_OR,
                                   NEURON_ALU_XOR, NEURON_ALU_SHL, NEURON_ALU_SHR_LOGICAL};

}  // namespace

void ControlFlow::begin_loop(Block block, uint32_t most, const LoopBody& body) {
  const Index round = schedule_.indexes().add({.name = "", .most = most, .is_loop = true});
  block.index = round.number;
  Node node;
  node.kind = Node::Kind::kLoop;
  node.block = std::move(block);
  schedule_.begin(std::move(node));
  body(round);
  schedule_.end();
}

void ControlFlow::loop(uint32_t rounds, const LoopBody& body) {
  if (!schedule_.open() || rounds == 0) return;
  if (rounds > INT32_MAX) {
    schedule_.journal().fail(
        runtime::fail(NRT_INVALID, "a loop of {} rounds; registers count to 2147483647", rounds));
    return;
  }
  begin_loop({.rounds = rounds}, rounds - 1, body);
}

void ControlFlow::loop(Index rounds, const LoopBody& body) {
  if (!schedule_.open() || !schedule_.indexes().check(rounds)) return;
  const uint32_t most = schedule_.indexes().of(rounds).most;
  if (most > INT32_MAX) {
    schedule_.journal().fail(runtime::fail(
        NRT_INVALID, "a loop of up to {} rounds; registers count to 2147483647", most));
    return;
  }
  begin_loop({.count = rounds.number}, most == 0 ? 0 : most - 1, body);
}

void ControlFlow::when(Index left, Compare compare, uint32_t right, const Body& then,
                       const Body& otherwise) {
  if (!schedule_.open() || !schedule_.indexes().check(left)) return;
  Node node;
  node.kind = Node::Kind::kBranch;
  node.block.left = in_register(left).number;
  node.block.condition = static_cast<uint8_t>(compare);
  node.block.right = right;
  schedule_.begin(std::move(node));
  if (then) then();
  schedule_.begin_otherwise();
  if (otherwise) otherwise();
  schedule_.end();
}

Function ControlFlow::function(const std::string& name, const Body& body) {
  if (!schedule_.open()) return {};
  const uint32_t number = schedule_.name_function(name);
  if (number == 0) return {};
  Node node;
  node.kind = Node::Kind::kFunction;
  node.block.name = name;
  node.block.function = number;
  schedule_.begin(std::move(node));
  body();
  schedule_.end();
  return {number, schedule_.indexes().program()};
}

void ControlFlow::call(Function function) {
  if (!schedule_.open()) return;
  schedule_.journal().next_operation();
  if (function.present() && function.program != schedule_.indexes().program()) {
    schedule_.journal().fail(
        runtime::fail(NRT_INVALID,
                      "a function of another program is called; call what function() of this "
                      "program returned"));
    return;
  }
  schedule_.call(function.number);
}

void ControlFlow::once(const Body& body) {
  if (!schedule_.open()) return;
  if (schedule_.in_loop() || schedule_.in_while()) {
    schedule_.journal().fail(runtime::fail(
        NRT_INVALID, "what happens once lies in a loop, branch or function; list it outside"));
    return;
  }
  Node node;
  node.kind = Node::Kind::kBranch;
  node.block.left = schedule_.indexes().executed().number;
  node.block.condition = NEURON_BRANCH_EQ;
  node.block.once = true;
  schedule_.begin(std::move(node));
  body();
  schedule_.end();
}

void ControlFlow::barrier() {
  Node node;
  node.kind = Node::Kind::kBarrier;
  schedule_.add(std::move(node));
}

Index ControlFlow::number(const std::string& name, uint32_t most) {
  if (!schedule_.open()) return {};
  return schedule_.indexes().add({.name = name, .most = most});
}

bool ControlFlow::assignable(Index to) {
  if (!schedule_.open()) return false;
  schedule_.journal().next_operation();
  if (!schedule_.indexes().made(to)) return false;
  if (!schedule_.indexes().of(to).is_loop) return true;
  schedule_.journal().fail(
      runtime::fail(NRT_INVALID, "a value is given to the round of a loop, which is no number"));
  return false;
}

void ControlFlow::on_all(const isa::Instruction& instruction, std::array<uint32_t, 3> registers,
                         const Word& word) {
  const uint32_t label = schedule_.journal().label(0, -1);
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    Item item;
    item.engine = e;
    item.step.instruction = instruction;
    item.step.instruction.engines = static_cast<uint8_t>(1u << e);
    item.step.registers = registers;
    item.step.label = label;
    if (word.usable) {
      item.step.addresses = {word.address};
      item.reads = {word.region};
    }
    schedule_.add(std::move(item));
  }
}

void ControlFlow::set(Index to, uint32_t value) {
  if (!assignable(to)) return;
  const IndexInfo& info = schedule_.indexes().of(to);
  schedule_.indexes().known().give(to.number);
  isa::Instruction move;
  move.opcode = NEURON_OP_MOV;
  move.scalar0 = immediate(std::min(value, info.most));
  on_all(move, {to.number, 0, 0}, {});
}

void ControlFlow::clamp(Index number) {
  const uint32_t most = schedule_.indexes().of(number).most;
  schedule_.indexes().known().give(number.number);
  if (most == UINT32_MAX) return;
  isa::Instruction least;
  least.opcode = NEURON_OP_ALU;
  least.flow.alu = NEURON_ALU_MIN;
  least.flow.imm = true;
  least.flow.is_unsigned = true;
  least.scalar0 = immediate(most);
  on_all(least, {number.number, number.number, 0}, {});
}

// The round of a loop that has one round is in no register.
Index ControlFlow::in_register(Index value) {
  const IndexInfo& info = schedule_.indexes().of(value);
  if (!info.is_loop || info.most != 0) return value;
  const Index zero = schedule_.indexes().zero();
  set(zero, 0);
  return zero;
}

bool ControlFlow::fits(Index to, Index a, uint8_t op, uint32_t most_of_b) {
  const uint64_t most = schedule_.indexes().of(a).most;
  uint64_t largest = 0;
  if (op == NEURON_ALU_ADD) largest = most + most_of_b;
  if (op == NEURON_ALU_MUL) largest = most * most_of_b;
  // Engines shift by 32 and more to 0.
  if (op == NEURON_ALU_SHL) largest = most << std::min(most_of_b, 31U);
  const IndexInfo& result = schedule_.indexes().of(to);
  if (largest <= UINT32_MAX || result.most == UINT32_MAX) return true;
  schedule_.journal().fail(runtime::fail(
      NRT_INVALID,
      "number \"{}\" is at most {}, but {} may give up to {}, of which engines keep 32 bits; "
      "declare smaller largest values of the operands",
      result.name, result.most, isa::alu_name(op), largest));
  return false;
}

void ControlFlow::set(Index to, Index a, uint8_t op, uint32_t b) {
  if (!assignable(to) || !schedule_.indexes().check(a)) return;
  a = in_register(a);
  const bool divides = op == NEURON_ALU_DIV || op == NEURON_ALU_MOD;
  if (std::find(std::begin(kOperations), std::end(kOperations), op) == std::end(kOperations) ||
      (divides && b == 0)) {
    schedule_.journal().fail(
        runtime::fail(NRT_INVALID, "numbers have no operation {} with {}", isa::alu_name(op), b));
    return;
  }
  if (!fits(to, a, op, op == NEURON_ALU_SHL && b >= 32 ? 0 : b)) return;
  isa::Instruction compute;
  compute.opcode = NEURON_OP_ALU;
  compute.flow.alu = op;
  compute.flow.imm = true;
  compute.flow.is_unsigned = true;
  compute.scalar0 = immediate(b);
  on_all(compute, {to.number, a.number, 0}, {});
  clamp(to);
}

void ControlFlow::set(Index to, Index a, uint8_t op, Index b) {
  if (!assignable(to) || !schedule_.indexes().check(a) || !schedule_.indexes().check(b)) return;
  a = in_register(a);
  b = in_register(b);
  if (std::find(std::begin(kOperations), std::end(kOperations), op) == std::end(kOperations)) {
    schedule_.journal().fail(
        runtime::fail(NRT_INVALID, "numbers have no operation {}", isa::alu_name(op)));
    return;
  }
  if (!fits(to, a, op, schedule_.indexes().of(b).most)) return;
  isa::Instruction compute;
  compute.opcode = NEURON_OP_ALU;
  compute.flow.alu = op;
  compute.flow.is_unsigned = true;
  on_all(compute, {to.number, a.number, b.number}, {});
  clamp(to);
}

ControlFlow::Word ControlFlow::word_of(const TileAccess& access) {
  Word word;
  if (!schedule_.open()) return word;
  if (access.space != NEURON_SPACE_SBUF || !access.inside || access.parts != 1 ||
      access.elements() != 1 || isa::dtype_bytes(access.dtype) != 4 || access.base % 4 != 0 ||
      access.advance != 0 || !access.motions.empty()) {
    schedule_.journal().fail(runtime::fail(
        NRT_INVALID, "a number is loaded from or stored to what is no single word in SBUF"));
    return word;
  }
  word.address = {NEURON_ADDRESS_ADDR, Transfer::kOnChip,
                  access.start * uint64_t{NEURON_SBUF_PARTITION_STRIDE} + access.base};
  word.region = region_of(access);
  word.usable = true;
  return word;
}

ControlFlow::Word ControlFlow::word_of(const BufferAccess& access, bool write) {
  Word word;
  if (!schedule_.open()) return word;
  const BufferInfo* info = access.present() && static_cast<size_t>(access.buffer) < buffers_.size()
                               ? &buffers_[static_cast<size_t>(access.buffer)]
                               : nullptr;
  const bool known = info != nullptr && (info->kind == BufferKind::kTemporary ||
                                         (info->kind == BufferKind::kConstant && !write));
  if (!known || access.bytes() != 4 || access.offset % 4 != 0 || access.offset + 4 > info->bytes ||
      access.advance != 0 || !access.motions.empty()) {
    schedule_.journal().fail(runtime::fail(
        NRT_INVALID, "a number is {} what is no single word of a {}",
        write ? "stored to" : "loaded from", write ? "temporary" : "constant or temporary"));
    return word;
  }
  word.address = {NEURON_ADDRESS_ADDR, access.buffer, access.offset};
  word.region = region_of(access);
  word.usable = true;
  return word;
}

void ControlFlow::load(Index to, const Word& word) {
  if (!word.usable || !assignable(to)) return;
  isa::Instruction load;
  load.opcode = NEURON_OP_LOAD;
  load.address.count = 1;
  on_all(load, {to.number, 0, 0}, word);
  clamp(to);
}

void ControlFlow::load(Index to, const TileAccess& word) { load(to, word_of(word)); }

void ControlFlow::load(Index to, const BufferAccess& word) { load(to, word_of(word, false)); }

void ControlFlow::store(const Word& word, Index from) {
  if (!word.usable || !schedule_.indexes().check(from)) return;
  from = in_register(from);
  schedule_.journal().next_operation();
  Item item;
  item.engine = NEURON_ENGINE_SP;
  item.step.instruction.opcode = NEURON_OP_STORE;
  item.step.instruction.engines = 1u << NEURON_ENGINE_SP;
  item.step.instruction.address.count = 1;
  item.step.registers = {0, from.number, 0};
  item.step.addresses = {word.address};
  item.step.label = schedule_.journal().label(0, -1);
  item.writes = {word.region};
  schedule_.add(std::move(item));
}

void ControlFlow::store(const TileAccess& word, Index from) { store(word_of(word), from); }

void ControlFlow::store(const BufferAccess& word, Index from) { store(word_of(word, true), from); }

}  // namespace neuron::builder
