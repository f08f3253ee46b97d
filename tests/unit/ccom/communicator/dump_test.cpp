// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ccom/transport/arena_layout.h"

namespace neuron::ccom {
namespace {

// One rank on a host whose name nobody else has.
class NamedHost final : public Bootstrap {
 public:
  explicit NamedHost(std::string host) : members_(1) { members_[0].host = std::move(host); }
  Rank rank() const override { return 0; }
  const std::vector<Member>& members() const override { return members_; }
  uint64_t capabilities() const override { return 0; }
  Result<std::vector<Bytes>> all_gather(std::span<const std::byte>, base::Deadline) override {
    return std::vector<Bytes>(1);
  }
  Result<std::vector<int>> exchange_descriptors(int, base::Deadline) override {
    return std::vector<int>(1, -1);
  }
  void on_failure(std::function<void(Rank, const Error&)>) override {}
  void abort(const Error&) override {}
  void tell(NoticeAbout, uint64_t, const std::string&) override {}
  std::optional<Notice> told(NoticeAbout, uint64_t) const override { return std::nullopt; }
  std::vector<Rank> dead() const override { return {}; }
  Result<std::unique_ptr<Bootstrap>> regroup(const std::vector<Rank>&, base::Deadline) override {
    return fail(CCOM_UNSUPPORTED, "one rank stays alone");
  }

 private:
  std::vector<Member> members_;
};

struct Dumped {
  explicit Dumped(const std::string& host, const std::string& path = "") : bootstrap(host) {
    auto arena = Arena::create(ArenaLayout::of(1).heap + (2u << 20));
    EXPECT_TRUE(arena) << arena.error().sentence;
    memory.emplace(std::vector<std::shared_ptr<Arena>>{std::move(*arena)}, 0);
    recorder.emplace(memory->flight(0));
    dump.emplace(bootstrap, *memory, *recorder, failure, path);
  }

  NamedHost bootstrap;
  FirstFailure failure;
  std::optional<SharedMemory> memory;
  std::optional<FlightRecorder> recorder;
  std::optional<FlightDump> dump;
};

TEST(FlightDump, WritesHostNamesAndPathsInUtf8AsTheyAre) {
  const std::string host = "größe-主机";
  Dumped dumped(host);
  dumped.failure.note(fail(CCOM_SYSTEM, "cannot open /tmp/ключ \"x\""));
  const std::string text = dumped.dump->json();
  EXPECT_NE(text.find('"' + host + '"'), std::string::npos) << text;
  const auto document = boost::json::parse(text).as_object();
  EXPECT_EQ(document.at("host").as_string(), host);
  EXPECT_EQ(document.at("members").as_array().at(0).as_object().at("host").as_string(), host);
  EXPECT_EQ(document.at("sentence").as_string(), "cannot open /tmp/ключ \"x\"");
}

TEST(FlightDump, StaysUtf8WhenAHostNameIsNot) {
  const auto document = boost::json::parse(Dumped("a\xff\x01z").dump->json()).as_object();
  EXPECT_EQ(document.at("host").as_string(), "a\xEF\xBF\xBD\x01z");
}

// The texts of the files of a folder, which are removed.
std::vector<std::string> take_files(const std::filesystem::path& folder) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    std::filesystem::remove(entry.path());
  }
  return texts;
}

TEST(FlightDump, IsWrittenOnceAfterAFailureIntoAFolderWithAnyName) {
  char made[] = "/tmp/ccom-dump-XXXXXX";
  ASSERT_NE(mkdtemp(made), nullptr);
  const std::filesystem::path folder = std::filesystem::path(made) / "журнал";
  std::filesystem::create_directory(folder);
  Dumped dumped("here", folder);
  dumped.dump->after_failure();
  EXPECT_TRUE(take_files(folder).empty()) << "nothing has failed";
  dumped.failure.note(fail(CCOM_RANK_DEAD, "the first"));
  dumped.failure.note(fail(CCOM_ABORTED, "the second"));
  dumped.dump->after_failure();
  const std::vector<std::string> texts = take_files(folder);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(boost::json::parse(texts[0]).as_object().at("sentence").as_string(), "the first");
  dumped.dump->after_failure();
  EXPECT_TRUE(take_files(folder).empty()) << "it was written a second time";
  std::filesystem::remove_all(made);
}

// The names of what a failure leaves in a new folder, when the dump goes to `path` in it; the
// process has `communicators` of rank 0.
std::vector<std::string> names_after_failures(const std::string& path, int communicators,
                                              bool with_file = false) {
  char made[] = "/tmp/ccom-dump-XXXXXX";
  EXPECT_NE(mkdtemp(made), nullptr);
  const std::filesystem::path folder(made);
  if (with_file) std::ofstream(folder / path) << "of another";
  for (int i = 0; i < communicators; ++i) {
    Dumped dumped("here", folder / path);
    dumped.failure.note(fail(CCOM_RANK_DEAD, "a failure"));
    dumped.dump->after_failure();
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(folder));
  }
  std::sort(names.begin(), names.end());
  std::filesystem::remove_all(folder);
  return names;
}

TEST(FlightDump, OfEachRankHasAPlaceOfItsOwnAlsoInAFolderThatIsMissing) {
  using testing::AllOf;
  using testing::EndsWith;
  using testing::StartsWith;
  const std::string own = std::string("0-") + std::to_string(getpid());
  for (const std::string folder : {"dumps", "dumps/", "deep/dumps"}) {
    const std::string inside = folder.ends_with('/') ? folder : folder + "/";
    EXPECT_THAT(names_after_failures(folder, 2),
                testing::Each(AllOf(StartsWith(inside + "ccom-" + own), EndsWith(".json"))));
    EXPECT_EQ(names_after_failures(folder, 2).size(), 2u) << folder;
  }
  const auto files = names_after_failures("failure.json", 2);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_THAT(files, testing::Each(AllOf(StartsWith("failure-" + own), EndsWith(".json"))));
  const auto beside = names_after_failures("taken", 1, true);
  ASSERT_EQ(beside.size(), 2u) << "a file is where the folder should be";
  EXPECT_EQ(beside[0], "taken");
  EXPECT_THAT(beside[1], StartsWith("taken-" + own));
}

}  // namespace
}  // namespace neuron::ccom
