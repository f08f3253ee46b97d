// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/members.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

namespace neuron::ccom {
namespace {

// What rank 0 and rank 1 say when rank 1 has other settings.
std::string disagreement(const std::function<void(Settings&)>& change) {
  auto ranks = Bootstrap::join_all(2);
  EXPECT_TRUE(ranks) << ranks.error().sentence;
  Settings settings[2];
  change(settings[1]);
  std::string sentences[2];
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto agreed = agree(*(*ranks)[rank], settings[rank],
                                base::Deadline::after(std::chrono::milliseconds(10000)));
      sentences[rank] = agreed ? "" : agreed.error().sentence;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(sentences[0], sentences[1]);
  return sentences[0];
}

TEST(Members, AgreeWhenTheirSettingsAreTheSame) {
  EXPECT_EQ(disagreement([](Settings&) {}), "");
}

TEST(Members, NameWhatWasSetDifferently) {
  const auto says = [](const std::string& sentence, const char* word) {
    return sentence.find(word) != std::string::npos;
  };
  EXPECT_TRUE(says(disagreement([](Settings& s) { s.rank_order = false; }), "order=fast"));
  EXPECT_TRUE(says(disagreement([](Settings& s) { s.algorithm = "ring"; }), "ALGORITHM=ring"));
  // Ranks with other prices would choose other algorithms.
  const std::string prices = disagreement([](Settings& s) { s.calibration = "step_ps=5"; });
  EXPECT_TRUE(says(prices, "CCOM_CALIBRATION: built-in")) << prices;
  EXPECT_TRUE(says(prices, "CCOM_CALIBRATION: step_ps=5")) << prices;
  // A rank without heartbeats would be taken for dead by one that listens for them.
  EXPECT_TRUE(says(disagreement([](Settings& s) { s.heartbeat = std::chrono::milliseconds(0); }),
                   "CCOM_HEARTBEAT_MS=0"));
}

}  // namespace
}  // namespace neuron::ccom
