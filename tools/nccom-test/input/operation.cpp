// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/input/operation.h"

#include <array>

namespace neuron::nccom {

using ccom::fail;

namespace {

struct Name {
  const char* name;
  const char* alias;
};

constexpr std::array<Name, CCOM_OPERATION_COUNT> kOperations = {{
    {"all_reduce", "allr"},
    {"all_gather", "allg"},
    {"reduce_scatter", "redsct"},
    {"alltoall", "all_to_all"},
    {"broadcast", "bcast"},
    {"reduce", "red"},
    {"gather", "gath"},
    {"scatter", "scat"},
    {"sendrecv", "send_receive"},
    {"permute", "perm"},
    {"barrier", "bar"},
    {"all_gatherv", "allgv"},
    {"reduce_scatterv", "redsctv"},
    {"alltoallv", "all_to_allv"},
}};
constexpr std::array<Name, CCOM_TYPE_COUNT> kTypes = {{
    {"uint8", "u8"},
    {"int8", "i8"},
    {"fp8e3", "fp8_e3"},
    {"fp8", "fp8e4"},
    {"fp8e5", "fp8_e5"},
    {"uint16", "u16"},
    {"int16", "i16"},
    {"fp16", "f16"},
    {"bf16", "bfloat16"},
    {"uint32", "u32"},
    {"int32", "i32"},
    {"fp32", "f32"},
    {"uint64", "u64"},
    {"int64", "i64"},
}};
constexpr std::array<uint64_t, CCOM_TYPE_COUNT> kSizes = {1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8};
constexpr std::array<Name, CCOM_REDUCTION_COUNT> kReductions = {{
    {"add", "sum"},
    {"min", "minimum"},
    {"max", "maximum"},
    {"product", "prod"},
    {"average", "avg"},
}};
constexpr std::array<Name, CCOM_ALGORITHM_COUNT> kAlgorithms = {{
    {"auto", "default"},
    {"ring", "flat_ring"},
    {"bidirectional_ring", "biring"},
    {"two_d_ring", "2d_ring"},
    {"pipelined_two_d_ring", "pipelined_2d_ring"},
    {"kangaring", "kanga"},
    {"mesh", "two_step_mesh"},
    {"one_step_mesh", "single_step_mesh"},
    {"rdh", "recursive"},
    {"tree", "binary_tree"},
    {"hier", "hierarchical"},
    {"pairwise", "pair"},
    {"bruck", "log"},
    {"two_level", "2_level"},
    {"node_chain", "chain"},
    {"node_leaders", "leaders"},
}};

template <size_t N>
int find(const std::array<Name, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i].name || name == names[i].alias) return static_cast<int>(i);
  }
  return -1;
}

template <size_t N>
std::string list_of(const std::array<Name, N>& names) {
  std::string list;
  for (const Name& each : names) list += (list.empty() ? "" : ", ") + std::string(each.name);
  return list;
}

template <class E, size_t N>
Result<E> look_up(const std::array<Name, N>& names, std::string_view what, std::string_view name) {
  const int found = find(names, name);
  if (found >= 0) return static_cast<E>(found);
  return fail(CCOM_INVALID, "there is no {} \"{}\"; it is one of {}", what, name, list_of(names));
}

template <size_t N>
const char* name_of(const std::array<Name, N>& names, size_t index) {
  return index < N ? names[index].name : "?";
}

}  // namespace

Result<ccom_operation_t> find_operation(std::string_view name) {
  return look_up<ccom_operation_t>(kOperations, "operation", name);
}
bool is_operation(std::string_view name) { return find(kOperations, name) >= 0; }
const char* operation_name(ccom_operation_t operation) { return name_of(kOperations, operation); }

Result<ccom_type_t> find_type(std::string_view name) {
  return look_up<ccom_type_t>(kTypes, "data type", name);
}
const char* type_name(ccom_type_t type) { return name_of(kTypes, type); }
uint64_t type_size(ccom_type_t type) { return type < CCOM_TYPE_COUNT ? kSizes[type] : 0; }
bool is_floating(ccom_type_t type) {
  return type == CCOM_FP8_E3 || type == CCOM_FP8_E4 || type == CCOM_FP8_E5 || type == CCOM_FP16 ||
         type == CCOM_BF16 || type == CCOM_FP32;
}

Result<ccom_reduction_t> find_reduction(std::string_view name) {
  return look_up<ccom_reduction_t>(kReductions, "reduction", name);
}
const char* reduction_name(ccom_reduction_t reduction) { return name_of(kReductions, reduction); }

Result<ccom_algorithm_t> find_algorithm(std::string_view name) {
  return look_up<ccom_algorithm_t>(kAlgorithms, "algorithm", name);
}
std::string algorithm_names() { return list_of(kAlgorithms); }
const char* algorithm_name(ccom_algorithm_t algorithm) { return name_of(kAlgorithms, algorithm); }

bool reduces(ccom_operation_t operation) {
  return operation == CCOM_ALL_REDUCE || operation == CCOM_REDUCE_SCATTER ||
         operation == CCOM_REDUCE || operation == CCOM_REDUCE_SCATTER_V;
}

bool has_root(ccom_operation_t operation) {
  return operation == CCOM_BROADCAST || operation == CCOM_REDUCE || operation == CCOM_GATHER ||
         operation == CCOM_SCATTER;
}

bool takes_pairs(ccom_operation_t operation) {
  return operation == CCOM_SEND_RECEIVE || operation == CCOM_PERMUTE;
}

bool has_variable_counts(ccom_operation_t operation) {
  return operation == CCOM_ALL_GATHER_V || operation == CCOM_REDUCE_SCATTER_V ||
         operation == CCOM_ALL_TO_ALL_V;
}

}  // namespace neuron::nccom
