// SPDX-License-Identifier: Apache-2.0
// What a compute unit works with: memories, arithmetic modes, accumulators, scratch space.
//
// One per engine, owned by its execution group; the sequencer sets the modes before each
// instruction. Callers: the units (tensor_engine, vector_engine, scalar_engine, gpsimd_engine), in
// the group's thread. Units assume operands that passed isa::check_operands with registers already
// substituted, and return a fault without having written anything.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_UNIT_CONTEXT_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_UNIT_CONTEXT_H

#include <array>
#include <cstdint>

#include "driver/emulator/neuroncore/engines/operand_view.h"
#include "driver/emulator/neuroncore/engines/scalar_table.h"
#include "driver/emulator/neuroncore/sequencer/core_memory.h"
#include "driver/emulator/neuroncore/sequencer/sequencer.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/float_environment.h"
#include "driver/emulator/numerics/xorwow.h"

namespace neuron::core {

// Scratch rows of a core; only one unit computes at a time.
struct Scratch {
  alignas(64) std::array<float, kPiece> a;
  alignas(64) std::array<float, kPiece> b;
  alignas(64) std::array<float, kPiece> c;
  alignas(64) std::array<float, kPiece> d;
  alignas(64) std::array<float, kPiece> e;
};

// The position of rng and dropout of an engine in their random words. Stochastic rounding has words
// of its own, so a program's rounding mode does not change its dropped elements.
struct RandomNumbers {
  bool seeded = false;  // by set_rng_seed; else the seed is in the core's SEED register
  uint32_t seed = 0;
  uint64_t position = 0;  // elements that instructions have consumed since the seed was set
};

// The XORWOW states of an engine that has them: those of a partition, one after the other.
struct RandomStates {
  static constexpr unsigned kOfPool = 1, kOfVector = 4;  // in each partition
  using Lane = std::array<numerics::Xorwow, kOfVector>;
  bool seeded = false;  // else the next use fills them from the seed
  std::array<Lane, NEURON_PARTITIONS> lanes{};
};

struct UnitContext {
  CoreMemory& memory;
  Scratch& scratch;
  unsigned engine = 0;
  bool xorwow = false;  // rng and dropout draw from `states`

  // The sequencer sets these for each instruction.
  numerics::Rounding rounding = numerics::Rounding::kNearestEven;
  numerics::Subnormals subnormals = numerics::Subnormals::kKeep;
  bool saturate = false;
  bool strict = false;  // inputs outside a function's range are faults
  bool strict_psum = false;
  bool check_nan = false;
  uint64_t seed = 0;

  // Lives as long as the engine.
  uint64_t random_position = 0;
  RandomNumbers random_numbers;
  RandomStates states;
  std::array<float, NEURON_PARTITIONS> accumulator{};
  ActivationTable table;  // Activation only

  uint64_t multiply_accumulates = 0;  // since the launch

  // Results of the computation.
  bool saw_nan = false;
  uint64_t outside_domain = 0;

  numerics::NarrowMode narrow_mode(const isa::Operand& dst) const {
    return {rounding, saturate || dst.saturate, dst.bias};
  }
};

// Numbers of a partition that an instruction rounds into its destination, each with a random word
// of its own.
inline uint64_t numbers_of(const isa::Operand& dst) {
  const bool packed = dst.dtype == NEURON_DTYPE_F8E5X4 || dst.dtype == NEURON_DTYPE_F8E4FNX4;
  return dst.elements() * (packed ? NEURON_MX_CODES : 1);
}

// An instruction with more elements (through step 0) is refused: nothing on the chip holds as many,
// and an instruction must end in bounded time.
inline constexpr uint64_t kMaxElements = uint64_t{1} << 20;

}  // namespace neuron::core

#endif
