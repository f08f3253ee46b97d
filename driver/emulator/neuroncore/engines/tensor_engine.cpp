// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/tensor_engine.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/numerics/block_scaled.h"
#include "driver/emulator/numerics/transpose.h"
#include "driver/isa/scale_rows.h"
#include "driver/isa/sparsity.h"

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

// 32-bit types are multiplied with 32-bit types only. The same bits mean other numbers in f8e4 and
// f8e4fn: the array has one meaning at a time.
bool go_together(unsigned moving, unsigned stationary) {
  const bool two_meanings = (moving == NEURON_DTYPE_F8E4FN && stationary == NEURON_DTYPE_F8E4) ||
                            (moving == NEURON_DTYPE_F8E4 && stationary == NEURON_DTYPE_F8E4FN);
  return !two_meanings && (isa::dtype_bytes(moving) == 4) == (isa::dtype_bytes(stationary) == 4);
}

}  // namespace

TensorEngine::TensorEngine() {
  // Only the whole array, which nearly every program uses; other tiles are made when they are first
  // loaded.
  tiles_[0].active.planes[0] = std::make_unique<numerics::Stationary>();
  tiles_[0].shadow.planes[0] = std::make_unique<numerics::Stationary>();
}

void TensorEngine::reset() {
  for (Tile& tile : tiles_) {
    tile.active.at = tile.shadow.at = {};
    tile.shadow_fresh = false;
  }
}

unsigned TensorEngine::planes_of(Form form, unsigned mode) {
  switch (form) {
    case Form::kPlain:
      return 1;
    case Form::kDoubleRow:
      return 2;
    case Form::kSparse:
      return isa::sparsity_of(mode).slots;
    default:
      return kMaxPlanes;
  }
}

TensorEngine::Form TensorEngine::form_of(const isa::Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_LDWEIGHTS_MX:
    case NEURON_OP_MATMUL_MX:
      return Form::kScaled;
    case NEURON_OP_LDWEIGHTS_SPARSE:
    case NEURON_OP_MATMUL_SPARSE:
      return Form::kSparse;
    default:
      return i.pe.mode == NEURON_PE_DOUBLE_ROW ? Form::kDoubleRow : Form::kPlain;
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
    case NEURON_OP_LDWEIGHTS_MX:
    case NEURON_OP_LDWEIGHTS_SPARSE:
      return load_weights(context, instruction);
    case NEURON_OP_MATMUL:
    case NEURON_OP_MATMUL_MX:
    case NEURON_OP_MATMUL_SPARSE:
      return multiply(context, instruction);
    default:
      return transpose(context, instruction);
  }
}

numerics::RowView TensorEngine::scaled_rows(UnitContext& context, const isa::Instruction& i,
                                            unsigned code, size_t first, size_t n) {
  const OperandView elements(context.memory, i.src0);
  const OperandView scales(context.memory, i.src1);
  Gathered& g = gathered();
  for (unsigned p = 0; p < elements.partitions(); ++p) {
    const std::byte* from = g.packed;
    ptrdiff_t step = 1;
    if (elements.single_run()) {
      step = elements.step();
      from = elements.row(p) + static_cast<ptrdiff_t>(first) * step *
                                   static_cast<ptrdiff_t>(elements.element_bytes());
    } else {
      elements.load_raw(p, first, n, g.packed);
    }
    // Eight partitions have one row of scales.
    if (p % NEURON_MX_PARTITIONS == 0) {
      scales.load_raw(isa::scale_row(p, i.pe.quarter), first, n, g.scales);
    }
    numerics::scaled_codes(elements.dtype(), from, step, code, g.scales, 1, n, g.scaled + p * n);
  }
  return {reinterpret_cast<const std::byte*>(g.scaled),
          static_cast<ptrdiff_t>(n * sizeof(uint16_t)), NEURON_DTYPE_BF16};
}

