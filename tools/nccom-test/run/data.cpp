// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

namespace {

// Sign, exponent, mantissa; the highest exponent has infinities and NaNs.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int width() const { return 1 + exponent_bits + mantissa_bits; }
  double largest() const { return std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias()); }
  double smallest() const { return std::ldexp(1.0, 1 - bias() - mantissa_bits); }
  double epsilon() const { return std::ldexp(1.0, -mantissa_bits); }
};

Format format_of(ccom_type_t type) {
  switch (type) {
    case CCOM_FP8_E3:
      return {3, 4};
    case CCOM_FP8_E4:
      return {4, 3};
    case CCOM_FP8_E5:
      return {5, 2};
    case CCOM_FP16:
      return {5, 10};
    case CCOM_BF16:
      return {8, 7};
    default:
      return {8, 23};
  }
}

// The value of the lowest bit that is set.
double unit_of(double value) {
  constexpr int kBits = std::numeric_limits<double>::digits;
  int exponent = 0;
  const auto bits =
      static_cast<uint64_t>(std::ldexp(std::fabs(std::frexp(value, &exponent)), kBits));
  return std::ldexp(1.0, exponent - kBits + std::countr_zero(bits));
}

constexpr uint64_t kSigns = 2;  // factors that only change the sign come first

bool is_signed(ccom_type_t type) {
  return type == CCOM_INT8 || type == CCOM_INT16 || type == CCOM_INT32 || type == CCOM_INT64;
}

uint64_t load(const std::byte* element, uint64_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, width);
  return bits;
}

int64_t signed_value(uint64_t bits, uint64_t width) {
  const unsigned shift = 64 - static_cast<unsigned>(width) * 8;
  return static_cast<int64_t>(bits << shift) >> shift;
}

double decode_bits(const Format& format, uint64_t bits) {
  const uint64_t mantissa = bits & ((1ull << format.mantissa_bits) - 1);
  const int exponent =
      static_cast<int>(bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const double sign = (bits >> (format.width() - 1)) & 1 ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double fraction =
      static_cast<double>(mantissa) + (exponent == 0 ? 0.0 : std::ldexp(1.0, format.mantissa_bits));
  return sign * std::ldexp(fraction, std::max(exponent, 1) - format.bias() - format.mantissa_bits);
}

uint64_t encode_bits(const Format& format, double value) {
  const uint64_t sign = std::signbit(value) ? 1ull << (format.width() - 1) : 0;
  const uint64_t infinity = ((1ull << format.exponent_bits) - 1) << format.mantissa_bits;
  if (std::isnan(value)) return infinity | 1ull << (format.mantissa_bits - 1);
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int lowest = 1 - format.bias();
  const int scale = std::max(exponent - 1, lowest) - format.mantissa_bits;
  // Exact scaling, then one rounding to nearest even: the default mode of the host.
  const double units = std::nearbyint(std::ldexp(magnitude, -scale));
  const double rounded = std::ldexp(units, scale);
  if (rounded > format.largest()) return sign | infinity;
  if (rounded < std::ldexp(1.0, lowest)) return sign | static_cast<uint64_t>(units);
  int power = 0;
  std::frexp(rounded, &power);
  const int top = power - 1;
  const auto mantissa = static_cast<uint64_t>(std::ldexp(rounded, format.mantissa_bits - top)) &
                        ((1ull << format.mantissa_bits) - 1);
  return sign | static_cast<uint64_t>(top + format.bias()) << format.mantissa_bits | mantissa;
}

}  // namespace

double decode(ccom_type_t type, const std::byte* element) {
  const uint64_t width = type_size(type);
  const uint64_t bits = load(element, width);
  if (is_floating(type)) return decode_bits(format_of(type), bits);
  return is_signed(type) ? static_cast<double>(signed_value(bits, width))
                         : static_cast<double>(bits);
}

void encode(ccom_type_t type, double value, std::byte* element) {
  const uint64_t bits = encode_bits(format_of(type), value);
  std::memcpy(element, &bits, type_size(type));
}

Data::Data(uint64_t seed, bool ones, ccom_type_t type, ccom_reduction_t reduction, uint32_t ranks)
    : seed_(seed), ones_(ones), type_(type), reduction_(reduction), width_(type_size(type)) {
  if (!is_floating(type)) return;
  if (reduction == CCOM_PRODUCT) {
    choose_factors();
  } else {
    choose_summands(reduction == CCOM_ADD || reduction == CCOM_AVERAGE ? ranks : 1);
  }
}

// A product of many values must stay in range, so the magnitudes of these factors cancel out.
void Data::choose_factors() {
  static constexpr double kFactors[] = {1, -1, 2, 0.5, -2, -0.5, 1, 1};
  static_assert(kFactors[0] == 1 && kFactors[1] == -1 && kSigns == 2);
  choices_ = std::size(kFactors);
  values_.resize(choices_ * width_);
  for (uint64_t i = 0; i < choices_; ++i) encode(type_, kFactors[i], &values_[i * width_]);
}

