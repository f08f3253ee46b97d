// SPDX-License-Identifier: Apache-2.0
// Products of the emulated Tensor engine in forms of 8 bits against its own product of bf16, of the
// same dense shape: what a model gains or loses on the emulator by being quantised.
#include <cstddef>
#include <memory>

#include "driver/emulator/neuroncore/engines/tensor_engine.h"
#include "tests/bench/ratio.h"

namespace neuron::bench {
namespace {

using core::CoreMemory;
using core::Scratch;
using core::TensorEngine;
using core::UnitContext;

constexpr uint16_t kColumns = 512;
constexpr int kRuns = 40;
constexpr double kOperations = 2.0 * NEURON_PE_MAX_K * NEURON_PE_MAX_M * kColumns;

// A Tensor engine with matrices of small numbers.
class Array {
 public:
  Array() {
    constexpr size_t kFilled = 0x10000;
    for (unsigned p = 0; p < NEURON_PARTITIONS; ++p) {
      std::byte* row = memory_.sbuf(p);
      // As codes of f8 near 1, as bf16 near 2^-31, as scales near 2^-70.
      for (size_t i = 0; i < kFilled; ++i) {
        row[i] = static_cast<std::byte>(0x30 + (i * 37 + p) % 16);
      }
    }
  }

  // `depth` products of 128 rows, or of what the instruction takes in one go; FLOP/s.
  double rate(uint8_t dtype, unsigned mode, unsigned rows, unsigned instructions) {
    const double start = now_seconds();
    for (int run = 0; run < kRuns; ++run) {
      for (unsigned k = 0; k < instructions; ++k) {
        if (!product(dtype, mode, rows == NEURON_MX_CODES, k != 0)) return -1;
      }
    }
    return kRuns * kOperations * rows * instructions / (now_seconds() - start);
  }

 private:
  static isa::Operand matrix(uint32_t base, uint8_t dtype, uint16_t columns, bool double_row) {
    isa::Operand o;
    o.space = NEURON_SPACE_SBUF;
    o.parts = NEURON_PE_MAX_K;
    o.base = base;
    o.dtype = dtype;
    o.ndim = double_row ? 2 : 1;
    o.size = {columns, static_cast<uint16_t>(double_row ? 2 : 0), 0, 0};
    o.step = {1, static_cast<int16_t>(double_row ? columns : 0), 0, 0};
    return o;
  }
  bool product(uint8_t dtype, unsigned mode, bool scaled, bool accumulate) {
    isa::Instruction load, multiply;
    load.opcode = scaled ? NEURON_OP_LDWEIGHTS_MX : NEURON_OP_LDWEIGHTS;
    multiply.opcode = scaled ? NEURON_OP_MATMUL_MX : NEURON_OP_MATMUL;
    const bool two = mode == NEURON_PE_DOUBLE_ROW;
    load.src0 = matrix(0, dtype, NEURON_PE_MAX_M, two);
    multiply.src0 = matrix(0x1000, dtype, kColumns, two);
    if (scaled) {
      load.src1 = matrix(0x8000, NEURON_DTYPE_U8, NEURON_PE_MAX_M, false);
      multiply.src1 = matrix(0x9000, NEURON_DTYPE_U8, kColumns, false);
    }
    load.pe.mode = multiply.pe.mode = static_cast<uint8_t>(mode);
    multiply.pe.swap = true;
    multiply.pe.accumulate = accumulate;
    multiply.dst = matrix(0, NEURON_DTYPE_F32, kColumns, false);
    multiply.dst.space = NEURON_SPACE_PSUM;
    multiply.dst.parts = NEURON_PE_MAX_M;
    return !engine_.execute(context_, load) && !engine_.execute(context_, multiply);
  }

  CoreMemory memory_{NEURON_V4_SBUF_PARTITION_BYTES};
  std::unique_ptr<Scratch> scratch_ = std::make_unique<Scratch>();
  UnitContext context_{.memory = memory_, .scratch = *scratch_};
  TensorEngine engine_;
};

Ratio against_bf16(const char* name, double goal, uint8_t dtype, unsigned mode, unsigned rows) {
  const auto array = std::make_shared<Array>();
  return {.name = name,
          .peer_name = "our bf16 of the same shape",
          .unit = "FLOP/s",
          .goal = goal,
          .ours = [=] { return array->rate(dtype, mode, rows, 1); },
          .peer = [=] { return array->rate(NEURON_DTYPE_BF16, NEURON_PE_PLAIN, 1, rows); }};
}

}  // namespace

Ratio matmul_double_row() {
  return against_bf16("matmul-fp8-double-row", 0.9, NEURON_DTYPE_F8E4, NEURON_PE_DOUBLE_ROW, 2);
}

Ratio matmul_mxfp8() {
  return against_bf16("matmul-mxfp8", 0.6, NEURON_DTYPE_F8E4FNX4, NEURON_PE_PLAIN, NEURON_MX_CODES);
}

}  // namespace neuron::bench
