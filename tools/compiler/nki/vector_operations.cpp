// SPDX-License-Identifier: Apache-2.0
// Calls of nki.isa that work element by element, or along the free dimensions: on the Vector,
// Scalar and GpSimd engines.
#include <algorithm>
#include <bit>
#include <cmath>

#include "driver/isa/instruction.h"
#include "tools/compiler/nki/context.h"

namespace neuron::nki {

using builder::ActivateOptions;
using builder::Engine;
using builder::ScalarArgument;
using builder::TileAccess;
using runtime::fail;
using runtime::Result;

namespace {

constexpr unsigned kVector = bit(Engine::kDve), kScalar = bit(Engine::kActivation),
                   kPool = bit(Engine::kPool);

// The operands of most calls.
struct Pair {
  TileAccess to, from;
};

Result<Pair> pair(Context& context, Record& record, const char* source) {
  const Operand to = record.operand("dst"), from = record.operand(source);
  NEURON_CHECK(record.result());
  NEURON_TRY(target, context.memory.tile(to));
  NEURON_TRY(data, context.memory.tile(from));
  return Pair{target, data};
}

void wrote(Context& context, Record& record, const TileAccess& to, bool zeros = false) {
  context.accumulation.written(to, zeros, record.line());
}

bool any_psum(std::initializer_list<const TileAccess*> tiles) {
  return std::any_of(tiles.begin(), tiles.end(),
                     [](const TileAccess* tile) { return tile->space == NEURON_SPACE_PSUM; });
}

bool wide_integers(const TileAccess& access) {
  return access.dtype == NEURON_DTYPE_I32 || access.dtype == NEURON_DTYPE_U32;
}

// 32-bit integers are exact on GpSimd only, which does not reach PSUM.
bool wants_pool(const TileAccess& to, const TileAccess& a, const TileAccess& b) {
  return wide_integers(to) && wide_integers(a) && wide_integers(b) && !any_psum({&to, &a, &b});
}

// The value as an element of the type, in the low bits.
Result<uint32_t> bits_of(double value, uint8_t dtype) {
  const auto number = static_cast<float>(value);
  switch (dtype) {
    case NEURON_DTYPE_F32:
    case NEURON_DTYPE_TF32:
      return std::bit_cast<uint32_t>(number);
    case NEURON_DTYPE_BF16: {
      const auto bits = std::bit_cast<uint32_t>(number);
      if (std::isnan(number)) return 0x7FC0u;
      return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    }
    default:
      break;
  }
  if (is_integer(dtype)) {
    const unsigned bytes = isa::dtype_bytes(dtype);
    const uint64_t mask = bytes == 4 ? 0xFFFFFFFFu : (1u << 8 * bytes) - 1;
    const double least = -2147483648.0, most = 4294967295.0;
    if (!(value >= least && value <= most) || value != std::floor(value)) {
      return fail(NRT_INVALID, "the value {} is no integer of 32 bits", value);
    }
    return static_cast<uint32_t>(static_cast<uint64_t>(static_cast<int64_t>(value)) & mask);
  }
  return fail(NRT_INVALID, "a value of this type is written through a cast");
}

// What an engine writes to an integer type is the nearest number that the type has.
double saturated(double value, uint8_t dtype) {
  const bool negative =
      dtype == NEURON_DTYPE_I32 || dtype == NEURON_DTYPE_I16 || dtype == NEURON_DTYPE_I8;
  const double count = std::ldexp(1.0, static_cast<int>(8 * isa::dtype_bytes(dtype)));
  return negative ? std::clamp(value, -count / 2, count / 2 - 1)
                  : std::clamp(value, 0.0, count - 1);
}

Result<void> memset(Context& context, Record& record) {
  const Operand to = record.operand("dst");
  double value = record.number("value");
  NEURON_CHECK(record.result());
  NEURON_TRY(target, context.memory.tile(to));
  if (is_integer(target.dtype)) value = saturated(value, target.dtype);
  unsigned allowed = kVector | (any_psum({&target}) ? 0 : kPool);
  NEURON_TRY(engine, context.engine(record, Engine::kDve, allowed, target.elements()));
  const auto bits = bits_of(value, target.dtype);
  if (bits) {
    context.program.memset(engine, target, *bits);
  } else if (value == 0) {
    context.program.memset(engine, target, 0);
  } else if (is_integer(target.dtype)) {
    return bits.error();
  } else {
    // The engines round to the type, so a column of the number is copied.
    NEURON_TRY(column, context.memory.constant_column(static_cast<float>(value), target.start,
                                                      target.parts));
    TileAccess from = column;
    from.ndim = 1;
    from.size = {static_cast<uint32_t>(target.elements()), 0, 0, 0};
    from.step = {0, 0, 0, 0};
    context.program.tensor_copy(engine, target, from);
  }
  wrote(context, record, target, value == 0);
  return {};
}

Result<void> tensor_copy(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "src"));
  const bool psum = any_psum({&both.to, &both.from});
  const bool bits = wide_integers(both.from) && !wide_integers(both.to);
  unsigned allowed = kVector | (psum ? 0 : kPool);
  if (context.generation >= 3 || record.has("engine")) allowed |= kScalar;
  // Where NKI leaves it open, GpSimd is kept for what only it can do.
  if (!record.has("engine")) {
    allowed &= ~kPool;
    if (bits) allowed &= ~kScalar;
    // The Scalar engine does not scatter into PSUM.
    if (both.to.offsets.present() && any_psum({&both.to})) allowed &= ~kScalar;
  }
  NEURON_TRY(engine, context.engine(record, Engine::kDve, allowed, both.from.elements()));
  if (engine == Engine::kActivation && context.generation < 3) {
    return fail(NRT_INVALID,
                "the Scalar engine has no tensor_copy before generation 3; use "
                "nisa.activation(op=nl.copy)");
  }
  context.program.tensor_copy(engine, both.to, both.from);
  wrote(context, record, both.to);
  return {};
}

