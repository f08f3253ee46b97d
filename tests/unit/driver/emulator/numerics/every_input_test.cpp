// SPDX-License-Identifier: Apache-2.0
// Every input of the formats of 8 and 16 bits gives the same bits on every SIMD path as on the
// scalar one: conversions, activations, arithmetic. What the bits have to be is in
// tests/differential/numerics_exhaustive_test.cpp and numerics_conversion_test.cpp.
#include <cstring>
#include <span>
#include <string>

#include "driver/emulator/numerics/activation.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/isa/instruction.h"
#include "tests/unit/driver/emulator/numerics/numerics_fixture.h"

namespace neuron::numerics {
namespace {

constexpr unsigned kFloats[] = {NEURON_DTYPE_BF16, NEURON_DTYPE_F16,  NEURON_DTYPE_F8E3,
                                NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5, NEURON_DTYPE_F8E4FN};
constexpr unsigned kIntegers[] = {NEURON_DTYPE_I8, NEURON_DTYPE_U8, NEURON_DTYPE_I16,
                                  NEURON_DTYPE_U16};
constexpr unsigned kOthers[] = {NEURON_DTYPE_I32, NEURON_DTYPE_U32, NEURON_DTYPE_F32,
                                NEURON_DTYPE_F32R, NEURON_DTYPE_TF32};
constexpr unsigned kEveryOperation = 64;
// The paths beyond compute products of matrices in other ways, and all else as kAvx512.
constexpr SimdPath kPaths[] = {SimdPath::kAvx2, SimdPath::kAvx512};

using Bytes = std::vector<std::byte>;

Bytes every_code(unsigned dtype) {
  const size_t width = element_bytes(dtype), codes = size_t{1} << 8 * width;
  Bytes bytes(codes * width);
  for (size_t code = 0; code < codes; ++code) {
    std::memcpy(bytes.data() + code * width, &code, width);
  }
  return bytes;
}
std::vector<float> every_value(unsigned dtype) {
  const Bytes codes = every_code(dtype);
  std::vector<float> values(codes.size() / element_bytes(dtype));
  widen(dtype, codes.data(), 1, values.data(), values.size());
  return values;
}
// bf16 and f16: between them every exponent of fp32, and all their own subnormals.
std::vector<float> every_16_bit_value() {
  std::vector<float> values = every_value(NEURON_DTYPE_BF16);
  for (const float value : every_value(NEURON_DTYPE_F16)) values.push_back(value);
  return values;
}
// The same values in another order, so that each meets one that is not its own.
std::vector<float> shuffled(const std::vector<float>& values) {
  std::vector<float> other(values.size());
  for (size_t n = 0; n < values.size(); ++n) other[n] = values[(n * 40503 + 77) % values.size()];
  return other;
}

class EveryInput : public ::testing::Test {
 protected:
  ~EveryInput() override { select_simd_path(saved_); }

  // compute(out) on each path, whose bytes must be those of the scalar path.
  template <class Compute>
  void expect_same(size_t bytes, const Compute& compute, const std::string& what) {
    expected_.assign(bytes, std::byte{0x5A});
    ASSERT_TRUE(select_simd_path(SimdPath::kScalar));
    compute(expected_.data());
    for (const SimdPath path : kPaths) {
      if (!test::select_path_or_tell(path)) continue;
      found_.assign(bytes, std::byte{0x5A});
      compute(found_.data());
      if (std::memcmp(found_.data(), expected_.data(), bytes) == 0) continue;
      size_t at = 0;
      while (found_[at] == expected_[at]) ++at;
      ADD_FAILURE() << what << " on " << simd_path_name(path) << ": byte " << at
                    << " differs from the scalar path";
    }
  }
  template <class Compute>
  void expect_same_floats(size_t n, const Compute& compute, const std::string& what) {
    expect_same(
        n * sizeof(float), [&](std::byte* out) { compute(reinterpret_cast<float*>(out)); }, what);
  }

