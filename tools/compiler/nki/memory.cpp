// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/nki/memory.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "driver/isa/instruction.h"

namespace neuron::nki {

using builder::Buffer;
using builder::BufferAccess;
using builder::Engine;
using builder::ScalarArgument;
using builder::Side;
using builder::Tile;
using builder::TileAccess;
using runtime::fail;
using runtime::Result;

namespace {

constexpr size_t kMostConstantBytes = 16u << 20;
constexpr uint32_t kMostColumns = 1u << 20;
constexpr size_t kMostHoldersNamed = 8;
constexpr const char* kKinds[] = {"input", "output", "inout", "temporary", "constant"};
enum Kind : size_t { kInput, kOutput, kInOut, kTemporary, kConstant };

// Innermost first, dimensions that continue each other merged; the `keep` innermost stay apart.
struct Merged {
  std::vector<Span> spans;
  size_t kept = 0;
};

Merged merge(const std::vector<Span>& pattern, size_t keep) {
  Merged merged;
  size_t begin = 0;  // Of the group that may be merged
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (i == keep) {
      merged.kept = merged.spans.size();
      begin = merged.kept;
    }
    const Span& span = pattern[pattern.size() - 1 - i];
    if (span.count == 1) continue;
    if (merged.spans.size() > begin) {
      Span& inner = merged.spans.back();
      if (span.step == inner.step * static_cast<int64_t>(inner.count)) {
        inner.count *= span.count;
        continue;
      }
    }
    merged.spans.push_back(span);
  }
  if (keep >= pattern.size()) merged.kept = merged.spans.size();
  return merged;
}

Result<std::vector<uint8_t>> bytes_of_hexadecimal(const std::string& text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0) {
    return fail(NRT_INVALID, "data has {} digits; expected two for each byte", text.size());
  }
  std::vector<uint8_t> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return fail(NRT_INVALID, "data has no hexadecimal digits (0-9, a-f) for byte {}", i);
    }
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return bytes;
}

Result<void> check_size(const std::string& name, const std::string& space, uint32_t parts,
                        uint32_t columns) {
  if (parts != 0 && columns != 0 && (space == "sbuf" || space == "psum")) return {};
  return fail(NRT_INVALID,
              "tile \"{}\" of {} partitions and {} columns in \"{}\"; expected at least one of "
              "each, in sbuf or psum",
              name, parts, columns, space);
}

const char* space_name(uint8_t space) { return space == NEURON_SPACE_PSUM ? "PSUM" : "SBUF"; }

}  // namespace

std::string Memory::place_of(uint32_t file, uint32_t line) const {
  if (file >= files_.size() || line == 0) return "a line that the trace does not name";
  return base::format("{}:{}", files_[file], line);
}

std::string Memory::describe(uint32_t tile) const {
  const auto found = tiles_.find(tile);
  if (found == tiles_.end()) return base::format("tile {}", tile);
  return base::format("tile \"{}\" ({})", found->second.name,
                      place_of(found->second.file, found->second.line));
}

// The tiles that Python still holds, largest first, and what room they leave.
std::string Memory::holders(uint8_t space, uint32_t parts, uint64_t wanted) const {
  std::map<std::pair<std::string, uint64_t>, std::pair<uint64_t, uint64_t>> by_line;
  uint64_t held = 0;
  for (const auto& [id, state] : tiles_) {
    if (state.space != space || state.dropped) continue;
    const std::string key =
        base::format("\"{}\" since {}", state.name, place_of(state.file, state.line));
    auto& entry = by_line[{key, state.bytes}];
    ++entry.first;
    entry.second += state.bytes;
    held += state.bytes;
  }
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (const auto& [key, entry] : by_line) {
    lines.emplace_back(entry.second, entry.first == 1
                                         ? base::format("{} bytes by {}", entry.second, key.first)
                                         : base::format("{} bytes by {} tiles {}", entry.second,
                                                        entry.first, key.first));
  }
  std::sort(lines.rbegin(), lines.rend());
  std::string text = base::format("tiles hold, in each partition:");
  for (size_t i = 0; i < lines.size() && i < kMostHoldersNamed; ++i) {
    text += (i == 0 ? " " : ", ") + lines[i].second;
  }
  if (lines.size() > kMostHoldersNamed) {
    text += base::format(", and {} more", lines.size() - kMostHoldersNamed);
  }
  const auto& memory = program_.parts().memory(space);
  const uint64_t all = memory.partition_bytes();
  if (lines.empty()) text = "no tile holds any of it";
  return text + base::format(
                    ". Of the {} bytes in a partition {} are free, {} of them in one piece, "
                    "which is what would fit; {} bytes were asked for",
                    all, all - std::min(all, held), memory.largest_gap(parts), wanted);
}