// Division is multiplication by a power of -1, which the Vector engine computes in one pass: our
// choice, of which kernels' times and bits are made. Where it does not reach, `div` does it.
Result<void> divide(Context& context, Record& record, const TileAccess& to, const TileAccess& a,
                    const TileAccess& b) {
  context.program.scalar_tensor_tensor(to, b, NEURON_ALU_POW, -1.0f, NEURON_ALU_MUL, a);
  wrote(context, record, to);
  return {};
}

Result<void> tensor_tensor(Context& context, Record& record) {
  const Operand second = record.operand("data2");
  NEURON_TRY(both, pair(context, record, "data1"));
  NEURON_TRY(op, alu(record, "alu"));
  NEURON_TRY(b, context.memory.tile(second));
  const bool psum = any_psum({&both.to, &both.from, &b});
  unsigned allowed = kVector | (psum ? 0 : kPool);
  Engine first = Engine::kDve;
  if (op == NEURON_ALU_POW) {
    if (psum) return fail(NRT_INVALID, "power of two tiles is GpSimd's, which does not reach PSUM");
    allowed = kPool;
    first = Engine::kPool;
  } else if (!record.has("engine")) {
    const bool pool =
        wants_pool(both.to, both.from, b) && !is_bit_operation(op) && op != NEURON_ALU_AVERAGE;
    allowed = pool ? kPool : kVector;
    first = pool ? Engine::kPool : Engine::kDve;
  }
  NEURON_TRY(engine, context.engine(record, first, allowed, both.from.elements()));
  if (op == NEURON_ALU_DIV && !(record.has("engine") && engine == Engine::kPool)) {
    return divide(context, record, both.to, both.from, b);
  }
  context.program.tensor_tensor(engine, both.to, both.from, op, b);
  wrote(context, record, both.to);
  return {};
}

