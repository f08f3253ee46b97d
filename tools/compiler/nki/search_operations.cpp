// SPDX-License-Identifier: Apache-2.0
// Calls of nki.isa that look for elements, or move them by index, mask or pattern: on the Vector
// and GpSimd engines.
#include <algorithm>
#include <array>
#include <bit>

#include "driver/isa/instruction.h"
#include "tools/compiler/nki/context.h"

namespace neuron::nki {

using builder::Engine;
using builder::IndexPattern;
using builder::TileAccess;
using runtime::fail;
using runtime::Result;

namespace {

struct Two {
  TileAccess to, from;
};

Result<Two> two(Context& context, Record& record, const char* source) {
  const Operand to = record.operand("dst"), from = record.operand(source);
  NEURON_CHECK(record.result());
  NEURON_TRY(target, context.memory.tile(to));
  NEURON_TRY(data, context.memory.tile(from));
  return Two{target, data};
}

Result<TileAccess> tile(Context& context, Record& record, const char* key) {
  const Operand operand = record.operand(key);
  NEURON_CHECK(record.result());
  return context.memory.tile(operand);
}

// NKI lists the outermost dimension first, the instruction the innermost.
Result<IndexPattern> index_pattern(Record& record) {
  const auto flat = record.integers("index", 8);
  const int64_t offset = record.integer_or("offset", 0);
  const int64_t multiplier = record.integer_or("channel_multiplier", 0);
  NEURON_CHECK(record.result());
  if (flat.size() % 2 != 0) {
    return fail(NRT_INVALID, "index has {} numbers; expected steps and counts in turn",
                flat.size());
  }
  IndexPattern pattern;
  for (size_t i = flat.size() / 2; i > 0; --i) {
    const int64_t step = flat[2 * i - 2], count = flat[2 * i - 1];
    if (count < 1 || count > UINT16_MAX || step < INT32_MIN || step > INT32_MAX) {
      return fail(NRT_INVALID,
                  "a dimension of the index pattern has {} values {} apart; expected up to 65535 "
                  "values and steps of 32 bits",
                  count, step);
    }
    pattern.size.push_back(static_cast<uint16_t>(count));
    pattern.step.push_back(static_cast<int32_t>(step));
  }
  if (offset < INT32_MIN || offset > INT32_MAX || multiplier < INT32_MIN ||
      multiplier > INT32_MAX) {
    return fail(NRT_INVALID, "offset {} or channel_multiplier {} has more than 32 bits", offset,
                multiplier);
  }
  pattern.offset = static_cast<int32_t>(offset);
  pattern.of_partition = static_cast<int32_t>(multiplier);
  return pattern;
}

Result<void> iota(Context& context, Record& record) {
  NEURON_TRY(to, tile(context, record, "dst"));
  NEURON_TRY(pattern, index_pattern(record));
  NEURON_TRY(engine, context.engine(record, Engine::kPool, bit(Engine::kPool), to.elements()));
  (void)engine;
  context.program.iota(to, pattern);
  return {};
}

Result<void> affine_select(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "on_true"));
  NEURON_TRY(pattern, index_pattern(record));
  NEURON_TRY(compare, alu(record, "compare"));
  NEURON_TRY(otherwise, context.memory.scalar(record.scalar("on_false")));
  NEURON_CHECK(record.result());
  NEURON_TRY(engine, context.engine(record, Engine::kPool, bit(Engine::kPool), both.to.elements()));
  (void)engine;
  context.program.affine_select(both.to, both.from, pattern, compare, otherwise);
  return {};
}

Result<void> partition_reduce(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "data"));
  NEURON_TRY(op, alu(record, "alu"));
  context.program.partition_reduce(both.to, op, both.from);
  return {};
}

