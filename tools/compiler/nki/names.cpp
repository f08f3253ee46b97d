// SPDX-License-Identifier: Apache-2.0
// The names that NKI gives to operations, and the choice of an engine.
#include <algorithm>

#include "driver/isa/instruction.h"
#include "driver/isa/opcode_table.h"
#include "tools/compiler/nki/context.h"

namespace neuron::nki {

using builder::Engine;
using runtime::fail;
using runtime::Result;

namespace {

struct Name {
  const char* name;
  uint8_t number;
};

constexpr Name kAlu[] = {{"bypass", NEURON_ALU_BYPASS},
                         {"add", NEURON_ALU_ADD},
                         {"subtract", NEURON_ALU_SUB},
                         {"multiply", NEURON_ALU_MUL},
                         {"maximum", NEURON_ALU_MAX},
                         {"minimum", NEURON_ALU_MIN},
                         {"abs_max", NEURON_ALU_ABS_MAX},
                         {"abs_min", NEURON_ALU_ABS_MIN},
                         {"divide", NEURON_ALU_DIV},
                         {"mod", NEURON_ALU_MOD},
                         {"power", NEURON_ALU_POW},
                         {"average", NEURON_ALU_AVERAGE},
                         {"equal", NEURON_ALU_EQ},
                         {"not_equal", NEURON_ALU_NE},
                         {"greater", NEURON_ALU_GT},
                         {"greater_equal", NEURON_ALU_GE},
                         {"less", NEURON_ALU_LT},
                         {"less_equal", NEURON_ALU_LE},
                         {"logical_and", NEURON_ALU_LOGICAL_AND},
                         {"logical_or", NEURON_ALU_LOGICAL_OR},
                         {"logical_xor", NEURON_ALU_LOGICAL_XOR},
                         {"bitwise_and", NEURON_ALU_AND},
                         {"bitwise_or", NEURON_ALU_OR},
                         {"bitwise_xor", NEURON_ALU_XOR},
                         {"invert", NEURON_ALU_NOT},
                         {"left_shift", NEURON_ALU_SHL},
                         {"right_shift", NEURON_ALU_SHR_LOGICAL},
                         {"abs", NEURON_ALU_ABS},
                         {"square", NEURON_ALU_SQUARE},
                         {"relu", NEURON_ALU_RELU},
                         {"rsqrt", NEURON_ALU_RSQRT},
                         {"reciprocal", NEURON_ALU_RECIPROCAL}};

constexpr Name kActivations[] = {{"copy", NEURON_ACT_COPY},
                                 {"square", NEURON_ACT_SQUARE},
                                 {"sigmoid", NEURON_ACT_SIGMOID},
                                 {"relu", NEURON_ACT_RELU},
                                 {"prelu", NEURON_ACT_PRELU},
                                 {"gelu", NEURON_ACT_GELU},
                                 {"gelu_dx", NEURON_ACT_GELU_DX},
                                 {"gelu_apprx_tanh", NEURON_ACT_GELU_TANH},
                                 {"gelu_apprx_sigmoid", NEURON_ACT_GELU_SIGMOID},
                                 {"gelu_apprx_sigmoid_dx", NEURON_ACT_GELU_SIGMOID_DX},
                                 {"silu", NEURON_ACT_SILU},
                                 {"silu_dx", NEURON_ACT_SILU_DX},
                                 {"tanh", NEURON_ACT_TANH},
                                 {"softplus", NEURON_ACT_SOFTPLUS},
                                 {"mish", NEURON_ACT_MISH},
                                 {"erf", NEURON_ACT_ERF},
                                 {"erf_dx", NEURON_ACT_ERF_DX},
                                 {"exp", NEURON_ACT_EXP},
                                 {"sign", NEURON_ACT_SIGN},
                                 {"abs", NEURON_ACT_ABS},
                                 {"log", NEURON_ACT_LOG},
                                 {"sin", NEURON_ACT_SIN},
                                 {"arctan", NEURON_ACT_ARCTAN},
                                 {"sqrt", NEURON_ACT_SQRT},
                                 {"rsqrt", NEURON_ACT_RSQRT},
                                 {"reciprocal", NEURON_ACT_RECIPROCAL}};

constexpr Name kCommands[] = {{"idle", NEURON_REDUCE_IDLE},
                              {"reset", NEURON_REDUCE_RESET},
                              {"reduce", NEURON_REDUCE_ACCUMULATE},
                              {"reset_reduce", NEURON_REDUCE_RESET_ACCUMULATE},
                              {"load_reduce", NEURON_REDUCE_LOAD_ACCUMULATE}};

struct EngineName {
  const char* name;
  Engine engine;
};
constexpr EngineName kEngines[] = {{"tensor", Engine::kPe},
                                   {"scalar", Engine::kActivation},
                                   {"gpsimd", Engine::kPool},
                                   {"vector", Engine::kDve},
                                   {"sync", Engine::kSp}};

template <size_t N>
std::optional<uint8_t> find(const Name (&names)[N], std::string_view name) {
  for (const Name& entry : names) {
    if (entry.name == name) return entry.number;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint8_t> alu_of(std::string_view name) { return find(kAlu, name); }
std::optional<uint8_t> activation_of(std::string_view name) { return find(kActivations, name); }

Result<uint8_t> alu(Record& record, std::string_view key) {
  const std::string name = record.text(key);
  NEURON_CHECK(record.result());
  if (const auto number = alu_of(name)) return *number;
  return fail(NRT_INVALID, "{} = \"{}\" is no operation of the engines' arithmetic units",
              std::string(key), name);
}

Result<uint8_t> reduce_command(Record& record, uint8_t absent) {
  if (!record.has("reduce_cmd")) return absent;
  const std::string name = record.text("reduce_cmd");
  NEURON_CHECK(record.result());
  if (const auto number = find(kCommands, name)) return *number;
  return fail(NRT_INVALID, "reduce_cmd = \"{}\" is not known", name);
}

Result<builder::ScalarArgument> initial_sum(Context& context, Record& record, uint8_t command) {
  const ScalarOperand initial = record.scalar_or_none("reduce_init");
  NEURON_CHECK(record.result());
  if (initial.present() != (command == NEURON_REDUCE_LOAD_ACCUMULATE)) {
    return fail(NRT_INVALID, "reduce_init goes with reduce_cmd = load_reduce, and only with it");
  }
  return context.memory.scalar(initial);
}

Result<void> Context::needs_generation(unsigned least, const char* name) const {
  if (generation >= least) return {};
  return fail(NRT_INVALID, "{} is of generation {}, the target of generation {}", name, least,
              generation);
}

Result<Engine> Context::engine(Record& record, Engine first, unsigned allowed, uint64_t elements) {
  Engine chosen = first;
  if (record.has("engine")) {
    const std::string name = record.text("engine");
    NEURON_CHECK(record.result());
    const auto* found = std::find_if(std::begin(kEngines), std::end(kEngines),
                                     [&](const EngineName& e) { return name == e.name; });
    if (found == std::end(kEngines) || (allowed & bit(found->engine)) == 0) {
      std::string names;
      for (const EngineName& e : kEngines) {
        if ((allowed & bit(e.engine)) != 0) {
          names += (names.empty() ? "" : ", ") + std::string(e.name);
        }
      }
      return fail(NRT_INVALID,
                  "engine = {} cannot do this with these operands on generation {}; expected {}",
                  name, generation, names);
    }
    chosen = found->engine;
  } else {
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      if ((allowed >> e & 1) != 0 && load[e] < load[static_cast<unsigned>(chosen)]) {
        chosen = static_cast<Engine>(e);
      }
    }
  }
  constexpr double kLeast = 64, kPoolStart = 150;
  load[static_cast<unsigned>(chosen)] +=
      std::max(kLeast, static_cast<double>(elements)) + (chosen == Engine::kPool ? kPoolStart : 0);
  return chosen;
}

}  // namespace neuron::nki
