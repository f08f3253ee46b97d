// SPDX-License-Identifier: Apache-2.0
// Training of the digits model on a NeuronCore: one NEFF is one step (forward, backward, update);
// its weights live in device memory and are input and output of every step.
//
// Through the public C API only. Callers: neuron-digits train, tests; one thread. Owns model,
// tensors and sets. The same data, epochs and NEFF give the same weights, bit for bit. Fails: false
// and a sentence in error().
#ifndef TOOLS_NEURON_DIGITS_TRAINER_H
#define TOOLS_NEURON_DIGITS_TRAINER_H

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tools/neuron-digits/dataset.h"

namespace neuron::digits {

// The result of a pass over digits without learning.
struct Evaluation {
  double loss = 0;      // mean cross entropy
  double accuracy = 0;  // share of the digits whose likeliest label is theirs
};

// Where a step is executed: on a core, as a rank of a job.
struct Place {
  int32_t core = 0;
  uint32_t rank = 0, ranks = 1;
};

class Trainer {
 public:
  Trainer() = default;
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  // Loads the NEFF of a step and sets the first values of the weights. The bytes may be freed
  // afterwards.
  bool load(const std::string& name, std::span<const uint8_t> neff, const Place& place = {});
  // One pass over the digits in an order that depends on the number of the epoch alone. Digits that
  // fill no whole batch are left out. Of the batch of several ranks each takes its own part.
  bool train_epoch(std::span<const Digit> digits, unsigned epoch, float rate);
  // One pass with rate 0, which keeps the weights. Digits that fill no whole batch are left out.
  bool evaluate(std::span<const Digit> digits, Evaluation& evaluation);
  // Bytes of w1, w2 and b2 one after the other.
  bool weights(std::vector<uint8_t>& bytes);
  // The same bytes into the tensors.
  bool set_weights(const std::vector<uint8_t>& bytes);
  // Model time of the last step in ps; 0 if there was none.
  uint64_t step_ps() const;
  unsigned batch() const { return batch_; }
  const std::string& error() const { return error_; }

 private:
  struct Tensor {
    nrt_tensor_t* handle = nullptr;
    uint64_t bytes = 0;
    nrt_dtype_t dtype = NRT_DTYPE_UNKNOWN;
  };
  bool fail(const std::string& what, NRT_STATUS status);
  bool bind(const nrt_tensor_info_t& info);
  bool write(const char* name, const void* data, size_t bytes);
  bool initialise_weights();
  bool step(std::span<const Digit* const> digits, float rate);

  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  std::map<std::string, Tensor> tensors_;
  Place place_;
  unsigned batch_ = 0;
  std::string error_;
};

}  // namespace neuron::digits

#endif
