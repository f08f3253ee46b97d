// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the C interface share: a runtime on an embedded device, and a loaded model with
// tensors for all its inputs and outputs. Callers: tests of this folder, one thread.
#ifndef TESTS_SYSTEM_API_SUPPORT_H
#define TESTS_SYSTEM_API_SUPPORT_H

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/support/setting.h"
#include "tools/compiler/kernels/fault_programs.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::test {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

// NEURON_TEST_EMULATOR=unix:PATH runs the tests on a shared device.
inline const char* test_emulator() {
  const char* chosen = std::getenv("NEURON_TEST_EMULATOR");
  return chosen != nullptr ? chosen : "trn1.2xlarge";
}

class RuntimeTest : public ::testing::Test {
 protected:
  RuntimeTest()
      : emulator_("NEURON_EMULATOR", test_emulator()), quiet_("NEURON_RT_LOG_LEVEL", "QUIET") {}
  void SetUp() override { init(); }
  void TearDown() override { nrt_close(); }

  void init() {
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "1.2.3", ""), NRT_SUCCESS)
        << nrt_open_last_error();
  }
  static uint64_t used_bytes(uint32_t vnc = 0) {
    nrt_vnc_memory_stats_t stats{};
    size_t size = 0;
    EXPECT_EQ(nrt_get_vnc_memory_stats(vnc, &stats, sizeof(stats), &size), NRT_SUCCESS);
    return stats.bytes_used;
  }

 private:
  Setting emulator_;
  Setting quiet_;
};

inline Bytes bytes_of(const kernels::Neff& neff) {
  EXPECT_TRUE(neff.has_value()) << (neff ? "" : neff.error().sentence);
  return neff ? *neff : Bytes{};
}
inline Bytes small_add() {
  return bytes_of(kernels::tensor_add("small_add", NEURON_DTYPE_F32, 128, 16));
}
inline Bytes small_softmax() {
  return bytes_of(kernels::softmax("small_softmax", NEURON_DTYPE_F32, 128, 16));
}

inline nrt_tensor_t* make_tensor(size_t size, int vnc = 0,
                                 nrt_tensor_placement_t placement = NRT_TENSOR_PLACEMENT_DEVICE,
                                 const char* name = "t") {
  nrt_tensor_t* tensor = nullptr;
  EXPECT_EQ(nrt_tensor_allocate(placement, vnc, size, name, &tensor), NRT_SUCCESS)
      << nrt_open_last_error();
  return tensor;
}

inline Bytes pattern(size_t size, uint8_t seed = 1) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed);
  return bytes;
}

inline Bytes contents(const nrt_tensor_t* tensor) {
  Bytes bytes(nrt_tensor_get_size(tensor));
  EXPECT_EQ(nrt_tensor_read(tensor, bytes.data(), 0, bytes.size()), NRT_SUCCESS)
      << nrt_open_last_error();
  return bytes;
}

// A model on a core with one tensor for each input and output.
class Loaded {
 public:
  explicit Loaded(const Bytes& neff, int vnc = 0,
                  nrt_tensor_placement_t placement = NRT_TENSOR_PLACEMENT_DEVICE) {
    EXPECT_EQ(nrt_load(neff.data(), neff.size(), vnc, 1, &model), NRT_SUCCESS)
        << nrt_open_last_error();
    EXPECT_EQ(nrt_allocate_tensor_set(&inputs), NRT_SUCCESS);
    EXPECT_EQ(nrt_allocate_tensor_set(&outputs), NRT_SUCCESS);
    nrt_tensor_info_array_t* info = nullptr;
    if (nrt_get_model_tensor_info(model, &info) != NRT_SUCCESS) return;
    for (uint64_t i = 0; i < info->tensor_count; ++i) {
      const nrt_tensor_info_t& entry = info->tensor_array[i];
      nrt_tensor_t* tensor = make_tensor(entry.size, vnc, placement, entry.name);
      tensors[entry.name] = tensor;
      EXPECT_EQ(nrt_add_tensor_to_tensor_set(
                    entry.usage == NRT_TENSOR_USAGE_INPUT ? inputs : outputs, entry.name, tensor),
                NRT_SUCCESS);
    }
    nrt_free_model_tensor_info(info);
  }
  ~Loaded() {
    nrt_destroy_tensor_set(&inputs);
    nrt_destroy_tensor_set(&outputs);
    for (auto& [name, tensor] : tensors) nrt_tensor_free(&tensor);
    if (model != nullptr) nrt_unload(model);
  }

  void fill(const std::string& name, float value) {
    std::vector<float> values(nrt_tensor_get_size(tensors[name]) / sizeof(float), value);
    EXPECT_EQ(nrt_tensor_write(tensors[name], values.data(), 0, values.size() * sizeof(float)),
              NRT_SUCCESS);
  }
  std::vector<float> floats(const std::string& name) {
    const Bytes bytes = contents(tensors[name]);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  NRT_STATUS run() { return nrt_execute(model, inputs, outputs); }

  nrt_model_t* model = nullptr;
  nrt_tensor_set_t* inputs = nullptr;
  nrt_tensor_set_t* outputs = nullptr;
  std::map<std::string, nrt_tensor_t*> tensors;
};

}  // namespace neuron::test

#endif
