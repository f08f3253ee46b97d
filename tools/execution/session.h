// SPDX-License-Identifier: Apache-2.0
//
// libnrt for a program that executes NEFFs: initialised once, models with tensors for all their
// inputs and outputs, freed in the right order.
//
// Callers: neuron-bench and neuron-run, one thread for each Model. Owns what it made. Fails: with
// libnrt's own sentence.
#ifndef TOOLS_EXECUTION_SESSION_H
#define TOOLS_EXECUTION_SESSION_H

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::execution {

template <typename T>
using Result = runtime::Result<T>;

// Calls nrt_init for `wanted` of the cores that NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES
// names, of all cores without them; 0: for each of these. Cores that are not wanted stay free for
// other processes.
class Session {
 public:
  static Result<std::unique_ptr<Session>> open(uint32_t wanted = 0);
  ~Session();

  uint32_t cores() const { return cores_; }
  const std::string& instance_type() const { return instance_type_; }

 private:
  uint32_t cores_ = 0;
  std::string instance_type_;
};

class Tensor {
 public:
  // On the core's HBM, or in host memory.
  static Result<Tensor> allocate(uint32_t core, size_t size, bool host = false);
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor();
  nrt_tensor_t* get() const { return handle_; }

 private:
  Tensor() = default;
  nrt_tensor_t* handle_ = nullptr;
};

// An input or output of a model, with memory of the device for it.
struct Port {
  std::string name;
  bool input = false;
  nrt_dtype_t dtype = NRT_DTYPE_UNKNOWN;
  std::vector<uint64_t> shape;
  size_t bytes = 0;
  Tensor tensor;

  // Whole contents; `contents` has `bytes` bytes.
  Result<void> write(const std::vector<uint8_t>& contents) const;
  Result<std::vector<uint8_t>> read() const;
};

enum class Fill { kZero, kRandom };

class Model {
 public:
  // `collective_ranks`: with nrt_load_collectives, as rank `core` of so many cores; 0: without.
  static Result<std::unique_ptr<Model>> load(const std::vector<uint8_t>& neff, uint32_t core,
                                             uint32_t collective_ranks = 0);
  // Weights go from the file to the device in pieces.
  static Result<std::unique_ptr<Model>> load_file(const std::string& path, uint32_t core);
  ~Model();

  // In the order of the NEFF. Their contents are not defined before they are written.
  const std::vector<Port>& ports() const { return ports_; }
  // Writes all inputs.
  Result<void> fill(Fill fill) const;

  // For calls of libnrt that this class does not make.
  nrt_model_t* handle() const { return model_; }
  // One execution; the report is of the device.
  Result<nrt_open_execution_report_t> execute();

 private:
  Model() = default;
  Result<void> bind(uint32_t core);

  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  std::vector<Port> ports_;
};

// The sentence of the last failed call of this thread.
runtime::Error failure(const std::string& what, NRT_STATUS status);

}  // namespace neuron::execution

#endif
