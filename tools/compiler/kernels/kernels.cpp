// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/kernels/kernels.h"

#include <array>

#include "tools/compiler/kernels/short_names.h"

namespace neuron::kernels {
namespace {

constexpr uint8_t kBf16 = NEURON_DTYPE_BF16;
// With 64 clients, half of the requests are computed while the other half arrive.
constexpr uint32_t kServingBatch = 32;

struct Entry {
  const char* name;
  Neff (*build)(const char* name, const std::string& data);
  bool large = false;  // Not written by the build
  uint8_t generation = 2;
};

// Kernels of one shape of arguments, as table entries.
template <auto kKernel, uint8_t kDtype, auto... kArguments>
Neff make(const char* name, const std::string&) {
  return kKernel(name, kDtype, kArguments...);
}
template <uint8_t kDtype, uint64_t kM, uint64_t kK, uint64_t kN>
Neff product(const char* name, const std::string&) {
  return matmul(name, kDtype, {kM, kK, kN});
}
template <MatmulForm kForm, uint64_t kM, uint64_t kK, uint64_t kN>
Neff product_form(const char* name, const std::string&) {
  return matmul_form(name, kBf16, {kM, kK, kN}, kForm);
}

template <uint64_t kSize, uint64_t kBatch, uint64_t kHeads, uint64_t kPositions, bool kInterleaved>
Neff rotary(const char* name, const std::string&) {
  return rope(name, kBf16, {kSize, kBatch, kHeads, kPositions, kInterleaved});
}
template <uint8_t kDtype, uint64_t kHeads, uint64_t kPositions, uint64_t kSize, bool kCausal>
Neff heads(const char* name, const std::string&) {
  return attention(name, kDtype, {kHeads, kPositions, kSize, kCausal});
}
template <uint64_t kChannels, uint64_t kPositions, unsigned kVersion>
Neff scan(const char* name, const std::string&) {
  return mamba(name, {kChannels, kPositions, 16}, kVersion);
}

constexpr std::array kEntries = {
    Entry{"empty", [](const char*, const std::string&) { return empty(); }},
    Entry{"tensor_add", make<tensor_add, kF32, 256, 1024>},
    Entry{"tensor_add_bf16", make<tensor_add, kBf16, 256, 1024>},
    Entry{"transpose_pe", make<transpose, kF32, 256, 384, TransposeBy::kPe>},
    Entry{"transpose_dve", make<transpose, kBf16, 256, 384, TransposeBy::kDve>},
    Entry{"transpose_dma", make<transpose, kBf16, 256, 384, TransposeBy::kDma>},
    Entry{"average_pool",
          [](const char* name, const std::string&) {
            return average_pool(name, kF32, {64, 24, 24, 2});
          }},
    Entry{"matmul_basic", product_form<MatmulForm::kBasic, 64, 128, 512>},
    Entry{"matmul_tiled", product_form<MatmulForm::kTiled, 512, 512, 1024>},
    Entry{"matmul_hoisted", product_form<MatmulForm::kHoisted, 512, 512, 1024>},
    Entry{"matmul_blocked", product_form<MatmulForm::kBlocked, 512, 512, 1024>},
    Entry{"matmul_f32_256", product<kF32, 256, 256, 512>},
    Entry{"matmul_f32_1024", product<kF32, 1024, 1024, 1024>},
    Entry{"matmul_bf16_1024", product<kBf16, 1024, 1024, 1024>},
    Entry{"matmul_bf16_4096", product<kBf16, 4096, 4096, 4096>, true},
    Entry{.name = "mx_matmul",
          .build =
              [](const char* name, const std::string&) {
                return mx_matmul(name, kBf16, {256, 1024, 512});
              },
          .generation = 4},
    Entry{.name = "sparse_matmul",
          .build =
              [](const char* name, const std::string&) {
                return sparse_matmul(name, kBf16, {256, 1024, 512, NEURON_SPARSE_4_OF_16});
              },
          .generation = 3},
    Entry{"layer_norm", make<layer_norm, kF32, 300, 1000>},
    Entry{"layer_norm_bf16", make<layer_norm, kBf16, 512, 1024>},
    Entry{"layer_norm_bf16_4096", make<layer_norm, kBf16, 4096, 4096>},
    Entry{"rms_norm", make<rms_norm, kF32, 300, 1000>},
    Entry{"rms_norm_bf16", make<rms_norm, kBf16, 512, 1024>},
    Entry{.name = "rms_norm_quant_bf16",
          .build = make<rms_norm_quant, kBf16, 256, 1024, 3>,
          .generation = 3},
    Entry{"softmax_f32", make<softmax, kF32, 256, 1024>},
    Entry{"softmax_bf16", make<softmax, kBf16, 256, 1024>},
    Entry{"softmax_bf16_4096", make<softmax, kBf16, 4096, 4096>},
    Entry{"gelu_bf16_4096", make<gelu, kBf16, 4096, 4096>},
    Entry{"gelu_mlp",
          [](const char* name, const std::string&) {
            return gelu_mlp(name, kBf16, {128, 256, 512, 256});
          }},
    Entry{"cumulative_sum", make<cumulative_sum, kF32, 256, 2048>},
    Entry{"rope", rotary<64, 2, 4, 512, false>},
    Entry{"rope_interleaved", rotary<128, 1, 4, 512, true>},
    Entry{"attention", heads<kF32, 1, 512, 64, false>},
    Entry{"attention_causal_bf16", heads<kBf16, 2, 512, 128, true>},
    Entry{"attention_grouped_bf16",
          [](const char* name, const std::string&) {
            return attention(name, kBf16,
                             {.heads = 4, .sequence = 384, .head_size = 64, .causal = true,
                              .kv_heads = 2, .log_sums = true});
          }},
    Entry{"attention_window_bf16",
          [](const char* name, const std::string&) {
            return attention(name, kBf16,
                             {.heads = 1, .sequence = 768, .head_size = 64, .causal = true,
                              .block = 512, .window = 256});
          }},
    Entry{"attention_backward_bf16",
          [](const char* name, const std::string&) {
            return attention_backward(
                name, kBf16,
                {.heads = 2, .sequence = 384, .head_size = 64, .causal = true, .kv_heads = 1});
          }},
    Entry{"attention_f32_4096", heads<kF32, 1, 4096, 128, false>, true},
    Entry{"attention_bf16_4096", heads<kBf16, 1, 4096, 128, false>, true},
    Entry{"mamba_v1", scan<256, 512, 1>},
    Entry{"mamba_v2", scan<256, 512, 2>},
    Entry{"mamba_v3", scan<256, 1024, 3>},
    Entry{"mamba_v1_4096", scan<4096, 512, 1>, true},
    Entry{"mamba_v2_4096", scan<4096, 512, 2>, true},
    Entry{"mamba_v3_4096", scan<4096, 8192, 3>, true},
    Entry{"ssd_bf16",
          [](const char* name, const std::string&) {
            return ssd(name, kBf16, {1, 2, 256, 64, 64});
          }},
    Entry{"router_top_k_bf16",
          [](const char* name, const std::string&) {
            return router_top_k(name, kBf16, {256, 256, 64, 4});
          }},
    Entry{"moe_bf16",
          [](const char* name, const std::string&) {
            return moe(name, kBf16, {256, 128, 128, 8, 8});
          }},
    Entry{"convolution",
          [](const char* name, const std::string&) {
            return convolution(name, kBf16, {1, 128, 128, 34, 18, 3, 2});
          }},
    Entry{"digits",
          [](const char*, const std::string& data) -> Neff {
            NEURON_TRY(weights, read_digits_weights(data));
            return digits(weights);
          }},
    Entry{"digits_serving",
          [](const char*, const std::string& data) -> Neff {
            NEURON_TRY(weights, read_digits_weights(data));
            return digits(weights, kServingBatch);
          }},
    Entry{"digits_training_f32", make<digits_training, kF32, false>},
    Entry{"digits_training_bf16", make<digits_training, kBf16, false>},
    Entry{"digits_training_bf16_sr", make<digits_training, kBf16, true>},
};

std::vector<std::string> names_of(bool large) {
  std::vector<std::string> all;
  for (const Entry& entry : kEntries) {
    if (entry.large == large) all.emplace_back(entry.name);
  }
  return all;
}

}  // namespace

std::vector<std::string> names() { return names_of(false); }
std::vector<std::string> large_names() { return names_of(true); }

uint8_t generation_of(const std::string& name) {
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.generation;
  }
  return 0;
}

Neff build(const std::string& name, const std::string& data) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.build(entry.name, data);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return runtime::fail(NRT_INVALID, "no kernel \"{}\"; there are {}", name, known);
}

}  // namespace neuron::kernels
