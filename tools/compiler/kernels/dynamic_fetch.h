// SPDX-License-Identifier: Apache-2.0
//
// Transfers into SBUF from an address that the device computes: a number in SBUF goes into a
// register of Pool, is multiplied by the size of a part of a buffer, and added to the address of
// the transfer that Pool then generates. Callers: kernels whose buffers are temporaries or
// constants, outside of loops. Thread-safe: no state. Cannot fail; Program keeps errors. A number
// beyond the parts, however large, is a fault of the execution.
#ifndef TOOLS_COMPILER_KERNELS_DYNAMIC_FETCH_H
#define TOOLS_COMPILER_KERNELS_DYNAMIC_FETCH_H

#include <cstdint>

#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

// Loads the u32 of column `column` of the row `numbers` into Pool's register, and multiplies it by
// the bytes of one of `parts` parts.
void load_register(builder::Program& program, uint8_t number, const builder::Tile& numbers,
                   uint32_t column, uint32_t part_bytes, uint32_t parts);

// One of the parts of a buffer, each `part_bytes` long: what `from`, an access of part 0, names.
// `number`: the register, which holds the part's first byte.
void fetch_part(builder::Program& program, uint8_t number, const builder::TileAccess& to,
                const builder::Buffer& buffer, const builder::BufferAccess& from);

}  // namespace neuron::kernels

#endif
