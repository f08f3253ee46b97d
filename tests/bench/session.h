// SPDX-License-Identifier: Apache-2.0
// A loaded NEFF with its tensors on a core of the embedded device, as the benchmarks use it.
// One thread. Owns the model, tensors and sets until destroyed. Fails: `error` holds a sentence.
#ifndef TESTS_BENCH_SESSION_H
#define TESTS_BENCH_SESSION_H

#include <nrt/nrt.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_experimental.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::bench {

class Session {
 public:
  enum class Inputs { kNumbers, kZeros };
  // A file of build/neff, or an absolute path, with numbers as inputs.
  explicit Session(const std::string& neff, int core = 0);
  // A NEFF in memory; `name` is for sentences.
  Session(std::string_view neff, const std::string& name, Inputs values, int core = 0);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();
  NRT_STATUS execute() { return nrt_execute(model_, inputs_, outputs_); }
  NRT_STATUS schedule(nrta_seq_t* seq) {
    return nrta_execute_schedule(model_, inputs_, outputs_, 0, nullptr, seq);
  }
  nrt_model_t* model() const { return model_; }
  // Every input or output tensor, in the NEFF's order.
  const std::vector<nrt_tensor_t*>& inputs() const { return input_tensors_; }
  const std::vector<nrt_tensor_t*>& outputs() const { return output_tensors_; }
  const std::string& error() const { return error_; }

 private:
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  std::vector<nrt_tensor_t*> input_tensors_, output_tensors_;
  std::string error_;

  void load(std::string_view neff, const std::string& name, Inputs values, int core);
};

// n numbers between -2 and 2, the same at every call; what Session puts into floating-point inputs.
std::vector<uint16_t> bf16_numbers(size_t n);

// nrt_init once per process; an empty string or a sentence.
std::string initialise();

}  // namespace neuron::bench

#endif
