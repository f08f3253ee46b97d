// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/ring_packets.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "hw/udma.h"

namespace neuron::runtime {
namespace {

using neff::DmaAccess;
using neff::DmaOperation;
using neff::DmaTransfer;

// Small transfers are not worth a packet on every DMA engine.
constexpr uint64_t kSmallestShare = 2048;
// Row counts from 4096 on would set bits in the metadata that look like a host address to a driver
// which checks the addresses of descriptors.
constexpr uint64_t kMostRows = 2048;
constexpr uint64_t kMostColumns = UINT16_MAX;

static_assert(static_cast<int>(DmaOperation::kCast) == NEURON_DMA_CAST &&
              static_cast<int>(DmaOperation::kFma) == NEURON_DMA_FMA &&
              static_cast<int>(DmaOperation::kAdd) == NEURON_DMA_ADD &&
              static_cast<int>(DmaOperation::kMin) == NEURON_DMA_MIN &&
              static_cast<int>(DmaOperation::kMax) == NEURON_DMA_MAX &&
              static_cast<int>(DmaOperation::kTranspose) == NEURON_DMA_TRANSPOSE);

bool recodes(DmaOperation operation) {
  return operation == DmaOperation::kCompress || operation == DmaOperation::kDecompress;
}

// A contiguous piece of one side.
struct Piece {
  uint64_t offset = 0;
  uint32_t length = 0;
};

// Walks one side as a stream of bytes.
class Cursor {
 public:
  explicit Cursor(const DmaAccess& access, uint64_t position = 0) : access_(access) {
    uint64_t run = position / access.sizes[0];
    position_ = position % access.sizes[0];
    for (int d = 1; d < 4; ++d) {
      index_[d] = run % access.sizes[d];
      run /= access.sizes[d];
    }
  }

  uint64_t offset() const {
    uint64_t offset = access_.offset + position_;
    for (int d = 1; d < 4; ++d) {
      offset += static_cast<uint64_t>(access_.steps[d]) * index_[d];
    }
    return offset;
  }
  uint64_t left() const { return access_.sizes[0] - position_; }
  void advance(uint64_t bytes) {
    position_ += bytes;
    if (position_ < access_.sizes[0]) return;
    position_ = 0;
    for (int d = 1; d < 4; ++d) {
      if (++index_[d] < access_.sizes[d]) return;
      index_[d] = 0;
    }
  }

  // Appends the next `bytes` as pieces; one that continues the piece before it becomes part of it.
  // False: there would be more than `most`.
  bool take(uint64_t bytes, size_t most, std::vector<Piece>& pieces) {
    while (bytes > 0) {
      const uint64_t at = offset();
      Piece* last = pieces.empty() ? nullptr : &pieces.back();
      const bool joins = last != nullptr && last->offset + last->length == at &&
                         last->length < NEURON_UDMA_MAX_DESC_BYTES;
      const uint64_t room = NEURON_UDMA_MAX_DESC_BYTES - (joins ? last->length : 0);
      const uint64_t length = std::min({left(), bytes, room});
      if (joins) {
        last->length += static_cast<uint32_t>(length);
      } else {
        if (pieces.size() == most) return false;
        pieces.push_back({at, static_cast<uint32_t>(length)});
      }
      advance(length);
      bytes -= length;
    }
    return true;
  }

  // The bytes in the next `pieces` pieces, at most `bytes`. Counts runs; take() never makes more
  // pieces than there are runs.
  uint64_t reach(size_t pieces, uint64_t bytes) const {
    Cursor ahead = *this;
    uint64_t reached = 0;
    for (; pieces > 0 && reached < bytes; --pieces) {
      const uint64_t length =
          std::min({ahead.left(), bytes - reached, uint64_t{NEURON_UDMA_MAX_DESC_BYTES}});
      ahead.advance(length);
      reached += length;
    }
    return reached;
  }

 private:
  const DmaAccess& access_;
  uint64_t position_ = 0;
  std::array<uint64_t, 4> index_{};
};

// The metadata of a transfer's packets, except the scale.
struct Metadata {
  uint8_t operation = 0;
  uint8_t from_type = 0;
  uint8_t to_type = 0;
  uint32_t sources = 1;

