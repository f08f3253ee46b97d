// SPDX-License-Identifier: Apache-2.0
//
// The place of each operation in its engine's stream, the waits that its memory needs, and the
// semaphore that its transfer counts on.
//
// A loop of operations alone is placed twice, as its last round and as the round before. The round
// before only serves the ordering: the last round then waits only for work of its own round or of
// the round before. The same waits are valid in every round, counted from the engine's own
// progress. Work before the loop is waited for once, at the loop's entry. Engines go through such a
// loop each at its own pace.
// All other parts are blocks: engines meet in front of a block and at its end, or at the end of
// each round. Where they meet, all work is complete and known, and the semaphores of the part that
// ends (its scope) become 0, so the waits are the same however often a part happens. When
// semaphores run out, engines meet in between, and all semaphores of the scope are free again.
// Callers: Schedule, in program order; NeffEmitter reads the result. Thread-safe: no. Owns all of
// it, borrows journal and indexes. Fails: what does not fit is an error of the journal; later calls
// then do nothing.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_PLACEMENT_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_PLACEMENT_H

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "tools/compiler/program_builder/journal.h"
#include "tools/compiler/program_builder/ordering.h"
#include "tools/compiler/program_builder/program_parts.h"
#include "tools/compiler/program_builder/recording.h"

namespace neuron::builder {

class Placement {
 public:
  // What has its place.
  struct Parts {
    // A step is large: those of a vector would be moved, into memory never touched, as it grows.
    std::array<std::deque<Step>, NEURON_CORE_ENGINES> steps;
    std::array<std::vector<StepPoint>, NEURON_CORE_ENGINES> points;
    std::array<bool, NEURON_CORE_ENGINES> used{};
    std::vector<Transfer> transfers;
    std::vector<CollectiveStep> collectives;
    std::vector<Slot> slots;
    std::vector<LoopInfo> loops;
    std::vector<WhileLoop> while_loops;
    std::vector<Block> blocks;
    std::vector<Meeting> meetings;
    std::vector<Scope> scopes{1};  // The first is that of the main program
  };

  Placement(Journal& journal, const std::vector<IndexInfo>& indexes)
      : journal_(journal), indexes_(indexes) {}

  Parts& parts() { return parts_; }
  const Parts& parts() const { return parts_; }

  // `loop`: the index of the loop around it that is a block; 0: there is none.
  void place(Node& node, uint32_t loop = 0);
  void begin_while(const AddressField& condition);
  void end_while();
  bool in_while() const { return !open_whiles_.empty(); }
  // Ends the main program: waits for all transfers, and returns from every engine.
  void finish();
  // Behind the main program.
  void place_function(Node& function);
  // There are many functions: those of one level, whose calls are never in progress together, use
  // the same semaphores. `levels`: of functions, by number.
  void share_semaphores(std::vector<uint32_t> levels) { levels_ = std::move(levels); }
  // More functions come: keeps semaphores for them.
  void expect_function() { functions_ = true; }

 private:
  enum class Round : uint8_t { kOnly, kPrevious, kLast };  // Of a loop, the last two
  // Slots of the main program: program semaphores 16..239, some of them for the engines' own
  // counts.
  static constexpr uint32_t kMostSlots = 200;

  void place(std::vector<Node>& nodes, uint32_t loop);
  void place(Item& item, Round round);
  void place_transfer(Item& item, Step& step, Round round);
  void repeat(Node& loop);
  void repeat(std::vector<Item*> body, const LoopInfo& info);
  void enter_loop(const std::vector<Item*>& body, LoopInfo info);
  void place_loop(Node& loop);
  void place_branch(Node& branch, uint32_t loop);
  // Adds the waits of the step; the points then count as known to the engine.
  void order(unsigned engine, Step& step, std::vector<Point> points, bool own_engine_too);
  uint32_t take_slot(unsigned engine, Step& step);
  bool usable(const Slot& slot) const;

  // How the item moves with a loop that is a block, and how far its memory reaches.
  void settle(Item& item, uint32_t loop);
  void moves_too_often();
  void keep_transfer(Item& item, uint32_t loop);
  void reach(Region& region) const;

  // A step of every engine.
  void control(Control control, uint32_t number);
  void meet(Meeting meeting);
  void know_all();
  // Before a block.
  void meet_before();
  void begin_scope(bool adopts);
  // The meeting that ends it clears these.
  void leave_scope(Meeting& clears);
  void barrier();
  // Semaphores that are taken, at most; and how many there are.
  uint32_t taken() const;
  uint32_t most_semaphores() const;
  void note_most();
  // `alone`: of a loop, which has a semaphore of its own.
  void count_signal(unsigned engine, bool alone);
  void make_room(size_t semaphores, size_t transfers);
  uint32_t scope() const { return open_scopes_.back(); }

  Journal& journal_;
  const std::vector<IndexInfo>& indexes_;
  Parts parts_;
  Accesses accesses_;
  Knowledge knowledge_;
  uint64_t issue_ = 0;
  std::vector<uint32_t> open_whiles_;
  std::vector<uint32_t> open_scopes_{0};
  uint32_t rounds_ = 1;                               // Of the loop that is placed
  std::array<size_t, NEURON_CORE_ENGINES> cursor_{};  // Next step of the loop's last round
  bool quiet_ = true;                                 // Nothing was placed since engines met
  bool functions_ = false;
  uint32_t in_function_ = 0;      // The number of the one that is placed
  uint32_t part_ = 0;             // That it is, as in Scope
  std::vector<uint32_t> levels_;  // Of functions; empty: each has semaphores of its own
  std::map<uint32_t, uint32_t> most_of_part_;  // By part: semaphores that are taken at once
  // Semaphores that are taken at once, at most: by the main program, by the functions of other
  // parts that have their place, and by this one. Known only if there are functions.
  uint32_t most_of_main_ = 0, of_functions_ = 0, most_here_ = 0;
};

}  // namespace neuron::builder

#endif
