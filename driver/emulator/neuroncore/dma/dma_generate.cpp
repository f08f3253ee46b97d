// SPDX-License-Identifier: Apache-2.0
// dma_generate: two byte patterns of device memory, walked together.
//
// Bytes that are contiguous on both sides form a row. A row is cut into descriptors of at most 64
// KiB, all on its engine. Contiguous dimensions are merged, except with a limit: then each
// innermost dimension is a row that is in bounds or not. A transpose is cut into blocks.
#include <algorithm>

#include "driver/emulator/neuroncore/dma/dma_packets.h"
#include "hw/udma.h"

namespace neuron::core {
namespace {

// One side's pattern as runs of contiguous elements.
class Walk {
 public:
  // With `merge`, contiguous dimensions become one.
  Walk(uint64_t base, const std::array<isa::DmaDimension, 4>& dims, unsigned bytes, bool merge)
      : at_(base), bytes_(bytes) {
    for (const isa::DmaDimension& d : dims) {
      if (d.size == 0) break;
      total_ *= d.size;
      if (d.size == 1) continue;
      const bool innermost = &d == &dims[0];
      if (dims_ == 0 && (innermost || merge) && d.step == static_cast<int64_t>(run_ * bytes)) {
        run_ *= d.size;
      } else if (dims_ != 0 &&
                 d.step == step_[dims_ - 1] * static_cast<int64_t>(size_[dims_ - 1])) {
        size_[dims_ - 1] *= d.size;
      } else {
        size_[dims_] = d.size;
        step_[dims_] = d.step;
        ++dims_;
      }
    }
    left_ = run_;
  }

  uint64_t total() const { return total_; }
  uint64_t runs() const { return total_ / run_; }
  uint64_t address() const { return at_ + (run_ - left_) * bytes_; }
  uint64_t left_in_run() const { return left_; }
  void advance(uint64_t elements) {
    left_ -= elements;
    if (left_ != 0) return;
    left_ = run_;
    for (unsigned d = 0; d < dims_; ++d) {
      at_ += static_cast<uint64_t>(step_[d]);
      if (++index_[d] < size_[d]) return;
      at_ -= static_cast<uint64_t>(step_[d] * static_cast<int64_t>(size_[d]));
      index_[d] = 0;
    }
  }

 private:
  uint64_t at_;
  const uint64_t bytes_;
  uint64_t run_ = 1, left_ = 1, total_ = 1;
  unsigned dims_ = 0;
  std::array<uint64_t, 4> size_{}, index_{};
  std::array<int64_t, 4> step_{};
};

// The bytes of the dynamic side that a program may touch: [base, base + limit), limit 0 = any.
struct Bounds {
  bool of_source;
  uint64_t base;
  uint32_t limit;
  bool skip;

