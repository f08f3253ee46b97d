// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/udma_compute.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "driver/emulator/chip/udma_packet.h"
#include "driver/emulator/neuroncore/numerics/alu.h"
#include "driver/emulator/neuroncore/numerics/dtype.h"

namespace neuron::chip {
namespace {

constexpr uint64_t kMetadataZero =
    0x007FFFFFull | 7ull << 27 | 1ull << 31 | ~((1ull << 54) - 1);  // low word
constexpr uint64_t kRingAndFirst = 3ull << NEURON_DESC_RING_ID_SHIFT | NEURON_DESC_FIRST;
constexpr uint64_t kScaleMask = 0xFFFFFFFFull;

unsigned bytes_of(unsigned dtype) { return numerics::element_bytes(dtype); }

// 64-bit integers take part in transfers only; engines have none.
bool is_wide(unsigned dtype) { return dtype == NEURON_DTYPE_I64 || dtype == NEURON_DTYPE_U64; }

// All types of generation 2.
bool takes_part(unsigned dtype) {
  return dtype != NEURON_DTYPE_F8E4FN && (numerics::is_convertible(dtype) || is_wide(dtype));
}

bool combines(unsigned operation) {
  return operation >= NEURON_DMA_FMA && operation <= NEURON_DMA_MAX;
}

bool has_scale(unsigned operation) {
  return operation == NEURON_DMA_FMA || operation == NEURON_DMA_MIN || operation == NEURON_DMA_MAX;
}

// Nearest even from the integer's own bits, as for 32-bit integers.
float widen_integer(bool is_signed, uint64_t bits) {
  const bool negative = is_signed && (bits >> 63) != 0;
  uint64_t magnitude = negative ? 0 - bits : bits;
  int shift = 0;
  if (magnitude >> 24 != 0) {
    shift = 40 - __builtin_clzll(magnitude);
    const uint64_t lost = magnitude & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    magnitude >>= shift;
    if (lost > half || (lost == half && (magnitude & 1) != 0)) ++magnitude;
  }
  // At most 2^24 times a power of two: exact.
  float value = static_cast<float>(static_cast<int32_t>(magnitude));
  for (; shift >= 16; shift -= 16) value *= 65536.0f;
  value *= static_cast<float>(1u << shift);
  return negative ? -value : value;
}

uint64_t narrow_integer(bool is_signed, float value) {
  const uint64_t highest = is_signed ? ~uint64_t{0} >> 1 : ~uint64_t{0};
  if (value != value) return 0;
  if (value < 0 && !is_signed) return 0;
  const float magnitude = value < 0 ? -value : value;
  const float limit = is_signed ? 0x1p63f : 0x1p64f;
  if (magnitude >= limit) return value < 0 ? uint64_t{1} << 63 : highest;
  uint64_t whole = static_cast<uint64_t>(magnitude);
  if (magnitude < 0x1p24f) {
    const float rest = magnitude - static_cast<float>(static_cast<int32_t>(whole));
    if (rest > 0.5f || (rest == 0.5f && (whole & 1) != 0)) ++whole;
  }
  return value < 0 ? 0 - whole : whole;
}

void widen(unsigned dtype, const std::byte* from, float* to, size_t n) {
  if (!is_wide(dtype)) return numerics::widen(dtype, from, 1, to, n);
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits;
    std::memcpy(&bits, from + 8 * i, 8);
    to[i] = widen_integer(dtype == NEURON_DTYPE_I64, bits);
  }
}

void narrow(unsigned dtype, const float* from, std::byte* to, size_t n,
            const numerics::NarrowMode& mode, numerics::RandomStream& random) {
  if (!is_wide(dtype)) return numerics::narrow(dtype, from, to, 1, n, mode, &random);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = narrow_integer(dtype == NEURON_DTYPE_I64, from[i]);
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

void compute(const ComputeSpec& spec, const std::byte* sources, std::byte* to,
             numerics::RandomStream& random) {
  const uint32_t elements = spec.elements();
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

DmaFault refused(const RingView& ring, bool s2m, uint32_t ahead, uint64_t address,
                 const char* rule) {
  DmaFault fault;
  fault.code = NEURON_FAULT_DMA_BUS;
  fault.s2m = s2m;
  fault.index = ring.at(ahead);
  fault.address = address;
  fault.rule = rule;
  return fault;
}

}  // namespace

const char* ComputeSpec::begin(uint64_t low, uint64_t high) {
  low_ = low;
  high_ = high;
  changes_ = 0;
  if ((low & kMetadataZero) != 0) {
    return "a reserved bit of the metadata descriptor is set (22:0, 29:27, 31 and 63:54 are zero)";
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
  if (operation < NEURON_DMA_CAST || operation > NEURON_DMA_TRANSPOSE) {
    return "the operation in the metadata is not cast, fma, add, min, max or transpose (1 to 6)";
  }
  if (!takes_part(from_type) || !takes_part(to_type)) {
    return "a type in the metadata cannot take part in a DMA (integers of 8 to 64 bits, f32, f32r, "
           "tf32, bf16, f16, f8e3, f8e4, f8e5)";
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

const char* ComputeSpec::change(uint64_t low, uint64_t high, uint32_t bytes) {
  if ((low & NEURON_DESC_FIRST) != 0) return "FIRST inside a packet that has no LAST yet";
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
      return bytes;
    case NEURON_DMA_TRANSPOSE:
      return inside_core ? 2 * bytes : bytes + bytes / 9;
    default:
      return 2 * bytes;
  }
}

DmaFault run_compute(const Bus& bus, const Packet& packet, const RingView& m2s, uint32_t m2s_ahead,
                     const RingView& s2m, uint32_t s2m_ahead, const Access& access,
                     numerics::RandomStream& random) {
  const ComputeSpec& spec = packet.compute;
  const auto sources = std::make_unique_for_overwrite<std::byte[]>(packet.bytes);
  const auto result = std::make_unique_for_overwrite<std::byte[]>(spec.result_bytes);
  std::byte* to = sources.get();
  for (uint32_t s = 0; s < packet.m2s_count; ++s) {
    const Descriptor& d = packet.m2s[s];
    if ((d.control & NEURON_DESC_META) != 0) continue;
    if (!bus.read(d.address, {to, d.bytes()}, access)) {
      return refused(m2s, false, m2s_ahead + s, d.address,
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
        return refused(s2m, true, s2m_ahead + d, packet.s2m[d].address,
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
  compute(spec, sources.get(), result.get(), random);
  return each_destination([&](uint64_t address, const std::byte* at, uint32_t bytes) {
    return bus.write(address, {at, bytes}, access);
  });
}

}  // namespace neuron::chip
