// SPDX-License-Identifier: Apache-2.0
// Rules of dma_generate, dma_gather and dma_scatter: dma.ctl, patterns, the SBUF side.
#include <algorithm>
#include <cstdlib>

#include "driver/isa/opcode_table.h"
#include "driver/isa/operand_rules.h"

namespace neuron::isa {
namespace {

// A generated transfer has less than 4 GiB, in rows of which each becomes at least one descriptor.
constexpr uint64_t kMaxBytes = UINT32_MAX;
constexpr uint64_t kMaxRows = 1 << 20;
constexpr unsigned kMaxTransposed = 65535;  // rows or columns

Violation field(unsigned offset, uint32_t value, const char* what) {
  return violation(NEURON_FAULT_ILLEGAL_FIELD, offset, value, what);
}
Violation shape(unsigned offset, uint64_t value, const char* what) {
  return violation(NEURON_FAULT_OPERAND_SHAPE, offset,
                   static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)), what);
}

bool combines(unsigned operation) {
  return operation >= NEURON_DMA_FMA && operation <= NEURON_DMA_MAX;
}

Violation check_control(const DmaControl& ctl, const Limits& limits) {
  constexpr unsigned at = NEURON_DMA_CTL;
  if (ctl.operation > NEURON_DMA_TRANSPOSE) {
    return field(at, ctl.operation, "the operation of a DMA must be 0 to 6");
  }
  const unsigned types[] = {ctl.from_type, ctl.to_type};
  for (unsigned t = 0; t < 2; ++t) {
    if (types[t] == NEURON_DTYPE_NONE || types[t] > NEURON_DTYPE_F8E4FNX4) {
      return field(at + t, types[t], "the data types of a DMA must be listed ones");
    }
    if (types[t] > NEURON_DTYPE_TF32 && !limits.block_scaled_types) {
      return violation(NEURON_FAULT_WRONG_GENERATION, at + t, types[t],
                       "the data type needs generation 4");
    }
  }
  if (ctl.accumulate && !combines(ctl.operation)) {
    return violation(NEURON_FAULT_OP_NOT_ALLOWED, at + 2, ctl.operation,
                     "only fma, add, min and max take the destination as one more source");
  }
  if (ctl.generator && !limits.dma_generators) {
    return violation(NEURON_FAULT_WRONG_GENERATION, at + 2, 1,
                     "descriptor generators come with generation 3; the field must be 0");
  }
  if (ctl.priority && !limits.dma_priorities) {
    return violation(NEURON_FAULT_WRONG_GENERATION, at + 2, ctl.priority,
                     "priorities need generation 4; the field must be 0");
  }
  if (ctl.mask == 0) return field(at + 4, 0, "at least one DMA engine must take part");
  if (ctl.semaphore && !ctl.signal) {
    return field(at + 6, ctl.semaphore, "without signal the semaphore must be 0");
  }
  return {};
}

// Copies and transposes move bits; everything else goes through fp32.
Violation check_types(const DmaControl& ctl) {
  constexpr unsigned at = NEURON_DMA_CTL;
  const unsigned from = dtype_bytes(ctl.from_type), to = dtype_bytes(ctl.to_type);
  if (from == 0 || to == 0) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, from == 0 ? at : at + 1,
                     from == 0 ? ctl.from_type : ctl.to_type,
                     "the data types of a DMA must be listed ones", 3);
  }
  const bool moves = ctl.operation == NEURON_DMA_COPY || ctl.operation == NEURON_DMA_TRANSPOSE;
  if (moves && ctl.from_type != ctl.to_type) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, at + 1, ctl.to_type,
                     "copy and transpose keep the data type", 3);
  }
  if (ctl.operation == NEURON_DMA_TRANSPOSE && from != 2 && from != 4) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, at, ctl.from_type,
                     "a DMA transposes elements of 2 or 4 bytes", 3);
  }
  const bool raw = is_packed_dtype(ctl.from_type) || is_packed_dtype(ctl.to_type) ||
                   ctl.from_type == NEURON_DTYPE_E8M0 || ctl.to_type == NEURON_DTYPE_E8M0;
  if (!moves && raw) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, at, ctl.from_type,
                     "x4 types and scales are copied, not computed on", 3);
  }
  if (!moves && (from > 4 || to > 4)) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, from > 4 ? at : at + 1,
                     from > 4 ? ctl.from_type : ctl.to_type,
                     "a DMA computes on elements of 1, 2 or 4 bytes", 3);
  }
  return {};
}