  bool hold(uint64_t from, uint64_t from_bytes, uint64_t to, uint64_t to_bytes) const {
    if (limit == 0) return true;
    const uint64_t offset = (of_source ? from : to) - base;
    const uint64_t bytes = of_source ? from_bytes : to_bytes;
    return offset <= limit && bytes <= limit - offset;
  }
  Fault fault(uint64_t from, uint64_t to) const {
    const uint64_t address = of_source ? from : to;
    Fault f = make_fault(NEURON_FAULT_DMA_OOB, address, static_cast<uint32_t>(address - base),
                         NEURON_DMA_GENERATE_LIMIT);
    f.detail = limit;
    return f;
  }
};

void walk_rows(PlanBuilder& builder, Walk from, Walk to, const Bounds& bounds) {
  for (uint64_t left = to.total(); left != 0 && !builder.fault;) {
    const uint64_t n = std::min({left, from.left_in_run(), to.left_in_run()});
    if (bounds.hold(from.address(), n * builder.from_bytes(), to.address(),
                    n * builder.to_bytes())) {
      builder.row(from.address(), to.address(), n);
    } else if (bounds.skip) {
      builder.skip();
    } else {
      builder.fault = bounds.fault(from.address(), to.address());
    }
    from.advance(n);
    to.advance(n);
    left -= n;
  }
}

Fault shape(unsigned offset, uint64_t found) {
  return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0,
                    static_cast<uint32_t>(std::min<uint64_t>(found, 0xFFFFFFFF)),
                    static_cast<uint8_t>(offset));
}

uint32_t size_of(const isa::DmaDimension& d) { return d.size == 0 ? 1 : d.size; }

// from: [rows (dimension 1), columns (0)], to: [columns (1), rows (0)], dimensions 2 and 3 repeat.
Fault transpose(PlanBuilder& builder, const isa::DmaGenerateBody& body, const Bounds& bounds,
                uint32_t side) {
  const auto& f = body.from_dims;
  const auto& t = body.to_dims;
  const uint32_t bytes = builder.from_bytes();
  const uint32_t rows = size_of(f[1]);
  const uint32_t columns = size_of(f[0]);
  if (size_of(t[0]) != rows || size_of(t[1]) != columns) {
    return shape(NEURON_DMA_GENERATE_TO_DIMS, size_of(t[0]));
  }
  for (unsigned d = 2; d < 4; ++d) {
    if (size_of(f[d]) != size_of(t[d])) {
      return shape(NEURON_DMA_GENERATE_TO_DIMS + 8 * d, size_of(t[d]));
    }
  }
  if (columns > 1 && f[0].step != static_cast<int32_t>(bytes)) {
    return shape(NEURON_DMA_GENERATE_FROM_DIMS + 4, static_cast<uint32_t>(f[0].step));
  }
  if (rows > 1 && t[0].step != static_cast<int32_t>(bytes)) {
    return shape(NEURON_DMA_GENERATE_TO_DIMS + 4, static_cast<uint32_t>(t[0].step));
  }
  const uint64_t blocks =
      (uint64_t{rows} + side - 1) / side * ((uint64_t{columns} + side - 1) / side);
  if (blocks * size_of(f[2]) > DmaPlan::kMaxDescriptors ||
      blocks * size_of(f[2]) * size_of(f[3]) > DmaPlan::kMaxDescriptors) {
    return shape(NEURON_DMA_GENERATE_FROM_DIMS, blocks);
  }
  for (uint32_t d3 = 0; d3 < size_of(f[3]); ++d3) {
    for (uint32_t d2 = 0; d2 < size_of(f[2]); ++d2) {
      const uint64_t from =
          body.from + static_cast<uint64_t>(int64_t{f[3].step} * d3 + int64_t{f[2].step} * d2);
      const uint64_t to =
          body.to + static_cast<uint64_t>(int64_t{t[3].step} * d3 + int64_t{t[2].step} * d2);
      for (uint32_t r = 0; r < rows; r += side) {
        for (uint32_t c = 0; c < columns && !builder.fault; c += side) {
          const uint32_t h = std::min(side, rows - r);
          const uint32_t w = std::min(side, columns - c);
          const uint64_t block_from =
              from + static_cast<uint64_t>(int64_t{f[1].step} * r) + uint64_t{c} * bytes;
          const uint64_t block_to =
              to + static_cast<uint64_t>(int64_t{t[1].step} * c) + uint64_t{r} * bytes;
          std::array<uint64_t, NEURON_UDMA_MAX_PACKET_DESCS> from_rows, to_columns;
          bool inside = true;
          for (uint32_t k = 0; k < h; ++k) {
            from_rows[k] = block_from + static_cast<uint64_t>(int64_t{f[1].step} * k);
            inside = inside &&
                     (!bounds.of_source || bounds.hold(from_rows[k], uint64_t{w} * bytes, 0, 0));
          }
          for (uint32_t k = 0; k < w; ++k) {
            to_columns[k] = block_to + static_cast<uint64_t>(int64_t{t[1].step} * k);
            inside = inside &&
                     (bounds.of_source || bounds.hold(0, 0, to_columns[k], uint64_t{h} * bytes));
          }
          if (inside) {
            builder.block({from_rows.data(), h}, {to_columns.data(), w});
          } else if (bounds.skip) {
            builder.skip();
          } else {
            builder.fault = bounds.fault(block_from, block_to);
          }
        }
      }
    }
  }
  return builder.fault;
}

}  // namespace

Fault DmaPlan::generate(const isa::Instruction& i, const isa::Instruction& unbound,
                        const chip::ChipLayout& layout, bool stochastic,
                        const RingLengths& lengths) {
  const isa::DmaGenerateBody& body = i.generate;
  if (Fault fault = begin(i.dma, lengths)) return fault;
  PlanBuilder builder(*this, i.dma, body.scale);
  builder.stochastic = stochastic;
  const bool of_source = layout.is_core(body.to);
  const Bounds bounds{of_source, of_source ? unbound.generate.from : unbound.generate.to,
                      body.limit, i.dma.skip};
  if (i.dma.operation == NEURON_DMA_TRANSPOSE) {
    return transpose(builder, body, bounds, builder.block_side(lengths));
  }
  // If a product of sizes does not fit 64 bits, the transfer is far too large to generate.
  const auto too_many = [](const std::array<isa::DmaDimension, 4>& dims) {
    uint64_t total = 1;
    for (const isa::DmaDimension& d : dims) {
      total *= size_of(d);
      if (total > uint64_t{1} << 40) return true;
    }
    return false;
  };
  if (too_many(body.to_dims)) return shape(NEURON_DMA_GENERATE_TO_DIMS, ~uint64_t{0});
  if (too_many(body.from_dims)) return shape(NEURON_DMA_GENERATE_FROM_DIMS, ~uint64_t{0});
  Walk from(body.from, body.from_dims, builder.from_bytes(), body.limit == 0);
  Walk to(body.to, body.to_dims, builder.to_bytes(), body.limit == 0);
  if (from.total() != to.total()) {
    return shape(NEURON_DMA_GENERATE_TO_DIMS, to.total());
  }
  if (from.runs() + to.runs() > uint64_t{kMaxDescriptors} * builder.engine_count) {
    return shape(NEURON_DMA_GENERATE_FROM_DIMS, from.runs() + to.runs());
  }
  walk_rows(builder, from, to, bounds);
  return builder.fault;
}

}  // namespace neuron::core