// A scalar of an operation of tensor_scalar: nothing for the unary ones.
Result<ScalarArgument> operand_of(Context& context, Record& record, const char* key,
                                  const char* reverse, uint8_t& op) {
  const ScalarOperand scalar = record.scalar_or_none(key);
  const bool backwards = record.flag(reverse);
  NEURON_CHECK(record.result());
  // Operations of one operand ignore the other.
  if (op == NEURON_ALU_ABS || op == NEURON_ALU_RELU) {
    op = op == NEURON_ALU_ABS ? NEURON_ALU_ABS_MAX : NEURON_ALU_MAX;
    return ScalarArgument(0.0f);
  }
  if (op == NEURON_ALU_SQUARE || op == NEURON_ALU_RSQRT || op == NEURON_ALU_RECIPROCAL) {
    return ScalarArgument();
  }
  if (!scalar.present() && op != NEURON_ALU_BYPASS) {
    return fail(NRT_INVALID, "{} is missing; expected a number or a tile", key);
  }
  NEURON_TRY(argument, context.memory.scalar(scalar));
  if (op == NEURON_ALU_DIV && !backwards) {
    op = NEURON_ALU_MUL;  // As division of tiles
    if (argument.is_number) {
      argument.value = 1.0f / argument.value;
    } else {
      NEURON_TRY(inverse, context.memory.own_tile(NEURON_SPACE_SBUF, "divisor's inverse",
                                                  argument.access.parts, 1, NEURON_DTYPE_F32));
      context.program.reciprocal(inverse.all(), argument.access);
      argument = ScalarArgument(inverse.all());
    }
  }
  argument.reversed = backwards;
  return argument;
}

// The scalar of one of the bit operations of tensor_scalar: nothing for `invert`.
Result<builder::BitArgument> bits_operand(Context& context, Record& record, const char* key,
                                          const char* reverse, uint8_t op) {
  const ScalarOperand scalar = record.scalar_or_none(key);
  const bool backwards = record.flag(reverse);
  NEURON_CHECK(record.result());
  if (op == NEURON_ALU_NOT || op == NEURON_ALU_BYPASS) return builder::BitArgument();
  builder::BitArgument argument;
  if (scalar.tile.present) {
    NEURON_TRY(access, context.memory.tile(scalar.tile));
    argument = access;
  } else if (scalar.is_number) {
    NEURON_TRY(bits, bits_of(scalar.number, NEURON_DTYPE_U32));
    argument = bits;
  } else {
    return fail(NRT_INVALID, "{} is missing; expected an integer or a tile", key);
  }
  argument.reversed = backwards;
  return argument;
}

Result<void> bit_scalar(Context& context, Record& record, Engine engine, const Pair& both,
                        uint8_t op0, uint8_t op1) {
  if (op1 != NEURON_ALU_BYPASS && is_bit_operation(op0) != is_bit_operation(op1)) {
    return fail(NRT_INVALID, "both operations must be bit operations, or both arithmetic");
  }
  NEURON_TRY(s0, bits_operand(context, record, "operand0", "reverse0", op0));
  NEURON_TRY(s1, bits_operand(context, record, "operand1", "reverse1", op1));
  context.program.tensor_scalar_bits(engine, both.to, both.from, op0, s0, op1, s1);
  wrote(context, record, both.to);
  return {};
}

