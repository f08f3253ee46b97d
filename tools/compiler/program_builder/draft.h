// SPDX-License-Identifier: Apache-2.0
//
// One instruction while an operation of Program writes it: its operands, and the memory that it
// reads and writes. Both are recorded together, so that they cannot differ.
//
// Callers: Program's operations. Thread-safe: no; a value. Cannot fail: a value that does not fit
// its field is recorded, and Program refuses the draft.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_DRAFT_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_DRAFT_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/isa/instruction.h"
#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/ordering.h"

namespace neuron::builder {

// The second operand of a scalar operation: nothing, a number, or a tile of one column.
struct ScalarArgument {
  ScalarArgument() = default;
  ScalarArgument(float number) : value(number), is_number(true) {}  // NOLINT: reads as a number
  ScalarArgument(const TileAccess& tile) : access(tile) {}          // NOLINT: reads as a tile
  bool present() const { return is_number || access.present(); }
  float value = 0;
  bool is_number = false;
  bool reversed = false;  // The scalar is the left operand of its operation
  TileAccess access;
};

inline ScalarArgument reversed(ScalarArgument argument) {
  argument.reversed = true;
  return argument;
}

// The memory that an access touches.
Region region_of(const TileAccess& access);
Region region_of(const BufferAccess& access);

// A field of an instruction to which a register is added.
struct Advance {
  uint8_t item = NEURON_BIND_BASE;
  uint8_t operand = 0;
  int64_t bytes = 0;     // With each round, or for each unit of the index
  int64_t first = 0;     // In the first round, or where the index is 0
  uint32_t index = 0;    // 0: the innermost loop
  uint32_t program = 0;  // As in Motion
};

struct Draft {
  Draft(uint16_t opcode, unsigned on_engine);

  // Operands: `to` is dst and written, `from` src0 and `second` src1, both read.
  Draft& to(const TileAccess& access);
  Draft& from(const TileAccess& access);
  Draft& second(const TileAccess& access);
  Draft& scalar0(const ScalarArgument& argument);
  Draft& scalar1(const ScalarArgument& argument);
  Draft& immediate0(uint32_t bits, uint8_t dtype);
  Draft& immediate1(uint32_t bits, uint8_t dtype);
  // Memory that is read or written without being an operand's value.
  Draft& also_reads(const TileAccess& access);
  Draft& also_writes(const TileAccess& access);

  unsigned engine;
  isa::Instruction i;
  std::vector<Region> reads, writes;
  std::vector<Advance> advances;
  uint32_t tile = 0;   // What it writes, for names
  uint8_t raises = 0;  // Semaphore of the other core that a `write` increments; 0: none
  std::string wrong;   // The first thing that cannot be encoded

 private:
  isa::Operand operand(const TileAccess& access, uint8_t number);
  void set_index(const TileAccess& access, isa::Operand& operand);
  isa::Scalar scalar(const ScalarArgument& argument, uint8_t number);
  void move_with(const TileAccess& access, uint8_t item, uint8_t number);
  bool usable(const TileAccess& access);
};

}  // namespace neuron::builder

#endif