// Used dimensions come first. A size that comes from a register is at least 1, like any other.
Violation check_dimensions(const std::array<DmaDimension, 4>& dims, unsigned offset,
                           unsigned code) {
  unsigned used = 0;
  while (used < dims.size() && dims[used].size != 0) ++used;
  if (used == 0) return violation(code, offset, 0, "a pattern has at least one dimension");
  for (unsigned d = used; d < dims.size(); ++d) {
    if (dims[d].size || dims[d].step) {
      return violation(code, offset + 8 * d, dims[d].size,
                       "size and step of an unused dimension must be 0");
    }
  }
  return {};
}

// Elements of a pattern; 0 if there are too many.
uint64_t elements(const std::array<DmaDimension, 4>& dims) {
  uint64_t n = 1;
  for (const DmaDimension& d : dims) {
    if (d.size == 0) break;
    n *= d.size;
    if (n > kMaxBytes) return 0;
  }
  return n;
}

Violation check_pattern(const std::array<DmaDimension, 4>& dims, unsigned offset, unsigned bytes) {
  if (Violation v = check_dimensions(dims, offset, NEURON_FAULT_OPERAND_SHAPE)) return v;
  const uint64_t n = elements(dims);
  if (n == 0 || n * bytes > kMaxBytes) {
    return shape(offset, n * bytes, "a transfer has less than 4 GiB");
  }
  const bool dense = dims[0].size == 1 || dims[0].step == static_cast<int32_t>(bytes);
  const uint64_t rows = dense ? n / dims[0].size : n;
  if (rows > kMaxRows) {
    return shape(offset, rows, "a transfer has at most 1048576 rows that are contiguous");
  }
  return {};
}

Violation check_generate(const Instruction& i) {
  const DmaGenerateBody& body = i.generate;
  const DmaControl& ctl = i.dma;
  if (Violation v = check_types(ctl)) return v;
  if (Violation v =
          check_pattern(body.to_dims, NEURON_DMA_GENERATE_TO_DIMS, dtype_bytes(ctl.to_type))) {
    return v;
  }
  if (Violation v = check_pattern(body.from_dims, NEURON_DMA_GENERATE_FROM_DIMS,
                                  dtype_bytes(ctl.from_type))) {
    return v;
  }
  if (ctl.operation != NEURON_DMA_TRANSPOSE) {
    if (elements(body.to_dims) != elements(body.from_dims)) {
      return shape(NEURON_DMA_GENERATE_TO_DIMS, elements(body.to_dims),
                   "both patterns must have the same number of elements");
    }
    return {};
  }
  const std::array<DmaDimension, 4>* patterns[] = {&body.to_dims, &body.from_dims};
  const unsigned offsets[] = {NEURON_DMA_GENERATE_TO_DIMS, NEURON_DMA_GENERATE_FROM_DIMS};
  for (unsigned p = 0; p < 2; ++p) {
    const auto& dims = *patterns[p];
    if (dims[1].size == 0 || dims[2].size != 0) {
      return shape(offsets[p] + 8, dims[2].size ? 3 : 1,
                   "a transpose has 2 dimensions: columns, then rows");
    }
    for (unsigned d = 0; d < 2; ++d) {
      if (dims[d].size > kMaxTransposed) {
        return shape(offsets[p] + 8 * d, dims[d].size,
                     "a transpose has at most 65535 rows and columns");
      }
    }
  }
  for (unsigned d = 0; d < 2; ++d) {
    if (body.to_dims[d].size != body.from_dims[1 - d].size) {
      return shape(NEURON_DMA_GENERATE_TO_DIMS + 8 * d, body.to_dims[d].size,
                   "a transpose of [rows, columns] writes [columns, rows]");
    }
  }
  return {};
}

