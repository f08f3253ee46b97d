// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/cost.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "driver/isa/rules.h"
#include "driver/isa/sparsity.h"

namespace neuron::isa {
namespace {

constexpr uint64_t kMinInterval = 64;    // MIN_II of small instructions (instruction reference)
constexpr uint64_t kMatmulLatency = 64;  // MM_INIT_LATENCY (architecture guide)
constexpr uint64_t kAccessLatency = 60;  // SBUF/PSUM access (architecture guide)
constexpr uint64_t kDependentGap = 110;  // FITTED; the guide says about 100
// The same on the Scalar engine. FITTED: 264 cycles were measured for dependent instructions of one
// element (performance guide), and one that depends on nothing takes 64.
constexpr uint64_t kScalarDependentGap = 200;
constexpr uint64_t kPoolStart = 150;       // GpSimd start-up (instruction reference)
constexpr uint64_t kReadAccumulator = 64;  // ActReadAccumulator (architecture guide)
constexpr uint64_t kLoadSpeedup = 4;       // LoadStationary against a multiplication (guide)
constexpr uint64_t kFp32Passes = 4;        // PE passes of a 32-bit type (instruction reference)
constexpr uint64_t kOneZeroPasses = 2;     // with a hint that one side is 0 or 1 (reference)
constexpr uint64_t kGatherGroup = 512;     // elements of n_gather behind one start (reference)
constexpr uint64_t kFastLanes = 4;         // elements a cycle of exponential, rand2, quantize_mx
constexpr uint64_t kExchangedBytes = 128;  // a cycle: 153 GB/s each way at 1.2 GHz (guide)
constexpr uint64_t kReduceLanes = 16;      // partitions that a GpSimd core walks (our choice)
// A generated transfer: the guide publishes about 600 ns per DMA instruction of a generator, for
// transfers of all partitions too, so the descriptors are written meanwhile.
constexpr ModelTime kGenerate = 600'000;
// A table set is loaded by DMA: the start of a DMA and one descriptor (our choice; no cost is
// published).
constexpr ModelTime kLoadTable = 1'350'000;
constexpr int kFullRateStride = 16;  // bytes; a longer inner stride halves the rate (guide)

bool is_bf16(const Operand& operand) {
  return !operand.present() || operand.dtype == NEURON_DTYPE_BF16;
}
bool contiguous(const Operand& operand) {
  if (!operand.present() || operand.size[0] <= 1) return true;
  return operand.step[0] == 1 && !operand.indirect;
}
bool strided(const Operand& operand) {
  if (!operand.present() || operand.size[0] <= 1) return false;
  // Our choice, as nothing is published: elements by an index come as fast as those of a long step.
  if (operand.indirect) return true;
  const int bytes = std::abs(operand.step[0]) * static_cast<int>(dtype_bytes(operand.dtype));
  return bytes > kFullRateStride;
}

uint64_t pe_passes(const Instruction& i, const Timing& timing) {
  if (i.src0.dtype != NEURON_DTYPE_F32 && i.src0.dtype != NEURON_DTYPE_F32R) return 1;
  if (timing.fast_transpose && i.opcode == NEURON_OP_TRANSPOSE) return kFp32Passes / 2;
  return i.pe.onezero_moving || i.pe.onezero_stationary ? kOneZeroPasses : kFp32Passes;
}

uint64_t tensor_tensor_cycles(const Instruction& i, uint64_t n) {
  const bool psum0 = i.src0.space == NEURON_SPACE_PSUM;
  const bool psum1 = i.src1.space == NEURON_SPACE_PSUM;
  const unsigned op = i.vector.op0;
  const bool cheap = op == NEURON_ALU_ADD || op == NEURON_ALU_SUB || op == NEURON_ALU_MUL;
  const bool dense = contiguous(i.dst) && contiguous(i.src0) && contiguous(i.src1);
  const bool all_bf16 = is_bf16(i.dst) && is_bf16(i.src0) && is_bf16(i.src1);
  return psum0 != psum1 || (cheap && dense && all_bf16) ? n : 2 * n;
}

// Two streams are read: the predicate, and the source unless that is a scalar.
uint64_t predicated_cycles(const Instruction& i, uint64_t n) {
  if (!i.src0.present()) return n;
  return (i.src0.space == NEURON_SPACE_PSUM) != (i.src1.space == NEURON_SPACE_PSUM) ? n : 2 * n;
}

uint64_t reduce_cycles(const Instruction& i, uint64_t n) {
  const unsigned op = i.vector.reduce;
  const bool fast =
      is_bf16(i.dst) && is_bf16(i.src0) && (op == NEURON_ALU_ADD || op == NEURON_ALU_MAX);
  return fast ? n / 2 : n;
}

bool is_f8(const Operand& operand) {
  return operand.dtype == NEURON_DTYPE_F8E3 || operand.dtype == NEURON_DTYPE_F8E4 ||
         operand.dtype == NEURON_DTYPE_F8E5 || operand.dtype == NEURON_DTYPE_F8E4FN;
}

bool is_wide(const Operand& operand, const Timing& timing) {
  if (!operand.present() || dtype_bytes(operand.dtype) == 2) return false;
  return !timing.performance_modes_v4 || !is_f8(operand);
}

// How many times faster the Vector engine is in its performance modes (instruction reference):
// 16-bit types, from generation 4 on those of f8, too.
unsigned vector_mode(const Instruction& i, const Timing& timing) {
  if (is_wide(i.dst, timing) || is_wide(i.src0, timing) || is_wide(i.src1, timing)) return 1;
  const bool psum0 = i.src0.space == NEURON_SPACE_PSUM;
  switch (i.opcode) {
    case NEURON_OP_TENSOR_COPY:
    case NEURON_OP_TENSOR_SCALAR: {
      const bool psum1 = i.dst.space == NEURON_SPACE_PSUM;
      const bool dense = contiguous(i.dst) && contiguous(i.src0);
      if (psum0 && psum1) return 1;
      if (psum0 || psum1) return dense ? 2 : 1;
      return dense ? 4 : 2;
    }
    case NEURON_OP_TENSOR_TENSOR:
      return psum0 || i.src1.space == NEURON_SPACE_PSUM ? 1 : 2;
    default:
      return 1;
  }
}

uint64_t vector_cycles(const Instruction& i) {
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
      return i.vector.imm == 0 && dtype_bytes(i.dst.dtype) == 2 ? n / 2 : n;
    case NEURON_OP_READ_ACC:
      return kReadAccumulator;
    case NEURON_OP_TENSOR_TENSOR_SCAN:
      return 2 * n;
    case NEURON_OP_COPY_PREDICATED:
    case NEURON_OP_SELECT_REDUCE:  // our choice: it reads what copy_predicated reads
      return predicated_cycles(i, n);
    case NEURON_OP_EXPONENTIAL:
    case NEURON_OP_RAND2:
    case NEURON_OP_QUANTIZE_MX:
      return n / kFastLanes;
    case NEURON_OP_BN_AGGR:
      return 13 * n / 3;
    default:
      return n;
  }
}

// The caller adds 150 cycles of start, except for topk.
uint64_t pool_cycles(const Instruction& i) {
  const uint64_t n = i.dst.elements();
  switch (i.opcode) {
    case NEURON_OP_PARTITION_REDUCE:
      return kReduceLanes * i.src0.elements();
    case NEURON_OP_LOCAL_GATHER: {
      // Published: valid * e / (((28 + 4 e) / (4 e)) / min(4 / type bytes, e)).
      const uint64_t e = uint64_t{1} << i.pool.elements;
      const uint64_t bytes = std::max<uint64_t>(1, dtype_bytes(i.src0.dtype));
      return i.pool.count * e * std::min<uint64_t>(4 / std::min<uint64_t>(bytes, 4), e) * 4 * e /
             (28 + 4 * e);
    }
    case NEURON_OP_N_GATHER:  // our choice: every group of 512 but the first starts anew
      return (std::max<uint64_t>(n, 1) - 1) / kGatherGroup * kPoolStart + n;
    case NEURON_OP_SEQUENCE_BOUNDS:  // our choice: one pass for the ends, one for the starts
      return 2 * i.src0.elements();
    case NEURON_OP_NONZERO_WITH_COUNT:  // our choice: one pass, as for the ends of a sequence
      return i.src0.elements();
    case NEURON_OP_SENDRECV:
      return uint64_t{i.src0.parts} * i.src0.elements() * dtype_bytes(i.src0.dtype) /
             kExchangedBytes;
    case NEURON_OP_TOPK:
      return 4 * uint64_t{i.vector.imm} + i.pool.count;
    case NEURON_OP_CUSTOM_OPERATOR:  // and what it counts: operator_cost.h
      return 0;
    default:
      return n;
  }
}

// The Scalar engine computes rsqrt from tables; GpSimd iterates (instruction reference: 4 times
// slower).
bool is_slow_rsqrt(const Instruction& i) {
  return i.group() == 3 && (i.vector.op0 == NEURON_ALU_RSQRT || i.vector.op1 == NEURON_ALU_RSQRT);
}

bool loads_weights(const Instruction& i) {
  return i.opcode == NEURON_OP_LDWEIGHTS || i.opcode == NEURON_OP_LDWEIGHTS_MX ||
         i.opcode == NEURON_OP_LDWEIGHTS_SPARSE;
}

// double_row takes two rows of a partition in the time of one, a sparse product all its slots; mx
// has its four codes in one element.
uint64_t rows_at_a_time(const Instruction& i) {
  if (i.opcode == NEURON_OP_MATMUL_SPARSE) return sparsity_of(i.pe.mode).slots;
  const bool two = i.opcode == NEURON_OP_LDWEIGHTS || i.opcode == NEURON_OP_MATMUL;
  return two && i.pe.mode == NEURON_PE_DOUBLE_ROW ? 2 : 1;
}

uint64_t pe_cycles(const Instruction& i, const Timing& timing) {
  const uint64_t passes = pe_passes(i, timing);
  const uint64_t n = i.src0.elements() / rows_at_a_time(i);
  switch (i.opcode) {
    case NEURON_OP_LDWEIGHTS:
    case NEURON_OP_LDWEIGHTS_MX:
    case NEURON_OP_LDWEIGHTS_SPARSE:
      return std::max<uint64_t>(1, passes * n / kLoadSpeedup);
    case NEURON_OP_TRANSPOSE:
      return passes * std::max<uint64_t>(i.src0.parts, std::min<uint64_t>(64, n));
    default:
      return passes * std::max<uint64_t>(std::min<unsigned>(64, i.dst.parts), n);
  }
}

unsigned mode_of(const Instruction& i, unsigned engine, const Timing& timing) {
  if (timing.performance_modes && engine == NEURON_ENGINE_DVE) return vector_mode(i, timing);
  const bool fast = timing.performance_modes_v4 && engine == NEURON_ENGINE_ACTIVATION &&
                    !is_wide(i.dst, timing) && !is_wide(i.src0, timing);
  return fast ? 2 : 1;
}

uint64_t stream_cycles(const Instruction& i, unsigned engine, const Timing& timing) {
  uint64_t cycles = i.group() == 5 ? pool_cycles(i) : vector_cycles(i);
  cycles /= mode_of(i, engine, timing);
  if (strided(i.dst) || strided(i.src0) || strided(i.src1)) cycles *= 2;
  if (engine == NEURON_ENGINE_POOL) {
    if (is_slow_rsqrt(i)) cycles *= 4;
    // Our choice: two of the 32-bit words that its lanes have. sendrecv counts bytes.
    if (has_int64(i) && i.opcode != NEURON_OP_SENDRECV) cycles *= 2;
    return i.opcode == NEURON_OP_TOPK ? cycles : kPoolStart + cycles;
  }
  cycles = std::max(cycles, kMinInterval);
  return i.opcode == NEURON_OP_TENSOR_SCALAR_REDUCE ? cycles + kReadAccumulator : cycles;
}

// Rows of a pattern that are contiguous: each becomes a descriptor.
uint64_t rows_of(const std::array<DmaDimension, 4>& dims, unsigned bytes) {
  uint64_t rows = dims[0].step == static_cast<int32_t>(bytes) ? 1 : std::max(dims[0].size, 1u);
  for (unsigned d = 1; d < dims.size() && dims[d].size != 0 && rows < UINT32_MAX; ++d) {
    rows *= dims[d].size;
  }
  return std::min<uint64_t>(rows, UINT32_MAX);
}

Cost dma_cost(const Instruction& i, const Timing& timing) {
  Cost cost;
  cost.interval = timing.control_interval;
  if (i.opcode == NEURON_OP_DMA_TRIGGER) {
    cost.interval += 2 * static_cast<unsigned>(std::popcount(i.trigger.mask)) * timing.posted_write;
    return cost;
  }
  const uint64_t rows = i.opcode == NEURON_OP_DMA_GENERATE
                            ? std::max(rows_of(i.generate.to_dims, dtype_bytes(i.dma.to_type)),
                                       rows_of(i.generate.from_dims, dtype_bytes(i.dma.from_type)))
                            : i.src0.parts;
  cost.interval = std::max(kGenerate, 2 * rows * timing.posted_write);
  return cost;
}

const Clock& clock_of(unsigned engine, const Timing& timing) {
  return engine == NEURON_ENGINE_PE    ? timing.pe
         : engine == NEURON_ENGINE_DVE ? timing.vector
                                       : timing.others;
}

}  // namespace