  RingDescriptor descriptor(uint64_t high, bool first) const {
    RingDescriptor d;
    d.offset = high;
    d.base = RingDescriptor::kMetadata;
    d.length = static_cast<uint32_t>((uint64_t{operation} << NEURON_DMA_META_OPERATION_SHIFT |
                                      uint64_t{from_type} << NEURON_DMA_META_FROM_SHIFT |
                                      uint64_t{to_type} << NEURON_DMA_META_TO_SHIFT |
                                      uint64_t{sources - 1} << NEURON_DMA_META_SOURCES_SHIFT) >>
                                     32);
    d.first = first;
    return d;
  }
};

bool takes_part(uint8_t dtype) { return dtype >= NEURON_DTYPE_U64 && dtype <= NEURON_DTYPE_TF32; }

class Cutter {
 public:
  Cutter(const DmaTransfer& transfer, uint32_t spread, uint64_t most)
      : transfer_(transfer), spread_(spread), most_(most) {}

  Result<PacketList> cut() {
    if (transfer_.operation == DmaOperation::kCopy) {
      NEURON_CHECK(copy());
      return std::move(list_);
    }
    if (recodes(transfer_.operation)) {
      NEURON_CHECK(recode());
      return std::move(list_);
    }
    metadata_.operation = static_cast<uint8_t>(transfer_.operation);
    metadata_.from_type = transfer_.from[0].dtype;
    metadata_.to_type = transfer_.to.dtype;
    metadata_.sources = static_cast<uint32_t>(transfer_.from.size());
    if (transfer_.operation == DmaOperation::kTranspose) {
      NEURON_CHECK(transpose());
    } else {
      NEURON_CHECK(elementwise());
    }
    return std::move(list_);
  }

 private:
  Result<void> check_room() const {
    if (list_.m2s.size() + list_.s2m.size() <= most_) return {};
    return fail(NRT_RESOURCE,
                "needs more than {} DMA descriptors; use longer contiguous runs, or several "
                "transfers",
                most_);
  }
  Result<void> check_type(uint8_t dtype) const {
    if (takes_part(dtype)) return {};
    return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                "is of type {}, which DMA of generation 2 does not convert; it has the integers of "
                "8 to 64 bits, float32, float32r, tfloat32, bfloat16, float16 and float8e3, e4, e5",
                neff::dtype_name(dtype));
  }

  Result<void> copy();
  Result<void> elementwise();
  Result<void> transpose();
  Result<void> recode();
  Result<void> move_elements();
  Result<void> block(uint64_t matrix, uint64_t row, uint64_t column, uint64_t rows,
                     uint64_t columns);
  Result<uint32_t> parameter(const DmaAccess& source) const;
  void add_copy(uint64_t from, uint64_t to, uint32_t bytes) {
    list_.m2s.push_back({.offset = from,
                         .base = transfer_.from[0].variable,
                         .length = bytes,
                         .first = true,
                         .last = true});
    list_.s2m.push_back({.offset = to, .base = transfer_.to.variable, .length = bytes});
    list_.close();
  }
  void add_sources(const DmaAccess& access, const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      list_.m2s.push_back({.offset = piece.offset,
                           .base = access.variable,
                           .length = piece.length,
                           .operation = metadata_.operation});
    }
  }
  void add_results(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      list_.s2m.push_back(
          {.offset = piece.offset, .base = transfer_.to.variable, .length = piece.length});
    }
  }

  const DmaTransfer& transfer_;
  const uint64_t spread_;
  const uint64_t most_;
  uint64_t element_ = 0;  // bytes that a transpose keeps together
  Metadata metadata_;
  PacketList list_;
};

Result<void> Cutter::copy() {
  const DmaAccess& from = transfer_.from[0];
  const DmaAccess& to = transfer_.to;
  Cursor source(from);
  Cursor target(to);
  for (uint64_t left = to.bytes(); left > 0;) {
    const uint64_t length =
        std::min({source.left(), target.left(), uint64_t{NEURON_UDMA_MAX_DESC_BYTES}});
    add_copy(source.offset(), target.offset(), static_cast<uint32_t>(length));
    NEURON_CHECK(check_room());
    source.advance(length);
    target.advance(length);
    left -= length;
  }
  return {};
}

// Bits of the scale of `source` or of the constant, as fp32.
Result<uint32_t> Cutter::parameter(const DmaAccess& source) const {
  switch (transfer_.operation) {
    case DmaOperation::kFma:
      return std::bit_cast<uint32_t>(source.scale);
    case DmaOperation::kMin:
    case DmaOperation::kMax: {
      if (transfer_.constant_dtype == NEURON_DTYPE_F32) return transfer_.constant;
      const bool is_signed = transfer_.constant_dtype == NEURON_DTYPE_I32;
      const double exact = is_signed ? static_cast<int32_t>(transfer_.constant)
                                     : static_cast<double>(transfer_.constant);
      const auto rounded = static_cast<float>(exact);
      if (static_cast<double>(rounded) != exact) {
        return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                    "has the constant {}, which float32, in which DMA of generation 2 compares, "
                    "does not hold exactly",
                    exact);
      }
      return std::bit_cast<uint32_t>(rounded);
    }
    default:
      return 0u;
  }
}

