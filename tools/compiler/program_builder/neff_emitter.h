// SPDX-License-Identifier: Apache-2.0
//
// Turns a finished Program into the members of a NEFF and the file: numbers semaphores, resolves
// waits to counts, encodes and checks every instruction, writes JSON.
// Callers: Program::build(). Thread-safe: no. Borrows the program. Fails when the program does not
// fit (semaphores, counts) or an instruction is refused, with a sentence.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_NEFF_EMITTER_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_NEFF_EMITTER_H

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"
#include "runtime/neff/neff_writer.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {

// A queue set: which engine triggers it, and whether it moves only inputs or only outputs.
struct QueueUse {
  unsigned engine = 0;
  bool only_in = true;
  bool only_out = true;
  bool dynamic = false;
};

class NeffEmitter {
 public:
  explicit NeffEmitter(const Program& program) : program_(program) {}

  // The queue set of descriptors that Pool generates.
  static constexpr const char* kDynamicQueue = "qPool_dynamic";

  runtime::Result<std::vector<uint8_t>> emit();

 private:
  // The files of the program's own directory.
  runtime::Result<tools::NeffMembers> core_members();
  // Adds the files of the other physical core, which may have nothing to do.
  runtime::Result<void> add_second_core(tools::NeffMembers& members) const;
  struct Semaphore {
    std::string name;
    uint8_t number = 0;
  };
  // The value of an engine's semaphore when a step has signalled; in a loop, in its first round.
  struct Signal {
    uint8_t semaphore = 0;
    uint32_t value = 0;
    uint32_t per_round = 0;  // 0: not in a loop
  };
  // The value that a wait compares with: in a loop, `value` in the first round and `per_round` more
  // in each further one.
  struct Target {
    uint8_t semaphore = 0;
    int64_t value = 0;
    uint32_t per_round = 0;
  };
  // A register that a loop advances: a wait's value, or the distance of an operand.
  struct Counter {
    int64_t first = 0;
    int64_t per_round = 0;
  };
  class Assembler;

  // Each engine counts the steps that others wait for; each loop has a count of its own. When a
  // count exceeds what a wait can compare with, it continues in a further semaphore.
  runtime::Result<void> number_semaphores();
  // Instance family that the program is for.
  boost::json::string target() const;
  Target target_of(const Point& point, int32_t loop) const;
  runtime::Result<neff::EngineProgram> assemble(unsigned engine) const;
  std::map<std::string, QueueUse> queues() const;
  static void list_ports(const Program& program, const char* subgraph, boost::json::array& inputs,
                         boost::json::array& outputs);
  static bool calls_operators(const Program& program);
  std::string model_json() const;
  std::string definition_json() const;
  std::string engine_json(unsigned engine) const;
  std::string debug_json() const;
  boost::json::array collectives_json() const;
  void add_constants(tools::NeffMembers& members) const;
  bool compresses_constants() const;
  std::string constant_file(const BufferInfo& buffer) const;
  std::string variable_name(int32_t buffer) const;

  // The meeting of all engines at a loop whose rounds the device decides.
  static constexpr unsigned kMaster = NEURON_ENGINE_SP;

  const Program& program_;
  // The master counts arrivals; each other engine waits for its own semaphore.
  uint8_t arrivals_ = 0;
  std::array<uint8_t, NEURON_CORE_ENGINES> release_{};
  std::vector<Semaphore> meeting_semaphores_;
  std::vector<std::vector<uint8_t>> while_semaphores_;  // Of each loop: of its engines' counts
  // signals_[e][i]: of step i, if it signals.
  std::array<std::vector<Signal>, NEURON_CORE_ENGINES> signals_;
  std::array<std::vector<Semaphore>, NEURON_CORE_ENGINES> engine_semaphores_;
  std::vector<Semaphore> slot_semaphores_;
};

}  // namespace neuron::builder

#endif
