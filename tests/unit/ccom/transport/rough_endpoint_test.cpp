// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/rough_endpoint.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

namespace neuron::ccom {
namespace {

constexpr uint64_t kTag = 42;

class Pair {
 public:
  explicit Pair(RoughManners manners = {}) {
    auto hub = std::make_shared<PacketHub>(2);
    for (Rank rank = 0; rank < 2; ++rank) {
      ends[rank] = *make_rough_endpoint(make_queue_link(hub, rank), manners);
      memory[rank].resize(1 << 20);
      registered[rank] = *ends[rank]->register_memory(memory[rank].data(), memory[rank].size());
    }
    for (auto& end : ends) {
      EXPECT_TRUE(end->introduce({ends[0]->address(), ends[1]->address()}));
    }
  }

  void send(uint64_t at, uint64_t bytes, uint64_t tag, FabricOperation& operation) {
    for (int i = 0; i < 1000; ++i) {
      const int error =
          ends[0]->send(1, memory[0].data() + at, bytes, registered[0], tag, 7, operation);
      if (error != -EAGAIN) {
        ASSERT_EQ(error, 0);
        return;
      }
      refused = true;
    }
    FAIL() << "refused for ever";
  }
  void receive(uint64_t at, uint64_t bytes, uint64_t tag, FabricOperation& operation) {
    for (int i = 0; i < 1000; ++i) {
      const int error =
          ends[1]->receive(0, memory[1].data() + at, bytes, registered[1], tag, 0, operation);
      if (error != -EAGAIN) {
        ASSERT_EQ(error, 0);
        return;
      }
    }
    FAIL() << "refused for ever";
  }
  // Completions of both ends, in order, until `count` have come.
  std::vector<FabricCompletion> run(size_t count) {
    std::vector<FabricCompletion> all;
    for (int i = 0; i < 100000 && all.size() < count; ++i) {
      for (auto& end : ends) {
        std::array<FabricCompletion, 4> some;
        const int got = end->poll(some);
        EXPECT_GE(got, 0) << end->failure().sentence;
        all.insert(all.end(), some.begin(), some.begin() + std::max(got, 0));
      }
    }
    return all;
  }

  std::array<std::unique_ptr<FabricEndpoint>, 2> ends;
  std::array<std::vector<std::byte>, 2> memory;
  std::array<FabricMemory, 2> registered{};
  bool refused = false;
};

TEST(RoughEndpoint, DeliversEveryByteOnceWhateverTheOrderOfPackets) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    RoughManners manners;
    manners.seed = seed;
    Pair pair(manners);
    for (size_t i = 0; i < pair.memory[0].size(); ++i) {
      pair.memory[0][i] = static_cast<std::byte>(i * 131 + i / 251);
    }
    std::array<FabricOperation, 6> operations;
    const std::array<uint64_t, 3> sizes{0, 8193, 300001};
    // The second is sent before it is expected, the third is longer than what is kept.
    pair.receive(0, sizes[0], kTag, operations[0]);
    for (uint64_t i = 0; i < 3; ++i) {
      pair.send(i * 8192, sizes[i], kTag + i, operations[3 + i]);
    }
    EXPECT_EQ(pair.run(2).size(), 2u);
    pair.receive(8192, sizes[1], kTag + 1, operations[1]);
    pair.receive(400000, sizes[2], kTag + 2, operations[2]);
    const auto rest = pair.run(4);
    ASSERT_EQ(rest.size(), 4u);
    for (const auto& completion : rest) {
      EXPECT_EQ(completion.error, 0);
      if (completion.receive) {
        EXPECT_EQ(completion.word, 7u);
        EXPECT_EQ(completion.bytes, sizes[completion.tag - kTag]);
      }
    }
    EXPECT_EQ(std::memcmp(pair.memory[1].data() + 8192, pair.memory[0].data() + 8192, 8193), 0);
    EXPECT_EQ(std::memcmp(pair.memory[1].data() + 400000, pair.memory[0].data() + 16384, 300001),
              0);
  }
}

