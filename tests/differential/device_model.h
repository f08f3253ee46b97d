// SPDX-License-Identifier: Apache-2.0
// A model on the embedded device, through the public C interface: inputs in, outputs out.
// Callers: tests of this folder, on one thread. Owns the loaded model and its tensors. A status
// other than success fails the test with the runtime's sentence.
#ifndef TESTS_DIFFERENTIAL_DEVICE_MODEL_H
#define TESTS_DIFFERENTIAL_DEVICE_MODEL_H

#include <gtest/gtest.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::differential {

using Bytes = std::vector<uint8_t>;

inline bool succeeded(NRT_STATUS status, const char* what) {
  EXPECT_EQ(status, NRT_SUCCESS) << what << ": " << nrt_open_last_error();
  return status == NRT_SUCCESS;
}

// The programs are of generation 2; on a device of generation 3 they must give the same bits.
inline bool on_generation_3() {
  const char* profile = std::getenv("NEURON_DIFFERENTIAL_PROFILE");
  return profile != nullptr && std::strncmp(profile, "trn2", 4) == 0;
}

// The runtime of this process, on an emulated device of its own.
inline bool runtime_ready() {
  static const bool ready = [] {
    const char* profile = std::getenv("NEURON_DIFFERENTIAL_PROFILE");
    setenv("NEURON_EMULATOR", profile != nullptr ? profile : "trn1.2xlarge", 1);
    if (on_generation_3()) {
      setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
      setenv("NEURON_RT_ALLOW_LEGACY_NEFF", "1", 1);
    }
    return succeeded(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init");
  }();
  return ready;
}

class DeviceModel {
 public:
  explicit DeviceModel(const runtime::Result<Bytes>& neff) : DeviceModel(neff, runtime_ready()) {}
  // On a core of a device that the caller has opened, if `ready`.
  DeviceModel(const runtime::Result<Bytes>& neff, bool ready, int core = 0) {
    if (!neff) {
      ADD_FAILURE() << neff.error().sentence;
      return;
    }
    if (!ready || !succeeded(nrt_load(neff->data(), neff->size(), core, 1, &model_), "nrt_load")) {
      return;
    }
    nrt_tensor_info_array_t* info = nullptr;
    if (!succeeded(nrt_get_model_tensor_info(model_, &info), "nrt_get_model_tensor_info")) return;
    nrt_allocate_tensor_set(&inputs_);
    nrt_allocate_tensor_set(&outputs_);
    for (uint64_t i = 0; i < info->tensor_count; ++i) {
      const nrt_tensor_info_t& entry = info->tensor_array[i];
      nrt_tensor_t* tensor = nullptr;
      succeeded(
          nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, entry.size, entry.name, &tensor),
          entry.name);
      const bool output = entry.usage != NRT_TENSOR_USAGE_INPUT;
      tensors_[entry.name] = {tensor, entry.size, output};
      auto* set = output ? outputs_ : inputs_;
      succeeded(nrt_add_tensor_to_tensor_set(set, entry.name, tensor), entry.name);
    }
    nrt_free_model_tensor_info(info);
    usable_ = true;
  }
  ~DeviceModel() {
    if (inputs_) nrt_destroy_tensor_set(&inputs_);
    if (outputs_) nrt_destroy_tensor_set(&outputs_);
    for (auto& [name, tensor] : tensors_) nrt_tensor_free(&tensor.handle);
    if (model_) nrt_unload(model_);
  }
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  bool usable() const { return usable_; }

  void write(const std::string& name, const void* bytes, size_t size) {
    ASSERT_TRUE(usable_);
    ASSERT_EQ(tensors_.at(name).size, size) << name;
    succeeded(nrt_tensor_write(tensors_.at(name).handle, bytes, 0, size), name.c_str());
  }
  void write(const std::string& name, const std::vector<float>& values) {
    write(name, values.data(), values.size() * sizeof(float));
  }
  // Outputs start as NaN, so that what the device does not write shows.
  bool execute() {
    for (auto& [name, tensor] : tensors_) {
      if (tensor.output) nrt_tensor_memset(tensor.handle, 0, 0xFF, tensor.size);
    }
    return usable_ && succeeded(nrt_execute(model_, inputs_, outputs_), "nrt_execute");
  }
  NRT_STATUS status_of_execution() { return nrt_execute(model_, inputs_, outputs_); }
  Bytes read(const std::string& name) {
    Bytes bytes(tensors_.at(name).size);
    succeeded(nrt_tensor_read(tensors_.at(name).handle, bytes.data(), 0, bytes.size()),
              name.c_str());
    return bytes;
  }
  // Of every output, by name.
  std::vector<Bytes> outputs() {
    std::vector<Bytes> all;
    for (const auto& [name, tensor] : tensors_) {
      if (tensor.output) all.push_back(read(name));
    }
    return all;
  }
  nrt_open_execution_report_t report() {
    nrt_open_execution_report_t report{};
    report.size = sizeof report;
    succeeded(nrt_open_get_execution_report(model_, &report), "report");
    return report;
  }
  uint64_t device_ps() { return report().device_ps; }

 private:
  struct Tensor {
    nrt_tensor_t* handle = nullptr;
    size_t size = 0;
    bool output = false;
  };
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  std::map<std::string, Tensor> tensors_;
  bool usable_ = false;
};

inline std::vector<float> floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

inline std::vector<float> floats_of_bf16(const Bytes& bytes) {
  std::vector<float> values;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const uint32_t bits = static_cast<uint32_t>(bytes[i] | bytes[i + 1] << 8) << 16;
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

// Values that are exact in bf16.
inline Bytes as_bf16(const std::vector<float>& values) {
  Bytes bytes;
  for (float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    bytes.push_back(static_cast<uint8_t>(bits >> 16));
    bytes.push_back(static_cast<uint8_t>(bits >> 24));
  }
  return bytes;
}

// FNV-1a, to compare all bits of a result with those that were checked in.
inline uint64_t hash_of(const Bytes& bytes) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001B3u;
  return hash;
}

// The same numbers everywhere: SplitMix64 to [-scale, scale).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  float next(float scale) {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return static_cast<float>(static_cast<int32_t>(z >> 40) - (1 << 23)) * 0x1p-23F * scale;
  }
  std::vector<float> take(size_t count, float scale = 1) {
    std::vector<float> values(count);
    for (float& value : values) value = next(scale);
    return values;
  }

 private:
  uint64_t state_;
};

}  // namespace neuron::differential

#endif
