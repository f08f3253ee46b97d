// SPDX-License-Identifier: Apache-2.0
// The digits model on a NeuronCore: load, bind, run batch after batch, through the public C API
// only. Callers: neuron-digits, one thread. Owns model, tensors and sets. Fails: false and a
// sentence in error().
#ifndef TOOLS_NEURON_DIGITS_CLASSIFIER_H
#define TOOLS_NEURON_DIGITS_CLASSIFIER_H

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>
#include <nrt/nrt_version.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "tools/neuron-digits/dataset.h"

namespace neuron::digits {

class Classifier {
 public:
  Classifier() = default;
  Classifier(const Classifier&) = delete;
  Classifier& operator=(const Classifier&) = delete;
  ~Classifier();

  bool load(const std::string& neff_path);
  // Rows of one batch, from the shape of the model's input.
  unsigned batch() const { return batch_; }
  // Input and output tensors as lines of text.
  const std::vector<std::string>& description() const { return description_; }
  // Probabilities of up to batch() digits; missing rows are sent as zeros and not returned.
  bool classify(std::span<const Digit> digits, std::vector<std::array<float, 10>>& probabilities);
  bool report(nrt_open_execution_report_t& report);
  const std::string& error() const { return error_; }

 private:
  bool fail(const std::string& what, NRT_STATUS status);
  bool bind(const nrt_tensor_info_t& info);
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  nrt_tensor_t* x_ = nullptr;
  nrt_tensor_t* probabilities_ = nullptr;
  unsigned batch_ = 0;
  std::vector<std::string> description_;
  std::string error_;
};

}  // namespace neuron::digits

#endif
