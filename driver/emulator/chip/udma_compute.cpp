// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/udma_compute.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "driver/emulator/chip/udma_packet.h"
#include "driver/emulator/chip/udma_recode.h"
#include "driver/emulator/chip/udma_reduce.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/integer64.h"
#include "driver/isa/dma_cost.h"
#include "driver/isa/rules.h"

namespace neuron::chip {
namespace {

constexpr uint64_t kMetadataZero =
    0x007FFFFFull | 7ull << 27 | 1ull << 31 | ~((1ull << 58) - 1);  // low word
// A reserved bit before generation 4.
constexpr uint64_t kClassOfMetadata = uint64_t{NEURON_DMA_CLASSES - 1}
                                      << (32 + NEURON_META_CLASS_SHIFT);
constexpr uint64_t kReduceOnly = 15ull << NEURON_DMA_META_REDUCTION_SHIFT;
constexpr uint64_t kRingAndFirst = 3ull << NEURON_DESC_RING_ID_SHIFT | NEURON_DESC_FIRST;
constexpr uint64_t kScaleMask = 0xFFFFFFFFull;

unsigned bytes_of(unsigned dtype) { return numerics::element_bytes(dtype); }

// Generation 4 adds f8e4fn, and x4 types, whose bits a transpose moves.
bool takes_part(unsigned dtype, bool moves, unsigned generation) {
  if (dtype == NEURON_DTYPE_F8E4FN) return generation >= 4;
  if (dtype >= NEURON_DTYPE_F4X4 && dtype <= NEURON_DTYPE_F8E4FNX4) {
    return moves && generation >= 4;
  }
  return numerics::is_convertible(dtype) || isa::is_int64_dtype(dtype);
}

bool combines(unsigned operation) {
  return (operation >= NEURON_DMA_FMA && operation <= NEURON_DMA_MAX) ||
         operation == NEURON_DMA_REDUCE;
}

bool has_scale(unsigned operation) {
  return operation == NEURON_DMA_FMA || operation == NEURON_DMA_MIN ||
         operation == NEURON_DMA_MAX || operation == NEURON_DMA_REDUCE;
}

void widen(unsigned dtype, const std::byte* from, float* to, size_t n) {
  if (!isa::is_int64_dtype(dtype)) return numerics::widen(dtype, from, 1, to, n);
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits;
    std::memcpy(&bits, from + 8 * i, 8);
    to[i] = numerics::widen_integer64(dtype == NEURON_DTYPE_I64, bits);
  }
}

void narrow(unsigned dtype, const float* from, std::byte* to, size_t n,
            const numerics::NarrowMode& mode, numerics::RandomStream& random) {
  if (!isa::is_int64_dtype(dtype)) return numerics::narrow(dtype, from, to, 1, n, mode, &random);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = numerics::narrow_integer64(dtype == NEURON_DTYPE_I64, from[i]);
    std::memcpy(to + 8 * i, &bits, 8);
  }
}

// [rows, columns] to [columns, rows], block after block.
template <size_t kElement>
void transpose(const std::byte* from, std::byte* to, uint32_t blocks, uint32_t rows,
               uint32_t columns) {
  for (uint32_t b = 0; b < blocks; ++b) {
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t c = 0; c < columns; ++c) {
        std::memcpy(to + (size_t{c} * rows + r) * kElement, from, kElement);
        from += kElement;
      }
    }
    to += size_t{rows} * columns * kElement;
  }
}

void transpose_any(const ComputeSpec& spec, const std::byte* from, std::byte* to) {
  const uint32_t blocks = spec.elements() / (uint32_t{spec.rows} * spec.columns);
  switch (bytes_of(spec.from_type)) {
    case 1:
      return transpose<1>(from, to, blocks, spec.rows, spec.columns);
    case 2:
      return transpose<2>(from, to, blocks, spec.rows, spec.columns);
    case 4:
      return transpose<4>(from, to, blocks, spec.rows, spec.columns);
    default:
      return transpose<8>(from, to, blocks, spec.rows, spec.columns);
  }
}

constexpr size_t kChunk = 4096;
struct Chunk {
  alignas(64) std::array<float, kChunk> sum;
  alignas(64) std::array<float, kChunk> next;
};