Result<void> local_gather(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "src_buffer"));
  NEURON_TRY(index, tile(context, record, "index"));
  const uint64_t per_index = record.count_or("num_elem_per_idx", 1, 32);
  const uint64_t valid = record.count_or("num_valid_indices", index.elements() * 16, UINT16_MAX);
  NEURON_CHECK(record.result());
  if (valid > UINT16_MAX) {
    return fail(NRT_INVALID, "{} indices for 16 partitions; the instruction counts to {}", valid,
                UINT16_MAX);
  }
  if (!std::has_single_bit(per_index)) {
    return fail(NRT_INVALID, "num_elem_per_idx is {}; expected 1, 2, 4, 8, 16 or 32", per_index);
  }
  context.program.local_gather(both.to, both.from, index,
                               static_cast<uint8_t>(std::countr_zero(per_index)),
                               static_cast<uint16_t>(valid));
  return {};
}

Result<void> n_gather(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "data"));
  NEURON_TRY(index, tile(context, record, "indices"));
  context.program.n_gather(both.to, both.from, index);
  return {};
}

Result<void> sequence_bounds(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "segment_ids"));
  context.program.sequence_bounds(both.to, both.from);
  return {};
}

Result<void> max8(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "src"));
  context.program.max8(both.to, both.from);
  context.accumulation.written(both.to, false, record.line());
  return {};
}

Result<void> find_index8(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "data"));
  NEURON_TRY(values, tile(context, record, "vals"));
  context.program.find_index8(both.to, both.from, values);
  context.accumulation.written(both.to, false, record.line());
  return {};
}

Result<void> match_replace8(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "data"));
  NEURON_TRY(values, tile(context, record, "vals"));
  const double replacement = record.number("imm");
  const Operand indices = record.operand_or_none("dst_idx");
  NEURON_CHECK(record.result());
  TileAccess index;
  if (indices.present) {
    NEURON_TRY(access, context.memory.tile(indices));
    index = access;
  }
  for (const TileAccess* eight : {&values, &index}) {
    if (eight->present() && (eight->ndim != 1 || eight->step[0] != 1 || eight->size[0] != 8)) {
      return fail(NRT_INVALID, "vals and dst_idx are 8 neighbouring columns");
    }
  }
  context.program.match_replace8(both.to, both.from, values, static_cast<float>(replacement),
                                 index);
  context.accumulation.written(both.to, false, record.line());
  return {};
}

Result<void> stream_shuffle(Context& context, Record& record) {
  NEURON_TRY(both, two(context, record, "src"));
  const auto rows = record.counts("mask", NEURON_SHUFFLE_ROWS);
  NEURON_CHECK(record.result());
  std::array<uint8_t, NEURON_SHUFFLE_ROWS> mask{};
  if (rows.size() != mask.size()) {
    return fail(NRT_INVALID, "shuffle_mask has {} entries, expected 32", rows.size());
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= NEURON_SHUFFLE_ROWS && rows[i] != NEURON_SHUFFLE_KEEP) {
      return fail(NRT_INVALID, "shuffle_mask[{}] is {}; expected a row from 0 to 31, or 255", i,
                  rows[i]);
    }
    mask[i] = static_cast<uint8_t>(rows[i]);
  }
  TileAccess from = both.from;
  if (from.parts < both.to.parts) {
    // The instruction reads as many partitions as it writes. Those that the mask does not name are
    // zeros of the lowering's own.
    NEURON_TRY(whole, context.memory.own_tile(NEURON_SPACE_SBUF, "rows to shuffle", both.to.parts,
                                              static_cast<uint32_t>(from.elements()), from.dtype));
    context.program.memset(Engine::kDve, whole.all(), 0);
    context.program.tensor_copy(Engine::kDve, whole.row_range(0, from.parts), from);
    from = whole.all();
  }
  context.program.stream_shuffle(both.to, from, mask);
  context.accumulation.written(both.to, false, record.line());
  return {};
}

Result<void> topk(Context& context, Record& record) {
  NEURON_TRY(values, tile(context, record, "val_dst"));
  NEURON_TRY(indices, tile(context, record, "idx_dst"));
  NEURON_TRY(from, tile(context, record, "src"));
  const uint64_t n = record.count("n", UINT16_MAX), k = record.count("k", UINT16_MAX);
  NEURON_CHECK(record.result());
  context.program.topk(values, indices, from, static_cast<uint16_t>(k), static_cast<uint32_t>(n));
  return {};
}

