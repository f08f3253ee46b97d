// SPDX-License-Identifier: Apache-2.0
//
// A core with a loaded model, as a debugger sees it: engines, registers, semaphores, memory,
// breakpoints. All through registers of the device (hw/control.h).
//
// Concepts: places in an engine's program count as the NEFF does; the runtime's own instructions in
// front of it are negative. An engine that meets a breakpoint stops in front of the instruction;
// the others go on until they wait for it. Callers: Debugger, in the thread that executes.
// Thread-safe: no. Borrows the model. Fails: NRT_HW_ERROR with the driver's sentence; NRT_INVALID
// for a place that does not exist, or a ninth breakpoint of an engine.
#ifndef RUNTIME_DEBUG_TARGET_H
#define RUNTIME_DEBUG_TARGET_H

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/model/loaded_model.h"

namespace neuron::debug {

using runtime::Result;

// An instruction of the program.
struct Place {
  unsigned engine = 0;
  int64_t pc = 0;
  bool operator==(const Place&) const = default;
};

struct EngineState {
  uint32_t state = 0;  // enum neuron_engine_state
  Place at;
  uint32_t waiting = 0, wait_value = 0;
  uint64_t time_ps = 0;
  bool stopped() const;
};

enum class Memory : uint8_t { kSbuf, kPsum };

class Target {
 public:
  static constexpr size_t kMostBreakpoints = 8;  // of an engine

  explicit Target(const runtime::LoadedModel& model) : model_(model) {}

  Result<EngineState> state(unsigned engine) const;
  Result<uint32_t> register_of(unsigned engine, unsigned number) const;
  Result<uint32_t> semaphore(unsigned number) const;
  // Bytes of one partition.
  Result<std::vector<uint8_t>> bytes(Memory memory, uint32_t partition, uint32_t offset,
                                     uint32_t count) const;

  // STEP, CONTINUE or ABORT (enum neuron_engine_command).
  Result<void> command(unsigned engine, uint32_t code, uint32_t steps = 1) const;
  Result<void> set_breakpoints(const std::vector<Place>& places) const;

  bool has(const Place& place) const;
  // has() holds.
  isa::Instruction instruction(const Place& place) const;
  // "matmul psum[...] ..."; for a place of the runtime's own, its text too.
  std::string text(const Place& place) const;
  // "attention.py:40", the section, or empty.
  std::string line(const Place& place) const;
  std::string section(const Place& place) const;
  std::string semaphore_name(unsigned number) const { return model_.describe_semaphore(number); }
  std::optional<unsigned> semaphore_number(const std::string& name) const;
  uint32_t instructions(unsigned engine) const;

  // The first instruction of each engine that `matches`.
  template <class Matches>
  std::vector<Place> first_places(Matches&& matches) const {
    std::vector<Place> list;
    for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      for (uint32_t pc = 0; pc < instructions(engine); ++pc) {
        if (!matches(Place{engine, pc})) continue;
        list.push_back({engine, pc});
        break;
      }
    }
    return list;
  }

 private:
  uint64_t engine_block(unsigned engine) const;
  Result<uint32_t> read(uint64_t at) const;
  Result<void> write(uint64_t at, uint32_t value) const;
  uint32_t index_of(const Place& place) const;

  const runtime::LoadedModel& model_;
};

// "PE", "pe", "Tensor" ...: an engine by the name of the assembler or of the original's tools.
std::optional<unsigned> engine_named(const std::string& name);

}  // namespace neuron::debug

#endif
