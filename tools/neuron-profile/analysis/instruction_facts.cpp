// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/instruction_facts.h"

#include <algorithm>

#include "driver/isa/opcode_table.h"
#include "driver/isa/sparsity.h"

namespace neuron::profile {
namespace {

constexpr unsigned kTensorGroup = 2, kLastComputingGroup = 5;
// An operand of more runs than this counts as all bytes from its first to its last.
constexpr uint64_t kMostRuns = 64;

enum Place : unsigned { kDst = 0, kSrc0 = 1, kSrc1 = 2 };

struct Bound {
  bool place = false;  // where the operand lies
  bool size = false;
};

Bound bound_of(const isa::Instruction& i, unsigned place) {
  Bound bound;
  for (const isa::Binding& one : i.bind) {
    if (one.mode == NEURON_BIND_UNUSED || one.item == NEURON_BIND_SCALAR) continue;
    if (one.operand != place) continue;
    const bool where = one.item == NEURON_BIND_BASE || one.item == NEURON_BIND_START;
    (where ? bound.place : bound.size) = true;
  }
  return bound;
}

// A second destination in the place of src1.
bool writes_second(unsigned opcode) {
  return opcode == NEURON_OP_QUANTIZE_MX || opcode == NEURON_OP_TOPK;
}

void add_pieces(const isa::Operand& operand, bool write, bool keeps,
                std::vector<TilePiece>& pieces) {
  const int64_t bytes = isa::dtype_bytes(operand.dtype);
  if (bytes == 0 || operand.parts == 0) return;
  TilePiece piece{.space = operand.space,
                  .start = operand.start,
                  .parts = operand.parts,
                  .write = write,
                  .keeps = keeps};
  const auto push = [&](int64_t begin, int64_t end) {
    piece.begin = static_cast<uint32_t>(std::clamp<int64_t>(begin, 0, UINT32_MAX));
    piece.end = static_cast<uint32_t>(std::clamp<int64_t>(end, 0, UINT32_MAX));
    if (!pieces.empty() && pieces.back().end == piece.begin && pieces.back().write == write &&
        pieces.back().start == piece.start && pieces.back().space == piece.space) {
      pieces.back().end = piece.end;
    } else if (piece.begin < piece.end) {
      pieces.push_back(piece);
    }
  };
  // From the first to behind the last byte of some inner dimensions.
  const int dimensions = std::min<int>(operand.ndim, 4);
  int64_t low = 0, high = bytes;
  uint64_t runs = 1;
  int outer = dimensions;  // from here on, each index is a run of its own
  for (int d = 0; d < dimensions; ++d) {
    const int64_t count = operand.size[d], step = operand.step[d] * bytes;
    if (count == 0) return;
    if (count == 1 || step == 0) continue;
    const bool touches = d == 0 || std::abs(step) <= high - low;
    if (!touches && outer == dimensions) outer = d;
    if (outer != dimensions) {
      runs *= static_cast<uint64_t>(count);
    } else {
      (step < 0 ? low : high) += step * (count - 1);
    }
  }
  const int64_t base = operand.base;
  if (runs == 1) return push(base + low, base + high);
  if (runs > kMostRuns) {
    for (int d = outer; d < dimensions; ++d) {
      const int64_t step = operand.step[d] * bytes;
      (step < 0 ? low : high) += step * (operand.size[d] - 1);
    }
    return push(base + low, base + high);
  }
  const size_t first = pieces.size();
  for (uint64_t run = 0; run < runs; ++run) {
    int64_t offset = 0;
    uint64_t rest = run;
    for (int d = outer; d < dimensions; ++d) {
      const uint64_t count = operand.step[d] == 0 ? 1 : operand.size[d];
      offset += static_cast<int64_t>(rest % count) * operand.step[d] * bytes;
      rest /= count;
    }
    push(base + offset + low, base + offset + high);
  }
  // Strict ascending order is what joins them; a negative step comes the other way.
  std::sort(pieces.begin() + static_cast<ptrdiff_t>(first), pieces.end(),
            [](const TilePiece& a, const TilePiece& b) { return a.begin < b.begin; });
}

class Reader {
 public:
  Reader(const isa::Instruction& i, InstructionFacts& facts) : i_(i), facts_(facts) {}

  void read_operands() {
    facts_.has_bytes = true;
    const bool adds = i_.group() == kTensorGroup && i_.pe.accumulate;
    operand(i_.src0, kSrc0, false, false);
    operand(i_.src1, kSrc1, writes_second(i_.opcode), false);
    for (const isa::Scalar& scalar : {i_.scalar0, i_.scalar1}) {
      if (scalar.kind != NEURON_SCALAR_POINTER) continue;
      const uint64_t bytes = uint64_t{i_.dst.parts} * isa::dtype_bytes(scalar.dtype);
      (scalar.space == NEURON_SPACE_PSUM ? facts_.psum_read : facts_.sbuf_read) += bytes;
      facts_.pieces.push_back({.space = scalar.space,
                               .start = scalar.start,
                               .parts = i_.dst.parts,
                               .begin = scalar.value,
                               .end = scalar.value + isa::dtype_bytes(scalar.dtype)});
    }
    operand(i_.dst, kDst, true, adds);
  }

