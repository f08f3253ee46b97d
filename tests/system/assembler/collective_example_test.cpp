// SPDX-License-Identifier: Apache-2.0
// The hand-written program with a collective: two ranks, a core each.
#include "runtime/base/file.h"
#include "tests/differential/device_model.h"
#include "tests/system/api/collectives_support.h"
#include "tools/compiler/assembler/assembler.h"
#include "tools/compiler/assembler/disassembler.h"

namespace neuron::assembler {
namespace {

differential::Bytes assembled_example() {
  const auto file =
      tools::read_file(std::string(NEURON_SOURCE_DIR) + "/tools/neuron-as/examples/all_reduce.s");
  EXPECT_TRUE(file.has_value());
  const std::string text(file->begin(), file->end());
  const Assembled result = assemble(text, {});
  EXPECT_TRUE(result.ok()) << render(result.errors, "all_reduce.s", text);
  const auto bytes = write(result.assembly);
  EXPECT_TRUE(bytes.has_value()) << (bytes ? "" : bytes.error().sentence);
  return bytes ? *bytes : differential::Bytes();
}

TEST(CollectiveExample, AddsUpTheRanksBetweenTwoSteps) {
  ASSERT_TRUE(differential::runtime_ready());
  const auto neff = assembled_example();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      test::RankModel model(neff, rank, 2);
      ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
      for (int run = 0; run < 2; ++run) {
        const std::vector<float> y = model.run();
        ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
        ASSERT_EQ(y.size(), 128U * 64);
        for (size_t i = 0; i < y.size(); ++i) {
          ASSERT_EQ(y[i], test::value_of(0, i) * 2.0F + test::value_of(1, i) * 2.0F + 1.0F) << i;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CollectiveExample, ComesBackFromItsFileAsText) {
  const auto text = disassemble(assembled_example());
  ASSERT_TRUE(text.has_value()) << text.error().sentence;
  EXPECT_TRUE(text->same_file);
  EXPECT_TRUE(text->verbatim.empty());
  EXPECT_THAT(text->text, testing::HasSubstr(".collective all_reduce f32 [8192] add : sbuf [128, "
                                             "256] -> sbuf + 1024 [128, 256], semaphore=18"));
  EXPECT_THAT(text->text, testing::HasSubstr("cc_trigger at=&cc:0"));
}

}  // namespace
}  // namespace neuron::assembler
