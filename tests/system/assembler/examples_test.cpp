// SPDX-License-Identifier: Apache-2.0
// Hand-written programs, assembled and run on the embedded device through the public C interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/file.h"
#include "tests/differential/device_model.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/setting.h"
#include "tools/compiler/assembler/assembler.h"
#include "tools/compiler/assembler/disassembler.h"
#include "tools/compiler/assembler/optimizer.h"

namespace neuron::assembler {
namespace {

using differential::Bytes;
using differential::DeviceModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

runtime::Result<Bytes> assembled(const std::string& name, const std::string& text) {
  AssembleOptions options;
  options.file_name = name;
  options.debug_lines = true;
  const Assembled result = assemble(text, options);
  if (!result.ok()) {
    return runtime::fail(NRT_INVALID, "{}", render(result.errors, name, text));
  }
  return write(result.assembly);
}

std::string example(const std::string& name) {
  const auto text =
      tools::read_file(std::string(NEURON_SOURCE_DIR) + "/tools/neuron-as/examples/" + name);
  EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().sentence);
  return text ? std::string(text->begin(), text->end()) : std::string();
}

// Small whole numbers are exact in bf16, and their sums of products in f32.
std::vector<int> whole_numbers(size_t count, unsigned seed) {
  std::vector<int> values(count);
  for (int& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<int>(seed >> 24) % 9 - 4;
  }
  return values;
}
Bytes bf16_of(const std::vector<int>& values) {
  Bytes bytes;
  for (int value : values) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
    bytes.push_back(static_cast<uint8_t>(bits));
    bytes.push_back(static_cast<uint8_t>(bits >> 8));
  }
  return bytes;
}

TEST(Examples, TheHandWrittenMatmulGivesTheExactProductEveryTime) {
  constexpr size_t k = 1024, m = 128, n = 512;
  DeviceModel model(assembled("matmul.s", example("matmul.s")));
  ASSERT_TRUE(model.usable());
  const std::vector<int> a = whole_numbers(k * m, 1), b = whole_numbers(k * n, 2);
  const Bytes left = bf16_of(a), right = bf16_of(b);
  model.write("a", left.data(), left.size());
  model.write("b", right.data(), right.size());
  std::vector<float> wanted(m * n);
  for (size_t i = 0; i < k; ++i) {
    for (size_t row = 0; row < m; ++row) {
      for (size_t column = 0; column < n; ++column) {
        wanted[row * n + column] += static_cast<float>(a[i * m + row] * b[i * n + column]);
      }
    }
  }
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(model.execute());
    const Bytes bytes = model.read("c");
    std::vector<float> got(bytes.size() / 4);
    std::memcpy(got.data(), bytes.data(), bytes.size());
    ASSERT_EQ(got, wanted);
  }
}

// The text with every `what` replaced.
std::string replaced(std::string text, const std::string& what, const std::string& by) {
  EXPECT_NE(text.find(what), std::string::npos) << what;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// What neuron-run says of the text, in a process of its own: nothing has written its core's memory.
std::string failure_of(const std::string& text) {
  const test::Folder folder;
  folder.write("matmul.s", text);
  const test::Run run =
      test::shell("cd " + folder.path() + " && " + test::built("bin/neuron-as") +
                      " -g matmul.s -o matmul.neff && " + test::built("bin/neuron-run") +
                      " matmul.neff --random",
                  {{"NEURON_EMULATOR", "trn1.2xlarge"}, {"NEURON_EMULATOR_STRICT", "1"}});
  EXPECT_NE(run.ending, 0);
  return run.output;
}

// What neuron-run says of two programs of a logical core. The first text is given to neuron-as.
test::Run run_on_two_cores(const std::string& text, const std::string& options) {
  const test::Folder folder;
  folder.write("pair.s", text);
  return test::shell("cd " + folder.path() + " && " + test::built("bin/neuron-as") +
                         " -g pair.s -o pair.neff && " + test::built("bin/neuron-run") +
                         " pair.neff --random " + options +
                         " && cmp x0.npy y0.npy && cmp x1.npy y1.npy",
                     {{"NEURON_EMULATOR", "trn2.3xlarge"},
                      {"NEURON_EMULATOR_STRICT", "1"},
                      {"NEURON_RT_EXEC_TIMEOUT", "2"}});
}

TEST(Examples, TwoProgramsRaiseSemaphoresOfEachOtherInEveryExecution) {
  const test::Run run = run_on_two_cores(
      example("two_cores.s"),
      "--repeat 20 --output x0=x0.npy --output y0=y0.npy --output x1=x1.npy --output y1=y1.npy");
  EXPECT_EQ(run.ending, 0) << run.output;
}

TEST(Examples, AnAnswerThatNeverComesNamesTheWaitsOfBothCores) {
  const test::Run run =
      run_on_two_cores(replaced(example("two_cores.s"), ", remote=[9]", ""), "--repeat 2");
  EXPECT_NE(run.ending, 0);
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("semaphore 8 (answered) >= 1, which is 0: the other core of the pair "
                              "has not raised it"),
                    HasSubstr("semaphore 9 (told) >= 2, which is 0: the other core of the pair has "
                              "not raised it")));
}

