// SPDX-License-Identifier: Apache-2.0
#include "ccom/request/names.h"

#include <array>

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
                                                                       "two_level"};
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

ccom_algorithm_t algorithm_named(std::string_view name) {
  return static_cast<ccom_algorithm_t>(find(kAlgorithms, name));
}

ccom_operation_t operation_named(std::string_view name) {
  return static_cast<ccom_operation_t>(find(kOperations, name));
}

}  // namespace neuron::ccom
