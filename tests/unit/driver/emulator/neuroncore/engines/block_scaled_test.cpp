// SPDX-License-Identifier: Apache-2.0
// Block-scaled numbers (MX) against the text of the OCP formats (OCP 8-bit Floating Point 1.0, OCP
// Microscaling Formats 1.0), worked out here in double from the bits.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kDoubleInfinity = std::numeric_limits<double>::infinity();

// OCP formats: sign, exponent, mantissa; E5M2 has infinities, E4M3 one NaN and E2M1 neither.
struct Format {
  unsigned x4, exponent_bits, mantissa_bits;
  int bias;
  double largest;
};
constexpr Format kE5m2{NEURON_DTYPE_F8E5X4, 5, 2, 15, 57344};
constexpr Format kE4m3{NEURON_DTYPE_F8E4FNX4, 4, 3, 7, 448};
constexpr Format kE2m1{NEURON_DTYPE_F4X4, 2, 1, 1, 6};

double value_of(const Format& f, unsigned code) {
  const unsigned bits = f.exponent_bits + f.mantissa_bits;
  const double sign = (code >> bits & 1) != 0 ? -1 : 1;
  const unsigned mantissa = code & ((1u << f.mantissa_bits) - 1);
  const unsigned exponent = code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  if (f.x4 == NEURON_DTYPE_F8E5X4 && exponent == 31) {
    return mantissa == 0 ? sign * kDoubleInfinity : kNan;
  }
  if (f.x4 == NEURON_DTYPE_F8E4FNX4 && (code & 0x7F) == 0x7F) return kNan;
  const double fraction = std::ldexp(mantissa, -static_cast<int>(f.mantissa_bits));
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - f.bias)
                               : std::ldexp(1 + fraction, static_cast<int>(exponent) - f.bias));
}
double scale_value(unsigned scale) {
  return scale == 255 ? kNan : std::ldexp(1.0, static_cast<int>(scale) - 127);
}

unsigned code_bits(const Format& f) { return 1 + f.exponent_bits + f.mantissa_bits; }

// Four codes of an x4 element, the first in the lowest bits.
uint32_t packed(const Format& f, const std::array<unsigned, 4>& codes) {
  uint32_t word = 0;
  for (unsigned j = 0; j < 4; ++j) word |= codes[j] << (j * code_bits(f));
  return word;
}

// What the Tensor engine reads, by include/hw/isa.h: code x scale in fp32, zero below 2^-126.
double in_fp32(double value) {
  if (std::isnan(value) || std::isinf(value)) return value;
  if (std::fabs(value) < 0x1p-126) return std::copysign(0.0, value);
  return std::fabs(value) >= 0x1p128 ? std::copysign(kDoubleInfinity, value) : value;
}

class BlockScaled : public UnitMachine {
 protected:
  BlockScaled() { limits_ = isa::limits_of(4); }

  static unsigned row_of(unsigned part, unsigned quarter) {
    return part / 32 * 32 + part % 32 / 8 + 4 * quarter;
  }
  static isa::Operand elements(const Format& f, unsigned parts, uint32_t base, int n) {
    return sbuf(parts, base, f.x4, n);
  }
  static isa::Operand scales(unsigned parts, uint32_t base, int n) {
    return sbuf(parts > 32 ? parts : parts / 8, base, NEURON_DTYPE_U8, n);
  }
  void put_word(const isa::Operand& at, unsigned part, const std::vector<uint32_t>& words) {
    if (at.dtype == NEURON_DTYPE_F4X4) {
      put_raw(at, part, std::vector<uint16_t>(words.begin(), words.end()));
    } else {
      put_raw(at, part, words);
    }
  }
  uint8_t* scale_at(const isa::Operand& at, unsigned part, unsigned quarter) {
    return reinterpret_cast<uint8_t*>(memory_.sbuf(at.start + row_of(part, quarter)) + at.base);
  }

