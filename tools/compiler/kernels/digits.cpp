// SPDX-License-Identifier: Apache-2.0
// The classifier of handwritten digits: 64 -> 128 relu -> 10 softmax, a batch of digits at a time.
//
// Batch rows arrive on partitions; layer 1 needs pixels on partitions, so x is transposed on PE by
// a product with the identity. Layer 1 leaves its units on partitions, which is what layer 2 needs
// as its stationary matrix: no second transpose.
#include <bit>
#include <cstring>

#include "runtime/neff/npy_file.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;
using runtime::Result;

namespace {

constexpr uint32_t kMostRows = 128;  // They are partitions.
constexpr uint32_t kPixels = 64;
constexpr uint32_t kUnits = 128;
constexpr uint32_t kLabels = 10;
constexpr float kScale = 0.0625F;  // Pixels are 0..16, the weights were trained on 0..1

std::vector<uint8_t> as_bytes(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Nearest even, as the engines convert; weights are finite.
std::vector<uint8_t> as_bf16(const std::vector<float>& values) {
  std::vector<uint8_t> bytes;
  for (float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
    bytes.push_back(static_cast<uint8_t>(rounded >> 16));
    bytes.push_back(static_cast<uint8_t>(rounded >> 24));
  }
  return bytes;
}

std::vector<uint8_t> identity(uint32_t n) {
  std::vector<float> values(size_t{n} * n);
  for (uint32_t i = 0; i < n; ++i) values[size_t{i} * n + i] = 1;
  return as_bytes(values);
}

Result<std::vector<float>> read_array(const std::string& path, uint64_t elements) {
  NEURON_TRY(array, tools::read_npy_file(path));
  if (array.type != "<f4" || array.elements() != elements) {
    return fail(NRT_INVALID, "{} holds {} elements of type {}; expected {} of type <f4", path,
                array.elements(), array.type, elements);
  }
  std::vector<float> values(elements);
  std::memcpy(values.data(), array.data.data(), array.data.size());
  return values;
}

}  // namespace

Result<DigitsWeights> read_digits_weights(const std::string& directory) {
  NEURON_TRY(w1, read_array(directory + "/w1.npy", kPixels * kUnits));
  NEURON_TRY(b1, read_array(directory + "/b1.npy", kUnits));
  NEURON_TRY(w2, read_array(directory + "/w2.npy", kUnits * kLabels));
  NEURON_TRY(b2, read_array(directory + "/b2.npy", kLabels));
  return DigitsWeights{std::move(w1), std::move(b1), std::move(w2), std::move(b2)};
}

Neff digits(const DigitsWeights& weights, uint32_t batch) {
  if (batch == 0 || batch > kMostRows) {
    return fail(NRT_INVALID, "a batch of {} digits; expected 1 to {}", batch, kMostRows);
  }
  if (weights.w1.size() != kPixels * kUnits || weights.b1.size() != kUnits ||
      weights.w2.size() != kUnits * kLabels || weights.b2.size() != kLabels) {
    return fail(NRT_INVALID,
                "the digits' weights have {}, {}, {} and {} elements; expected w1 [64, 128], b1 "
                "[128], w2 [128, 10] and b2 [10]",
                weights.w1.size(), weights.b1.size(), weights.w2.size(), weights.b2.size());
  }
  constexpr uint8_t f32 = NEURON_DTYPE_F32;
  constexpr uint8_t bf16 = NEURON_DTYPE_BF16;
  Program program(batch == kDigitsBatch ? "digits" : "digits_serving");
  const Buffer x = program.input("x", f32, {batch, kPixels});
  const Buffer probabilities = program.output("probabilities", f32, {batch, kLabels});
  const Buffer unit_matrix = program.constant("identity", f32, {batch, batch}, identity(batch));
  const Buffer w1 = program.constant("w1", bf16, {kPixels, kUnits}, as_bf16(weights.w1));
  const Buffer b1 = program.constant("b1", f32, {kUnits}, as_bytes(weights.b1));
  const Buffer w2 = program.constant("w2", bf16, {kUnits, kLabels}, as_bf16(weights.w2));
  const Buffer b2 = program.constant("b2", f32, {kLabels}, as_bytes(weights.b2));

  program.section("load");
  const Tile x_rows = program.sbuf("x", batch, kPixels, f32);
  const Tile unit = program.sbuf("identity", batch, batch, f32);
  const Tile w1_tile = program.sbuf("w1", kPixels, kUnits, bf16);
  const Tile b1_tile = program.sbuf("b1", kUnits, 1, f32);
  const Tile w2_tile = program.sbuf("w2", kUnits, kLabels, bf16);
  const Tile b2_tile = program.sbuf("b2", batch, kLabels, f32);
  program.dma(Engine::kSp, x_rows.all(), x.all());
  program.dma(Engine::kSp, unit.all(), unit_matrix.all());
  program.dma(Engine::kSp, w1_tile.all(), w1.all());
  program.dma(Engine::kSp, b1_tile.all(), b1.as_column());
  program.dma(Engine::kSp, w2_tile.all(), w2.all());
  program.dma(Engine::kSp, b2_tile.all(), b2.broadcast(batch));

  program.section("transpose");
  const Tile turned = program.psum("x transposed", kPixels, batch);
  const Tile pixels = program.sbuf("pixels", kPixels, batch, bf16);
  program.matmul(turned.all(), x_rows.all(), unit.all());
  program.activate(pixels.all(), NEURON_ACT_COPY, turned.all(), {.scale = kScale, .bias = {}});

  program.section("layer1");
  const Tile sums = program.psum("layer 1", kUnits, batch);
  const Tile units = program.sbuf("units", kUnits, batch, bf16);
  program.matmul(sums.all(), w1_tile.all(), pixels.all());
  program.activate(units.all(), NEURON_ACT_RELU, sums.all(), {.scale = {}, .bias = b1_tile.all()});

  program.section("layer2");
  const Tile scores = program.psum("layer 2", batch, kLabels);
  const Tile logits = program.sbuf("logits", batch, kLabels, f32);
  program.matmul(scores.all(), units.all(), w2_tile.all());
  program.tensor_tensor(Engine::kDve, logits.all(), scores.all(), NEURON_ALU_ADD, b2_tile.all());

  program.section("softmax");
  const Tile lowered = program.sbuf("negated maximum", batch, 1, f32);
  const Tile exponentials = program.sbuf("exponentials", batch, kLabels, f32);
  const Tile sum = program.sbuf("sum", batch, 1, f32);
  const Tile factor = program.sbuf("factor", batch, 1, f32);
  const Tile out = program.sbuf("probabilities", batch, kLabels, f32);
  program.tensor_reduce(lowered.all(), NEURON_ALU_MAX, logits.all(), 1, true);
  program.activate(exponentials.all(), NEURON_ACT_EXP, logits.all(),
                   {.scale = {}, .bias = lowered.all(), .reduce = NEURON_REDUCE_RESET_ACCUMULATE});
  program.read_accumulator(Engine::kActivation, sum.all());
  program.reciprocal(factor.all(), sum.all());
  program.tensor_scalar(Engine::kDve, out.all(), exponentials.all(), NEURON_ALU_MUL, factor.all());
  program.dma(Engine::kPool, probabilities.all(), out.all());
  return program.build();
}

}  // namespace neuron::kernels
