// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/files.h"
#include "tools/neuron-profile/output/report.h"

namespace neuron::profile {
namespace {

using ntff::ChunkKind;
using ::testing::HasSubstr;

class ProfileFile : public ::testing::Test {
 protected:
  // A profile whose model is described like that, and whose execution is.
  std::string write(const std::string& model, const std::string& execution) {
    const std::string path = folder_.path("p.ntff");
    auto file = ntff::TraceFileWriter::create(path);
    EXPECT_TRUE(file);
    EXPECT_TRUE(file->write(ChunkKind::kModel, {}, model));
    EXPECT_TRUE(file->write(ChunkKind::kExecution, {}, execution));
    EXPECT_TRUE(file->write(ChunkKind::kEnd, {}, "{}"));
    EXPECT_TRUE(file->finish());
    return path;
  }
  std::string error_of(const std::string& path) {
    const auto profile = Profile::open(path);
    return profile ? "" : profile.error().sentence;
  }
  test::Folder folder_;
};

TEST_F(ProfileFile, DescriptionsThatInflateToMuchMoreThanAnyProgramHasAreRefused) {
  const std::string model = R"({"part":0,"generation":2})", execution = R"({"exec_id":1})";
  EXPECT_EQ(error_of(write(model, execution)), "");
  const std::string large = write(model + std::string(65u << 20, ' '), execution);
  EXPECT_LT(test::read_file(large).size(), 1u << 20) << "a small file";
  EXPECT_THAT(error_of(large), HasSubstr("is damaged: it has a description of 6"));
  EXPECT_THAT(error_of(write(model, execution + std::string(65u << 10, ' '))),
              HasSubstr("at most 65536 are read"));
}

TEST_F(ProfileFile, ThatEndsEarlySaysWhyAndWhatIsMissing) {
  const std::string path = folder_.path("p.ntff");
  {
    auto file = ntff::TraceFileWriter::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(ChunkKind::kModel, {}, R"({"part":0,"generation":2})"));
    ASSERT_TRUE(file->write(ChunkKind::kExecution, {}, R"({"exec_id":1})"));
    ASSERT_TRUE(file->write(ChunkKind::kEnd, {}, R"({"cut":"No space left on device"})"));
  }
  const auto profile = Profile::open(path);
  ASSERT_TRUE(profile) << profile.error().sentence;
  EXPECT_THAT(warnings(*profile), HasSubstr("(No space left on device). Executions behind"));
  EXPECT_EQ(warnings(*Profile::open(write(R"({"part":0,"generation":2})", "{}"))), "");
}

TEST_F(ProfileFile, EachThingThatItLacksIsANoticeWithACategoryOfItsOwn) {
  const std::string path = folder_.path("p.ntff");
  {
    auto file = ntff::TraceFileWriter::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(ChunkKind::kModel, {}, R"({"part":0,"generation":2})"));
    ASSERT_TRUE(file->write(ChunkKind::kExecution, {}, R"({"exec_id":1,"lost":7})"));
  }
  const auto profile = Profile::open(path);
  ASSERT_TRUE(profile) << profile.error().sentence;
  const std::vector<Notice> list = notices(*profile);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_STREQ(list[0].category, "dropped events");
  EXPECT_THAT(list[0].sentence, HasSubstr("7 events are missing"));
  EXPECT_STREQ(list[1].category, "profile not ended");
}

// Rings are written one behind the other, a slow one at the end.
TEST_F(ProfileFile, EventsOfAllRingsComeInTheOrderOfTheirTimes) {
  const std::string path = folder_.path("p.ntff");
  auto file = ntff::TraceFileWriter::create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write(ChunkKind::kModel, {}, R"({"part":0,"generation":2})"));
  const auto entries = [&](uint32_t slot, std::vector<uint64_t> times) {
    std::vector<neuron_notification> list;
    for (const uint64_t time : times) {
      neuron_notification entry{};
      entry.time = time;
      entry.word = (slot == NEURON_NQ_SLOT_TRANSFER ? NEURON_NK_TRANSFER : NEURON_NK_TRACE)
                   << NEURON_NW_KIND_SHIFT;
      list.push_back(entry);
    }
    EXPECT_TRUE(file->write(
        ChunkKind::kEntries, {.part = 0, .index = slot},
        {reinterpret_cast<const uint8_t*>(list.data()), list.size() * sizeof(list[0])}));
  };
  entries(0, {10, 30, 50});
  entries(0, {70, 90});
  entries(NEURON_NQ_SLOT_TRANSFER, {60, 100});
  entries(3, {20, 80});
  ASSERT_TRUE(file->write(ChunkKind::kExecution, {}, R"({"exec_id":1})"));
  entries(0, {5});  // of another execution
  ASSERT_TRUE(file->write(ChunkKind::kExecution, {}, R"({"exec_id":2})"));
  ASSERT_TRUE(file->finish());
  class Times final : public Visitor {
   public:
    void instruction(const InstructionEvent& e) override { all.emplace_back(e.end, e.engine); }
    void transfer(const TransferEvent& e) override { all.emplace_back(e.end, 9); }
    std::vector<std::pair<uint64_t, unsigned>> all;
  } times;
  std::vector<uint64_t> places;
  auto profile = Profile::open(path, [&](uint64_t at, uint64_t) { places.push_back(at); });
  ASSERT_TRUE(profile);
  EXPECT_GT(places.size(), 2u) << "the first reading is told, too";
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
  places.clear();
  ASSERT_TRUE(profile->visit_in_order(0, 0, times));
  EXPECT_GE(places.size(), 2u);
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end())) << "it never goes back";
  const std::vector<std::pair<uint64_t, unsigned>> wanted = {
      {10, 0}, {20, 3}, {30, 0}, {50, 0}, {60, 9}, {70, 0}, {80, 3}, {90, 0}, {100, 9}};
  EXPECT_EQ(times.all, wanted);
}

TEST_F(ProfileFile, NamesOutOfTheFileCannotCommandATerminal) {
  const auto profile =
      Profile::open(write(R"({"part":0,"generation":2,"name":"\u001b[2Jmodel","files":["a\nb.py"],)"
                          R"("semaphores":[{"number":9,"name":"\u009bs"}]})",
                          R"({"exec_id":1})"));
  ASSERT_TRUE(profile) << profile.error().sentence;
  const Program& program = profile->parts()[0].program;
  EXPECT_EQ(program.name, "\\x1b[2Jmodel");
  EXPECT_EQ(program.files[0], "a\\x0ab.py");
  EXPECT_EQ(program.semaphores[0].name.find('\x9b'), std::string::npos);
}

}  // namespace
}  // namespace neuron::profile