  // A matrix of codes and scales, in memory and as numbers.
  struct Matrix {
    isa::Operand at, scales;
    std::vector<std::array<std::vector<double>, 4>> values;  // [partition][code][column]
  };
  template <class Code, class Scale>
  Matrix matrix(const Format& f, unsigned parts, uint32_t base, int n, unsigned quarter,
                Code&& code, Scale&& scale) {
    Matrix m{elements(f, parts, base, n), scales(parts, base + 0x10000, n), {}};
    m.values.resize(parts);
    for (unsigned p = 0; p < parts; ++p) {
      std::vector<uint32_t> words;
      for (unsigned c = 0; c < static_cast<unsigned>(n); ++c) {
        const unsigned s = scale(p / 8, c);
        scale_at(m.scales, p, quarter)[c] = static_cast<uint8_t>(s);
        std::array<unsigned, 4> codes{};
        for (unsigned j = 0; j < 4; ++j) {
          codes[j] = code(p, c, j) & ((1u << code_bits(f)) - 1);
          m.values[p][j].push_back(in_fp32(value_of(f, codes[j]) * scale_value(s)));
        }
        words.push_back(packed(f, codes));
      }
      put_word(m.at, p, words);
    }
    return m;
  }
  Instruction load(const Matrix& w, unsigned quarter) {
    Instruction i = make(NEURON_OP_LDWEIGHTS_MX, {}, w.at, w.scales);
    i.pe.quarter = static_cast<uint8_t>(quarter);
    return i;
  }
  Instruction product(isa::Operand dst, const Matrix& x, unsigned quarter) {
    Instruction i = make(NEURON_OP_MATMUL_MX, dst, x.at, x.scales);
    i.pe.quarter = static_cast<uint8_t>(quarter);
    i.pe.swap = true;
    return i;
  }
};

// A matrix with one 1 in each column of the weights picks one number of the other side: every code
// with every scale, exactly.
TEST_F(BlockScaled, EveryCodeOfEveryFormatTimesEveryScaleIsExact) {
  for (const Format& f : {kE5m2, kE4m3, kE2m1}) {
    const unsigned codes = 1u << code_bits(f);
    // Weights: partition 0, code 0, column 0 is 1.0, all else 0; both scales 2^0.
    const unsigned one = static_cast<unsigned>(f.bias) << f.mantissa_bits;
    const Matrix w = matrix(
        f, 32, 0, 2, 0,
        [&](unsigned p, unsigned c, unsigned j) { return p + c + j == 0 ? one : 0; },
        [](unsigned, unsigned) { return 127u; });
    run(NEURON_ENGINE_PE, load(w, 0));
    for (unsigned scale = 0; scale < 256; ++scale) {
      const Matrix x = matrix(
          f, 32, 0x2000, static_cast<int>(codes), 0,
          [&](unsigned p, unsigned c, unsigned j) { return p + j == 0 ? c : 0; },
          [&](unsigned, unsigned) { return scale; });
      const isa::Operand dst = psum(2, 0, NEURON_DTYPE_F32, static_cast<int>(codes));
      Instruction i = product(dst, x, 0);
      i.pe.swap = scale == 0;
      run(NEURON_ENGINE_PE, i);
      const std::vector<float> found = get(dst, 0);
      for (unsigned c = 0; c < codes; ++c) {
        const double expected = x.values[0][0][c];
        // Scale 255 makes every number of the block NaN, zeros too, and with it the sum.
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(found[c])) << f.x4 << " " << scale << " " << c;
        } else {
          ASSERT_EQ(found[c], expected) << f.x4 << " " << scale << " " << c;
        }
      }
    }
  }
}

