// SPDX-License-Identifier: Apache-2.0
// Cumulative sum, rotary embedding, attention and convolution on the emulated device.
#include <gmock/gmock.h>

#include "tests/differential/compare.h"
#include "tests/differential/reference_sequences.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::differential {
namespace {

using ::testing::HasSubstr;

void append(std::vector<Bounded>& all, const std::vector<Bounded>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void expect_refused(const kernels::Neff& neff, const char* sentence) {
  ASSERT_FALSE(neff);
  EXPECT_THAT(neff.error().sentence, HasSubstr(sentence));
}

void check_cumulative_sum(uint8_t dtype, size_t rows, size_t columns, const Golden& golden) {
  DeviceModel model(kernels::cumulative_sum("cumulative_sum", dtype, rows, columns));
  ASSERT_TRUE(model.usable());
  const std::vector<float> x = random_values(dtype, 81, rows * columns, 5);
  write_as(model, "x", dtype, x);
  ASSERT_TRUE(model.execute());
  std::vector<Bounded> wanted;
  for (size_t row = 0; row < rows; ++row) {
    append(wanted, stored_as(dtype, cumulative_sum(x.data() + row * columns, columns)));
  }
  expect_within(read_as(model, "y", dtype), wanted);
  expect_golden(model, "y", golden);
}

TEST(CumulativeSum, OfF32WithPartialTilesIsWithinTheBoundOfItsAdditions) {
  check_cumulative_sum(kF32, 700, 300, kCumulativeSumF32);
}
TEST(CumulativeSum, OfRowsLongerThanATileGoesOnFromTheLastSum) {
  check_cumulative_sum(kBf16, 30, 9000, kCumulativeSumBf16);
}
TEST(CumulativeSum, SaysWhatItTakes) {
  expect_refused(kernels::cumulative_sum("odd", NEURON_DTYPE_I32, 4, 4), "expected f32 or bf16");
}

void check_rope(uint8_t dtype, const kernels::RopeShape& shape, const Golden& golden) {
  const auto [size, batch, heads, sequence, interleaved] = shape;
  DeviceModel model(kernels::rope("rope", dtype, shape));
  ASSERT_TRUE(model.usable());
  const size_t pairs = size / 2;
  const std::vector<float> x = random_values(dtype, 82, size * batch * heads * sequence, 3);
  const std::vector<float> cosines = random_values(dtype, 83, pairs * batch * sequence);
  const std::vector<float> sines = random_values(dtype, 84, pairs * batch * sequence);
  write_as(model, "x", dtype, x);
  write_as(model, "cos", dtype, cosines);
  write_as(model, "sin", dtype, sines);
  ASSERT_TRUE(model.execute());
  std::vector<Bounded> wanted(x.size());
  for (size_t pair = 0; pair < pairs; ++pair) {
    const size_t first = interleaved ? 2 * pair : pair;
    const size_t second = interleaved ? first + 1 : pairs + pair;
    for (size_t at = 0; at < batch * heads * sequence; ++at) {
      const size_t angle = (pair * batch + at / (heads * sequence)) * sequence + at % sequence;
      const size_t row = batch * heads * sequence;
      const double a = x[first * row + at], b = x[second * row + at];
      wanted[first * row + at] = turned(a, cosines[angle], b, sines[angle]);
      wanted[second * row + at] = turned(b, cosines[angle], -a, sines[angle]);
    }
  }
  expect_within(read_as(model, "y", dtype), stored_as(dtype, wanted));
  expect_golden(model, "y", golden);
}

TEST(Rope, OfHalvesTurnsEachPairByTheAngleOfItsPosition) {
  check_rope(kF32, {64, 2, 5, 200, false}, kRopeHalves);
}
TEST(Rope, OfNeighboursTurnsEachPairByTheAngleOfItsPosition) {
  check_rope(kBf16, {128, 1, 3, 1100, true}, kRopeInterleaved);
}
TEST(Rope, SaysWhatItTakes) {
  expect_refused(kernels::rope("odd", kF32, {65, 1, 1, 16, false}), "an even size up to 256");
}

void check_attention(uint8_t dtype, const kernels::AttentionShape& shape, const Golden& golden) {
  const uint64_t heads = shape.heads, sequence = shape.sequence, size = shape.head_size;
  DeviceModel model(kernels::attention("attention", dtype, shape));
  ASSERT_TRUE(model.usable());
  const std::vector<float> q = random_values(dtype, 85, heads * sequence * size, 4);
  const std::vector<float> k = random_values(dtype, 86, heads * sequence * size, 2);
  const std::vector<float> v = random_values(dtype, 87, heads * sequence * size, 3);
  write_as(model, "q", dtype, q);
  write_as(model, "k", dtype, k);
  write_as(model, "v", dtype, shape.packed ? packed_rows(v, heads, sequence, size) : v);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = read_as(model, "y", dtype);
  const AttentionReference reference{size, sequence, std::min(shape.block, sequence),
                                     dtype == kBf16};
  for (size_t head = 0; head < heads; ++head) {
    const size_t first = head * sequence * size;
    for (size_t row = 0; row < sequence; row += 7) {
      const auto of_row = got.begin() + static_cast<ptrdiff_t>(first + row * size);
      expect_within(
          {of_row, of_row + static_cast<ptrdiff_t>(size)},
          stored_as(dtype, reference.row(q.data() + first + row, sequence, k.data() + first,
                                         v.data() + first, shape.causal ? row + 1 : sequence)));
    }
  }
  if (!shape.packed) return expect_golden(model, "y", golden);
  // Its transfers take another time.
  const uint64_t hash = hash_of(model.read("y"));
  EXPECT_EQ(hash, golden.hash) << std::hex << "0x" << hash << "u";
}

TEST(Attention, InOneBlockIsWithinTheBoundOfItsRoundings) {
  check_attention(kF32, {2, 256, 64, false}, kAttentionF32);
}
TEST(Attention, OfBf16InAHardwareLoopIsWithinTheBoundOfItsRoundings) {
  check_attention(kBf16, {1, 640, 128, false}, kAttentionBf16);
}
TEST(Attention, InManyBlocksIsWithinTheBoundOfItsRoundings) {
  check_attention(kF32, {1, 640, 64, false, 256}, kAttentionBlocks);
}
TEST(Attention, MeetsNoKeyThatIsLaterThanItsQuery) {
  check_attention(kF32, {1, 384, 128, true, 256}, kAttentionCausalF32);
  check_attention(kBf16, {2, 384, 64, true, 128}, kAttentionCausalBf16);
}
TEST(Attention, PackedGivesTheSameBits) {
  check_attention(kF32, {2, 256, 64, false, 1024, true}, kAttentionF32);
  check_attention(kF32, {1, 640, 64, false, 256, true}, kAttentionBlocks);
  check_attention(kBf16, {2, 384, 64, true, 128, true}, kAttentionCausalBf16);
}
TEST(Attention, SaysWhatItTakes) {
  expect_refused(kernels::attention("odd", kF32, {1, 100, 64}), "multiples of 128");
}

void check_convolution(uint8_t dtype, const kernels::ConvolutionShape& shape,
                       const Golden& golden) {
  const auto [images, inputs, outputs, height, width, filter, window] = shape;
  DeviceModel model(kernels::convolution("convolution", dtype, shape));
  ASSERT_TRUE(model.usable());
  const size_t pixels = size_t{inputs} * height * width;
  const std::vector<float> x = random_values(dtype, 88, images * pixels, 3);
  const std::vector<float> weights =
      random_values(dtype, 89, size_t{filter} * filter * inputs * outputs);
  const std::vector<float> bias = random_values(kF32, 90, outputs, 9);
  write_as(model, "x", dtype, x);
  write_as(model, "filter", dtype, weights);
  model.write("bias", bias);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = read_as(model, "y", dtype);
  const ConvolutionReference reference{inputs, outputs, height, width, filter, window};
  const size_t results = got.size() / images / outputs;
  for (size_t image = 0; image < images; ++image) {
    for (size_t output = 0; output < outputs; output += 37) {
      const auto first = got.begin() + static_cast<ptrdiff_t>((image * outputs + output) * results);
      expect_within({first, first + static_cast<ptrdiff_t>(results)},
                    stored_as(dtype, reference.channel(x.data() + image * pixels, weights,
                                                       bias[output], output)));
    }
  }
  expect_golden(model, "y", golden);
}

TEST(Convolution, WithMaximaOfWindowsIsWithinTheBoundOfItsRoundings) {
  check_convolution(kBf16, {2, 128, 128, 18, 34, 3, 2}, kConvolutionBf16);
}
TEST(Convolution, OfManyChannelsAndBandsIsWithinTheBoundOfItsRoundings) {
  check_convolution(kF32, {1, 256, 256, 26, 98, 3, 1}, kConvolutionF32);
}
TEST(Convolution, SaysWhatItTakes) {
  expect_refused(kernels::convolution("odd", kF32, {1, 3, 200, 8, 8, 3, 1}),
                 "up to 128 channels or a multiple of 128");
  expect_refused(kernels::convolution("odd", kF32, {1, 3, 8, 8, 8, 3, 4}),
                 "windows that divide the convolved image");
}

}  // namespace
}  // namespace neuron::differential