Result<void> tensor_scalar(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "data"));
  NEURON_TRY(op0, alu(record, "alu0"));
  uint8_t op1 = NEURON_ALU_BYPASS;
  if (record.has("alu1")) {
    NEURON_TRY(second, alu(record, "alu1"));
    op1 = second;
  }
  const bool psum = any_psum({&both.to, &both.from});
  const bool linear = (op0 == NEURON_ALU_MUL || op0 == NEURON_ALU_ADD) &&
                      (op1 == NEURON_ALU_BYPASS || op1 == NEURON_ALU_ADD) &&
                      !(op0 == NEURON_ALU_ADD && op1 == NEURON_ALU_ADD);
  unsigned allowed = kVector | (psum ? 0 : kPool);
  // The Scalar engine scales and biases in generation 3, and does all arithmetic from 4 on.
  const bool slow = op0 == NEURON_ALU_RSQRT || op1 == NEURON_ALU_RSQRT;
  const bool bits = is_bit_operation(op0) || is_bit_operation(op1);
  if (context.generation >= 4 ? !slow && !bits : linear && context.generation >= 3) {
    allowed |= kScalar;
  }
  Engine first = Engine::kDve;
  if (!record.has("engine")) {
    allowed = kVector;
    if (slow) {
      allowed = kPool;
      first = Engine::kPool;
    }
  }
  const bool indirect = both.to.offsets.present() || both.from.offsets.present();
  const bool computes_addresses =
      wide_integers(both.to) && wide_integers(both.from) &&
      (op0 == NEURON_ALU_ADD || op0 == NEURON_ALU_SUB || op0 == NEURON_ALU_MUL);
  if (indirect && computes_addresses) {
    return fail(NRT_INVALID,
                "tensor_scalar that adds, subtracts or multiplies 32-bit integers is arithmetic of "
                "addresses, which takes no indirect view; copy the elements with nisa.tensor_copy "
                "first");
  }
  NEURON_TRY(engine, context.engine(record, first, allowed, both.from.elements()));
  if (bits) return bit_scalar(context, record, engine, both, op0, op1);
  NEURON_TRY(s0, operand_of(context, record, "operand0", "reverse0", op0));
  NEURON_TRY(s1, operand_of(context, record, "operand1", "reverse1", op1));
  context.program.tensor_scalar(engine, both.to, both.from, op0, s0, op1, s1);
  wrote(context, record, both.to);
  return {};
}

Result<void> scalar_tensor_tensor(Context& context, Record& record) {
  const Operand second = record.operand("operand1");
  NEURON_TRY(both, pair(context, record, "data"));
  NEURON_TRY(op0, alu(record, "alu0"));
  NEURON_TRY(op1, alu(record, "alu1"));
  NEURON_TRY(b, context.memory.tile(second));
  const bool reverse1 = record.flag("reverse1");
  NEURON_TRY(s, operand_of(context, record, "operand0", "reverse0", op0));
  NEURON_TRY(engine, context.engine(record, Engine::kDve, kVector, both.from.elements()));
  (void)engine;
  context.program.scalar_tensor_tensor(both.to, both.from, op0, s, op1, b, reverse1);
  wrote(context, record, both.to);
  return {};
}

// Reads the accumulators of the engine into the tile that the call names, if it names one.
Result<void> read_result(Context& context, Record& record, Engine engine, bool negate) {
  const Operand result = record.operand_or_none("reduce_res");
  NEURON_CHECK(record.result());
  if (!result.present) return {};
  NEURON_TRY(target, context.memory.tile(result));
  context.program.read_accumulator(engine, target, negate);
  wrote(context, record, target);
  return {};
}

Result<void> tensor_scalar_reduce(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "data"));
  NEURON_TRY(op0, alu(record, "alu0"));
  NEURON_TRY(reduce, alu(record, "reduce_op"));
  NEURON_TRY(command, reduce_command(record, NEURON_REDUCE_RESET_ACCUMULATE));
  NEURON_TRY(s, operand_of(context, record, "operand0", "reverse0", op0));
  if (s.reversed) return fail(NRT_INVALID, "tensor_scalar_reduce has no reverse0");
  NEURON_TRY(initial, initial_sum(context, record, command));
  context.program.tensor_scalar_reduce(both.to, both.from, op0, s, reduce, command, initial);
  wrote(context, record, both.to);
  return read_result(context, record, Engine::kDve, record.flag("negate"));
}

Result<void> tensor_scalar_cumulative(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "src"));
  NEURON_TRY(op0, alu(record, "alu0"));
  NEURON_TRY(op1, alu(record, "alu1"));
  NEURON_TRY(command, reduce_command(record, NEURON_REDUCE_RESET_ACCUMULATE));
  NEURON_TRY(s, operand_of(context, record, "imm0", "reverse0", op0));
  NEURON_TRY(initial, context.memory.scalar(record.scalar_or_none("imm1")));
  NEURON_CHECK(record.result());
  context.program.tensor_scalar_cumulative(both.to, both.from, op0, s, op1, command, initial);
  wrote(context, record, both.to);
  return {};
}

