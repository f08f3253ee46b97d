// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/program.h"

#include <map>
#include <utility>

#include "hw/address_map.h"
#include "tools/compiler/program_builder/neff_emitter.h"

namespace neuron::builder {

using runtime::Result;

Program::Program(std::string name, uint8_t generation)
    : limits_(isa::limits_of(generation)),
      sbuf_(NEURON_SPACE_SBUF, limits_.sbuf_partition_bytes),
      psum_(NEURON_SPACE_PSUM, NEURON_PSUM_PARTITION_BYTES),
      schedule_(std::move(name)) {}

Tile Program::allocate(OnChipAllocator& allocator, uint8_t space, const std::string& name,
                       uint32_t parts, uint32_t columns, uint8_t dtype) {
  if (!ok()) return {};
  const auto place = allocator.allocate(name, parts, uint64_t{columns} * isa::dtype_bytes(dtype));
  if (!place) {
    fail(place.error());
    return {};
  }
  tiles_.push_back({name, parts, columns, dtype});
  const auto number = static_cast<uint32_t>(tiles_.size());
  return {space, dtype, place->start, parts, place->base, columns, number};
}

Tile Program::sbuf(const std::string& name, uint32_t parts, uint32_t columns, uint8_t dtype) {
  return allocate(sbuf_, NEURON_SPACE_SBUF, name, parts, columns, dtype);
}
Tile Program::psum(const std::string& name, uint32_t parts, uint32_t columns, uint8_t dtype) {
  return allocate(psum_, NEURON_SPACE_PSUM, name, parts, columns, dtype);
}
Tile Program::tile_at(uint8_t space, const std::string& name, uint32_t start, uint32_t base,
                      uint32_t parts, uint32_t columns, uint8_t dtype) {
  if (!ok()) return {};
  const uint64_t bytes = uint64_t{columns} * isa::dtype_bytes(dtype);
  if (auto placed =
          (space == NEURON_SPACE_PSUM ? psum_ : sbuf_).reserve(name, start, base, parts, bytes);
      !placed) {
    fail(placed.error());
    return {};
  }
  tiles_.push_back({name, parts, columns, dtype});
  return {space, dtype, start, parts, base, columns, static_cast<uint32_t>(tiles_.size())};
}

void Program::release(const Tile& tile) {
  if (!tile.present()) return;
  (tile.space == NEURON_SPACE_PSUM ? psum_ : sbuf_).release(tile.start, tile.parts, tile.base);
}

bool Program::check_instruction(unsigned engine, const isa::Instruction& instruction) {
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  isa::encode(instruction, bytes);
  isa::Violation violation = isa::check_encoding(bytes, engine, limits_);
  if (!violation) violation = isa::check_operands(instruction, engine, limits_);
  if (!violation) return true;
  fail(runtime::fail(NRT_INVALID, "{} engine: {}; the instruction is {}", isa::engine_name(engine),
                     isa::describe(violation, instruction),
                     isa::disassemble(instruction, static_cast<int>(engine))));
  return false;
}

// The instruction with all operands where they are furthest down, and furthest up.
bool Program::check_reach(const Draft& draft) {
  struct Reach {
    int64_t below = 0, above = 0;
  };
  std::map<std::pair<uint8_t, uint8_t>, Reach> moved;
  for (const Advance& advance : draft.advances) {
    const Index index{advance.index, advance.program};
    if (index.present() && !schedule_.indexes().check(index)) return false;
    const uint32_t most =
        index.present() ? schedule_.indexes().of(index).most : schedule_.rounds() - 1;
    const int64_t far = Indexes::distance(advance.bytes, most);
    Reach& reach = moved[{advance.item, advance.operand}];
    (far < 0 ? reach.below : reach.above) += far;
  }
  if (moved.size() > draft.i.bind.size()) {
    fail(runtime::fail(NRT_INVALID, "{} operands advance in a loop; an instruction can bind 4",
                       moved.size()));
    return false;
  }
  const auto field_of = [](isa::Instruction& i, const std::pair<uint8_t, uint8_t>& moves) {
    isa::Operand* const operands[] = {&i.dst, &i.src0, &i.src1};
    isa::Scalar* const scalars[] = {&i.scalar0, &i.scalar1};
    return moves.first == NEURON_BIND_SCALAR ? &scalars[moves.second]->value
                                             : &operands[moves.second]->base;
  };
  isa::Instruction lowest = draft.i, highest = draft.i;
  for (const auto& [moves, reach] : moved) {
    uint32_t& low = *field_of(lowest, moves);
    uint32_t& high = *field_of(highest, moves);
    const int64_t first = low + reach.below, last = high + reach.above;
    if (first < 0 || last > UINT32_MAX) {
      fail(runtime::fail(NRT_INVALID,
                         "an operand moves with loops or numbers to bytes {} to {} of its "
                         "partition, which an instruction cannot name",
                         first, last));
      return false;
    }
    low = static_cast<uint32_t>(first);
    high = static_cast<uint32_t>(last);
  }
  return check_instruction(draft.engine, lowest) && check_instruction(draft.engine, highest);
}

void Program::emit(Draft draft) {
  if (!schedule_.open()) return;
  schedule_.journal().next_operation();
  if (!draft.wrong.empty()) {
    fail(runtime::fail(NRT_INVALID, "{}", draft.wrong));
    return;
  }
  draft.i.rounding = static_cast<uint8_t>(rounding_);
  if (!check_instruction(draft.engine, draft.i)) return;
  if (!draft.advances.empty() && !check_reach(draft)) return;
  Schedule::Item item;
  item.engine = draft.engine;
  item.step.instruction = draft.i;
  item.step.advances = std::move(draft.advances);
  item.step.raises = draft.raises;
  item.step.label = schedule_.journal().label(draft.tile, -1);
  item.reads = std::move(draft.reads);
  item.writes = std::move(draft.writes);
  schedule_.add(std::move(item));
}

void Program::raw(Engine engine, isa::Instruction instruction) {
  if (!schedule_.open()) return;
  schedule_.journal().next_operation();
  Schedule::Item item;
  item.engine = static_cast<unsigned>(engine);
  instruction.engines = static_cast<uint8_t>(1u << item.engine);
  item.step.instruction = instruction;
  item.step.label = schedule_.journal().label(0, -1);
  schedule_.add(std::move(item));
}

Result<std::vector<uint8_t>> Program::build(ConstantStorage constants) {
  constant_storage_ = constants;
  if (ok()) schedule_.finish();
  if (!ok()) return *schedule_.journal().error();
  if (second_ != nullptr) {
    second_->constant_storage_ = constants;
    if (second_->ok()) second_->schedule_.finish();
    if (!second_->ok()) return *second_->schedule_.journal().error();
  }
  return NeffEmitter(*this).emit();
}

}  // namespace neuron::builder