ModelTime cycles_to_ps(unsigned engine, uint64_t cycles, unsigned generation) {
  return clock_of(engine, timing_of(generation)).time(cycles);
}

uint64_t cycles_of(const Instruction& i, unsigned engine, unsigned generation) {
  const Timing& timing = timing_of(generation);
  const unsigned group = i.group();
  if (group == 2) return pe_cycles(i, timing);
  if (group < 3 || group > 5 || i.opcode == NEURON_OP_LOAD_TABLE) return 0;
  return stream_cycles(i, engine, timing);
}

unsigned performance_mode(const Instruction& i, unsigned engine, unsigned generation) {
  const bool streams = (i.group() == 3 || i.group() == 4) && i.opcode != NEURON_OP_LOAD_TABLE;
  return streams ? mode_of(i, engine, timing_of(generation)) : 1;
}

Cost cost_of(const Instruction& i, unsigned engine, unsigned generation) {
  const Timing& timing = timing_of(generation);
  Cost cost;
  cost.interval = timing.control_interval;
  switch (i.group()) {
    case 2:
      cost.datapath = true;
      cost.interval = timing.pe.time(pe_cycles(i, timing));
      if (!loads_weights(i)) {
        cost.latency = timing.pe.time(kMatmulLatency);
      }
      return cost;
    case 3:
    case 4:
    case 5:
      break;
    case 6:
      return dma_cost(i, timing);
    default:
      if (i.opcode == NEURON_OP_WRITE || i.opcode == NEURON_OP_CC_TRIGGER) {
        cost.interval += (std::max<unsigned>(i.address.count, 1) - 1) * timing.posted_write;
      }
      return cost;
  }
  cost.datapath = true;
  if (i.opcode == NEURON_OP_LOAD_TABLE) {
    cost.interval = kLoadTable;
    return cost;
  }
  const Clock& clock = clock_of(engine, timing);
  cost.interval = clock.time(stream_cycles(i, engine, timing));
  cost.latency = clock.time(kAccessLatency);
  cost.dependent =
      clock.time(engine == NEURON_ENGINE_ACTIVATION ? kScalarDependentGap : kDependentGap);
  return cost;
}

}  // namespace neuron::isa
