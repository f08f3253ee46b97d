// SPDX-License-Identifier: Apache-2.0
// Calls of nki.isa for the Tensor engine, and the transposes that the Vector engine does in its
// place.
#include <algorithm>

#include "driver/isa/instruction.h"
#include "tools/compiler/nki/context.h"

namespace neuron::nki {

using builder::Engine;
using builder::TileAccess;
using runtime::fail;
using runtime::Result;

namespace {

constexpr uint32_t kBlock = 32;  // Rows and columns that the Vector engine transposes

// Position `first` of the stream of elements, and how many follow in the same innermost row.
struct Place {
  int64_t element = 0;
  uint64_t left = 0;
};

Place place_of(const TileAccess& access, uint64_t first) {
  Place place;
  place.left = access.size[0] - first % access.size[0];
  for (uint32_t d = 0; d < access.ndim; ++d) {
    place.element += static_cast<int64_t>(first % access.size[d]) * access.step[d];
    first /= access.size[d];
  }
  return place;
}

TileAccess row_part(const TileAccess& access, const Place& place, uint64_t count) {
  TileAccess part = access;
  part.base = static_cast<uint32_t>(int64_t{access.base} +
                                    place.element * int64_t{isa::dtype_bytes(access.dtype)});
  part.ndim = 1;
  part.size = {static_cast<uint32_t>(count), 0, 0, 0};
  part.step = {access.step[0], 0, 0, 0};
  return part;
}

void multiply_run(Context& context, const TileAccess& to, const TileAccess& moving,
                  const Accumulation::Run& run, bool& swap, const builder::PeOptions& options) {
  for (uint64_t done = 0; done < run.count;) {
    const Place target = place_of(to, run.first + done);
    const Place source = place_of(moving, run.first + done);
    const uint64_t count = std::min({target.left, source.left, run.count - done});
    context.program.multiply(row_part(to, target, count), row_part(moving, source, count),
                             run.accumulate, swap, options);
    swap = false;
    done += count;
  }
}

// Types of one byte go to slots of 16 bits, whose upper bytes become zero. NKI names the slots as
// elements of 16 bits, as every second element of the type, or asks for neighbours, which a copy of
// Vector's makes.
Result<void> turn(Context& context, TileAccess to, TileAccess data,
                  const builder::PeOptions& options = {}) {
  if (isa::dtype_bytes(data.dtype) != 1) {
    context.program.transpose(to, data, options);
    return {};
  }
  const uint8_t kind = data.dtype;
  if (is_integer(kind)) data.dtype = NEURON_DTYPE_F8E4;  // Bits are moved
  const bool every_second = to.dtype == kind && to.ndim == 1 && to.step[0] == 2 &&
                            to.base % 2 == 0 && !to.offsets.present();
  if (every_second) to.step[0] = 1;
  if (every_second || isa::dtype_bytes(to.dtype) == 2) {
    to.dtype = NEURON_DTYPE_U16;
    context.program.transpose(to, data, options);
    return {};
  }
  if (to.dtype != kind) {
    return fail(NRT_INVALID, "a transpose keeps the type of its data, found {} and {}",
                isa::dtype_name(kind), isa::dtype_name(to.dtype));
  }
  NEURON_TRY(slots, context.memory.own_tile(NEURON_SPACE_PSUM, "slots of 16 bits", to.parts,
                                            data.parts, NEURON_DTYPE_U16));
  context.program.transpose(slots.all(), data, options);
  TileAccess lower = slots.all();
  lower.dtype = kind;
  lower.ndim = 1;
  lower.size = {data.parts, 0, 0, 0};
  lower.step = {2, 0, 0, 0};
  context.program.tensor_copy(Engine::kDve, to, lower);
  return {};
}

Result<void> transpose_by_product(Context& context, Record& record, const TileAccess& to,
                                  const TileAccess& data, const TileAccess& identity,
                                  const builder::PeOptions& options) {
  if (identity.parts != data.parts || identity.elements() != data.parts) {
    return fail(NRT_INVALID,
                "with is_transpose the moving operand is an identity of [{0}, {0}], found [{1}, "
                "{2}]",
                data.parts, identity.parts, identity.elements());
  }
  NEURON_CHECK(turn(context, to, data, options));
  context.accumulation.written(to, false, record.line());
  return {};
}

Result<builder::PeOptions> options_of(const Context& context, Record& record) {
  const std::string mode = record.text_or("perf_mode", "none");
  NEURON_CHECK(record.result());
  NEURON_TRY(options, array_tile(record));
  options.double_row = mode == "double_row";
  options.onezero_stationary = record.flag("onezero_stationary");
  options.onezero_moving = record.flag("onezero_moving");
  NEURON_CHECK(record.result());
  if (mode != "none" && !(options.double_row && context.generation >= 3)) {
    return fail(NRT_INVALID, "perf_mode = {} is not available on generation {}; use none{}", mode,
                context.generation, context.generation >= 3 ? " or double_row" : "");
  }
  return options;
}

// Both rows of a matrix of double_row stay a dimension of their own, which merging would hide.
TileAccess with_two_rows(TileAccess access) {
  if (access.ndim == 1 && access.size[0] % 2 == 0) {
    access.size[0] /= 2;
    access.size[1] = 2;
    access.step[1] = static_cast<int32_t>(access.size[0]) * access.step[0];
    access.ndim = 2;
  }
  return access;
}

Result<void> matmul(Context& context, Record& record) {
  const Operand to = record.operand("dst"), left = record.operand("stationary"),
                right = record.operand("moving");
  const bool transposes = record.flag("is_transpose");
  NEURON_CHECK(record.result());
  NEURON_TRY(options, options_of(context, record));
  NEURON_TRY(target, context.memory.tile(to));
  NEURON_TRY(stationary, context.memory.tile(left));
  NEURON_TRY(moving, context.memory.tile(right));
  if (options.double_row) {
    stationary = with_two_rows(stationary);
    moving = with_two_rows(moving);
  }
  if (transposes) {
    return transpose_by_product(context, record, target, stationary, moving, options);
  }
  const auto wide = [](uint8_t dtype) {
    return dtype == NEURON_DTYPE_F32 || dtype == NEURON_DTYPE_TF32;
  };
  if (wide(stationary.dtype) != wide(moving.dtype)) {
    return fail(NRT_INVALID, "the operands are {} and {}; float32 is multiplied with float32 only",
                isa::dtype_name(stationary.dtype), isa::dtype_name(moving.dtype));
  }
  if (target.space != NEURON_SPACE_PSUM) {
    return fail(NRT_INVALID, "nc_matmul writes PSUM only, and {} is in SBUF",
                context.memory.describe(to.id));
  }
  std::vector<Accumulation::Run> runs;
  const bool scatters = target.offsets.present();
  if (scatters && !record.has("accumulate")) {
    return fail(
        NRT_INVALID,
        "the destination is an indirect view: which of its places hold a product already is "
        "not known; give accumulate=True or False");
  }
  if (record.has("accumulate")) {
    runs.push_back({0, target.elements(), record.flag("accumulate")});
  } else if (context.memory.outside_loop(to)) {
    return fail(NRT_INVALID,
                "{} was made outside of a loop whose rounds the device decides: whether the first "
                "product of a round overwrites or adds is not known; give accumulate=True or False",
                context.memory.describe(to.id));
  } else {
    NEURON_TRY(inferred, context.accumulation.runs(target));
    runs = std::move(inferred);
  }
  context.load[NEURON_ENGINE_PE] += static_cast<double>(moving.elements());
  context.program.load_weights(stationary, options);
  if (runs.size() == 1) {
    context.program.multiply(target, moving, runs[0].accumulate, true, options);
  } else if (options.double_row) {
    return fail(NRT_INVALID,
                "a part of the destination holds a product already and a part does not; with "
                "double_row say accumulate=True or accumulate=False");
  } else if (moving.elements() == target.elements()) {
    bool swap = true;
    for (const Accumulation::Run& run : runs) {
      multiply_run(context, target, moving, run, swap, options);
    }
  } else {
    return fail(NRT_INVALID, "the moving operand has {} columns, the destination {}",
                moving.elements(), target.elements());
  }
  if (scatters) {
    context.accumulation.written(target, false, record.line());
  } else {
    context.accumulation.multiplied(target);
  }
  return {};
}

Result<void> transpose(Context& context, Record& record) {
  const Operand to = record.operand("dst"), from = record.operand("data");
  NEURON_CHECK(record.result());
  NEURON_TRY(target, context.memory.tile(to));
  NEURON_TRY(data, context.memory.tile(from));
  const bool fits_product = target.space == NEURON_SPACE_PSUM && data.space == NEURON_SPACE_SBUF &&
                            (isa::dtype_bytes(data.dtype) >= 2 || context.generation >= 3);
  const bool fits_vector = data.parts <= kBlock && data.elements() <= kBlock;
  if (!record.has("engine") && !fits_product && !fits_vector) {
    return fail(
        NRT_INVALID,
        "no engine transposes [{}, {}] from {} to {}: the Tensor engine reads SBUF and "
        "writes PSUM, before generation 3 elements of 2 or 4 bytes; the Vector engine takes "
        "up to 32 x 32",
        data.parts, data.elements(), data.space == NEURON_SPACE_PSUM ? "PSUM" : "SBUF",
        target.space == NEURON_SPACE_PSUM ? "PSUM" : "SBUF");
  }
  // One byte to one byte takes the Tensor engine two instructions, so Vector's is first.
  const bool neighbours = isa::dtype_bytes(data.dtype) == 1 && target.dtype == data.dtype;
  const bool small = fits_vector && (!fits_product || neighbours);
  const unsigned allowed = record.has("engine") ? bit(Engine::kPe) | bit(Engine::kDve)
                                                : bit(small ? Engine::kDve : Engine::kPe);
  NEURON_TRY(engine,
             context.engine(record, small ? Engine::kDve : Engine::kPe, allowed, data.elements()));
  if (engine == Engine::kPe) {
    NEURON_CHECK(turn(context, target, data));
  } else if (!fits_vector) {
    return fail(NRT_INVALID, "the Vector engine transposes up to 32 x 32, found [{}, {}]",
                data.parts, data.elements());
  } else {
    context.program.transpose32(target, data);
  }
  context.accumulation.written(target, false, record.line());
  return {};
}

constexpr NamedOperation kTensorOperations[] = {{"nc_matmul", matmul}, {"nc_transpose", transpose}};

}  // namespace

Result<builder::PeOptions> array_tile(Record& record) {
  const auto position = record.counts_or_none("tile_position", 2);
  const auto size = record.counts_or_none("tile_size", 2);
  NEURON_CHECK(record.result());
  builder::PeOptions options;
  if (position.empty() && size.empty()) return options;
  if (position.size() != 2 || size.size() != 2) {
    return fail(NRT_INVALID,
                "a tile of the array has a tile_position and a tile_size of (rows, columns); found "
                "{} and {} numbers",
                position.size(), size.size());
  }
  constexpr uint64_t kSide = NEURON_PE_MAX_K;
  for (size_t side = 0; side < 2; ++side) {
    const uint64_t at = position[side], length = size[side];
    if (length != kSide && length != kSide / 2 && length != kSide / 4) {
      return fail(NRT_INVALID, "a tile_size is 32, 64 or 128 on each side; found {}", length);
    }
    if (at % length != 0 || at > kSide - length) {
      return fail(NRT_INVALID,
                  "a tile of {} begins at a multiple of that within the 128 of the array; found "
                  "tile_position {}",
                  length, at);
    }
  }
  options.row = static_cast<uint32_t>(position[0]);
  options.column = static_cast<uint32_t>(position[1]);
  options.rows = static_cast<uint32_t>(size[0]);
  options.columns = static_cast<uint32_t>(size[1]);
  return options;
}

Operation find_tensor_operation(std::string_view name) {
  return find_operation(kTensorOperations, name);
}

}  // namespace neuron::nki