Result<Tile> Memory::place(uint8_t space, const std::string& name, uint32_t parts, uint32_t columns,
                           uint8_t dtype) {
  const uint64_t bytes = uint64_t{columns} * isa::dtype_bytes(dtype);
  auto& waiting = dropped_[space];
  const auto& room = program_.parts().memory(space);
  while (!room.has_room(parts, bytes) && !waiting.empty()) {
    program_.release(waiting.front());
    waiting.pop_front();
  }
  if (!room.has_room(parts, bytes)) {
    return fail(NRT_RESOURCE, "{} has no room for tile \"{}\" of {} partitions: {}",
                space_name(space), name, parts, holders(space, parts, bytes));
  }
  return space == NEURON_SPACE_PSUM ? program_.psum(name, parts, columns, dtype)
                                    : program_.sbuf(name, parts, columns, dtype);
}

Result<void> Memory::reserve(Record& record) {
  const auto address = record.counts("address", 2);
  NEURON_CHECK(record.result());
  if (address.size() != 2) {
    return fail(NRT_INVALID, "address has {} numbers; expected a partition and a byte",
                address.size());
  }
  const std::string space = record.text("space");
  const auto parts = static_cast<uint32_t>(record.count("parts", NEURON_PARTITIONS));
  const auto columns = static_cast<uint32_t>(record.count("columns", kMostColumns));
  const uint8_t dtype = record.dtype("dtype");
  const std::string name = record.text_or("name", "tile");
  const auto id = static_cast<uint32_t>(record.count("id", UINT32_MAX));
  NEURON_CHECK(record.result());
  NEURON_CHECK(check_size(name, space, parts, columns));
  if (tiles_.count(id) != 0) return fail(NRT_INVALID, "two tiles have the number {}", id);
  TileState state;
  state.space = space == "psum" ? NEURON_SPACE_PSUM : NEURON_SPACE_SBUF;
  state.name = name;
  state.parts = parts;
  state.bytes = uint64_t{columns} * isa::dtype_bytes(dtype);
  state.file = record.file();
  state.line = record.line();
  state.placed_by_caller = true;
  state.tile = program_.tile_at(
      state.space, state.name,
      static_cast<uint32_t>(std::min<uint64_t>(address[0], NEURON_PARTITIONS)),
      static_cast<uint32_t>(std::min<uint64_t>(address[1], UINT32_MAX)), parts, columns, dtype);
  tiles_[id] = std::move(state);
  return {};
}

Result<void> Memory::declare_tile(Record& record) {
  const auto id = static_cast<uint32_t>(record.count("id", UINT32_MAX));
  const std::string space = record.text("space");
  const auto parts = static_cast<uint32_t>(record.count("parts", NEURON_PARTITIONS));
  const auto columns = static_cast<uint32_t>(record.count("columns", kMostColumns));
  const uint8_t dtype = record.dtype("dtype");
  const std::string name = record.text_or("name", "tile");
  NEURON_CHECK(record.result());
  NEURON_CHECK(check_size(name, space, parts, columns));
  const auto known = tiles_.find(id);
  if (known != tiles_.end()) {
    if (record.has("address") && !known->second.dropped) return {};
    return fail(NRT_INVALID, "two tiles have the number {}", id);
  }
  TileState state;
  state.space = space == "psum" ? NEURON_SPACE_PSUM : NEURON_SPACE_SBUF;
  state.name = name;
  state.parts = parts;
  state.bytes = uint64_t{columns} * isa::dtype_bytes(dtype);
  state.file = record.file();
  state.line = record.line();
  NEURON_TRY(tile, place(state.space, name, parts, columns, dtype));
  state.tile = tile;
  state.depth = depth_;
  tiles_[id] = std::move(state);
  return {};
}

