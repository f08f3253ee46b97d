// SPDX-License-Identifier: Apache-2.0
// Recordings on good and bad files.
#include "tools/neuron-top/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/files.h"
#include "tests/unit/tools/neuron-top/snapshots.h"

namespace neuron::top {
namespace {

using ::testing::HasSubstr;

class TopRecording : public ::testing::Test {
 protected:
  void record(int count) {
    Recorder recorder;
    ASSERT_EQ(recorder.open(path_), "");
    for (int i = 0; i < count; ++i) ASSERT_EQ(recorder.add(busy_host(10 + i)), "");
  }
  const test::Folder temporary_;
  const std::string folder_ = temporary_.path(), path_ = temporary_.path("file");
  Replay replay_;
  Snapshot snapshot_;
  std::string error_;
};

TEST_F(TopRecording, GivesBackEachSnapshotInAnyOrder) {
  record(3);
  ASSERT_EQ(replay_.open(path_), "");
  ASSERT_EQ(replay_.size(), 3u);
  for (const unsigned index : {2u, 0u, 1u}) {
    ASSERT_TRUE(replay_.read(index, snapshot_, error_)) << error_;
    EXPECT_EQ(snapshot_.monotonic, busy_host(10 + index).monotonic);
    EXPECT_EQ(snapshot_.processes.size(), 2u);
  }
  EXPECT_FALSE(replay_.read(3, snapshot_, error_));
  EXPECT_THAT(error_, HasSubstr("record 4 cannot be read"));
}

TEST_F(TopRecording, ShowsTheWholeRecordsOfAFileThatIsCut) {
  record(2);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 100);
  ASSERT_EQ(replay_.open(path_), "");
  ASSERT_EQ(replay_.size(), 2u);
  EXPECT_TRUE(replay_.read(0, snapshot_, error_)) << error_;
  EXPECT_FALSE(replay_.read(1, snapshot_, error_));
  EXPECT_THAT(error_, HasSubstr("file: record 2: no JSON"));
}

TEST_F(TopRecording, RefusesWhatIsNoRecording) {
  EXPECT_THAT(replay_.open(folder_ + "/none"), HasSubstr("No such file"));
  EXPECT_THAT(Replay().open(folder_), HasSubstr("it is a directory"));
  EXPECT_THAT(Replay().open("/dev/zero"), HasSubstr("no regular file"));
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Replay().open(folder_ + "/pipe"), HasSubstr("no regular file"));
  test::write_file(path_, "");
  EXPECT_THAT(Replay().open(path_), HasSubstr("there is no record in it"));
  test::write_file(path_, "hello\n");
  EXPECT_THAT(Replay().open(path_), HasSubstr("record 1: no JSON"));
  test::write_file(path_, std::string(100'000, '\0'));
  EXPECT_NE(Replay().open(path_), "");
}

TEST_F(TopRecording, EndsWithASentenceWhenTheDiskIsFull) {
  Recorder recorder;
  ASSERT_EQ(recorder.open("/dev/full"), "");
  const std::string error = recorder.add(busy_host(10));
  EXPECT_THAT(error, HasSubstr("the recording in /dev/full has ended: No space left on device"));
  EXPECT_EQ(recorder.add(busy_host(11)), "");
}

TEST_F(TopRecording, CannotBeginWhereThereIsNoFolder) {
  EXPECT_THAT(Recorder().open(folder_ + "/no/file"), HasSubstr("No such file"));
}

}  // namespace
}  // namespace neuron::top
