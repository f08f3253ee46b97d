// SPDX-License-Identifier: Apache-2.0
//
// The flow of a program beyond loops of a known number of rounds: numbers that the engines hold,
// loops that they count, branches, functions, and what happens in the first execution only.
//
// A number (an Index) is the same on all engines: each has it in a register. It is unsigned, and
// never above the largest value that it was declared with: larger results become that value. So
// what moves with a number stays in its memory. A sum, product or shift that could need more than
// 32 bits is refused, unless its number may have all values of 32 bits: then those bits are what is
// kept. A difference below 0 counts as a large result. A divisor of 0 stops the program.
// A number must have a value on all ways that lead to its use: given in only one body of a branch,
// or in a loop that may have no round, it has none behind them.
// A body is called once, when it is written. Engines meet in front of a block (a loop around other
// blocks, a loop that a number counts, a branch, a function) and at its end, where all work is
// complete. Transfers whose addresses or counts the device decides are generated (dma_generate and
// its like); a function and a once() may have prepared ones (dma), which use rings of their own.
// Callers: kernels, through Program::control(). A view: borrows the program. Thread-safe: no.
// Fails: as Program.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_CONTROL_FLOW_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_CONTROL_FLOW_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/schedule.h"

namespace neuron::builder {

enum class Compare : uint8_t {
  kEqual = NEURON_BRANCH_EQ,
  kNotEqual = NEURON_BRANCH_NE,
  kLess = NEURON_BRANCH_LT,
  kAtMost = NEURON_BRANCH_LE,
  kGreater = NEURON_BRANCH_GT,
  kAtLeast = NEURON_BRANCH_GE,
};

// What ControlFlow::function made; absent by default.
struct Function {
  uint32_t number = 0;
  uint32_t program = 0;  // That made it: Indexes::program()
  bool present() const { return number != 0; }
};

class ControlFlow {
 public:
  using Body = std::function<void()>;
  using LoopBody = std::function<void(Index round)>;

  ControlFlow(Schedule& schedule, const std::vector<BufferInfo>& buffers)
      : schedule_(schedule), buffers_(buffers) {}

  // `rounds` times the body; accesses move with `round` (advancing()), also those of inner loops.
  void loop(uint32_t rounds, const LoopBody& body);
  // As many rounds as the number says when the loop begins, which may be none.
  void loop(Index rounds, const LoopBody& body);
  // One of the two bodies, or none.
  void when(Index left, Compare compare, uint32_t right, const Body& then,
            const Body& otherwise = {});
  // A body that call() executes, as often as it is called: in loops, in branches, in functions that
  // are made later. Made outside of all of them, before the first call. Its accesses move with
  // numbers and with loops of its own. Engines keep 8 loops around each other, those around the
  // call included, and 7 calls.
  Function function(const std::string& name, const Body& body);
  void call(Function function);
  // The body happens in the first execution after the model was loaded, or after its core executed
  // another model or was reset. SBUF and PSUM keep what it writes for later executions as long as
  // nothing else is placed there: so weights are moved once. Outside of all blocks.
  void once(const Body& body);
  // All engines wait for all work. Done by itself where semaphores run out.
  void barrier();

  // A number, without a value yet. At most `most`.
  Index number(const std::string& name, uint32_t most);
  void set(Index to, uint32_t value);
  // to = a op b, as said above. op: NEURON_ALU_ADD, SUB, MUL, DIV, MOD, MIN, MAX, AND, OR, XOR,
  // SHL, SHR_LOGICAL.
  void set(Index to, Index a, uint8_t op, uint32_t b);
  void set(Index to, Index a, uint8_t op, Index b);
  // From one word of 32 bits in SBUF, or in a constant or temporary.
  void load(Index to, const TileAccess& word);
  void load(Index to, const BufferAccess& word);
  // To such a word of SBUF or of a temporary.
  void store(const TileAccess& word, Index from);
  void store(const BufferAccess& word, Index from);

 private:
  struct Word {
    AddressField address;
    Region region;
    bool usable = false;
  };
  Word word_of(const TileAccess& access);
  Word word_of(const BufferAccess& access, bool write);
  void begin_loop(Block block, uint32_t most, const LoopBody& body);
  // The instruction on all engines; `registers` as in Step.
  void on_all(const isa::Instruction& instruction, std::array<uint32_t, 3> registers,
              const Word& word);
  void clamp(Index number);
  // False, with an error, if a result of more than 32 bits would be cut to its lowest ones.
  bool fits(Index to, Index a, uint8_t op, uint32_t most_of_b);
  void load(Index to, const Word& word);
  void store(const Word& word, Index from);
  bool assignable(Index to);
  Index in_register(Index value);

  Schedule& schedule_;
  const std::vector<BufferInfo>& buffers_;
};

}  // namespace neuron::builder

#endif
