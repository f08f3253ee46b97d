// SPDX-License-Identifier: Apache-2.0
#include "tools/kernels/kernels.h"

#include <array>

namespace neuron::kernels {
namespace {

constexpr std::uint8_t kF32 = NEURON_DTYPE_F32;
constexpr std::uint8_t kBf16 = NEURON_DTYPE_BF16;

struct Entry {
  const char* name;
  Neff (*build)(const std::string& name, const std::string& data);
};

constexpr std::array kEntries = {
    Entry{"empty", [](const std::string&, const std::string&) { return empty(); }},
    Entry{"tensor_add", [](const std::string& name,
                           const std::string&) { return tensor_add(name, kF32, 256, 1024); }},
    Entry{"matmul_f32_256",
          [](const std::string& name, const std::string&) {
            return matmul(name, kF32, {256, 256, 512});
          }},
    Entry{"matmul_f32_1024",
          [](const std::string& name, const std::string&) {
            return matmul(name, kF32, {1024, 1024, 1024});
          }},
    Entry{"matmul_bf16_1024",
          [](const std::string& name, const std::string&) {
            return matmul(name, kBf16, {1024, 1024, 1024});
          }},
    Entry{"softmax_f32", [](const std::string& name,
                            const std::string&) { return softmax(name, kF32, 256, 1024); }},
    Entry{"softmax_bf16", [](const std::string& name,
                             const std::string&) { return softmax(name, kBf16, 256, 1024); }},
    Entry{"digits",
          [](const std::string&, const std::string& data) -> Neff {
            NEURON_TRY(weights, read_digits_weights(data));
            return digits(weights);
          }},
};

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Entry& entry : kEntries) all.emplace_back(entry.name);
  return all;
}

Neff build(const std::string& name, const std::string& data) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.build(name, data);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return runtime::fail(NRT_INVALID, "no kernel \"{}\"; there are {}", name, known);
}

}  // namespace neuron::kernels
