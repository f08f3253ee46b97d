// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/opcode_table.h"

#include <algorithm>
#include <array>

#include "hw/isa.h"

namespace neuron::isa {
namespace {

constexpr uint8_t kPe = 1 << NEURON_ENGINE_PE;
constexpr uint8_t kAct = 1 << NEURON_ENGINE_ACTIVATION;
constexpr uint8_t kPool = 1 << NEURON_ENGINE_POOL;
constexpr uint8_t kDve = 1 << NEURON_ENGINE_DVE;
constexpr uint8_t kSp = 1 << NEURON_ENGINE_SP;
constexpr uint8_t kCc = 1 << NEURON_ENGINE_CC;
constexpr uint8_t kAll = kPe | kAct | kPool | kDve | kSp | kCc;

// Bits of the operation words.
constexpr uint64_t kOp0 = 0x3F, kOp1 = 0x3Full << 6, kRev0 = 1 << 12, kRev1 = 1 << 13;
constexpr uint64_t kReduce = 0x3Full << 14, kNegate = 1 << 23, kAxes = 7ull << 24;
constexpr uint64_t kReduceCommand = 7ull << 20, kInvert = 1ull << 27;
constexpr uint64_t kElements = 0xF << 12, kCount = 0xFFFFull << 16;
constexpr uint64_t kTableSet = 0xFFull << 8;
constexpr uint64_t kImm = 0xFFFFFFFFull << 32;
constexpr uint64_t kActBits = 0x1FFFFFFull | kImm;  // function, set, reduce, command; param
constexpr uint64_t kPre = 0x1Full << 25;  // steps of activate2, and which of them are reversed
constexpr uint64_t kRd = 0x3F, kRa = 0x3F << 6, kRb = 0x3F << 12, kUseImm = 1 << 18;
constexpr uint64_t kAlu = 0x3F << 19, kCond = 7 << 25, kUnsigned = 1 << 28, kTarget = kImm;
constexpr uint64_t kTile = 0xFF, kAcc = 1 << 11, kSwap = 1 << 12;
constexpr uint64_t kOneMoving = 1 << 13, kOneStationary = 1 << 14, kMode = 7 << 8;
constexpr uint64_t kQuarter = 3 << 15;

constexpr uint16_t kDst = kSlotDst, kA = kSlotSrc0, kB = kSlotSrc1;
constexpr uint16_t kS0 = kSlotScalar0, kS1 = kSlotScalar1;

// Layouts of the operation word.
constexpr OpWord kNoWord = OpWord::kNone, kVectorWord = OpWord::kVector, kActWord = OpWord::kAct,
                 kPeWord = OpWord::kPe, kFlowWord = OpWord::kFlow, kPoolWord = OpWord::kPool;

constexpr OpcodeInfo unavailable(uint16_t opcode, const char* name, uint8_t engines,
                                 uint8_t generation) {
  return {opcode, name, engines, 0, generation, false, 0, 0, kNoWord, 0};
}

// Ascending by opcode.
constexpr std::array kTable = {
    OpcodeInfo{NEURON_OP_NOP, "nop", kAll, 0, 2, true, 0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_HALT, "halt", kAll, 0, 2, true, 0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_DRAIN, "drain", kAll, 0, 2, true, 0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_EVENT, "event", kAll, 0, 2, true, 0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_WRITE, "write", kAll, 0, 2, true, kSlotAddress | kS0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_NOTIFY, "notify", kAll, 0, 2, true, 0, kS0 | kS1, kNoWord, 0},
    OpcodeInfo{NEURON_OP_COMPLETE, "complete", kAll, 0, 2, true, 0, kS0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_BRK, "brk", kAll, 0, 2, true, 0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_MODE, "mode", kAll, 0, 2, true, kS0 | kS1, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_ORDER, "order", kAll, 0, 2, true, kS0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_BARRIER, "barrier", kAll & ~kCc, 0, 3, true, kS0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_MOV, "mov", kAll, 0, 2, true, kS0, 0, kFlowWord, kRd},
    OpcodeInfo{NEURON_OP_ALU, "alu", kAll, 0, 2, true, 0, kS0, kFlowWord,
               kRd | kRa | kRb | kUseImm | kAlu | kUnsigned},
    OpcodeInfo{NEURON_OP_LOAD, "load", kAll, 0, 2, true, kSlotAddress, 0, kFlowWord, kRd},
    OpcodeInfo{NEURON_OP_STORE, "store", kAll, 0, 2, true, kSlotAddress, 0, kFlowWord, kRa},
    OpcodeInfo{NEURON_OP_BRANCH, "branch", kAll, 0, 2, true, 0, kS0, kFlowWord,
               kRa | kRb | kUseImm | kCond | kUnsigned | kTarget},
    OpcodeInfo{NEURON_OP_LOOP, "loop", kAll, 0, 2, true, kSlotLoop | kS0 | kS1, 0, kFlowWord, kRd},
    OpcodeInfo{NEURON_OP_CALL, "call", kAll, 0, 2, true, 0, 0, kFlowWord, kTarget},
    OpcodeInfo{NEURON_OP_RET, "ret", kAll, 0, 2, true, 0, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_SEM, "sem", kAll, 0, 2, true, kS0, 0, kFlowWord, kRd},
    OpcodeInfo{NEURON_OP_TIME, "time", kAll, 0, 2, true, 0, 0, kFlowWord, kRd},
    OpcodeInfo{NEURON_OP_IDENT, "ident", kAll, 0, 2, true, kS0, 0, kFlowWord, kRd},
    OpcodeInfo{NEURON_OP_LDWEIGHTS, "ldweights", kPe, 0, 2, true, kA, 0, kPeWord,
               kTile | kMode | kOneStationary},
    OpcodeInfo{NEURON_OP_MATMUL, "matmul", kPe, 0, 2, true, kDst | kA, 0, kPeWord,
               kTile | kMode | kAcc | kSwap | kOneMoving | kOneStationary},
    OpcodeInfo{NEURON_OP_TRANSPOSE, "transpose", kPe, 0, 2, true, kDst | kA, 0, kPeWord,
               kTile | kMode},
    OpcodeInfo{NEURON_OP_LDWEIGHTS_MX, "ldweights_mx", kPe, 0, 4, true, kA | kB, 0, kPeWord,
               kTile | kQuarter},
    OpcodeInfo{NEURON_OP_MATMUL_MX, "matmul_mx", kPe, 0, 4, true, kDst | kA | kB, 0, kPeWord,
               kTile | kAcc | kSwap | kQuarter},
    OpcodeInfo{NEURON_OP_LDWEIGHTS_SPARSE, "ldweights_sparse", kPe, 0, 3, true, kA | kB, 0, kPeWord,
               kTile | kMode},
    OpcodeInfo{NEURON_OP_MATMUL_SPARSE, "matmul_sparse", kPe, 0, 3, true, kDst | kA, 0, kPeWord,
               kTile | kMode | kAcc | kSwap},
    OpcodeInfo{NEURON_OP_TENSOR_TENSOR, "tensor_tensor", kDve | kPool, 0, 2, true, kDst | kA | kB,
               0, kVectorWord, kOp0},
    OpcodeInfo{NEURON_OP_TENSOR_SCALAR, "tensor_scalar", kDve | kPool, kAct, 2, true, kDst | kA,
               kS0 | kS1, kVectorWord, kOp0 | kOp1 | kRev0 | kRev1},
    OpcodeInfo{NEURON_OP_SCALAR_TENSOR_TENSOR, "scalar_tensor_tensor", kDve, 0, 2, true,
               kDst | kA | kB | kS0, 0, kVectorWord, kOp0 | kOp1 | kRev0 | kRev1},
    OpcodeInfo{NEURON_OP_TENSOR_SCALAR_REDUCE, "tensor_scalar_reduce", kDve, 0, 2, true,
               kDst | kA | kS0, kS1, kVectorWord, kOp0 | kReduce | kReduceCommand},
    OpcodeInfo{NEURON_OP_TENSOR_SCALAR_CUMULATIVE, "tensor_scalar_cumulative", kDve, 0, 2, true,
               kDst | kA | kS0, kS1, kVectorWord, kOp0 | kOp1 | kRev0 | kReduceCommand},
    OpcodeInfo{NEURON_OP_TENSOR_REDUCE, "tensor_reduce", kDve, kPool, 2, true, kDst | kA, 0,
               kVectorWord, kReduce | kNegate | kAxes},
    OpcodeInfo{NEURON_OP_TENSOR_TENSOR_SCAN, "tensor_tensor_scan", kDve, 0, 2, true,
               kDst | kA | kB | kS0, 0, kVectorWord, kOp0 | kOp1 | kRev0 | kRev1},
    OpcodeInfo{NEURON_OP_TENSOR_COPY, "tensor_copy", kDve | kPool, kAct, 2, true, kDst | kA, 0,
               kVectorWord, 0},
    OpcodeInfo{NEURON_OP_COPY_PREDICATED, "copy_predicated", kDve, 0, 2, true, kDst | kB, kA | kS0,
               kVectorWord, kInvert},
    OpcodeInfo{NEURON_OP_SELECT_REDUCE, "select_reduce", kDve, 0, 3, true, kDst | kA | kB | kS0, 0,
               kVectorWord, kReduce | kReduceCommand | kInvert},
    OpcodeInfo{NEURON_OP_RANGE_SELECT, "range_select", kDve, 0, 3, true, kDst | kA | kS0 | kS1, 0,
               kVectorWord, kOp0 | kOp1 | kReduce | kReduceCommand | kImm},
    OpcodeInfo{NEURON_OP_RECIPROCAL, "reciprocal", kDve, 0, 2, true, kDst | kA, 0, kVectorWord, 0},
    OpcodeInfo{NEURON_OP_EXPONENTIAL, "exponential", kDve, 0, 4, true, kDst | kA, kS0 | kS1,
               kVectorWord, kReduce | kReduceCommand},
    OpcodeInfo{NEURON_OP_BN_STATS, "bn_stats", kDve, 0, 2, true, kDst | kA, 0, kVectorWord, 0},
    OpcodeInfo{NEURON_OP_BN_AGGR, "bn_aggr", kDve, 0, 2, true, kDst | kA, 0, kVectorWord, 0},
    OpcodeInfo{NEURON_OP_MAX8, "max8", kDve, 0, 2, true, kDst | kA, 0, kVectorWord, 0},
    OpcodeInfo{NEURON_OP_FIND_INDEX8, "find_index8", kDve, 0, 2, true, kDst | kA | kB, 0,
               kVectorWord, 0},
    OpcodeInfo{NEURON_OP_MATCH_REPLACE8, "match_replace8", kDve, 0, 2, true, kDst | kA | kS0, kS1,
               kVectorWord, kImm},
    OpcodeInfo{NEURON_OP_STREAM_SHUFFLE, "stream_shuffle", kDve, 0, 2, true,
               kDst | kA | kSlotShuffle, 0, kVectorWord, 0},
    OpcodeInfo{NEURON_OP_TRANSPOSE32, "transpose32", kDve, 0, 2, true, kDst | kA, 0, kVectorWord,
               0},
    OpcodeInfo{NEURON_OP_DROPOUT, "dropout", kDve, 0, 2, true, kDst | kA | kS0, 0, kVectorWord,
               kInvert},
    OpcodeInfo{NEURON_OP_MEMSET, "memset", kDve | kPool, 0, 2, true, kDst, 0, kVectorWord, kImm},
    OpcodeInfo{NEURON_OP_RNG, "rng", kDve, kPool, 2, true, kDst, 0, kVectorWord, 0},
    OpcodeInfo{NEURON_OP_SET_RNG_SEED, "set_rng_seed", kDve, 0, 2, true, kA, 0, kVectorWord, 0},
    OpcodeInfo{NEURON_OP_RAND_SET_STATE, "rand_set_state", kDve | kPool, 0, 3, true, kA, 0,
               kVectorWord, 0},
    OpcodeInfo{NEURON_OP_RAND_GET_STATE, "rand_get_state", kDve | kPool, 0, 3, true, kDst, 0,
               kVectorWord, 0},
    OpcodeInfo{NEURON_OP_RAND2, "rand2", kDve, 0, 4, true, kDst | kS0 | kS1, 0, kVectorWord, 0},
    OpcodeInfo{NEURON_OP_QUANTIZE_MX, "quantize_mx", kDve, 0, 4, true, kDst | kA | kB, 0,
               kVectorWord, kImm},
    OpcodeInfo{NEURON_OP_READ_ACC, "read_acc", kDve | kAct, 0, 2, true, kDst, 0, kVectorWord,
               kNegate},
    OpcodeInfo{NEURON_OP_ACTIVATE, "activate", kAct, 0, 2, true, kDst | kA, kS0 | kS1, kActWord,
               kActBits},
    OpcodeInfo{NEURON_OP_ACTIVATE2, "activate2", kAct, 0, 4, true, kDst | kA, kS0 | kS1, kActWord,
               kActBits | kPre},
    unavailable(0x402, "activate_quantize", kAct, 4),
    OpcodeInfo{NEURON_OP_LOAD_TABLE, "load_table", kAct, 0, 2, true, kSlotAddress, 0, kActWord,
               kTableSet},
    OpcodeInfo{NEURON_OP_IOTA, "iota", kPool, 0, 2, true, kDst | kSlotPattern, kS0, kPoolWord,
               kImm},
    OpcodeInfo{NEURON_OP_AFFINE_SELECT, "affine_select", kPool, 0, 2, true,
               kDst | kA | kSlotPattern | kS0, kS1, kPoolWord, kOp0 | kImm},
    OpcodeInfo{NEURON_OP_PARTITION_REDUCE, "partition_reduce", kPool, 0, 2, true, kDst | kA, 0,
               kPoolWord, kOp0},
    OpcodeInfo{NEURON_OP_LOCAL_GATHER, "local_gather", kPool, 0, 2, true, kDst | kA | kB, 0,
               kPoolWord, kElements | kCount},
    OpcodeInfo{NEURON_OP_N_GATHER, "n_gather", kPool, 0, 2, true, kDst | kA | kB, 0, kPoolWord, 0},
    OpcodeInfo{NEURON_OP_SEQUENCE_BOUNDS, "sequence_bounds", kPool, 0, 2, true, kDst | kA, 0,
               kPoolWord, 0},
    OpcodeInfo{NEURON_OP_NONZERO_WITH_COUNT, "nonzero_with_count", kPool, 0, 3, true, kDst | kA,
               kS0, kPoolWord, kImm},
    OpcodeInfo{NEURON_OP_TOPK, "topk", kPool, 0, 2, true, kDst | kA | kB, 0, kPoolWord,
               kCount | kImm},
    OpcodeInfo{NEURON_OP_SENDRECV, "sendrecv", kPool, 0, 3, true, kDst | kA | kS0, 0, kPoolWord, 0},
    OpcodeInfo{NEURON_OP_CUSTOM, "custom", kPool, 0, 2, true, kDst | kA, kB, kPoolWord, kImm},
    OpcodeInfo{NEURON_OP_CUSTOM_OPERATOR, "custom_operator", kPool, 0, 2, true, kSlotAddress, 0,
               kNoWord, 0},
    OpcodeInfo{NEURON_OP_DMA_TRIGGER, "dma_trigger", kAll, 0, 2, true, kSlotTrigger, 0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_DMA_GENERATE, "dma_generate", kPool, kSp | kAct, 2, true, kSlotGenerate, 0,
               kNoWord, 0},
    OpcodeInfo{NEURON_OP_DMA_GATHER, "dma_gather", kPool, 0, 2, true, kDst | kA | kSlotIndirect, 0,
               kNoWord, 0},
    OpcodeInfo{NEURON_OP_DMA_SCATTER, "dma_scatter", kPool, 0, 2, true, kDst | kA | kSlotIndirect,
               0, kNoWord, 0},
    OpcodeInfo{NEURON_OP_CC_TRIGGER, "cc_trigger", kAll, 0, 2, true, kSlotAddress | kS0, 0, kNoWord,
               0},
    OpcodeInfo{NEURON_OP_CC_ADVANCE, "cc_advance", kCc, 0, 2, true, kS0, kS1, kNoWord, 0},
};

constexpr bool ascending() {
  for (size_t i = 1; i < kTable.size(); ++i) {
    if (kTable[i - 1].opcode >= kTable[i].opcode) return false;
  }
  return true;
}
static_assert(ascending());

// Opcode to index in the table + 1, so that decoding needs no search.
constexpr auto kIndex = [] {
  std::array<uint8_t, 0x800> index{};
  for (size_t i = 0; i < kTable.size(); ++i) {
    index[kTable[i].opcode] = static_cast<uint8_t>(i + 1);
  }
  return index;
}();

}  // namespace

const OpcodeInfo* find_opcode(unsigned opcode) {
  if (opcode >= kIndex.size() || kIndex[opcode] == 0) return nullptr;
  return &kTable[kIndex[opcode] - 1];
}

unsigned first_generation(const OpcodeInfo& info, unsigned engine) {
  if (engine > NEURON_ENGINE_CC) return 0;
  const unsigned bit = 1u << engine;
  const bool state =
      info.opcode == NEURON_OP_RAND_SET_STATE || info.opcode == NEURON_OP_RAND_GET_STATE;
  if (state && engine == NEURON_ENGINE_DVE) return 4;
  if (info.engines & bit) return info.generation;
  return info.engines_v3 & bit ? 3 : 0;
}

std::span<const OpcodeInfo> all_opcodes() { return kTable; }

}  // namespace neuron::isa
