// SPDX-License-Identifier: Apache-2.0
// Who knows the address of a job and means no good: at the doors of its ranks, and in the place of
// rank 0.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/unit/ccom/bootstrap/puppet.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

// Ranks 0 to size - 1 join and meet; how long those other than rank 0 took. `with_root`: done when
// rank 0 listens, before the others come.
milliseconds join_all(const std::string& root, uint32_t size,
                      const std::function<void()>& with_root) {
  std::atomic<int> met{0};
  std::vector<std::thread> threads;
  const auto join = [&](Rank rank) {
    auto joined = Bootstrap::join(options_of(rank, size, root, kPatience));
    ASSERT_TRUE(joined) << joined.error().sentence;
    EXPECT_TRUE((*joined)->barrier(base::Deadline::after(kPatience)));
    ++met;
  };
  threads.emplace_back(join, 0);
  with_root();
  const auto begin = base::Clock::now();
  for (Rank rank = 1; rank < size; ++rank) threads.emplace_back(join, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(met, static_cast<int>(size));
  return std::chrono::duration_cast<milliseconds>(base::Clock::now() - begin);
}

TEST(HostilePeers, ThatFillTheDoorDelayRanksByMomentsOnly) {
  constexpr size_t kCrowd = 1000;  // a door holds kMostStrangers, each for five seconds
  const std::string root = free_address();
  ASSERT_TRUE(reserve_descriptors(3 * kCrowd));
  std::vector<Wire> crowd;
  std::atomic<bool> over{false};
  std::thread slow;
  const milliseconds took = join_all(root, 3, [&] {
    for (size_t i = 0; i < kCrowd; ++i) crowd.push_back(Wire::to(*parse_address(root)));
    // Every third says what a rank would say, a byte at a time.
    slow = std::thread([&] {
      const Bytes hello = frame_of(MessageType::kHello, encode(Hello{}));
      for (size_t at = 0; at + 1 < hello.size() && !over; ++at) {
        for (size_t i = 0; i < kCrowd; i += 3) crowd[i].say({hello[at]});
        poll(nullptr, 0, 20);
      }
    });
  });
  over = true;
  slow.join();
  EXPECT_LT(took, milliseconds(4900));
}

// A rank that has proven the secret, up to there.
Wire proven(const std::string& root, Proof& proof, Digest& nonce) {
  Wire wire = Wire::to(*parse_address(root));
  EXPECT_TRUE(base::random_bytes(nonce));
  EXPECT_TRUE(wire.say(MessageType::kHello, encode(Hello{kProtocolVersion, nonce})));
  const auto heard = wire.hear();
  Challenge challenge;
  EXPECT_TRUE(heard && decode(heard->body, challenge));
  proof.proof = client_proof(key_of(root), nonce, challenge.nonce);
  EXPECT_TRUE(wire.say(MessageType::kProof, encode(proof)));
  return wire;
}

TEST(HostilePeers, AreSentAwayAtOnceWhateverTheySayInWhateverOrder) {
  const std::string root = free_address();
  const Bytes hello = frame_of(MessageType::kHello, encode(Hello{}));
  const auto changed = [&](size_t at, uint8_t to) {
    Bytes bytes = hello;
    bytes[at] = std::byte{to};
    return bytes;
  };
  const auto joined_by = [](std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const struct {
    const char* what;
    Bytes bytes;
  } kStrangers[] = {
      {"a frame without the mark", changed(6, 0)},
      {"a type that is none", changed(4, 99)},
      {"type 0", changed(4, 0)},
      {"a length above the limit", changed(1, 2)},
      {"the longest length", joined_by({Bytes(4, std::byte{255}), Bytes(4, std::byte{1})})},
      {"4 GiB of a hello", joined_by({Bytes(4, std::byte{255}), {hello.begin() + 4, hello.end()}})},
      {"another magic", changed(FrameHeader::kBytes, 'X')},
      {"a short hello", frame_of(MessageType::kHello, Bytes(3))},
      {"a long hello", frame_of(MessageType::kHello, Bytes(kStrangerBytes))},
      {"a hello without a body", frame_of(MessageType::kHello, {})},
      {"a proof before the hello", frame_of(MessageType::kProof, encode(Proof{}))},
      {"a challenge", frame_of(MessageType::kChallenge, encode(Challenge{}))},
      {"a join without a proof", frame_of(MessageType::kJoin, encode(Join{}))},
      {"an order to go", frame_of(MessageType::kGo, {})},
      {"news of a death", frame_of(MessageType::kFailure, encode(Failure{1, 1, 4, "dead"}))},
      {"two hellos", joined_by({hello, hello})},
      {"a proof of nothing", joined_by({hello, frame_of(MessageType::kProof, encode(Proof{}))})},
  };
  join_all(root, 3, [&] {
    std::vector<Wire> wires;
    for (const auto& stranger : kStrangers) {
      wires.push_back(Wire::to(*parse_address(root)));
      wires.back().say(stranger.bytes);
    }
    for (size_t i = 0; i < wires.size(); ++i) {
      EXPECT_TRUE(wires[i].closes_within(milliseconds(3000))) << kStrangers[i].what;
    }
  });
}

TEST(HostilePeers, ThatRepeatWhatARankSaidAreNotTakenForIt) {
  const std::string root = free_address();
  join_all(root, 3, [&] {
    Proof proof;
    Digest nonce{};
    const Wire rank = proven(root, proof, nonce);
    const Wire replay = Wire::to(*parse_address(root));
    EXPECT_TRUE(replay.say(MessageType::kHello, encode(Hello{kProtocolVersion, nonce})));
    EXPECT_TRUE(replay.hear());
    replay.say(MessageType::kProof, encode(proof));
    EXPECT_TRUE(replay.closes_within(milliseconds(3000)));
  });
}

TEST(HostilePeers, ThatKnowTheSecretStillCannotSayNonsense) {
  const std::string root = free_address();
  Join no_text;
  no_text.host = std::string(5000, 'x');
  const std::vector<Bytes> kNonsense = {
      frame_of(MessageType::kAttach, encode(Attach{})),
      frame_of(MessageType::kHello, encode(Hello{})),
      frame_of(MessageType::kJoin, {}),
      frame_of(MessageType::kJoin, Bytes(kJoinBytes + 1)),
      frame_of(MessageType::kJoin, encode(no_text)),
      frame_of(MessageType::kRegroup, encode(Regroup{})),
  };
  join_all(root, 3, [&] {
    for (size_t i = 0; i < kNonsense.size(); ++i) {
      Proof proof;
      Digest nonce{};
      const Wire wire = proven(root, proof, nonce);
      wire.say(kNonsense[i]);
      EXPECT_TRUE(wire.closes_within(milliseconds(3000))) << i;
    }
  });
}

// Something that listens in the place of rank 0, and does what a test says with each connection
// until the rank gives up.
struct FalseRoot {
  const char* what;
  std::function<void(const Wire& wire, const Bytes& key)> play;
  ccom_status_t status;
  const char* part;  // of what the rank says
};

void challenge_with(const Wire& wire, const Bytes& key, Challenge challenge) {
  const auto heard = wire.hear();
  Hello hello;
  if (!heard || !decode(heard->body, hello)) return;
  if (!key.empty()) challenge.proof = server_proof(key, hello.nonce, challenge.nonce);
  wire.say(MessageType::kChallenge, encode(challenge));
}

// Lets the rank in, hears its join, and answers.
std::function<void(const Wire&, const Bytes&)> answer(MessageType type, const Bytes& body) {
  return [type, body](const Wire& wire, const Bytes& key) {
    challenge_with(wire, key, {});
    if (wire.hear() && wire.hear()) wire.say(type, body);
  };
}

std::vector<FalseRoot> false_roots() {
  const auto say = [](const std::string& text) {
    return [text](const Wire& wire, const Bytes&) {
      const auto bytes = bytes_of(text);
      wire.say({bytes.begin(), bytes.end()});
    };
  };
  TreePlace far;
  far.parent = 7;
  TreePlace nowhere;
  nowhere.address.bytes = {127, 0, 0, 1};
  nowhere.address.port = 1;
  return {
      {"says nothing", [](const Wire&, const Bytes&) {}, CCOM_TIMEOUT,
       "accepted a connection, but did not answer in time"},
      {"says a part of a frame", say("\x10"), CCOM_TIMEOUT,
       "accepted a connection, but did not answer in time"},
      {"is a web server", say("HTTP/1.1 400 Bad Request\r\n\r\n"), CCOM_TIMEOUT,
       "it sent no frame of this protocol"},
      {"has another secret", [](const Wire& wire, const Bytes&) { challenge_with(wire, {}, {}); },
       CCOM_REFUSED, "has another secret"},
      {"has another version",
       [](const Wire& wire, const Bytes&) {
         challenge_with(wire, {}, {9, {}, {}});
       },
       CCOM_MISMATCH, "speaks version 9 of the bootstrap protocol, this one version 1"},
      {"sends what is no challenge",
       [](const Wire& wire, const Bytes&) { wire.say(MessageType::kGo, {}); }, CCOM_REFUSED,
       "is no rank of a libccom job"},
      {"keeps silent about who is missing",
       [](const Wire& wire, const Bytes& key) { challenge_with(wire, key, {}); }, CCOM_TIMEOUT,
       "did not say in time who is missing"},
      {"gives the order to go at once", answer(MessageType::kGo, {}), CCOM_SYSTEM,
       "sent a message that makes no sense here"},
      {"names another's parent", answer(MessageType::kPlace, encode(far)), CCOM_SYSTEM,
       "sent a message that makes no sense here"},
      {"names a parent that is nowhere", answer(MessageType::kPlace, encode(nowhere)), CCOM_TIMEOUT,
       "the last one: parent rank 0: no connection to 127.0.0.1:1"},
      {"refuses with a success", answer(MessageType::kRefuse, encode(Refuse{CCOM_SUCCESS, "ha"})),
       CCOM_SYSTEM, "sent a message that makes no sense here"},
      {"refuses with a status that is none", answer(MessageType::kRefuse, encode(Refuse{77, "ha"})),
       CCOM_SYSTEM, "sent a message that makes no sense here"},
  };
}

// What rank 1 says of it; "": the right thing, in time.
std::string complaint_about(const FalseRoot& root) {
  Address address;
  address.bytes = {127, 0, 0, 1};
  const auto listener = open_listener(address, "test");
  if (!listener) return listener.error().sentence;
  const Bytes key = key_of(text_of(address));
  std::atomic<bool> over{false};
  std::thread thread([&] {
    std::vector<Wire> wires;
    while (!over) {  // bounded: the rank has a deadline
      pollfd wanted{*listener, POLLIN, 0};
      if (poll(&wanted, 1, 10) <= 0) continue;
      wires.emplace_back(accept4(*listener, nullptr, nullptr, SOCK_CLOEXEC));
      root.play(wires.back(), key);
    }
  });
  const JoinOptions options = options_of(1, 2, text_of(address), milliseconds(500));
  const auto joined = Bootstrap::join(options);
  const auto late = base::Clock::now() - options.deadline.when();
  over = true;
  thread.join();
  close(*listener);
  if (joined) return "it has joined";
  const Error& error = joined.error();
  if (late > milliseconds(1500)) return "it is late: " + error.sentence;
  const bool right = error.status == root.status &&
                     error.sentence.find(root.part) != std::string::npos &&
                     error.sentence.find(text_of(address)) != std::string::npos;
  return right ? "" : std::string(ccom_status_name(error.status)) + ": " + error.sentence;
}

TEST(HostilePeers, InThePlaceOfRankZeroAreNamedByAddressAndInTime) {
  const auto roots = false_roots();
  std::vector<std::string> complaints(roots.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < roots.size(); ++i) {
    threads.emplace_back([&, i] { complaints[i] = complaint_about(roots[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < roots.size(); ++i) EXPECT_EQ(complaints[i], "") << roots[i].what;
}

TEST(HostilePeers, ASecondRankZeroAtTheAddressIsToldAndTheFirstJobGoesOn) {
  const std::string root = free_address();
  join_all(root, 3, [&] {
    const Wire first_listens = Wire::to(*parse_address(root));
    const auto second = Bootstrap::join(options_of(0, 3, root, kPatience));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().status, CCOM_INVALID);
    EXPECT_NE(second.error().sentence.find("cannot listen at " + root), std::string::npos)
        << second.error().sentence;
    EXPECT_NE(second.error().sentence.find("another job or program has it"), std::string::npos);
  });
}

}  // namespace
}  // namespace neuron::ccom
