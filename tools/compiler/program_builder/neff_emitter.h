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
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"
#include "runtime/neff/neff_writer.h"
#include "tools/compiler/program_builder/program.h"
#include "tools/compiler/program_builder/semaphore_numbers.h"

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
  explicit NeffEmitter(const Program& program)
      : program_(program), semaphores_(program.schedule_) {}

  // The queue set of descriptors that Pool generates.
  static constexpr const char* kDynamicQueue = "qPool_dynamic";

  runtime::Result<std::vector<uint8_t>> emit();

 private:
  // The files of the program's own directory.
  runtime::Result<tools::NeffMembers> core_members();
  // Adds the files of the other physical core, which may have nothing to do.
  runtime::Result<void> add_second_core(tools::NeffMembers& members) const;
  // Instance family that the program is for.
  boost::json::string target() const;
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
  static runtime::Result<std::vector<uint8_t>> contents_of(const BufferInfo& buffer);
  runtime::Result<void> add_constants(tools::NeffMembers& members) const;
  bool compresses_constants() const;
  std::string constant_file(const BufferInfo& buffer) const;
  std::string variable_name(int32_t buffer) const;
  // Inputs and outputs whose addresses instructions need.
  std::set<int32_t> addressed_ports() const;
  // As EngineAssembler::PointerName.
  std::string pointer_name(int32_t buffer) const;

  const Program& program_;
  SemaphoreNumbers semaphores_;
};

}  // namespace neuron::builder

#endif
