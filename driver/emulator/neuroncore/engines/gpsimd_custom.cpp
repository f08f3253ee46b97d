// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/gpsimd_custom.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/numerics/alu.h"

namespace neuron::core {
namespace {

constexpr size_t kBetweenLooks = size_t{1} << 16;  // values of a sum

void store_row(UnitContext& context, const OperandView& dst, const isa::Operand& operand,
               unsigned part, std::span<const float> values) {
  for (size_t first = 0; first < values.size(); first += kPiece) {
    const size_t n = std::min(kPiece, values.size() - first);
    store_block(context, dst, operand, {part, 1, first, n}, values.data() + first);
  }
}

void partition_all_reduce(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  // Not cleared: megabytes are touched by what is loaded, which looks whether anybody still waits.
  const size_t n = source.elements();
  const auto sum = std::make_unique_for_overwrite<float[]>(n);
  const auto next = std::make_unique_for_overwrite<float[]>(n);
  source.load(0, 0, n, sum.get());
  for (unsigned p = 1; p < source.partitions(); ++p) {
    source.load(p, 0, n, next.get());
    for (size_t first = 0; first < n; first += kBetweenLooks) {
      base::Abandonment::look();
      float* const of_sum = sum.get() + first;
      numerics::alu(NEURON_ALU_ADD, of_sum, next.get() + first, of_sum,
                    std::min(kBetweenLooks, n - first), context.subnormals);
    }
  }
  for (unsigned p = 0; p < dst.partitions(); ++p) store_row(context, dst, i.dst, p, {sum.get(), n});
}

void sort_rows(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  std::vector<float> row(source.elements());
  uint32_t steps = 0;
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    source.load(p, 0, row.size(), row.data());
    std::stable_sort(row.begin(), row.end(), [&steps](float a, float b) {
      base::Abandonment::look_now_and_then(steps);
      if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
      return a != b ? a < b : std::signbit(a) && !std::signbit(b);
    });
    store_row(context, dst, i.dst, p, row);
  }
}

void histogram(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  std::vector<float> row(source.elements());
  std::vector<float> counts(dst.elements());
  uint32_t steps = 0;
  const auto bins = static_cast<float>(counts.size());
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    std::fill(counts.begin(), counts.end(), 0.0f);
    source.load(p, 0, row.size(), row.data());
    for (const float value : row) {
      base::Abandonment::look_now_and_then(steps);
      if (value >= 0.0f && value < bins) counts[static_cast<size_t>(value)] += 1.0f;
    }
    store_row(context, dst, i.dst, p, counts);
  }
}

constexpr CustomOperator kOperators[] = {
    {1, "partition_all_reduce", true, partition_all_reduce},
    {2, "sort", true, sort_rows},
    {3, "histogram", false, histogram},
};

}  // namespace

std::span<const CustomOperator> custom_operators() { return kOperators; }

const CustomOperator* find_custom_operator(uint32_t number) {
  for (const CustomOperator& op : kOperators) {
    if (op.number == number) return &op;
  }
  return nullptr;
}

Fault execute_custom(UnitContext& context, const isa::Instruction& i) {
  const CustomOperator* op = find_custom_operator(i.vector.imm);
  if (op == nullptr) {
    return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, i.vector.imm, NEURON_INST_OP + 4);
  }
  if (i.src1.present()) {
    return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, i.src1.parts, NEURON_INST_SRC1);
  }
  if (i.dst.parts != i.src0.parts) {
    return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, i.src0.parts, NEURON_INST_SRC0 + 3);
  }
  if (op->same_elements && i.dst.elements() != i.src0.elements()) {
    return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, static_cast<uint32_t>(i.src0.elements()),
                      NEURON_INST_SRC0 + 8);
  }
  op->run(context, i);
  clear_pe_marks(context, i.dst);
  return {};
}

}  // namespace neuron::core