TEST_F(BlockScaled, ProductsOfAllPairsOfFormatsAreTheSumsThatTheTextDefines) {
  std::mt19937 random(21);
  struct Case {
    unsigned parts;
    int m, n;
    unsigned quarter_w, quarter_x;
  };
  for (const Case& c : {Case{128, 128, 512, 0, 0}, Case{32, 2, 30, 3, 1}, Case{96, 66, 700, 2, 3},
                        Case{64, 16, 1100, 1, 2}}) {
    for (const Format& fw : {kE5m2, kE4m3, kE2m1}) {
      for (const Format& fx : {kE5m2, kE4m3, kE2m1}) {
        if (c.parts == 128 && (fw.x4 != fx.x4)) continue;
        // Numbers from 1 to 2 of random sign and scales of two binades: all sums are exact.
        const auto code = [&](const Format& f) {
          return [&random, f](unsigned, unsigned, unsigned) {
            const unsigned one = static_cast<unsigned>(f.bias) << f.mantissa_bits;
            const unsigned mantissa = random() & ((1u << f.mantissa_bits) - 1);
            return one | mantissa | (random() & 1) << (f.exponent_bits + f.mantissa_bits);
          };
        };
        std::vector<unsigned> drawn(16 * 2048);
        for (unsigned& s : drawn) s = 125 + random() % 4;
        const auto scale = [&](unsigned group, unsigned column) {
          return drawn[group * 2048 + column];
        };
        const Matrix w = matrix(fw, c.parts, 0, c.m, c.quarter_w, code(fw), scale);
        const Matrix x = matrix(fx, c.parts, 0x4000, c.n, c.quarter_x, code(fx), scale);
        run(NEURON_ENGINE_PE, load(w, c.quarter_w));
        const isa::Operand dst = psum(static_cast<unsigned>(c.m), 0, NEURON_DTYPE_F32, c.n);
        run(NEURON_ENGINE_PE, product(dst, x, c.quarter_x));
        for (int m = 0; m < c.m; m += 7) {
          const std::vector<float> found = get(dst, static_cast<unsigned>(m));
          for (int n = 0; n < c.n; ++n) {
            double sum = 0;
            for (unsigned p = 0; p < c.parts; ++p) {
              for (unsigned j = 0; j < 4; ++j) sum += w.values[p][j][m] * x.values[p][j][n];
            }
            ASSERT_EQ(found[n], sum) << fw.x4 << " x " << fx.x4 << ": " << m << ", " << n;
          }
        }
      }
    }
  }
}

// Scales are the same bytes as u8 and as e8m0, and a bf16 destination has the sum rounded once.
TEST_F(BlockScaled, TakesScalesOfEitherTypeAndRoundsIntoBf16) {
  std::mt19937 random(22);
  for (const Format& f : {kE5m2, kE4m3, kE2m1}) {
    const auto code = [&](unsigned, unsigned, unsigned) {
      const unsigned one = static_cast<unsigned>(f.bias) << f.mantissa_bits;
      return one | (random() & ((1u << f.mantissa_bits) - 1)) |
             (random() & 1) << (f.exponent_bits + f.mantissa_bits);
    };
    const auto scale = [&](unsigned group, unsigned column) { return 126 + (group + column) % 3; };
    Matrix w = matrix(f, 64, 0, 16, 1, code, scale);
    Matrix x = matrix(f, 64, 0x4000, 50, 2, code, scale);
    for (const unsigned type : {NEURON_DTYPE_U8, NEURON_DTYPE_E8M0}) {
      w.scales.dtype = x.scales.dtype = static_cast<uint8_t>(type);
      run(NEURON_ENGINE_PE, load(w, 1));
      const isa::Operand wide = psum(16, 0, NEURON_DTYPE_F32, 50);
      const isa::Operand narrow = psum(16, 0x800, NEURON_DTYPE_BF16, 50);
      run(NEURON_ENGINE_PE, product(wide, x, 2));
      Instruction again = product(narrow, x, 2);
      again.pe.swap = false;
      run(NEURON_ENGINE_PE, again);
      for (unsigned m = 0; m < 16; ++m) {
        const std::vector<float> found = get(wide, m), rounded = get(narrow, m);
        for (unsigned n = 0; n < 50; ++n) {
          double sum = 0;
          for (unsigned p = 0; p < 64; ++p) {
            for (unsigned j = 0; j < 4; ++j) sum += w.values[p][j][m] * x.values[p][j][n];
          }
          ASSERT_EQ(found[n], sum) << f.x4 << ": " << m << ", " << n;
          const double unit = sum == 0 ? 1 : std::ldexp(1.0, std::ilogb(sum) - 7);
          ASSERT_EQ(rounded[n], std::nearbyint(sum / unit) * unit) << f.x4 << ": " << sum;
        }
      }
    }
  }
}