// Whole numbers of one unit whose sum over all ranks has no more bits than the type.
void Data::choose_summands(uint32_t ranks) {
  constexpr uint64_t kMost = 63;
  const Format format = format_of(type_);
  const uint64_t units = uint64_t{2} << format.mantissa_bits;
  if (kMost * ranks <= units || ranks == 1) {
    choices_ = kMost + 1;
    values_.resize(choices_ * width_);
    for (uint64_t i = 0; i < choices_; ++i) {  // odd multiples of 1/128
      encode(type_, (static_cast<double>(i) - 31.5) / 64, &values_[i * width_]);
    }
    return;
  }
  silence_ = static_cast<uint32_t>((ranks + units - 1) / units);
  const uint64_t most = std::max<uint64_t>(1, units / ranks);
  const double unit = std::max(1.0 / 128, std::ldexp(1.0, 1 - format.bias()));
  choices_ = 2 * most;
  values_.resize(choices_ * width_);
  for (uint64_t i = 0; i < choices_; ++i) {
    const double value = static_cast<double>(i / 2 + 1) * unit;
    encode(type_, i % 2 == 0 ? value : -value, &values_[i * width_]);
  }
}

// Another part of the ranks has 0 at each index.
bool Data::silent(uint32_t rank, uint64_t index) const {
  return silence_ > 1 && (rank + hash(UINT32_MAX, index)) % silence_ != 0;
}

// How many ranks may have factors of 2 or a half, so that no order of multiplication leaves the
// range of the type; the factors of the others are 1 and -1.
uint32_t Data::scaling_ranks() const { return static_cast<uint32_t>(format_of(type_).bias()); }