// Positions of one group and column are different and name dense rows of their group.
Fault TensorEngine::check_positions(UnitContext& context, const isa::Instruction& i) {
  const isa::Sparsity ratio = isa::sparsity_of(i.pe.mode);
  const OperandView words(context.memory, i.src1);
  const size_t columns = i.src0.elements();
  uint16_t row[NEURON_PE_MAX_M / 4];
  uint32_t taken[NEURON_PE_MAX_M] = {};
  for (unsigned p = 0; p < i.src0.parts; ++p) {
    if (p % ratio.rows == 0) std::fill(std::begin(taken), std::end(taken), 0);
    words.load_raw(p, 0, columns / 4, reinterpret_cast<std::byte*>(row));
    for (size_t m = 0; m < columns; ++m) {
      const unsigned position = row[m / 4] >> (4 * (m % 4)) & 15;
      if (position < ratio.dense() && (taken[m] >> position & 1) == 0) {
        taken[m] |= 1u << position;
        continue;
      }
      const uint64_t word = i.src1.base + m / 4 * sizeof(uint16_t);
      Fault fault = make_fault(NEURON_FAULT_INDEX_OOB,
                               uint64_t{i.src1.start + p} << NEURON_STRICT_PARTITION_SHIFT | word,
                               position, NEURON_INST_SRC1);
      fault.detail = ratio.dense();
      return fault;
    }
  }
  return {};
}

numerics::RowView TensorEngine::sparse_rows(UnitContext& context, const isa::Instruction& i,
                                            unsigned slot) {
  const isa::Sparsity ratio = isa::sparsity_of(i.pe.mode);
  const OperandView weights(context.memory, i.src0);
  const OperandView words(context.memory, i.src1);
  const size_t columns = weights.elements();
  Gathered& g = gathered();
  float* dense = g.rows;
  std::fill_n(dense, weights.partitions() * columns, 0.0f);
  uint16_t positions[NEURON_PE_MAX_M / 4];
  for (unsigned p = 0; p < weights.partitions(); ++p) {
    weights.load(p, 0, columns, g.result);
    words.load_raw(p, 0, columns / 4, reinterpret_cast<std::byte*>(positions));
    const unsigned group = p / ratio.rows * ratio.rows;
    for (size_t m = 0; m < columns; ++m) {
      const unsigned position = positions[m / 4] >> (4 * (m % 4)) & 15;
      if (position % ratio.slots != slot) continue;
      dense[(group + position / ratio.slots) * columns + m] = g.result[m];
    }
  }
  // Types that are exact in bf16 stay in it, for the fast paths of the product.
  const unsigned dtype = i.src0.dtype;
  const bool narrow = dtype == NEURON_DTYPE_BF16 || isa::dtype_bytes(dtype) == 1;
  if (!narrow) {
    return {reinterpret_cast<const std::byte*>(dense),
            static_cast<ptrdiff_t>(columns * sizeof(float))};
  }
  auto* out = reinterpret_cast<std::byte*>(g.scaled);
  numerics::narrow(NEURON_DTYPE_BF16, dense, out, 1, weights.partitions() * columns);
  return {out, static_cast<ptrdiff_t>(columns * sizeof(uint16_t)), NEURON_DTYPE_BF16};
}

numerics::RowView TensorEngine::plane_rows(UnitContext& context, const isa::Instruction& i,
                                           Form form, unsigned plane, size_t first, size_t n) {
  if (form == Form::kScaled) return scaled_rows(context, i, plane, first, n);
  if (i.opcode == NEURON_OP_LDWEIGHTS_SPARSE) return sparse_rows(context, i, plane);
  isa::Operand matrix = i.src0;
  if (form != Form::kPlain) {
    const unsigned outermost = --matrix.ndim;
    matrix.base = static_cast<uint32_t>(int64_t{matrix.base} +
                                        int64_t{plane} * matrix.step[outermost] *
                                            static_cast<int64_t>(isa::dtype_bytes(matrix.dtype)));
  }
  const OperandView view(context.memory, matrix);
  if (view.single_run()) {
    numerics::RowView rows = row_view(view, matrix.bias);
    rows.base +=
        static_cast<ptrdiff_t>(first) * view.step() * static_cast<ptrdiff_t>(view.element_bytes());
    return rows;
  }
  float* packed = gathered().rows;
  for (unsigned p = 0; p < view.partitions(); ++p) view.load(p, first, n, packed + p * n);
  return {reinterpret_cast<const std::byte*>(packed), static_cast<ptrdiff_t>(n * sizeof(float))};
}

