// SPDX-License-Identifier: Apache-2.0
// Hashes of results over fixed inputs. They change only when the specified arithmetic changes:
// another compiler, optimisation level, processor or library must not move a bit.
#include <algorithm>
#include <memory>

#include "driver/emulator/numerics/activation.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/alu_scalar.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/tensor_kernel.h"
#include "tests/unit/driver/emulator/numerics/numerics_fixture.h"

namespace neuron::numerics {
namespace {

// Random signs and mantissas with exponents -8..7, from integers alone.
std::vector<float> moderate_floats(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) {
    const uint32_t word = random();
    v = from_bits((word & 0x807FFFFFu) | (119 + (word >> 23 & 15)) << 23);
  }
  return values;
}

uint64_t hash_of(const std::vector<float>& values, uint64_t hash = 0xCBF29CE484222325ull) {
  for (float v : values) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (bits_of(v) >> shift & 0xFF)) * 0x100000001B3ull;
    }
  }
  return hash;
}

TEST(Golden, ProductsOfEveryFloatType) {
  uint64_t hash = 0;
  for (unsigned dtype : {NEURON_DTYPE_F32, NEURON_DTYPE_TF32, NEURON_DTYPE_BF16, NEURON_DTYPE_F16,
                         NEURON_DTYPE_F8E3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5}) {
    constexpr int kK = 77, kM = 19, kN = 83;
    const ptrdiff_t bytes = element_bytes(dtype);
    std::vector<std::byte> a(kK * kM * bytes), b(kK * kN * bytes);
    narrow(dtype, moderate_floats(kK * kM, 1).data(), a.data(), 1, kK * kM, {.saturate = true});
    narrow(dtype, moderate_floats(kK * kN, 2).data(), b.data(), 1, kK * kN, {.saturate = true});
    auto weights = std::make_unique<Stationary>();
    weights->load({a.data(), kM * bytes, dtype}, kK, kM);
    std::vector<float> psum(kM * kN);
    for (bool accumulate : {false, true}) {
      multiply(*weights, {b.data(), kN * bytes, dtype}, kN, psum.data(), kN, accumulate);
    }
    hash = hash_of(psum, hash);
  }
  EXPECT_EQ(hash, 0x7DA2A30AD815BAE5ull);
}

TEST(Golden, Activations) {
  uint64_t hash = 0;
  for (unsigned function = 0; activation_known(function); ++function) {
    for (auto in : {moderate_floats(3000, 3), any_floats(3000, 4)}) {
      activate(function, in.data(), in.data(), in.size(), 0.3f);
      hash = hash_of(in, hash);
    }
  }
  EXPECT_EQ(hash, 0x140222C0743C9FBEull);
}

TEST(Golden, AluOperations) {
  uint64_t hash = 0;
  const auto a = moderate_floats(1000, 5), b = moderate_floats(1000, 6);
  const auto c = any_floats(1000, 7), d = any_floats(1000, 8);
  std::vector<float> out(1000);
  // The hash has the truncated remainder, of which mod is made (Alu.ModHasTheSignOfTheDivisor).
  const auto compute = [&](unsigned op, const std::vector<float>& x, const std::vector<float>& y) {
    if (op == NEURON_ALU_MOD) {
      std::transform(x.begin(), x.end(), y.begin(), out.begin(), remainder_towards_zero);
    } else {
      alu(op, x.data(), y.data(), out.data(), out.size());
    }
  };
  for (unsigned op = 0; op < 64; ++op) {
    compute(op, a, b);
    hash = hash_of(out, hash);
    compute(op, c, d);
    hash = hash_of(out, hash);
    if (alu_is_reducible(op)) {
      hash = hash_of({reduce(op, a.data(), 500, reduce_identity(op))}, hash);
    }
  }
  EXPECT_EQ(hash, 0xB860324DA9FDFB3Eull);
}

}  // namespace
}  // namespace neuron::numerics
