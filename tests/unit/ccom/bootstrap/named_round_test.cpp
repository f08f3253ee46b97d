// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/named_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

namespace neuron::ccom {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

// Two ranks of this process, each with its work on a thread.
void between_two(const std::function<void(Bootstrap&, Rank)>& work) {
  auto ranks = Bootstrap::join_all(2);
  ASSERT_TRUE(ranks);
  std::thread other([&] { work(*(*ranks)[1], 1); });
  work(*(*ranks)[0], 0);
  other.join();
}

std::string said(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(NamedRounds, GiveWhatEachRankSaysWithoutTheName) {
  between_two([](Bootstrap& bootstrap, Rank rank) {
    const std::string mine = rank == 0 ? "" : std::string("a\0b", 3);
    const auto all =
        gather_at("call", bootstrap, ccom::bytes_of(mine), base::Deadline::after(seconds(20)));
    ASSERT_TRUE(all) << all.error().sentence;
    EXPECT_EQ(said((*all)[0]), "");
    EXPECT_EQ(said((*all)[1]), std::string("a\0b", 3));
  });
}

TEST(NamedRounds, OfDifferentCallsAreToldToBothWithWhatBothSay) {
  // A call whose name begins with another's is another call, and so is one that says nothing.
  const std::pair<std::string, std::string> calls[] = {
      {"ccom_split", "ccom_suspend"}, {"ccom_window_open", "ccom_window_open, opened"}, {"a", ""}};
  for (const auto& call : calls) {
    const std::string &first = call.first, &second = call.second;
    between_two([&](Bootstrap& bootstrap, Rank rank) {
      const auto all = gather_at(rank == 0 ? first : second, bootstrap,
                                 ccom::bytes_of(std::string_view("\x01\n\0x", 4)),
                                 base::Deadline::after(seconds(20)));
      ASSERT_FALSE(all);
      EXPECT_EQ(all.error().status, CCOM_MISMATCH);
      EXPECT_THAT(all.error().sentence, HasSubstr("rank 0 (host "));
      EXPECT_THAT(all.error().sentence, HasSubstr("rank 1 (host "));
      EXPECT_THAT(all.error().sentence, HasSubstr("says \"" + first + ": ???x\""));
      EXPECT_THAT(all.error().sentence, HasSubstr("says \"" + second + ": ???x\""));
    });
  }
}

TEST(NamedRounds, ShowOnlyWhatATerminalShows) {
  EXPECT_EQ(printable(ccom::bytes_of("größe \x1b[2J\x7f\xff\xc2\x85z")), "größe ?[2J???z");
  EXPECT_EQ(printable(ccom::bytes_of(std::string(5000, 'x'))), std::string(400, 'x') + "...");
}

}  // namespace
}  // namespace neuron::ccom