// The nearest code by search among all of them; of two equally near ones the even one.
class Nearest {
 public:
  explicit Nearest(const Format& f) {
    for (unsigned code = 0; code < 0x80; ++code) {
      const double value = value_of(f, code);
      if (std::isfinite(value)) values_.push_back(value);  // ascending with their codes
    }
  }
  unsigned code(double value) const {
    unsigned best = 0;
    for (unsigned code = 0; code < values_.size(); ++code) {
      const double d = std::fabs(std::fabs(value) - values_[code]);
      const double known = std::fabs(std::fabs(value) - values_[best]);
      if (d < known || (d == known && code % 2 == 0)) best = code;
    }
    return best | (std::signbit(value) ? 0x80 : 0);
  }

 private:
  std::vector<double> values_;
};

// scale = 2^(floor(log2 largest) - emax + 1): twice the scale of the example in the OCP text.
unsigned scale_of(const Format& f, double largest) {
  if (largest == 0) return 0;
  const int emax = f.x4 == NEURON_DTYPE_F8E5X4 ? 15 : 8;
  return static_cast<unsigned>(std::max(0, std::ilogb(largest) - emax + 1 + 127));
}

class QuantizeMx : public BlockScaled {
 protected:
  // Checks all codes and scales that quantize_mx wrote for numbers that memory holds as `type`.
  void expect_quantised(const Format& f, unsigned type, unsigned parts, int n, unsigned quarter) {
    const isa::Operand source = sbuf(parts, 0, type, 4 * n);
    const isa::Operand dst = elements(f, parts, 0x8000, n);
    const isa::Operand at = scales(parts, 0xC000, n);
    Instruction i = make(NEURON_OP_QUANTIZE_MX, dst, source, at);
    i.vector.imm = quarter;
    dve(i);
    std::vector<std::vector<float>> rows;
    for (unsigned p = 0; p < parts; ++p) rows.push_back(get(source, p));
    for (unsigned group = 0; group < parts; group += 8) {
      for (int c = 0; c < n; ++c) {
        double largest = 0;
        for (unsigned p = group; p < group + 8; ++p) {
          for (int j = 0; j < 4; ++j) {
            largest = std::max(largest, std::fabs(double{rows[p][4 * c + j]}));
          }
        }
        const unsigned scale = scale_at(at, group, quarter)[c];
        ASSERT_EQ(scale, scale_of(f, largest)) << largest;
        if (largest >= 0x1p-110) {
          const double most = largest / scale_value(scale);  // below the top binade: none saturates
          ASSERT_LT(most, f.x4 == NEURON_DTYPE_F8E5X4 ? 32768 : 256);
          ASSERT_GE(most, f.x4 == NEURON_DTYPE_F8E5X4 ? 16384 : 128);
        }
      }
    }
    const Nearest nearest(f);
    for (unsigned p = 0; p < parts; ++p) {
      const std::vector<uint32_t> words = get_raw<uint32_t>(dst, p);
      for (int e = 0; e < 4 * n; ++e) {
        const uint32_t found = words[e / 4] >> (8 * (e % 4)) & 0xFF;
        if (rows[p][e] == 0 && found == 0) continue;
        const double exact = rows[p][e] / scale_value(scale_at(at, p, quarter)[e / 4]);
        ASSERT_EQ(found, nearest.code(exact)) << p << ", " << e;
      }
    }
  }
};

