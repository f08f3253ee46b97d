// SPDX-License-Identifier: Apache-2.0
// What a kernel gave against what it should give: element by element within the reference's bounds,
// and all bits and the model time against those that were checked in.
// Callers: tests of this folder. Thread-safe: no state. Failures name the first elements.
#ifndef TESTS_DIFFERENTIAL_COMPARE_H
#define TESTS_DIFFERENTIAL_COMPARE_H

#include <string>
#include <vector>

#include "hw/isa.h"
#include "tests/differential/device_model.h"
#include "tests/differential/goldens.h"
#include "tests/differential/goldens_v3.h"
#include "tests/differential/reference.h"

namespace neuron::differential {

inline constexpr uint8_t kF32 = NEURON_DTYPE_F32;
inline constexpr uint8_t kBf16 = NEURON_DTYPE_BF16;

inline void expect_within(const std::vector<float>& got, const std::vector<Bounded>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double distance = std::fabs(got[i] - wanted[i].value);
    if (distance <= wanted[i].error) continue;  // NaN is not
    if (++wrong <= 3) {
      ADD_FAILURE() << "element " << i << " is " << got[i] << ", expected " << wanted[i].value
                    << " within " << wanted[i].error;
    }
  }
  EXPECT_EQ(wrong, 0U);
}

// The first execution has also pointed the rings at the tensors; every later one must repeat the
// same bits in the same model time.
inline void expect_golden(DeviceModel& model, const char* output, const Golden& golden) {
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(model.execute());
    const uint64_t hash = hash_of(model.read(output));
    EXPECT_EQ(hash, golden.hash) << std::hex << "0x" << hash << "u";
    EXPECT_EQ(model.device_ps(),
              on_generation_3() ? device_ps_on_generation_3(golden) : golden.device_ps);
  }
}

// Random numbers that the type holds exactly.
inline std::vector<float> random_values(uint8_t dtype, uint64_t seed, size_t count,
                                        float scale = 1) {
  std::vector<float> values = Numbers(seed).take(count, scale);
  if (dtype == kBf16) {
    for (float& value : values) value = static_cast<float>(to_bf16(value));
  }
  return values;
}

inline void write_as(DeviceModel& model, const std::string& name, uint8_t dtype,
                     const std::vector<float>& values) {
  if (dtype != kBf16) return model.write(name, values);
  const Bytes bytes = as_bf16(values);
  model.write(name, bytes.data(), bytes.size());
}

inline std::vector<float> read_as(DeviceModel& model, const std::string& name, uint8_t dtype) {
  const Bytes bytes = model.read(name);
  return dtype == kBf16 ? floats_of_bf16(bytes) : floats(bytes);
}

inline std::vector<Bounded> stored_as(uint8_t dtype, std::vector<Bounded> values) {
  if (dtype == kBf16) {
    for (Bounded& value : values) value = stored_as_bf16(value);
  }
  return values;
}

}  // namespace neuron::differential

#endif
