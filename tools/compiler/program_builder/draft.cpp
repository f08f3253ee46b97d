// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/draft.h"

#include <bit>

#include "driver/base/format.h"
#include "driver/isa/indirection.h"
#include "driver/isa/rules.h"

namespace neuron::builder {

Region region_of(const TileAccess& access) {
  Region region{access.space,        access.start,      access.parts,
                access.first_byte(), access.end_byte(), access.advance};
  if (access.ndim == 2 && access.step[0] == 1 && access.step[1] > 0 && access.size[1] > 1 &&
      static_cast<uint32_t>(access.step[1]) > access.size[0]) {
    const uint64_t element = isa::dtype_bytes(access.dtype);
    region.run = access.size[0] * element;
    region.pitch = static_cast<uint64_t>(access.step[1]) * element;
  }
  region.motions = access.motions;
  return region;
}

Region region_of(const BufferAccess& access) {
  int64_t first = static_cast<int64_t>(access.offset);
  int64_t last = first;
  for (uint32_t d = 1; d < access.ndim; ++d) {
    const int64_t reach = static_cast<int64_t>(access.size[d] - 1) * access.step[d];
    (reach < 0 ? first : last) += reach;
  }
  Region region{Region::kHbm,
                static_cast<uint32_t>(access.buffer),
                1,
                static_cast<uint64_t>(first),
                static_cast<uint64_t>(last) + access.size[0],
                access.advance};
  if (access.ndim == 2 && access.step[1] > static_cast<int64_t>(access.size[0])) {
    region.run = access.size[0];
    region.pitch = static_cast<uint64_t>(access.step[1]);
  }
  region.motions = access.motions;
  return region;
}

Draft::Draft(uint16_t opcode, unsigned on_engine) : engine(on_engine) {
  i.opcode = opcode;
  i.engines = static_cast<uint8_t>(1u << engine);
}

bool Draft::usable(const TileAccess& access) {
  if (!wrong.empty()) return false;
  if (!access.present()) {
    wrong = "a tile that was never allocated is used";
    return false;
  }
  if (!access.inside) {
    wrong = base::format(
        "an access of {} partitions from {} and {} columns from byte {:#x} leaves its tile",
        access.parts, access.start, access.size[0], access.base);
    return false;
  }
  if (!access.motions.fits()) {
    wrong = base::format("an access moves with more than {} indexes", Motions::kMost);
    return false;
  }
  for (uint32_t d = 0; d < access.ndim; ++d) {
    if (access.size[d] <= UINT16_MAX && access.step[d] >= INT16_MIN &&
        access.step[d] <= INT16_MAX) {
      continue;
    }
    wrong = base::format(
        "dimension {} has size {} and step {}; instructions take sizes up to 65535 and steps of "
        "16 bits",
        d, access.size[d], access.step[d]);
    return false;
  }
  return true;
}

void Draft::move_with(const TileAccess& access, uint8_t item, uint8_t number) {
  if (access.advance != 0) advances.push_back({item, number, access.advance});
  for (const Motion& motion : access.motions) {
    advances.push_back({item, number, motion.bytes, 0, motion.index, motion.program});
  }
}

// The index of an indirect access: the engine reads whole groups of it, so that they must be there.
void Draft::set_index(const TileAccess& access, isa::Operand& operand) {
  const OffsetTile& index = access.offsets;
  const unsigned group = isa::index_group(engine);
  const uint64_t n = access.elements();
  if (!index.fits) {
    wrong =
        "an indirect access needs dense elements of one dimension, and an index in SBUF that is "
        "dense, too, and does not move in a loop";
    return;
  }
  if (isa::index_columns(n, group) > index.columns) {
    wrong = base::format(
        "an index of {} columns holds {} offsets for each {} partitions, expected the {} that the "
        "access names; give a smaller number of elements or a wider index",
        index.columns, uint64_t{index.columns} * group, group, n);
    return;
  }
  const unsigned rows = isa::index_partitions(access.parts, n, group);
  if (rows > index.parts) {
    wrong = base::format(
        "an index of {} partitions has no offsets for the last of {} partitions: {} elements of "
        "each need {} partitions of it, in groups of {}",
        index.parts, access.parts, n, rows, group);
    return;
  }
  if (index.start % 32 != 0) {
    wrong = base::format("an index starts on partition {}, expected 0, 32, 64 or 96", index.start);
    return;
  }
  operand.set_index({index.base, static_cast<uint8_t>(index.start), index.dtype});
  reads.push_back({NEURON_SPACE_SBUF, index.start, rows, index.base,
                   index.base + isa::index_columns(n, group) * isa::dtype_bytes(index.dtype), 0});
}

isa::Operand Draft::operand(const TileAccess& access, uint8_t number) {
  isa::Operand operand;
  if (!usable(access)) return operand;
  operand.base = access.base;
  operand.start = static_cast<uint8_t>(access.start);
  operand.parts = static_cast<uint8_t>(access.parts);
  operand.dtype = access.dtype;
  operand.space = access.space;
  operand.ndim = static_cast<uint8_t>(access.ndim);
  for (uint32_t d = 0; d < access.ndim; ++d) {
    operand.size[d] = static_cast<uint16_t>(access.size[d]);
    operand.step[d] = static_cast<int16_t>(access.step[d]);
  }
  if (access.offsets.present()) set_index(access, operand);
  move_with(access, NEURON_BIND_BASE, number);
  return operand;
}

isa::Scalar Draft::scalar(const ScalarArgument& argument, uint8_t number) {
  if (argument.is_number && isa::is_int64_dtype(i.dst.dtype)) {
    // 64-bit integers have integers as scalars, of 32 bits in the instruction.
    const bool fits = argument.value >= -0x1p31F && argument.value < 0x1p31F;
    const auto whole = fits ? static_cast<int32_t>(argument.value) : 0;
    if (!fits || static_cast<float>(whole) != argument.value) {
      wrong = base::format(
          "the scalar {} of 64-bit integers is no integer of 32 bits; put other ones into a tile",
          argument.value);
    }
    return {static_cast<uint32_t>(whole), NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_I32, 0, 0};
  }
  if (argument.is_number) {
    return {std::bit_cast<uint32_t>(argument.value), NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_F32, 0,
            0};
  }
  const TileAccess& access = argument.access;
  if (!access.present() || !usable(access)) return {};
  if (access.offsets.present()) {
    wrong =
        "a scalar operand is indirect, which no engine executes; copy it with tensor_copy first";
  } else if (access.elements() != 1) {
    wrong = base::format("a scalar operand has {} columns, expected 1", access.elements());
  }
  reads.push_back(region_of(access));
  move_with(access, NEURON_BIND_SCALAR, number);
  return {access.base, NEURON_SCALAR_POINTER, access.dtype, access.space,
          static_cast<uint8_t>(access.start)};
}

Draft& Draft::to(const TileAccess& access) {
  i.dst = operand(access, 0);
  tile = access.tile;
  return also_writes(access);
}

Draft& Draft::from(const TileAccess& access) {
  i.src0 = operand(access, 1);
  return also_reads(access);
}

Draft& Draft::second(const TileAccess& access) {
  i.src1 = operand(access, 2);
  return also_reads(access);
}

Draft& Draft::scalar0(const ScalarArgument& argument) {
  i.scalar0 = scalar(argument, 0);
  return *this;
}

Draft& Draft::scalar1(const ScalarArgument& argument) {
  i.scalar1 = scalar(argument, 1);
  return *this;
}

Draft& Draft::immediate0(uint32_t bits, uint8_t dtype) {
  i.scalar0 = {bits, NEURON_SCALAR_IMMEDIATE, dtype, 0, 0};
  return *this;
}

Draft& Draft::immediate1(uint32_t bits, uint8_t dtype) {
  i.scalar1 = {bits, NEURON_SCALAR_IMMEDIATE, dtype, 0, 0};
  return *this;
}

Draft& Draft::also_reads(const TileAccess& access) {
  if (wrong.empty()) reads.push_back(region_of(access));
  return *this;
}

Draft& Draft::also_writes(const TileAccess& access) {
  if (wrong.empty()) writes.push_back(region_of(access));
  return *this;
}

}  // namespace neuron::builder
