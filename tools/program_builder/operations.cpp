// SPDX-License-Identifier: Apache-2.0
// The operations of Program: from accesses to instructions and the memory that they touch.
#include <algorithm>
#include <bit>

#include "hw/address_map.h"
#include "tools/program_builder/program.h"

namespace neuron::builder {
namespace {

Region region(const TileAccess& access) {
  return {access.space, access.start, access.parts, access.first_byte(), access.end_byte()};
}

Region region(const BufferAccess& access) {
  std::int64_t first = static_cast<std::int64_t>(access.offset);
  std::int64_t last = first;
  for (std::uint32_t d = 1; d < access.ndim; ++d) {
    const std::int64_t reach = static_cast<std::int64_t>(access.size[d] - 1) * access.step[d];
    (reach < 0 ? first : last) += reach;
  }
  return {Region::kHbm, static_cast<std::uint32_t>(access.buffer), 1,
          static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last) + access.size[0]};
}

}  // namespace

isa::Instruction Program::make(std::uint16_t opcode, unsigned engine) {
  isa::Instruction instruction;
  instruction.opcode = opcode;
  instruction.engines = static_cast<std::uint8_t>(1u << engine);
  return instruction;
}

bool Program::usable(std::initializer_list<const TileAccess*> accesses) {
  if (error_ || finished_) return false;
  for (const TileAccess* access : accesses) {
    if (!access->present()) {
      fail(runtime::fail(NRT_INVALID, "a tile that was never allocated is used"));
      return false;
    }
    if (!access->inside) {
      fail(runtime::fail(NRT_INVALID,
                         "an access of {} partitions from {} and {} columns from byte {:#x} leaves "
                         "its tile",
                         access->parts, access->start, access->size[0], access->base));
      return false;
    }
    for (std::uint32_t d = 0; d < access->ndim; ++d) {
      if (access->size[d] <= UINT16_MAX && access->step[d] >= INT16_MIN &&
          access->step[d] <= INT16_MAX) {
        continue;
      }
      fail(runtime::fail(NRT_INVALID,
                         "dimension {} has size {} and step {}; instructions take sizes up to "
                         "65535 and steps of 16 bits",
                         d, access->size[d], access->step[d]));
      return false;
    }
  }
  return true;
}

isa::Operand Program::operand(const TileAccess& access) {
  isa::Operand operand;
  operand.base = access.base;
  operand.start = static_cast<std::uint8_t>(access.start);
  operand.parts = static_cast<std::uint8_t>(access.parts);
  operand.dtype = access.dtype;
  operand.space = access.space;
  operand.ndim = static_cast<std::uint8_t>(access.ndim);
  for (std::uint32_t d = 0; d < access.ndim; ++d) {
    operand.size[d] = static_cast<std::uint16_t>(access.size[d]);
    operand.step[d] = static_cast<std::int16_t>(access.step[d]);
  }
  return operand;
}

isa::Scalar Program::scalar(const ScalarArgument& argument, std::vector<Region>& reads) {
  if (argument.is_number) {
    return {std::bit_cast<std::uint32_t>(argument.value), NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_F32,
            0, 0};
  }
  const TileAccess& access = argument.access;
  if (!access.present()) return {};
  if (access.elements() != 1) {
    fail(runtime::fail(NRT_INVALID, "a scalar operand has {} columns, expected 1",
                       access.elements()));
  }
  reads.push_back(region(access));
  return {access.base, NEURON_SCALAR_POINTER, access.dtype, access.space,
          static_cast<std::uint8_t>(access.start)};
}

void Program::load_weights(const TileAccess& stationary) {
  if (!usable({&stationary})) return;
  isa::Instruction i = make(NEURON_OP_LDWEIGHTS, NEURON_ENGINE_PE);
  i.src0 = operand(stationary);
  weights_ = stationary;
  emit(NEURON_ENGINE_PE, i, {region(stationary)}, {});
}