Result<void> Memory::drop_tile(Record& record) {
  const auto id = static_cast<uint32_t>(record.count("id", UINT32_MAX));
  NEURON_CHECK(record.result());
  const auto found = tiles_.find(id);
  if (found != tiles_.end() && std::exchange(found->second.ended, false)) return {};
  if (found == tiles_.end() || found->second.dropped) {
    return fail(NRT_INVALID, "tile {} is dropped, but there is none", id);
  }
  found->second.dropped = true;
  if (found->second.placed_by_caller) return {};
  if (found->second.depth < depth_) {
    held_.push_back(id);
  } else {
    dropped_[found->second.space].push_back(found->second.tile);
  }
  return {};
}

bool Memory::end_tiles(const std::function<bool(uint32_t)>& unused) {
  bool any = false;
  for (auto& [id, state] : tiles_) {
    if (state.dropped || state.placed_by_caller || !unused(id)) continue;
    state.dropped = state.ended = any = true;
    dropped_[state.space].push_back(state.tile);
  }
  return any;
}

void Memory::leave_loop() {
  if (depth_ == 0) return;
  --depth_;
  const auto done = std::partition(held_.begin(), held_.end(),
                                   [&](uint32_t id) { return tiles_[id].depth < depth_; });
  for (auto id = done; id != held_.end(); ++id) {
    dropped_[tiles_[*id].space].push_back(tiles_[*id].tile);
  }
  held_.erase(done, held_.end());
  for (auto column = columns_.begin(); column != columns_.end();) {
    if (column->second.depth <= depth_) {
      ++column;
      continue;
    }
    dropped_[column->second.tile.space].push_back(column->second.tile);
    column = columns_.erase(column);
  }
}

bool Memory::outside_loop(const Operand& operand) const {
  const auto found = operand.on_chip ? tiles_.find(operand.id) : tiles_.end();
  return found != tiles_.end() && found->second.depth < depth_;
}

void Memory::give(std::deque<Buffer> inputs, std::deque<Buffer> outputs,
                  const std::string& prefix) {
  given_ = true;
  given_inputs_ = std::move(inputs);
  given_outputs_ = std::move(outputs);
  prefix_ = prefix;
}

void Memory::release_all() {
  drop_own();
  for (auto& [id, state] : tiles_) {
    if (state.dropped || state.placed_by_caller) continue;
    state.dropped = true;
    program_.release(state.tile);
  }
  for (auto& [bits, column] : columns_) program_.release(column.tile);
  columns_.clear();
  for (auto& waiting : dropped_) {
    for (const Tile& tile : waiting) program_.release(tile);
    waiting.clear();
  }
}

// What a call changes begins as its argument.
Result<void> Memory::take_given(TensorState& state, bool reads, bool writes) {
  if ((reads && given_inputs_.empty()) || (writes && given_outputs_.empty())) {
    return fail(NRT_INVALID, "tensor \"{}\" is one more than the caller gives", state.name);
  }
  Buffer input;
  if (reads) {
    input = given_inputs_.front();
    given_inputs_.pop_front();
  }
  if (!writes) {
    state.buffer = input;
    return {};
  }
  state.buffer = given_outputs_.front();
  given_outputs_.pop_front();
  if (reads) program_.dma(Engine::kSp, state.buffer.all(), input.all());
  return {};
}

