// SPDX-License-Identifier: Apache-2.0
//
// Turns a finished Program into the members of a NEFF and the file: numbers semaphores, resolves
// waits to counts, encodes and checks every instruction, writes JSON.
// Callers: Program::build(). Thread-safe: no. Borrows the program. Fails when the program does not
// fit (semaphores, counts) or an instruction is refused, with a sentence.
#ifndef TOOLS_PROGRAM_BUILDER_NEFF_EMITTER_H_
#define TOOLS_PROGRAM_BUILDER_NEFF_EMITTER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"
#include "tools/common/neff_writer.h"
#include "tools/program_builder/program.h"

namespace neuron::builder {

class NeffEmitter {
 public:
  explicit NeffEmitter(const Program& program) : program_(program) {}

  runtime::Result<std::vector<std::uint8_t>> emit();

 private:
  struct Semaphore {
    std::string name;
    std::uint8_t number = 0;
  };

  // Each engine counts the steps that others wait for. A count beyond what a wait can compare with
  // goes on in a further semaphore.
  runtime::Result<void> number_semaphores();
  isa::Wait wait_for(const Point& point) const;
  runtime::Result<neff::EngineProgram> assemble(unsigned engine) const;
  void append(neff::EngineProgram& out, const isa::Instruction& instruction) const;
  std::string model_json() const;
  std::string definition_json() const;
  std::string engine_json(unsigned engine) const;
  void add_constants(tools::NeffMembers& members) const;
  static std::string constant_file(const BufferInfo& buffer);

  const Program& program_;
  // signal_count_[e][i]: signalling steps of engine e up to step i.
  std::array<std::vector<std::uint32_t>, NEURON_CORE_ENGINES> signal_count_;
  std::array<std::vector<Semaphore>, NEURON_CORE_ENGINES> engine_semaphores_;
  std::vector<Semaphore> slot_semaphores_;
};

}  // namespace neuron::builder

#endif  // TOOLS_PROGRAM_BUILDER_NEFF_EMITTER_H_
