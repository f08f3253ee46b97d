// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/access_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/support/files.h"

namespace neuron::serve {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr Access kAccess{.peer = "127.0.0.1:4711",
                         .method = "POST",
                         .target = "/v1/models/digits/infer",
                         .status = 200,
                         .bytes_in = 256,
                         .bytes_out = 140,
                         .time = std::chrono::microseconds(812)};

auto lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(AccessLog, HasALineForEachRequest) {
  const test::Folder folder;
  AccessLog log;
  std::string error;
  EXPECT_FALSE(log.enabled());
  ASSERT_TRUE(log.open(folder.path("log"), error)) << error;
  log.add(kAccess);
  log.add(kAccess);
  log.flush();
  const std::string text = folder.read("log");
  EXPECT_EQ(lines(text), 2);
  EXPECT_THAT(text.substr(0, text.find('\n')),
              MatchesRegex("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}.[0-9]{3}Z 127.0.0.1:4711 POST "
                           "/v1/models/digits/infer 200 256 140 812us"));
}

TEST(AccessLog, HasNoControlCharactersWhateverClientsSend) {
  const test::Folder folder;
  AccessLog log;
  std::string error, all = "/";
  ASSERT_TRUE(log.open(folder.path("log"), error)) << error;
  for (int c = 0; c < 256; ++c) {
    Access access = kAccess;
    const std::string target = {'/', static_cast<char>(c), 'x'};
    access.target = access.method = target;
    log.add(access);
    all += static_cast<char>(c);
  }
  Access access = kAccess;
  access.target = all;
  log.add(access);
  log.flush();
  const std::string text = folder.read("log");
  EXPECT_EQ(lines(text), 257);
  for (const char c : text) {
    EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F)) << int{c};
  }
  EXPECT_THAT(text, HasSubstr("/\\x0ax"));
}

TEST(AccessLog, CutsTextOffThatIsLongAndHasADashForNone) {
  const test::Folder folder;
  AccessLog log;
  std::string error;
  ASSERT_TRUE(log.open(folder.path("log"), error)) << error;
  const std::string path(100'000, 'x');
  Access access = kAccess;
  access.target = path;
  access.method = "";
  log.add(access);
  log.flush();
  EXPECT_LT(folder.read("log").size(), 400u);
  EXPECT_THAT(folder.read("log"), HasSubstr("4711 - x"));
}

TEST(AccessLog, WaitsForNoReaderAndCountsWhatItDropped) {
  const test::Folder folder;
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  const base::FileDescriptor reader(::open(folder.path("fifo").c_str(), O_RDONLY | O_NONBLOCK));
  AccessLog log;
  std::string error;
  ASSERT_TRUE(log.open(folder.path("fifo"), error)) << error;
  constexpr int kLines = 20'000;
  for (int i = 0; i < kLines; ++i) {
    log.add(kAccess);
    log.flush();
  }
  EXPECT_GT(log.dropped(), 0u);
  // What was not dropped comes as whole lines.
  std::string text;
  char piece[65536];
  for (ssize_t length = 0; (length = ::read(reader.get(), piece, sizeof(piece))) > 0; log.flush()) {
    text.append(piece, static_cast<size_t>(length));
  }
  EXPECT_EQ(static_cast<uint64_t>(lines(text)) + log.dropped(), kLines);
  EXPECT_THAT(text, EndsWith(" 812us\n"));
}

TEST(AccessLog, GoesOnInANewFileWhenTheOldOneWasRenamed) {
  const test::Folder folder;
  AccessLog log;
  std::string error;
  ASSERT_TRUE(log.open(folder.path("log"), error)) << error;
  log.add(kAccess);
  ASSERT_EQ(::rename(folder.path("log").c_str(), folder.path("old").c_str()), 0);
  ASSERT_TRUE(log.open(folder.path("log"), error)) << error;
  log.add(kAccess);
  log.add(kAccess);
  log.flush();
  EXPECT_EQ(lines(folder.read("old")), 1);
  EXPECT_EQ(lines(folder.read("log")), 2);
  EXPECT_FALSE(log.open(folder.path("no/such/folder"), error));
  EXPECT_THAT(error, HasSubstr("cannot be opened"));
}

}  // namespace
}  // namespace neuron::serve