void Program::multiply(const TileAccess& psum, const TileAccess& moving, bool accumulate,
                       bool swap) {
  if (!usable({&psum, &moving})) return;
  if (!weights_.present() || moving.parts != weights_.parts || psum.parts != weights_.elements()) {
    fail(runtime::fail(NRT_INVALID,
                       "matmul of [{}, {}] (stationary) and [{}, {}] (moving) into [{}, {}]; "
                       "expected [K, M], [K, N] and [M, N]",
                       weights_.parts, weights_.elements(), moving.parts, moving.elements(),
                       psum.parts, psum.elements()));
    return;
  }
  isa::Instruction i = make(NEURON_OP_MATMUL, NEURON_ENGINE_PE);
  i.dst = operand(psum);
  i.src0 = operand(moving);
  i.pe.accumulate = accumulate;
  i.pe.swap = swap;
  emit(NEURON_ENGINE_PE, i, {region(moving)}, {region(psum)});
}

void Program::matmul(const TileAccess& psum, const TileAccess& stationary, const TileAccess& moving,
                     bool accumulate) {
  load_weights(stationary);
  multiply(psum, moving, accumulate);
}

void Program::tensor_tensor(Engine engine, const TileAccess& to, const TileAccess& a,
                            std::uint8_t op, const TileAccess& b) {
  if (!usable({&to, &a, &b})) return;
  const auto e = static_cast<unsigned>(engine);
  isa::Instruction i = make(NEURON_OP_TENSOR_TENSOR, e);
  i.dst = operand(to);
  i.src0 = operand(a);
  i.src1 = operand(b);
  i.vector.op0 = op;
  emit(e, i, {region(a), region(b)}, {region(to)});
}

void Program::tensor_scalar(Engine engine, const TileAccess& to, const TileAccess& from,
                            std::uint8_t op0, const ScalarArgument& s0, std::uint8_t op1,
                            const ScalarArgument& s1) {
  if (!usable({&to, &from})) return;
  const auto e = static_cast<unsigned>(engine);
  isa::Instruction i = make(NEURON_OP_TENSOR_SCALAR, e);
  std::vector<Region> reads{region(from)};
  i.dst = operand(to);
  i.src0 = operand(from);
  i.scalar0 = scalar(s0, reads);
  i.scalar1 = scalar(s1, reads);
  i.vector.op0 = op0;
  i.vector.op1 = op1;
  emit(e, i, reads, {region(to)});
}

void Program::tensor_reduce(const TileAccess& to, std::uint8_t op, const TileAccess& from,
                            std::uint8_t axes, bool negate) {
  if (!usable({&to, &from})) return;
  isa::Instruction i = make(NEURON_OP_TENSOR_REDUCE, NEURON_ENGINE_DVE);
  i.dst = operand(to);
  i.src0 = operand(from);
  i.vector.reduce = op;
  i.vector.axes = axes;
  i.vector.negate = negate;
  emit(NEURON_ENGINE_DVE, i, {region(from)}, {region(to)});
}

void Program::tensor_copy(Engine engine, const TileAccess& to, const TileAccess& from) {
  if (!usable({&to, &from})) return;
  const auto e = static_cast<unsigned>(engine);
  isa::Instruction i = make(NEURON_OP_TENSOR_COPY, e);
  i.dst = operand(to);
  i.src0 = operand(from);
  emit(e, i, {region(from)}, {region(to)});
}

void Program::reciprocal(const TileAccess& to, const TileAccess& from) {
  if (!usable({&to, &from})) return;
  isa::Instruction i = make(NEURON_OP_RECIPROCAL, NEURON_ENGINE_DVE);
  i.dst = operand(to);
  i.src0 = operand(from);
  emit(NEURON_ENGINE_DVE, i, {region(from)}, {region(to)});
}

void Program::memset(Engine engine, const TileAccess& to, std::uint32_t bits) {
  if (!usable({&to})) return;
  const auto e = static_cast<unsigned>(engine);
  isa::Instruction i = make(NEURON_OP_MEMSET, e);
  i.dst = operand(to);
  i.vector.imm = bits;
  emit(e, i, {}, {region(to)});
}

void Program::activate(const TileAccess& to, std::uint8_t function, const TileAccess& from,
                       const ActivateOptions& options) {
  if (!usable({&to, &from})) return;
  isa::Instruction i = make(NEURON_OP_ACTIVATE, NEURON_ENGINE_ACTIVATION);
  std::vector<Region> reads{region(from)};
  i.dst = operand(to);
  i.src0 = operand(from);
  i.scalar0 = scalar(options.scale, reads);
  i.scalar1 = scalar(options.bias, reads);
  i.act.function = function;
  i.act.reduce_command = options.reduce;
  if (options.reduce == NEURON_REDUCE_ACCUMULATE ||
      options.reduce == NEURON_REDUCE_RESET_ACCUMULATE) {
    i.act.reduce = NEURON_ALU_ADD;
  }
  emit(NEURON_ENGINE_ACTIVATION, i, reads, {region(to)});
}