float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Combines the sources of elements [first, first + n) into chunk.sum; `to` holds the destination.
void combine(const ComputeSpec& spec, const std::byte* sources, const std::byte* to, size_t first,
             size_t n, Chunk& chunk) {
  const size_t from_bytes = bytes_of(spec.from_type);
  const unsigned op = spec.operation == NEURON_DMA_MIN   ? NEURON_ALU_MIN
                      : spec.operation == NEURON_DMA_MAX ? NEURON_ALU_MAX
                                                         : NEURON_ALU_ADD;
  float* const sum = chunk.sum.data();
  float* const next = chunk.next.data();
  for (uint32_t source = 0; source < spec.sources; ++source) {
    float* const values = source == 0 ? sum : next;
    widen(spec.from_type, sources + size_t{source} * spec.source_bytes + first * from_bytes, values,
          n);
    if (spec.operation == NEURON_DMA_FMA) {
      numerics::alu_scalar(NEURON_ALU_MUL, values, as_float(spec.scale[source]), false, values, n);
    }
    if (source != 0) numerics::alu(op, sum, next, sum, n);
  }
  if (spec.accumulate) {
    widen(spec.to_type, to + first * bytes_of(spec.to_type), next, n);
    numerics::alu(op, sum, next, sum, n);
  }
  if (spec.operation == NEURON_DMA_MIN || spec.operation == NEURON_DMA_MAX) {
    numerics::alu_scalar(op, sum, as_float(spec.scale[0]), false, sum, n);
  }
}

void reduce_pieces(const ComputeSpec& spec, const std::byte* const* from, std::byte* to,
                   size_t elements) {
  reduce({spec.from_type, spec.reduction, spec.scale[0]}, from, spec.sources, to, elements);
}

void compute(const ComputeSpec& spec, const std::byte* sources, std::byte* to,
             numerics::RandomStream& random) {
  const uint32_t elements = spec.elements();
  if (spec.operation == NEURON_DMA_REDUCE) {
    const std::byte* from[kMaxReduceSources];
    for (uint32_t s = 0; s < spec.sources; ++s) from[s] = sources + size_t{s} * spec.source_bytes;
    return reduce_pieces(spec, from, to, elements);
  }
  if (spec.operation == NEURON_DMA_TRANSPOSE) return transpose_any(spec, sources, to);
  if (spec.operation == NEURON_DMA_CAST && spec.from_type == spec.to_type) {
    std::memcpy(to, sources, spec.result_bytes);
    return;
  }
  const numerics::NarrowMode mode{
      spec.stochastic ? numerics::Rounding::kStochastic : numerics::Rounding::kNearestEven, false,
      0};
  Chunk chunk;
  const size_t to_bytes = bytes_of(spec.to_type);
  for (size_t first = 0; first < elements; first += kChunk) {
    const size_t n = std::min<size_t>(kChunk, elements - first);
    combine(spec, sources, to, first, n, chunk);
    narrow(spec.to_type, chunk.sum.data(), to + first * to_bytes, n, mode, random);
  }
}

// A stream of bytes over descriptors whose memory can be addressed directly.
class Cursor {
 public:
  struct Piece {
    std::byte* memory;
    size_t bytes;
  };
  void seek(const Piece* piece, size_t offset) {
    while (offset != 0 && offset >= piece->bytes) offset -= piece++->bytes;
    piece_ = piece;
    offset_ = offset;
  }
  std::byte* at() const { return piece_->memory + offset_; }
  size_t left() const { return piece_->bytes - offset_; }
  void advance(size_t bytes) {
    offset_ += bytes;
    if (offset_ == piece_->bytes) ++piece_, offset_ = 0;
  }

 private:
  const Piece* piece_ = nullptr;
  size_t offset_ = 0;
};

bool overlap(const Cursor::Piece& a, const Cursor::Piece& b) {
  const auto from = reinterpret_cast<uintptr_t>(a.memory);
  const auto to = reinterpret_cast<uintptr_t>(b.memory);
  return from < to + b.bytes && to < from + a.bytes;
}

// Packets whose elements can be taken one after the other, from memory to memory: what most
// reductions are. Nothing is copied beforehand, so sources and destination must lie apart, or be
// the same elements.
class Streaming {
 public:
  // False: the packet needs the general way.
  bool prepare(const Bus& bus, const Packet& packet, Reach reach);
  void run(const ComputeSpec& spec, numerics::RandomStream& random);

 private:
  static constexpr size_t kElements = 2048;  // three buffers of them stay in a small cache

