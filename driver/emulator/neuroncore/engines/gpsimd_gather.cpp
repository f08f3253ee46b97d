// SPDX-License-Identifier: Apache-2.0
// local_gather, n_gather, sequence_bounds.
//
// Gathers move raw elements. All indices are checked before anything is written, and a group of 16
// partitions (local_gather) or a partition (n_gather) is read before it is written.
#include <cstring>
#include <memory>
#include <vector>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"

namespace neuron::core {
namespace {

Fault out_of_bounds(const isa::Operand& index, unsigned partition, uint64_t element, uint32_t value,
                    uint64_t bound) {
  const uint64_t place = uint64_t{index.start} + partition;
  Fault fault = make_fault(NEURON_FAULT_INDEX_OOB,
                           place << 20 | (index.base + element * isa::dtype_bytes(index.dtype)),
                           value, NEURON_INST_SRC1);
  fault.detail = static_cast<uint32_t>(bound);
  return fault;
}

// Not cleared: megabytes are touched by what is loaded, which looks whether anybody still waits.
template <class T>
using Row = std::unique_ptr<T[]>;

template <class T>
Row<T> load_indices(const OperandView& view, unsigned part) {
  Row<T> indices = std::make_unique_for_overwrite<T[]>(view.elements());
  view.load_raw(part, 0, view.elements(), reinterpret_cast<std::byte*>(indices.get()));
  return indices;
}

Row<std::byte> load_row(const OperandView& view, unsigned part) {
  Row<std::byte> row =
      std::make_unique_for_overwrite<std::byte[]>(view.elements() * view.element_bytes());
  view.load_raw(part, 0, view.elements(), row.get());
  return row;
}

// The valid indices of a group of 16 partitions, partition by partition of each column.
std::vector<uint16_t> flatten(const OperandView& view, unsigned first_part, size_t valid) {
  std::vector<uint16_t> flat(valid);
  uint32_t steps = 0;
  for (unsigned p = 0; p < kGpsimdCorePartitions; ++p) {
    const Row<uint16_t> column = load_indices<uint16_t>(view, first_part + p);
    for (size_t at = p; at < valid; at += kGpsimdCorePartitions) {
      base::Abandonment::look_now_and_then(steps);
      flat[at] = column[at / kGpsimdCorePartitions];
    }
  }
  return flat;
}

}  // namespace

// An index is the number of the first of the 2^elements elements that it names.
Fault local_gather(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  const OperandView index(context.memory, i.src1);
  const size_t valid = i.pool.count;
  const size_t run = size_t{1} << i.pool.elements;
  const size_t bytes = run * dst.element_bytes();
  const unsigned groups = dst.partitions() / kGpsimdCorePartitions;
  uint32_t steps = 0;
  std::vector<std::vector<uint16_t>> indices;
  for (unsigned group = 0; group < groups; ++group) {
    const unsigned first_part = group * kGpsimdCorePartitions;
    indices.push_back(flatten(index, first_part, valid));
    for (size_t at = 0; at < valid; ++at) {
      base::Abandonment::look_now_and_then(steps);
      const uint16_t value = indices.back()[at];
      if (value + run <= source.elements()) continue;
      return out_of_bounds(i.src1, first_part + at % kGpsimdCorePartitions,
                           at / kGpsimdCorePartitions, value, source.elements() - run + 1);
    }
  }
  std::vector<Row<std::byte>> rows(kGpsimdCorePartitions);
  const auto out = std::make_unique_for_overwrite<std::byte[]>(valid * bytes);
  for (unsigned group = 0; group < groups; ++group) {
    const unsigned first_part = group * kGpsimdCorePartitions;
    for (unsigned p = 0; p < kGpsimdCorePartitions; ++p) rows[p] = load_row(source, first_part + p);
    for (unsigned p = 0; p < kGpsimdCorePartitions; ++p) {
      for (size_t at = 0; at < valid; ++at) {
        base::Abandonment::look_now_and_then(steps);
        std::memcpy(&out[at * bytes], &rows[p][indices[group][at] * size_t{dst.element_bytes()}],
                    bytes);
      }
      dst.store_raw(first_part + p, 0, valid * run, out.get());
    }
  }
  clear_pe_marks(context, i.dst);
  return {};
}

Fault n_gather(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  const OperandView index(context.memory, i.src1);
  const size_t bytes = dst.element_bytes();
  uint32_t steps = 0;
  const size_t each = index.elements();
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    const Row<uint32_t> indices = load_indices<uint32_t>(index, p);
    for (size_t at = 0; at < each; ++at) {
      base::Abandonment::look_now_and_then(steps);
      if (indices[at] >= source.elements()) {
        return out_of_bounds(i.src1, p, at, indices[at], source.elements());
      }
    }
  }
  // They are read a second time: to keep them would take half a gigabyte, and long to give back to
  // the host. None is overwritten before: partitions of operands of one size are the same or others
  // (rule R1), and each is read before it is written.
  const auto out = std::make_unique_for_overwrite<std::byte[]>(dst.elements() * bytes);
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    const Row<std::byte> row = load_row(source, p);
    const Row<uint32_t> chosen = load_indices<uint32_t>(index, p);
    for (size_t at = 0; at < each; ++at) {
      base::Abandonment::look_now_and_then(steps);
      // Another core or the host may have written there since the first reading.
      if (chosen[at] >= source.elements()) [[unlikely]] {
        return out_of_bounds(i.src1, p, at, chosen[at], source.elements());
      }
      std::memcpy(&out[at * bytes], &row[chosen[at] * bytes], bytes);
    }
    dst.store_raw(p, 0, dst.elements(), out.get());
  }
  clear_pe_marks(context, i.dst);
  return {};
}

// A segment is a run of equal numbers other than 0; its end is the element behind it. An element of
// padding (0) starts at n and ends at -1.
Fault sequence_bounds(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  const size_t n = source.elements();
  const Row<std::byte> row = load_row(source, 0);
  const bool is_float = i.src0.dtype == NEURON_DTYPE_F32;
  const auto equal = [&](size_t a, size_t b) {
    if (!is_float) return std::memcmp(&row[4 * a], &row[4 * b], 4) == 0;
    float x, y;
    std::memcpy(&x, &row[4 * a], 4);
    std::memcpy(&y, &row[4 * b], 4);
    return x == y;
  };
  const auto padding = [&](size_t a) {
    uint32_t bits;
    std::memcpy(&bits, &row[4 * a], 4);
    return bits == 0 || (is_float && bits == 0x80000000u);
  };
  uint32_t steps = 0;
  std::vector<int32_t> bounds(2 * n);
  for (size_t begin = 0; begin < n;) {
    size_t end = begin + 1;
    for (; end < n && equal(begin, end); ++end) base::Abandonment::look_now_and_then(steps);
    const bool pad = padding(begin);
    for (size_t at = begin; at < end; ++at) {
      base::Abandonment::look_now_and_then(steps);
      bounds[at] = static_cast<int32_t>(pad ? n : begin);
      bounds[n + at] = pad ? -1 : static_cast<int32_t>(end);
    }
    begin = end;
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(bounds.data());
  if (i.dst.dtype == NEURON_DTYPE_I32) {
    dst.store_raw(0, 0, 2 * n, bytes);
  } else {  // places are below 2^24: exact
    std::vector<float> values(2 * n);
    numerics::widen(NEURON_DTYPE_I32, bytes, 1, values.data(), 2 * n);
    dst.store(0, 0, 2 * n, values.data(), {}, nullptr);
  }
  clear_pe_marks(context, i.dst);
  return {};
}

}  // namespace neuron::core
