// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/product_operations.h"

#include "driver/base/format.h"
#include "driver/isa/scale_rows.h"

namespace neuron::builder {
namespace {

// 128, 64 or 32 rows or columns as op.pe has them; anything else becomes a code that the checks
// refuse.
uint8_t tile_code(uint32_t size) { return size == 128 ? 0 : size == 64 ? 1 : size == 32 ? 2 : 3; }

void set_tile(isa::PeOp& pe, const PeOptions& options) {
  pe.row = static_cast<uint8_t>(options.row / 32);
  pe.column = static_cast<uint8_t>(options.column / 32);
  pe.rows = tile_code(options.rows);
  pe.columns = tile_code(options.columns);
}

void set_options(isa::PeOp& pe, const PeOptions& options) {
  set_tile(pe, options);
  pe.mode = options.double_row ? NEURON_PE_DOUBLE_ROW : NEURON_PE_PLAIN;
  pe.onezero_stationary = options.onezero_stationary;
}

// The shapes of a product whose stationary matrix has been loaded; `rows`: elements of a column in
// one partition.
void check_shapes(Draft& draft, const TileAccess& psum, const TileAccess& weights,
                  const TileAccess& moving, uint64_t rows) {
  if (!draft.wrong.empty()) return;
  if (psum.offsets.present() && weights.present() && psum.offsets.start != weights.start) {
    draft.wrong = base::format(
        "the index of a scattered product starts on partition {}, expected {}, where the "
        "stationary "
        "matrix does",
        psum.offsets.start, weights.start);
    return;
  }
  if (weights.present() && moving.parts == weights.parts &&
      uint64_t{psum.parts} * rows == weights.elements()) {
    return;
  }
  draft.wrong = base::format(
      "matmul of [{}, {}] (stationary) and [{}, {}] (moving) into [{}, {}]; expected [K, M], "
      "[K, N] and [M, N]",
      weights.parts, weights.elements() / rows, moving.parts, moving.elements() / rows, psum.parts,
      psum.elements());
}

}  // namespace

void ProductOperations::load_weights(const TileAccess& stationary, const PeOptions& options) {
  weights_ = stationary;
  Draft draft(NEURON_OP_LDWEIGHTS, NEURON_ENGINE_PE);
  draft.from(stationary);
  set_options(draft.i.pe, options);
  emit(std::move(draft));
}

void ProductOperations::multiply(const TileAccess& psum, const TileAccess& moving, bool accumulate,
                                 bool swap, const PeOptions& options) {
  Draft draft(NEURON_OP_MATMUL, NEURON_ENGINE_PE);
  draft.to(psum).from(moving);
  check_shapes(draft, psum, weights_, moving, options.double_row ? 2 : 1);
  set_options(draft.i.pe, options);
  draft.i.pe.onezero_moving = options.onezero_moving;
  draft.i.pe.accumulate = accumulate;
  draft.i.pe.swap = swap;
  emit(std::move(draft));
}

void ProductOperations::matmul(const TileAccess& psum, const TileAccess& stationary,
                               const TileAccess& moving, bool accumulate,
                               const PeOptions& options) {
  load_weights(stationary, options);
  multiply(psum, moving, accumulate, true, options);
}

TileAccess ScaledAccess::shifted() const {
  TileAccess access = scales;
  if (elements.parts <= isa::kQuadrant) access.start += isa::kScalesOfQuadrant * quarter;
  return access;
}

void ProductOperations::load_weights_mx(const ScaledAccess& stationary, const PeOptions& options) {
  weights_ = stationary.elements;
  Draft draft(NEURON_OP_LDWEIGHTS_MX, NEURON_ENGINE_PE);
  draft.from(stationary.elements).second(stationary.scales).also_reads(stationary.shifted());
  set_tile(draft.i.pe, options);
  draft.i.pe.quarter = stationary.quarter;
  emit(std::move(draft));
}

void ProductOperations::multiply_mx(const TileAccess& psum, const ScaledAccess& moving,
                                    bool accumulate, bool swap, const PeOptions& options) {
  Draft draft(NEURON_OP_MATMUL_MX, NEURON_ENGINE_PE);
  draft.to(psum).from(moving.elements).second(moving.scales).also_reads(moving.shifted());
  check_shapes(draft, psum, weights_, moving.elements, 1);
  set_tile(draft.i.pe, options);
  draft.i.pe.quarter = moving.quarter;
  draft.i.pe.accumulate = accumulate;
  draft.i.pe.swap = swap;
  emit(std::move(draft));
}

void ProductOperations::matmul_mx(const TileAccess& psum, const ScaledAccess& stationary,
                                  const ScaledAccess& moving, bool accumulate,
                                  const PeOptions& options) {
  load_weights_mx(stationary, options);
  multiply_mx(psum, moving, accumulate, true, options);
}

void ProductOperations::matmul_sparse(const TileAccess& psum, const SparseAccess& stationary,
                                      const TileAccess& moving, bool accumulate) {
  weights_ = stationary.weights;
  Draft load(NEURON_OP_LDWEIGHTS_SPARSE, NEURON_ENGINE_PE);
  load.from(stationary.weights).second(stationary.positions);
  load.i.pe.mode = stationary.ratio;
  emit(std::move(load));
  Draft draft(NEURON_OP_MATMUL_SPARSE, NEURON_ENGINE_PE);
  draft.to(psum).from(moving);
  check_shapes(draft, psum, weights_, moving, 1);
  draft.i.pe.mode = stationary.ratio;
  draft.i.pe.accumulate = accumulate;
  draft.i.pe.swap = true;
  emit(std::move(draft));
}

void ProductOperations::transpose(const TileAccess& psum, const TileAccess& from,
                                  const PeOptions& options) {
  Draft draft(NEURON_OP_TRANSPOSE, NEURON_ENGINE_PE);
  draft.to(psum).from(from);
  set_tile(draft.i.pe, options);
  emit(std::move(draft));
}

}  // namespace neuron::builder
