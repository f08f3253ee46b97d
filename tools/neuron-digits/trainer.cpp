// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/trainer.h"

#include <nrt/nrt_open.h>
#include <nrt/nrt_version.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "tools/neuron-digits/failure_text.h"

namespace neuron::digits {
namespace {

constexpr size_t kPixels = 64, kLabels = 10;
constexpr const char* kWeights[] = {"w1", "w2", "b2"};
constexpr char kNext[] = "_next";

// 64-bit linear congruential generator: the same numbers on every host.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  uint32_t word() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  float uniform(float bound) {
    return (static_cast<float>(word() >> 7) / static_cast<float>(1 << 23) - 1.0f) * bound;
  }

 private:
  uint64_t state_;
};

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace

Trainer::~Trainer() {
  if (inputs_) nrt_destroy_tensor_set(&inputs_);
  if (outputs_) nrt_destroy_tensor_set(&outputs_);
  for (auto& [name, tensor] : tensors_) nrt_tensor_free(&tensor.handle);
  if (model_) nrt_unload(model_);
}

bool Trainer::fail(const std::string& what, NRT_STATUS status) {
  error_ = failure_text(what, status);
  return false;
}

// An output NAME_next is the tensor of the input NAME.
bool Trainer::bind(const nrt_tensor_info_t& info) {
  std::string name = info.name;
  if (info.usage == NRT_TENSOR_USAGE_OUTPUT && name.ends_with(kNext)) {
    name.resize(name.size() - std::strlen(kNext));
  }
  Tensor& tensor = tensors_[name];
  if (!tensor.handle) {
    tensor.bytes = info.size;
    tensor.dtype = info.dtype;
    if (NRT_STATUS s = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, place_.core, info.size,
                                           name.c_str(), &tensor.handle)) {
      return fail("allocating tensor " + name, s);
    }
  }
  if (tensor.bytes != info.size) {
    error_ = "the model is no training step: " + std::string(info.name) + " has " +
             std::to_string(info.size) + " bytes; expected the " + std::to_string(tensor.bytes) +
             " of " + name;
    return false;
  }
  nrt_tensor_set_t* set = info.usage == NRT_TENSOR_USAGE_INPUT ? inputs_ : outputs_;
  if (NRT_STATUS s = nrt_add_tensor_to_tensor_set(set, info.name, tensor.handle)) {
    return fail(std::string("adding tensor ") + info.name, s);
  }
  if (name == "x" && info.ndim == 2) batch_ = info.shape[0];
  return true;
}

bool Trainer::load(const std::string& name, std::span<const uint8_t> neff, const Place& place) {
  place_ = place;
  const NRT_STATUS loaded = place.ranks == 1
                                ? nrt_load(neff.data(), neff.size(), place.core, 1, &model_)
                                : nrt_load_collectives(neff.data(), neff.size(), place.core, 1,
                                                       place.rank, place.ranks, &model_);
  if (loaded != NRT_SUCCESS) return fail(name, loaded);
  if (NRT_STATUS s = nrt_allocate_tensor_set(&inputs_)) return fail("input set", s);
  if (NRT_STATUS s = nrt_allocate_tensor_set(&outputs_)) return fail("output set", s);
  nrt_tensor_info_array_t* info = nullptr;
  if (NRT_STATUS s = nrt_get_model_tensor_info(model_, &info)) return fail("tensor information", s);
  bool good = true;
  // Inputs come first, so that an output can use the tensor of its input.
  for (uint64_t i = 0; good && i < info->tensor_count; ++i) good = bind(info->tensor_array[i]);
  nrt_free_model_tensor_info(info);
  if (!good) return false;
  const std::pair<const char*, uint64_t> expected[] = {
      {"x", batch_ * kPixels * sizeof(float)},
      {"wanted", batch_ * kLabels * sizeof(float)},
      {"probabilities", batch_ * kLabels * sizeof(float)},
      {"rate", sizeof(float)},
      {"loss", sizeof(float)},
      {"w1", 0},
      {"w2", 0},
      {"b2", 0}};
  for (const auto& [tensor, bytes] : expected) {
    const auto found = tensors_.find(tensor);
    if (found != tensors_.end() && batch_ != 0 && (bytes == 0 || found->second.bytes == bytes)) {
      continue;
    }
    error_ = name + " is no training step: it lacks tensor " + tensor +
             (bytes ? " of " + std::to_string(bytes) + " bytes" : std::string());
    return false;
  }
  return initialise_weights();
}

bool Trainer::write(const char* name, const void* data, size_t bytes) {
  if (NRT_STATUS s = nrt_tensor_write(tensors_[name].handle, data, 0, bytes)) {
    return fail(std::string("writing ") + name, s);
  }
  return true;
}

