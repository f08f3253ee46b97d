// SPDX-License-Identifier: Apache-2.0
#include "tests/system/training/step_model.h"

#include <gtest/gtest.h>
#include <nrt/nrt_experimental.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace neuron::digits {
namespace {

constexpr size_t kModelPixels = 64, kUnits = 128, kModelLabels = 10;
constexpr float kScale = 0.0625f;  // pixels are 0..16

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double result = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    result = std::max(result, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return result;
}

}  // namespace

Weights Weights::initial() {
  std::mt19937 random(20260101);
  const auto values = [&](size_t count, size_t zeros, float bound) {
    std::vector<float> result(count + zeros);
    for (size_t i = 0; i < count; ++i) {
      result[i] = (static_cast<float>(random() >> 8) / 8388608.0f - 1.0f) * bound;
    }
    return result;
  };
  Weights weights;
  weights.w1 = values(kModelPixels * kUnits, kUnits, 0.2f);  // the last row is the bias
  weights.w2 = values(kUnits * kModelLabels, 0, 0.15f);
  weights.b2 = values(0, kModelLabels, 0);
  return weights;
}

double Weights::distance(const Weights& other) const {
  return std::max({largest_difference(w1, other.w1), largest_difference(w2, other.w2),
                   largest_difference(b2, other.b2)});
}

double Weights::accuracy(const std::vector<Digit>& digits, size_t first) const {
  size_t right = 0;
  for (size_t d = first; d < digits.size(); ++d) {
    double hidden[kUnits];
    for (size_t u = 0; u < kUnits; ++u) {
      double sum = w1[kModelPixels * kUnits + u];
      for (size_t p = 0; p < kModelPixels; ++p) {
        sum += static_cast<double>(digits[d].pixels[p]) * kScale * w1[p * kUnits + u];
      }
      hidden[u] = std::max(sum, 0.0);
    }
    double scores[kModelLabels];
    for (size_t l = 0; l < kModelLabels; ++l) {
      scores[l] = b2[l];
      for (size_t u = 0; u < kUnits; ++u) scores[l] += hidden[u] * w2[u * kModelLabels + l];
    }
    right += std::max_element(scores, scores + kModelLabels) - scores == digits[d].label;
  }
  return static_cast<double>(right) / static_cast<double>(digits.size() - first);
}

void for_each_batch(const std::vector<Digit>& digits, size_t rows, size_t batch, unsigned epochs,
                    const std::function<void(const std::vector<Digit>&)>& use) {
  for (unsigned epoch = 0; epoch < epochs; ++epoch) {
    std::vector<Digit> order(digits.begin(), digits.begin() + static_cast<ptrdiff_t>(rows));
    std::mt19937 random(epoch + 1);
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
    for (size_t first = 0; first + batch <= order.size(); first += batch) {
      use({order.begin() + static_cast<ptrdiff_t>(first),
           order.begin() + static_cast<ptrdiff_t>(first + batch)});
    }
  }
}

StepModel::StepModel(const std::vector<uint8_t>& neff, uint32_t core, uint32_t cores) {
  const NRT_STATUS status =
      cores == 1 ? nrt_load(neff.data(), neff.size(), static_cast<int32_t>(core), 1, &model_)
                 : nrt_load_collectives(neff.data(), neff.size(), static_cast<int32_t>(core), 1,
                                        core, cores, &model_);
  EXPECT_EQ(status, NRT_SUCCESS);
  EXPECT_EQ(nrt_allocate_tensor_set(&inputs_), NRT_SUCCESS);
  EXPECT_EQ(nrt_allocate_tensor_set(&outputs_), NRT_SUCCESS);
  nrt_tensor_info_array_t* info = nullptr;
  if (status != NRT_SUCCESS || nrt_get_model_tensor_info(model_, &info) != NRT_SUCCESS) {
    ADD_FAILURE() << "no model for core " << core;
    return;
  }
  for (uint64_t i = 0; i < info->tensor_count; ++i) {
    const nrt_tensor_info_t& one = info->tensor_array[i];
    Tensor& tensor = tensors_[one.name];
    tensor.bytes = one.size;
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, static_cast<int>(core), one.size,
                                  one.name, &tensor.handle),
              NRT_SUCCESS);
    EXPECT_EQ(nrt_add_tensor_to_tensor_set(one.usage == NRT_TENSOR_USAGE_INPUT ? inputs_ : outputs_,
                                           one.name, tensor.handle),
              NRT_SUCCESS);
  }
  nrt_free_model_tensor_info(info);
}

StepModel::~StepModel() {
  nrt_destroy_tensor_set(&inputs_);
  nrt_destroy_tensor_set(&outputs_);
  for (auto& [name, tensor] : tensors_) nrt_tensor_free(&tensor.handle);
  if (model_) nrt_unload(model_);
}

void StepModel::write(const std::string& name, const std::vector<float>& values) {
  const auto found = tensors_.find(name);
  ASSERT_NE(found, tensors_.end()) << name;
  ASSERT_EQ(found->second.bytes, values.size() * sizeof(float)) << name;
  EXPECT_EQ(nrt_tensor_write(found->second.handle, values.data(), 0, found->second.bytes),
            NRT_SUCCESS);
}

std::vector<float> StepModel::read(const std::string& name) {
  const auto found = tensors_.find(name);
  EXPECT_NE(found, tensors_.end()) << name;
  if (found == tensors_.end()) return {};
  std::vector<float> values(found->second.bytes / sizeof(float));
  EXPECT_EQ(nrt_tensor_read(found->second.handle, values.data(), 0, found->second.bytes),
            NRT_SUCCESS);
  return values;
}

void StepModel::write_weights(const Weights& weights) {
  write("w1", weights.w1);
  write("w2", weights.w2);
  write("b2", weights.b2);
}

Weights StepModel::read_weights(const std::string& suffix) {
  return {read("w1" + suffix), read("w2" + suffix), read("b2" + suffix)};
}

void StepModel::write_digits(const std::vector<Digit>& batch, size_t first, size_t rows) {
  std::vector<float> x(rows * kModelPixels), wanted(rows * kModelLabels);
  for (size_t row = 0; row < rows; ++row) {
    const Digit& digit = batch[first + row];
    std::copy(digit.pixels.begin(), digit.pixels.end(),
              x.begin() + static_cast<ptrdiff_t>(row * kModelPixels));
    wanted[row * kModelLabels + static_cast<size_t>(digit.label)] = 1;
  }
  write("x", x);
  write("wanted", wanted);
}

NRT_STATUS StepModel::execute() {
  const NRT_STATUS status = nrt_execute(model_, inputs_, outputs_);
  EXPECT_EQ(status, NRT_SUCCESS);
  return status;
}

}  // namespace neuron::digits
