// SPDX-License-Identifier: Apache-2.0
//
// A model on one core, with the tensors that its batches go through.
// Callers: ModelHost makes and destroys it, its executor runs it. Thread-safe: no.
// Owns: the loaded model, its tensors and sets, and the host's copy of a batch.
// Fails: load() with a sentence; run() says whether the model or the device failed.
#ifndef TOOLS_NEURON_SERVE_REPLICA_H
#define TOOLS_NEURON_SERVE_REPLICA_H

#include <nrt/nrt.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/neuron-serve/job.h"
#include "tools/neuron-serve/model_spec.h"

namespace neuron::serve {

// "loading x.neff: NRT_INVALID: <the runtime's sentence>"
std::string runtime_failure(const std::string& what, NRT_STATUS status);

class Replica {
 public:
  // Completes `spec` with the tensors. Null: `error` has a sentence.
  static std::unique_ptr<Replica> load(uint32_t core, ModelSpec& spec, std::string& error);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  enum class Result { kDone, kModelFailed, kDeviceFailed };
  // Runs the rows of all jobs as one batch and fills their answers; `error` has a sentence if it
  // failed, and the jobs are as they were.
  Result run(const Jobs& jobs, uint32_t rows, std::string& error);
  // Whether the device still answers.
  bool probe(std::string& error) const;

  uint32_t core() const { return core_; }
  uint64_t host_ns() const { return host_ns_; }
  uint64_t device_ps() const { return device_ps_; }

 private:
  explicit Replica(uint32_t core) : core_(core) {}
  bool bind(std::string& error);

  struct Port {
    TensorSpec spec;
    nrt_tensor_t* tensor = nullptr;
    std::vector<char> rows = {};
  };

  const uint32_t core_;
  uint32_t batch_ = 1;
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* input_set_ = nullptr;
  nrt_tensor_set_t* output_set_ = nullptr;
  std::vector<Port> inputs_, outputs_;
  uint64_t host_ns_ = 0, device_ps_ = 0;  // of the last batch
};

}  // namespace neuron::serve

#endif
