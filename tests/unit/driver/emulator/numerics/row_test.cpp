// SPDX-License-Identifier: Apache-2.0
// Loops on rows in memory give the bits of widening, computing on packed fp32, and narrowing.
#include <cstring>
#include <functional>

#include "driver/emulator/numerics/activation.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/alu_rows.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/statistics.h"
#include "tests/unit/driver/emulator/numerics/numerics_fixture.h"

namespace neuron::numerics {
namespace {

constexpr size_t kRows = 5;
constexpr size_t kColumns = 101;  // whole pairs of vectors, and some more

constexpr unsigned type_of(bool bf16) { return bf16 ? NEURON_DTYPE_BF16 : NEURON_DTYPE_F32; }

// Rows with a gap behind each, of numbers around 1 with awkward ones among them.
class Matrix {
 public:
  Matrix(bool bf16, uint32_t seed, bool awkward = true, size_t columns = kColumns)
      : bf16_(bf16), columns_(columns), stride_(columns * 4 + 12), bytes_(kRows * stride_) {
    std::vector<float> values = normal_floats(kRows * columns, seed);
    const std::vector<float> specials = special_floats();
    for (size_t i = 0; awkward && i < specials.size(); ++i) values[i * 17] = specials[i];
    for (size_t r = 0; r < kRows; ++r) {
      narrow(type_of(bf16), values.data() + r * columns, bytes_.data() + r * stride_, 1, columns);
    }
  }
  SourceRows source() const { return {bytes_.data(), stride_, bf16_}; }
  ResultRows result() { return {bytes_.data(), stride_, bf16_}; }
  std::vector<float> row(size_t r) const {
    std::vector<float> values(columns_);
    widen(type_of(bf16_), bytes_.data() + r * stride_, 1, values.data(), columns_);
    return values;
  }
  void set_row(size_t r, const std::vector<float>& values) {
    narrow(type_of(bf16_), values.data(), bytes_.data() + r * stride_, 1, columns_);
  }
  bool operator==(const Matrix& other) const { return bytes_ == other.bytes_; }