// A call may change its argument; the runtime's inputs cannot change. Of two cores, each copies a
// half, and neither goes on before both are there.
void Memory::begin_as_argument(const TensorState& state, uint8_t dtype,
                               const std::vector<uint64_t>& shape) {
  const Buffer before = program_.input(state.name + suffix_, dtype, shape);
  BufferAccess to = state.buffer.all(), from = before.all();
  if (pair_) {
    const uint64_t half = state.bytes / 2;
    for (BufferAccess* side : {&to, &from}) {
      *side = BufferAccess{};
      side->buffer = (side == &to ? state.buffer : before).index;
      side->offset = second_ ? half : 0;
      side->size[0] = second_ ? state.bytes - half : half;
      side->dtype = dtype;
    }
  }
  if (to.bytes() != 0) program_.dma(Engine::kSp, to, from);
  if (!pair_) return;
  program_.core_barrier(Engine::kPool, state.buffer.all(), barrier_semaphore(Engine::kPool));
}

Result<void> Memory::declare_tensor(Record& record) {
  const auto id = static_cast<uint32_t>(record.count("id", UINT32_MAX));
  const std::string name = record.text("name");
  const std::string kind_text = record.text("kind");
  const uint8_t dtype = record.dtype("dtype");
  const auto shape = record.counts("shape", 32);
  NEURON_CHECK(record.result());
  const auto* kind = std::find(std::begin(kKinds), std::end(kKinds), kind_text);
  if (kind == std::end(kKinds) || tensors_.count(id) != 0) {
    return fail(NRT_INVALID, "tensor {} (\"{}\") has the kind \"{}\" or stands twice", id, name,
                kind_text);
  }
  const auto number = static_cast<size_t>(kind - std::begin(kKinds));
  TensorState state;
  state.name = name;
  state.bytes = isa::dtype_bytes(dtype);
  for (uint64_t size : shape) {
    if (size == 0 || state.bytes > std::numeric_limits<uint64_t>::max() / 2 / size) {
      return fail(NRT_INVALID, "tensor \"{}\" has a dimension of 0 or too many elements", name);
    }
    state.bytes *= size;
  }
  state.writable = number != kInput && number != kConstant;
  if (given_ && number != kTemporary && number != kConstant) {
    NEURON_CHECK(take_given(state, number != kOutput, number != kInput));
    tensors_[id] = std::move(state);
    return {};
  }
  switch (number) {
    case kInput:
      state.buffer = program_.input(name + suffix_, dtype, shape);
      break;
    case kOutput:
    case kInOut:
      state.buffer =
          program_.output((number == kOutput ? name : name + ".after") + suffix_, dtype, shape);
      break;
    case kTemporary:
      state.buffer = pair_ && record.flag("shared")
                         ? program_.shared_temporary(prefix_ + name, dtype, shape)
                         : program_.temporary(prefix_ + name, dtype, shape);
      break;
    default: {
      const std::string digits = record.long_text("data", 2 * kMostConstantBytes);
      NEURON_CHECK(record.result());
      NEURON_TRY(bytes, bytes_of_hexadecimal(digits));
      state.buffer = program_.constant(prefix_ + name, dtype, shape, bytes);
      break;
    }
  }
  // Other ranks must know the address, and that of an input or output changes with the tensors.
  if (reached_by_ranks(id) && number != kTemporary && number != kConstant) {
    state.outside = state.buffer;
    state.buffer = program_.temporary(name + ".reached", dtype, shape);
    if (number == kInput) program_.dma(Engine::kSp, state.buffer.all(), state.outside.all());
    if (number != kInput) to_copy_out_.push_back(state);
  }
  if (number == kInOut) begin_as_argument(state, dtype, shape);
  tensors_[id] = std::move(state);
  return {};
}

void Memory::finish() {
  for (const TensorState& state : to_copy_out_) {
    program_.dma(Engine::kSp, state.outside.all(), state.buffer.all());
  }
}

// The elements of an indirect operand are one dimension, which a reduction takes as its own.
Result<TileAccess> Memory::indirect_tile(const Operand& operand, uint32_t* kept) {
  Operand base = operand;
  base.index = nullptr;
  NEURON_TRY(elements, tile(base));
  NEURON_TRY(index, tile(*operand.index));
  if (kept != nullptr) *kept = 1;
  return elements.indirect(index, static_cast<uint32_t>(operand.count));
}