Fault TensorEngine::load_weights(UnitContext& context, const isa::Instruction& i) {
  const isa::Operand& stationary = i.src0;
  const Form form = form_of(i);
  const unsigned planes = planes_of(form, i.pe.mode);
  const int k = stationary.parts;
  const int m = static_cast<int>(stationary.elements() / (form == Form::kDoubleRow ? planes : 1));
  const Geometry at = geometry_of(i.pe);
  if (k > at.rows) return wrong_weights(stationary.parts, at.rows, kSlotSource + 3);
  if (m > at.columns) return wrong_weights(static_cast<unsigned>(m), at.columns, kSlotSource + 8);
  if (form == Form::kSparse) {
    if (Fault fault = check_positions(context, i)) return fault;
  }
  Tile& tile = tile_at(at);
  Weights& weights = tile.shadow;
  for (unsigned plane = 0; plane < planes; ++plane) {
    if (!weights.planes[plane]) weights.planes[plane] = std::make_unique<numerics::Stationary>();
    weights.planes[plane]->load(plane_rows(context, i, form, plane, 0, static_cast<size_t>(m)), k,
                                m);
  }
  if (weights.at != at) {
    for (Tile& other : tiles_) {
      if (!other.shadow.at.overlaps(at)) continue;
      other.shadow.at = {};
      other.shadow_fresh = false;
    }
  }
  weights.at = at;
  weights.form = form;
  weights.mode = i.pe.mode;
  weights.dtype = stationary.dtype;
  weights.start = stationary.start;
  tile.shadow_fresh = true;
  return {};
}

// Strict PSUM: accumulation onto what the PE did not write is a fault.
Fault TensorEngine::check_psum(UnitContext& context, const isa::Instruction& i) {
  if (!i.pe.accumulate || !context.strict_psum || i.dst.space != NEURON_SPACE_PSUM) return {};
  const OperandView dst(context.memory, i.dst);
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    const unsigned partition = i.dst.start + p;
    if (context.memory.pe_wrote(partition, dst.begin(), dst.end() - dst.begin())) continue;
    return make_fault(NEURON_FAULT_PSUM_UNDEFINED,
                      uint64_t{partition} << NEURON_STRICT_PARTITION_SHIFT | dst.begin() |
                          NEURON_STRICT_PSUM | NEURON_STRICT_WRITES);
  }
  return {};
}

// The results of an indirect destination lie elsewhere until they are scattered, which marks them.
void TensorEngine::mark_written(UnitContext& context, const isa::Operand& operand,
                                const OperandView& dst) {
  if (operand.space != NEURON_SPACE_PSUM) return;
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    context.memory.mark_pe(operand.start + p, dst.begin(), dst.end() - dst.begin(), true);
  }
}

// R7: the index of a scattered product starts where its weights were loaded from.
Fault TensorEngine::check_scatter(const isa::Instruction& i) {
  const bool product = i.opcode == NEURON_OP_MATMUL || i.opcode == NEURON_OP_MATMUL_MX;
  if (!product || !i.dst.indirect) return {};
  const Geometry at = geometry_of(i.pe);
  const Tile& tile = tile_at(at);
  const Weights& weights = i.pe.swap ? tile.shadow : tile.active;
  const unsigned start = i.dst.index().start;
  if (weights.at != at || weights.start == start) return {};
  Fault fault = make_fault(NEURON_FAULT_OPERAND_PARTITION, 0, start, kSlotDst + 20);
  fault.rule = 7;
  fault.detail = weights.start;
  return fault;
}

// The shadow weights of a tile become its active ones.
void TensorEngine::activate(Tile& tile) {
  const Geometry at = tile.shadow.at;
  if (tile.active.at != at) {
    for (Tile& other : tiles_) {
      if (other.active.at.overlaps(at)) other.active.at = {};
    }
  }
  std::swap(tile.active, tile.shadow);
  tile.shadow.at = {};
  tile.shadow_fresh = false;
}

// dst (+)= the products of all planes: in place where PSUM holds contiguous fp32 and the planes are
// read where they lie, else some columns at a time.
void TensorEngine::add_products(UnitContext& context, const isa::Instruction& i,
                                const Weights& weights) {
  const OperandView dst(context.memory, i.dst);
  const bool in_place = dst.contiguous() && i.dst.dtype == NEURON_DTYPE_F32;
  const size_t n = dst.elements();
  const bool read_whole =
      in_place && weights.form == Form::kPlain && OperandView(context.memory, i.src0).single_run();
  const size_t piece = read_whole ? n : kColumns;
  for (size_t first = 0; first < n; first += piece) {
    const size_t count = std::min(piece, n - first);
    float* out = in_place ? reinterpret_cast<float*>(dst.row(0)) + first : gathered().result;
    const auto stride = static_cast<ptrdiff_t>(in_place ? dst.row_stride() / sizeof(float) : count);
    bool accumulate = i.pe.accumulate;
    for (unsigned p = 0; !in_place && accumulate && p < dst.partitions(); ++p) {
      dst.load(p, first, count, out + p * count);
    }
    for (unsigned plane = 0; plane < planes_of(weights.form, weights.mode); ++plane) {
      numerics::multiply(*weights.planes[plane],
                         plane_rows(context, i, weights.form, plane, first, count), count, out,
                         stride, accumulate);
      accumulate = true;
    }
    if (in_place) continue;
    const bool narrow = i.dst.dtype != NEURON_DTYPE_F32;
    const numerics::NarrowMode mode = narrow ? context.narrow_mode(i.dst) : numerics::NarrowMode();
    for (unsigned p = 0; p < dst.partitions(); ++p) {
      numerics::RandomStream random = rounding_stream(context, i.dst, p, first);
      dst.store(p, first, count, out + p * count, mode, narrow ? &random : nullptr);
    }
  }
}