Violation check_indirect(const Instruction& i, unsigned engine, const Limits& limits) {
  const DmaIndirectBody& body = i.indirect;
  const bool gather = i.opcode == NEURON_OP_DMA_GATHER;
  if (Violation v = check_tile(i.dst, 0, engine, limits)) return v;
  if (Violation v = check_tile(i.src0, 1, engine, limits)) return v;
  if (Violation v = check_types(i.dma)) return v;
  if (i.dst.dtype != (gather ? i.dma.to_type : i.dma.from_type)) {
    return wrong_dtype(0, i.dst.dtype, "the SBUF side must have the data type that dma.ctl names");
  }
  if (i.src0.dtype != NEURON_DTYPE_U32) {
    return wrong_dtype(1, i.src0.dtype, "row indices are u32");
  }
  if (i.src0.elements() != 1) {
    return wrong_shape(1, kSizeByte, i.src0.elements(), "there is one row index per partition");
  }
  const unsigned bytes = dtype_bytes(gather ? i.dma.from_type : i.dma.to_type);
  if (body.row_bytes == 0 || body.row_bytes % bytes != 0) {
    return shape(NEURON_DMA_INDIRECT_ROW_BYTES, body.row_bytes,
                 "row_bytes must be a multiple of the element size, at least one element");
  }
  const uint64_t columns = body.row_bytes / bytes;
  // A transposing gather writes the row that index p names as column p.
  const bool transpose = i.dma.operation == NEURON_DMA_TRANSPOSE;
  const uint64_t parts = transpose ? columns : i.src0.parts;
  const uint64_t row = transpose ? i.src0.parts : columns;
  if (i.dst.parts != parts) {
    return wrong_shape(0, kPartsByte, i.dst.parts,
                       transpose ? "a transposing gather fills a partition for each column"
                                 : "the SBUF side must have a partition for each row index");
  }
  if (i.dst.elements() != row) {
    return wrong_shape(0, kSizeByte, i.dst.elements(),
                       transpose ? "a transposing gather fills an element for each row index"
                                 : "the SBUF side must have as many elements as row_bytes holds");
  }
  return {};
}

}  // namespace

Violation check_dma_encoding(const Instruction& i, unsigned slots, const Limits& limits) {
  if (Violation v = check_control(i.dma, limits)) return v;
  if (i.opcode == NEURON_OP_DMA_SCATTER && i.dma.operation == NEURON_DMA_TRANSPOSE) {
    return violation(NEURON_FAULT_OP_NOT_ALLOWED, NEURON_DMA_CTL, i.dma.operation,
                     "dma_scatter does not transpose");
  }
  if (slots & kSlotIndirect) {
    if (i.indirect.rows == 0) {
      return field(NEURON_DMA_INDIRECT_ROWS, 0, "the table of rows has at least one row");
    }
    return {};
  }
  constexpr unsigned code = NEURON_FAULT_ILLEGAL_FIELD;
  if (Violation v = check_dimensions(i.generate.to_dims, NEURON_DMA_GENERATE_TO_DIMS, code)) {
    return v;
  }
  if (Violation v = check_dimensions(i.generate.from_dims, NEURON_DMA_GENERATE_FROM_DIMS, code)) {
    return v;
  }
  const bool scaled = i.dma.operation >= NEURON_DMA_FMA && i.dma.operation <= NEURON_DMA_MAX &&
                      i.dma.operation != NEURON_DMA_ADD;
  if (i.generate.scale && !scaled) {
    return field(NEURON_DMA_GENERATE_SCALE, i.generate.scale,
                 "only fma, min and max have a factor or a constant");
  }
  return {};
}

Violation check_dma_operands(const Instruction& i, unsigned engine, const Limits& limits) {
  switch (i.opcode) {
    case NEURON_OP_DMA_GENERATE:
      return check_generate(i);
    case NEURON_OP_DMA_GATHER:
    case NEURON_OP_DMA_SCATTER:
      return check_indirect(i, engine, limits);
    default:
      return {};
  }
}

}  // namespace neuron::isa