  // Elements as fp32: where they lie, if they are that, else widened into `buffer`.
  static const float* values(unsigned dtype, const std::byte* from, float* buffer, size_t n) {
    const bool whole = reinterpret_cast<uintptr_t>(from) % alignof(float) == 0;
    if (dtype == NEURON_DTYPE_F32 && whole) return reinterpret_cast<const float*>(from);
    widen(dtype, from, buffer, n);
    return buffer;
  }
  void run_piece(const ComputeSpec& spec, std::byte* to, size_t n, numerics::RandomStream& random);

  std::array<Cursor::Piece, NEURON_UDMA_MAX_PACKET_DESCS> from_;
  std::array<Cursor::Piece, NEURON_UDMA_MAX_PACKET_DESCS> to_;
  std::array<Cursor, kMaxReduceSources> source_;
  alignas(64) std::array<float, kElements> sum_;
  alignas(64) std::array<float, kElements> next_;
};

bool Streaming::prepare(const Bus& bus, const Packet& packet, Reach reach) {
  const ComputeSpec& spec = packet.compute;
  if (spec.operation == NEURON_DMA_TRANSPOSE) return false;
  size_t sources = 0;
  const unsigned from_bytes = bytes_of(spec.from_type);
  const unsigned to_bytes = bytes_of(spec.to_type);
  for (uint32_t s = 0; s < packet.m2s_count; ++s) {
    const Descriptor& d = packet.m2s[s];
    if ((d.control & NEURON_DESC_META) != 0) continue;
    const uint32_t bytes = d.bytes();
    std::byte* memory = bus.memory(d.address, bytes, reach);
    if (memory == nullptr || bytes % from_bytes != 0) return false;
    from_[sources++] = {memory, bytes};
  }
  // Each source is one descriptor, and element i of the result as large as that of a source.
  const bool whole = sources == spec.sources && from_bytes == to_bytes;
  size_t destinations = 0;
  for (uint32_t left = spec.result_bytes; left != 0; ++destinations) {
    const Descriptor& d = packet.s2m[destinations];
    const uint32_t bytes = std::min(d.bytes(), left);
    std::byte* memory = bus.memory(d.address, bytes, reach);
    if (memory == nullptr || bytes % to_bytes != 0) return false;
    to_[destinations] = {memory, bytes};
    left -= bytes;
    for (size_t s = 0; s < sources; ++s) {
      const bool same = whole && from_[s].memory == memory && bytes == spec.result_bytes;
      if (!same && overlap(from_[s], to_[destinations])) return false;
    }
    for (size_t other = 0; other < destinations; ++other) {
      if (overlap(to_[other], to_[destinations])) return false;
    }
  }
  for (uint32_t s = 0; s < spec.sources; ++s) {
    source_[s].seek(from_.data(), size_t{s} * spec.source_bytes);
  }
  return true;
}

void Streaming::run(const ComputeSpec& spec, numerics::RandomStream& random) {
  const size_t from_bytes = bytes_of(spec.from_type);
  const size_t to_bytes = bytes_of(spec.to_type);
  const bool reduces = spec.operation == NEURON_DMA_REDUCE;
  const size_t most = reduces ? spec.elements() : kElements;
  Cursor to;
  to.seek(to_.data(), 0);
  for (size_t left = spec.elements(); left != 0;) {
    size_t n = std::min({left, most, to.left() / to_bytes});
    for (uint32_t s = 0; s < spec.sources; ++s) n = std::min(n, source_[s].left() / from_bytes);
    if (reduces) {
      const std::byte* from[kMaxReduceSources];
      for (uint32_t s = 0; s < spec.sources; ++s) from[s] = source_[s].at();
      reduce_pieces(spec, from, to.at(), n);
    } else {
      run_piece(spec, to.at(), n, random);
    }
    to.advance(n * to_bytes);
    for (uint32_t s = 0; s < spec.sources; ++s) source_[s].advance(n * from_bytes);
    left -= n;
  }
}