void Program::read_accumulator(Engine engine, const TileAccess& to) {
  if (!usable({&to})) return;
  const auto e = static_cast<unsigned>(engine);
  isa::Instruction i = make(NEURON_OP_READ_ACC, e);
  i.dst = operand(to);
  emit(e, i, {}, {region(to)});
}

// SBUF as DMA sees it: partition p begins at p * NEURON_SBUF_PARTITION_STRIDE of variable "sbuf".
std::optional<BufferAccess> Program::on_chip_side(const TileAccess& access) {
  if (access.space != NEURON_SPACE_SBUF) {
    fail(runtime::fail(NRT_INVALID,
                       "transfers reach SBUF only; copy the PSUM tile to SBUF with an engine"));
    return std::nullopt;
  }
  const std::uint64_t element = isa::dtype_bytes(access.dtype);
  BufferAccess side;
  side.buffer = Transfer::kOnChip;
  side.offset = access.start * NEURON_SBUF_PARTITION_STRIDE + access.base;
  side.ndim = 1;
  side.size[0] = element;
  std::uint32_t d = 0;
  // Dimensions that continue the run are one with it.
  while (d < access.ndim && access.step[d] * static_cast<std::int64_t>(element) ==
                                static_cast<std::int64_t>(side.size[0])) {
    side.size[0] *= access.size[d++];
  }
  const auto add = [&](std::uint64_t size, std::int64_t step) {
    if (size == 1) return true;
    if (side.ndim == 4) return false;
    side.size[side.ndim] = size;
    side.step[side.ndim++] = step;
    return true;
  };
  bool fits = true;
  for (; d < access.ndim; ++d) {
    fits = fits && add(access.size[d], access.step[d] * static_cast<std::int64_t>(element));
  }
  fits = fits && add(access.parts, NEURON_SBUF_PARTITION_STRIDE);
  if (!fits) {
    fail(runtime::fail(NRT_INVALID,
                       "a transfer has at most 4 dimensions, partitions included; use several"));
    return std::nullopt;
  }
  return side;
}

bool Program::check_buffer_side(const BufferAccess& access, bool write) {
  if (error_ || finished_) return false;
  if (!access.present() || access.buffer >= static_cast<std::int32_t>(buffers_.size())) {
    fail(runtime::fail(NRT_INVALID, "a buffer that was never declared is used"));
    return false;
  }
  const BufferInfo& info = buffers_[static_cast<std::size_t>(access.buffer)];
  const Region reached = region(access);
  if (static_cast<std::int64_t>(reached.first) < 0 || reached.end > info.bytes ||
      access.bytes() == 0) {
    fail(runtime::fail(NRT_INVALID,
                       "a transfer reaches bytes {} to {} of buffer \"{}\", which "
                       "has {}",
                       static_cast<std::int64_t>(reached.first), reached.end, info.name,
                       info.bytes));
    return false;
  }
  if (write && (info.kind == BufferKind::kInput || info.kind == BufferKind::kConstant)) {
    fail(runtime::fail(NRT_INVALID, "a transfer writes to {} \"{}\"",
                       info.kind == BufferKind::kInput ? "input" : "constant", info.name));
    return false;
  }
  return true;
}

void Program::dma(Engine owner, const TileAccess& to, const BufferAccess& from) {
  ++line_;
  if (!usable({&to}) || !check_buffer_side(from, false)) return;
  if (const auto side = on_chip_side(to)) {
    transfer(static_cast<unsigned>(owner), *side, from, region(to), region(from));
  }
}

void Program::dma(Engine owner, const BufferAccess& to, const TileAccess& from) {
  ++line_;
  if (!usable({&from}) || !check_buffer_side(to, true)) return;
  if (const auto side = on_chip_side(from)) {
    transfer(static_cast<unsigned>(owner), to, *side, region(to), region(from));
  }
}

void Program::dma(Engine owner, const BufferAccess& to, const BufferAccess& from) {
  ++line_;
  if (!check_buffer_side(to, true) || !check_buffer_side(from, false)) return;
  transfer(static_cast<unsigned>(owner), to, from, region(to), region(from));
}

}  // namespace neuron::builder
