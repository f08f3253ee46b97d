// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/indirection.h"

#include <algorithm>
#include <cstring>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/engines/block_loop.h"

namespace neuron::core {
namespace {

// The tile of gathered elements that stands for operand `which`: dense, in the same partitions.
isa::Operand gathered_tile(const isa::Operand& operand, unsigned which) {
  isa::Operand tile = operand;
  tile.space = CoreMemory::kGatheredSpace;
  tile.base = static_cast<uint32_t>(which * CoreMemory::kGatheredBytes);
  tile.indirect = false;
  tile.size[3] = 0;
  tile.step[3] = 0;
  return tile;
}

// `count` elements of a dense tile from element `first` of the innermost dimension on.
isa::Operand columns(isa::Operand tile, size_t first, size_t count) {
  tile.base += static_cast<uint32_t>(first * isa::dtype_bytes(tile.dtype));
  tile.size[0] = static_cast<uint16_t>(count);
  return tile;
}

template <class T>
void gather_row(const std::byte* from, std::span<const uint32_t> offsets, std::byte* to) {
  for (const uint32_t offset : offsets) {
    std::memcpy(to, from + size_t{offset} * sizeof(T), sizeof(T));
    to += sizeof(T);
  }
}

template <class T>
void scatter_row(const std::byte* from, std::span<const uint32_t> offsets, std::byte* to) {
  for (const uint32_t offset : offsets) {
    std::memcpy(to + size_t{offset} * sizeof(T), from, sizeof(T));
    from += sizeof(T);
  }
}

void scatter_any(unsigned bytes, const std::byte* from, std::span<const uint32_t> offsets,
                 std::byte* to) {
  if (bytes == 1) scatter_row<uint8_t>(from, offsets, to);
  if (bytes == 2) scatter_row<uint16_t>(from, offsets, to);
  if (bytes == 4) scatter_row<uint32_t>(from, offsets, to);
  if (bytes == 8) scatter_row<uint64_t>(from, offsets, to);
}

bool writes_as_pe(const isa::Instruction& i) { return i.group() == 2; }
bool adds(const isa::Instruction& i) { return writes_as_pe(i) && i.pe.accumulate; }

// Whether copy_predicated writes each element of a row of the predicate.
std::vector<bool> selected(const OperandView& predicate, unsigned part, bool invert) {
  const size_t bytes = predicate.element_bytes();
  std::vector<std::byte> row(predicate.elements() * bytes);
  predicate.load_raw(part, 0, predicate.elements(), row.data());
  std::vector<bool> chosen(predicate.elements());
  for (size_t e = 0; e < chosen.size(); ++e) {
    uint32_t value = 0;
    std::memcpy(&value, row.data() + e * bytes, bytes);
    chosen[e] = (value != 0) != invert;
  }
  return chosen;
}

}  // namespace

void Indirection::gather(CoreMemory& memory, const isa::Operand& operand, unsigned which,
                         size_t first, size_t n) const {
  const unsigned bytes = isa::dtype_bytes(operand.dtype);
  for (unsigned p = 0; p < operand.parts; ++p) {
    base::Abandonment::look();
    const std::byte* from = memory.row(operand.space, operand.start + p) + operand.base;
    std::byte* to = memory.row(CoreMemory::kGatheredSpace, operand.start + p) +
                    which * CoreMemory::kGatheredBytes + first * bytes;
    const auto offsets = offsets_[which].of(p).subspan(first, n);
    if (bytes == 1) gather_row<uint8_t>(from, offsets, to);
    if (bytes == 2) gather_row<uint16_t>(from, offsets, to);
    if (bytes == 4) gather_row<uint32_t>(from, offsets, to);
    if (bytes == 8) gather_row<uint64_t>(from, offsets, to);
  }
}

Fault Indirection::gather_sources(UnitContext& context, const isa::Instruction& i,
                                  isa::Instruction& tiles) {
  const isa::Operand* operands[] = {&i.dst, &i.src0, &i.src1};
  isa::Operand* results[] = {&tiles.dst, &tiles.src0, &tiles.src1};
  for (unsigned o = 0; o < 3; ++o) {
    if (!operands[o]->present() || !operands[o]->indirect) continue;
    if (Fault fault = offsets_[o].read(context.memory, *operands[o], o, context.engine)) {
      return fault;
    }
    *results[o] = gathered_tile(*operands[o], o);
  }
  context.memory.make_gathered();
  for (unsigned o = 1; o < 3; ++o) {
    const isa::Operand& source = *operands[o];
    if (!source.present() || !source.indirect) continue;
    gather(context.memory, source, o, 0, source.elements());
  }
  return {};
}

// Elements [first, first + n) of the destination, whose results are in the tile.
void Indirection::scatter(UnitContext& context, const isa::Instruction& i,
                          const isa::Instruction& tiles, size_t first, size_t n) const {
  CoreMemory& memory = context.memory;
  const unsigned bytes = isa::dtype_bytes(i.dst.dtype);
  const bool chooses = i.opcode == NEURON_OP_COPY_PREDICATED;
  for (unsigned p = 0; p < i.dst.parts; ++p) {
    base::Abandonment::look();
    const auto offsets = offsets_[0].of(p).subspan(first, n);
    const std::byte* from = memory.row(CoreMemory::kGatheredSpace, i.dst.start + p) + first * bytes;
    std::byte* to = memory.row(i.dst.space, i.dst.start + p) + i.dst.base;
    if (chooses) {
      const auto chosen = selected(OperandView(memory, tiles.src1), p, i.vector.invert);
      for (size_t e = 0; e < n; ++e) {
        if (chosen[e]) scatter_any(bytes, from + e * bytes, offsets.subspan(e, 1), to);
      }
    } else {
      scatter_any(bytes, from, offsets, to);
    }
    if (i.dst.space != NEURON_SPACE_PSUM) continue;
    for (const uint32_t offset : offsets) {
      memory.mark_pe(i.dst.start + p, i.dst.base + size_t{offset} * bytes, bytes, writes_as_pe(i));
    }
  }
}

// Strict PSUM: accumulation onto what the PE did not write is a fault.
Fault Indirection::check_psum(UnitContext& context, const isa::Instruction& i) const {
  if (!adds(i) || !context.strict_psum) return {};
  const unsigned bytes = isa::dtype_bytes(i.dst.dtype);
  for (unsigned p = 0; p < i.dst.parts; ++p) {
    for (const uint32_t offset : offsets_[0].of(p)) {
      const size_t at = i.dst.base + size_t{offset} * bytes;
      if (context.memory.pe_wrote(i.dst.start + p, at, bytes)) continue;
      return make_fault(NEURON_FAULT_PSUM_UNDEFINED,
                        uint64_t{i.dst.start + p} << NEURON_STRICT_PARTITION_SHIFT | at |
                            NEURON_STRICT_PSUM | NEURON_STRICT_WRITES);
    }
  }
  return {};
}

// How many elements of the destination from `first` on go to different places in each partition.
size_t Indirection::without_repetition(const isa::Instruction& i, size_t first) {
  const size_t n = i.dst.elements();
  size_t count = n - first;
  seen_.resize(CoreMemory::kPsumBytes);
  for (unsigned part = 0; part < i.dst.parts; part += offsets_[0].group()) {
    const auto offsets = offsets_[0].of(part);
    ++search_;
    for (size_t e = 0; e < count; ++e) {
      uint32_t& seen = seen_[offsets[first + e]];
      if (seen == search_) count = e;
      seen = search_;
    }
  }
  return count;
}

// A sum in PSUM takes what each element adds, also if two go to one place: pieces without
// repetition one after the other.
Fault Indirection::accumulate(UnitContext& context, const isa::Instruction& i,
                              isa::Instruction& tiles, const Unit& unit) {
  const size_t n = i.dst.elements();
  size_t count = without_repetition(i, 0);
  CoreMemory& memory = context.memory;
  if (count < n) {
    // Columns of the sources are taken apart: all of them become dense tiles.
    isa::Operand* sources[] = {&tiles.src0, &tiles.src1};
    for (unsigned s = 0; s < 2; ++s) {
      isa::Operand& source = *sources[s];
      if (!source.present()) continue;
      isa::Operand dense = gathered_tile(source, s + 1);
      dense.size = {static_cast<uint16_t>(n), 0, 0, 0};
      dense.step = {1, 0, 0, 0};
      dense.ndim = 1;
      if (source.elements() != n) {  // the two rows of double_row
        dense.ndim = 2;
        dense.size[1] = static_cast<uint16_t>(source.elements() / n);
        dense.step[1] = static_cast<int16_t>(n);
      }
      if (source.space != CoreMemory::kGatheredSpace) {
        const OperandView from(memory, source);
        const OperandView to(memory, dense);
        for (unsigned p = 0; p < source.parts; ++p) {
          from.load_raw(p, 0, from.elements(),
                        memory.row(dense.space, dense.start + p) + dense.base);
        }
      }
      source = dense;
    }
  }
  isa::Instruction piece = tiles;
  for (size_t first = 0; first < n; first += count) {
    if (first != 0) count = without_repetition(i, first);
    if (count < n) {
      piece.dst = columns(tiles.dst, first, count);
      piece.src0 = columns(tiles.src0, first, count);
      if (tiles.src1.present()) piece.src1 = columns(tiles.src1, first, count);
      piece.pe.swap = tiles.pe.swap && first == 0;
    }
    gather(memory, i.dst, 0, first, count);
    const uint64_t position = context.random_position;
    context.random_position += first;  // each element rounds with its own random word
    const Fault fault = unit(piece);
    context.random_position = position;
    if (fault) return fault;
    scatter(context, i, tiles, first, count);
  }
  return {};
}

Fault Indirection::run(UnitContext& context, const isa::Instruction& i, const Unit& unit) {
  isa::Instruction tiles = i;
  if (Fault fault = gather_sources(context, i, tiles)) return fault;
  if (!i.dst.present() || !i.dst.indirect) return unit(tiles);
  if (Fault fault = check_psum(context, i)) return fault;
  if (adds(i)) return accumulate(context, i, tiles, unit);
  // copy_predicated reads its destination, too.
  if (i.opcode == NEURON_OP_COPY_PREDICATED) {
    gather(context.memory, i.dst, 0, 0, i.dst.elements());
  }
  if (Fault fault = unit(tiles)) return fault;
  scatter(context, i, tiles, 0, i.dst.elements());
  return {};
}

}  // namespace neuron::core