void Streaming::run_piece(const ComputeSpec& spec, std::byte* to, size_t n,
                          numerics::RandomStream& random) {
  const unsigned op = spec.operation == NEURON_DMA_MIN   ? NEURON_ALU_MIN
                      : spec.operation == NEURON_DMA_MAX ? NEURON_ALU_MAX
                                                         : NEURON_ALU_ADD;
  const bool constant = spec.operation == NEURON_DMA_MIN || spec.operation == NEURON_DMA_MAX;
  const bool scaled = spec.operation == NEURON_DMA_FMA;
  const bool in_place =
      spec.to_type == NEURON_DTYPE_F32 && reinterpret_cast<uintptr_t>(to) % alignof(float) == 0;
  // The last operation stores where the result belongs, if that takes fp32 as it is.
  uint32_t operations = spec.sources - 1u + (spec.accumulate ? 1 : 0) + (constant ? 1 : 0);
  const auto out = [&] {
    return --operations == 0 && in_place ? reinterpret_cast<float*>(to) : sum_.data();
  };
  const auto operand = [&](uint32_t s, float* buffer) {
    const float* v = values(spec.from_type, source_[s].at(), buffer, n);
    if (!scaled) return v;
    numerics::alu_scalar(NEURON_ALU_MUL, v, as_float(spec.scale[s]), false, buffer, n);
    return static_cast<const float*>(buffer);
  };
  const float* result = operand(0, sum_.data());
  const auto combine_with = [&](const float* other) {
    float* const target = out();
    numerics::alu(op, result, other, target, n);
    result = target;
  };
  for (uint32_t s = 1; s < spec.sources; ++s) combine_with(operand(s, next_.data()));
  if (spec.accumulate) combine_with(values(spec.to_type, to, next_.data(), n));
  if (constant) {
    float* const target = out();
    numerics::alu_scalar(op, result, as_float(spec.scale[0]), false, target, n);
    result = target;
  }
  if (reinterpret_cast<const std::byte*>(result) == to) return;
  const numerics::NarrowMode mode{
      spec.stochastic ? numerics::Rounding::kStochastic : numerics::Rounding::kNearestEven, false,
      0};
  narrow(spec.to_type, result, to, n, mode, random);
}

DmaFault refused(const Bus& bus, const RingView& ring, bool s2m, uint32_t ahead, uint64_t address,
                 const char* rule) {
  DmaFault fault;
  fault.code = NEURON_FAULT_DMA_BUS;
  fault.s2m = s2m;
  fault.index = ring.at(ahead);
  fault.address = address;
  fault.rule = rule;
  name_broken_link(bus, fault);
  return fault;
}

// Names the descriptor that has the byte of the stream; of a stream that does not fit, the last
// destination.
DmaFault broken_stream(const Packet& packet, const RingView& m2s, uint32_t m2s_ahead,
                       const RingView& s2m, uint32_t s2m_ahead,
                       const compression::Malformed& malformed) {
  DmaFault fault;
  fault.code = NEURON_FAULT_DMA_STREAM;
  fault.rule = malformed.rule;
  fault.offset = malformed.at;
  if (packet.compute.operation == NEURON_DMA_COMPRESS) {
    fault.s2m = true;
    fault.index = s2m.at(s2m_ahead + packet.s2m_count - 1);
    fault.address = packet.s2m[packet.s2m_count - 1].address;
    return fault;
  }
  uint32_t s = 1;  // 0 is metadata
  uint32_t at = malformed.at;
  while (s + 1 < packet.m2s_count && at >= packet.m2s[s].bytes()) at -= packet.m2s[s++].bytes();
  fault.index = m2s.at(m2s_ahead + s);
  fault.address = packet.m2s[s].address + at;
  return fault;
}

}  // namespace