// Reads the maximum that the Vector engine has accumulated, if the call asks for it.
Result<void> read_maximum(Context& context, Record& record) {
  const Operand result = record.operand_or_none("reduce_res");
  NEURON_CHECK(record.result());
  if (!result.present) return {};
  NEURON_TRY(target, context.memory.tile(result));
  context.program.read_accumulator(Engine::kDve, target);
  context.accumulation.written(target, false, record.line());
  return {};
}

Result<void> range_select(Context& context, Record& record) {
  NEURON_CHECK(context.needs_generation(3, "range_select"));
  NEURON_TRY(both, two(context, record, "on_true"));
  NEURON_TRY(compare0, alu(record, "comp_op0"));
  NEURON_TRY(compare1, alu(record, "comp_op1"));
  NEURON_TRY(bound0, tile(context, record, "bound0"));
  NEURON_TRY(bound1, tile(context, record, "bound1"));
  const int64_t start = record.integer_or("range_start", 0);
  NEURON_CHECK(record.result());
  NEURON_TRY(command, reduce_command(record, NEURON_REDUCE_RESET_ACCUMULATE));
  context.program.range_select(both.to, both.from, compare0, bound0, compare1, bound1,
                               static_cast<float>(start), command);
  context.accumulation.written(both.to, false, record.line());
  return read_maximum(context, record);
}

Result<void> select_reduce(Context& context, Record& record) {
  NEURON_CHECK(context.needs_generation(3, "select_reduce"));
  NEURON_TRY(both, two(context, record, "on_true"));
  NEURON_TRY(predicate, tile(context, record, "predicate"));
  const ScalarOperand otherwise = record.scalar("on_false");
  const bool invert = record.flag("reverse_pred");
  NEURON_CHECK(record.result());
  NEURON_TRY(command, reduce_command(record, NEURON_REDUCE_IDLE));
  NEURON_TRY(scalar, context.memory.scalar(otherwise));
  context.program.select_reduce(both.to, both.from, predicate, scalar, invert, command);
  context.accumulation.written(both.to, false, record.line());
  return read_maximum(context, record);
}

Result<void> nonzero_with_count(Context& context, Record& record) {
  NEURON_CHECK(context.needs_generation(3, "nonzero_with_count"));
  NEURON_TRY(both, two(context, record, "src"));
  const int64_t offset = record.integer_or("index_offset", 0);
  const int64_t padding = record.integer_or("padding_val", -1);
  NEURON_CHECK(record.result());
  if (offset < INT32_MIN || offset > INT32_MAX || padding < INT32_MIN || padding > INT32_MAX) {
    return fail(NRT_INVALID, "index_offset {} or padding_val {} has more than 32 bits", offset,
                padding);
  }
  context.program.nonzero_with_count(both.to, both.from, static_cast<int32_t>(offset),
                                     static_cast<int32_t>(padding));
  return {};
}

constexpr NamedOperation kSearchOperations[] = {{"iota", iota},
                                                {"affine_select", affine_select},
                                                {"tensor_partition_reduce", partition_reduce},
                                                {"local_gather", local_gather},
                                                {"nc_n_gather", n_gather},
                                                {"sequence_bounds", sequence_bounds},
                                                {"max8", max8},
                                                {"nc_find_index8", find_index8},
                                                {"nc_match_replace8", match_replace8},
                                                {"nc_stream_shuffle", stream_shuffle},
                                                {"topk", topk},
                                                {"range_select", range_select},
                                                {"select_reduce", select_reduce},
                                                {"nonzero_with_count", nonzero_with_count}};

}  // namespace

Operation find_search_operation(std::string_view name) {
  return find_operation(kSearchOperations, name);
}

}  // namespace neuron::nki
