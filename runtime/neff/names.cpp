// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/model.h"

namespace neuron::neff {
namespace {

struct Dtype {
  const char* name;
  uint32_t bytes;
};

// By enum neuron_dtype. The names are those of engine JSON, except the last six, which it lacks:
// those are this project's.
constexpr Dtype kDtypes[] = {
    {"none", 0},       {"uint64", 8},      {"int8", 1},       {"uint8", 1},      {"int16", 2},
    {"uint16", 2},     {"bfloat16", 2},    {"float16", 2},    {"int32", 4},      {"uint32", 4},
    {"float32", 4},    {"float32r", 4},    {"int64", 8},      {"float8e3", 1},   {"float8e4", 1},
    {"float8e5", 1},   {"tfloat32", 4},    {"float8e4fn", 1}, {"float8e8m0", 1}, {"float4x4", 2},
    {"float8e5x4", 4}, {"float8e4fnx4", 4}};
static_assert(sizeof(kDtypes) / sizeof(kDtypes[0]) == NEURON_DTYPE_F8E4FNX4 + 1);

constexpr const char* kEngines[] = {"PE", "Activation", "Pool", "DVE", "SP", "CC"};

}  // namespace

uint8_t dtype_from_name(std::string_view name) {
  for (uint8_t i = 1; i <= NEURON_DTYPE_F8E4FNX4; ++i) {
    if (name == kDtypes[i].name) return i;
  }
  return NEURON_DTYPE_NONE;
}

const char* dtype_name(uint8_t dtype) {
  return dtype <= NEURON_DTYPE_F8E4FNX4 ? kDtypes[dtype].name : "unknown";
}

uint32_t dtype_bytes(uint8_t dtype) {
  return dtype <= NEURON_DTYPE_F8E4FNX4 ? kDtypes[dtype].bytes : 0;
}

uint8_t engine_from_name(std::string_view name) {
  for (uint8_t i = 0; i <= NEURON_ENGINE_CC; ++i) {
    if (name == kEngines[i]) return i;
  }
  return NEURON_ENGINE_HOST;
}

const char* engine_name(uint8_t engine) {
  return engine <= NEURON_ENGINE_CC ? kEngines[engine] : "unknown";
}

}  // namespace neuron::neff
