// SPDX-License-Identifier: Apache-2.0
//
// The engines' instruction streams while they are written: each operation gets its place, the waits
// that its memory needs, and the semaphore that its transfer counts on.
//
// A loop's body is placed twice, as its last round and as the round before. The round before only
// serves the ordering: the last round then waits only for work of its own round or of the round
// before. The same waits are valid in every round, counted from the engine's own progress. Work
// before the loop is waited for once, at the loop's entry.
// Callers: Program, in program order; NeffEmitter reads the result. Thread-safe: no. Owns all of
// it. Fails: too many transfers and impossible loops are errors of the journal; later calls then do
// nothing.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_SCHEDULE_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_SCHEDULE_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/compiler/program_builder/journal.h"
#include "tools/compiler/program_builder/ordering.h"
#include "tools/compiler/program_builder/program_parts.h"

namespace neuron::builder {

class Schedule {
 public:
  using Steps = std::array<std::vector<Step>, NEURON_CORE_ENGINES>;
  using Points = std::array<std::vector<StepPoint>, NEURON_CORE_ENGINES>;

  // A piece of work before it has a place: an instruction, or a transfer that one starts.
  struct Item {
    unsigned engine = 0;
    Step step;
    std::vector<Region> reads, writes;
    bool moves = false;  // DMA reads and writes, not the engine
    int32_t slot = -1;
    Point point;  // Where it was placed last
  };

  explicit Schedule(std::string program) : journal_(std::move(program)) {}

  Journal& journal() { return journal_; }
  const Journal& journal() const { return journal_; }
  // False after an error and after finish().
  bool open() const { return !journal_.error() && !finished_; }

  void use(unsigned engine) { used_[engine] = true; }
  void add(Item item);
  // From now on, accesses to HBM buffer `number` are ordered as those to buffer `other`: the caller
  // gives both the same memory.
  void same_memory(uint32_t number, uint32_t other) { memory_of_[number] = other; }
  // The number of the transfer or collective, which an item's step then names.
  int32_t add_transfer(Transfer transfer);
  int32_t add_collective(CollectiveStep collective);

  // Repeats the items that `body` adds. Inside it, rounds() is their number; outside it is 1.
  void loop(uint32_t rounds, const std::function<void()>& body);
  bool in_loop() const { return recording_; }
  uint32_t rounds() const { return recording_ ? rounds_ : 1; }

  // What is added until end_while() happens as long as the word at `condition`, in SBUF or in a
  // temporary, is not 0 when a round begins. All
  // engines wait for all work before each round and behind the last one; then the semaphores of the
  // body are 0 again, so that its waits are the same in every round. Such loops nest. They hold no
  // prepared transfers: a ring lists each of those once.
  void begin_while(const AddressField& condition);
  void end_while();
  bool in_while() const { return !open_whiles_.empty(); }

  // Waits for all transfers and returns from every engine.
  void finish();

  bool uses(unsigned engine) const { return used_[engine]; }
  const Steps& steps() const { return steps_; }
  const Points& points() const { return points_; }
  const std::vector<Transfer>& transfers() const { return transfers_; }
  const std::vector<CollectiveStep>& collectives() const { return collectives_; }
  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<LoopInfo>& loops() const { return loops_; }
  const std::vector<WhileLoop>& while_loops() const { return while_loops_; }

 private:
  enum class Round : uint8_t { kOnly, kPrevious, kLast };  // Of a loop, the last two

  void place(Item& item, Round round);
  void place_transfer(Item& item, Step& step, Round round);
  void repeat(std::vector<Item> body);
  void enter_loop(std::vector<Item>& body);
  // Adds the waits of the step; the points then count as known to the engine.
  void order(unsigned engine, Step& step, std::vector<Point> points, bool own_engine_too);
  uint32_t take_slot(unsigned engine, Step& step);
  // A step of every engine, before which all work is complete and known to all.
  void meet(Control control, uint32_t while_loop);

  Journal journal_;
  Steps steps_;
  Points points_;
  std::array<bool, NEURON_CORE_ENGINES> used_{};
  std::vector<Transfer> transfers_;
  std::array<uint32_t, NEURON_CORE_ENGINES> next_id_{};  // Of an engine's transfers
  std::vector<CollectiveStep> collectives_;
  std::vector<Slot> slots_;
  std::map<uint32_t, uint32_t> memory_of_;  // HBM buffers that are other ones
  Accesses accesses_;
  Knowledge knowledge_;
  uint64_t issue_ = 0;
  std::vector<LoopInfo> loops_;
  std::vector<WhileLoop> while_loops_;
  std::vector<uint32_t> open_whiles_;
  bool recording_ = false;  // Inside a loop's body
  uint32_t rounds_ = 1;     // Of that loop
  std::vector<Item> recorded_;
  std::array<size_t, NEURON_CORE_ENGINES> cursor_{};  // Next step of the loop's last round
  bool finished_ = false;
};

}  // namespace neuron::builder

#endif
