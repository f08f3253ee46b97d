// SPDX-License-Identifier: Apache-2.0
// Block-scaled and sparse products against their mathematics in double.
#include <gmock/gmock.h>

#include "tests/differential/kernels/bound.h"
#include "tests/differential/reference_sequences.h"

namespace neuron::differential {
namespace {

using kernels::MatmulShape;
using kernels::SparseShape;
using ::testing::HasSubstr;

// The nearest number with `bits` bits behind the leading one and no exponent below `least`; ties to
// even.
double rounded(double value, int bits, int least) {
  if (value == 0) return 0;
  const double step = std::ldexp(1, std::max(std::ilogb(value), least) - bits);
  return std::nearbyint(value / step) * step;
}

struct CodeFormat {
  int bits, least, most;  // Of the mantissa; of the exponents
};
constexpr CodeFormat kE4M3{3, -6, 8}, kE5M2{2, -14, 15};

// x [k, columns] as its block-scaled codes stand for it: 32 rows of a column share 2^s, by which
// their greatest magnitude comes into the second highest binade.
std::vector<double> quantised(const std::vector<float>& x, size_t columns, const CodeFormat& code) {
  constexpr size_t kBlock = 32;
  std::vector<double> values(x.size());
  for (size_t first = 0; first < x.size() / columns; first += kBlock) {
    for (size_t c = 0; c < columns; ++c) {
      double most = 0;
      for (size_t r = 0; r < kBlock; ++r) {
        most = std::max(most, std::fabs(double{x[(first + r) * columns + c]}));
      }
      if (most == 0) continue;
      const double scale = std::ldexp(1, std::ilogb(most) - code.most + 1);
      for (size_t r = 0; r < kBlock; ++r) {
        const size_t at = (first + r) * columns + c;
        values[at] = scale * rounded(x[at] / scale, code.bits, code.least);
      }
    }
  }
  return values;
}

// Row `row` of transpose(a [k, m]) b [k, n] for operands that PE multiplies exactly. A product
// passes the chain of its 32 rows, the sum of the two chains, and one addition for each further 32
// rows of each of `planes` products that stand for one instruction.
std::vector<Bounded> product_row(const std::vector<double>& a, const std::vector<double>& b,
                                 size_t m, size_t n, size_t row, double planes) {
  const size_t k = a.size() / m;
  std::vector<double> sums(n), magnitudes(n);
  for (size_t i = 0; i < k; ++i) {
    for (size_t c = 0; c < n; ++c) {
      const double product = a[i * m + row] * b[i * n + c];
      sums[c] += product;
      magnitudes[c] += std::fabs(product);
    }
  }
  const double rows = static_cast<double>(k) / planes;
  const double roundings = 17 + planes * std::ceil(rows / 32);
  std::vector<Bounded> wanted(n);
  for (size_t c = 0; c < n; ++c) {
    wanted[c] = {sums[c], gamma(roundings) * magnitudes[c] + static_cast<double>(k) * kSmallest32};
  }
  return wanted;
}

void expect_rows(const Outcome& outcome, const std::vector<double>& a, const std::vector<double>& b,
                 const MatmulShape& shape, double planes) {
  const std::vector<float> got = outcome.floats_of("result", kBf16);
  ASSERT_EQ(got.size(), shape.m * shape.n);
  for (size_t row = 0; row < shape.m; row += 17) {
    const auto first = got.begin() + static_cast<ptrdiff_t>(row * shape.n);
    expect_within({first, first + static_cast<ptrdiff_t>(shape.n)},
                  stored_as(kBf16, product_row(a, b, shape.m, shape.n, row, planes)));
  }
}

double products_of_matmul(const MatmulShape& shape) {
  return static_cast<double>(shape.m) * static_cast<double>(shape.k) * static_cast<double>(shape.n);
}

// Magnitudes of many binades, so that blocks have different scales.
std::vector<float> operand(uint64_t seed, size_t rows, size_t columns) {
  std::vector<float> values = random_values(kBf16, seed, rows * columns);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i / columns / 16 % 7) - 3);
  }
  return values;
}

Outcome check_mx(const MatmulShape& shape, uint8_t codes, const CodeFormat& format,
                 const Golden& golden) {
  const auto lhs = operand(101, shape.k, shape.m), rhs = operand(102, shape.k, shape.n);
  const Outcome outcome = outcome_of(kernels::mx_matmul("mx_matmul", kBf16, shape, codes), 4,
                                     {{"lhs_t", as_bf16(lhs)}, {"rhs", as_bf16(rhs)}}, {"result"});
  if (outcome.outputs.empty()) return outcome;
  expect_rows(outcome, quantised(lhs, shape.m, format), quantised(rhs, shape.n, format), shape,
              NEURON_MX_CODES);
  expect_golden(outcome, golden);
  return outcome;
}

TEST(MxMatmul, OfE4M3OnTrn3IsTheProductOfTheQuantisedMatrices) {
  const MatmulShape shape{640, 2560, 1024};
  const Outcome outcome =
      check_mx(shape, NEURON_DTYPE_F8E4FNX4, kE4M3, {0x6b83294baa3f5c10u, 27190725});
  const double bytes = 2.0 * static_cast<double>(shape.k * (shape.m + shape.n) + shape.m * shape.n);
  expect_share_of_bound(
      outcome, {.products = products_of_matmul(shape), .speed = 4, .bytes = bytes}, 4, 0.5);
}
TEST(MxMatmul, OfE5M2OnTrn3IsTheProductOfTheQuantisedMatrices) {
  check_mx({128, 512, 512}, NEURON_DTYPE_F8E5X4, kE5M2, {0x28521493730e9d65u, 8240940});
}
TEST(MxMatmul, SaysWhatItTakes) {
  const auto older = kernels::mx_matmul("odd", kBf16, {128, 512, 512}, NEURON_DTYPE_F8E4FNX4, 3);
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().sentence, HasSubstr("generation 4 (trn3)"));
  const auto odd = kernels::mx_matmul("odd", kBf16, {128, 128, 512});
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().sentence, HasSubstr("K and N of 512"));
}

