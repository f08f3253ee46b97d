// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/session.h"

#include <nrt/nrt_open.h>

#include <filesystem>

#include "tests/support/files.h"

namespace neuron::bench {

namespace {

// Fills an input with numbers of its type; other types stay 0.
NRT_STATUS fill(nrt_tensor_t* tensor, const nrt_tensor_info_t& info) {
  if (info.dtype == NRT_DTYPE_BFLOAT16) {
    const std::vector<uint16_t> values = bf16_numbers(info.size / 2);
    return nrt_tensor_write(tensor, values.data(), 0, info.size);
  }
  if (info.dtype == NRT_DTYPE_FLOAT32) {
    std::vector<uint32_t> values;
    for (const uint16_t v : bf16_numbers(info.size / 4)) values.push_back(uint32_t{v} << 16);
    return nrt_tensor_write(tensor, values.data(), 0, info.size);
  }
  return NRT_SUCCESS;
}

}  // namespace

std::vector<uint16_t> bf16_numbers(size_t n) {
  std::vector<uint16_t> values(n);
  uint32_t state = 12345;
  for (uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;
    // Sign, an exponent of 1/16 to 1, seven bits of mantissa.
    value = static_cast<uint16_t>((state >> 31) << 15 | (123 + (state >> 20) % 5) << 7 |
                                  (state >> 10) % 128);
  }
  return values;
}

std::string initialise() {
  static const NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
  return status == NRT_SUCCESS ? "" : std::string("nrt_init: ") + nrt_get_status_as_str(status);
}

Session::Session(const std::string& neff, int core) {
  const std::string path = std::filesystem::path(test::built("neff")) / neff;
  load(test::read_file(path), path, Inputs::kNumbers, core);
}

Session::Session(std::string_view neff, const std::string& name, Inputs values, int core) {
  load(neff, name, values, core);
}

void Session::load(std::string_view neff, const std::string& name, Inputs values, int core) {
  error_ = initialise();
  if (!error_.empty()) return;
  const auto failed = [&](const char* what, NRT_STATUS status) {
    error_ =
        name + ": " + what + ": " + nrt_get_status_as_str(status) + ", " + nrt_open_last_error();
  };
  if (NRT_STATUS s = nrt_load(neff.data(), neff.size(), core, 1, &model_)) {
    failed("load", s);
    return;
  }
  nrt_tensor_info_array_t* info = nullptr;
  if (NRT_STATUS s = nrt_get_model_tensor_info(model_, &info)) {
    failed("tensor info", s);
    return;
  }
  nrt_allocate_tensor_set(&inputs_);
  nrt_allocate_tensor_set(&outputs_);
  for (uint64_t i = 0; i < info->tensor_count; ++i) {
    const nrt_tensor_info_t& entry = info->tensor_array[i];
    nrt_tensor_t* tensor = nullptr;
    NRT_STATUS s =
        nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, entry.size, entry.name, &tensor);
    if (s == NRT_SUCCESS) s = nrt_tensor_memset(tensor, 0, 0, entry.size);
    if (s == NRT_SUCCESS && values == Inputs::kNumbers && entry.usage == NRT_TENSOR_USAGE_INPUT) {
      s = fill(tensor, entry);
    }
    if (s == NRT_SUCCESS) {
      (entry.usage == NRT_TENSOR_USAGE_INPUT ? input_tensors_ : output_tensors_).push_back(tensor);
      s = nrt_add_tensor_to_tensor_set(entry.usage == NRT_TENSOR_USAGE_INPUT ? inputs_ : outputs_,
                                       entry.name, tensor);
    }
    if (s != NRT_SUCCESS) failed(entry.name, s);
  }
  nrt_free_model_tensor_info(info);
  if (!error_.empty()) return;
  if (NRT_STATUS s = execute()) failed("execute", s);
}

Session::~Session() {
  if (inputs_) nrt_destroy_tensor_set(&inputs_);
  if (outputs_) nrt_destroy_tensor_set(&outputs_);
  for (nrt_tensor_t*& tensor : input_tensors_) nrt_tensor_free(&tensor);
  for (nrt_tensor_t*& tensor : output_tensors_) nrt_tensor_free(&tensor);
  if (model_) nrt_unload(model_);
}

}  // namespace neuron::bench
