// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/nki/order.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "driver/isa/instruction.h"

namespace neuron::nki {

namespace {

constexpr std::string_view kWrittenKeys[] = {"dst",     "dst_scale", "dst_idx",
                                             "val_dst", "idx_dst",   "reduce_res"};
// These continue what earlier ones left in an engine, as a reduction over several calls does.
// Both programs come to these in the same order.
bool is_meeting(std::string_view op) { return op == "core_barrier" || op == "sendrecv"; }
const std::set<std::string_view> kWithState = {
    "rng", "set_rng_seed", "rand_set_state", "rand_get_state", "rand2", "dropout"};

Touch everything(Touch::Of of, uint32_t id, bool write) {
  return {of,
          id,
          write,
          0,
          std::numeric_limits<uint64_t>::max(),
          std::numeric_limits<int64_t>::min(),
          std::numeric_limits<int64_t>::max()};
}

Touch box_of(const Operand& operand, bool write) {
  Touch touch;
  touch.of = operand.on_chip ? Touch::Of::kTile : Touch::Of::kTensor;
  touch.id = operand.id;
  touch.write = write;
  touch.first_part = operand.on_chip ? operand.start : 0;
  touch.end_part = operand.on_chip ? operand.start + operand.parts : 1;
  int64_t lowest = 0, highest = 0;
  for (const Span& span : operand.pattern) {
    const int64_t reach = span.step * static_cast<int64_t>(span.count - 1);
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto element = static_cast<int64_t>(isa::dtype_bytes(operand.dtype));
  const auto offset = static_cast<int64_t>(operand.offset);
  touch.first_byte = offset + lowest * element;
  touch.end_byte = offset + (highest + 1) * element;
  return touch;
}

}  // namespace

std::vector<Touch> touches_of(Record& record) {
  const std::string& op = record.operation();
  if (op == "tile" || op == "free") {
    const auto id = static_cast<uint32_t>(record.count("id", UINT32_MAX));
    return {everything(Touch::Of::kTile, id, true)};
  }
  std::vector<Touch> touches;
  const bool by_index = op == "dma_gather" || op == "dma_scatter";
  for (const auto& [key, operand] : record.all_operands()) {
    const bool write = op == "core_barrier" ||
                       std::count(std::begin(kWrittenKeys), std::end(kWrittenKeys), key) != 0;
    touches.push_back(by_index && !operand.on_chip
                          ? everything(Touch::Of::kTensor, operand.id, write)
                          : box_of(operand, write));
  }
  if (is_meeting(op)) touches.push_back(everything(Touch::Of::kEngines, 1, true));
  if (record.has("reduce_cmd") || record.has("reduce_res") || kWithState.count(op) != 0) {
    touches.push_back(everything(Touch::Of::kEngines, 0, true));
  }
  return touches;
}

WaitingRecord waiting_record(std::string_view line, uint64_t number, Record& record) {
  return {line, number, touches_of(record),
          record.operation() == "tile" ? record.text("space") : std::string()};
}

bool WaitingRecords::must_wait(const WaitingRecord& record) const {
  if (full_.count(record.tile_in) != 0) return true;
  const auto& touches = record.touches;
  return std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
    const auto found = touched_.find({touch.of, touch.id});
    if (found == touched_.end()) return false;
    const auto overlaps = [&](const Touch& other) { return touch.overlaps(other); };
    const auto& [reads, writes] = found->second;
    return std::any_of(writes.begin(), writes.end(), overlaps) ||
           (touch.write && std::any_of(reads.begin(), reads.end(), overlaps));
  });
}

void WaitingRecords::add(WaitingRecord record) {
  if (!record.tile_in.empty()) full_.insert(record.tile_in);
  for (const Touch& touch : record.touches) {
    Touched& touched = touched_[{touch.of, touch.id}];
    (touch.write ? touched.writes : touched.reads).push_back(touch);
    if (touch.of == Touch::Of::kTile) ++users_[touch.id];
  }
  records_.push_back(std::move(record));
}

std::vector<WaitingRecord> WaitingRecords::take() {
  touched_.clear();
  full_.clear();
  return std::exchange(records_, {});
}

void WaitingRecords::done(const WaitingRecord& record) {
  for (const Touch& touch : record.touches) {
    if (touch.of == Touch::Of::kTile) --users_[touch.id];
  }
}

void WaitingRecords::used_until(uint32_t tile, uint64_t line) {
  uint64_t& last = last_uses_[tile];
  last = std::max(last, line);
}

bool WaitingRecords::unused(uint32_t tile) const {
  const auto last = last_uses_.find(tile);
  const auto users = users_.find(tile);
  return last != last_uses_.end() && last->second <= line_ &&
         (users == users_.end() || users->second == 0);
}

}  // namespace neuron::nki