Result<void> tensor_reduce(Context& context, Record& record) {
  const Operand to = record.operand("dst"), from = record.operand("data");
  const auto axes = static_cast<size_t>(record.count("axes", 8));
  const bool negate = record.flag("negate");
  NEURON_CHECK(record.result());
  NEURON_TRY(op, alu(record, "alu"));
  NEURON_TRY(target, context.memory.tile(to));
  uint32_t kept = 0;
  NEURON_TRY(data, context.memory.tile(from, axes, &kept));
  const unsigned pool = context.generation >= 3 && !any_psum({&target, &data}) ? kPool : 0;
  NEURON_TRY(engine,
             context.engine(record, Engine::kDve, record.has("engine") ? kVector | pool : kVector,
                            data.elements()));
  context.program.tensor_reduce(target, op, data, static_cast<uint8_t>(kept), negate, engine);
  wrote(context, record, target);
  return {};
}

Result<void> tensor_tensor_scan(Context& context, Record& record) {
  const Operand second = record.operand("data1");
  const ScalarOperand initial = record.scalar("initial");
  NEURON_TRY(both, pair(context, record, "data0"));
  NEURON_TRY(op0, alu(record, "alu0"));
  NEURON_TRY(op1, alu(record, "alu1"));
  NEURON_TRY(b, context.memory.tile(second));
  NEURON_TRY(start, context.memory.scalar(initial));
  const bool reverse0 = record.flag("reverse0"), reverse1 = record.flag("reverse1");
  context.program.tensor_tensor_scan(both.to, both.from, op0, op1, b, start, reverse0, reverse1);
  wrote(context, record, both.to);
  return {};
}

Result<void> reciprocal(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "data"));
  NEURON_TRY(engine, context.engine(record, Engine::kDve, kVector, 8 * both.from.elements()));
  (void)engine;
  context.program.reciprocal(both.to, both.from);
  wrote(context, record, both.to);
  return {};
}

Result<void> activation(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "data"));
  const std::string name = record.text("function");
  const ScalarOperand scale = record.scalar_or_none("scale");
  ScalarOperand bias = record.scalar_or_none("bias");
  NEURON_CHECK(record.result());
  const auto function = activation_of(name);
  if (!function) {
    return fail(NRT_INVALID, "op = \"{}\" is no function of the Scalar engine", name);
  }
  ActivateOptions options;
  NEURON_TRY(command, reduce_command(record, NEURON_REDUCE_IDLE));
  if (record.has("reduce_op")) {
    NEURON_TRY(reduce, alu(record, "reduce_op"));
    if (reduce != NEURON_ALU_ADD) {
      return fail(NRT_INVALID, "the Scalar engine reduces with add only");
    }
  }
  options.reduce = command;
  if (!(scale.is_number && scale.number == 1)) {
    NEURON_TRY(argument, context.memory.scalar(scale));
    options.scale = argument;
  }
  if (bias.is_number && bias.number == 0) bias = {};
  if (bias.is_number && context.generation < 3) {
    NEURON_TRY(column, context.memory.constant_column(static_cast<float>(bias.number),
                                                      both.to.start, both.to.parts));
    options.bias = column;
  } else if (bias.present()) {
    NEURON_TRY(argument, context.memory.scalar(bias));
    options.bias = argument;
  }
  options.parameter = static_cast<float>(record.number_or("parameter", 0));
  NEURON_CHECK(record.result());
  context.load[NEURON_ENGINE_ACTIVATION] += static_cast<double>(both.from.elements());
  context.program.activate(both.to, *function, both.from, options);
  wrote(context, record, both.to);
  return read_result(context, record, Engine::kActivation, false);
}

Result<void> copy_predicated(Context& context, Record& record) {
  const Operand to = record.operand("dst"), predicate = record.operand("predicate");
  const ScalarOperand from = record.scalar("src");
  const bool invert = record.flag("reverse_pred");
  NEURON_CHECK(record.result());
  NEURON_TRY(target, context.memory.tile(to));
  NEURON_TRY(mask, context.memory.tile(predicate));
  if (from.is_number) {
    context.program.fill_predicated(target, static_cast<float>(from.number), mask, invert);
  } else {
    NEURON_TRY(data, context.memory.tile(from.tile));
    if (data.elements() == 1 && target.elements() != 1) {
      context.program.fill_predicated(target, data, mask, invert);
    } else {
      context.program.copy_predicated(target, data, mask, invert);
    }
  }
  wrote(context, record, target);
  return {};
}

