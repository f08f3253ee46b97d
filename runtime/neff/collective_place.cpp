// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/collective_place.h"

#include <algorithm>

#include "driver/base/format.h"
#include "runtime/neff/dma_bounds.h"
#include "runtime/neff/text.h"

namespace neuron::neff {
namespace {

using base::format;

constexpr uint32_t kPartitions = 128;

// The partitions that rows take, and the bytes of each.
struct Box {
  uint64_t first_partition = 0, partitions = 0, first_byte = 0, bytes = 0;
};

Box box_of(const RowsOfSbuf& rows, uint64_t bytes) {
  const uint64_t count = bytes / rows.row_bytes + (bytes % rows.row_bytes != 0 ? 1 : 0);
  const uint64_t blocks = (count + rows.partitions - 1) / rows.partitions;
  return {rows.first_partition(), std::min<uint64_t>(count, rows.partitions), rows.first_byte(),
          blocks * rows.row_bytes};
}

std::optional<std::string> check_rows(const CollectivePlace& place, uint64_t element_bytes,
                                      uint32_t generation) {
  const RowsOfSbuf& rows = place.rows;
  const std::string name = printable(place.name);
  if (rows.core_offset >= NEURON_CORE_PSUM) {
    return format(
        "\"{}\" at {:#x} of the core window is PSUM; a collective's buffer is in HBM or "
        "SBUF",
        name, rows.core_offset);
  }
  if (rows.row_bytes % element_bytes != 0 || rows.first_byte() % element_bytes != 0) {
    return format(
        "rows of {} bytes from byte {} of a partition of \"{}\"; expected are multiples "
        "of {}, so that no element lies in two rows",
        rows.row_bytes, rows.first_byte(), name, element_bytes);
  }
  const Box box = box_of(rows, place.bytes);
  if (rows.first_partition() + uint64_t{rows.partitions} > kPartitions) {
    return format("{} partitions from partition {} on of \"{}\"; SBUF has {}", rows.partitions,
                  rows.first_partition(), name, kPartitions);
  }
  const uint64_t backed = sbuf_partition_bytes(generation);
  if (box.first_byte > backed || box.bytes > backed - box.first_byte) {
    return format(
        "{} bytes as rows of {} in {} partitions take {} bytes of each from byte {} on of "
        "\"{}\"; a partition has {}",
        place.bytes, rows.row_bytes, rows.partitions, box.bytes, box.first_byte, name, backed);
  }
  const uint64_t reach =
      box.partitions == 0 ? 0 : (box.partitions - 1) * NEURON_SBUF_PARTITION_STRIDE + box.bytes;
  if (place.offset > place.variable_bytes || reach > place.variable_bytes - place.offset) {
    return format(
        "{} bytes as rows of {} in {} partitions reach {} bytes from {} of \"{}\", which "
        "has {}",
        place.bytes, rows.row_bytes, rows.partitions, reach, place.offset, name,
        place.variable_bytes);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> check_place(const CollectivePlace& place, uint64_t element_bytes,
                                       uint32_t generation) {
  if (place.rows.present()) return check_rows(place, element_bytes, generation);
  if (place.bytes <= place.variable_bytes && place.offset <= place.variable_bytes - place.bytes) {
    return std::nullopt;
  }
  return format("{} bytes at {} of \"{}\", which has {}", place.bytes, place.offset,
                printable(place.name), place.variable_bytes);
}

std::optional<std::string> check_apart(const CollectivePlace& input,
                                       const CollectivePlace& output) {
  const RowsOfSbuf &a = input.rows, &b = output.rows;
  if (!a.present() || !b.present()) return std::nullopt;
  if (a.core_offset == b.core_offset) {
    if (a.row_bytes == b.row_bytes && a.partitions == b.partitions) return std::nullopt;
    return format(
        "input and output are in place from byte {} of partition {} on, with {} rows of {} "
        "bytes and {} rows of {}; expected are the same rows",
        a.first_byte(), a.first_partition(), a.partitions, a.row_bytes, b.partitions, b.row_bytes);
  }
  const Box x = box_of(a, input.bytes), y = box_of(b, output.bytes);
  const bool partitions = x.first_partition < y.first_partition + y.partitions &&
                          y.first_partition < x.first_partition + x.partitions;
  const bool bytes = x.first_byte < y.first_byte + y.bytes && y.first_byte < x.first_byte + x.bytes;
  if (!partitions || !bytes) return std::nullopt;
  return format(
      "the input (partitions {} to {}, bytes {} to {}) and the output (partitions {} to "
      "{}, bytes {} to {}) overlap; they are apart, or in place with the same rows",
      x.first_partition, x.first_partition + x.partitions - 1, x.first_byte,
      x.first_byte + x.bytes - 1, y.first_partition, y.first_partition + y.partitions - 1,
      y.first_byte, y.first_byte + y.bytes - 1);
}

}  // namespace neuron::neff
