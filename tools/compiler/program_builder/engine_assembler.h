// SPDX-License-Identifier: Apache-2.0
//
// Writes the code of one engine: its steps with waits and updates, loops and blocks with the
// registers that they need, and where all engines meet.
//
// Registers: from 0 upwards the rounds and counters of the loops that are open; from the top
// downwards two for waits beyond 16 bits, four for sums of indexes, the numbers that the program
// declared, and two for each input or output whose address instructions need. A function uses those
// above what its callers have in use. Callers: NeffEmitter, one for each engine. Thread-safe: no.
// Borrows all that it is given. Fails when a program needs more registers than an engine has.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_ENGINE_ASSEMBLER_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_ENGINE_ASSEMBLER_H

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"
#include "tools/compiler/program_builder/schedule.h"
#include "tools/compiler/program_builder/semaphore_numbers.h"

namespace neuron::builder {

class EngineAssembler {
 public:
  using VariableName = std::function<std::string(int32_t buffer)>;
  // The variable that holds the address of an input or output; empty for other buffers, whose
  // addresses are known when the program is loaded.
  using PointerName = std::function<std::string(int32_t buffer)>;

  EngineAssembler(const Schedule& schedule, const SemaphoreNumbers& semaphores,
                  VariableName variable_name, PointerName pointer_name, unsigned engine,
                  uint8_t generation);

  // Code, entries and relocations.
  runtime::Result<neff::EngineProgram> run();

 private:
  // A register that a loop advances: a wait's value, or the distance of an operand.
  struct Counter {
    int64_t first = 0;
    int64_t per_round = 0;
  };
  // A loop that is open.
  struct OpenLoop {
    uint32_t index = 0;
    bool is_block = false;
    uint8_t round = 0;  // The register that counts rounds; counters follow it
    std::vector<Counter> counters;
    isa::Instruction instruction;
    uint32_t body = 0;  // Its first instruction
  };
  struct OpenWhile {
    uint32_t head = 0, leave = 0;  // Where engines meet, and the branch behind the end
  };
  struct OpenBranch {
    uint32_t skip = 0;   // The branch to its other part, or behind its end
    uint32_t leave = 0;  // The branch from the first part behind the end; 0: there is none
  };
  struct Call {
    uint32_t at = 0, function = 0;
  };
  struct Binding {
    uint8_t reg = 0;
    const Advance* advance = nullptr;
  };

  const std::deque<Step>& steps() const { return schedule_.steps()[engine_]; }
  const Block& block_of(const Step& step) const { return schedule_.parts().blocks[step.block]; }

  isa::Instruction make(uint16_t opcode, uint32_t debug) const;
  isa::Instruction branch(uint32_t debug, uint8_t condition, uint8_t reg, uint32_t with,
                          int32_t distance) const;
  uint32_t here() const { return out_.instructions(); }
  void append(const isa::Instruction& instruction);
  void replace(uint32_t at, const isa::Instruction& instruction);
  void point(uint32_t at, uint32_t target);  // The branch or call at `at` to `target`
  void relocate(uint16_t field, uint8_t kind, std::string symbol, uint8_t width = 0,
                int64_t addend = 0);
  void set_register(uint8_t number, int64_t value, uint32_t debug);
  void add_registers(uint8_t to, uint8_t a, uint8_t alu, uint32_t with, uint32_t debug);

  // Steps.
  void write(const Step& step, size_t number);
  isa::Wait wait_for(const Point& point, int32_t loop, unsigned which, uint32_t debug);
  void write_waits(const Step& step, isa::Instruction& instruction, size_t room);
  void bind(const Step& step, isa::Instruction& instruction);
  void give_ports_registers();
  void load_ports();
  uint8_t register_of_index(uint32_t index) const;
  uint8_t register_for(const Advance& advance, uint8_t scratch, uint32_t debug);
  // first + number * per_round, in `scratch` or where it is already.
  uint8_t product(uint8_t number, const Counter& wanted, uint8_t scratch, uint32_t debug);

  // Loops.
  uint8_t register_of(const OpenLoop& loop, const Counter& wanted) const;  // 0: it has none
  uint8_t counter_in(const OpenLoop& loop, const Counter& wanted, uint8_t scratch, uint32_t debug);
  static void need(OpenLoop& loop, const Counter& counter);
  runtime::Result<void> check_depth() const;
  runtime::Result<void> open_loop(OpenLoop loop, isa::Scalar rounds, uint32_t debug);
  void close_loop();
  runtime::Result<size_t> repeat(size_t first);
  runtime::Result<void> open_block(size_t at);
  isa::Scalar rounds_of(uint32_t rounds, uint32_t count) const;

  // Control.
  runtime::Result<void> control(size_t at);
  void meet(const Step& step);
  void clear(const std::vector<uint8_t>& semaphores, uint32_t debug);
  runtime::Result<void> begin_while(const Step& step);
  void clear_each(const Step& step);
  void read_condition(const Step& step);
  void end_while(const Step& step);
  void open_branch(const Step& step);
  void end_branch();

  const Schedule& schedule_;
  const SemaphoreNumbers& semaphores_;
  VariableName variable_name_;
  PointerName pointer_name_;
  unsigned engine_;
  neff::EngineProgram out_;
  std::map<uint32_t, uint8_t> numbers_;  // The registers of declared numbers
  std::map<int32_t, uint8_t> ports_;     // The first registers of inputs and outputs
  uint8_t top_;                          // The lowest register that loops may not have
  uint8_t depth_ = 0;                    // The lowest register that is free
  std::vector<OpenLoop> loops_;
  std::vector<OpenWhile> whiles_;
  std::vector<OpenBranch> branches_;
  std::vector<Call> calls_;
  std::map<uint32_t, uint8_t> depths_;  // Of functions: registers that callers have in use
  struct FunctionPlace {
    std::string name;
    uint32_t first = 0, end = 0;
  };
  std::map<uint32_t, FunctionPlace> functions_;
};

}  // namespace neuron::builder

#endif
