// SPDX-License-Identifier: Apache-2.0
// The selective scan of Mamba on the emulated device. Its times beside the published ones are rows
// of tests/system/published.
#include <gmock/gmock.h>

#include "tests/differential/compare.h"
#include "tests/differential/reference_sequences.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::differential {
namespace {

using kernels::MambaShape;

// Decays between exp(-1) and 1.
struct Inputs {
  explicit Inputs(const MambaShape& shape)
      : delta(Numbers(91).take(shape.channels * shape.sequence)),
        u(Numbers(92).take(shape.channels * shape.sequence, 2)),
        a(Numbers(93).take(shape.channels * shape.states)),
        b(Numbers(94).take(shape.states * shape.sequence)),
        c(Numbers(95).take(shape.states * shape.sequence)) {
    for (float& value : delta) value = std::fabs(value);
    for (float& value : a) value = -std::fabs(value);
  }
  void write(DeviceModel& model) const {
    model.write("delta", delta);
    model.write("u", u);
    model.write("a", a);
    model.write("b", b);
    model.write("c", c);
  }
  std::vector<float> delta, u, a, b, c;
};

void check(unsigned version, const MambaShape& shape, const Golden& golden) {
  DeviceModel model(kernels::mamba("mamba", shape, version));
  ASSERT_TRUE(model.usable());
  const Inputs inputs(shape);
  inputs.write(model);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = floats(model.read("y"));
  const auto [channels, sequence, states] = shape;
  for (size_t channel = 0; channel < channels; channel += 13) {
    const size_t at = channel * sequence;
    const auto first = got.begin() + static_cast<ptrdiff_t>(at);
    expect_within(
        {first, first + static_cast<ptrdiff_t>(sequence)},
        mamba_channel(inputs.delta.data() + at, inputs.u.data() + at,
                      inputs.a.data() + channel * states, inputs.b, inputs.c, sequence, states));
  }
  expect_golden(model, "y", golden);
}

TEST(Mamba, Version1IsWithinTheBoundOfItsRoundings) { check(1, {256, 512, 16}, kMambaV1); }
TEST(Mamba, Version2IsWithinTheBoundOfItsRoundings) { check(2, {640, 200, 5}, kMambaV2); }
TEST(Mamba, Version3CarriesTheStatesFromPieceToPiece) { check(3, {512, 1024, 4}, kMambaV3); }

TEST(Mamba, GivesTheSameBitsInEveryOrder) {
  const MambaShape shape{128, 512, 3};
  const Inputs inputs(shape);
  std::vector<Bytes> results;
  for (unsigned version = 1; version <= 3; ++version) {
    DeviceModel model(kernels::mamba("mamba", shape, version));
    ASSERT_TRUE(model.usable());
    inputs.write(model);
    ASSERT_TRUE(model.execute());
    results.push_back(model.read("y"));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Mamba, SaysWhatItTakes) {
  const auto neff = kernels::mamba("odd", {128, 2048, 16}, 2);
  ASSERT_FALSE(neff);
  EXPECT_THAT(neff.error().sentence, ::testing::HasSubstr("up to 1024 positions"));
}

}  // namespace
}  // namespace neuron::differential
