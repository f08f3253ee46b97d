// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/indexes.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace neuron::builder {

uint32_t Indexes::next_program() {
  static std::atomic<uint32_t> last = 0;
  return ++last;
}

Index Indexes::add(IndexInfo info) {
  all_.push_back(std::move(info));
  return {static_cast<uint32_t>(all_.size() - 1), program_};
}

Index Indexes::zero() {
  if (!zero_.present()) zero_ = add({.name = "zero"});
  return zero_;
}

Index Indexes::executed() {
  if (!executed_.present()) {
    executed_ = add({.name = "executed", .most = 1});
  }
  return executed_;
}

bool Indexes::made(Index index) {
  const bool other = index.number != 0 && index.program != program_;
  if (index.number != 0 && index.number < all_.size() && !other) return true;
  journal_.fail(runtime::fail(
      NRT_INVALID, "an index {} is used; use numbers and rounds of loops of this program",
      other ? "of another program" : "that was never made"));
  return false;
}

bool Indexes::check(Index index) {
  if (!made(index)) return false;
  const IndexInfo& info = all_[index.number];
  if (!info.open) {
    journal_.fail(runtime::fail(NRT_INVALID, "the round of a loop is used behind its end"));
    return false;
  }
  if (info.is_loop || known_.use(index.number)) return true;
  journal_.fail(runtime::fail(NRT_INVALID,
                              "number \"{}\" is used before it has a value on every way here; set "
                              "it in front of branches and loops",
                              info.name));
  return false;
}

bool Indexes::check(const Motions& motions) {
  return std::all_of(motions.begin(), motions.end(), [&](const Motion& motion) {
    return check({motion.index, motion.program});
  });
}

int64_t Indexes::distance(int64_t bytes, uint32_t most) {
  constexpr int64_t kMost = int64_t{1} << 60;
  int64_t far = 0;
  if (__builtin_mul_overflow(bytes, int64_t{most}, &far)) far = bytes < 0 ? -kMost : kMost;
  return std::clamp(far, -kMost, kMost);
}

}  // namespace neuron::builder
