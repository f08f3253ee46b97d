// SPDX-License-Identifier: Apache-2.0
//
// Which functions of one engine's program call which, as far as the instructions say.
// A function is known if the loader may put instructions in front of it and may rely on what is in
// progress while it is: every way into it is a call of its first instruction, it ends by itself, it
// calls known functions only, and it does not call itself through any of them. Callers: RingPlan
// and the loader, for programs whose functions share queues. Thread-safe: const. Owns what it
// tells. Cannot fail: what it does not understand is not known. Takes time in proportion to the
// program.
#ifndef RUNTIME_RINGS_FUNCTION_CALLS_H
#define RUNTIME_RINGS_FUNCTION_CALLS_H

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/neff/model.h"

namespace neuron::runtime {

class FunctionCalls {
 public:
  explicit FunctionCalls(const neff::EngineProgram& program);

  // `entry`: an index into the program's entries.
  bool known(uint32_t entry) const { return known_.contains(entry); }
  // The known functions, each behind all that it calls.
  const std::vector<uint32_t>& order() const { return order_; }
  // The functions that a known one calls.
  const std::set<uint32_t>& callees(uint32_t entry) const { return of(entry).callees; }
  // The instructions that call it, ascending.
  const std::vector<uint32_t>& calls(uint32_t entry) const { return of(entry).calls; }

 private:
  struct Function {
    std::set<uint32_t> callees, callers;
    std::vector<uint32_t> calls;
    bool understood = true;
  };

  const Function& of(uint32_t entry) const;
  void find_functions();
  // The function whose instructions hold `pc`; empty: none does.
  std::optional<uint32_t> holder(int64_t pc) const;
  void read_instructions();
  void read_jump(uint32_t pc, int64_t target, bool call);
  void mark(std::optional<uint32_t> entry);
  void sort();

  const neff::EngineProgram& program_;
  std::map<uint32_t, Function> functions_;  // by entry
  std::map<uint32_t, uint32_t> places_;     // entries by their first instruction
  std::vector<uint32_t> order_;
  std::set<uint32_t> known_;
};

}  // namespace neuron::runtime

#endif
