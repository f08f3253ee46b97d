// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/cost_model.h"

#include <algorithm>

namespace neuron::core {
namespace {

constexpr uint64_t kMinInterval = 64;      // MIN_II of small instructions (instruction reference)
constexpr uint64_t kMatmulLatency = 64;    // MM_INIT_LATENCY (architecture guide)
constexpr uint64_t kAccessLatency = 60;    // SBUF/PSUM access (architecture guide)
constexpr uint64_t kDependentGap = 110;    // fit; the guide says about 100
constexpr uint64_t kPoolStart = 150;       // GpSimd start-up (instruction reference)
constexpr uint64_t kReadAccumulator = 64;  // ActReadAccumulator (architecture guide)
constexpr uint64_t kLoadSpeedup = 4;       // LoadStationary against a multiplication (guide)
constexpr uint64_t kFp32Passes = 4;        // PE passes of a 32-bit type (instruction reference)
constexpr int kFullRateStride = 16;        // bytes; a longer inner stride halves the rate (guide)

bool is_bf16(const isa::Operand& operand) {
  return !operand.present() || operand.dtype == NEURON_DTYPE_BF16;
}
bool contiguous(const isa::Operand& operand) {
  return !operand.present() || operand.size[0] <= 1 || operand.step[0] == 1;
}
bool strided(const isa::Operand& operand) {
  if (!operand.present() || operand.size[0] <= 1) return false;
  const int bytes = std::abs(operand.step[0]) * static_cast<int>(isa::dtype_bytes(operand.dtype));
  return bytes > kFullRateStride;
}

uint64_t pe_passes(unsigned dtype) {
  return dtype == NEURON_DTYPE_F32 || dtype == NEURON_DTYPE_F32R ? kFp32Passes : 1;
}

uint64_t tensor_tensor_cycles(const isa::Instruction& i, uint64_t n) {
  const bool psum0 = i.src0.space == NEURON_SPACE_PSUM;
  const bool psum1 = i.src1.space == NEURON_SPACE_PSUM;
  const unsigned op = i.vector.op0;
  const bool cheap = op == NEURON_ALU_ADD || op == NEURON_ALU_SUB || op == NEURON_ALU_MUL;
  const bool dense = contiguous(i.dst) && contiguous(i.src0) && contiguous(i.src1);
  const bool all_bf16 = is_bf16(i.dst) && is_bf16(i.src0) && is_bf16(i.src1);
  return psum0 != psum1 || (cheap && dense && all_bf16) ? n : 2 * n;
}

uint64_t reduce_cycles(const isa::Instruction& i, uint64_t n) {
  const unsigned op = i.vector.reduce;
  const bool fast =
      is_bf16(i.dst) && is_bf16(i.src0) && (op == NEURON_ALU_ADD || op == NEURON_ALU_MAX);
  return fast ? n / 2 : n;
}

uint64_t vector_cycles(const isa::Instruction& i) {
  const uint64_t n = i.src0.present() ? i.src0.elements() : i.dst.elements();
  switch (i.opcode) {
    case NEURON_OP_TENSOR_TENSOR:
      return tensor_tensor_cycles(i, n);
    case NEURON_OP_SCALAR_TENSOR_TENSOR:
      return is_bf16(i.dst) && is_bf16(i.src0) && is_bf16(i.src1) &&
                     i.vector.op0 == NEURON_ALU_SUB && i.vector.op1 == NEURON_ALU_MUL && n % 2 == 0
                 ? n
                 : 2 * n;
    case NEURON_OP_TENSOR_REDUCE:
      return reduce_cycles(i, n);
    case NEURON_OP_RECIPROCAL:
      return 8 * n;
    case NEURON_OP_MEMSET:
      return i.vector.imm == 0 && isa::dtype_bytes(i.dst.dtype) == 2 ? n / 2 : n;
    case NEURON_OP_READ_ACC:
      return kReadAccumulator;
    default:
      return n;
  }
}

Cost pe_cost(const isa::Instruction& i) {
  const uint64_t passes = pe_passes(i.src0.dtype);
  const uint64_t n = i.src0.elements();
  Cost cost;
  cost.datapath = true;
  uint64_t cycles;
  if (i.opcode == NEURON_OP_LDWEIGHTS) {
    cycles = std::max<uint64_t>(1, passes * n / kLoadSpeedup);
  } else if (i.opcode == NEURON_OP_TRANSPOSE) {
    cycles = passes * std::max<uint64_t>(i.src0.parts, std::min<uint64_t>(64, n));
  } else {
    cycles = passes * std::max<uint64_t>(std::min<unsigned>(64, i.dst.parts), n);
  }
  cost.interval = cycles_to_ps(NEURON_ENGINE_PE, cycles);
  if (i.opcode != NEURON_OP_LDWEIGHTS) {
    cost.latency = cycles_to_ps(NEURON_ENGINE_PE, kMatmulLatency);
  }
  return cost;
}

}  // namespace

ModelTime cycles_to_ps(unsigned engine, uint64_t cycles) {
  switch (engine) {
    case NEURON_ENGINE_PE:
      return cycles * 2500 / 7;
    case NEURON_ENGINE_DVE:
      return cycles * 6250 / 7;
    default:
      return cycles * 5000 / 7;
  }
}

ModelTime dma_time(uint64_t descriptor_pairs, uint64_t bytes) {
  return descriptor_pairs * kDmaDescriptor + bytes * 10000 / 272;
}

Cost cost_of(const isa::Instruction& i, unsigned engine) {
  Cost cost;
  switch (i.group()) {
    case 2:
      return pe_cost(i);
    case 3:
    case 4:
    case 5:
      break;
    default:
      if (i.opcode == NEURON_OP_WRITE && i.address.count > 1) {
        cost.interval += (i.address.count - 1) * kPostedWrite;
      } else if (i.opcode == NEURON_OP_DMA_TRIGGER) {
        cost.interval +=
            2 * static_cast<unsigned>(__builtin_popcount(i.trigger.mask)) * kPostedWrite;
      }
      return cost;
  }
  uint64_t cycles = vector_cycles(i);
  if (strided(i.dst) || strided(i.src0) || strided(i.src1)) cycles *= 2;
  cycles = engine == NEURON_ENGINE_POOL ? kPoolStart + cycles : std::max(cycles, kMinInterval);
  cost.datapath = true;
  cost.interval = cycles_to_ps(engine, cycles);
  cost.latency = cycles_to_ps(engine, kAccessLatency);
  cost.dependent = cycles_to_ps(engine, kDependentGap);
  return cost;
}

}  // namespace neuron::core
