// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/strict/strict_footprint.h"

#include <algorithm>

#include "driver/base/abandonment.h"
namespace neuron::core {
namespace {

constexpr unsigned kCell = StrictShadow::kCellBytes;

// Bits [first, end) of a cell.
uint64_t bits(unsigned first, unsigned end) {
  const uint64_t below = end == kCell ? ~uint64_t{0} : (uint64_t{1} << end) - 1;
  return below & ~((uint64_t{1} << first) - 1);
}

}  // namespace

std::span<const StrictSegment> StrictFootprint::of_bytes(unsigned space, uint64_t first,
                                                         uint64_t bytes) {
  if (bytes == 0) return {};
  const unsigned base = StrictShadow::first_column(space);
  const uint64_t end = first + bytes;
  uint64_t column = first / kCell;
  const uint64_t last = (end - 1) / kCell;
  const auto low = static_cast<unsigned>(first % kCell);
  const auto high = static_cast<unsigned>((end - 1) % kCell + 1);
  size_t count = 0;
  const auto add = [&](uint64_t at, uint64_t cells, uint64_t mask) {
    run_[count++] = {static_cast<uint16_t>(base + at), static_cast<uint16_t>(cells), mask};
  };
  if (column == last) {
    add(column, 1, bits(low, high));
    return {run_.data(), count};
  }
  if (low != 0) add(column++, 1, bits(low, kCell));
  const uint64_t whole = last - column + (high == kCell ? 1 : 0);
  if (whole != 0) add(column, whole, ~uint64_t{0});
  if (high != kCell) add(last, 1, bits(0, high));
  return {run_.data(), count};
}

std::span<const StrictSegment> StrictFootprint::of(const isa::Operand& operand) {
  const unsigned bytes = isa::dtype_bytes(operand.dtype);
  // Contiguous dimensions form one run.
  uint64_t run = 1;
  bool one = true;
  for (unsigned d = 0; d < operand.ndim && d < 4; ++d) {
    if (operand.size[d] == 0) return {};
    if (operand.size[d] == 1 || operand.step[d] == 0) continue;
    one = one && operand.step[d] > 0 && static_cast<uint64_t>(operand.step[d]) == run;
    run *= operand.size[d];
  }
  if (one) return of_bytes(operand.space, operand.base, run * bytes);

  if (known_.empty()) known_.resize(kKnown);
  const Shape shape{operand.base, operand.space, operand.dtype,
                    operand.ndim, operand.size,  operand.step};
  uint64_t hash = operand.base * 0x9E3779B97F4A7C15u;
  for (unsigned d = 0; d < 4; ++d) {
    hash = (hash ^ operand.size[d] ^ static_cast<uint64_t>(operand.step[d]) << 20) *
           0x9E3779B97F4A7C15u;
  }
  Known& known = known_[hash >> 56];
  if (known.shape == shape) return known.segments;
  known.shape = Shape{};  // a drawing that is given up is of nothing
  draw(operand, known.segments);
  known.shape = shape;
  return known.segments;
}

void StrictFootprint::mark(uint64_t first, uint64_t bytes) {
  while (bytes != 0) {
    const auto word = static_cast<unsigned>(first / kCell);
    const auto low = static_cast<unsigned>(first % kCell);
    const auto high = static_cast<unsigned>(std::min<uint64_t>(kCell, low + bytes));
    if (word >= kMapWords) return;
    map_[word] |= bits(low, high);
    lowest_ = std::min(lowest_, word);
    highest_ = std::max(highest_, word);
    first += high - low;
    bytes -= high - low;
  }
}

void StrictFootprint::begin_map() {
  // Empty but for what a drawing left that was given up.
  if (map_.empty()) {
    map_.resize(kMapWords);
  } else if (given_up_) {
    std::fill(map_.begin(), map_.end(), 0);
  }
  given_up_ = true;
  lowest_ = kMapWords - 1;
  highest_ = 0;
}

std::span<const StrictSegment> StrictFootprint::of_offsets(unsigned space, uint64_t base,
                                                           unsigned bytes,
                                                           std::span<const uint32_t> offsets) {
  begin_map();
  uint32_t steps = 0;
  for (const uint32_t offset : offsets) {
    base::Abandonment::look_now_and_then(steps);
    mark(base + uint64_t{offset} * bytes, bytes);
  }
  end_map(space, scattered_);
  return scattered_;
}

void StrictFootprint::draw(const isa::Operand& operand, std::vector<StrictSegment>& segments) {
  begin_map();
  uint32_t steps = 0;
  const int64_t bytes = isa::dtype_bytes(operand.dtype);
  struct Dimension {
    int64_t size = 1, step = 0;
  } dims[4];
  for (unsigned d = 0; d < operand.ndim && d < 4; ++d) {
    // Step 0 visits the same bytes again.
    if (operand.step[d] != 0) dims[d] = {operand.size[d], operand.step[d] * bytes};
  }
  const bool runs = dims[0].step == bytes;  // the innermost dimension is contiguous
  for (int64_t a = 0; a < dims[3].size; ++a) {
    for (int64_t b = 0; b < dims[2].size; ++b) {
      for (int64_t c = 0; c < dims[1].size; ++c) {
        const int64_t at =
            int64_t{operand.base} + a * dims[3].step + b * dims[2].step + c * dims[1].step;
        base::Abandonment::look_now_and_then(steps);
        if (runs) {
          mark(static_cast<uint64_t>(at), static_cast<uint64_t>(dims[0].size * bytes));
          continue;
        }
        for (int64_t d = 0; d < dims[0].size; ++d) {
          base::Abandonment::look_now_and_then(steps);
          mark(static_cast<uint64_t>(at + d * dims[0].step), static_cast<uint64_t>(bytes));
        }
      }
    }
  }
  end_map(operand.space, segments);
}

void StrictFootprint::end_map(unsigned space, std::vector<StrictSegment>& segments) {
  segments.clear();
  const unsigned base = StrictShadow::first_column(space);
  for (unsigned word = lowest_; word <= highest_; ++word) {
    const uint64_t mask = map_[word];
    map_[word] = 0;
    if (mask == 0) continue;
    if (!segments.empty() && segments.back().mask == mask &&
        segments.back().column + segments.back().count == base + word) {
      ++segments.back().count;
    } else {
      segments.push_back({static_cast<uint16_t>(base + word), 1, mask});
    }
  }
  given_up_ = false;
}

}  // namespace neuron::core