const char* ComputeSpec::begin(uint64_t low, uint64_t high, unsigned generation) {
  low_ = low;
  high_ = high;
  changes_ = 0;
  if ((low & (generation >= 4 ? kMetadataZero & ~kClassOfMetadata : kMetadataZero)) != 0) {
    return "a reserved bit of the metadata descriptor is set (22:0, 29:27, 31 and 63:58 are zero; "
           "60:59 are the class of service in generation 4)";
  }
  operation = low >> NEURON_DMA_META_OPERATION_SHIFT & 15;
  from_type = low >> NEURON_DMA_META_FROM_SHIFT & 63;
  to_type = low >> NEURON_DMA_META_TO_SHIFT & 63;
  accumulate = (low & NEURON_DMA_META_ACC) != 0;
  sources = static_cast<uint8_t>((low >> NEURON_DMA_META_SOURCES_SHIFT & 15) + 1);
  stochastic = (low & NEURON_DMA_META_STOCHASTIC) != 0;
  rows = static_cast<uint16_t>(high >> NEURON_DMA_META_ROWS_SHIFT);
  columns = static_cast<uint16_t>(high >> NEURON_DMA_META_COLUMNS_SHIFT);
  scale.fill(static_cast<uint32_t>(high & kScaleMask));
  if (operation < NEURON_DMA_CAST || operation > NEURON_DMA_DECOMPRESS) {
    return "the operation in the metadata is not cast, fma, add, min, max, transpose, reduce, "
           "compress or decompress (1 to 9)";
  }
  if (recodes()) return check_recode(low, high);
  if (operation == NEURON_DMA_REDUCE) return check_reduce(low, high);
  if ((low & kReduceOnly) != 0) {
    return "only a reduce has a reduction and more than 16 sources (57:54 of the metadata)";
  }
  const bool moves = operation == NEURON_DMA_TRANSPOSE;
  if (!takes_part(from_type, moves, generation) || !takes_part(to_type, moves, generation)) {
    return "a type in the metadata cannot take part in a DMA (integers of 8 to 64 bits, f32, f32r, "
           "tf32, bf16, f16, f8e3, f8e4, f8e5; in generation 4 f8e4fn, and x4 types in a "
           "transpose)";
  }
  if (!combines(operation) && (sources != 1 || accumulate)) {
    return "cast and transpose have one source and no accumulation";
  }
  if (!has_scale(operation) && scale[0] != 0) {
    return "only fma, min and max have a scale or constant; it must be zero";
  }
  if (operation != NEURON_DMA_TRANSPOSE) {
    return rows != 0 || columns != 0 ? "only a transpose has rows and columns; they must be zero"
                                     : nullptr;
  }
  if (rows == 0 || columns == 0) return "a transpose has at least one row and one column";
  if (from_type != to_type) return "a transpose keeps the data type of its source";
  return stochastic ? "a transpose does not round" : nullptr;
}

const char* ComputeSpec::check_reduce(uint64_t low, uint64_t high) {
  reduction = low >> NEURON_DMA_META_REDUCTION_SHIFT & 3;
  sources = static_cast<uint8_t>(sources + (low >> NEURON_DMA_META_MORE_SOURCES_SHIFT & 3) * 16);
  if (!can_reduce(from_type)) {
    return "a reduce has integers of 8 to 64 bits, f32, bf16, f16, f8e3, f8e4 or f8e5";
  }
  if (from_type != to_type) return "a reduce keeps the data type of its sources";
  if (accumulate || stochastic) return "a reduce does not accumulate or round stochastically";
  if (reduction != NEURON_DMA_REDUCE_SUM && (high & kScaleMask) != 0) {
    return "only a sum has a divisor; it must be zero";
  }
  return rows != 0 || columns != 0 ? "only a transpose has rows and columns; they must be zero"
                                   : nullptr;
}

const char* ComputeSpec::check_recode(uint64_t low, uint64_t high) {
  if ((low & ~kClassOfMetadata) >> NEURON_DMA_META_FROM_SHIFT != 0 ||
      (high & ~NEURON_DMA_META_RESULT_MASK) != 0) {
    return "compress and decompress have the bytes of the result in their metadata (31:0 of the "
           "high word), and nothing else";
  }
  from_type = to_type = NEURON_DTYPE_U8;
  if (high == 0 || high > NEURON_UDMA_MAX_PACKET_BYTES) {
    return "the result of the packet has no bytes, or more than 1048575";
  }
  result_bytes = static_cast<uint32_t>(high);
  return nullptr;
}

const char* ComputeSpec::change(uint64_t low, uint64_t high, uint32_t bytes) {
  if ((low & NEURON_DESC_FIRST) != 0) return "FIRST inside a packet that has no LAST yet";
  if (recodes()) return "a packet that recodes has one metadata descriptor, which opens it";
  if (operation == NEURON_DMA_REDUCE) return "a reduce has one metadata descriptor, which opens it";
  constexpr uint64_t kFree = kRingAndFirst | NEURON_DESC_DMB;
  if (((low ^ low_) & ~kFree) != 0 || (high ^ high_) >> 32 != 0) {
    return "metadata inside a packet differs from the packet's first in more than the scale";
  }
  if (operation != NEURON_DMA_FMA && high != high_) {
    return "only the scale of fma can change from source to source";
  }
  if (changes_ + 1 >= sources) return "the packet has more metadata descriptors than sources";
  if (bytes == (changes_ == 0 ? 0 : change_at_[changes_ - 1])) {
    return "a metadata descriptor has no data behind it";
  }
  change_at_[changes_] = bytes;
  change_scale_[changes_] = static_cast<uint32_t>(high & kScaleMask);
  ++changes_;
  return nullptr;
}