Result<TileAccess> Memory::tile(const Operand& operand, size_t keep, uint32_t* kept) {
  if (operand.index) return indirect_tile(operand, kept);
  const auto found = tiles_.find(operand.id);
  if (!operand.on_chip || found == tiles_.end() || found->second.dropped) {
    return fail(NRT_INVALID, "an operand that must be a tile names {} {}",
                operand.on_chip ? "a dropped or unknown tile," : "HBM tensor", operand.id);
  }
  const TileState& state = found->second;
  const uint64_t element = isa::dtype_bytes(operand.dtype);
  const Merged merged = merge(operand.pattern, keep);
  // A reduction needs an innermost dimension of its own, of one element if it has no other.
  const size_t dimensions = merged.spans.size() + (kept != nullptr && merged.kept == 0 ? 1 : 0);
  if (dimensions > 4) {
    return fail(NRT_INVALID,
                "an operand on {} needs {} dimensions behind the partitions; an instruction has 4",
                describe(operand.id), dimensions);
  }
  if (operand.elements() > kMostColumns) {
    return fail(NRT_INVALID,
                "an operand on {} has {} elements in each partition; an instruction takes at most "
                "{}",
                describe(operand.id), operand.elements(), kMostColumns);
  }
  TileAccess access;
  access.space = state.space;
  access.dtype = operand.dtype;
  access.start = state.tile.start + operand.start;
  access.parts = operand.parts;
  access.base = state.tile.base + static_cast<uint32_t>(operand.offset);
  access.tile = state.tile.tile;
  for (const Span& span : merged.spans) {
    if (span.count > kMostColumns || std::abs(span.step) > int64_t{kMostColumns}) {
      return fail(NRT_INVALID, "an operand on {} has {} elements with a step of {}",
                  describe(operand.id), span.count, span.step);
    }
    access.size[access.ndim] = static_cast<uint32_t>(span.count);
    access.step[access.ndim++] = static_cast<int32_t>(span.step);
  }
  if (kept != nullptr) *kept = static_cast<uint32_t>(merged.kept);
  if (access.ndim == 0 || (kept != nullptr && *kept == 0)) {
    // A dimension of one element, which the reduction or the instruction needs.
    for (uint32_t d = access.ndim; d > 0; --d) {
      access.size[d] = access.size[d - 1];
      access.step[d] = access.step[d - 1];
    }
    access.size[0] = 1;
    access.step[0] = 1;
    ++access.ndim;
    if (kept != nullptr) *kept = 1;
  }
  const auto first = static_cast<int64_t>(access.first_byte());
  const auto end = static_cast<int64_t>(access.end_byte());
  const int64_t begin = state.tile.base;
  if (operand.offset > state.bytes || first < begin ||
      end > begin + static_cast<int64_t>(state.bytes) ||
      operand.start + operand.parts > state.parts || operand.offset % element != 0) {
    return fail(NRT_INVALID,
                "an operand reaches partitions {} to {} and bytes {} to {} of {}, which has {} "
                "partitions of {} bytes",
                operand.start, operand.start + operand.parts - 1, first - begin, end - begin - 1,
                describe(operand.id), state.parts, state.bytes);
  }
  return access;
}

Result<Buffer> Memory::find_tensor(const Operand& operand, bool write) {
  const auto found = tensors_.find(operand.id);
  if (operand.on_chip || found == tensors_.end()) {
    return fail(NRT_INVALID, "an operand that must be in HBM names {} {}",
                operand.on_chip ? "tile" : "an unknown tensor,", operand.id);
  }
  if (write && !found->second.writable) {
    return fail(NRT_INVALID,
                "tensor \"{}\" is written, but the trace declares it as an input or "
                "a constant",
                found->second.name);
  }
  return found->second.buffer;
}

