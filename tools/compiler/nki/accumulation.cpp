// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/nki/accumulation.h"

#include "driver/isa/instruction.h"

namespace neuron::nki {

using builder::TileAccess;
using runtime::fail;
using runtime::Result;

namespace {

std::array<uint64_t, 2> lanes_of(const TileAccess& access) {
  std::array<uint64_t, 2> lanes{};
  for (uint32_t p = access.start; p < access.start + access.parts && p < 128; ++p) {
    lanes[p / 64] |= uint64_t{1} << p % 64;
  }
  return lanes;
}

bool any(const std::array<uint64_t, 2>& a, const std::array<uint64_t, 2>& b) {
  return (a[0] & b[0]) != 0 || (a[1] & b[1]) != 0;
}

bool all(const std::array<uint64_t, 2>& a, const std::array<uint64_t, 2>& b) {
  return (a[0] & b[0]) == b[0] && (a[1] & b[1]) == b[1];
}

// Calls visit(key) for each element in the order of the stream, until it returns false.
template <class Visit>
void for_each_column(const TileAccess& access, const Visit& visit) {
  const int64_t element = isa::dtype_bytes(access.dtype);
  std::array<uint32_t, 4> index{};
  int64_t byte = access.base;
  for (uint64_t count = access.elements(); count > 0; --count) {
    if (!visit(static_cast<uint32_t>(byte / 2))) return;
    for (uint32_t d = 0; d < access.ndim; ++d) {
      byte += access.step[d] * element;
      if (++index[d] < access.size[d]) break;
      byte -= int64_t{access.step[d]} * element * access.size[d];
      index[d] = 0;
    }
  }
}

}  // namespace

void Accumulation::made(const TileAccess& all) {
  State& state = tiles_[all.tile];
  state.first = all.base / 2;
  state.columns.assign((all.end_byte() + 1) / 2 - state.first, {});
}

void Accumulation::written(const TileAccess& given, bool zeros, uint32_t line) {
  TileAccess access = given;
  if (given.offsets.present()) {  // Anything that its offsets may name
    access.offsets = {};
    access.size = {given.reach, 0, 0, 0};
    zeros = false;
  }
  const auto found = tiles_.find(access.tile);
  if (access.space != NEURON_SPACE_PSUM || found == tiles_.end()) return;
  const Lanes lanes = lanes_of(access);
  for_each_column(access, [&](uint32_t key) {
    Column* column = found->second.at(key);
    if (column == nullptr) return true;
    for (size_t i = 0; i < lanes.size(); ++i) {
      column->product[i] &= ~lanes[i];
      column->other[i] = zeros ? column->other[i] & ~lanes[i] : column->other[i] | lanes[i];
    }
    if (!zeros) column->line = line;
    return true;
  });
}

void Accumulation::multiplied(const TileAccess& access) {
  const auto found = tiles_.find(access.tile);
  if (found == tiles_.end()) return;
  const Lanes lanes = lanes_of(access);
  for_each_column(access, [&](uint32_t key) {
    Column* column = found->second.at(key);
    for (size_t i = 0; column != nullptr && i < lanes.size(); ++i) {
      column->product[i] |= lanes[i];
      column->other[i] &= ~lanes[i];
    }
    return true;
  });
}

Result<std::vector<Accumulation::Run>> Accumulation::runs(const TileAccess& access) const {
  const Lanes lanes = lanes_of(access);
  const auto found = tiles_.find(access.tile);
  std::vector<Run> runs;
  uint64_t number = 0;
  uint32_t line = 0;
  bool other = false, mixed = false;
  for_each_column(access, [&](uint32_t key) {
    const Column* column = found == tiles_.end() ? nullptr : found->second.at(key);
    const bool adds = column != nullptr && any(column->product, lanes);
    if (column != nullptr) {
      if (any(column->other, lanes)) {
        other = true;
        line = column->line;
      }
      mixed = mixed || (adds && !all(column->product, lanes));
    }
    if (runs.empty() || runs.back().accumulate != adds) runs.push_back({number, 0, adds});
    ++runs.back().count;
    ++number;
    return !other && !mixed;
  });
  if (other) {
    return fail(NRT_INVALID,
                "the call leaves open whether it adds to the destination, which line {} wrote by "
                "other means; say accumulate=True or accumulate=False",
                line);
  }
  if (mixed) {
    return fail(NRT_INVALID,
                "some partitions of the destination hold a product already and others do not; say "
                "accumulate=True or accumulate=False, or use one call for each part");
  }
  return runs;
}

}  // namespace neuron::nki
