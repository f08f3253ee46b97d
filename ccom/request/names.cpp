// SPDX-License-Identifier: Apache-2.0
#include "ccom/request/names.h"

#include <array>
#include <iterator>

namespace neuron::ccom {
namespace {

constexpr std::array<const char*, CCOM_ALGORITHM_COUNT> kAlgorithms = {"auto",
                                                                       "ring",
                                                                       "bidirectional_ring",
                                                                       "two_d_ring",
                                                                       "pipelined_two_d_ring",
                                                                       "kangaring",
                                                                       "mesh",
                                                                       "one_step_mesh",
                                                                       "recursive",
                                                                       "tree",
                                                                       "hierarchical",
                                                                       "pairwise",
                                                                       "bruck",
                                                                       "two_level",
                                                                       "node_chain",
                                                                       "node_leaders"};
constexpr std::array<const char*, CCOM_OPERATION_COUNT> kOperations = {
    "all_reduce", "all_gather",   "reduce_scatter",   "all_to_all",   "broadcast",
    "reduce",     "gather",       "scatter",          "send_receive", "permute",
    "barrier",    "all_gather_v", "reduce_scatter_v", "all_to_all_v"};

bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    char c = a[i] >= 'A' && a[i] <= 'Z' ? static_cast<char>(a[i] - 'A' + 'a') : a[i];
    if (c == '-') c = '_';
    if (c != b[i]) return false;
  }
  return true;
}

template <size_t N>
size_t find(const std::array<const char*, N>& names, std::string_view name) {
  size_t i = 0;
  while (i < N && !same(name, names[i])) ++i;
  return i;
}

}  // namespace

const char* algorithm_name(ccom_algorithm_t algorithm) {
  const auto i = static_cast<size_t>(algorithm);
  return i < kAlgorithms.size() ? kAlgorithms[i] : "unknown";
}

const char* operation_name(ccom_operation_t operation) {
  const auto i = static_cast<size_t>(operation);
  return i < kOperations.size() ? kOperations[i] : "unknown";
}

const char* type_name(uint32_t type) {
  static const char* const kNames[] = {"uint8",  "int8",  "fp8_e3", "fp8_e4", "fp8_e5",
                                       "uint16", "int16", "fp16",   "bf16",   "uint32",
                                       "int32",  "fp32",  "uint64", "int64"};
  return type < std::size(kNames) ? kNames[type] : "unknown";
}

const char* reduction_name(uint32_t reduction) {
  static const char* const kNames[] = {"add", "min", "max", "product", "average"};
  return reduction < std::size(kNames) ? kNames[reduction] : "unknown";
}

ccom_algorithm_t algorithm_named(std::string_view name) {
  return static_cast<ccom_algorithm_t>(find(kAlgorithms, name));
}

ccom_operation_t operation_named(std::string_view name) {
  return static_cast<ccom_operation_t>(find(kOperations, name));
}

}  // namespace neuron::ccom

extern "C" {

const char* ccom_status_name(ccom_status_t status) {
  switch (status) {
    case CCOM_SUCCESS:
      return "CCOM_SUCCESS";
    case CCOM_INVALID:
      return "CCOM_INVALID";
    case CCOM_MISMATCH:
      return "CCOM_MISMATCH";
    case CCOM_TIMEOUT:
      return "CCOM_TIMEOUT";
    case CCOM_RANK_DEAD:
      return "CCOM_RANK_DEAD";
    case CCOM_ABORTED:
      return "CCOM_ABORTED";
    case CCOM_RESOURCE:
      return "CCOM_RESOURCE";
    case CCOM_UNSUPPORTED:
      return "CCOM_UNSUPPORTED";
    case CCOM_SYSTEM:
      return "CCOM_SYSTEM";
    case CCOM_IN_PROGRESS:
      return "CCOM_IN_PROGRESS";
    case CCOM_REFUSED:
      return "CCOM_REFUSED";
    case CCOM_REVOKED:
      return "CCOM_REVOKED";
  }
  return "CCOM_UNKNOWN";
}

size_t ccom_type_size(ccom_type_t type) {
  switch (type) {
    case CCOM_UINT8:
    case CCOM_INT8:
    case CCOM_FP8_E3:
    case CCOM_FP8_E4:
    case CCOM_FP8_E5:
      return 1;
    case CCOM_UINT16:
    case CCOM_INT16:
    case CCOM_FP16:
    case CCOM_BF16:
      return 2;
    case CCOM_UINT32:
    case CCOM_INT32:
    case CCOM_FP32:
      return 4;
    case CCOM_UINT64:
    case CCOM_INT64:
      return 8;
    case CCOM_TYPE_COUNT:
      break;
  }
  return 0;
}

const char* ccom_version(void) { return "1.1"; }

}  // extern "C"
