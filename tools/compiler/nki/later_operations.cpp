// SPDX-License-Identifier: Apache-2.0
// Calls of nki.isa that generation 4 brought: block-scaled matrices, and operations of the Vector
// and Scalar engines.
#include <algorithm>

#include "driver/isa/instruction.h"
#include "driver/isa/scale_rows.h"
#include "tools/compiler/nki/context.h"

namespace neuron::nki {

using builder::Activate2Options;
using builder::Engine;
using builder::ScaledAccess;
using builder::TileAccess;
using runtime::fail;
using runtime::Result;

namespace {

constexpr unsigned kGeneration = 4;

Result<TileAccess> tile(Context& context, Record& record, const char* key) {
  const Operand operand = record.operand(key);
  NEURON_CHECK(record.result());
  return context.memory.tile(operand);
}

// A matrix with its scales. NKI slices the tile of scales at partition 0, 4, 8 or 12 of a quadrant,
// where the instruction takes the quadrant and a number of the quarter.
Result<ScaledAccess> scaled(Context& context, Record& record, const char* elements,
                            const char* scales) {
  NEURON_TRY(data, tile(context, record, elements));
  Operand operand = record.operand(scales);
  NEURON_CHECK(record.result());
  const uint32_t shift = operand.start % isa::kQuadrant;
  const uint32_t rows =
      data.parts > isa::kQuadrant ? data.parts : data.parts / NEURON_MX_PARTITIONS;
  constexpr uint32_t kQuarters = 4;
  if (shift % isa::kScalesOfQuadrant != 0 || shift / isa::kScalesOfQuadrant >= kQuarters) {
    return fail(NRT_INVALID,
                "{} begins in partition {} of its tile; expected 0, 4, 8 or 12 behind a multiple "
                "of 32",
                std::string(scales), operand.start);
  }
  const uint32_t last = isa::scale_row(data.parts - 1, 0);
  if (data.parts == 0 || data.parts % isa::kQuadrant != 0 || operand.parts <= last) {
    return fail(NRT_INVALID,
                "{} has {} partitions for a matrix of {}; expected a matrix of 32, 64, 96 or 128 "
                "partitions and scales in {} or more",
                std::string(scales), operand.parts, data.parts, last + 1);
  }
  operand.start -= shift;
  operand.parts = rows;
  NEURON_TRY(access, context.memory.tile(operand));
  return ScaledAccess{data, access, static_cast<uint8_t>(shift / isa::kScalesOfQuadrant)};
}

Result<void> quantize_mx(Context& context, Record& record) {
  NEURON_CHECK(context.needs_generation(kGeneration, "quantize_mx"));
  NEURON_TRY(to, scaled(context, record, "dst", "dst_scale"));
  NEURON_TRY(from, tile(context, record, "src"));
  context.load[NEURON_ENGINE_DVE] += static_cast<double>(from.elements()) / NEURON_MX_CODES;
  context.program.quantize_mx(to, from);
  return {};
}

Result<void> matmul_mx(Context& context, Record& record) {
  NEURON_CHECK(context.needs_generation(kGeneration, "nc_matmul_mx"));
  NEURON_TRY(options, array_tile(record));
  NEURON_TRY(stationary, scaled(context, record, "stationary", "stationary_scale"));
  NEURON_TRY(moving, scaled(context, record, "moving", "moving_scale"));
  const Operand to = record.operand("dst");
  NEURON_TRY(target, tile(context, record, "dst"));
  if (target.space != NEURON_SPACE_PSUM) {
    return fail(NRT_INVALID, "nc_matmul_mx writes PSUM only, and {} is in SBUF",
                context.memory.describe(to.id));
  }
  bool accumulate = record.flag("accumulate");
  NEURON_CHECK(record.result());
  const bool scatters = target.offsets.present();
  if (scatters && !record.has("accumulate")) {
    return fail(
        NRT_INVALID,
        "the destination is an indirect view: which of its places hold a product already is "
        "not known; give accumulate=True or False");
  }
  if (!record.has("accumulate")) {
    if (context.memory.outside_loop(to)) {
      return fail(NRT_INVALID,
                  "{} was made outside of a loop whose rounds the device decides: whether the "
                  "first product of a round overwrites or adds is not known; give accumulate=True "
                  "or False",
                  context.memory.describe(to.id));
    }
    NEURON_TRY(runs, context.accumulation.runs(target));
    if (runs.size() != 1) {
      return fail(NRT_INVALID,
                  "a part of the destination holds a product already and a part does not; with "
                  "nc_matmul_mx say accumulate=True or accumulate=False");
    }
    accumulate = runs[0].accumulate;
  }
  context.load[NEURON_ENGINE_PE] += static_cast<double>(moving.elements.elements());
  context.program.matmul_mx(target, stationary, moving, accumulate, options);
  if (scatters) {
    context.accumulation.written(target, false, record.line());
  } else {
    context.accumulation.multiplied(target);
  }
  return {};
}

// Reads the accumulators of the engine into the tile that the call names, if it names one.
Result<void> read_result(Context& context, Record& record, Engine engine) {
  const Operand result = record.operand_or_none("reduce_res");
  NEURON_CHECK(record.result());
  if (!result.present) return {};
  NEURON_TRY(target, context.memory.tile(result));
  context.program.read_accumulator(engine, target);
  context.accumulation.written(target, false, record.line());
  return {};
}

Result<void> exponential(Context& context, Record& record) {
  NEURON_CHECK(context.needs_generation(kGeneration, "exponential"));
  NEURON_TRY(to, tile(context, record, "dst"));
  NEURON_TRY(from, tile(context, record, "src"));
  NEURON_TRY(maximum, context.memory.scalar(record.scalar_or_none("max_value")));
  NEURON_TRY(command, reduce_command(record, NEURON_REDUCE_IDLE));
  NEURON_TRY(initial, initial_sum(context, record, command));
  context.load[NEURON_ENGINE_DVE] += static_cast<double>(from.elements()) / NEURON_MX_CODES;
  context.program.exponential(to, from, maximum, command, initial);
  context.accumulation.written(to, false, record.line());
  return read_result(context, record, Engine::kDve);
}

Result<void> rand2(Context& context, Record& record) {
  NEURON_CHECK(context.needs_generation(kGeneration, "rand2"));
  NEURON_TRY(to, tile(context, record, "dst"));
  NEURON_TRY(low, context.memory.scalar(record.scalar("min")));
  NEURON_TRY(high, context.memory.scalar(record.scalar("max")));
  NEURON_CHECK(record.result());
  context.load[NEURON_ENGINE_DVE] += static_cast<double>(to.elements()) / NEURON_MX_CODES;
  context.program.random_uniform(to, low, high);
  context.accumulation.written(to, false, record.line());
  return {};
}

struct Steps {
  const char *first, *second;
  uint8_t steps;
  unsigned count;
};
constexpr Steps kSteps[] = {
    {"bypass", "bypass", NEURON_PRE_NONE, 0},   {"multiply", "bypass", NEURON_PRE_MUL, 1},
    {"add", "bypass", NEURON_PRE_ADD, 1},       {"subtract", "bypass", NEURON_PRE_SUB, 1},
    {"multiply", "add", NEURON_PRE_MUL_ADD, 2}, {"multiply", "subtract", NEURON_PRE_MUL_SUB, 2}};

Result<void> activate2(Context& context, Record& record) {
  NEURON_CHECK(context.needs_generation(kGeneration, "activate2"));
  NEURON_TRY(to, tile(context, record, "dst"));
  NEURON_TRY(from, tile(context, record, "data"));
  const std::string name = record.text("function"), first = record.text("alu0"),
                    second = record.text("alu1");
  NEURON_CHECK(record.result());
  const auto function = activation_of(name);
  if (!function) {
    return fail(NRT_INVALID, "op = \"{}\" is no function of the Scalar engine", name);
  }
  const auto* found = std::find_if(std::begin(kSteps), std::end(kSteps), [&](const Steps& s) {
    return first == s.first && second == s.second;
  });
  if (found == std::end(kSteps)) {
    return fail(NRT_INVALID,
                "op0 = {} and op1 = {}; expected multiply with add, subtract or bypass, or add, "
                "subtract or bypass with bypass",
                first, second);
  }
  Activate2Options options;
  options.steps = found->steps;
  if (found->count > 0) {
    NEURON_TRY(scalar, context.memory.scalar(record.scalar("operand0")));
    options.s0 = scalar;
    options.s0.reversed = record.flag("reverse0");
  }
  if (found->count > 1) {
    NEURON_TRY(scalar, context.memory.scalar(record.scalar("operand1")));
    options.s1 = scalar;
    options.s1.reversed = record.flag("reverse1");
  }
  NEURON_TRY(command, reduce_command(record, NEURON_REDUCE_IDLE));
  options.reduce = command;
  if (record.has("reduce_op") && command != NEURON_REDUCE_IDLE) {
    NEURON_TRY(reduce, alu(record, "reduce_op"));
    options.reduce_op = reduce;
  }
  options.parameter = static_cast<float>(record.number_or("parameter", 0));
  NEURON_CHECK(record.result());
  context.load[NEURON_ENGINE_ACTIVATION] += static_cast<double>(from.elements());
  context.program.activate2(to, *function, from, options);
  context.accumulation.written(to, false, record.line());
  return read_result(context, record, Engine::kActivation);
}

constexpr NamedOperation kLaterOperations[] = {{"nc_matmul_mx", matmul_mx},
                                               {"quantize_mx", quantize_mx},
                                               {"exponential", exponential},
                                               {"rand2", rand2},
                                               {"activate2", activate2}};

}  // namespace

Operation find_later_operation(std::string_view name) {
  return find_operation(kLaterOperations, name);
}

}  // namespace neuron::nki
