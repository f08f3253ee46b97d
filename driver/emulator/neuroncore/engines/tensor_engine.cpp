// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/tensor_engine.h"

#include <algorithm>
#include <cstring>

namespace neuron::core {
namespace {

constexpr unsigned kSlotDst = NEURON_INST_DST;
constexpr unsigned kSlotSource = NEURON_INST_SRC0;

// Weights and moving data of type tf32 are rounded when they are widened; a gathered matrix is fp32
// already.
numerics::RowView row_view(const OperandView& view, uint8_t bias) {
  return {view.row(0), static_cast<ptrdiff_t>(view.row_stride()), view.dtype(), view.step(), bias};
}

Fault wrong_weights(unsigned found, int loaded, unsigned offset) {
  Fault fault = make_fault(NEURON_FAULT_WEIGHTS, 0, found, static_cast<uint8_t>(offset));
  fault.detail = static_cast<uint32_t>(loaded);
  return fault;
}

}  // namespace

TensorEngine::TensorEngine() {
  // Only the whole array, which nearly every program uses; other tiles are made when they are first
  // loaded.
  tiles_[0].active = std::make_unique<numerics::Stationary>();
  tiles_[0].shadow = std::make_unique<numerics::Stationary>();
}

void TensorEngine::reset() {
  for (Tile& tile : tiles_) {
    tile.active_at = tile.shadow_at = {};
    tile.shadow_fresh = false;
  }
}

bool TensorEngine::Geometry::overlaps(const Geometry& other) const {
  return row < other.row + other.rows && other.row < row + rows &&
         column < other.column + other.columns && other.column < column + columns;
}

TensorEngine::Geometry TensorEngine::geometry_of(const isa::PeOp& op) {
  return {static_cast<uint8_t>(op.row * 32), static_cast<uint8_t>(op.column * 32),
          static_cast<uint8_t>(128 >> op.rows), static_cast<uint8_t>(128 >> op.columns)};
}

TensorEngine::Tile& TensorEngine::tile_at(const Geometry& at) {
  return tiles_[at.row / 32 * kGrid + at.column / 32];
}

TensorEngine::Gathered& TensorEngine::gathered() {
  if (!gathered_) gathered_ = std::make_unique<Gathered>();
  return *gathered_;
}

Fault TensorEngine::execute(UnitContext& context, const isa::Instruction& instruction) {
  switch (instruction.opcode) {
    case NEURON_OP_LDWEIGHTS:
      return load_weights(context, instruction);
    case NEURON_OP_MATMUL:
      return multiply(context, instruction);
    default:
      return transpose(context, instruction);
  }
}

Fault TensorEngine::load_weights(UnitContext& context, const isa::Instruction& i) {
  const isa::Operand& stationary = i.src0;
  const OperandView view(context.memory, stationary);
  const int k = stationary.parts;
  const int m = static_cast<int>(view.elements());
  const Geometry at = geometry_of(i.pe);
  if (k > at.rows) return wrong_weights(stationary.parts, at.rows, kSlotSource + 3);
  if (m > at.columns) return wrong_weights(static_cast<unsigned>(m), at.columns, kSlotSource + 8);
  Tile& tile = tile_at(at);
  if (!tile.shadow) tile.shadow = std::make_unique<numerics::Stationary>();
  if (view.single_run()) {
    tile.shadow->load(row_view(view, stationary.bias), k, m);
  } else {
    float* rows = gathered().rows;
    for (int p = 0; p < k; ++p) view.load(p, 0, m, rows + p * NEURON_PE_MAX_M);
    numerics::RowView packed{reinterpret_cast<const std::byte*>(rows),
                             NEURON_PE_MAX_M * sizeof(float)};
    tile.shadow->load(packed, k, m);
  }
  if (tile.shadow_at != at) {
    for (Tile& other : tiles_) {
      if (!other.shadow_at.overlaps(at)) continue;
      other.shadow_at = {};
      other.shadow_fresh = false;
    }
  }
  tile.shadow_at = at;
  tile.shadow_fresh = true;
  return {};
}

Fault TensorEngine::multiply(UnitContext& context, const isa::Instruction& i) {
  const Geometry at = geometry_of(i.pe);
  Tile& tile = tile_at(at);
  const bool swap = i.pe.swap;
  const bool loaded = swap ? tile.shadow_fresh && tile.shadow_at == at : tile.active_at == at;
  if (!loaded) return make_fault(NEURON_FAULT_WEIGHTS, 0, 0, NEURON_INST_OP + 1);
  const numerics::Stationary& weights = swap ? *tile.shadow : *tile.active;
  if (weights.k() != i.src0.parts) {
    return wrong_weights(i.src0.parts, weights.k(), kSlotSource + 3);
  }
  if (weights.m() != i.dst.parts) {
    return wrong_weights(i.dst.parts, weights.m(), kSlotDst + 3);
  }
  const OperandView moving(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const size_t n = moving.elements();
  if (i.pe.accumulate && context.strict_psum) {
    for (unsigned p = 0; p < dst.partitions(); ++p) {
      const unsigned partition = i.dst.start + p;
      if (!context.memory.pe_wrote(partition, dst.begin(), dst.end() - dst.begin())) {
        return make_fault(NEURON_FAULT_PSUM_UNDEFINED,
                          uint64_t{partition} << NEURON_STRICT_PARTITION_SHIFT | dst.begin() |
                              NEURON_STRICT_PSUM | NEURON_STRICT_WRITES);
      }
    }
  }
  if (swap) {
    if (tile.active_at != at) {
      for (Tile& other : tiles_) {
        if (other.active_at.overlaps(at)) other.active_at = {};
      }
    }
    std::swap(tile.active, tile.shadow);
    tile.active_at = at;
    tile.shadow_at = {};
    tile.shadow_fresh = false;
  }

  numerics::RowView rows = row_view(moving, i.src0.bias);
  if (!moving.single_run()) {
    float* packed = gathered().rows;
    for (unsigned p = 0; p < moving.partitions(); ++p) moving.load(p, 0, n, packed + p * n);
    rows = {reinterpret_cast<const std::byte*>(packed), static_cast<ptrdiff_t>(n * sizeof(float))};
  }
  context.multiply_accumulates += uint64_t{i.src0.parts} * i.dst.parts * n;
  if (dst.contiguous()) {
    numerics::multiply(*tile.active, rows, n, reinterpret_cast<float*>(dst.row(0)),
                       CoreMemory::kPsumStride / sizeof(float), i.pe.accumulate);
  } else {
    float* result = gathered().result;
    if (i.pe.accumulate) {
      for (unsigned p = 0; p < dst.partitions(); ++p) dst.load(p, 0, n, result + p * n);
    }
    numerics::multiply(*tile.active, rows, n, result, static_cast<ptrdiff_t>(n), i.pe.accumulate);
    for (unsigned p = 0; p < dst.partitions(); ++p) {
      dst.store(p, 0, n, result + p * n, {}, nullptr);
    }
  }
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    context.memory.mark_pe(i.dst.start + p, dst.begin(), dst.end() - dst.begin(), true);
  }
  if (context.check_nan) {
    for (unsigned p = 0; p < dst.partitions() && !context.saw_nan; ++p) {
      const float* row = dst.load_or_map(p, 0, n, context.scratch.a.data());
      context.saw_nan = std::any_of(row, row + n, [](float v) { return v != v; });
    }
  }
  return {};
}

// Moves bits. Hardware of generation 2 multiplies by an identity, which does not keep NaN payloads.
Fault TensorEngine::transpose(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const size_t bytes = source.element_bytes();
  const unsigned rows = source.partitions();
  const unsigned columns = dst.partitions();
  auto* matrix = reinterpret_cast<std::byte*>(gathered().rows);
  auto* line = reinterpret_cast<std::byte*>(context.scratch.a.data());
  for (unsigned p = 0; p < rows; ++p) source.load_raw(p, 0, columns, matrix + p * columns * bytes);
  for (unsigned c = 0; c < columns; ++c) {
    for (unsigned p = 0; p < rows; ++p) {
      std::memcpy(line + p * bytes, matrix + (p * columns + c) * bytes, bytes);
    }
    dst.store_raw(c, 0, rows, line);
    context.memory.mark_pe(i.dst.start + c, dst.begin(), dst.end() - dst.begin(), true);
  }
  return {};
}

}  // namespace neuron::core