 private:
  bool bf16_;
  size_t columns_, stride_;
  std::vector<std::byte> bytes_;
};

void on_every_path(const std::function<void()>& check) {
  test::on_each_path({SimdPath::kScalar, SimdPath::kAvx2, SimdPath::kAvx512},
                     [&](SimdPath) { check(); });
}

const std::vector<float> kScalars{1.5f, -0.25f, 0.0f, INFINITY, NAN};

TEST(Rows, ActivationsGiveTheBitsOfPackedSteps) {
  on_every_path([] {
    for (unsigned function = 0; activation_known(function); ++function) {
      if (function == NEURON_ACT_COPY) continue;
      for (unsigned form = 0; form < 16; ++form) {
        const bool in16 = form & 1, out16 = form & 2, scaled = form & 4, biased = form & 8;
        const Matrix x(in16, function);
        Matrix found(out16, 99), expected(out16, 99);
        activate_rows(function,
                      {.scales = scaled ? kScalars.data() : nullptr,
                       .biases = biased ? kScalars.data() : nullptr,
                       .param = 0.3f,
                       .x = x.source(),
                       .out = found.result()},
                      kRows, kColumns);
        for (size_t r = 0; r < kRows; ++r) {
          std::vector<float> v = x.row(r);
          const float s = kScalars[r];
          if (scaled) alu_scalar(NEURON_ALU_MUL, v.data(), s, false, v.data(), kColumns);
          if (biased) alu_scalar(NEURON_ALU_ADD, v.data(), s, false, v.data(), kColumns);
          activate(function, v.data(), v.data(), kColumns, 0.3f);
          expected.set_row(r, v);
        }
        ASSERT_TRUE(found == expected) << "function " << function << ", form " << form;
      }
    }
  });
}

TEST(Rows, StepsGiveTheBitsOfPackedSteps) {
  on_every_path([] {
    for (unsigned op0 = 0; op0 <= NEURON_ALU_MIN; ++op0) {
      for (unsigned op1 = 0; op1 <= NEURON_ALU_MIN; ++op1) {
        if (!alu_rows_cover(op0, op1)) continue;
        for (unsigned form = 0; form < 64; ++form) {
          const bool x16 = form & 1, y16 = form & 2, out16 = form & 4, tensor = form & 8;
          const bool reverse0 = form & 16, reverse1 = form & 32;
          const Matrix x(x16, op0), y(y16, op1 + 50);
          Matrix found(out16, 99), expected(out16, 99);
          AluRows work{op0, op1, reverse0, reverse1, kScalars.data(), kScalars.data(), x.source()};
          if (tensor) work.y = y.source();
          work.out = found.result();
          alu_rows(work, kRows, kColumns);
          for (size_t r = 0; r < kRows; ++r) {
            std::vector<float> v = x.row(r);
            if (op0 != NEURON_ALU_BYPASS) {
              alu_scalar(op0, v.data(), kScalars[r], reverse0, v.data(), kColumns);
            }
            const std::vector<float> second =
                tensor ? y.row(r) : std::vector<float>(kColumns, kScalars[r]);
            if (op1 != NEURON_ALU_BYPASS) {
              const std::vector<float>& left = reverse1 ? second : v;
              const std::vector<float>& right = reverse1 ? v : second;
              alu(op1, left.data(), right.data(), v.data(), kColumns);
            }
            expected.set_row(r, v);
          }
          ASSERT_TRUE(found == expected) << op0 << ", " << op1 << ", form " << form;
        }
      }
    }
  });
}

TEST(Rows, ExtremesOfBf16GiveTheBitsOfReduce) {
  on_every_path([] {
    for (unsigned op : {NEURON_ALU_MAX, NEURON_ALU_MIN}) {
      for (uint32_t seed = 0; seed < 20; ++seed) {
        const Matrix x(true, seed, seed % 2 == 0);
        std::vector<float> found(kRows, reduce_identity(op));
        extreme_bf16_rows(op, x.source(), kRows, kColumns, found.data());
        for (size_t r = 0; r < kRows; ++r) {
          const float expected = reduce(op, x.row(r).data(), kColumns, reduce_identity(op));
          ASSERT_EQ(bits_of(found[r]), bits_of(expected)) << "row " << r << ", seed " << seed;
        }
      }
    }
  });
}

TEST(Rows, ExtremesOfBf16OrderZerosAndKeepNanOfEitherSign) {
  on_every_path([] {
    for (const float last : {0.0f, -0.0f, NAN, -NAN, INFINITY, -INFINITY}) {
      for (unsigned op : {NEURON_ALU_MAX, NEURON_ALU_MIN}) {
        Matrix x(true, 1, false);
        std::vector<float> values(kColumns, op == NEURON_ALU_MAX ? -0.0f : 0.0f);
        values[70] = last;
        x.set_row(0, values);
        float found = reduce_identity(op);
        extreme_bf16_rows(op, x.source(), 1, kColumns, &found);
        const float expected = reduce(op, values.data(), kColumns, reduce_identity(op));
        ASSERT_EQ(bits_of(found), bits_of(expected)) << last;
      }
    }
  });
}

TEST(Rows, StatisticsOfBf16GiveTheBitsOfFp32) {
  on_every_path([] {
    for (const size_t columns : {32u, 96u, 512u}) {
      for (const bool awkward : {false, true}) {
        const Matrix x(true, static_cast<uint32_t>(columns), awkward && columns > 90, columns);
        float found[kRows * 6];
        ASSERT_TRUE(parity_statistics_bf16(x.source(), kRows, columns, found));
        for (size_t r = 0; r < kRows; ++r) {
          float expected[6];
          parity_statistics(x.row(r).data(), columns, expected);
          for (size_t i = 0; i < 6; ++i) {
            ASSERT_EQ(bits_of(found[6 * r + i]), bits_of(expected[i])) << r << ", value " << i;
          }
        }
      }
    }
    const Matrix x(true, 7);
    float untouched = 3.0f;
    EXPECT_FALSE(parity_statistics_bf16(x.source(), 1, kColumns, &untouched));
    EXPECT_EQ(untouched, 3.0f);
  });
}

TEST(Rows, ComputeInPlaceAndLeaveMxcsrAlone) {
  Matrix x(true, 3), expected(true, 3);
  const ExpectMxcsrUntouched mxcsr;
  AluRows work{NEURON_ALU_SUB,  NEURON_ALU_MUL, false,      false,
               kScalars.data(), nullptr,        x.source(), x.source()};
  work.out = x.result();
  alu_rows(work, kRows, kColumns);
  for (size_t r = 0; r < kRows; ++r) {
    std::vector<float> v = expected.row(r);
    const std::vector<float> y = v;
    alu_scalar(NEURON_ALU_SUB, v.data(), kScalars[r], false, v.data(), kColumns);
    alu(NEURON_ALU_MUL, v.data(), y.data(), v.data(), kColumns);
    expected.set_row(r, v);
  }
  EXPECT_TRUE(x == expected);
}

}  // namespace
}  // namespace neuron::numerics