Result<BufferAccess> Memory::buffer(const Operand& operand, bool write) {
  NEURON_TRY(tensor, find_tensor(operand, write));
  const uint64_t element = isa::dtype_bytes(operand.dtype);
  const Merged merged = merge(operand.pattern, 0);
  BufferAccess access;
  access.buffer = tensor.index;
  access.dtype = operand.dtype;
  access.offset = operand.offset;
  access.size[0] = element;
  for (const Span& span : merged.spans) {
    const int64_t step = span.step * static_cast<int64_t>(element);
    if (access.ndim == 1 && step == static_cast<int64_t>(access.size[0])) {
      access.size[0] *= span.count;
      continue;
    }
    if (access.ndim == 4) {
      return fail(NRT_INVALID,
                  "a transfer needs more than 4 dimensions of tensor \"{}\"; use several",
                  tensors_[operand.id].name);
    }
    access.size[access.ndim] = span.count;
    access.step[access.ndim++] = step;
  }
  return access;
}

Result<Side> Memory::side(const Operand& operand, bool write) {
  if (operand.on_chip) {
    NEURON_TRY(access, tile(operand));
    return Side(access);
  }
  NEURON_TRY(access, buffer(operand, write));
  return Side(access);
}

Result<Buffer> Memory::rows(const Operand& operand, uint64_t row_elements) {
  NEURON_TRY(tensor, find_tensor(operand, false));
  const uint64_t bytes = tensors_[operand.id].bytes;
  const uint64_t row = row_elements * isa::dtype_bytes(operand.dtype);
  if (row == 0 || operand.offset >= bytes || bytes - operand.offset < row) {
    return fail(NRT_INVALID, "rows of {} elements do not fit into tensor \"{}\"", row_elements,
                tensors_[operand.id].name);
  }
  tensor.dtype = operand.dtype;
  tensor.columns = row_elements;
  tensor.rows = bytes / row;
  return tensor;
}

Result<ScalarArgument> Memory::scalar(const ScalarOperand& operand) {
  if (operand.is_number) return ScalarArgument(static_cast<float>(operand.number));
  if (!operand.tile.present) return ScalarArgument();
  NEURON_TRY(access, tile(operand.tile));
  return ScalarArgument(access);
}

Result<Tile> Memory::own_tile(uint8_t space, const std::string& name, uint32_t parts,
                              uint32_t columns, uint8_t dtype) {
  NEURON_TRY(tile, place(space, name, parts, columns, dtype));
  own_.push_back(tile);
  return tile;
}

void Memory::drop_own() {
  for (const Tile& tile : own_) dropped_[tile.space].push_back(tile);
  own_.clear();
}

Result<TileAccess> Memory::constant_column(float value, uint32_t start, uint32_t parts) {
  const auto bits = std::bit_cast<uint32_t>(value);
  auto found = columns_.find(bits);
  if (found == columns_.end()) {
    NEURON_TRY(tile, place(NEURON_SPACE_SBUF, base::format("constant {}", value), NEURON_PARTITIONS,
                           1, NEURON_DTYPE_F32));
    program_.memset(Engine::kDve, tile.all(), bits);
    found = columns_.emplace(bits, Column{tile, depth_}).first;
  }
  return found->second.tile.at(start, parts, 0, 1);
}

std::vector<TilePlace> Memory::places() const {
  std::vector<TilePlace> places;
  for (const auto& [id, state] : tiles_) {
    if (state.line == 0 || state.file >= files_.size()) continue;
    places.push_back({state.name, files_[state.file], state.line, state.space == NEURON_SPACE_PSUM,
                      state.tile.start, state.parts, state.tile.base, state.bytes});
  }
  return places;
}

uint32_t Memory::number_of(uint32_t tile) const {
  const auto found = tiles_.find(tile);
  return found == tiles_.end() ? 0 : found->second.tile.tile;
}

bool Memory::in_psum(const Operand& operand) const {
  const auto found = operand.on_chip ? tiles_.find(operand.id) : tiles_.end();
  return found != tiles_.end() && found->second.space == NEURON_SPACE_PSUM;
}

}  // namespace neuron::nki
