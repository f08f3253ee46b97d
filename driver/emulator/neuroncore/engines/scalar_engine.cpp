// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/scalar_engine.h"

#include <array>
#include <bit>
#include <span>
#include <vector>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/row_access.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/numerics/activation.h"
#include "driver/emulator/numerics/alu.h"

namespace neuron::core {
namespace {

// The steps before the function: a * scale + bias of activate, those of op.act pre of activate2.
struct Step {
  const isa::Scalar& scalar;
  unsigned op;
  bool reversed;
};
std::array<Step, 2> steps_of(const isa::Instruction& i) {
  if (i.opcode == NEURON_OP_ACTIVATE) {
    return {{{i.scalar0, NEURON_ALU_MUL, false}, {i.scalar1, NEURON_ALU_ADD, false}}};
  }
  const unsigned pre = i.act.pre;
  const unsigned first = pre == NEURON_PRE_ADD   ? unsigned{NEURON_ALU_ADD}
                         : pre == NEURON_PRE_SUB ? unsigned{NEURON_ALU_SUB}
                                                 : unsigned{NEURON_ALU_MUL};
  const unsigned second =
      pre == NEURON_PRE_MUL_SUB ? unsigned{NEURON_ALU_SUB} : unsigned{NEURON_ALU_ADD};
  return {{{i.scalar0, first, i.act.rev0}, {i.scalar1, second, i.act.rev1}}};
}

const float* scale_and_bias(UnitContext& context, const isa::Instruction& i, const Block& block,
                            const float* x, float* out) {
  for (const auto& [scalar, op, reversed] : steps_of(i)) {
    if (!scalar.present()) continue;
    scalar_step(context, op, scalar, reversed, block, x, out);
    x = out;
  }
  return x;
}

// What the accumulators do with results: activate adds.
struct Reduction {
  unsigned op = NEURON_ALU_ADD;
  bool magnitudes = false;
};
Reduction reduction_of(const isa::ActOp& op) {
  switch (op.reduce) {
    case NEURON_ALU_ABS_MAX:
      return {NEURON_ALU_MAX, true};
    case NEURON_ALU_ABS_MIN:
      return {NEURON_ALU_MIN, true};
    case NEURON_ALU_MAX:
    case NEURON_ALU_MIN:
      return {op.reduce, false};
    default:
      return {};
  }
}

// Reduces a block of results; magnitudes go through `scratch`.
void accumulate(UnitContext& context, const Reduction& reduction, const Block& block,
                const float* values, float* lanes, float* scratch) {
  if (reduction.magnitudes) {
    numerics::alu_scalar(NEURON_ALU_ABS, values, 0.0f, false, scratch, block.size(),
                         context.subnormals);
    values = scratch;
  }
  numerics::reduce_rows(reduction.op, values, static_cast<ptrdiff_t>(block.count), block.rows,
                        block.count, lanes + block.part, context.subnormals);
}

// Computes from source to result in memory. Sums need the results in fp32, 16 partitions of a piece
// at a time; they come from the destination if it is fp32, else from a scratch row.
void activate_in_memory(UnitContext& context, const isa::Instruction& i, const OperandView& source,
                        const OperandView& dst, float* sums) {
  float scales[NEURON_PARTITIONS];
  float biases[NEURON_PARTITIONS];
  const auto values = [&](const isa::Scalar& scalar, float* out) -> const float* {
    if (!scalar.present()) return nullptr;
    expand_scalar(context, scalar, 0, dst.partitions(), 1, out);
    return out;
  };
  const numerics::ActivationRows all{
      .scales = values(i.scalar0, scales),
      .biases = values(i.scalar1, biases),
      .param = std::bit_cast<float>(i.act.param),
      .x = source_rows(source),
      .out = result_rows(dst),
  };
  if (sums == nullptr) {
    numerics::activate_rows(i.act.function, all, dst.partitions(), dst.elements());
    return;
  }
  for_blocks(
      dst.partitions(), dst.elements(), false,
      [&](const Block& block) {
        numerics::ActivationRows work = all;
        if (work.scales != nullptr) work.scales += block.part;
        if (work.biases != nullptr) work.biases += block.part;
        work.x = work.x.from_row(block.part);
        work.x.data += block.first * source.element_bytes();
        work.out = work.out.from_row(block.part);
        work.out.data += block.first * dst.element_bytes();
        const bool narrow = work.out.bf16;
        if (narrow) {
          work.out = {reinterpret_cast<std::byte*>(context.scratch.c.data()),
                      block.count * sizeof(float), false};
        }
        numerics::activate_rows(i.act.function, work, block.rows, block.count);
        numerics::reduce_rows(NEURON_ALU_ADD, reinterpret_cast<const float*>(work.out.data),
                              static_cast<ptrdiff_t>(work.out.stride / sizeof(float)), block.rows,
                              block.count, sums + block.part, context.subnormals);
        if (narrow) store_block(context, dst, i.dst, block, context.scratch.c.data());
      },
      kSummedRun);
}

// Strict mode: finds the first input outside the function's documented range, before anything is
// written.
Fault find_outside_domain(UnitContext& context, const isa::Instruction& i, bool loaded) {
  const isa::ActOp& op = i.act;
  const auto count = [&](const float* x, size_t n) {
    return loaded ? context.table.count_outside_domain(op.function, x, n)
                  : numerics::count_outside_domain(op.function, x, n);
  };
  const OperandView source(context.memory, i.src0);
  Fault fault;
  for_blocks(source.partitions(), source.elements(), false, [&](const Block& block) {
    if (fault) return;
    const float* x = load_block(source, block, context.scratch.a.data());
    x = scale_and_bias(context, i, block, x, context.scratch.c.data());
    if (count(x, block.size()) == 0) return;
    size_t at = 0;
    while (count(x + at, 1) == 0) ++at;
    const uint64_t element = block.first + at % block.count;
    const uint64_t partition = i.src0.start + block.part + at / block.count;
    fault = make_fault(NEURON_FAULT_DOMAIN, partition << NEURON_STRICT_PARTITION_SHIFT | element,
                       std::bit_cast<uint32_t>(x[at]));
  });
  return fault;
}

}  // namespace

Fault execute_activate(UnitContext& context, const isa::Instruction& i) {
  const isa::ActOp& op = i.act;
  const bool loaded = op.function >= NEURON_TABLE_FIRST_FUNCTION;
  if (loaded ? op.table_set == 0 || op.table_set != context.table.set() ||
                   !context.table.has(op.function)
             : !numerics::activation_known(op.function)) {
    Fault fault = make_fault(NEURON_FAULT_OP_NOT_ALLOWED, 0, op.function, NEURON_INST_OP);
    fault.detail = context.table.set();
    return fault;
  }
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  if (context.strict && (loaded || numerics::activation_has_domain(op.function))) {
    if (const Fault fault = find_outside_domain(context, i, loaded)) return fault;
  }
  float* sums = context.accumulator.data() + i.dst.start;
  const Reduction reduction = reduction_of(op);
  const bool accumulates = op.reduce_command == NEURON_REDUCE_ACCUMULATE ||
                           op.reduce_command == NEURON_REDUCE_RESET_ACCUMULATE;
  if (op.reduce_command == NEURON_REDUCE_RESET ||
      op.reduce_command == NEURON_REDUCE_RESET_ACCUMULATE) {
    const bool of_magnitudes = reduction.magnitudes && reduction.op == NEURON_ALU_MAX;
    std::fill_n(sums, dst.partitions(),
                of_magnitudes ? 0.0f : numerics::reduce_identity(reduction.op));
  }
  const bool plain = i.opcode == NEURON_OP_ACTIVATE && !loaded;
  if (plain && op.function != NEURON_ACT_COPY && rows_allowed(context, i.dst, dst) &&
      is_row(source) && !dst.clobbers(source) && lies_apart(i.scalar0, i.dst, dst) &&
      lies_apart(i.scalar1, i.dst, dst)) {
    activate_in_memory(context, i, source, dst, accumulates ? sums : nullptr);
    clear_pe_marks(context, i.dst);
    return {};
  }
  const float param = std::bit_cast<float>(op.param);
  for_blocks(
      dst.partitions(), dst.elements(), dst.clobbers(source),
      [&](const Block& block) {
        float* out = context.scratch.c.data();
        const float* x = load_block(source, block, context.scratch.a.data());
        x = scale_and_bias(context, i, block, x, out);
        if (context.check_nan) {
          context.outside_domain +=
              loaded ? context.table.count_outside_domain(op.function, x, block.size())
                     : numerics::count_outside_domain(op.function, x, block.size());
        }
        if (loaded) {
          context.table.compute(op.function, x, out, block.size(), context.subnormals);
        } else {
          numerics::activate(op.function, x, out, block.size(), param, context.subnormals);
        }
        if (accumulates) {
          accumulate(context, reduction, block, out, sums, context.scratch.d.data());
        }
        store_block(context, dst, i.dst, block, out);
      },
      accumulates ? kSummedRun : kRun);
  clear_pe_marks(context, i.dst);
  return {};
}

Fault execute_load_table(UnitContext& context, const isa::Instruction& i, const chip::Bus& bus,
                         const chip::Access& access) {
  const auto malformed = [&](size_t word, uint32_t value) {
    return make_fault(NEURON_FAULT_ILLEGAL_FIELD, i.address.addr + 4 * word, value,
                      NEURON_ADDRESS_ADDR);
  };
  std::array<uint32_t, NEURON_TABLE_HEADER_WORDS> header;
  if (!bus.read(i.address.addr, std::as_writable_bytes(std::span(header)), access)) {
    return make_fault(NEURON_FAULT_BUS, i.address.addr, sizeof(header));
  }
  size_t wrong = 0;
  std::vector<uint32_t> words(ActivationTable::words_of(header, wrong));
  if (words.empty()) return malformed(wrong, header[wrong]);
  if (!bus.read(i.address.addr, std::as_writable_bytes(std::span(words)), access)) {
    return make_fault(NEURON_FAULT_BUS, i.address.addr, static_cast<uint32_t>(4 * words.size()));
  }
  // The image is checked again: device memory may have changed since the header was read.
  wrong = context.table.accept(i.act.table_set, words);
  if (wrong != ActivationTable::kAccepted) return malformed(wrong, words[wrong]);
  return {};
}

}  // namespace neuron::core
