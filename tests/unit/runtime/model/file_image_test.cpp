// SPDX-License-Identifier: Apache-2.0
// Files as memory with holes, read with and without a ring.
#include "runtime/model/file_image.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/support/files.h"

namespace neuron::runtime {
namespace {

constexpr uint64_t kHeader = 1024;

// A ustar header without what the image does not look at.
std::string member(const std::string& name, uint64_t size, char type = '0') {
  std::string block(512, '\0');
  name.copy(block.data(), 100);
  std::snprintf(&block[124], 12, "%011llo", static_cast<unsigned long long>(size));
  block[156] = type;
  return block;
}

std::string contents(uint64_t size, unsigned seed) {
  std::string bytes((size + 511) / 512 * 512, '\0');
  for (uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 4096 + seed + 1);
  return bytes;
}

std::string neff_of(const std::string& archive) {
  neff::Header header;
  header.data_size = archive.size();
  const auto bytes = neff::encode_header(header);
  return std::string(bytes.begin(), bytes.end()) + archive;
}

class Image : public ::testing::TestWithParam<bool> {
 protected:
  std::string write(const std::string& bytes) { return folder_.write("file", bytes); }
  // All bytes, those in holes streamed.
  static std::string all(const FileImage& image) {
    const neff::Bytes bytes = image.bytes();
    std::string text(bytes.begin(), bytes.end());
    for (const auto& [offset, length] : image.holes()) {
      uint64_t next = 0;
      const auto streamed =
          image.stream(bytes.subspan(offset, length),
                       [&, start = offset](const std::byte* piece, uint64_t at, uint64_t size) {
                         EXPECT_EQ(at, next);
                         next = at + size;
                         std::memcpy(&text[start + at], piece, size);
                         return Result<void>();
                       });
      EXPECT_TRUE(streamed);
      EXPECT_EQ(next, length);
    }
    return text;
  }
  const test::Folder folder_;
};

INSTANTIATE_TEST_SUITE_P(RingOrNot, Image, ::testing::Bool());

TEST_P(Image, LeavesLargeArraysInTheFile) {
  const std::string file =
      neff_of(member("sg00", 0, '5') + member("sg00/a.npy", 7'000'001) + contents(7'000'001, 1) +
              member("def.json", 2'000'000) + contents(2'000'000, 2) +
              member("sg00/b.npy", 1 << 20) + contents(1 << 20, 3) +
              member("sg00/small.npy", 1000) + contents(1000, 4) + std::string(1024, '\0'));
  const auto image = FileImage::open(write(file), false, GetParam());
  ASSERT_TRUE(image);
  EXPECT_EQ(image->holes().size(), 2u);
  EXPECT_EQ(image->bytes().size(), file.size());
  EXPECT_FALSE(std::equal(file.begin(), file.end(), image->bytes().begin(),
                          [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }));
  EXPECT_TRUE(all(*image) == file);
  EXPECT_TRUE(image->in_hole(image->bytes().subspan(1'000'000, 100)));
  EXPECT_FALSE(image->in_hole(image->bytes().first(kHeader + 1024)));
}

TEST_P(Image, HasNoHolesWhereAnArchiveIsNotPlain) {
  const std::string array = member("a.npy", 4 << 20) + contents(4 << 20, 1);
  std::string negative = member("a.npy", 4 << 20);
  negative[124] = '\x80';
  for (const std::string& archive :
       {member("x", 100, 'x') + contents(100, 1) + array, "\x1f\x8b" + std::string(3 << 20, 'x'),
        negative + contents(4 << 20, 1), member("a.npy", 100 << 20) + contents(4 << 20, 1),
        std::string("short")}) {
    const std::string file = neff_of(archive);
    const auto image = FileImage::open(write(file), false, GetParam());
    ASSERT_TRUE(image);
    EXPECT_TRUE(image->holes().empty());
    EXPECT_TRUE(all(*image) == file);
  }
  const auto whole = FileImage::open(write(neff_of(array)), true, GetParam());
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->holes().empty());
  EXPECT_TRUE(all(*whole) == neff_of(array));
}

TEST_P(Image, NoticesAFileThatHasBecomeShorter) {
  const std::string path = write(neff_of(member("a.npy", 5 << 20) + contents(5 << 20, 1)));
  const auto image = FileImage::open(path, false, GetParam());
  ASSERT_TRUE(image);
  ASSERT_EQ(image->holes().size(), 1u);
  std::filesystem::resize_file(path, 3 << 20);
  const auto [offset, length] = image->holes()[0];
  uint64_t taken = 0;
  const auto part = image->bytes().subspan(offset, length);
  const auto take = [&](const std::byte*, uint64_t, uint64_t size) {
    taken += size;
    return Result<void>();
  };
  const auto cut = image->stream(part, take);
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().sentence.find("ends at byte 3145728"), std::string::npos)
      << cut.error().sentence;
  EXPECT_LT(taken, length);
  // The reader goes on working.
  EXPECT_TRUE(image->stream(part.first(1 << 20), take));
}

TEST_P(Image, StopsWhenTheReceiverFails) {
  const std::string file = neff_of(member("a.npy", 9 << 20) + contents(9 << 20, 1));
  const std::string path = write(file);
  const auto image = FileImage::open(path, false, GetParam());
  ASSERT_TRUE(image);
  const auto [offset, length] = image->holes()[0];
  int calls = 0;
  const auto stopped =
      image->stream(image->bytes().subspan(offset, length),
                    [&](const std::byte*, uint64_t, uint64_t) -> Result<void> {
                      return ++calls == 2 ? Result<void>(fail(NRT_HW_ERROR, "the device is gone"))
                                          : Result<void>();
                    });
  EXPECT_FALSE(stopped);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(all(*image) == file);
}

}  // namespace
}  // namespace neuron::runtime
