// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-debug/tile.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "hw/control.h"

namespace neuron::debug {
namespace {

using runtime::fail;
using runtime::format;

struct Type {
  const char* name;
  uint32_t bytes;
};
constexpr Type kTypes[] = {{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"i32", 4}, {"u32", 4},
                           {"i16", 2}, {"u16", 2},  {"i8", 1},  {"u8", 1}};

const Type* type_named(const std::string& name) {
  for (const Type& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

double half(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double value_of(const Type& type, const uint8_t* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, type.bytes);
  const std::string name = type.name;
  if (name == "f16") return half(bits);
  if (name == "f32" || name == "bf16") {
    if (name == "bf16") bits <<= 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return static_cast<double>(value);
  }
  if (name[0] == 'u') return bits;
  const unsigned unused = 32 - 8 * type.bytes;
  return static_cast<double>(static_cast<int32_t>(bits << unused) >> unused);
}

// What of a tile is finite.
struct Range {
  double least = INFINITY, most = -INFINITY;
  bool none() const { return least > most; }
  // 0 to 1. Of numbers that are all the same nothing is more or less.
  double part_of(double value) const {
    if (!(most > least)) return 0;
    // Halves, for the difference may be beyond a double.
    return (value / 2 - least / 2) / (most / 2 - least / 2);
  }
};

Range range_of(const Tile& tile) {
  Range range;
  for (const auto& row : tile.rows) {
    for (const double value : row) {
      if (!std::isfinite(value)) continue;
      range.least = std::min(range.least, value);
      range.most = std::max(range.most, value);
    }
  }
  return range;
}

// "0 is ' ', 4 is '@'", and what the tile has beside finite numbers.
std::string legend(const Tile& tile, const Range& range, const char* least, const char* most,
                   const char* nan, const char* infinite) {
  bool has_nan = false, has_infinite = false;
  for (const auto& row : tile.rows) {
    for (const double value : row) {
      has_nan |= std::isnan(value);
      has_infinite |= std::isinf(value);
    }
  }
  std::string text;
  if (range.none()) {
    text = "no number is finite";
  } else if (range.least == range.most) {
    text = format("{} is {:.6g}, the only finite number", least, range.least);
  } else {
    text = format("{} is {:.6g}, {} {:.6g}", least, range.least, most, range.most);
  }
  if (has_nan) text += format(", {} NaN", nan);
  if (has_infinite) text += format(", {} infinite", infinite);
  return text + "\n";
}

void append_number(std::vector<uint8_t>& out, uint32_t value) {
  for (const unsigned shift : {24u, 16u, 8u, 0u}) {
    out.push_back(static_cast<uint8_t>(value >> shift));
  }
}

// The checksum covers the name and the data.
void append_chunk(std::vector<uint8_t>& out, const char* name, std::span<const uint8_t> data) {
  append_number(out, static_cast<uint32_t>(data.size()));
  const size_t begin = out.size();
  out.insert(out.end(), name, name + 4);
  out.insert(out.end(), data.begin(), data.end());
  append_number(
      out, static_cast<uint32_t>(crc32(0, &out[begin], static_cast<uInt>(out.size() - begin))));
}

}  // namespace

Result<uint32_t> number_of(const std::string& word) {
  uint32_t value = 0;
  const bool hexadecimal = word.rfind("0x", 0) == 0;
  const char* begin = word.data() + (hexadecimal ? 2 : 0);
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(begin, end, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end || begin == end) {
    return fail(NRT_INVALID, "'{}' is no number", word);
  }
  return value;
}

Result<Tile> read_tile(const Target& target, std::span<const std::string> words) {
  if (words.size() != 5 || (words[0] != "sbuf" && words[0] != "psum")) {
    return fail(NRT_INVALID,
                "expected sbuf or psum, PARTITION[:COUNT], OFFSET, TYPE and COUNT, such as "
                "`sbuf 0:4 0x800 f32 16`");
  }
  const Memory memory = words[0] == "sbuf" ? Memory::kSbuf : Memory::kPsum;
  const size_t colon = words[1].find(':');
  NEURON_TRY(first, number_of(words[1].substr(0, colon)));
  NEURON_TRY(partitions, colon == std::string::npos ? Result<uint32_t>(1u)
                                                    : number_of(words[1].substr(colon + 1)));
  NEURON_TRY(offset, number_of(words[2]));
  const Type* type = type_named(words[3]);
  if (type == nullptr) {
    return fail(NRT_INVALID, "'{}' is no type; expected f32, bf16, f16, or i or u with 8, 16 or 32",
                words[3]);
  }
  NEURON_TRY(count, number_of(words[4]));
  if (first >= NEURON_PARTITIONS || partitions == 0 || partitions > NEURON_PARTITIONS - first ||
      count == 0 || count > 65536) {
    return fail(
        NRT_INVALID,
        "{} has {} partitions, of which 1 to 65536 numbers each can be shown; '{}' and '{}' "
        "are not within them",
        memory == Memory::kSbuf ? "SBUF" : "PSUM", NEURON_PARTITIONS, words[1], words[4]);
  }
  Tile tile{.first = first, .rows = {}};
  for (uint32_t p = first; p < first + partitions; ++p) {
    NEURON_TRY(bytes, target.bytes(memory, p, offset, count * type->bytes));
    std::vector<double> row;
    for (uint32_t n = 0; n < count; ++n) row.push_back(value_of(*type, &bytes[n * type->bytes]));
    tile.rows.push_back(std::move(row));
  }
  return tile;
}

std::string text_picture(const Tile& tile) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  const Range range = range_of(tile);
  std::string text;
  for (const auto& row : tile.rows) {
    for (const double value : row) {
      const double shade = range.part_of(value) * static_cast<double>(kShades.size() - 1);
      text += std::isnan(value)   ? '?'
              : std::isinf(value) ? '!'
                                  : kShades[static_cast<size_t>(shade)];
    }
    text += '\n';
  }
  return text + legend(tile, range, "' '", "'@'", "?", "!");
}

Result<std::vector<uint8_t>> png_picture(const Tile& tile) {
  const Range range = range_of(tile);
  std::vector<uint8_t> lines;
  for (const auto& row : tile.rows) {
    lines.push_back(0);  // the bytes of the line are not differences
    for (const double value : row) {
      std::array<uint8_t, 3> pixel{};
      if (std::isnan(value)) {
        pixel = {255, 0, 0};
      } else if (std::isinf(value)) {
        pixel = {0, 0, 255};
      } else {
        pixel.fill(static_cast<uint8_t>(std::lround(range.part_of(value) * 255)));
      }
      lines.insert(lines.end(), pixel.begin(), pixel.end());
    }
  }
  uLongf size = compressBound(lines.size());
  std::vector<uint8_t> packed(size);
  if (compress(packed.data(), &size, lines.data(), lines.size()) != Z_OK) {
    return fail(NRT_RESOURCE, "there is no memory to compress the picture");
  }
  packed.resize(size);
  std::vector<uint8_t> out = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  std::vector<uint8_t> head;
  append_number(head, static_cast<uint32_t>(tile.rows.front().size()));
  append_number(head, static_cast<uint32_t>(tile.rows.size()));
  // 8 bits, RGB, and the only compression, filters and order of lines but the interlaced one.
  head.insert(head.end(), {8, 2, 0, 0, 0});
  append_chunk(out, "IHDR", head);
  append_chunk(out, "IDAT", packed);
  append_chunk(out, "IEND", {});
  return out;
}

std::string png_legend(const Tile& tile) {
  return legend(tile, range_of(tile), "black", "white", "red", "blue");
}

}  // namespace neuron::debug