TEST(Examples, AForgottenWaitNamesTheTransferAndTheSemaphoreOfItsEnd) {
  const std::string text = example("matmul.s");
  // PE reads when SP has just started the transfers, or later while they are in flight.
  const std::string later =
      replaced(text, "mov r4 = 32\n", "mov r4 = 32\nnop\nnop\nnop\nnop\nnop\n");
  for (const auto& [source, pc] : {std::pair{text, "1"}, std::pair{later, "6"}}) {
    EXPECT_THAT(
        failure_of(replaced(source, "wait(full0 >= r4)", "")),
        AllOf(HasSubstr("with RACE at PE pc " + std::string(pc) + " (matmul.s:"),
              HasSubstr("while the transfer that writes it is in flight: transfer 0 of SP (queue "
                        "set 'q_in'), a transfer of DMA engine 0 queue "),
              HasSubstr("started by SP pc 1 (matmul.s:"),
              HasSubstr("expected a wait here for semaphore 16 (full0), which that transfer "
                        "increments once on each of its 16 DMA engines"),
              Not(HasSubstr("write the tile before"))));
  }
}

// Two engines meet the same rule in one execution: whichever is told, the place is its own.
TEST(Examples, AFaultNamesTheBytesOfItsOwnInstruction) {
  const std::string said = failure_of(R"(.target trn1
.neff name=two_faults
.sem l
.var y : f32 [128, 64] output
.var sb : state-buffer, size=33554432
.queue q = out, engines=16, owner=SP
.engine DVE
main:
  tensor_copy sbuf[0:128, 0x0] f32 [64] = sbuf[0:128, 0x1000] f32 [64] then(l++)
  ret
.engine SP
.dma 1 st : sb + 0x8000 [128:262144, 256] -> y [128, 256], queue=q, semaphore=l
main:
  dma_trigger st
  event wait(l >= 16)
  ret
)");
  if (said.find("at DVE pc 0") != std::string::npos) {
    EXPECT_THAT(said, HasSubstr("it reads partition 0 byte 0x1000 of SBUF"));
  } else {
    EXPECT_THAT(said, HasSubstr("at SP pc 0"));
    EXPECT_THAT(said, HasSubstr("byte 0x8000 of SBUF"));
  }
}

TEST(Examples, TheTextOfADisassembledExampleGivesTheSameFile) {
  const auto file = assembled("matmul.s", example("matmul.s"));
  ASSERT_TRUE(file.has_value()) << file.error().sentence;
  const auto text = disassemble(*file);
  ASSERT_TRUE(text.has_value()) << text.error().sentence;
  EXPECT_TRUE(text->same_file);
  EXPECT_TRUE(text->verbatim.empty());
  EXPECT_NE(text->text.find("loop r0, start=0x0 i32, end=0x4 i32, step=1  @1 {"), std::string::npos)
      << text->text;
  EXPECT_NE(text->text.find("wait(full0 >= r4)"), std::string::npos);
}

// y = x + half + third, with the constants in the text.
constexpr const char* kAddConstants = R"(
.neff name=add_constants
.var x : f32 [128, 4] input
.var y : f32 [128, 4] output
.const half : f32 [128, 4] = 0.5
.const quarter : f32 [128, 4] = 0.25
.var sbuf : state-buffer, size=0x2000000
.sem loaded, added, stored
.queue q = data, owner=SP, engines=4
.engine SP
.dma 0 load_x : x [128, 16] -> sbuf [128:262144, 16], semaphore=loaded
.dma 1 load_half : half [128, 16] -> sbuf + 16 [128:262144, 16], semaphore=loaded
.dma 2 load_quarter : quarter [128, 16] -> sbuf + 32 [128:262144, 16], semaphore=loaded
.dma 3 store_y : sbuf [128:262144, 16] -> y [128, 16], semaphore=stored
  dma_trigger load_x
  dma_trigger load_half
  dma_trigger load_quarter
  dma_trigger store_y  wait(added >= 1)
  event wait(stored >= 4)
  ret
.engine DVE
  tensor_tensor sbuf[0:128, 0] f32 [4] = sbuf[0:128, 0] f32 [4], sbuf[0:128, 16] f32 [4], op=add wait(loaded >= 12)
  tensor_tensor sbuf[0:128, 0] f32 [4] = sbuf[0:128, 0] f32 [4], sbuf[0:128, 32] f32 [4], op=add then(added++)
  ret
)";

void expect_constants_added(const runtime::Result<Bytes>& file) {
  DeviceModel model(file);
  ASSERT_TRUE(model.usable());
  std::vector<float> x(512);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  model.write("x", x);
  ASSERT_TRUE(model.execute());
  const Bytes bytes = model.read("y");
  for (size_t i = 0; i < x.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    ASSERT_EQ(value, x[i] + 0.75F) << i;
  }
}

TEST(Examples, ConstantsOfTheTextAreAddedToTheInput) {
  expect_constants_added(assembled("add.s", kAddConstants));
}

TEST(Examples, AnOptimizedFileComputesTheSame) {
  const auto file = assembled("add.s", kAddConstants);
  ASSERT_TRUE(file.has_value()) << file.error().sentence;
  const auto container = neff::Container::open(*file);
  ASSERT_TRUE(container.has_value());
  const auto fast = optimize(*container);
  ASSERT_TRUE(fast.has_value()) << fast.error().sentence;
  EXPECT_NE(neff::Container::open(*fast)->find("sg00/weights.dat"), nullptr);
  expect_constants_added(fast);
}

}  // namespace
}  // namespace neuron::assembler
