// SPDX-License-Identifier: Apache-2.0
// Outputs whose size depends on the data: the program counts what it writes, the host is told.
#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::test {
namespace {

using builder::Engine;
using builder::Program;

constexpr uint32_t kMost = 64;

class OutputSize : public RuntimeTest {};

// Copies "x" to "y", of which it says that the word of input "n" counts the elements; and to "all".
Bytes counted_copy() {
  Program p("counted_copy");
  const auto x = p.input("x", NEURON_DTYPE_F32, {1, kMost});
  const auto n = p.input("n", NEURON_DTYPE_U32, {1});
  const auto y = p.output("y", NEURON_DTYPE_F32, {1, kMost});
  const auto all = p.output("all", NEURON_DTYPE_F32, {1, kMost});
  const auto counter = p.temporary("counter", NEURON_DTYPE_U32, {1});
  p.true_size(y, counter);
  p.dma(Engine::kSp, y.all(), x.all());
  p.dma(Engine::kSp, all.all(), x.all());
  p.dma(Engine::kSp, counter.all(), n.all());
  return bytes_of(p.build());
}

NRT_STATUS execute(Loaded& model, uint32_t count) {
  EXPECT_EQ(nrt_tensor_write(model.tensors["n"], &count, 0, sizeof(count)), NRT_SUCCESS);
  return model.run();
}

TEST_F(OutputSize, IsWhatTheProgramHasCounted) {
  Loaded model(counted_copy());
  size_t size = 77;
  EXPECT_EQ(nrt_open_get_output_size(model.model, "y", &size), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("was not executed yet"));
  for (const uint32_t count : {0U, 1U, 33U, kMost}) {
    ASSERT_EQ(execute(model, count), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(nrt_open_get_output_size(model.model, "y", &size), NRT_SUCCESS)
        << nrt_open_last_error();
    EXPECT_EQ(size, 4 * count);
    ASSERT_EQ(nrt_open_get_output_size(model.model, "all", &size), NRT_SUCCESS);
    EXPECT_EQ(size, 4 * kMost);
  }
}

TEST_F(OutputSize, ThatIsMoreThanTheOutputHasIsRefused) {
  Loaded model(counted_copy());
  for (const uint32_t count : {kMost + 1, 0x4000'0001U, UINT32_MAX}) {
    ASSERT_EQ(execute(model, count), NRT_SUCCESS) << nrt_open_last_error();
    size_t size = 77;
    EXPECT_EQ(nrt_open_get_output_size(model.model, "y", &size), NRT_FAILURE) << count;
    EXPECT_EQ(size, 77U);
    EXPECT_EQ(
        nrt_open_last_error(),
        "nrt_open_get_output_size: the program of model 'counted_copy' says that it has written " +
            std::to_string(count) +
            " times 4 bytes of output 'y', which has 256: its word 'counter' holds no count");
  }
}

TEST_F(OutputSize, OfNoOutputIsRefused) {
  Loaded model(counted_copy());
  ASSERT_EQ(execute(model, 1), NRT_SUCCESS);
  size_t size = 0;
  EXPECT_EQ(nrt_open_get_output_size(model.model, "x", &size), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("has no output 'x'"));
  EXPECT_EQ(nrt_open_get_output_size(model.model, nullptr, &size), NRT_INVALID);
  EXPECT_EQ(nrt_open_get_output_size(model.model, "y", nullptr), NRT_INVALID);
  EXPECT_NE(nrt_open_get_output_size(nullptr, "y", &size), NRT_SUCCESS);
}

TEST(OutputSizeOfTrn2, IsTheNumberOfPlacesThatNonzeroFinds) {
  const Setting emulator("NEURON_EMULATOR", "trn2.3xlarge"), quiet("NEURON_RT_LOG_LEVEL", "QUIET");
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  {
    Program p("places", 3);
    const auto x = p.input("x", NEURON_DTYPE_F32, {1, kMost});
    const auto places = p.output("places", NEURON_DTYPE_I32, {1, kMost});
    const auto counter = p.temporary("counter", NEURON_DTYPE_I32, {1, 1});
    const auto from = p.sbuf("from", 1, kMost, NEURON_DTYPE_F32);
    const auto found = p.sbuf("found", 1, kMost + 1, NEURON_DTYPE_I32);
    p.true_size(places, counter);
    p.dma(Engine::kSp, from.all(), x.all());
    p.nonzero_with_count(found.all(), from.all());
    p.dma(Engine::kSp, places.all(), found.column_range(0, kMost));
    p.dma(Engine::kSp, counter.all(), found.column_range(kMost, 1));
    p.physical_cores(2);
    Loaded model(bytes_of(p.build()));
    std::vector<float> values(kMost, 0);
    values[3] = values[17] = values[60] = 2;
    EXPECT_EQ(nrt_tensor_write(model.tensors["x"], values.data(), 0, 4 * kMost), NRT_SUCCESS);
    ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    size_t size = 0;
    ASSERT_EQ(nrt_open_get_output_size(model.model, "places", &size), NRT_SUCCESS)
        << nrt_open_last_error();
    ASSERT_EQ(size, 12U);
    std::vector<int32_t> told(3);
    EXPECT_EQ(nrt_tensor_read(model.tensors["places"], told.data(), 0, size), NRT_SUCCESS);
    EXPECT_EQ(told, (std::vector<int32_t>{3, 17, 60}));
  }
  nrt_close();
}

}  // namespace
}  // namespace neuron::test