 private:
  SimdPath saved_ = simd_path();
  Bytes expected_, found_;
};

TEST_F(EveryInput, WidensToTheSameBits) {
  const std::span<const unsigned> groups[] = {kFloats, kIntegers};
  for (const auto& group : groups) {
    for (const unsigned dtype : group) {
      const Bytes codes = every_code(dtype);
      const size_t n = codes.size() / element_bytes(dtype);
      for (const ptrdiff_t step : {1, -1}) {
        const std::byte* first =
            step == 1 ? codes.data() : codes.data() + codes.size() - element_bytes(dtype);
        expect_same_floats(
            n, [&](float* out) { widen(dtype, first, step, out, n); }, isa::dtype_name(dtype));
      }
    }
  }
}

// Of each type to each, rounded to nearest, saturated, and stochastically.
TEST_F(EveryInput, ConvertsToTheSameBits) {
  std::vector<unsigned> all(std::begin(kFloats), std::end(kFloats));
  all.insert(all.end(), std::begin(kIntegers), std::end(kIntegers));
  std::vector<unsigned> targets = all;
  targets.insert(targets.end(), std::begin(kOthers), std::end(kOthers));
  for (const unsigned from : all) {
    const std::vector<float> values = every_value(from);
    for (const unsigned to : targets) {
      const std::string what = std::string(isa::dtype_name(from)) + " to " + isa::dtype_name(to);
      const size_t bytes = values.size() * element_bytes(to);
      for (const bool saturate : {false, true}) {
        expect_same(
            bytes,
            [&](std::byte* out) {
              narrow(to, values.data(), out, 1, values.size(), {.saturate = saturate});
            },
            what);
      }
      expect_same(
          bytes,
          [&](std::byte* out) {
            RandomStream random(7, 3);
            narrow(to, values.data(), out, 1, values.size(), {.rounding = Rounding::kStochastic},
                   &random);
          },
          what + " stochastically");
    }
  }
}

TEST_F(EveryInput, ActivatesToTheSameBits) {
  const std::vector<float> in = every_16_bit_value();
  for (unsigned function = 0; function <= NEURON_ACT_RECIPROCAL; ++function) {
    for (const Subnormals subnormals : {Subnormals::kKeep, Subnormals::kFlush}) {
      expect_same_floats(
          in.size(),
          [&](float* out) { activate(function, in.data(), out, in.size(), 0.3f, subnormals); },
          isa::activation_name(function));
    }
  }
}

TEST_F(EveryInput, ComputesToTheSameBits) {
  const std::vector<float> a = every_16_bit_value(), b = shuffled(a);
  const float scalars[] = {0x1.8p-1f, -2.5f, INFINITY, NAN, 0x1p-133f, -0.0f};
  for (unsigned op = 0; op < kEveryOperation; ++op) {
    if (!alu_is_arithmetic(op)) continue;
    for (const Subnormals subnormals : {Subnormals::kKeep, Subnormals::kFlush}) {
      expect_same_floats(
          a.size(), [&](float* out) { alu(op, a.data(), b.data(), out, a.size(), subnormals); },
          isa::alu_name(op));
      if (subnormals == Subnormals::kFlush) continue;
      for (const float scalar : scalars) {
        for (const bool reverse : {false, true}) {
          expect_same_floats(
              a.size(),
              [&](float* out) { alu_scalar(op, a.data(), scalar, reverse, out, a.size()); },
              std::string(isa::alu_name(op)) + " with a scalar");
        }
      }
    }
    if (!alu_is_reducible(op)) continue;
    const size_t rows = a.size() / 256;
    expect_same_floats(
        rows,
        [&](float* out) {
          std::fill(out, out + rows, reduce_identity(op));
          reduce_rows(op, a.data(), 256, rows, 256, out);
        },
        std::string(isa::alu_name(op)) + " over rows");
  }
}

// All pairs: of the formats of 8 bits, written back into their own format.
TEST_F(EveryInput, ComputesPairsOf8BitsToTheSameBits) {
  std::vector<unsigned> types = {NEURON_DTYPE_I8, NEURON_DTYPE_U8};
  for (const unsigned dtype : kFloats) {
    if (element_bytes(dtype) == 1) types.push_back(dtype);
  }
  for (const unsigned dtype : types) {
    const std::vector<float> values = every_value(dtype);
    std::vector<float> a(65536), b(65536), result(65536);
    for (size_t n = 0; n < a.size(); ++n) {
      a[n] = values[n / 256];
      b[n] = values[n % 256];
    }
    for (unsigned op = 0; op < kEveryOperation; ++op) {
      if (!alu_is_arithmetic(op)) continue;
      expect_same(
          65536 * 5,
          [&](std::byte* out) {
            alu(op, a.data(), b.data(), result.data(), result.size());
            narrow(dtype, result.data(), out, 1, result.size());
            std::memcpy(out + 65536, result.data(), 4 * result.size());
          },
          std::string(isa::alu_name(op)) + " of " + isa::dtype_name(dtype));
    }
  }
}

TEST_F(EveryInput, ComputesOnBitsToTheSameBits) {
  Bytes a(65536), b(65536);  // all pairs of 8 bits; of 16 bits each with one other
  for (size_t n = 0; n < a.size(); ++n) {
    a[n] = std::byte{static_cast<uint8_t>(n / 256)};
    b[n] = std::byte{static_cast<uint8_t>(n)};
  }
  std::vector<uint16_t> wide(65536), other(65536);
  for (size_t n = 0; n < wide.size(); ++n) {
    wide[n] = static_cast<uint16_t>(n);
    other[n] = static_cast<uint16_t>(n % 3 == 0 ? n % 19 : n * 40503);
  }
  const auto* wide_a = reinterpret_cast<const std::byte*>(wide.data());
  const auto* wide_b = reinterpret_cast<const std::byte*>(other.data());
  for (unsigned op = 0; op < kEveryOperation; ++op) {
    if (!alu_is_bitwise(op)) continue;
    const std::string name = isa::alu_name(op);
    expect_same(
        65536, [&](std::byte* out) { alu_bits(op, a.data(), b.data(), out, 1, 65536); }, name);
    expect_same(
        131072, [&](std::byte* out) { alu_bits(op, wide_a, wide_b, out, 2, 65536); },
        name + " of 16 bits");
    for (const uint32_t scalar : {0U, 1U, 7U, 8U, 15U, 16U, 0x5AA5U, 0xFFFFFFFFU}) {
      for (const bool reverse : {false, true}) {
        expect_same(
            131072,
            [&](std::byte* out) { alu_bits_scalar(op, wide_a, scalar, reverse, out, 2, 65536); },
            name + " of 16 bits with a scalar");
        expect_same(
            65536,
            [&](std::byte* out) { alu_bits_scalar(op, a.data(), scalar, reverse, out, 1, 65536); },
            name + " of 8 bits with a scalar");
      }
    }
  }
}

}  // namespace
}  // namespace neuron::numerics
