// SPDX-License-Identifier: Apache-2.0
// What a kernel gives on a chip: the same bits and the same model time in every execution, with
// strict mode on and off.
// Callers: tests of this folder. Thread-safe: no. Fails the test that calls.
#ifndef TESTS_DIFFERENTIAL_KERNELS_OUTCOME_H
#define TESTS_DIFFERENTIAL_KERNELS_OUTCOME_H

#include <map>
#include <string>

#include "tests/differential/compare.h"
#include "tests/differential/kernels/chip.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::differential {

// repeats_test.cpp has more: five, and a hundred in `make nightly`.
inline constexpr int kRuns = 3;

using Values = std::map<std::string, Bytes>;

struct Outcome {
  Values outputs;
  uint64_t device_ps = 0;  // Of an execution whose rings are set up

  std::vector<float> floats_of(const std::string& name, uint8_t dtype) const {
    const Bytes& bytes = outputs.at(name);
    return dtype == kBf16 ? floats_of_bf16(bytes) : floats(bytes);
  }
};

inline Bytes bytes_of(uint8_t dtype, const std::vector<float>& values) {
  if (dtype == kBf16) return as_bf16(values);
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class Integer>
Bytes bytes_of(const std::vector<Integer>& values) {
  Bytes bytes(values.size() * sizeof(Integer));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// One of the two ways: `runs` executions, which must give the same.
inline Outcome outcome_of(const kernels::Neff& neff, unsigned generation, const Values& inputs,
                          const std::vector<std::string>& outputs, bool strict, int runs) {
  Outcome first;
  const Chip chip(generation, strict);
  DeviceModel model(neff, chip.ready());
  if (!model.usable()) return first;
  for (const auto& [name, bytes] : inputs) model.write(name, bytes.data(), bytes.size());
  for (int run = 0; run < runs; ++run) {
    if (!model.execute()) return {};
    Values found;
    for (const std::string& name : outputs) found[name] = model.read(name);
    // The first execution has also pointed the rings at the tensors.
    if (run == 0) first.outputs = found;
    if (run == 1) first.device_ps = model.device_ps();
    EXPECT_EQ(found, first.outputs) << "execution " << run;
    if (run > 1) {
      EXPECT_EQ(model.device_ps(), first.device_ps) << "execution " << run;
    }
  }
  return first;
}

inline Outcome outcome_of(const kernels::Neff& neff, unsigned generation, const Values& inputs,
                          const std::vector<std::string>& outputs, int runs = kRuns) {
  Outcome strict = outcome_of(neff, generation, inputs, outputs, true, runs);
  const Outcome plain = outcome_of(neff, generation, inputs, outputs, false, runs);
  EXPECT_EQ(plain.outputs, strict.outputs) << "strict mode off";
  EXPECT_EQ(plain.device_ps, strict.device_ps) << "strict mode off";
  return strict;
}

// Bits and model time that were checked in.
inline void expect_golden(const Outcome& outcome, const Golden& golden) {
  Bytes all;
  for (const auto& [name, bytes] : outcome.outputs) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(hash_of(all), golden.hash) << std::hex << "0x" << hash_of(all) << "u";
  EXPECT_EQ(outcome.device_ps, golden.device_ps);
}

}  // namespace neuron::differential

#endif