Result<void> Cutter::elementwise() {
  NEURON_CHECK(check_type(metadata_.from_type));
  NEURON_CHECK(check_type(metadata_.to_type));
  const uint64_t from_bytes = neff::dtype_bytes(metadata_.from_type);
  const uint64_t to_bytes = neff::dtype_bytes(metadata_.to_type);
  const uint64_t sources = transfer_.from.size();
  std::vector<uint32_t> parameters;
  uint64_t changes = 0;
  for (const DmaAccess& source : transfer_.from) {
    NEURON_TRY(bits, parameter(source));
    if (!parameters.empty() && parameters.back() != bits) ++changes;
    parameters.push_back(bits);
  }
  const size_t pieces_each = (NEURON_UDMA_MAX_PACKET_DESCS - 1 - changes) / sources;
  const uint64_t elements = transfer_.to.bytes() / to_bytes;
  const uint64_t share =
      std::max((elements + spread_ - 1) / spread_, (kSmallestShare + to_bytes - 1) / to_bytes);
  const uint64_t largest = std::min({share, NEURON_UDMA_MAX_PACKET_BYTES / (sources * from_bytes),
                                     NEURON_UDMA_MAX_PACKET_BYTES / to_bytes});
  std::vector<Cursor> from(transfer_.from.begin(), transfer_.from.end());
  Cursor to(transfer_.to);
  std::vector<Piece> pieces;
  for (uint64_t left = elements; left > 0;) {
    uint64_t count = std::min(left, largest);
    count =
        std::min(count, to.reach(NEURON_UDMA_MAX_PACKET_DESCS - 1, count * to_bytes) / to_bytes);
    for (const Cursor& cursor : from) {
      count = std::min(count, cursor.reach(pieces_each, count * from_bytes) / from_bytes);
    }
    for (size_t s = 0; s < from.size(); ++s) {
      if (s == 0 || parameters[s] != parameters[s - 1]) {
        list_.m2s.push_back(metadata_.descriptor(parameters[s], s == 0));
      }
      pieces.clear();
      from[s].take(count * from_bytes, SIZE_MAX, pieces);
      add_sources(transfer_.from[s], pieces);
    }
    list_.m2s.back().last = true;
    pieces.clear();
    to.take(count * to_bytes, SIZE_MAX, pieces);
    add_results(pieces);
    list_.close();
    NEURON_CHECK(check_room());
    left -= count;
  }
  return {};
}

Result<void> Cutter::transpose() {
  constexpr uint8_t kTypes[] = {NEURON_DTYPE_U8, NEURON_DTYPE_U16, NEURON_DTYPE_U32,
                                NEURON_DTYPE_U64};
  const auto& shape = transfer_.transpose_shape;
  const uint64_t matrices = shape[0];
  const uint64_t rows = shape[1];
  const uint64_t columns = shape[2];
  element_ = transfer_.transpose_element_bytes * uint64_t{shape[3]};
  if (element_ > sizeof(uint64_t) || !std::has_single_bit(element_)) return move_elements();
  metadata_.from_type = metadata_.to_type = kTypes[std::countr_zero(element_)];
  // Every DMA engine gets a block if the matrix has enough rows.
  const uint64_t blocks = std::max<uint64_t>(1, spread_ / std::min(matrices, spread_));
  const uint64_t tall = std::clamp<uint64_t>((rows + blocks - 1) / blocks, 1, kMostRows);
  for (uint64_t m = 0; m < matrices; ++m) {
    for (uint64_t r = 0; r < rows; r += tall) {
      for (uint64_t c = 0; c < columns; c += kMostColumns) {
        NEURON_CHECK(block(m, r, c, std::min(tall, rows - r), std::min(kMostColumns, columns - c)));
      }
    }
  }
  return {};
}

