// SPDX-License-Identifier: Apache-2.0
// Which lines of which functions the tables of a kernel in Python name.
#include "tools/neuron-profile/output/source_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/support/files.h"

namespace neuron::profile {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Instructions with these debug ids on an engine.
void put(Program& program, unsigned engine, const std::vector<uint32_t>& debug) {
  EngineCode& code = program.engines[engine];
  code.bytes.resize(debug.size() * NEURON_INSTRUCTION_BYTES);
  for (size_t pc = 0; pc < debug.size(); ++pc) {
    std::memcpy(code.bytes.data() + pc * NEURON_INSTRUCTION_BYTES + NEURON_INST_DEBUG, &debug[pc],
                sizeof(uint32_t));
  }
}

// Lines 10 and 20 of a kernel's functions, and line 30 of what is no function.
Program kernel() {
  Program program;
  program.files = {"kernel.py", "helper.py", "builder.cpp"};
  program.functions = {{1, 1, "load_tile"}, {2, 3, "scale_tile"}, {9, 9, "never_used"}};
  put(program, NEURON_ENGINE_DVE, {1, 2, 4, 5});
  program.engines[NEURON_ENGINE_DVE].lines = {
      {1, 10, 0, 0}, {2, 20, 1, 0}, {4, 30, 0, 0}, {5, 40, 2, 0}};
  return program;
}

class SourceFramesOfAKernel : public ::testing::Test {
 protected:
  std::string table(const std::string& name) {
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      const std::string path = entry.path();
      if (entry.is_regular_file() && path.find("/" + name + ".") != std::string::npos) {
        all += test::read_file(path);
      }
    }
    return all;
  }
  const test::Folder folder_;
};

TEST_F(SourceFramesOfAKernel, HaveANumberForEachLineAndNoneForWhatHasNoLine) {
  const Program program = kernel();
  const SourceFrames frames(program);
  EXPECT_NE(frames.frame_of(NEURON_ENGINE_DVE, 1), 0u);
  EXPECT_NE(frames.frame_of(NEURON_ENGINE_DVE, 1), frames.frame_of(NEURON_ENGINE_DVE, 2));
  EXPECT_EQ(frames.frame_of(NEURON_ENGINE_DVE, 3), 0u);
  EXPECT_EQ(frames.frame_of(NEURON_ENGINE_PE, 1), 0u);
  EXPECT_EQ(frames.kernel_name(NEURON_ENGINE_DVE, 0, 1), "Vector.0:0");
  EXPECT_EQ(frames.kernel_name(NEURON_ENGINE_DVE, 3, 5), "") << "no kernel in Python";
}

TEST_F(SourceFramesOfAKernel, NameEachFunctionWithTheFileOfItsFirstInstruction) {
  const Program program = kernel();
  TableSet tables(folder_.path());
  const auto written = SourceFrames(program).write(tables);
  ASSERT_TRUE(written) << written.error().sentence;
  EXPECT_THAT(tables.names(), Contains("KernelStackFrames"));
  EXPECT_THAT(table("KernelStackFrames"),
              AllOf(HasSubstr("load_tile"), HasSubstr("scale_tile"), HasSubstr("kernel.py"),
                    HasSubstr("helper.py"), Not(HasSubstr("never_used"))));
  EXPECT_THAT(table("KernelInstructions"),
              AllOf(HasSubstr("Vector.0:0"), HasSubstr("Vector.2:0"), Not(HasSubstr("Vector.3:0")),
                    HasSubstr("kernel.py"), HasSubstr("helper.py")));
  EXPECT_THAT(table("StackFrameFunctionName"),
              AllOf(HasSubstr("load_tile"), HasSubstr("never_used")));
}

TEST_F(SourceFramesOfAKernel, OfAProgramWithoutLinesAreNoTables) {
  Program program = kernel();
  program.engines[NEURON_ENGINE_DVE].lines.clear();
  TableSet tables(folder_.path());
  const auto written = SourceFrames(program).write(tables);
  ASSERT_TRUE(written) << written.error().sentence;
  EXPECT_TRUE(tables.names().empty());
}

}  // namespace
}  // namespace neuron::profile
