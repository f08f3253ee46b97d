// SPDX-License-Identifier: Apache-2.0
// Packing and walking of the tile product, on a model of the tile registers: it runs everywhere.
// The processor's own tiles are compared with the other paths wherever there are any.
#include <memory>

#include "driver/emulator/numerics/tensor_kernel.h"
#include "driver/emulator/numerics/tensor_kernel_scalar.h"
#include "driver/emulator/numerics/tensor_kernel_tiles-inl.h"
#include "tests/unit/driver/emulator/numerics/numerics_fixture.h"

namespace neuron::numerics {
namespace {

float from_bf16(uint16_t bits) { return from_bits(uint32_t{bits} << 16); }

// Eight registers of 16 rows of 64 bytes, with the documented meaning of the tile instructions.
struct ModelTiles {
  static inline unsigned char registers[8][16][64];
  template <int T>
  static void zero() {
    std::memset(registers[T], 0, sizeof registers[T]);
  }
  template <int T>
  static void load(const void* from, ptrdiff_t row_bytes) {
    for (int r = 0; r < 16; ++r) {
      std::memcpy(registers[T][r], static_cast<const char*>(from) + r * row_bytes, 64);
    }
  }
  template <int T>
  static void store(void* to, ptrdiff_t row_bytes) {
    for (int r = 0; r < 16; ++r) {
      std::memcpy(static_cast<char*>(to) + r * row_bytes, registers[T][r], 64);
    }
  }
  template <int C, int A, int B>
  static void multiply() {
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 16; ++n) {
        float chain[2] = {0, 0}, cell;
        for (int k = 0; k < 16; ++k) {
          uint16_t a[2], b[2];
          std::memcpy(a, registers[A][m] + 4 * k, 4);
          std::memcpy(b, registers[B][k] + 4 * n, 4);
          for (int i = 0; i < 2; ++i) {
            chain[i] = flushed_fma(from_bf16(a[i]), from_bf16(b[i]), chain[i]);
          }
        }
        std::memcpy(&cell, registers[C][m] + 4 * n, 4);
        cell = flushed_add(cell, flushed_add(chain[0], chain[1]));
        std::memcpy(registers[C][m] + 4 * n, &cell, 4);
      }
    }
  }
};

struct TileShape {
  int k, m;
  size_t n;
};

std::vector<uint16_t> random_bf16(size_t n, unsigned seed) {
  std::vector<uint16_t> values;
  for (float v : normal_floats(n, seed)) values.push_back(bits_of(v) >> 16);
  return values;
}

TEST(TensorKernelTiles, GiveTheBitsOfTheEnginesOrderForEveryShape) {
  for (const TileShape& s : {TileShape{128, 128, 64}, TileShape{32, 16, 16}, TileShape{1, 48, 48},
                             TileShape{97, 80, 32}, TileShape{64, 32, 16}}) {
    const auto a = random_bf16(s.k * s.m, 1), b = random_bf16(s.k * s.n, 2);
    const int steps = (s.k + 31) / 32;
    std::vector<uint16_t> weights(steps * 32 * s.m, 0x7FC0), moving(steps * 32 * s.n, 0x7FC0);
    tiles::pack_stationary([&](int r) { return a.data() + r * s.m; }, s.k, s.m, steps,
                           weights.data());
    tiles::pack_moving([&](int r) { return b.data() + r * s.n; }, s.k, steps, s.n, moving.data());
    for (const bool accumulate : {false, true}) {
      const size_t stride = s.n + 3;
      std::vector<float> found(s.m * stride, 0.75f);
      tiles::multiply_columns<ModelTiles>(weights.data(), s.m, moving.data(), s.n, steps,
                                          found.data(), stride, accumulate);
      for (int m = 0; m < s.m; ++m) {
        for (size_t n = 0; n < s.n; ++n) {
          std::vector<float> x(steps * 32), y(steps * 32);
          for (int k = 0; k < s.k; ++k) {
            x[k] = from_bf16(a[k * s.m + m]);
            y[k] = from_bf16(b[k * s.n + n]);
          }
          const float expected =
              dot_in_engine_order(x.data(), 1, y.data(), 1, steps * 32, accumulate ? 0.75f : 0.0f);
          ASSERT_EQ(bits_of(found[m * stride + n]), bits_of(expected))
              << "k " << s.k << " row " << m << " column " << n;
        }
        for (size_t n = s.n; n < stride; ++n) ASSERT_EQ(found[m * stride + n], 0.75f);
      }
    }
  }
}

TEST(TensorKernelTiles, KeepEveryStationaryValue) {
  const int k = 70, m = 48, steps = 3;
  const auto a = random_bf16(k * m, 3);
  std::vector<uint16_t> packed(steps * 32 * m);
  tiles::pack_stationary([&](int r) { return a.data() + r * m; }, k, m, steps, packed.data());
  for (int r = 0; r < steps * 32; ++r) {
    for (int c = 0; c < m; ++c) {
      ASSERT_EQ(tiles::packed_value(packed.data(), r, c, steps), r < k ? a[r * m + c] : 0);
    }
  }
}

TEST(TensorKernelTiles, EveryPathMultipliesBf16AndMixedTypesAlike) {
  OnEveryPath paths;
  const int k = 100, m = 64;
  const size_t n = 80;
  const auto a = random_bf16(k * m, 4), b = random_bf16(k * n, 5);
  std::vector<float> wide;
  for (const uint16_t v : b) wide.push_back(from_bf16(v));
  const RowView narrow_view{reinterpret_cast<const std::byte*>(b.data()),
                            static_cast<ptrdiff_t>(n * 2), NEURON_DTYPE_BF16};
  const RowView wide_view{reinterpret_cast<const std::byte*>(wide.data()),
                          static_cast<ptrdiff_t>(n * 4), NEURON_DTYPE_F32};
  const auto product = [&](const RowView& moving) {
    auto weights = std::make_unique<Stationary>();
    weights->load({reinterpret_cast<const std::byte*>(a.data()), m * 2, NEURON_DTYPE_BF16}, k, m);
    std::vector<float> found(m * n, 1.0f);
    multiply(*weights, moving, n, found.data(), n, true);
    return found;
  };
  paths.expect_same([&] { return product(narrow_view); }, "bf16 by bf16");
  paths.expect_same([&] { return product(wide_view); }, "bf16 by f32");
  EXPECT_EQ(product(narrow_view), product(wide_view));
}

}  // namespace
}  // namespace neuron::numerics
