// SPDX-License-Identifier: Apache-2.0
// partition_reduce: reduces many partitions to one, in ascending order.
//
// add and max of 32- and 64-bit integers of one type are native (add wraps); all else is computed
// in fp32, starting from partition 0. average is the fp32 sum divided by the number of partitions,
// whatever the type. and, or work on raw bits. 64-bit integers have no average.
#include <cstring>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"
#include "driver/emulator/neuroncore/engines/gpsimd_integer64.h"
#include "driver/emulator/neuroncore/engines/integer_alu.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/isa/rules.h"

namespace neuron::core {
namespace {

bool is_native(const isa::Instruction& i) {
  const unsigned type = i.dst.dtype;
  return (type == NEURON_DTYPE_I32 || type == NEURON_DTYPE_U32) && i.src0.dtype == type &&
         (i.vector.op0 == NEURON_ALU_ADD || i.vector.op0 == NEURON_ALU_MAX);
}

void reduce_integers64(UnitContext& context, const isa::Instruction& i, const OperandView& source,
                       const OperandView& dst) {
  uint64_t* sum = integers64_of(context.scratch.a);
  uint64_t* next = integers64_of(context.scratch.b);
  const size_t piece = dst.clobbers(source) ? 1 : kBlockElements;
  for (uint64_t first = 0; first < dst.elements(); first += piece) {
    const size_t n = std::min<uint64_t>(piece, dst.elements() - first);
    source.load_raw(0, first, n, reinterpret_cast<std::byte*>(sum));
    for (unsigned p = 1; p < source.partitions(); ++p) {
      source.load_raw(p, first, n, reinterpret_cast<std::byte*>(next));
      for (size_t e = 0; e < n; ++e) {
        sum[e] = integer_alu64(i.vector.op0, i.src0.dtype == NEURON_DTYPE_I64, sum[e], next[e]);
      }
    }
    dst.store_raw(0, first, n, reinterpret_cast<const std::byte*>(sum));
  }
}

}  // namespace

Fault partition_reduce(UnitContext& context, const isa::Instruction& i) {
  const unsigned op = i.vector.op0;
  const bool average = op == NEURON_ALU_AVERAGE;
  const bool bits = numerics::alu_is_bitwise(op);
  const bool native = is_native(i);
  if (!average && !bits && !numerics::alu_is_reducible(op)) {
    return make_fault(NEURON_FAULT_OP_NOT_ALLOWED, 0, op, NEURON_INST_OP);
  }
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  if (isa::is_int64_dtype(i.dst.dtype)) {
    reduce_integers64(context, i, source, dst);
    return {};
  }
  float* sum = context.scratch.a.data();
  float* next = context.scratch.b.data();
  auto* sum_bytes = reinterpret_cast<std::byte*>(sum);
  auto* next_bytes = reinterpret_cast<std::byte*>(next);
  const size_t piece = dst.clobbers(source) ? 1 : kPiece;
  for (uint64_t first = 0; first < dst.elements(); first += piece) {
    const size_t n = std::min<uint64_t>(piece, dst.elements() - first);
    if (bits || native) {
      source.load_raw(0, first, n, sum_bytes);
      for (unsigned p = 1; p < source.partitions(); ++p) {
        source.load_raw(p, first, n, next_bytes);
        if (bits) {
          numerics::alu_bits(op, sum_bytes, next_bytes, sum_bytes, dst.element_bytes(), n);
        } else {
          integer_alu(op, i.dst.dtype == NEURON_DTYPE_I32, sum_bytes, next_bytes, sum_bytes, n);
        }
      }
      dst.store_raw(0, first, n, sum_bytes);
      continue;
    }
    source.load(0, first, n, sum);
    for (unsigned p = 1; p < source.partitions(); ++p) {
      source.load(p, first, n, next);
      numerics::alu(average ? unsigned{NEURON_ALU_ADD} : op, sum, next, sum, n, context.subnormals);
    }
    if (average) {
      numerics::alu_scalar(NEURON_ALU_DIV, sum, static_cast<float>(source.partitions()), false, sum,
                           n, context.subnormals);
    }
    store_block(context, dst, i.dst, {0, 1, first, n}, sum);
  }
  clear_pe_marks(context, i.dst);
  return {};
}

}  // namespace neuron::core
