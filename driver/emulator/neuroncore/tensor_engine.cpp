// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/tensor_engine.h"

#include <algorithm>
#include <cstring>

namespace neuron::core {
namespace {

constexpr unsigned kSlotDst = NEURON_INST_DST;
constexpr unsigned kSlotSource = NEURON_INST_SRC0;

// Weights and moving data widen through tf32's rounding where the type says so; a gathered matrix
// is fp32 already.
numerics::RowView row_view(const OperandView& view, uint8_t bias) {
  return {view.row(0), static_cast<ptrdiff_t>(view.row_stride()), view.dtype(), view.step(), bias};
}

Fault wrong_weights(unsigned found, int loaded, unsigned offset) {
  Fault fault = make_fault(NEURON_FAULT_WEIGHTS, 0, found, static_cast<uint8_t>(offset));
  fault.detail = static_cast<uint32_t>(loaded);
  return fault;
}

}  // namespace

TensorEngine::TensorEngine()
    : active_(std::make_unique<numerics::Stationary>()),
      shadow_(std::make_unique<numerics::Stationary>()) {}

void TensorEngine::reset() {
  active_->clear();
  shadow_->clear();
  shadow_fresh_ = false;
}

TensorEngine::Gathered& TensorEngine::gathered() {
  if (!gathered_) gathered_ = std::make_unique<Gathered>();
  return *gathered_;
}

Fault TensorEngine::execute(UnitContext& context, const isa::Instruction& instruction) {
  switch (instruction.opcode) {
    case NEURON_OP_LDWEIGHTS:
      return load_weights(context, instruction.src0);
    case NEURON_OP_MATMUL:
      return multiply(context, instruction);
    default:
      return transpose(context, instruction);
  }
}

Fault TensorEngine::load_weights(UnitContext& context, const isa::Operand& stationary) {
  const OperandView view(context.memory, stationary);
  const int k = stationary.parts;
  const int m = static_cast<int>(view.elements());
  if (view.single_run()) {
    shadow_->load(row_view(view, stationary.bias), k, m);
  } else {
    float* rows = gathered().rows;
    for (int p = 0; p < k; ++p) view.load(p, 0, m, rows + p * NEURON_PE_MAX_M);
    numerics::RowView packed{reinterpret_cast<const std::byte*>(rows),
                             NEURON_PE_MAX_M * sizeof(float)};
    shadow_->load(packed, k, m);
  }
  shadow_fresh_ = true;
  return {};
}

Fault TensorEngine::multiply(UnitContext& context, const isa::Instruction& i) {
  const bool swap = i.pe.swap && shadow_fresh_;
  if (i.pe.swap && !shadow_fresh_) {
    return make_fault(NEURON_FAULT_WEIGHTS, 0, 0, NEURON_INST_OP + 1);
  }
  numerics::Stationary& weights = swap ? *shadow_ : *active_;
  if (!weights.loaded()) return make_fault(NEURON_FAULT_WEIGHTS, 0, 0, NEURON_INST_OP + 1);
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
        return make_fault(NEURON_FAULT_PSUM_UNDEFINED, uint64_t{partition} << 20 | dst.begin(),
                          static_cast<uint32_t>(dst.begin()), kSlotDst);
      }
    }
  }
  if (swap) {
    std::swap(active_, shadow_);
    shadow_fresh_ = false;
  }

  numerics::RowView rows = row_view(moving, i.src0.bias);
  if (!moving.single_run()) {
    float* packed = gathered().rows;
    for (unsigned p = 0; p < moving.partitions(); ++p) moving.load(p, 0, n, packed + p * n);
    rows = {reinterpret_cast<const std::byte*>(packed), static_cast<ptrdiff_t>(n * sizeof(float))};
  }
  if (dst.contiguous()) {
    numerics::multiply(*active_, rows, n, reinterpret_cast<float*>(dst.row(0)),
                       CoreMemory::kPsumStride / sizeof(float), i.pe.accumulate);
  } else {
    float* result = gathered().result;
    if (i.pe.accumulate) {
      for (unsigned p = 0; p < dst.partitions(); ++p) dst.load(p, 0, n, result + p * n);
    }
    numerics::multiply(*active_, rows, n, result, static_cast<ptrdiff_t>(n), i.pe.accumulate);
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

// Moves bits; generation 2 hardware multiplies with an identity, which does not keep NaN payloads.
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
