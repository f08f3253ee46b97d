// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-dump/core_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "hw/control.h"
#include "tests/support/files.h"

namespace neuron::dump {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kHead = "core dump of the open Neuron runtime, version 1\n";

std::string whole() {
  return std::string(kHead) +
         "failure 5: a wait that never ends\n"
         "model: digits\n"
         "execution: 7\n"
         "device 1 core 0\n"
         "device 2 is no core of it\n"
         "engine PE: waiting at 12, 34567000 ps, waits for 0x30112, which is 1\n"
         "  exception: code 0x0 none\n"
         "  > 12: matmul psum[0:128, 0x0]\n"
         "engine DVE: halted at -3, 1000 ps, waits for 0x0, which is 0\n"
         "  exception: code 0x4 divided by 0\n"
         "  > 3: reciprocal sbuf\n"
         "engine SP: idle at 5, 0 ps, waits for 0x0, which is 0\n"
         "  > 5: ret\n"
         "engine Pool\n"
         "semaphores that are not 0\n"
         "  semaphore 18 (dma_0) = 16\n"
         "  event 3 = 1\n"
         "DMA engine 4 queue 1 has work left\n"
         "  semaphore 19 (late) = 1\n"
         "CC core 2 waits\n"
         "something that a later version says\n";
}

CoreFile parsed(const std::string& text) {
  auto file = parse_core_file(text);
  EXPECT_TRUE(file) << (file ? "" : file.error().sentence);
  return file ? std::move(*file) : CoreFile{};
}

TEST(CoreFile, HasWhatItsLinesSay) {
  const CoreFile file = parsed(whole());
  EXPECT_EQ(file.failure, "5: a wait that never ends");
  EXPECT_EQ(file.model, "digits");
  EXPECT_EQ(file.execution, "7");
  EXPECT_EQ(file.core, "device 1 core 0");
  ASSERT_EQ(file.engines.size(), 4u);
  const Engine& pe = file.engines[0];
  EXPECT_EQ(pe.name, "PE");
  EXPECT_EQ(pe.state, "waiting");
  EXPECT_EQ(pe.at, "12");
  EXPECT_EQ(pe.time_ps, 34567000u);
  EXPECT_EQ(pe.waiting, 0x30112u);
  EXPECT_EQ(pe.wait_value, 1u);
  EXPECT_EQ(pe.exception, "") << "code 0 is none";
  EXPECT_EQ(pe.instruction, "matmul psum[0:128, 0x0]");
  EXPECT_EQ(file.engines[1].at, "-3");
  EXPECT_EQ(file.engines[1].exception, "code 0x4 divided by 0");
  EXPECT_EQ(file.engines[3].name, "Pool");
  EXPECT_EQ(file.engines[3].at, "");
  EXPECT_THAT(file.semaphores, ElementsAre("semaphore 18 (dma_0) = 16", "event 3 = 1"));
  EXPECT_THAT(file.names, ElementsAre(Pair(18u, "semaphore 18 (dma_0)")));
  EXPECT_THAT(file.others, ElementsAre("DMA engine 4 queue 1 has work left", "CC core 2 waits"));
}

TEST(CoreFile, IsShownWithALineForEachEngine) {
  const std::string text = text_of(parsed(whole()));
  EXPECT_THAT(text, HasSubstr("  failure 5: a wait that never ends\n"
                              "  model digits, execution 7, device 1 core 0\n"));
  EXPECT_THAT(text, HasSubstr("  PE               34.567 us  waits for semaphore 18 (dma_0)"));
  EXPECT_THAT(text, HasSubstr("; pc 12: matmul psum[0:128, 0x0]\n"));
  EXPECT_THAT(text, HasSubstr("  DVE               0.001 us  halted; exception: code 0x4 divided "
                              "by 0; pc -3: reciprocal sbuf\n"));
  EXPECT_THAT(text, HasSubstr("  SP                0.000 us  idle\n"))
      << "who has nothing left to do stands nowhere";
  EXPECT_THAT(text, HasSubstr("  Pool       \n"));
  EXPECT_THAT(text, HasSubstr("  CC core 2 waits\n  semaphore 18 (dma_0) = 16\n  event 3 = 1\n"));
}

TEST(CoreFile, ThatIsNoneOrOfAnotherVersionIsRefused) {
  EXPECT_FALSE(is_core_file("core dump of something else"));
  EXPECT_TRUE(is_core_file(kHead));
  const auto none = parse_core_file("hello");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().sentence, HasSubstr("no core dump of this runtime"));
  const auto later = parse_core_file("core dump of the open Neuron runtime, version 12\n");
  ASSERT_FALSE(later);
  EXPECT_THAT(later.error().sentence, HasSubstr("version '12', and this program knows version 1"));
}

TEST(CoreFile, LinesThatNobodyCouldHaveWrittenAreTakenAsText) {
  const std::string all_digits(400, '1');
  const CoreFile file = parsed(std::string(kHead) + "  exception: of no engine\n  > 1: nothing\n" +
                               "  semaphore 4 = 1\nengine PE: waiting at " + all_digits +
                               ", 1 ps, waits for 0x1, which is 1\n" +
                               "  > no colon\nsemaphores of it\n  semaphore x = 1\n  semaphore " +
                               all_digits + " = 1\n");
  ASSERT_EQ(file.engines.size(), 1u);
  EXPECT_THAT(file.engines[0].state, HasSubstr("waiting at 1111"));
  EXPECT_EQ(file.engines[0].at, "");
  EXPECT_EQ(file.engines[0].instruction, "");
  EXPECT_EQ(file.semaphores.size(), 2u) << "those before the heading are none";
  EXPECT_EQ(file.names.count(4), 0u);
  EXPECT_EQ(file.names.count(111111111), 1u) << "a number of nine digits at most";
}

TEST(CoreFile, WhatItSaysCannotCommandATerminal) {
  const std::string text = text_of(parsed(std::string(kHead) + "model: \x1b[2J\n"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("[2J"));
}

TEST(CoreFiles, OfAFolderAreThoseOfADumpInTheirOrder) {
  const test::Folder folder;
  for (const char* name : {"b-lid-3", "a-lid-3", "a-lid-13", "c-lid-4"}) folder.write(name, kHead);
  folder.write("text-lid-3", "this is a text of somebody else, and long enough for a head");
  folder.write("short-lid-3", "core");
  std::filesystem::create_symlink(folder.path("a-lid-3"), folder.path("link-lid-3"));
  std::filesystem::create_directory(folder.path("folder-lid-3"));
  EXPECT_THAT(*core_files(folder.path(), "3"),
              ElementsAre(folder.path("a-lid-3"), folder.path("b-lid-3")));
  EXPECT_THAT(*core_files(folder.path(), ""),
              ElementsAre(folder.path("a-lid-13"), folder.path("a-lid-3"), folder.path("b-lid-3"),
                          folder.path("c-lid-4")));
  EXPECT_THAT(*core_files(folder.path("c-lid-4"), "3"), ElementsAre(folder.path("c-lid-4")))
      << "a file that is named is taken";
  const auto other = core_files(folder.path(), "5");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().sentence, HasSubstr("with the number 5"));
  const auto nowhere = core_files(folder.path("nowhere"), "");
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().sentence, HasSubstr("there is no core dump at"));
}

}  // namespace
}  // namespace neuron::dump
