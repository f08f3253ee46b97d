// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/program.h"

#include "hw/address_map.h"
#include "tools/compiler/program_builder/neff_emitter.h"

namespace neuron::builder {

using runtime::Result;

Program::Program(std::string name, uint8_t generation)
    : limits_(isa::limits_of(generation)),
      sbuf_(NEURON_SPACE_SBUF, limits_.sbuf_partition_bytes),
      psum_(NEURON_SPACE_PSUM, NEURON_PSUM_PARTITION_BYTES),
      schedule_(std::move(name)) {}

Buffer Program::add_buffer(BufferInfo info) {
  if (!ok()) return {};
  if (!buffer_names_.insert(info.name).second) {
    fail(runtime::fail(NRT_INVALID, "two buffers have the name \"{}\"", info.name));
    return {};
  }
  // The name is a key of def.json and, of a constant, a file.
  if (info.name.empty() || info.name.size() > 255 || info.name == Transfer::kOnChipName) {
    fail(runtime::fail(NRT_INVALID,
                       "a buffer has the name \"{}\"; give 1 to 255 bytes other than \"{}\"",
                       info.name, Transfer::kOnChipName));
    return {};
  }
  const unsigned element = isa::dtype_bytes(info.dtype);
  uint64_t count = 1;
  for (uint64_t size : info.shape) {
    if (size == 0 || size > (uint64_t{1} << 40) / count) count = 0;
    if (count == 0) break;
    count *= size;
  }
  if (element == 0 || count == 0) {
    fail(runtime::fail(NRT_INVALID,
                       "buffer \"{}\" has data type {} and a dimension of 0 or too many elements",
                       info.name, isa::dtype_name(info.dtype)));
    return {};
  }
  info.bytes = count * element;
  if (info.kind == BufferKind::kConstant && info.contents.size() != info.bytes) {
    fail(runtime::fail(NRT_INVALID, "constant \"{}\" has {} bytes, its shape asks for {}",
                       info.name, info.contents.size(), info.bytes));
    return {};
  }
  Buffer buffer;
  buffer.index = static_cast<int32_t>(buffers_.size());
  buffer.dtype = info.dtype;
  buffer.columns = info.shape.empty() ? 1 : info.shape.back();
  buffer.rows = count / buffer.columns;
  buffers_.push_back(std::move(info));
  return buffer;
}

Buffer Program::input(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape) {
  return add_buffer({name, BufferKind::kInput, dtype, std::move(shape), 0, {}});
}
Buffer Program::output(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                       const std::string& donor) {
  const Buffer buffer = add_buffer({name, BufferKind::kOutput, dtype, std::move(shape), 0, {}});
  if (donor.empty() || !buffer.present()) return buffer;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].name != donor || buffers_[i].kind != BufferKind::kInput ||
        buffers_[i].bytes != buffers_.back().bytes) {
      continue;
    }
    schedule_.same_memory(static_cast<uint32_t>(buffer.index), static_cast<uint32_t>(i));
    return buffer;
  }
  fail(runtime::fail(NRT_INVALID,
                     "output \"{}\" is to have the memory of input \"{}\", which does not exist or "
                     "has another size",
                     name, donor));
  return {};
}
Buffer Program::temporary(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape) {
  return add_buffer({name, BufferKind::kTemporary, dtype, std::move(shape), 0, {}});
}
Buffer Program::constant(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                         std::vector<uint8_t> contents) {
  return add_buffer({name, BufferKind::kConstant, dtype, std::move(shape), 0, std::move(contents)});
}

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

void Program::emit(Draft draft) {
  if (!schedule_.open()) return;
  schedule_.journal().next_operation();
  if (!draft.wrong.empty()) {
    fail(runtime::fail(NRT_INVALID, "{}", draft.wrong));
    return;
  }
  draft.i.rounding = static_cast<uint8_t>(rounding_);
  if (!check_instruction(draft.engine, draft.i)) return;
  if (schedule_.in_loop() && !draft.advances.empty()) {
    if (draft.advances.size() > draft.i.bind.size()) {
      fail(runtime::fail(NRT_INVALID, "{} operands advance in a loop; an instruction can bind 4",
                         draft.advances.size()));
      return;
    }
    isa::Instruction last = draft.i;
    isa::Operand* const operands[] = {&last.dst, &last.src0, &last.src1};
    isa::Scalar* const scalars[] = {&last.scalar0, &last.scalar1};
    for (const Advance& advance : draft.advances) {
      auto& field = advance.item == NEURON_BIND_SCALAR ? scalars[advance.operand]->value
                                                       : operands[advance.operand]->base;
      field += static_cast<uint32_t>(advance.bytes * (int64_t{schedule_.rounds()} - 1));
    }
    if (!check_instruction(draft.engine, last)) return;
  }
  Schedule::Item item;
  item.engine = draft.engine;
  item.step.instruction = draft.i;
  item.step.advances = std::move(draft.advances);
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