uint64_t Data::hash(uint32_t rank, uint64_t index) const {
  uint64_t x = seed_ + uint64_t{rank} * 0xD1B54A32D192ED03u + index * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

void Data::element(uint32_t rank, uint64_t index, std::byte* into) const {
  if (ones_) {
    if (values_.empty()) {
      const uint64_t one = 1;
      std::memcpy(into, &one, width_);
    } else {
      encode(type_, 1, into);
    }
    return;
  }
  if (silent(rank, index)) {
    std::memset(into, 0, width_);
    return;
  }
  const uint64_t bits = hash(rank, index);
  if (reduction_ == CCOM_PRODUCT && !values_.empty() && rank >= scaling_ranks()) {
    std::memcpy(into, &values_[bits % kSigns * width_], width_);
    return;
  }
  std::memcpy(into,
              values_.empty() ? reinterpret_cast<const std::byte*>(&bits)
                              : &values_[bits % choices_ * width_],
              width_);
}

void Data::fill(uint32_t rank, uint64_t first, std::span<std::byte> into) const {
  const uint64_t count = into.size() / width_;
  for (uint64_t i = 0; i < count; ++i) element(rank, first + i, &into[i * width_]);
}

void Data::reduced_integer(std::span<const uint32_t> ranks, uint64_t index, std::byte* into) const {
  uint64_t result = 0;
  bool first = true;
  for (const uint32_t rank : ranks) {
    std::byte bytes[8] = {};
    element(rank, index, bytes);
    const uint64_t value = load(bytes, width_);
    const bool less = is_signed(type_) ? signed_value(value, width_) < signed_value(result, width_)
                                       : value < result;
    if (first) {
      result = value;
    } else if (reduction_ == CCOM_MIN) {
      result = less ? value : result;
    } else if (reduction_ == CCOM_MAX) {
      result = less ? result : value;
    } else if (reduction_ == CCOM_PRODUCT) {
      result *= value;
    } else {
      result += value;
    }
    // Wraps at the width of the type.
    if (width_ < 8) result &= (1ull << (width_ * 8)) - 1;
    first = false;
  }
  if (reduction_ == CCOM_AVERAGE) {
    result = is_signed(type_) ? static_cast<uint64_t>(signed_value(result, width_) /
                                                      static_cast<int64_t>(ranks.size()))
                              : result / ranks.size();
  }
  std::memcpy(into, &result, width_);
}

void Data::reduced(std::span<const uint32_t> ranks, uint64_t index, std::byte* into,
                   double& bound) const {
  bound = 0;
  if (!is_floating(type_)) return reduced_integer(ranks, index, into);
  double result = 0, magnitude = 0, unit = std::numeric_limits<double>::infinity();
  bool first = true;
  for (const uint32_t rank : ranks) {
    std::byte bytes[8] = {};
    element(rank, index, bytes);
    const double value = decode(type_, bytes);
    if (value != 0) unit = std::min(unit, unit_of(value));
    if (first) {
      result = value;
    } else if (reduction_ == CCOM_MIN) {
      result = std::min(result, value);
    } else if (reduction_ == CCOM_MAX) {
      result = std::max(result, value);
    } else if (reduction_ == CCOM_PRODUCT) {
      result *= value;
    } else {
      result += value;
    }
    magnitude += std::fabs(value);
    first = false;
  }
  if (reduction_ == CCOM_AVERAGE) result /= static_cast<double>(ranks.size());
  encode(type_, result, into);
  bound = bound_of(decode(type_, into), magnitude, unit, ranks.size());
}

// `magnitude`: the sum of all magnitudes; `unit`: what all values are multiples of. Factors are
// powers of two that stay in range, so products are exact like the least and the largest value.
double Data::bound_of(double result, double magnitude, double unit, size_t ranks) const {
  if (reduction_ != CCOM_ADD && reduction_ != CCOM_AVERAGE) return 0;
  const Format format = format_of(type_);
  // Each partial sum is a multiple of the unit that the type has.
  const bool exact =
      magnitude <= std::ldexp(unit, format.mantissa_bits + 1) && magnitude <= format.largest();
  const double of_sum =
      exact ? 0 : format.epsilon() * magnitude * static_cast<double>(ranks) + format.smallest();
  if (reduction_ == CCOM_ADD) return of_sum;
  return of_sum / static_cast<double>(ranks) + format.epsilon() * std::fabs(result) +
         format.smallest();
}

std::string shown(ccom_type_t type, const std::byte* element) {
  char text[64];
  if (is_floating(type)) {
    std::snprintf(text, sizeof text, "%.9g", decode(type, element));
  } else if (is_signed(type)) {
    const uint64_t width = type_size(type);
    std::snprintf(text, sizeof text, "%lld",
                  static_cast<long long>(signed_value(load(element, width), width)));
  } else {
    std::snprintf(text, sizeof text, "%llu",
                  static_cast<unsigned long long>(load(element, type_size(type))));
  }
  return text;
}

namespace {

bool close_enough(const Data& data, const std::byte* found, const std::byte* expected,
                  double bound) {
  if (std::memcmp(found, expected, data.width()) == 0) return true;
  if (!is_floating(data.type())) return false;
  const double a = decode(data.type(), found), b = decode(data.type(), expected);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  const double largest = format_of(data.type()).largest();
  // At the end of the range one order of summation may overflow and another not.
  if (std::isinf(a) || std::isinf(b)) {
    return a * b > 0 && std::min(std::fabs(a), std::fabs(b)) >= largest - bound;
  }
  return std::fabs(a - b) <= bound;
}

void expect_element(const Data& data, const Segment& segment, uint64_t i,
                    std::span<const uint32_t> ranks, std::byte* into, double& bound) {
  bound = 0;
  if (segment.origin == Origin::kCopy) {
    data.element(ranks[segment.place], segment.source + i, into);
  } else {
    data.reduced(ranks, segment.source + i, into, bound);
  }
}

}  // namespace

std::optional<Mismatch> verify(const Data& data, const Work& work, uint32_t place,
                               std::span<const uint32_t> ranks, std::span<const std::byte> output,
                               bool untouched) {
  const uint64_t width = data.width();
  std::vector<Segment> segments = expected_output(work, place);
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.begin < b.begin; });
  uint64_t at = 0;
  const auto gap = [&](uint64_t end) -> std::optional<Mismatch> {
    for (uint64_t i = at * width; untouched && i < end * width; ++i) {
      if (output[i] != kUntouched) {
        return Mismatch{i / width, shown(data.type(), &output[i / width * width]),
                        "what was there before"};
      }
    }
    return {};
  };
  for (const Segment& segment : segments) {
    if (auto touched = gap(segment.begin)) return touched;
    for (uint64_t i = 0; i < segment.length; ++i) {
      std::byte expected[8];
      double bound = 0;
      expect_element(data, segment, i, ranks, expected, bound);
      const std::byte* found = &output[(segment.begin + i) * width];
      if (!close_enough(data, found, expected, bound)) {
        return Mismatch{segment.begin + i, shown(data.type(), found), shown(data.type(), expected)};
      }
    }
    at = segment.begin + segment.length;
  }
  return gap(output.size() / width);
}

std::vector<std::byte> golden(const Data& data, const Work& work, uint32_t place,
                              std::span<const uint32_t> ranks) {
  const uint64_t width = data.width();
  std::vector<std::byte> result(work.output_elements(place) * width, kUntouched);
  for (const Segment& segment : expected_output(work, place)) {
    for (uint64_t i = 0; i < segment.length; ++i) {
      double bound = 0;
      expect_element(data, segment, i, ranks, &result[(segment.begin + i) * width], bound);
    }
  }
  return result;
}

}  // namespace neuron::nccom