// For elements of a size that the device has no type for: moves each one by itself.
Result<void> Cutter::move_elements() {
  const auto& shape = transfer_.transpose_shape;
  std::vector<Piece> from, to;
  Cursor source(transfer_.from[0]);
  for (uint64_t e = 0; e < uint64_t{shape[0]} * shape[1] * shape[2]; ++e) {
    const uint64_t row = e / shape[2] % shape[1], column = e % shape[2];
    const uint64_t matrix = e / shape[2] / shape[1];
    Cursor target(transfer_.to, ((matrix * shape[2] + column) * shape[1] + row) * element_);
    from.clear();
    to.clear();
    source.take(element_, SIZE_MAX, from);
    target.take(element_, SIZE_MAX, to);
    // The two sides may be cut at different bytes.
    for (size_t s = 0, t = 0; s < from.size();) {
      const uint32_t length = std::min(from[s].length, to[t].length);
      add_copy(from[s].offset, to[t].offset, length);
      NEURON_CHECK(check_room());
      from[s].offset += length;
      to[t].offset += length;
      if ((from[s].length -= length) == 0) ++s;
      if ((to[t].length -= length) == 0) ++t;
    }
  }
  return {};
}

// One packet, as a stream is written or read as a whole.
Result<void> Cutter::recode() {
  metadata_.operation =
      transfer_.operation == DmaOperation::kCompress ? NEURON_DMA_COMPRESS : NEURON_DMA_DECOMPRESS;
  const DmaAccess& from = transfer_.from[0];
  const DmaAccess& to = transfer_.to;
  constexpr size_t kMost = NEURON_UDMA_MAX_PACKET_DESCS - 1;
  std::vector<Piece> sources, results;
  if (std::max(from.bytes(), to.bytes()) > NEURON_UDMA_MAX_PACKET_BYTES ||
      !Cursor(from).take(from.bytes(), kMost, sources) ||
      !Cursor(to).take(to.bytes(), kMost, results)) {
    return fail(NRT_RESOURCE,
                "compresses or decompresses {} bytes into {}; a transfer takes at most {} bytes in "
                "{} contiguous runs on each side, so use several, each with a stream of its own",
                from.bytes(), to.bytes(), NEURON_UDMA_MAX_PACKET_BYTES, kMost);
  }
  list_.m2s.push_back(metadata_.descriptor(to.bytes(), true));
  add_sources(from, sources);
  list_.m2s.back().last = true;
  add_results(results);
  list_.close();
  return check_room();
}

// Makes one packet of a block; halves the block as often as needed.
Result<void> Cutter::block(uint64_t matrix, uint64_t row, uint64_t column, uint64_t rows,
                           uint64_t columns) {
  const uint64_t bytes = element_;
  const uint64_t all_rows = transfer_.transpose_shape[1];
  const uint64_t all_columns = transfer_.transpose_shape[2];
  const uint64_t first = matrix * all_rows * all_columns;
  const auto halve = [&](bool by_rows) -> Result<void> {
    if (by_rows) {
      const uint64_t half = rows / 2;
      NEURON_CHECK(block(matrix, row, column, half, columns));
      return block(matrix, row + half, column, rows - half, columns);
    }
    const uint64_t half = columns / 2;
    NEURON_CHECK(block(matrix, row, column, rows, half));
    return block(matrix, row, column + half, rows, columns - half);
  };
  constexpr size_t kMost = NEURON_UDMA_MAX_PACKET_DESCS - 1;
  if (rows * columns * bytes > NEURON_UDMA_MAX_PACKET_BYTES) return halve(rows >= columns);
  std::vector<Piece> sources;
  bool fits = true;
  for (uint64_t r = 0; r < rows && fits; ++r) {
    Cursor from(transfer_.from[0], (first + (row + r) * all_columns + column) * bytes);
    fits = from.take(columns * bytes, kMost, sources);
  }
  if (!fits) return halve(rows > 1);
  std::vector<Piece> results;
  for (uint64_t c = 0; c < columns && fits; ++c) {
    Cursor to(transfer_.to, (first + (column + c) * all_rows + row) * bytes);
    fits = to.take(rows * bytes, kMost, results);
  }
  if (!fits) return halve(columns == 1);
  list_.m2s.push_back(metadata_.descriptor(
      rows << NEURON_DMA_META_ROWS_SHIFT | columns << NEURON_DMA_META_COLUMNS_SHIFT, true));
  add_sources(transfer_.from[0], sources);
  list_.m2s.back().last = true;
  add_results(results);
  list_.close();
  return check_room();
}

}  // namespace

Result<PacketList> cut_into_packets(const DmaTransfer& transfer, uint32_t spread, uint64_t most) {
  NEURON_TRY(list, Cutter(transfer, spread, most).cut());
  if (transfer.priority != 0) {
    for (RingDescriptor& d : list.m2s) {
      if (d.first || d.base == RingDescriptor::kMetadata) d.priority = transfer.priority;
    }
  }
  return list;
}

}  // namespace neuron::runtime