Result<void> bn_stats(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "data"));
  context.program.bn_stats(both.to, both.from);
  wrote(context, record, both.to);
  return {};
}

Result<void> bn_aggr(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "data"));
  context.program.bn_aggr(both.to, both.from);
  wrote(context, record, both.to);
  return {};
}

Result<void> dropout(Context& context, Record& record) {
  NEURON_TRY(both, pair(context, record, "data"));
  NEURON_TRY(probability, context.memory.scalar(record.scalar("prob")));
  NEURON_CHECK(record.result());
  context.program.dropout(both.to, both.from, probability);
  wrote(context, record, both.to);
  return {};
}

Result<void> rng(Context& context, Record& record) {
  const Operand to = record.operand("dst");
  NEURON_CHECK(record.result());
  NEURON_TRY(target, context.memory.tile(to));
  const unsigned allowed = kVector | (context.generation >= 3 && !any_psum({&target}) ? kPool : 0);
  NEURON_TRY(engine, context.engine(record, Engine::kDve, record.has("engine") ? allowed : kVector,
                                    target.elements()));
  context.program.random_bits(target, engine);
  wrote(context, record, target);
  return {};
}

// XORWOW states: GpSimd has one of six words in each lane from generation 3 on, Vector four from 4
// on. Where NKI leaves the engine open, the number of words says which one is meant.
Result<void> random_state(Context& context, Record& record, const char* key, bool set) {
  const Operand states = record.operand(key);
  NEURON_CHECK(record.result());
  NEURON_TRY(tile, context.memory.tile(states));
  constexpr uint64_t kVectorWords = 24;
  const bool both = context.generation >= 4;
  const Engine meant = both && tile.elements() == kVectorWords ? Engine::kDve : Engine::kPool;
  const unsigned allowed = record.has("engine") ? kPool | (both ? kVector : 0) : bit(meant);
  NEURON_TRY(engine, context.engine(record, meant, allowed, tile.elements()));
  if (set) {
    context.program.set_random_state(engine, tile);
  } else {
    context.program.get_random_state(engine, tile);
    wrote(context, record, tile);
  }
  return {};
}

Result<void> rand_set_state(Context& context, Record& record) {
  return random_state(context, record, "src", true);
}

Result<void> rand_get_state(Context& context, Record& record) {
  return random_state(context, record, "dst", false);
}

Result<void> set_rng_seed(Context& context, Record& record) {
  const Operand seed = record.operand("src");
  NEURON_CHECK(record.result());
  NEURON_TRY(data, context.memory.tile(seed));
  context.program.set_random_seed(data);
  return {};
}

constexpr NamedOperation kVectorOperations[] = {
    {"memset", memset},
    {"tensor_copy", tensor_copy},
    {"tensor_tensor", tensor_tensor},
    {"tensor_scalar", tensor_scalar},
    {"scalar_tensor_tensor", scalar_tensor_tensor},
    {"tensor_scalar_reduce", tensor_scalar_reduce},
    {"tensor_scalar_cumulative", tensor_scalar_cumulative},
    {"tensor_reduce", tensor_reduce},
    {"tensor_tensor_scan", tensor_tensor_scan},
    {"reciprocal", reciprocal},
    {"activation", activation},
    {"tensor_copy_predicated", copy_predicated},
    {"bn_stats", bn_stats},
    {"bn_aggr", bn_aggr},
    {"dropout", dropout},
    {"rng", rng},
    {"set_rng_seed", set_rng_seed},
    {"rand_set_state", rand_set_state},
    {"rand_get_state", rand_get_state}};

}  // namespace

Operation find_vector_operation(std::string_view name) {
  return find_operation(kVectorOperations, name);
}

}  // namespace neuron::nki
