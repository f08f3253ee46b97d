// SPDX-License-Identifier: Apache-2.0
#include "runtime/ntff/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/files.h"

namespace neuron::ntff {
namespace {

using testing::HasSubstr;

class TraceFile : public testing::Test {
 protected:
  test::Folder folder_;
  const std::string path_ = folder_.path("p.ntff");

  // A chunk that deflates well, one that does not, and an empty one.
  void write() const {
    auto file = TraceFileWriter::create(path_);
    ASSERT_TRUE(file);
    std::string noise;
    uint32_t x = 1;
    while (noise.size() < 5000) {
      x = x * 69069 + 1;
      noise += static_cast<char>(x >> 24);
    }
    ASSERT_TRUE(file->write(ChunkKind::kModel, {}, std::string(100'000, 'a')));
    ASSERT_TRUE(file->write(ChunkKind::kEntries, {.part = 1, .index = 9}, noise));
    ASSERT_TRUE(file->write(static_cast<ChunkKind>(77), {}, "later"));
    ASSERT_TRUE(file->write(ChunkKind::kEnd, {}, ""));
    ASSERT_TRUE(file->finish());
    EXPECT_EQ(file->bytes_written(), test::read_file(path_).size());
  }
  static std::string error_of(const std::string& path) {
    auto file = TraceFileReader::open(path);
    if (!file) return file.error().sentence;
    for (;;) {
      auto chunk = file->next();
      if (!chunk) return chunk.error().sentence;
      if (!*chunk) return "";
    }
  }
};

TEST_F(TraceFile, GivesChunksBackAsTheyWereWrittenWithTheirPlaces) {
  write();
  EXPECT_LT(test::read_file(path_).size(), 10'000u) << "chunks are deflated";
  auto file = TraceFileReader::open(path_);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->version(), kVersion);
  auto first = file->next();
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->text(), std::string(100'000, 'a'));
  auto second = file->next();
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->kind, ChunkKind::kEntries);
  EXPECT_EQ((*second)->place.part, 1u);
  EXPECT_EQ((*second)->place.index, 9u);
  EXPECT_EQ((*second)->bytes.size(), 5000u);
}

TEST_F(TraceFile, PassesOverKindsThatAreNotWantedOrNotKnown) {
  write();
  auto file = TraceFileReader::open(path_);
  ASSERT_TRUE(file);
  auto end = file->next(only(ChunkKind::kEnd));
  ASSERT_TRUE(end && *end);
  EXPECT_EQ((*end)->kind, ChunkKind::kEnd);
  ASSERT_TRUE(file->rewind());
  auto later = file->next(but(ChunkKind::kModel) & but(ChunkKind::kEntries));
  ASSERT_TRUE(later && *later);
  EXPECT_EQ((*later)->text(), "later")
      << "a kind of a later version is not in only(), but in but()";
}

TEST_F(TraceFile, EndsBeforeAChunkThatIsNotWhole) {
  write();
  const std::string whole = test::read_file(path_);
  for (const size_t size : {whole.size() - 1, whole.size() - 40, size_t{33}, size_t{70}}) {
    const std::string cut = folder_.write("cut.ntff", std::string_view(whole).substr(0, size));
    EXPECT_EQ(error_of(cut), "");
    auto file = TraceFileReader::open(cut);
    ASSERT_TRUE(file);
    while (true) {
      auto chunk = file->next();
      ASSERT_TRUE(chunk);
      if (!*chunk) break;
      EXPECT_NE((*chunk)->kind, ChunkKind::kEnd);
    }
    EXPECT_TRUE(file->cut());
  }
}

TEST_F(TraceFile, NoticesThatAChunkWhichIsPassedOverIsNotWhole) {
  write();
  const std::string whole = test::read_file(path_);
  // Within the second chunk's noise, of which nobody reads a byte.
  const std::string cut = folder_.write("cut.ntff", std::string_view(whole).substr(0, 3000));
  auto file = TraceFileReader::open(cut);
  ASSERT_TRUE(file);
  auto end = file->next(only(ChunkKind::kEnd));
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
  EXPECT_TRUE(file->cut());
}

TEST_F(TraceFile, AFifoWithoutAnOtherEndKeepsNobodyWaiting) {
  const std::string fifo = folder_.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(TraceFileWriter::create(fifo));
  EXPECT_FALSE(TraceFileReader::open(fifo));
}

TEST_F(TraceFile, AFileThatExistsIsReplacedOrRefusedAsTheCallerSays) {
  write();
  const std::string before = test::read_file(path_);
  auto refused = TraceFileWriter::create(path_, TraceFileWriter::Existing::kRefused);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence, HasSubstr("File exists"));
  EXPECT_TRUE(test::read_file(path_) == before);
  EXPECT_TRUE(TraceFileWriter::create(path_));
  EXPECT_FALSE(test::read_file(path_) == before);
}

TEST_F(TraceFile, RefusesWhatIsNoProfileOfThisProjectWithASentence) {
  EXPECT_THAT(error_of(folder_.path("none")), HasSubstr("cannot read the profile"));
  EXPECT_THAT(error_of(folder_.write("foreign", std::string_view("\x0a\x10 some other format here, "
                                                                 "of another tool"))),
              HasSubstr("is no profile of this project"));
  EXPECT_THAT(error_of(folder_.write("empty", std::string_view())), HasSubstr("is no profile"));
  write();
  std::string later = test::read_file(path_);
  later[8] = 9;
  EXPECT_THAT(error_of(folder_.write("later", later)), HasSubstr("has version 9"));
}

TEST_F(TraceFile, NoticesEveryDamagedByteOfAChunk) {
  write();
  const std::string whole = test::read_file(path_);
  // Sizes, the checksum, and contents of the second chunk, which is not deflated.
  const size_t second = whole.find(std::string("\x04\0\0\0\0\0\0\0\x01\0\0\0\x09", 13));
  ASSERT_NE(second, std::string::npos);
  for (const size_t at : {second + 20, second + 24, second + 28, second + 33, second + 4000}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    EXPECT_THAT(error_of(folder_.write("damaged", damaged)), HasSubstr("is damaged")) << at;
  }
}

TEST_F(TraceFile, KeepsTheFirstFailureOfWriting) {
  EXPECT_FALSE(TraceFileWriter::create(folder_.path("no/folder")));
  auto file = TraceFileWriter::create("/dev/full");
  EXPECT_FALSE(file) << "the header alone does not fit";
}

}  // namespace
}  // namespace neuron::ntff
