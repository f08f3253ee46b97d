// SPDX-License-Identifier: Apache-2.0
// A NEFF that is a step of training, or a part of one, with its tensors by name; and the weights.
//
// For tests: a call that fails fails the test. Thread-safe: no; models of several cores may be
// executed at once by a thread each. Owns model, tensors and sets.
#ifndef TESTS_SYSTEM_TRAINING_STEP_MODEL_H
#define TESTS_SYSTEM_TRAINING_STEP_MODEL_H

#include <nrt/nrt.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/neuron-digits/dataset.h"

namespace neuron::digits {

struct Weights {
  std::vector<float> w1, w2, b2;

  static Weights initial();
  // Largest difference of any weight.
  double distance(const Weights& other) const;
  // Share of the digits whose likeliest label is theirs.
  double accuracy(const std::vector<Digit>& digits, size_t first) const;
  bool operator==(const Weights&) const = default;
};

// Batches of the first `rows` digits, in an order that depends on the epoch alone; digits that fill
// no whole batch are left out.
void for_each_batch(const std::vector<Digit>& digits, size_t rows, size_t batch, unsigned epochs,
                    const std::function<void(const std::vector<Digit>&)>& use);

class StepModel {
 public:
  // Loads for core `core`; with `cores` > 1 as that rank of a group, all of which load at once.
  explicit StepModel(const std::vector<uint8_t>& neff, uint32_t core = 0, uint32_t cores = 1);
  StepModel(const StepModel&) = delete;
  StepModel& operator=(const StepModel&) = delete;
  ~StepModel();

  bool loaded() const { return model_ != nullptr; }
  void write(const std::string& name, const std::vector<float>& values);
  std::vector<float> read(const std::string& name);
  void write_weights(const Weights& weights);
  Weights read_weights(const std::string& suffix);
  void write_digits(const std::vector<Digit>& batch, size_t first, size_t rows);
  NRT_STATUS execute();

 private:
  struct Tensor {
    nrt_tensor_t* handle = nullptr;
    uint64_t bytes = 0;
  };
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace neuron::digits

#endif