TEST_F(QuantizeMx, GivesTheNearestCodesUnderTheScaleOfEachBlock) {
  std::mt19937 random(31);
  for (const Format& f : {kE5m2, kE4m3}) {
    for (const unsigned type : {NEURON_DTYPE_BF16, NEURON_DTYPE_F16}) {
      for (const unsigned parts : {32u, 64u, 96u, 128u}) {
        constexpr int kN = 20;
        fill(sbuf(parts, 0, type, 4 * kN), [&](unsigned, unsigned) {
          const double size =
              std::ldexp(1 + (random() % 1024) / 1024.0, static_cast<int>(random() % 24) - 14);
          return static_cast<float>(random() % 2 ? -size : random() % 9 ? size : 0);
        });
        expect_quantised(f, type, parts, kN, parts / 32 - 1);
      }
    }
  }
}

// Scales that memory holds as e8m0 are the bytes that it holds as u8.
TEST_F(QuantizeMx, WritesScalesOfEitherTypeAlike) {
  constexpr int kN = 12;
  const isa::Operand source = sbuf(64, 0, NEURON_DTYPE_BF16, 4 * kN);
  fill(source, [](unsigned p, unsigned e) { return std::ldexp(1.0F + p % 3, (p + e) % 19 - 9); });
  for (const Format& f : {kE5m2, kE4m3}) {
    expect_quantised(f, NEURON_DTYPE_BF16, 64, kN, 3);
    isa::Operand other = scales(64, 0xE000, kN);
    other.dtype = NEURON_DTYPE_E8M0;
    Instruction i = make(NEURON_OP_QUANTIZE_MX, elements(f, 64, 0xA000, kN), source, other);
    i.vector.imm = 3;
    dve(i);
    for (unsigned p = 0; p < 64; ++p) {
      EXPECT_EQ(get_raw<uint32_t>(i.dst, p), get_raw<uint32_t>(elements(f, 64, 0x8000, kN), p));
      for (unsigned c = 0; c < kN; ++c) {
        EXPECT_EQ(scale_at(other, p, 3)[c], scale_at(scales(64, 0xC000, kN), p, 3)[c]);
      }
    }
  }
}

// Every bf16 number below infinity is the largest of a block once.
TEST_F(QuantizeMx, KnowsTheScaleOfEveryBf16Magnitude) {
  constexpr int kN = 254;
  for (const Format& f : {kE5m2, kE4m3}) {
    for (unsigned first = 0; first < 0x7F80; first += kN) {
      const isa::Operand source = sbuf(32, 0, NEURON_DTYPE_BF16, 4 * kN);
      for (unsigned p = 0; p < 32; ++p) {
        std::vector<uint16_t> row(4 * kN);
        // One partition and place of each block of 8 holds the number, by turns.
        for (unsigned c = 0; c < kN; ++c) {
          if (p % 8 != c % 8) continue;
          row[4 * c + c % 4] = static_cast<uint16_t>(std::min(first + c, 0x7F7Fu));
        }
        put_raw(source, p, row);
      }
      expect_quantised(f, NEURON_DTYPE_BF16, 32, kN, 2);
      if (HasFatalFailure()) return;
    }
  }
}

// Each code has a random word of its own: those of an instruction are not used again by the next.
TEST_F(QuantizeMx, RoundsEachCodeStochasticallyWithAWordOfItsOwn) {
  constexpr int kN = 64;
  const isa::Operand source = sbuf(32, 0, NEURON_DTYPE_BF16, 4 * kN);
  // 128 sets the scale to 1; 1.0625 lies in the middle between two codes.
  fill(source, [](unsigned p, unsigned) { return p % 8 == 0 ? 128.0F : 1.0625F; });
  seed_ = 12;
  std::vector<std::vector<bool>> ups;
  for (unsigned round = 0; round < 2; ++round) {
    Instruction i = make(NEURON_OP_QUANTIZE_MX, elements(kE4m3, 32, 0x8000, kN), source,
                         scales(32, 0xC000, kN));
    i.rounding = 2;
    dve(i);
    std::vector<bool> up;
    for (const uint32_t word : get_raw<uint32_t>(i.dst, 1)) {
      for (unsigned j = 0; j < 4; ++j) {
        const double value = value_of(kE4m3, word >> (8 * j) & 0xFF);
        ASSERT_TRUE(value == 1.0 || value == 1.125) << value;
        up.push_back(value == 1.125);
      }
    }
    const auto count = std::count(up.begin(), up.end(), true);
    EXPECT_GT(count, 4 * kN / 4);
    EXPECT_LT(count, 4 * kN * 3 / 4);
    ups.push_back(up);
  }
  for (int shift = 0; shift < 3 * kN; ++shift) {
    EXPECT_FALSE(std::equal(ups[0].begin() + shift, ups[0].end(), ups[1].begin())) << shift;
  }
}

