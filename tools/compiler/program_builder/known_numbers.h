// SPDX-License-Identifier: Apache-2.0
//
// Which numbers have a value at the place of the program that is being written.
//
// Both bodies of a branch must give a number its value before it has one behind the branch. A loop
// that may have no round gives none. A function gives those that its body gives where it is called;
// what its body uses, the caller must have given, so these are kept as its needs. What happens
// once gives a value for good: registers stay as they are from one execution to the next.
// Callers: Schedule, in program order. Thread-safe: no. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_KNOWN_NUMBERS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_KNOWN_NUMBERS_H

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace neuron::builder {

class KnownNumbers {
 public:
  using Numbers = std::set<uint32_t>;  // By index

  void give(uint32_t number) { known_.insert(number); }
  // True if the number has a value, or if a function that is being written needs it.
  bool use(uint32_t number);

  // Around a body, in the order in which it is written.
  void begin() { open_.push_back({known_, {}}); }
  void begin_otherwise();
  // Of a body that happens once at least.
  void end_always() { open_.pop_back(); }
  // Of a loop that may have no round.
  void end_maybe();
  void end_branch();
  void begin_function(uint32_t function);
  void end_function();
  // The first number that the function needs and that has no value here; none: all have one, and
  // what the function gives has a value from here on.
  std::optional<uint32_t> call(uint32_t function);

 private:
  struct Open {
    Numbers before, then;  // In front of the body, and at the end of the first one of a branch
  };
  struct Effect {
    Numbers needs, gives;
  };

  Numbers known_;
  std::vector<Open> open_;
  std::map<uint32_t, Effect> functions_;
  uint32_t function_ = 0;  // That is being written; 0: none
};

}  // namespace neuron::builder

#endif
