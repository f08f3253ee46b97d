// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-debug/tile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>

#include "hw/control.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::debug {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Numbers, AreDecimalOrHexadecimalAndNothingElse) {
  EXPECT_EQ(*number_of("0"), 0u);
  EXPECT_EQ(*number_of("12"), 12u);
  EXPECT_EQ(*number_of("0x0c"), 12u);
  EXPECT_EQ(*number_of("0xFFFFFFFF"), UINT32_MAX);
  for (const char* word : {"", "0x", "x", "-1", "1x", "0x1g", " 1", "4294967296"}) {
    const auto number = number_of(word);
    ASSERT_FALSE(number) << word;
    EXPECT_EQ(number.error().sentence, "'" + std::string(word) + "' is no number");
  }
}

class Tiles : public testing::Test {
 protected:
  // A word of partition `partition` of SBUF or PSUM.
  uint32_t& word(bool sbuf, uint32_t partition, uint32_t offset) {
    const uint64_t stride = sbuf ? NEURON_SBUF_PARTITION_STRIDE : NEURON_PSUM_PARTITION_STRIDE;
    return sample_.machine.state
        .registers[sample_.core->place().window_bar0() +
                   (sbuf ? NEURON_CORE_SBUF : NEURON_CORE_PSUM) + partition * stride + offset];
  }
  std::vector<double> row(const Words& words) {
    const auto tile = read_tile(target_, words);
    EXPECT_TRUE(tile) << (tile ? "" : tile.error().sentence);
    return tile && tile->rows.size() == 1 ? tile->rows[0] : std::vector<double>();
  }
  std::string refusal(const Words& words) {
    const auto tile = read_tile(target_, words);
    return tile ? "accepted" : tile.error().sentence;
  }

  test::LoadedSample sample_;
  Target target_{*sample_.loaded};
};

TEST_F(Tiles, HaveTheNumbersOfEachType) {
  word(true, 3, 0x100) = 0xC0200000;  // -2.5
  word(true, 3, 0x104) = 0x3C00BE80;  // as bf16: -0.25, 0x1p-7; as f16: -1.625, 1
  EXPECT_THAT(row({"sbuf", "3", "0x100", "f32", "1"}), ElementsAre(-2.5));
  EXPECT_THAT(row({"sbuf", "3", "0x104", "bf16", "2"}), ElementsAre(-0.25, 0x1p-7));
  EXPECT_THAT(row({"sbuf", "3", "0x104", "f16", "2"}), ElementsAre(-1.625, 1));
  word(true, 3, 0x108) = 0xFF80007F;
  EXPECT_THAT(row({"sbuf", "3", "0x108", "i8", "4"}), ElementsAre(127, 0, -128, -1));
  EXPECT_THAT(row({"sbuf", "3", "0x108", "u8", "4"}), ElementsAre(127, 0, 128, 255));
  EXPECT_THAT(row({"sbuf", "3", "0x108", "i16", "2"}), ElementsAre(127, -128));
  EXPECT_THAT(row({"sbuf", "3", "0x108", "u16", "2"}), ElementsAre(127, 65408));
  EXPECT_THAT(row({"sbuf", "3", "0x108", "i32", "1"}), ElementsAre(-8388481));
  EXPECT_THAT(row({"sbuf", "3", "0x108", "u32", "1"}), ElementsAre(4286578815));
}

TEST_F(Tiles, HaveTheHalvesWithoutANormalForm) {
  word(false, 0, 0) = 0x83FF0001;  // the least, and the largest negative one below the normal ones
  word(false, 0, 4) = 0xFC007C00;
  word(false, 0, 8) = 0x7BFF7C01;
  EXPECT_THAT(row({"psum", "0", "0", "f16", "4"}),
              ElementsAre(0x1p-24, -1023 * 0x1p-24, kInfinity, -kInfinity));
  const auto rest = row({"psum", "0", "8", "f16", "2"});
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_TRUE(std::isnan(rest[0]));
  EXPECT_EQ(rest[1], 65504);
}

TEST_F(Tiles, AreOfAsManyPartitionsAsAreAskedFor) {
  for (uint32_t p = 0; p < 128; ++p) word(true, p, 8) = p;
  const auto tile = read_tile(target_, Words{"sbuf", "126:2", "8", "u32", "1"});
  ASSERT_TRUE(tile) << tile.error().sentence;
  EXPECT_EQ(tile->first, 126u);
  EXPECT_THAT(tile->rows, ElementsAre(ElementsAre(126), ElementsAre(127)));
}