TEST_F(QuantizeMx, PassesOnWhatIsNoNumber) {
  const isa::Operand source = sbuf(32, 0, NEURON_DTYPE_BF16, 4);
  for (unsigned p = 0; p < 32; ++p) put_raw(source, p, std::vector<uint16_t>{0x3F80, 0, 0, 0});
  put_raw(source, 0, std::vector<uint16_t>{0x7FC0, 0xFF80, 0x3F80, 0});
  const isa::Operand at = scales(32, 0xC000, 1);
  Instruction i = make(NEURON_OP_QUANTIZE_MX, elements(kE5m2, 32, 0x8000, 1), source, at);
  dve(i);
  const uint32_t word = get_raw<uint32_t>(elements(kE5m2, 32, 0x8000, 1), 0)[0];
  EXPECT_TRUE(std::isnan(value_of(kE5m2, word & 0xFF)));
  EXPECT_EQ(value_of(kE5m2, word >> 8 & 0xFF), -kDoubleInfinity);
  EXPECT_EQ(scale_at(at, 0, 0)[0], 128 - 14 + 127);
  EXPECT_EQ(scale_at(at, 8, 0)[0], 0 - 14 + 127);  // other blocks do not notice
}

TEST_F(QuantizeMx, RefusesWhatTheDocumentsRefuse) {
  const auto refused = [&](isa::Operand dst, isa::Operand a, isa::Operand s, unsigned code) {
    Instruction i = make(NEURON_OP_QUANTIZE_MX, dst, a, s);
    EXPECT_EQ(attempt(NEURON_ENGINE_DVE, i).code, code) << refusal_;
  };
  const isa::Operand dst = elements(kE4m3, 32, 0x8000, 4), s = scales(32, 0xC000, 4);
  const isa::Operand a = sbuf(32, 0, NEURON_DTYPE_BF16, 16);
  refused(dst, sbuf(32, 0, NEURON_DTYPE_F32, 16), s, NEURON_FAULT_OPERAND_DTYPE);
  refused(elements(kE2m1, 32, 0x8000, 4), a, s, NEURON_FAULT_OPERAND_DTYPE);
  refused(dst, sbuf(32, 0, NEURON_DTYPE_BF16, 12), s, NEURON_FAULT_OPERAND_SHAPE);
  refused(dst, sbuf(16, 0, NEURON_DTYPE_BF16, 16), s, NEURON_FAULT_OPERAND_SHAPE);
  refused(dst, a, scales(64, 0xC000, 4), NEURON_FAULT_OPERAND_SHAPE);
  refused(dst, a, sbuf(4, 0xC000, NEURON_DTYPE_I8, 4), NEURON_FAULT_OPERAND_DTYPE);
  refused(dst, psum(32, 0, NEURON_DTYPE_BF16, 16), s, NEURON_FAULT_OPERAND_SPACE);
  Instruction wide = make(NEURON_OP_QUANTIZE_MX, dst, a, s);
  wide.vector.imm = 4;
  EXPECT_EQ(attempt(NEURON_ENGINE_DVE, wide).code, NEURON_FAULT_ILLEGAL_FIELD);
  Instruction add = make(NEURON_OP_TENSOR_TENSOR, dst, dst, dst);
  add.vector.op0 = NEURON_ALU_ADD;
  EXPECT_EQ(attempt(NEURON_ENGINE_DVE, add).code, NEURON_FAULT_OPERAND_DTYPE);
  limits_ = isa::limits_of(3);
  Instruction early = make(NEURON_OP_QUANTIZE_MX, dst, a, s);
  EXPECT_EQ(attempt(NEURON_ENGINE_DVE, early).code, NEURON_FAULT_WRONG_GENERATION);
}