// A stationary matrix with `rows` numbers in each `dense` rows of a column.
struct Sparse {
  std::vector<float> weights;       // compressed
  std::vector<uint16_t> positions;  // four columns each
  std::vector<double> matrix;       // [k, m] with its zeros
};
Sparse sparse_matrix(size_t k, size_t m, size_t rows, size_t dense) {
  Sparse made;
  const size_t compressed = k * rows / dense;
  made.weights = random_values(kBf16, 103, compressed * m, 2);
  made.positions.assign(compressed * m / 4, 0);
  made.matrix.assign(k * m, 0);
  Numbers numbers(104);
  for (size_t group = 0; group < k / dense; ++group) {
    for (size_t column = 0; column < m; ++column) {
      std::vector<size_t> free(dense);
      for (size_t i = 0; i < dense; ++i) free[i] = i;
      for (size_t r = 0; r < rows; ++r) {
        const auto pick = static_cast<size_t>((double{numbers.next(0.5F)} + 0.5) *
                                              static_cast<double>(free.size()));
        const size_t position = free[pick];
        free.erase(free.begin() + static_cast<ptrdiff_t>(pick));
        const size_t row = group * rows + r;
        made.positions[(row * m + column) / 4] = static_cast<uint16_t>(
            made.positions[(row * m + column) / 4] | position << 4 * (column % 4));
        made.matrix[(group * dense + position) * m + column] = made.weights[row * m + column];
      }
    }
  }
  return made;
}

Outcome check_sparse(const SparseShape& shape, size_t rows, size_t dense, unsigned generation,
                     const Golden& golden) {
  const auto [m, k, n, ratio] = shape;
  const Sparse lhs = sparse_matrix(k, m, rows, dense);
  const std::vector<float> rhs = random_values(kBf16, 105, k * n);
  const Outcome outcome = outcome_of(
      kernels::sparse_matmul("sparse_matmul", kBf16, shape, static_cast<uint8_t>(generation)),
      generation,
      {{"weights", as_bf16(lhs.weights)},
       {"positions", bytes_of(lhs.positions)},
       {"rhs", as_bf16(rhs)}},
      {"result"});
  if (outcome.outputs.empty()) return outcome;
  expect_rows(outcome, lhs.matrix, {rhs.begin(), rhs.end()}, {m, k, n},
              static_cast<double>(dense) / static_cast<double>(rows));
  expect_golden(outcome, golden);
  return outcome;
}

TEST(SparseMatmul, OfFourInSixteenOnTrn2IsTheProductOfTheDenseMatrix) {
  const SparseShape shape{512, 2048, 1024, NEURON_SPARSE_4_OF_16};
  const Outcome outcome = check_sparse(shape, 4, 16, 3, {0x34718caeec76d182u, 26097753});
  const double weights = 512 * 512 * 2.5, bytes = weights + 2 * 1024 * (2048.0 + 512);
  expect_share_of_bound(
      outcome, {.products = products_of_matmul({512, 2048, 1024}), .speed = 4, .bytes = bytes}, 3,
      0.45);
}
TEST(SparseMatmul, OfEveryRatioOnTrn2IsTheProductOfTheDenseMatrix) {
  check_sparse({128, 384, 512, NEURON_SPARSE_4_OF_12}, 4, 12, 3, {0xeefa0595dcf23c73u, 8101159});
  check_sparse({128, 256, 512, NEURON_SPARSE_4_OF_8}, 4, 8, 3, {0x835e993bc768a0e9u, 7744985});
  check_sparse({128, 512, 512, NEURON_SPARSE_2_OF_8}, 2, 8, 3, {0x800885024fe6ab8du, 8457333});
  check_sparse({128, 512, 512, NEURON_SPARSE_2_OF_4}, 2, 4, 3, {0xe233f5427a2476efu, 10017831});
  check_sparse({128, 512, 512, NEURON_SPARSE_1_OF_4}, 1, 4, 3, {0x6c92565aeb028adu, 8457333});
  check_sparse({128, 256, 512, NEURON_SPARSE_1_OF_2}, 1, 2, 3, {0x78df606554da3fa9u, 7744985});
}
TEST(SparseMatmul, OnTrn3GivesTheProductToo) {
  check_sparse({128, 512, 512, NEURON_SPARSE_4_OF_8}, 4, 8, 4, {0x22d84c56aafa12f4u, 9905137});
}
TEST(SparseMatmul, SaysWhatItTakes) {
  const auto older = kernels::sparse_matmul("odd", kBf16, {128, 512, 512}, 2);
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().sentence, HasSubstr("generations 3 and later (trn2, trn3)"));
  const auto odd = kernels::sparse_matmul("odd", kBf16, {128, 128, 512, NEURON_SPARSE_4_OF_16});
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().sentence, HasSubstr("K of 128 times the ratio's slots"));
}

}  // namespace
}  // namespace neuron::differential
