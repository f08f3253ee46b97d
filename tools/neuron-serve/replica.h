// SPDX-License-Identifier: Apache-2.0
//
// A model on one core, with the tensors that its batches go through: one program for each batch
// size, of which the smallest runs that has room for the rows there are.
// Callers: ModelHost makes and destroys it, its executor runs it. Thread-safe: no.
// Owns: the loaded model, its tensors and sets, and the host's copy of a batch.
// Fails: load() with a sentence; run() says whether the model or the device failed.
#ifndef TOOLS_NEURON_SERVE_REPLICA_H
#define TOOLS_NEURON_SERVE_REPLICA_H

#include <nrt/nrt.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/neuron-serve/message/job.h"
#include "tools/neuron-serve/message/model_spec.h"

namespace neuron::serve {

// "loading x.neff: NRT_INVALID: <the runtime's sentence>"
std::string runtime_failure(const std::string& what, NRT_STATUS status);

class Replica {
 public:
  // On the core that --cores counts as `core` and the runtime as `vnc`. Completes `spec` with the
  // tensors. Null: `error` has a sentence.
  static std::unique_ptr<Replica> load(uint32_t core, uint32_t vnc, ModelSpec& spec,
                                       std::string& error);
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
  Replica(uint32_t core, uint32_t vnc) : core_(core), vnc_(vnc) {}

  struct Port {
    TensorSpec spec;
    nrt_tensor_t* tensor = nullptr;
    std::vector<char> rows = {};
  };
  struct Program {
    uint32_t batch = 1;
    nrt_model_t* model = nullptr;
    nrt_tensor_set_t* input_set = nullptr;
    nrt_tensor_set_t* output_set = nullptr;
    std::vector<Port> inputs = {}, outputs = {};
  };
  bool add_program(const std::string& neff, ModelSpec& spec, std::string& error);
  bool bind(Program& program, std::string& error);
  bool warm_up(const ModelSpec& spec, std::string& error);

  const uint32_t core_, vnc_;
  std::vector<Program> programs_;         // by ascending batch
  uint64_t host_ns_ = 0, device_ps_ = 0;  // of the last batch
};

}  // namespace neuron::serve

#endif