// bf16 in PSUM: one rounding for each instruction, whatever K is; up to 8192 columns.
TEST_F(BlockScaled, PsumOfBf16RoundsOnceForEachMatmul) {
  constexpr int kN = 8192, kM = 16, kK = 128;
  const isa::Operand w = sbuf(kK, 0, NEURON_DTYPE_BF16, kM);
  const isa::Operand x = sbuf(kK, 0x1000, NEURON_DTYPE_BF16, kN);
  std::mt19937 random(41);
  fill(w, [&](unsigned, unsigned) { return static_cast<float>(random() % 17) - 8; });
  fill(x, [&](unsigned, unsigned) { return static_cast<float>(random() % 33) - 16; });
  const isa::Operand dst = psum(kM, 0, NEURON_DTYPE_BF16, kN);
  run(NEURON_ENGINE_PE, make(NEURON_OP_LDWEIGHTS, {}, w));
  Instruction i = make(NEURON_OP_MATMUL, dst, x);
  i.pe.swap = true;
  std::vector<std::vector<double>> expected(kM, std::vector<double>(kN));
  for (unsigned round = 0; round < 3; ++round) {
    run(NEURON_ENGINE_PE, i);
    i.pe.swap = false;
    i.pe.accumulate = true;
  }
  std::vector<std::vector<float>> rows_w, rows_x;
  for (unsigned p = 0; p < kK; ++p) {
    rows_w.push_back(get(w, p));
    rows_x.push_back(get(x, p));
  }
  // Nearest even to 8 bits of mantissa, in double.
  const auto rounded = [](double value) {
    if (value == 0) return 0.0;
    const double unit = std::ldexp(1.0, std::ilogb(value) - 7);
    return std::nearbyint(value / unit) * unit;
  };
  for (unsigned m = 0; m < kM; ++m) {
    const std::vector<float> found = get(dst, m);
    for (unsigned n = 0; n < kN; n += 3) {
      double sum = 0;
      for (unsigned p = 0; p < kK; ++p) sum += double{rows_w[p][m]} * rows_x[p][n];
      double cell = 0;
      for (unsigned round = 0; round < 3; ++round) cell = rounded(cell + sum);
      ASSERT_EQ(found[n], cell) << m << ", " << n;
    }
  }
  Instruction wide = make(NEURON_OP_MATMUL, psum(kM, 0, NEURON_DTYPE_F32, 4096),
                          sbuf(kK, 0x1000, NEURON_DTYPE_BF16, 4096));
  run(NEURON_ENGINE_PE, wide);
  limits_ = isa::limits_of(3);
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, wide).code, NEURON_FAULT_OPERAND_SHAPE);
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, i).code, NEURON_FAULT_OPERAND_DTYPE);
}

TEST_F(BlockScaled, LegacyF8AndOcpF8AreNeverMultipliedTogether) {
  const isa::Operand w = sbuf(32, 0, NEURON_DTYPE_F8E4, 16);
  const isa::Operand x = sbuf(32, 0x100, NEURON_DTYPE_F8E4FN, 16);
  fill(w, [](unsigned, unsigned) { return 1.0F; });
  fill(x, [](unsigned, unsigned) { return 448.0F; });
  run(NEURON_ENGINE_PE, make(NEURON_OP_LDWEIGHTS, {}, w));
  Instruction i = make(NEURON_OP_MATMUL, psum(16, 0, NEURON_DTYPE_F32, 16), x);
  i.pe.swap = true;
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, i).code, NEURON_FAULT_OPERAND_DTYPE);
  fill(x, [](unsigned, unsigned) { return 2.0F; });
  run(NEURON_ENGINE_PE, make(NEURON_OP_LDWEIGHTS, {}, x));
  run(NEURON_ENGINE_PE, i);
  EXPECT_EQ(get(i.dst, 3), std::vector<float>(16, 128.0F));
}

}  // namespace
}  // namespace neuron::core
