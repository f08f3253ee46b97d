// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/executions.h"

namespace neuron::profile {
namespace {

// A difference of either sign as a number that is small when it is near 0. All arithmetic is modulo
// 2^64, since a damaged file may have any times.
uint64_t folded(uint64_t difference) { return difference << 1 ^ (0 - (difference >> 63)); }
uint64_t unfolded(uint64_t value) { return value >> 1 ^ (0 - (value & 1)); }

void put(std::vector<uint8_t>& to, uint64_t difference) {
  uint64_t value = folded(difference);
  while (value >= 128) {
    to.push_back(static_cast<uint8_t>(value | 128));
    value >>= 7;
  }
  to.push_back(static_cast<uint8_t>(value));
}

uint64_t get(const std::vector<uint8_t>& from, size_t& at) {
  uint64_t value = 0;
  for (unsigned shift = 0; at < from.size() && shift < 64; shift += 7) {
    const uint8_t byte = from[at++];
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) break;
  }
  return unfolded(value);
}

}  // namespace

Execution Executions::operator[](size_t n) const {
  const size_t number = n / kOfBlock;
  const Block& block = blocks_[number];
  if (cursor_.block != number || cursor_.next > n) {
    cursor_ = {.block = number, .next = number * kOfBlock, .at = 0, .state = block.before};
  }
  uint64_t begin_ns = 0;
  // bounded: at most the executions of a block.
  for (; cursor_.next <= n; ++cursor_.next) {
    State& state = cursor_.state;
    state.kind += get(block.bytes, cursor_.at);
    state.exec_id += get(block.bytes, cursor_.at);
    begin_ns = state.end_ns + get(block.bytes, cursor_.at);
    state.end_ns = begin_ns + get(block.bytes, cursor_.at);
  }
  Execution found = kinds_[cursor_.state.kind];
  found.exec_id = cursor_.state.exec_id;
  found.begin_ns = begin_ns;
  found.end_ns = cursor_.state.end_ns;
  return found;
}

uint64_t Executions::kind_of(size_t n) const {
  (void)operator[](n);
  return cursor_.state.kind;
}

void Executions::record(uint64_t kind, const Execution& times) {
  if (size_ % kOfBlock == 0) {
    if (!blocks_.empty()) blocks_.back().bytes.shrink_to_fit();
    blocks_.push_back({.before = last_, .bytes = {}});
  }
  std::vector<uint8_t>& bytes = blocks_.back().bytes;
  put(bytes, kind - last_.kind);
  put(bytes, times.exec_id - last_.exec_id);
  put(bytes, times.begin_ns - last_.end_ns);
  put(bytes, times.end_ns - times.begin_ns);
  last_ = {.exec_id = times.exec_id, .end_ns = times.end_ns, .kind = kind};
  ++size_;
}

void Executions::add(const Execution& execution) {
  kinds_.push_back(execution);
  kinds_.back().events = size_;
  record(kinds_.size() - 1, execution);
}

void Executions::add_same(size_t earlier, const Execution& times) {
  record(kind_of(earlier), times);
}

}  // namespace neuron::profile