TEST_F(Tiles, ThatAreNotThereAreRefused) {
  for (const Words& words :
       {Words{}, Words{"sbuf", "0", "0", "f32"}, Words{"hbm", "0", "0", "f32", "1"},
        Words{"sbuf", "0", "0", "f32", "1", "1"}}) {
    EXPECT_THAT(refusal(words), HasSubstr("expected sbuf or psum, PARTITION[:COUNT]"));
  }
  EXPECT_THAT(refusal({"sbuf", "0", "0", "f64", "1"}), HasSubstr("'f64' is no type"));
  for (const auto& [partitions, count] : {std::pair{"128", "1"},
                                          {"127:2", "1"},
                                          {"0:0", "1"},
                                          {"0:129", "1"},
                                          {"0", "0"},
                                          {"0", "65537"}}) {
    EXPECT_THAT(refusal({"psum", partitions, "0", "u8", count}),
                HasSubstr(std::string("PSUM has 128 partitions, of which 1 to 65536 numbers each "
                                      "can be shown; '") +
                          partitions + "' and '" + count + "' are not within them"));
  }
  EXPECT_EQ(refusal({"sbuf", "127:1", "0", "u8", "65536"}), "accepted");
  EXPECT_THAT(refusal({"sbuf", "a", "0", "u8", "1"}), HasSubstr("'a' is no number"));
  EXPECT_THAT(refusal({"sbuf", "0:b", "0", "u8", "1"}), HasSubstr("'b' is no number"));
  EXPECT_THAT(refusal({"sbuf", "0", "c", "u8", "1"}), HasSubstr("'c' is no number"));
  EXPECT_THAT(refusal({"sbuf", "0", "0", "u8", "d"}), HasSubstr("'d' is no number"));
}

Tile of(std::vector<std::vector<double>> rows) { return {.first = 0, .rows = std::move(rows)}; }

TEST(TextPictures, AreDarkerForLargerNumbersAndSayWhatTheShadesMean) {
  EXPECT_EQ(text_picture(of({{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}})),
            " .:-=\n+*#%@\n' ' is 0, '@' 9\n");
  EXPECT_EQ(text_picture(of({{-2, kNan, kInfinity, 0}})),
            " ?!@\n' ' is -2, '@' 0, ? NaN, ! infinite\n");
  EXPECT_EQ(text_picture(of({{3, 3}})), "  \n' ' is 3, the only finite number\n");
  EXPECT_EQ(text_picture(of({{-kInfinity}})), "!\nno number is finite, ! infinite\n");
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_THAT(text_picture(of({{-kMost, 0, kMost}})), HasSubstr(" =@\n"))
      << "the distance of the ends is beyond a double";
}

uint32_t big_endian(const std::vector<uint8_t>& bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 |
         bytes[at + 3];
}

TEST(PngPictures, HaveAPixelForEachNumberInChunksWithTheirChecksums) {
  const auto picture = png_picture(of({{0, 10, 5}, {kNan, -kInfinity, 10}}));
  ASSERT_TRUE(picture);
  const std::vector<uint8_t>& png = *picture;
  EXPECT_THAT(std::vector<uint8_t>(png.begin(), png.begin() + 8),
              ElementsAre(0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'));
  std::map<std::string, std::vector<uint8_t>> chunks;
  std::vector<std::string> names;
  for (size_t at = 8; at < png.size();) {
    const uint32_t size = big_endian(png, at);
    ASSERT_LE(at + 12 + size, png.size());
    names.emplace_back(png.begin() + static_cast<ptrdiff_t>(at) + 4,
                       png.begin() + static_cast<ptrdiff_t>(at) + 8);
    chunks[names.back()].assign(png.begin() + static_cast<ptrdiff_t>(at) + 8,
                                png.begin() + static_cast<ptrdiff_t>(at) + 8 + size);
    EXPECT_EQ(big_endian(png, at + 8 + size), crc32(0, &png[at + 4], size + 4)) << names.back();
    at += 12 + size;
  }
  EXPECT_THAT(names, ElementsAre("IHDR", "IDAT", "IEND"));
  // Three wide, two high, 8 bits of RGB.
  EXPECT_THAT(chunks["IHDR"], ElementsAre(0, 0, 0, 3, 0, 0, 0, 2, 8, 2, 0, 0, 0));
  EXPECT_TRUE(chunks["IEND"].empty());
  std::vector<uint8_t> pixels(100);
  uLongf size = pixels.size();
  ASSERT_EQ(uncompress(pixels.data(), &size, chunks["IDAT"].data(), chunks["IDAT"].size()), Z_OK);
  pixels.resize(size);
  EXPECT_THAT(pixels, ElementsAre(0, 0, 0, 0, 255, 255, 255, 128, 128, 128,  //
                                  0, 255, 0, 0, 0, 0, 255, 255, 255, 255));
  EXPECT_EQ(png_legend(of({{0, 10}, {kNan, kInfinity}})),
            "black is 0, white 10, red NaN, blue infinite\n");
}

}  // namespace
}  // namespace neuron::debug