const char* ComputeSpec::finish(uint32_t bytes) {
  if (bytes == 0) return "the packet has metadata but no data";
  if (bytes % (uint32_t{sources} * bytes_of(from_type)) != 0) {
    return "the bytes of the packet are not whole elements, the same number for each source";
  }
  source_bytes = bytes / sources;
  if (recodes()) return nullptr;
  const uint64_t result = uint64_t{elements()} * bytes_of(to_type);
  if (result > NEURON_UDMA_MAX_PACKET_BYTES) {
    return "the result of the packet has more than 1048575 bytes";
  }
  result_bytes = static_cast<uint32_t>(result);
  if (operation == NEURON_DMA_TRANSPOSE && elements() % (uint32_t{rows} * columns) != 0) {
    return "the elements of a transpose are not whole blocks of rows x columns";
  }
  for (uint32_t c = 0; c < changes_; ++c) {
    if (change_at_[c] % source_bytes != 0 || change_at_[c] == bytes) {
      return "metadata inside a packet does not lie between two sources";
    }
    std::fill(scale.begin() + change_at_[c] / source_bytes, scale.end(), change_scale_[c]);
  }
  return nullptr;
}

uint32_t ComputeSpec::elements() const { return source_bytes / bytes_of(from_type); }

uint64_t ComputeSpec::time_bytes(bool inside_core) const {
  const uint64_t read = uint64_t{source_bytes} * sources + (accumulate ? result_bytes : 0);
  const uint64_t bytes = std::max<uint64_t>(read, result_bytes);
  switch (operation) {
    case NEURON_DMA_CAST:
    case NEURON_DMA_COMPRESS:
    case NEURON_DMA_DECOMPRESS:
      return bytes;
    case NEURON_DMA_TRANSPOSE:
      return inside_core ? 2 * bytes : bytes + bytes / 9;
    default:
      return isa::dma_reduction_bytes(read, result_bytes);
  }
}

DmaFault run_compute(const Bus& bus, const Packet& packet, const RingView& m2s, uint32_t m2s_ahead,
                     const RingView& s2m, uint32_t s2m_ahead, const Access& access,
                     numerics::RandomStream& random) {
  const ComputeSpec& spec = packet.compute;
  const bool moves_bits = spec.operation == NEURON_DMA_CAST && spec.from_type == spec.to_type;
  if (!moves_bits && !spec.recodes()) {
    Streaming streaming;
    if (streaming.prepare(bus, packet, access.reach)) {
      streaming.run(spec, random);
      return {};
    }
  }
  const auto sources = std::make_unique_for_overwrite<std::byte[]>(packet.bytes);
  const auto result = std::make_unique_for_overwrite<std::byte[]>(spec.result_bytes);
  std::byte* to = sources.get();
  for (uint32_t s = 0; s < packet.m2s_count; ++s) {
    const Descriptor& d = packet.m2s[s];
    if ((d.control & NEURON_DESC_META) != 0) continue;
    if (!bus.read(d.address, {to, d.bytes()}, access)) {
      return refused(bus, m2s, false, m2s_ahead + s, d.address,
                     "the source is not mapped or refuses the access");
    }
    to += d.bytes();
  }
  // The last destination descriptor may have more room than the result needs.
  const auto each_destination = [&](auto&& access_one) -> DmaFault {
    std::byte* at = result.get();
    uint32_t left = spec.result_bytes;
    for (uint32_t d = 0; d < packet.s2m_count; ++d) {
      const uint32_t bytes = std::min(packet.s2m[d].bytes(), left);
      if (!access_one(packet.s2m[d].address, at, bytes)) {
        return refused(bus, s2m, true, s2m_ahead + d, packet.s2m[d].address,
                       "the destination is not mapped or refuses the access");
      }
      at += bytes;
      left -= bytes;
    }
    return {};
  };
  if (spec.accumulate) {
    const DmaFault fault = each_destination([&](uint64_t address, std::byte* at, uint32_t bytes) {
      return bus.read(address, {at, bytes}, access);
    });
    if (fault) return fault;
  }
  if (!spec.recodes()) {
    compute(spec, sources.get(), result.get(), random);
  } else if (const auto malformed =
                 recode(spec.operation == NEURON_DMA_COMPRESS, {sources.get(), packet.bytes},
                        {result.get(), spec.result_bytes})) {
    return broken_stream(packet, m2s, m2s_ahead, s2m, s2m_ahead, malformed);
  }
  return each_destination([&](uint64_t address, const std::byte* at, uint32_t bytes) {
    return bus.write(address, {at, bytes}, access);
  });
}

}  // namespace neuron::chip
