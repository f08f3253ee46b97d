// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/classifier.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tools/neuron-digits/failure_text.h"

namespace neuron::digits {

Classifier::~Classifier() {
  if (inputs_) nrt_destroy_tensor_set(&inputs_);
  if (outputs_) nrt_destroy_tensor_set(&outputs_);
  nrt_tensor_free(&x_);
  nrt_tensor_free(&probabilities_);
  if (model_) nrt_unload(model_);
}

bool Classifier::fail(const std::string& what, NRT_STATUS status) {
  error_ = failure_text(what, status);
  return false;
}

bool Classifier::bind(const nrt_tensor_info_t& info) {
  const bool input = info.usage == NRT_TENSOR_USAGE_INPUT;
  std::string shape;
  for (uint32_t d = 0; d < info.ndim; ++d) shape += (d ? ", " : "") + std::to_string(info.shape[d]);
  description_.push_back(
      std::string(input ? "input  " : "output ") + info.name + " [" + shape + "] " +
      (info.dtype == NRT_DTYPE_FLOAT32 ? "float32" : "dtype " + std::to_string(info.dtype)) + ", " +
      std::to_string(info.size) + " bytes");
  const uint32_t columns = input ? 64 : 10;
  if (info.ndim != 2 || info.shape[1] != columns || info.dtype != NRT_DTYPE_FLOAT32 ||
      info.size != info.shape[0] * columns * sizeof(float)) {
    error_ = "the model is no digits classifier: " + description_.back() + "; expected [rows, " +
             std::to_string(columns) + "] float32";
    return false;
  }
  batch_ = info.shape[0];
  nrt_tensor_t*& tensor = input ? x_ : probabilities_;
  if (NRT_STATUS s =
          nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info.size, info.name, &tensor)) {
    return fail(std::string("allocating tensor ") + info.name, s);
  }
  if (NRT_STATUS s = nrt_add_tensor_to_tensor_set(input ? inputs_ : outputs_, info.name, tensor)) {
    return fail(std::string("adding tensor ") + info.name, s);
  }
  return true;
}

bool Classifier::load(const std::string& neff_path) {
  std::ifstream file(neff_path, std::ios::binary);
  if (!file) {
    error_ = neff_path + ": cannot be opened; `make` writes it, or give a NEFF with --model";
    return false;
  }
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (NRT_STATUS s = nrt_load(bytes.data(), bytes.size(), -1, -1, &model_)) {
    return fail(neff_path, s);
  }
  if (NRT_STATUS s = nrt_allocate_tensor_set(&inputs_)) return fail("input set", s);
  if (NRT_STATUS s = nrt_allocate_tensor_set(&outputs_)) return fail("output set", s);
  nrt_tensor_info_array_t* info = nullptr;
  if (NRT_STATUS s = nrt_get_model_tensor_info(model_, &info)) return fail("tensor information", s);
  bool good = true;
  for (uint64_t i = 0; good && i < info->tensor_count; ++i) good = bind(info->tensor_array[i]);
  nrt_free_model_tensor_info(info);
  if (good && (!x_ || !probabilities_)) {
    error_ = neff_path + ": expected one input and one output";
    good = false;
  }
  return good;
}

bool Classifier::classify(std::span<const Digit> digits,
                          std::vector<std::array<float, 10>>& probabilities) {
  std::vector<float> x(size_t{batch_} * 64, 0.0f);
  const size_t rows = std::min<size_t>(digits.size(), batch_);
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(&x[row * 64], digits[row].pixels.data(), 64 * sizeof(float));
  }
  if (NRT_STATUS s = nrt_tensor_write(x_, x.data(), 0, x.size() * sizeof(float))) {
    return fail("writing the batch", s);
  }
  if (NRT_STATUS s = nrt_execute(model_, inputs_, outputs_)) return fail("executing the model", s);
  std::vector<std::array<float, 10>> out(batch_);
  if (NRT_STATUS s = nrt_tensor_read(probabilities_, out.data(), 0, batch_ * sizeof(out[0]))) {
    return fail("reading the probabilities", s);
  }
  probabilities.assign(out.begin(), out.begin() + rows);
  return true;
}

bool Classifier::report(nrt_open_execution_report_t& report) {
  report = {};
  report.size = sizeof report;
  const NRT_STATUS s = nrt_open_get_execution_report(model_, &report);
  return s == NRT_SUCCESS || fail("execution report", s);
}

}  // namespace neuron::digits