TEST(RoughEndpoint, CompletesOutOfOrderAndRefusesAtTimes) {
  Pair pair;
  std::array<FabricOperation, 80> operations;
  for (uint64_t i = 0; i < 40; ++i) {
    pair.receive(i * 100, 100, kTag + i, operations[i]);
  }
  for (uint64_t i = 0; i < 40; ++i) {
    pair.send(i * 100, 100, kTag + i, operations[40 + i]);
  }
  const auto all = pair.run(80);
  ASSERT_EQ(all.size(), 80u);
  std::vector<uint64_t> order;
  for (const auto& completion : all) {
    if (completion.receive) {
      order.push_back(completion.tag);
    }
  }
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(std::set<uint64_t>(order.begin(), order.end()).size(), 40u);
  EXPECT_TRUE(pair.refused);
}

TEST(RoughEndpoint, IsTheSameForTheSameSeed) {
  const auto trace = [] {
    Pair pair;
    std::vector<FabricOperation> operations(40);
    for (uint64_t i = 0; i < 20; ++i) {
      pair.receive(i, 1, kTag + i, operations[i]);
      pair.send(i, 1, kTag + i, operations[20 + i]);
    }
    std::vector<uint64_t> order;
    for (const auto& completion : pair.run(40)) {
      order.push_back(completion.tag);
    }
    return order;
  };
  EXPECT_EQ(trace(), trace());
}

TEST(RoughEndpoint, LosesTheEndpointWhenCompletionsOverrun) {
  RoughManners manners;
  manners.completion_queue = 4;
  manners.refuse_one_in = 0;
  manners.completion_delay = 1000;
  Pair pair(manners);
  std::array<FabricOperation, 20> operations;
  for (uint64_t i = 0; i < 10; ++i) {
    pair.receive(i, 1, kTag, operations[i]);
    pair.send(i, 1, kTag, operations[10 + i]);
  }
  int lost = 0;
  std::array<FabricCompletion, 1> one;
  for (int i = 0; i < 200 && lost >= 0; ++i) {
    pair.ends[0]->poll(one);
    lost = pair.ends[1]->poll(one);
  }
  EXPECT_EQ(lost, -EOVERFLOW);
  EXPECT_NE(pair.ends[1]->failure().sentence.find("overran"), std::string::npos);
}

TEST(RoughEndpoint, RefusesMemoryThatWasNotRegistered) {
  RoughManners manners;
  manners.refuse_one_in = 0;
  Pair pair(manners);
  std::byte other{};
  FabricOperation operation;
  EXPECT_EQ(pair.ends[0]->send(1, &other, 1, nullptr, kTag, 0, operation), -EFAULT);
  EXPECT_EQ(pair.ends[0]->receive(1, &other, 1, pair.registered[0], kTag, 0, operation), -EFAULT);
}

TEST(RoughEndpoint, ReportsAMessageThatIsTooLongForItsPlace) {
  Pair pair;
  FabricOperation receive, send;
  pair.receive(0, 10, kTag, receive);
  pair.send(0, 20, kTag, send);
  const auto all = pair.run(1);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].error, EMSGSIZE);
  EXPECT_EQ(all[0].bytes, 20u);
}

TEST(RoughEndpoint, SurvivesPacketsOfAnyContent) {
  auto hub = std::make_shared<PacketHub>(2);
  auto end = *make_rough_endpoint(make_queue_link(hub, 0), {});
  ASSERT_TRUE(end->introduce({end->address(), std::vector<std::byte>(1)}));
  std::vector<std::byte> packet(64);
  uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    for (auto& byte : packet) {
      state = state * 6364136223846793005 + 1442695040888963407;
      byte = static_cast<std::byte>(state >> 56);
    }
    // Half of them look like data of rank 1.
    const std::array<uint32_t, 2> head{0x52474831u + i % 3, 1};
    if (i % 2 == 0) {
      std::memcpy(packet.data(), head.data(), sizeof head);
      const std::array<uint64_t, 2> body{static_cast<uint64_t>(i % 5),
                                         static_cast<uint64_t>(i % 90)};
      std::memcpy(packet.data() + 8, body.data(), sizeof body);
      std::memset(packet.data() + 32, 0, 4);
    }
    hub->put(0, std::span(packet).first(static_cast<size_t>(state % 65)));
    std::array<FabricCompletion, 4> some;
    EXPECT_GE(end->poll(some), 0);
  }
}

}  // namespace
}  // namespace neuron::ccom