Fault TensorEngine::multiply(UnitContext& context, const isa::Instruction& i) {
  const Geometry at = geometry_of(i.pe);
  const Form form = form_of(i);
  Tile& tile = tile_at(at);
  const bool swap = i.pe.swap;
  const Weights& weights = swap ? tile.shadow : tile.active;
  const bool same = weights.form == form && weights.mode == i.pe.mode;
  const bool loaded = weights.at == at && (!swap || tile.shadow_fresh) && same;
  if (!loaded) return make_fault(NEURON_FAULT_WEIGHTS, 0, 0, NEURON_INST_OP + 1);
  const numerics::Stationary& matrix = *weights.planes[0];
  if (matrix.k() != i.src0.parts) {
    return wrong_weights(i.src0.parts, matrix.k(), kSlotSource + 3);
  }
  if (matrix.m() != i.dst.parts) {
    return wrong_weights(i.dst.parts, matrix.m(), kSlotDst + 3);
  }
  if (form != Form::kScaled && !go_together(i.src0.dtype, weights.dtype)) {
    return make_fault(NEURON_FAULT_OPERAND_DTYPE, 0, i.src0.dtype, kSlotSource + 4);
  }
  if (Fault fault = check_psum(context, i)) return fault;
  if (swap) activate(tile);

  const OperandView dst(context.memory, i.dst);
  const size_t n = dst.elements();
  context.multiply_accumulates +=
      uint64_t{i.src0.parts} * i.dst.parts * n * planes_of(form, i.pe.mode);
  add_products(context, i, tile.active);
  mark_written(context, i.dst, dst);
  for (size_t first = 0; context.check_nan && first < n; first += kPiece) {
    const size_t count = std::min(kPiece, n - first);
    for (unsigned p = 0; p < dst.partitions() && !context.saw_nan; ++p) {
      const float* row = dst.load_or_map(p, first, count, context.scratch.a.data());
      context.saw_nan = std::any_of(row, row + count, [](float v) { return v != v; });
    }
  }
  return {};
}

// Moves bits. Hardware of generation 2 multiplies by an identity, which does not keep NaN payloads.
Fault TensorEngine::transpose(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const size_t bytes = source.element_bytes();
  const size_t slot = dst.element_bytes();  // f8 lies in the lower byte of 16 bits
  const unsigned rows = source.partitions();
  const unsigned columns = dst.partitions();
  auto* matrix = reinterpret_cast<std::byte*>(gathered().rows);
  auto* turned = reinterpret_cast<std::byte*>(gathered().result);
  for (unsigned p = 0; p < rows; ++p) source.load_raw(p, 0, columns, matrix + p * columns * bytes);
  if (bytes == 4) {
    numerics::transpose(gathered().rows, columns, rows, columns, gathered().result, rows);
  } else if (bytes == 2) {
    numerics::transpose(reinterpret_cast<const uint16_t*>(matrix), columns, rows, columns,
                        reinterpret_cast<uint16_t*>(turned), rows);
  } else {
    std::memset(turned, 0, columns * rows * slot);
    for (unsigned c = 0; c < columns; ++c) {
      for (unsigned p = 0; p < rows; ++p) {
        turned[(c * rows + p) * slot] = matrix[p * columns + c];
      }
    }
  }
  for (unsigned c = 0; c < columns; ++c) {
    dst.store_raw(c, 0, rows, turned + c * rows * slot);
  }
  mark_written(context, i.dst, dst);
  return {};
}

}  // namespace neuron::core
