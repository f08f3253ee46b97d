// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/known_numbers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace neuron::builder {

bool KnownNumbers::use(uint32_t number) {
  if (known_.contains(number)) return true;
  if (function_ == 0) return false;
  functions_[function_].needs.insert(number);
  return true;
}

void KnownNumbers::begin_otherwise() {
  Open& branch = open_.back();
  branch.then = std::exchange(known_, branch.before);
}

void KnownNumbers::end_maybe() {
  known_ = std::move(open_.back().before);
  open_.pop_back();
}

void KnownNumbers::end_branch() {
  const Numbers& then = open_.back().then;
  std::erase_if(known_, [&](uint32_t number) { return !then.contains(number); });
  open_.pop_back();
}

void KnownNumbers::begin_function(uint32_t function) {
  begin();
  function_ = function;
}

void KnownNumbers::end_function() {
  const Numbers& before = open_.back().before;
  Numbers& gives = functions_[function_].gives;
  std::set_difference(known_.begin(), known_.end(), before.begin(), before.end(),
                      std::inserter(gives, gives.end()));
  function_ = 0;
  end_maybe();
}

std::optional<uint32_t> KnownNumbers::call(uint32_t function) {
  const Effect& effect = functions_[function];
  for (uint32_t number : effect.needs) {
    if (!use(number)) return number;
  }
  known_.insert(effect.gives.begin(), effect.gives.end());
  return std::nullopt;
}

}  // namespace neuron::builder