bool Trainer::initialise_weights() {
  Generator random(20260101);
  for (const char* name : kWeights) {
    const Tensor& tensor = tensors_[name];
    const bool narrow = tensor.dtype == NRT_DTYPE_BFLOAT16;
    const size_t n = tensor.bytes / (narrow ? 2 : 4);
    // Biases (b2, and the last row of w1) start at 0.
    const bool first = std::strcmp(name, "w1") == 0;
    const size_t biases = first ? n / (kPixels + 1) : std::strcmp(name, "b2") == 0 ? n : 0;
    std::vector<float> values(n);
    for (size_t i = 0; i < n - biases; ++i) values[i] = random.uniform(first ? 0.2f : 0.15f);
    std::vector<uint16_t> halves;
    for (float v : values) halves.push_back(to_bf16(v));
    const void* data = narrow ? static_cast<const void*>(halves.data()) : values.data();
    if (!write(name, data, tensor.bytes)) return false;
  }
  return true;
}

bool Trainer::step(std::span<const Digit* const> digits, float rate) {
  std::vector<float> x(batch_ * kPixels), wanted(batch_ * kLabels, 0.0f);
  for (size_t row = 0; row < batch_; ++row) {
    std::memcpy(&x[row * kPixels], digits[row]->pixels.data(), kPixels * sizeof(float));
    wanted[row * kLabels + static_cast<size_t>(digits[row]->label)] = 1.0f;
  }
  if (!write("x", x.data(), x.size() * sizeof(float)) ||
      !write("wanted", wanted.data(), wanted.size() * sizeof(float)) ||
      !write("rate", &rate, sizeof rate)) {
    return false;
  }
  if (NRT_STATUS s = nrt_execute(model_, inputs_, outputs_)) return fail("executing a step", s);
  return true;
}

bool Trainer::train_epoch(std::span<const Digit> digits, unsigned epoch, float rate) {
  std::vector<const Digit*> order;
  for (const Digit& digit : digits) order.push_back(&digit);
  Generator random(epoch + 1);
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.word() % (i + 1)]);
  const size_t all = size_t{batch_} * place_.ranks;
  for (size_t first = 0; first + all <= order.size(); first += all) {
    if (!step(std::span(order).subspan(first + place_.rank * batch_, batch_), rate)) return false;
  }
  return true;
}

bool Trainer::evaluate(std::span<const Digit> digits, Evaluation& evaluation) {
  std::vector<float> shares(batch_ * kLabels);
  size_t batches = 0, right = 0;
  double total = 0;
  for (size_t first = 0; first + batch_ <= digits.size(); first += batch_, ++batches) {
    std::vector<const Digit*> rows;
    for (size_t i = 0; i < batch_; ++i) rows.push_back(&digits[first + i]);
    if (!step(rows, 0.0f)) return false;
    float loss = 0;
    if (NRT_STATUS s = nrt_tensor_read(tensors_["loss"].handle, &loss, 0, sizeof loss)) {
      return fail("reading the loss", s);
    }
    if (NRT_STATUS s = nrt_tensor_read(tensors_["probabilities"].handle, shares.data(), 0,
                                       shares.size() * sizeof(float))) {
      return fail("reading the probabilities", s);
    }
    total += loss;
    for (size_t i = 0; i < batch_; ++i) {
      const float* row = &shares[i * kLabels];
      right += std::max_element(row, row + kLabels) - row == rows[i]->label;
    }
  }
  if (batches == 0) {
    error_ = std::to_string(digits.size()) + " digits fill no batch of " + std::to_string(batch_);
    return false;
  }
  evaluation = {total / static_cast<double>(batches),
                static_cast<double>(right) / static_cast<double>(batches * batch_)};
  return true;
}

bool Trainer::weights(std::vector<uint8_t>& bytes) {
  bytes.clear();
  for (const char* name : kWeights) {
    const Tensor& tensor = tensors_[name];
    const size_t at = bytes.size();
    bytes.resize(at + tensor.bytes);
    if (NRT_STATUS s = nrt_tensor_read(tensor.handle, bytes.data() + at, 0, tensor.bytes)) {
      return fail(std::string("reading ") + name, s);
    }
  }
  return true;
}

bool Trainer::set_weights(const std::vector<uint8_t>& bytes) {
  size_t at = 0;
  for (const char* name : kWeights) {
    const size_t size = tensors_[name].bytes;
    if (at + size > bytes.size()) {
      error_ =
          "the weights have " + std::to_string(bytes.size()) + " bytes, which end inside " + name;
      return false;
    }
    if (!write(name, bytes.data() + at, size)) return false;
    at += size;
  }
  return true;
}

uint64_t Trainer::step_ps() const {
  nrt_open_execution_report_t report{};
  report.size = sizeof report;
  return nrt_open_get_execution_report(model_, &report) == NRT_SUCCESS ? report.device_ps : 0;
}

}  // namespace neuron::digits
