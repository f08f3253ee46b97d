// SPDX-License-Identifier: Apache-2.0
//
// A program while it is written: operations, and the loops, branches and functions around them. An
// operation gets its place (placement.h) at once, or when the outermost of what is around it ends.
// Callers: Program and ControlFlow, in program order; NeffEmitter reads the result. Thread-safe:
// no. Owns all of it. Fails: too many transfers and impossible loops are errors of the journal;
// later calls then do nothing.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_SCHEDULE_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_SCHEDULE_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/compiler/program_builder/indexes.h"
#include "tools/compiler/program_builder/journal.h"
#include "tools/compiler/program_builder/placement.h"
#include "tools/compiler/program_builder/program_parts.h"
#include "tools/compiler/program_builder/recording.h"

namespace neuron::builder {

class Schedule {
 public:
  using Item = builder::Item;

  explicit Schedule(std::string program)
      : journal_(std::move(program)), placement_(journal_, indexes_.all()) {}
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  Journal& journal() { return journal_; }
  const Journal& journal() const { return journal_; }
  // False after an error and after finish().
  bool open() const { return !journal_.error() && !finished_; }

  void use(unsigned engine) { placement_.parts().used[engine] = true; }
  void add(Item item);
  // From now on, accesses to HBM buffer `number` are ordered as those to buffer `other`, from byte
  // `offset` on: the caller gives both the same memory.
  void same_memory(uint32_t number, uint32_t other, uint64_t offset = 0) {
    memory_of_[number] = {other, offset};
  }
  // The number of the transfer or collective, which an item's step then names.
  int32_t add_transfer(Transfer transfer);
  int32_t add_collective(CollectiveStep collective);

  // Repeats the items that `body` adds. Inside it, rounds() is their number; outside it is 1.
  void loop(uint32_t rounds, const std::function<void()>& body);
  // Inside of anything that begin() began.
  bool in_loop() const { return !open_.empty(); }
  uint32_t rounds() const;

  // What is added until end() is the body of `node`: a loop, a branch, a function.
  // begin_otherwise() begins the other body of a branch. A call or barrier is added as it is.
  void begin(Node node);
  void begin_otherwise();
  void end();
  void add(Node node);
  // The number of a new function, from 1; 0, with an error, if the name is taken.
  uint32_t name_function(const std::string& name);
  // Of a function of this program. Fails if the loops or calls around each other become more than
  // engines keep, or if the function uses a number that has no value here.
  void call(uint32_t function);
  // True if transfers can be listed beforehand: what is around them happens as often as it says.
  bool can_prepare() const;

  Indexes& indexes() { return indexes_; }
  const Indexes& indexes() const { return indexes_; }
  // How far an access may reach in front of and behind its first place: with the rounds of the
  // innermost loop, and with its motions. No further than 2^62, where nothing lies.
  std::pair<int64_t, int64_t> reach(int64_t advance, const Motions& motions) const;

  // What is added until end_while() happens as long as the word at `condition`, in SBUF or in a
  // temporary, is not 0 when a round begins. All
  // engines wait for all work before each round and behind the last one; then the semaphores of the
  // body are 0 again, so that its waits are the same in every round. Such loops nest. They hold no
  // prepared transfers: a ring lists each of those once.
  void begin_while(const AddressField& condition);
  void end_while();
  bool in_while() const;

  // Waits for all transfers and returns from every engine.
  void finish();

  const Placement::Parts& parts() const { return placement_.parts(); }
  bool uses(unsigned engine) const { return parts().used[engine]; }
  const auto& steps() const { return parts().steps; }
  const auto& points() const { return parts().points; }
  const std::vector<Transfer>& transfers() const { return parts().transfers; }
  const std::vector<Slot>& slots() const { return parts().slots; }
  const std::vector<LoopInfo>& loops() const { return parts().loops; }
  const std::vector<WhileLoop>& while_loops() const { return parts().while_loops; }

 private:
  // Loops around each other, and functions that are in progress, at most.
  struct Depth {
    size_t loops = 0, calls = 0;
  };

  const Node* innermost_loop() const;
  // Of what is open; loops of one round are none.
  size_t open_loops() const;
  void check_end(const Node& node);
  // Motions with the innermost loop are advances; those of an index that is always 0 are none.
  void resolve(Motions& motions, int64_t& advance);
  void resolve(Item& item);

  Journal journal_;
  Indexes indexes_{journal_};
  Placement placement_;
  std::array<uint32_t, NEURON_CORE_ENGINES> next_id_{};  // Of an engine's transfers
  // HBM buffers that are other ones, from a byte on.
  std::map<uint32_t, std::pair<uint32_t, uint64_t>> memory_of_;
  std::vector<Node> open_;  // The outermost first
  std::vector<Node> functions_;
  std::vector<std::string> function_names_{"main"};
  std::vector<Depth> depths_{1};  // Of functions, by number
  bool finished_ = false;
};

}  // namespace neuron::builder

#endif
