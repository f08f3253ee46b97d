// SPDX-License-Identifier: Apache-2.0
//
// What the operations of a trace share while they are lowered, and how one is found by its name.
//
// Callers: lowering. Thread-safe: no. Borrows everything. An operation returns an error for what it
// refuses; what the Program refuses stays in the Program.
#ifndef TOOLS_COMPILER_NKI_CONTEXT_H
#define TOOLS_COMPILER_NKI_CONTEXT_H

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/compiler/nki/accumulation.h"
#include "tools/compiler/nki/memory.h"
#include "tools/compiler/nki/record.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::nki {

struct Context {
  builder::Program& program;
  Memory& memory;
  Accumulation& accumulation;
  unsigned generation = 3;
  bool pair = false;  // The program is one of two, of a virtual core of two physical ones
  // About how many cycles each engine has been given, to choose where NKI leaves it open.
  std::array<double, NEURON_CORE_ENGINES> load{};

  // Inside a loop whose rounds the device decides.
  bool in_while() const { return program.parts().schedule.in_while(); }

  // Refuses the call `name` on a target before generation `least`.
  runtime::Result<void> needs_generation(unsigned least, const char* name) const;

  // The engine that the record names. Where it names none, `first`, or of several the one with the
  // least work so far. Refuses an engine that is not in `allowed` (bits by engine number).
  runtime::Result<builder::Engine> engine(Record& record, builder::Engine first, unsigned allowed,
                                          uint64_t elements);
};

constexpr unsigned bit(builder::Engine engine) { return 1u << static_cast<unsigned>(engine); }

using Operation = runtime::Result<void> (*)(Context&, Record&);
struct NamedOperation {
  std::string_view name;
  Operation operation;
};
// Null where none of them has the name.
inline Operation find_operation(std::span<const NamedOperation> operations, std::string_view name) {
  for (const NamedOperation& one : operations) {
    if (one.name == name) return one.operation;
  }
  return nullptr;
}

// Null: no operation of that name in the file.
Operation find_vector_operation(std::string_view name);
Operation find_search_operation(std::string_view name);
Operation find_tensor_operation(std::string_view name);
// The part of the array that a product names: tile_position and tile_size, or the whole.
runtime::Result<builder::PeOptions> array_tile(Record& record);
Operation find_memory_operation(std::string_view name);
// Whether an instruction can name a tile that begins there.
bool may_start(const builder::TileAccess& access);
// By a transfer, which reaches any partition and casts.
runtime::Result<void> copy_tile(Context& context, const builder::TileAccess& to,
                                const builder::TileAccess& from);
Operation find_pair_operation(std::string_view name);
Operation find_collective_operation(std::string_view name);
Operation find_later_operation(std::string_view name);

// The number of enum neuron_alu or neuron_activation that NKI calls so.
std::optional<uint8_t> alu_of(std::string_view name);
std::optional<uint8_t> activation_of(std::string_view name);
// The same of a field; an error if NKI has no such operation, or this chip cannot do it.
runtime::Result<uint8_t> alu(Record& record, std::string_view key);
constexpr bool is_bit_operation(uint8_t alu) {
  return alu >= NEURON_ALU_AND && alu <= NEURON_ALU_SHR_ARITH;
}
constexpr bool is_integer(uint8_t dtype) {
  return dtype == NEURON_DTYPE_I32 || dtype == NEURON_DTYPE_U32 || dtype == NEURON_DTYPE_I16 ||
         dtype == NEURON_DTYPE_U16 || dtype == NEURON_DTYPE_I8 || dtype == NEURON_DTYPE_U8;
}
// Reduce commands by NKI's names; idle if the field is absent.
runtime::Result<uint8_t> reduce_command(Record& record, uint8_t absent);
// reduce_init, which load_reduce needs and other commands do not have; nothing for those.
runtime::Result<builder::ScalarArgument> initial_sum(Context& context, Record& record,
                                                     uint8_t command);

}  // namespace neuron::nki

#endif
