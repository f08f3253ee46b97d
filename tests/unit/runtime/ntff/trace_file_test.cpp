// SPDX-License-Identifier: Apache-2.0
#include "runtime/ntff/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <tuple>

#include "tests/support/files.h"

namespace neuron::ntff {
namespace {

using runtime::Result;
using testing::HasSubstr;

class TraceFile : public testing::Test {
 protected:
  test::Folder folder_;
  const std::string path_ = folder_.path("p.ntff");

  // What does not deflate.
  static std::string noise(size_t size) {
    std::string noise;
    uint32_t x = 1;
    while (noise.size() < size) {
      x = x * 69069 + 1;
      noise += static_cast<char>(x >> 24);
    }
    return noise;
  }

  // A chunk that deflates well, one that does not, and an empty one.
  void write() const {
    auto file = TraceFileWriter::create(path_);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(ChunkKind::kModel, {}, std::string(100'000, 'a')));
    ASSERT_TRUE(file->write(ChunkKind::kEntries, {.part = 1, .index = 9}, noise(5000)));
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

TEST_F(TraceFile, FindsChunksWithoutTheirContentsAndReadsThemInAnyOrder) {
  {
    auto file = TraceFileWriter::create(path_);
    ASSERT_TRUE(file);
    for (uint32_t n = 0; n < 4; ++n) {
      const ChunkKind kind = n == 2 ? ChunkKind::kExecution : ChunkKind::kEntries;
      ASSERT_TRUE(file->write(kind, {.part = 0, .index = n}, std::string(1000 + n, 'a')));
    }
    ASSERT_TRUE(file->finish());
  }
  auto file = TraceFileReader::open(path_);
  ASSERT_TRUE(file);
  std::vector<uint64_t> places;
  for (const uint32_t index : {0u, 1u, 3u}) {
    const auto found = file->find(only(ChunkKind::kEntries));
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->place.index, index);
    EXPECT_EQ((*found)->kind, ChunkKind::kEntries);
    places.push_back((*found)->at);
  }
  const auto end = file->find(only(ChunkKind::kEntries));
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
  for (const size_t n : {2u, 0u, 1u}) {
    const auto chunk = file->chunk_at(places[n]);
    ASSERT_TRUE(chunk && *chunk);
    EXPECT_EQ((*chunk)->bytes.size(), 1000 + (*chunk)->place.index);
  }
  ASSERT_TRUE(file->rewind());
  const auto first = file->next();
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->place.index, 0u);
}

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

TEST_F(TraceFile, NoticesThatAChunkInflatesToFewerBytesThanItSays) {
  write();
  std::string longer = test::read_file(path_);
  auto file = TraceFileReader::open(path_);
  ASSERT_TRUE(file);
  auto found = file->find(only(ChunkKind::kModel));
  ASSERT_TRUE(found && *found);
  // A version without checksums of headers, whose first chunk says 100,001 bytes in place of
  // 100,000.
  longer[8] = 2;
  const size_t first = (*found)->at;
  const size_t size = longer.find(std::string("\xa0\x86\x01\0", 4), first);
  ASSERT_LT(size, first + 32);
  longer[size] = '\xa1';
  longer.replace(first + 20, 4, 4, '\0');
  EXPECT_THAT(error_of(folder_.write("longer", longer)), HasSubstr("cannot be inflated"));
}

// Whatever the readers find instead, they do not find other chunks.
TEST_F(TraceFile, NoticesEveryBitOfAHeaderThatIsTurnedOver) {
  write();
  const std::string whole = test::read_file(path_);
  const auto read = [&](const std::string& path) {
    std::vector<std::tuple<ChunkKind, uint32_t, uint32_t, std::string>> chunks;
    auto file = TraceFileReader::open(path);
    bool good = file.has_value();
    while (good) {
      auto chunk = file->next();
      good = chunk.has_value();
      if (!good || !*chunk) break;
      chunks.emplace_back((*chunk)->kind, (*chunk)->place.part, (*chunk)->place.index,
                          (*chunk)->text());
    }
    return std::pair(good, chunks);
  };
  const auto [sound, chunks] = read(path_);
  ASSERT_TRUE(sound);
  ASSERT_EQ(chunks.size(), 4u);
  std::vector<size_t> headers = {0};  // that of the file, and those of chunks
  auto file = TraceFileReader::open(path_);
  for (;;) {
    auto found = file->find(UINT32_MAX);
    ASSERT_TRUE(found);
    if (!*found) break;
    headers.push_back((*found)->at);
  }
  ASSERT_EQ(headers.size(), 5u);
  for (const size_t header : headers) {
    for (size_t bit = 0; bit < size_t{32} * 8; ++bit) {
      std::string damaged = whole;
      damaged[header + bit / 8] = static_cast<char>(damaged[header + bit / 8] ^ 1 << bit % 8);
      const auto [good, found] = read(folder_.write("damaged", damaged));
      EXPECT_TRUE(!good || found == chunks) << "bit " << bit << " of the header at " << header;
      // One who passes over the contents notices it, too.
      auto passing = TraceFileReader::open(folder_.path("damaged"));
      while (passing && header != 0) {
        auto next = passing->find(only(ChunkKind::kEnd));
        if (!next) break;
        ASSERT_TRUE(*next) << "bit " << bit << " of the header at " << header;
      }
    }
  }
}

TEST_F(TraceFile, OfAnEarlierVersionIsReadWithoutChecksumsOfHeaders) {
  write();
  std::string older = test::read_file(path_);
  auto file = TraceFileReader::open(path_);
  std::vector<size_t> headers;
  for (;;) {
    auto found = file->find(UINT32_MAX);
    ASSERT_TRUE(found);
    if (!*found) break;
    headers.push_back((*found)->at);
  }
  older[8] = 2;
  for (const size_t header : headers) older.replace(header + 20, 4, 4, '\0');
  EXPECT_EQ(error_of(folder_.write("older", older)), "");
  older[headers[1] + 20] = 1;
  EXPECT_THAT(error_of(folder_.write("older", older)), HasSubstr("is damaged"));
}

// Somebody may read it, or kill this process.
TEST_F(TraceFile, HasWholeExecutionsSoonAfterTheyAreWritten) {
  auto file = TraceFileWriter::create(path_);
  ASSERT_TRUE(file);
  const auto executions = [&] {
    size_t count = 0;
    auto read = TraceFileReader::open(path_);
    EXPECT_TRUE(read);
    for (;;) {
      auto found = read->find(only(ChunkKind::kExecution));
      EXPECT_TRUE(found);
      if (!found || !*found) return count;
      ++count;
    }
  };
  ASSERT_TRUE(file->write(ChunkKind::kExecution, {}, "{}"));
  EXPECT_EQ(executions(), 1u) << "the first one at once";
  ASSERT_TRUE(file->write(ChunkKind::kEntries, {}, noise(1000)));
  const auto begin = std::chrono::steady_clock::now();
  size_t written = 1;
  while (executions() == 1 && std::chrono::steady_clock::now() - begin < std::chrono::minutes(1)) {
    ASSERT_TRUE(file->write(ChunkKind::kExecution, {}, "{}"));
    ++written;
  }
  EXPECT_EQ(executions(), written);
}

TEST_F(TraceFile, HasOneWriterAtATimeUnderAllOfItsNames) {
  std::filesystem::create_directory(folder_.path("d"));
  auto first = TraceFileWriter::create(folder_.path("one"));
  ASSERT_TRUE(first) << first.error().sentence;
  std::filesystem::create_hard_link(folder_.path("one"), folder_.path("hard"));
  for (const char* name : {"one", "d/../one", "hard"}) {
    const auto second = TraceFileWriter::create(folder_.path(name));
    ASSERT_FALSE(second) << name;
    EXPECT_THAT(second.error().sentence, HasSubstr("is being written by another profile")) << name;
  }
  ASSERT_TRUE(first->write(ChunkKind::kEnd, {}, "{}"));
  ASSERT_TRUE(first->finish());
  EXPECT_TRUE(TraceFileReader::open(folder_.path("hard"))) << "the refused ones left it alone";
}

// A limit of the process stands for a disk without room: its files end there meanwhile.
class SmallDisk {
 public:
  explicit SmallDisk(uint64_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~SmallDisk() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(TraceFile, OfWhichNothingCanBeWrittenLeavesNoEmptyFileAndSaysSo) {
  const auto file = [&] {
    const SmallDisk disk(0);
    return TraceFileWriter::create(path_);
  }();
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().sentence, HasSubstr("File too large"));
  EXPECT_THAT(file.error().sentence, HasSubstr("make room"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TraceFile, ThatFillsTheDiskEndsWithItsLastWholeExecutionAndSaysWhy) {
  auto file = TraceFileWriter::create(path_);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write(ChunkKind::kModel, {}, "{}"));
  ASSERT_TRUE(file->write(ChunkKind::kEntries, {}, noise(5000)));
  ASSERT_TRUE(file->write(ChunkKind::kExecution, {}, R"({"exec_id":1})"));
  ASSERT_TRUE(file->finish());
  const uint64_t whole = file->bytes_written();
  EXPECT_FALSE(file->failure_is_news());
  {
    const SmallDisk disk(whole + 1000);
    const auto written = file->write(ChunkKind::kEntries, {}, noise(100'000));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().status, NRT_RESOURCE);
    const std::string& sentence = written.error().sentence;
    EXPECT_THAT(sentence, HasSubstr("'" + path_ + "' could not be written further: "));
    EXPECT_THAT(sentence, testing::ContainsRegex(": 99[0-9]{3} bytes more were to go there, and "
                                                 "[0-9]+ are free; the file ends with the last "
                                                 "whole execution, and says so; make room there"));
    EXPECT_THAT(sentence, HasSubstr("File too large"));
    // Of whatever follows, the first failure is what is told.
    EXPECT_EQ(file->write(ChunkKind::kExecution, {}, "{}").error().sentence, sentence);
    EXPECT_EQ(file->finish().error().sentence, sentence);
  }
  EXPECT_TRUE(file->failure_is_news());
  EXPECT_FALSE(file->failure_is_news()) << "it has been told";
  auto read = TraceFileReader::open(path_);
  ASSERT_TRUE(read);
  std::vector<ChunkKind> kinds;
  std::string last;
  for (;;) {
    auto chunk = read->next();
    ASSERT_TRUE(chunk) << chunk.error().sentence;
    if (!*chunk) break;
    kinds.push_back((*chunk)->kind);
    last = (*chunk)->text();
  }
  EXPECT_FALSE(read->cut());
  EXPECT_EQ(kinds, (std::vector{ChunkKind::kModel, ChunkKind::kEntries, ChunkKind::kExecution,
                                ChunkKind::kEnd}));
  EXPECT_EQ(last, R"({"cut":"File too large"})");
  EXPECT_TRUE(TraceFileWriter::create(path_)) << "nobody holds it any more";
}

TEST_F(TraceFile, ThatFillsTheDiskDoesNotEndWithAnExecutionThatIsNotThere) {
  auto file = TraceFileWriter::create(path_);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write(ChunkKind::kExecution, {}, R"({"exec_id":1})"));
  ASSERT_TRUE(file->finish());
  const uint64_t whole = file->bytes_written();
  {
    const SmallDisk disk(whole + 1000);
    // What fails may be either of them, or the end.
    (void)file->write(ChunkKind::kEntries, {}, noise(2000));
    (void)file->write(ChunkKind::kExecution, {}, R"({"exec_id":2})");
    EXPECT_FALSE(file->finish());
  }
  std::vector<std::string> texts;
  auto read = TraceFileReader::open(path_);
  ASSERT_TRUE(read);
  for (;;) {
    auto chunk = read->next();
    ASSERT_TRUE(chunk) << chunk.error().sentence;
    if (!*chunk) break;
    texts.emplace_back((*chunk)->text());
  }
  EXPECT_EQ(texts, (std::vector<std::string>{R"({"exec_id":1})", R"({"cut":"File too large"})"}));
}

TEST_F(TraceFile, ThatFillsTheDiskWithoutAWholeExecutionIsRemoved) {
  auto file = TraceFileWriter::create(path_);
  ASSERT_TRUE(file);
  {
    const SmallDisk disk(1000);
    const auto written = file->write(ChunkKind::kModel, {}, noise(100'000));
    ASSERT_FALSE(written);
    EXPECT_THAT(written.error().sentence, HasSubstr("the file is removed, since no execution"));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TraceFile, AHoleOfATerabyteIsNoProfileAndTakesNoTime) {
  write();
  ASSERT_EQ(::truncate(path_.c_str(), off_t{1} << 40), 0);
  const auto begin = std::chrono::steady_clock::now();
  auto file = TraceFileReader::open(path_);
  ASSERT_TRUE(file);
  Result<std::optional<Chunk>> next = std::optional<Chunk>();
  do {
    next = file->next(only(ChunkKind::kEnd));
  } while (next && *next);
  ASSERT_FALSE(next);
  EXPECT_THAT(next.error().sentence, HasSubstr("there are zeros"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(TraceFile, KeepsTheFirstFailureOfWriting) {
  EXPECT_FALSE(TraceFileWriter::create(folder_.path("no/folder")));
  auto file = TraceFileWriter::create("/dev/full");
  EXPECT_FALSE(file) << "the header alone does not fit";
}

}  // namespace
}  // namespace neuron::ntff