 private:
  void operand(const isa::Operand& operand, unsigned place, bool write, bool keeps) {
    if (!operand.present()) return;
    const Bound bound = bound_of(i_, place);
    if (bound.size || operand.indirect) {
      facts_.has_bytes = false;
      return;
    }
    const uint64_t bytes = operand.elements() * operand.parts * isa::dtype_bytes(operand.dtype);
    const bool psum = operand.space == NEURON_SPACE_PSUM;
    (write  ? psum ? facts_.psum_write : facts_.sbuf_write
     : psum ? facts_.psum_read
            : facts_.sbuf_read) += bytes;
    if (!bound.place) add_pieces(operand, write, keeps, facts_.pieces);
  }

  const isa::Instruction& i_;
  InstructionFacts& facts_;
};

uint64_t planes_of(const isa::Instruction& i) {
  constexpr uint64_t kCodes = NEURON_MX_CODES;
  if (i.opcode == NEURON_OP_MATMUL_MX) return kCodes;
  if (i.opcode == NEURON_OP_MATMUL_SPARSE) return isa::sparsity_of(i.pe.mode).slots;
  return i.pe.mode == NEURON_PE_DOUBLE_ROW ? 2 : 1;
}

// Times of bf16, as the original's documentation counts them.
double passes_of(const isa::Instruction& i, unsigned generation) {
  switch (i.src0.dtype) {
    case NEURON_DTYPE_F32:
      return 4;
    case NEURON_DTYPE_F8E3:
    case NEURON_DTYPE_F8E4:
    case NEURON_DTYPE_F8E5:
    case NEURON_DTYPE_F8E4FN:
      return generation == 2 ? 1 : 0.5;
    case NEURON_DTYPE_U8:
      return 0.5;
    case NEURON_DTYPE_F4X4:
    case NEURON_DTYPE_F8E5X4:
    case NEURON_DTYPE_F8E4FNX4:
      return 0.25;
    default:
      return 1;
  }
}

void read_product(const isa::Instruction& i, unsigned generation, InstructionFacts& facts) {
  switch (i.opcode) {
    case NEURON_OP_TRANSPOSE:
      facts.transposes = true;
      facts.flops = 2 * uint64_t{i.src0.parts} * i.src0.parts * i.src0.elements();
      break;
    case NEURON_OP_MATMUL:
    case NEURON_OP_MATMUL_MX:
    case NEURON_OP_MATMUL_SPARSE:
      facts.flops = 2 * uint64_t{i.src0.parts} * i.dst.parts * i.dst.elements() * planes_of(i);
      break;
    default:
      return;
  }
  facts.multiplies = true;
  facts.bf16_passes = passes_of(i, generation);
}

uint32_t row_bytes_of(const isa::Instruction& i) {
  if (i.opcode == NEURON_OP_DMA_GATHER || i.opcode == NEURON_OP_DMA_SCATTER) {
    return i.indirect.row_bytes;
  }
  if (i.opcode != NEURON_OP_DMA_GENERATE || i.dma.operation != NEURON_DMA_COPY) return 0;
  const isa::DmaDimension& inner = i.generate.from_dims[0];
  const auto bytes = static_cast<int64_t>(isa::dtype_bytes(i.dma.from_type));
  return bytes != 0 && inner.step == bytes ? static_cast<uint32_t>(inner.size * bytes) : 0;
}

}  // namespace

InstructionFacts facts_of(const Program& program, unsigned engine, uint32_t pc) {
  InstructionFacts facts;
  if (!program.has(engine, pc)) return facts;
  const isa::Instruction i = program.instruction(engine, pc);
  if (i.group() >= kTensorGroup && i.group() <= kLastComputingGroup) {
    Reader(i, facts).read_operands();
  }
  if (i.group() == kTensorGroup) read_product(i, program.generation, facts);
  if (i.opcode == NEURON_OP_ACTIVATE || i.opcode == NEURON_OP_ACTIVATE2) {
    facts.activation = isa::activation_name(i.act.function);
    std::transform(facts.activation.begin(), facts.activation.end(), facts.activation.begin(),
                   [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c); });
  }
  if (isa::meets_other_core(i.opcode)) {
    facts.meets_core = true;
    facts.semaphore = i.scalar0.value;
  }
  if (i.opcode == NEURON_OP_DMA_TRIGGER) facts.block = i.trigger.block;
  facts.row_bytes = row_bytes_of(i);
  return facts;
}

}  // namespace neuron::profile
