// SPDX-License-Identifier: Apache-2.0
// Parts of files, read with and without a ring, from the host's cache and past it.
#include "runtime/model/file_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace neuron::runtime {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPiece = FileReader::kPiece;

std::string contents(uint64_t size) {
  std::string bytes(size, '\0');
  for (uint64_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>((i * 2654435761u + i / kPage * 40503u) >> 13);
  }
  return bytes;
}

// Memory on a page boundary.
class Pages {
 public:
  explicit Pages(uint64_t bytes, int protection = PROT_READ | PROT_WRITE)
      : bytes_(bytes),
        memory_(::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { ::munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  uint64_t bytes_;
  void* memory_;
};

// What the host has of a file in its cache.
uint64_t cached_pages(const std::string& path, uint64_t size) {
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  std::vector<unsigned char> pages((size + kPage - 1) / kPage);
  EXPECT_EQ(::mincore(memory, size, pages.data()), 0);
  ::munmap(memory, size);
  return static_cast<uint64_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

void forget(const std::string& path) {
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fsync(file.get()), 0);
  ASSERT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
}

class Reader : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<FileReader> open() const {
    auto reader = FileReader::open(path_, GetParam());
    EXPECT_TRUE(reader);
    return std::move(*reader);
  }
  const test::Folder folder_;
  const uint64_t size_ = 20 * kPiece + 12345;
  const std::string bytes_ = contents(size_);
  const std::string path_ = folder_.write("file", bytes_);
};

INSTANTIATE_TEST_SUITE_P(RingOrNot, Reader, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ring" : "NoRing"; });

struct Range {
  uint64_t offset, bytes, shift;
};

TEST_P(Reader, ReadsDirectlyWhateverTheRangeThePlaceAndTheCache) {
  const Pages memory(size_ + 2 * kPage);
  const Range ranges[] = {{0, size_, 0},
                          {0, 20 * kPiece, 0},
                          {kPage, 3 * kPiece, 0},       // file and memory on page boundaries
                          {kPage, 3 * kPiece, 8},       // the memory is not
                          {511, 5 * kPiece + 3, 511},   // neither is, by the same part of a page
                          {4097, 5 * kPiece + 3, 100},  // nor by another
                          {7 * kPiece - 1, 2, 1},
                          {size_ - 5000, 5000, 0},
                          {12 * kPiece, 0, 0}};
  for (const bool from_disk : {false, true}) {
    const auto reader = open();
    for (const Range& range : ranges) {
      if (from_disk) forget(path_);
      std::memset(memory.data(), 0x5A, size_ + 2 * kPage);
      std::byte* to = memory.data() + kPage + range.shift;
      const auto result = reader->read_directly(range.offset, to, range.bytes);
      ASSERT_TRUE(result) << result.error().sentence;
      EXPECT_EQ(std::memcmp(to, bytes_.data() + range.offset, range.bytes), 0)
          << range.offset << " " << range.bytes << " " << range.shift;
      EXPECT_EQ(to[-1], std::byte{0x5A});
      EXPECT_EQ(to[range.bytes], std::byte{0x5A});
    }
  }
}

TEST_P(Reader, MixesWhatIsCachedWithWhatIsNot) {
  forget(path_);
  const Pages memory(size_);
  std::string some(3 * kPiece, '\0');
  ASSERT_TRUE(open()->read(5 * kPiece + 100, some.data(), some.size()));
  ASSERT_TRUE(open()->read_directly(0, memory.data(), size_));
  EXPECT_EQ(std::memcmp(memory.data(), bytes_.data(), size_), 0);
}

TEST_P(Reader, SeesWhatWasWrittenAndIsNotOnTheDiskYet) {
  forget(path_);
  const auto reader = open();
  const base::FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::pwrite(file.get(), "new", 3, 9 * kPiece), 3);
  const Pages memory(size_);
  ASSERT_TRUE(reader->read_directly(0, memory.data(), size_));
  EXPECT_EQ(std::memcmp(memory.data() + 9 * kPiece, "new", 3), 0);
}

// A file that is read once does not push others out of the cache.
TEST_P(Reader, LeavesTheCacheAsItWasWhereTheFileSystemCan) {
  const base::FileDescriptor direct(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  forget(path_);
  const uint64_t before = cached_pages(path_, size_);
  const Pages memory(size_);
  ASSERT_TRUE(open()->read_directly(0, memory.data(), size_));
  const uint64_t behind = cached_pages(path_, size_);
  if (GetParam() && direct && before == 0) {
    EXPECT_LT(behind, 4 * kPiece / kPage) << "the last part, and what the system reads ahead";
  } else {
    EXPECT_EQ(behind, (size_ + kPage - 1) / kPage);
  }
}

TEST_P(Reader, SaysWhereAFileEndsThatHasBecomeShorter) {
  const auto reader = open();
  ASSERT_EQ(::truncate(path_.c_str(), 4 * kPiece + 100), 0);
  forget(path_);
  const Pages memory(size_);
  const auto result = reader->read_directly(0, memory.data(), size_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, NRT_INVALID);
  EXPECT_THAT(result.error().sentence,
              HasSubstr("ends at byte 4194404 while it is read; it had " + std::to_string(size_)));
  EXPECT_TRUE(reader->read_directly(kPiece, memory.data(), 3 * kPiece)) << "a reader goes on";
  EXPECT_EQ(std::memcmp(memory.data(), bytes_.data() + kPiece, 3 * kPiece), 0);
}

TEST_P(Reader, RefusesMemoryThatCannotBeWritten) {
  forget(path_);
  const Pages memory(size_, PROT_READ);
  const auto result = open()->read_directly(0, memory.data(), size_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, NRT_FAILURE);
  EXPECT_THAT(result.error().sentence, HasSubstr("cannot be read at byte 0: Bad address"));
}

TEST_P(Reader, EndsAStreamWhereItsTakerFails) {
  const auto reader = open();
  unsigned taken = 0;
  const auto result =
      reader->stream(0, size_, [&](const std::byte*, uint64_t, uint64_t) -> Result<void> {
        if (++taken == 3) return fail(NRT_RESOURCE, "full");
        return {};
      });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, NRT_RESOURCE);
  EXPECT_EQ(taken, 3u);
  std::string text(size_, '\0');
  ASSERT_TRUE(reader->read(0, text.data(), size_)) << "the reads that were under way are over";
  EXPECT_EQ(text, bytes_);
}

}  // namespace
}  // namespace neuron::runtime
