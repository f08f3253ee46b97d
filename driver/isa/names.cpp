// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <iterator>

#include "driver/isa/instruction.h"
#include "driver/isa/opcode_table.h"

namespace neuron::isa {
namespace {

constexpr const char* kUnknown = "?";

constexpr std::array kDtypes = {
    "none", "u64", "i8",   "u8",   "i16",  "u16",  "bf16",   "f16",  "i32",  "u32",    "f32",
    "f32r", "i64", "f8e3", "f8e4", "f8e5", "tf32", "f8e4fn", "e8m0", "f4x4", "f8e5x4", "f8e4fnx4",
};
constexpr std::array<uint8_t, kDtypes.size()> kBytes = {
    0, 8, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 1, 1, 1, 4, 1, 1, 2, 4, 4,
};

constexpr std::array kActivations = {
    "copy",       "square",  "sigmoid",   "relu",         "prelu",
    "gelu",       "gelu_dx", "gelu_tanh", "gelu_sigmoid", "gelu_sigmoid_dx",
    "silu",       "silu_dx", "tanh",      "softplus",     "mish",
    "erf",        "erf_dx",  "exp",       "sign",         "abs",
    "log",        "sin",     "arctan",    "sqrt",         "rsqrt",
    "reciprocal",
};

constexpr std::array<const char*, NEURON_ALU_RECIPROCAL + 1> kAlu = {
    "bypass",  "add",         "sub",       "mul",   "max",         "min",        "abs_max",
    "abs_min", "div",         "mod",       "pow",   "average",     "eq",         "ne",
    "gt",      "ge",          "lt",        "le",    "logical_and", "logical_or", "logical_xor",
    nullptr,   nullptr,       nullptr,     "and",   "or",          "xor",        "not",
    "shl",     "shr_logical", "shr_arith", nullptr, "abs",         "square",     "relu",
    "rsqrt",   "reciprocal",
};

constexpr std::array kSteps = {"none", "mul", "add", "sub", "mul_add", "mul_sub"};

template <class Table>
const char* at(const Table& table, unsigned index) {
  return index < std::size(table) && table[index] ? table[index] : kUnknown;
}

}  // namespace

const char* engine_name(unsigned engine) {
  switch (engine) {
    case NEURON_ENGINE_PE:
      return "PE";
    case NEURON_ENGINE_ACTIVATION:
      return "Activation";
    case NEURON_ENGINE_POOL:
      return "Pool";
    case NEURON_ENGINE_DVE:
      return "DVE";
    case NEURON_ENGINE_SP:
      return "SP";
    case NEURON_ENGINE_CC:
      return "CC";
    case NEURON_ENGINE_HOST:
      return "host";
    case NEURON_ENGINE_DMA:
      return "DMA";
    default:
      return kUnknown;
  }
}

const char* dtype_name(unsigned dtype) { return at(kDtypes, dtype); }
const char* activation_name(unsigned function) { return at(kActivations, function); }
const char* step_name(unsigned steps) { return at(kSteps, steps); }
const char* alu_name(unsigned op) { return at(kAlu, op); }
unsigned dtype_bytes(unsigned dtype) { return dtype < kBytes.size() ? kBytes[dtype] : 0; }

const char* opcode_name(unsigned opcode) {
  const OpcodeInfo* info = find_opcode(opcode);
  return info ? info->name : kUnknown;
}

}  // namespace neuron::isa
