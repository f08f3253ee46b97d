// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/network_port.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "ccom/transport/fabric_connection.h"
#include "tests/unit/ccom/transport/scripted_endpoint.h"

namespace neuron::ccom {
namespace {

constexpr uint64_t kBig = NetworkPort::kEagerBytes + 1;

class NetworkPortTest : public testing::Test {
 protected:
  NetworkPortTest() {
    auto endpoint = std::make_unique<ScriptedEndpoint>();
    script = endpoint.get();
    auto opened = NetworkPort::open(0, std::move(endpoint), std::vector<std::vector<std::byte>>(3),
                                    std::vector<PortKey>(3));
    EXPECT_TRUE(opened);
    port = std::move(*opened);
    signature.operation = 5;
    signature.count = 12;
    signature.stream = 1;
    port->expect(signature);
  }

  MessageId id(uint64_t number, uint64_t operation = 5) const { return {1, 3, operation, number}; }
  FabricTag from_one(FabricKind kind, uint64_t number, uint64_t grants = 0) const {
    return {kind, 1, 1, 3, number, grants};
  }
  bool deliver(const FabricTag& tag, std::span<const std::byte> data) {
    return script->deliver_of_job(tag, signature_hash(signature), data);
  }

  Signature signature;
  ScriptedEndpoint* script = nullptr;
  std::unique_ptr<NetworkPort> port;
  std::vector<std::byte> place = std::vector<std::byte>(2 * kBig);
  std::vector<std::byte> data = std::vector<std::byte>(2 * kBig, std::byte{7});
  Arrival arrival;
  uint64_t granted = 0;
};

TEST(FabricTag, KeepsEveryField) {
  const FabricTag tag{FabricKind::kControl, FabricTag::kRanks - 1, 3, 1023, 65535, 4095};
  const FabricTag back = FabricTag::decode(tag.encode());
  EXPECT_EQ(back.kind, tag.kind);
  EXPECT_EQ(back.sender, tag.sender);
  EXPECT_EQ(back.stream, 3);
  EXPECT_EQ(back.channel, 1023);
  EXPECT_EQ(back.number, 65535u);
  EXPECT_EQ(back.grants, 4095u);
  // Bit 63 is the provider's; bulk messages are not of the pool.
  EXPECT_EQ(tag.encode() >> 63, 0u);
  EXPECT_NE(tag.encode() & FabricTag::kPool, 0u);
  EXPECT_EQ((FabricTag{FabricKind::kBulk, 1, 3, 9, 9, 9}.encode() & FabricTag::kPool), 0u);
}

TEST(FabricTag, WidensACounterToTheNearest) {
  EXPECT_EQ(widen(2, 0xff, 0x1fe), 0x202u);
  EXPECT_EQ(widen(0xfe, 0xff, 0x201), 0x1feu);
  EXPECT_EQ(widen(0x10, 0xff, 0x110), 0x110u);
  EXPECT_EQ(widen(3, 0xff, 0), 3u);
}

TEST_F(NetworkPortTest, SendsNoMoreThanTheWindowBeforeTheFirstGrant) {
  FabricConnection& connection = port->connection(1);
  for (uint64_t i = 0; i < NetworkPort::kInitialWindow; ++i) {
    ASSERT_EQ(connection.send(id(i), data.data(), 8, signature), Outcome::kDone);
  }
  const uint64_t next = NetworkPort::kInitialWindow;
  EXPECT_EQ(connection.send(id(next), data.data(), 8, signature), Outcome::kNotYet);
  ASSERT_TRUE(deliver(from_one(FabricKind::kGrant, 0, 1), {}));
  EXPECT_EQ(port->progress(), Outcome::kDone);
  EXPECT_EQ(connection.send(id(next), data.data(), 8, signature), Outcome::kDone);
  EXPECT_EQ(connection.send(id(next + 1), data.data(), 8, signature), Outcome::kNotYet);
}

TEST_F(NetworkPortTest, TellsGrantsWhenHalfTheWindowIsUntold) {
  FabricConnection& connection = port->connection(1);
  const uint64_t half = NetworkPort::kInitialWindow / 2;
  for (uint64_t i = 0; i < half; ++i) {
    EXPECT_TRUE(script->sent.empty());
    ASSERT_EQ(connection.grant(id(i), place.data(), 8), Outcome::kDone);
    port->progress();
  }
  ASSERT_EQ(script->sent.size(), 1u);
  const FabricTag tag = FabricTag::decode(script->sent[0].tag);
  EXPECT_EQ(tag.kind, FabricKind::kGrant);
  EXPECT_EQ(tag.grants, half);
  EXPECT_EQ(tag.channel, 3);
}

TEST_F(NetworkPortTest, NeedsToTellNoGrantsToAPeerThatHasLeft) {
  for (const int refusal : {-ESHUTDOWN, -ECONNRESET}) {
    FabricConnection& connection = port->connection(1);
    ASSERT_TRUE(connection.failure().sentence.empty());
    script->refusal = refusal;
    const uint64_t half = NetworkPort::kInitialWindow / 2;
    for (uint64_t i = 0; i < half; ++i) {
      const uint64_t number = granted++;
      ASSERT_EQ(connection.grant(id(number), place.data(), 8), Outcome::kDone);
    }
    port->progress();
    EXPECT_EQ(connection.failure().sentence.empty(), refusal == -ESHUTDOWN);
  }
}

TEST_F(NetworkPortTest, TakesAShortMessageThatComesBeforeItsGrant) {
  ASSERT_TRUE(deliver(from_one(FabricKind::kEager, 1), std::span(data).first(16)));
  ASSERT_TRUE(deliver(from_one(FabricKind::kEager, 0), std::span(data).first(8)));
  port->progress();
  FabricConnection& connection = port->connection(1);
  EXPECT_EQ(connection.arrived(id(0), arrival), Outcome::kNotYet);
  ASSERT_EQ(connection.grant(id(0), place.data(), 8), Outcome::kDone);
  ASSERT_EQ(connection.grant(id(1), place.data() + 8, 16), Outcome::kDone);
  ASSERT_EQ(connection.arrived(id(0), arrival), Outcome::kDone);
  EXPECT_EQ(arrival.data, place.data());
  connection.consumed(id(0));
  ASSERT_EQ(connection.arrived(id(1), arrival), Outcome::kDone);
  EXPECT_EQ(arrival.bytes, 16u);
  EXPECT_EQ(place[23], std::byte{7});
  EXPECT_EQ(place[24], std::byte{0});
}

// Whoever reaches the port knows tags and signatures, but no key.
TEST_F(NetworkPortTest, DropsMessagesWithoutThePassOfTheirSender) {
  FabricConnection& connection = port->connection(1);
  ASSERT_EQ(connection.grant(id(0), place.data(), 8), Outcome::kDone);
  const uint64_t eager = from_one(FabricKind::kEager, 0).encode();
  const uint64_t grant = from_one(FabricKind::kGrant, 0, 9).encode();
  const PortPass of_two = pass_of(PortKey{}, 2);
  PortKey guessed{};
  guessed[15] = std::byte{1};
  const PortPass of_another_key = pass_of(guessed, 1);
  std::vector<std::byte> of_stranger(PortPass::kBytes + 8, std::byte{9});
  const auto shows = [&](const PortPass& pass) {
    std::vector<std::byte> message = of_stranger;
    std::copy(pass.pass.begin(), pass.pass.end(), message.begin());
    return message;
  };
  const std::vector<std::byte> messages[] = {
      of_stranger, shows(of_two), shows(of_another_key), {}, std::vector<std::byte>(7)};
  for (const auto& message : messages) {
    for (const uint64_t tag : {eager, grant, from_one(FabricKind::kControl, 0).encode()}) {
      ASSERT_TRUE(script->deliver(tag, signature_hash(signature), message));
      port->progress();
    }
  }
  EXPECT_EQ(connection.arrived(id(0), arrival), Outcome::kNotYet);
  EXPECT_EQ(place[0], std::byte{0});
  for (uint64_t i = 0; i < NetworkPort::kInitialWindow; ++i) {
    ASSERT_EQ(connection.send(id(i), data.data(), 8, signature), Outcome::kDone);
  }
  EXPECT_EQ(connection.send(id(NetworkPort::kInitialWindow), data.data(), 8, signature),
            Outcome::kNotYet)
      << "a grant of a stranger counted";
  // The rank's own message is taken as if nothing had been.
  ASSERT_TRUE(deliver(from_one(FabricKind::kEager, 0), std::span(data).first(8)));
  port->progress();
  EXPECT_EQ(connection.arrived(id(0), arrival), Outcome::kDone);
  EXPECT_EQ(place[0], std::byte{7});
}

// A long message goes straight to its place; its word shows whether a rank has sent it.
TEST_F(NetworkPortTest, ALongMessageOfAStrangerIsNotTakenForThatOfARank) {
  FabricConnection& connection = port->connection(1);
  ASSERT_EQ(connection.grant(id(0), place.data(), kBig), Outcome::kDone);
  ASSERT_TRUE(script->deliver(from_one(FabricKind::kBulk, 0).encode(), signature_hash(signature),
                              std::span(data).first(kBig)));
  port->progress();
  EXPECT_EQ(connection.arrived(id(0), arrival), Outcome::kFailed);
  EXPECT_EQ(connection.failure().status, CCOM_MISMATCH);
}

TEST(PortPass, DiffersForEachSenderAndKey) {
  const PortKey key = *new_port_key(), other = *new_port_key();
  EXPECT_NE(key, other);
  EXPECT_EQ(pass_of(key, 3).pass, pass_of(key, 3).pass);
  EXPECT_NE(pass_of(key, 3).pass, pass_of(key, 4).pass);
  EXPECT_NE(pass_of(key, 3).pass, pass_of(other, 3).pass);
  EXPECT_NE(pass_of(key, 3).mask, pass_of(other, 3).mask);
}

TEST_F(NetworkPortTest, LetsALongMessageGoStraightToItsPlace) {
  FabricConnection& connection = port->connection(1);
  ASSERT_EQ(connection.grant(id(0), place.data(), kBig), Outcome::kDone);
  EXPECT_EQ(script->posted.back().data, place.data());
  EXPECT_FALSE(deliver(from_one(FabricKind::kBulk, 1), std::span(data).first(kBig)));
  ASSERT_TRUE(deliver(from_one(FabricKind::kBulk, 0, 9), std::span(data).first(kBig)));
  port->progress();
  ASSERT_EQ(connection.arrived(id(0), arrival), Outcome::kDone);
  EXPECT_EQ(arrival.data, place.data());
  EXPECT_EQ(arrival.bytes, kBig);
}

TEST_F(NetworkPortTest, SaysSentWhenTheProviderIsDoneWithTheSource) {
  script->completes_sends = false;
  FabricConnection& connection = port->connection(1);
  ASSERT_EQ(connection.send(id(0), data.data(), kBig, signature), Outcome::kDone);
  ASSERT_EQ(connection.send(id(1), data.data(), 8, signature), Outcome::kDone);
  EXPECT_EQ(connection.sent(id(0)), Outcome::kNotYet);
  EXPECT_EQ(connection.sent(id(1)), Outcome::kDone);  // copied
  script->complete_send(script->sent[0], 0);
  port->progress();
  EXPECT_EQ(connection.sent(id(0)), Outcome::kDone);
}

TEST_F(NetworkPortTest, GoesOnCountingInTheNextOperation) {
  FabricConnection& connection = port->connection(1);
  ASSERT_EQ(connection.send(id(0), data.data(), 8, signature), Outcome::kDone);
  ASSERT_EQ(connection.send(id(0, 6), data.data(), 8, signature), Outcome::kDone);
  EXPECT_EQ(FabricTag::decode(script->sent[1].tag).number, 1u);
}

TEST_F(NetworkPortTest, RefusesAMessageOfAnotherCollective) {
  FabricConnection& connection = port->connection(1);
  ASSERT_EQ(connection.grant(id(0), place.data(), 8), Outcome::kDone);
  script->deliver_of_job(from_one(FabricKind::kEager, 0), 99, std::span(data).first(8));
  port->progress();
  EXPECT_EQ(connection.arrived(id(0), arrival), Outcome::kFailed);
  EXPECT_EQ(connection.failure().status, CCOM_MISMATCH);
}

TEST_F(NetworkPortTest, NamesPeerRouteAndReasonOfABrokenConnection) {
  script->completes_sends = false;
  FabricConnection& connection = port->connection(2);
  ASSERT_EQ(connection.send(id(0), data.data(), kBig, signature), Outcome::kDone);
  script->complete_send(script->sent[0], ECONNRESET);
  port->progress();
  EXPECT_EQ(connection.sent(id(0)), Outcome::kFailed);
  const std::string& sentence = connection.failure().sentence;
  for (const char* part : {"rank 2", "script here -> 2", "Connection reset"}) {
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  }
  // The others are as they were.
  EXPECT_EQ(port->connection(1).send(id(0), data.data(), 8, signature), Outcome::kDone);
}

TEST_F(NetworkPortTest, FailsTheConnectionOfAPeerThatSendsTooFarAheadOrTwice) {
  ASSERT_TRUE(deliver(from_one(FabricKind::kEager, NetworkPort::kInitialWindow), {}));
  port->progress();
  EXPECT_EQ(port->connection(1).grant(id(0), place.data(), 8), Outcome::kFailed);

  for (int i = 0; i < 2; ++i) {
    FabricTag tag = from_one(FabricKind::kEager, 0);
    tag.sender = 2;
    ASSERT_TRUE(deliver(tag, std::span(data).first(8)));
  }
  port->progress();
  EXPECT_EQ(port->connection(2).grant(id(0), place.data(), 8), Outcome::kFailed);
  EXPECT_NE(port->connection(2).failure().sentence.find("twice"), std::string::npos);
}

TEST_F(NetworkPortTest, IgnoresSendersThatAreNotOfTheJob) {
  for (const Rank sender : {0u, 3u, FabricTag::kRanks - 1}) {
    FabricTag tag = from_one(FabricKind::kEager, 0);
    tag.sender = sender;
    ASSERT_TRUE(deliver(tag, std::span(data).first(8)));
  }
  EXPECT_EQ(port->progress(), Outcome::kDone);
  EXPECT_EQ(port->connection(1).grant(id(0), place.data(), 8), Outcome::kDone);
}

TEST_F(NetworkPortTest, TakesPostedPlacesBackAfterAFailure) {
  FabricConnection& connection = port->connection(1);
  const size_t pool = script->posted.size();
  ASSERT_EQ(connection.grant(id(0), place.data(), kBig), Outcome::kDone);
  EXPECT_EQ(script->posted.size(), pool + 1);
  port->quiesce(base::Deadline::after(std::chrono::milliseconds(1000)));
  EXPECT_EQ(script->posted.size(), pool);
  EXPECT_EQ(port->progress(), Outcome::kNotYet);
}

TEST_F(NetworkPortTest, WritesNothingToAPlaceThatWasGrantedBeforeAFailure) {
  ASSERT_EQ(port->connection(1).grant(id(0), place.data(), 8), Outcome::kDone);
  port->quiesce(base::Deadline::after(std::chrono::milliseconds(1000)));
  ASSERT_TRUE(deliver(from_one(FabricKind::kEager, 0), std::span(data).first(8)));
  EXPECT_EQ(port->progress(), Outcome::kDone);
  EXPECT_EQ(place[0], std::byte{0});
}

TEST_F(NetworkPortTest, ClosesTheNetworkWhenASourceDoesNotComeBack) {
  script->completes_sends = false;
  ASSERT_EQ(port->connection(1).send(id(0), data.data(), kBig, signature), Outcome::kDone);
  port->quiesce(base::Deadline::after(std::chrono::milliseconds(2)));
  EXPECT_EQ(port->progress(), Outcome::kFailed);
  EXPECT_TRUE(script->posted.empty());
}

TEST(ControlMessage, RefusesWhatIsOutOfRange) {
  ControlMessage message;
  message.question = true;
  message.streams[2].state = StreamState::kUnderWay;
  message.streams[2].last.stream = 2;
  message.streams[2].last.operation = 9;
  message.streams[2].waits_for = 3;
  const auto bytes = message.encode();
  ASSERT_TRUE(ControlMessage::decode(bytes, 4));
  EXPECT_EQ(ControlMessage::decode(bytes, 4)->streams[2].last.operation, 9u);
  EXPECT_FALSE(ControlMessage::decode(bytes, 3));  // waits for a rank that there is not
  EXPECT_FALSE(ControlMessage::decode(std::span(bytes).first(bytes.size() - 1), 4));
  EXPECT_FALSE(ControlMessage::decode({}, 4));
  auto wrong = bytes;
  wrong[0] ^= std::byte{1};
  EXPECT_FALSE(ControlMessage::decode(wrong, 4));
  message.streams[2].last.kind = CCOM_OPERATION_COUNT;
  EXPECT_FALSE(ControlMessage::decode(message.encode(), 4));
}

TEST_F(NetworkPortTest, APeerThatTakesNothingHoldsUpNoControlMessageToAnother) {
  script->held_up = 1;
  ControlMessage message;
  for (uint32_t i = 0; i < 100; ++i) {
    port->send_control(1, message);
  }
  port->send_control(2, message);
  port->progress();
  ASSERT_EQ(script->sent.size(), 1u);
  EXPECT_EQ(script->sent.front().peer, 2u);
  // A few are kept for it, and it gets them when it goes on.
  script->held_up = ~0u;
  port->progress();
  EXPECT_EQ(script->sent.size(), 5u);
  EXPECT_EQ(script->sent.back().peer, 1u);
}

TEST_F(NetworkPortTest, APeerThatTakesNothingHoldsUpNoGrantsToAnother) {
  script->held_up = 1;
  for (const Rank peer : {2u, 1u}) {
    for (uint64_t i = 0; i < NetworkPort::kInitialWindow / 2; ++i) {
      ASSERT_EQ(port->connection(peer).grant(id(i), place.data(), 8), Outcome::kDone);
    }
  }
  port->progress();
  ASSERT_EQ(script->sent.size(), 1u);
  EXPECT_EQ(script->sent.front().peer, 2u);
  script->held_up = ~0u;
  port->progress();
  ASSERT_EQ(script->sent.size(), 2u);
  EXPECT_EQ(script->sent.back().peer, 1u);
}

}  // namespace
}  // namespace neuron::ccom
