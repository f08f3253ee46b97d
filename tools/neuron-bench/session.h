// SPDX-License-Identifier: Apache-2.0
//
// libnrt for a program that measures: initialised once, models with tensors for all their inputs
// and outputs, freed in the right order.
//
// Callers: the commands, one thread. Owns what it made. Fails: with libnrt's own sentence.
#ifndef TOOLS_NEURON_BENCH_SESSION_H
#define TOOLS_NEURON_BENCH_SESSION_H

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::bench {

template <typename T>
using Result = runtime::Result<T>;

// Calls nrt_init for the cores that NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES names; for all
// cores without them.
class Session {
 public:
  static Result<std::unique_ptr<Session>> open();
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

enum class Fill { kZero, kRandom };

class Model {
 public:
  // `collectives`: with nrt_load_collectives, as rank `core` of all cores.
  static Result<std::unique_ptr<Model>> load(const std::vector<uint8_t>& neff, uint32_t core,
                                             uint32_t collective_ranks, Fill fill);
  ~Model();

  // One execution; the report is of the device.
  Result<nrt_open_execution_report_t> execute();

 private:
  Model() = default;
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  std::vector<Tensor> tensors_;
};

// The sentence of the last failed call.
runtime::Error failure(const std::string& what, NRT_STATUS status);

}  // namespace neuron::bench

#endif
