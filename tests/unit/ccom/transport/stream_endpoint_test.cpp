// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/stream_endpoint.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "ccom/transport/stream_link.h"
#include "driver/base/backoff.h"
#include "driver/base/deadline.h"
#include "driver/base/file_descriptor.h"
#include "tests/unit/ccom/transport/stream_ends.h"

namespace neuron::ccom {
namespace {

using Bytes = std::vector<std::byte>;
using std::chrono::milliseconds;

constexpr uint64_t kLong = 3 << 20;

Bytes numbered(uint64_t bytes, uint32_t seed = 1) {
  Bytes data(bytes);
  for (uint64_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + seed + (i >> 8));
  return data;
}

class StreamEndpointTest : public StreamEnds {
 protected:
  // Polls all endpoints until the operation has completed, and returns its completion.
  FabricCompletion completed(const FabricOperation& operation) {
    const base::Deadline end = base::Deadline::after(milliseconds(10000));
    while (seen.find(&operation) == seen.end() && !end.expired()) look();
    EXPECT_NE(seen.find(&operation), seen.end()) << "no completion";
    const FabricCompletion completion = seen[&operation];
    seen.erase(&operation);
    return completion;
  }
  void look() {
    std::array<FabricCompletion, 8> completions;
    for (auto& end : ends) {
      const int count = end == nullptr ? 0 : end->poll(completions);
      for (int i = 0; i < count; ++i) {
        const auto& completion = completions[static_cast<size_t>(i)];
        seen[completion.operation] = completion;
      }
    }
  }
  void look_for(milliseconds span) {
    const base::Deadline end = base::Deadline::after(span);
    while (!end.expired()) look();
  }
  bool came(const FabricOperation& operation) const { return seen.find(&operation) != seen.end(); }

  int receive(size_t at, Bytes& place, uint64_t tag, FabricOperation& operation,
              uint64_t ignore = 0) {
    return ends[at]->receive(kAnyPeer, place.data(), place.size(), nullptr, tag, ignore, operation);
  }
  int send(size_t from, Rank to, const Bytes& data, uint64_t tag, FabricOperation& operation,
           uint32_t word = 0) {
    return ends[from]->send(to, data.data(), data.size(), nullptr, tag, word, operation);
  }

  const Bytes ten = numbered(10);  // a source must live as long as its send
  FabricOperation sent, received, other_sent, other_received;
};

TEST_F(StreamEndpointTest, BringsAMessageWithItsTagWordAndLength) {
  const Bytes data = numbered(1000);
  Bytes place(2000);
  ASSERT_EQ(receive(1, place, 0x40, received, 0x0f), 0);
  ASSERT_EQ(send(0, 1, data, 0x47, sent, 99), 0);
  const FabricCompletion completion = completed(received);
  EXPECT_TRUE(completion.receive);
  EXPECT_EQ(completion.error, 0);
  EXPECT_EQ(completion.tag, 0x47u);
  EXPECT_EQ(completion.word, 99u);
  EXPECT_EQ(completion.bytes, 1000u);
  EXPECT_EQ(std::memcmp(place.data(), data.data(), 1000), 0);
  EXPECT_EQ(place[1000], std::byte{0});
  EXPECT_EQ(completed(sent).error, 0);
}

TEST_F(StreamEndpointTest, KeepsMessagesThatComeBeforeTheirReceives) {
  const Bytes small = numbered(100, 2), large = numbered(kLong, 3);
  Bytes small_place(100), large_place(kLong);
  ASSERT_EQ(ends[0]->send_small(1, small.data(), small.size(), 1, 0), 0);
  ASSERT_EQ(send(0, 1, large, 2, sent), 0);
  look_for(milliseconds(50));
  EXPECT_FALSE(came(sent)) << "a long message left before it had a place";
  ASSERT_EQ(receive(1, large_place, 2, other_received), 0);
  ASSERT_EQ(receive(1, small_place, 1, received), 0);
  EXPECT_EQ(completed(other_received).bytes, kLong);
  EXPECT_EQ(completed(received).bytes, 100u);
  EXPECT_EQ(large_place, large);
  EXPECT_EQ(small_place, small);
}

TEST_F(StreamEndpointTest, LetsShortMessagesPassALongOneThatNobodyWaitsFor) {
  const Bytes large = numbered(kLong), small = numbered(10);
  Bytes place(10);
  ASSERT_EQ(send(0, 1, large, 1, sent), 0);
  ASSERT_EQ(ends[0]->send_small(1, small.data(), small.size(), 2, 0), 0);
  ASSERT_EQ(receive(1, place, 2, received), 0);
  EXPECT_EQ(completed(received).error, 0);
  EXPECT_EQ(place, small);
}

TEST_F(StreamEndpointTest, TellsOfAMessageThatIsLongerThanItsPlaceAndWritesNoMore) {
  for (const uint64_t bytes : {uint64_t{5000}, kLong}) {
    const Bytes data = numbered(bytes);
    Bytes place(4000);
    ASSERT_EQ(ends[1]->receive(kAnyPeer, place.data(), 3000, nullptr, 1, 0, received), 0);
    ASSERT_EQ(send(0, 1, data, 1, sent), 0);
    const FabricCompletion completion = completed(received);
    EXPECT_EQ(completion.error, EMSGSIZE);
    EXPECT_EQ(completion.bytes, bytes);
    EXPECT_EQ(place[3000], std::byte{0});
    EXPECT_EQ(completed(sent).error, 0);
    // What comes behind is where it belongs.
    ASSERT_EQ(receive(1, place, 2, other_received), 0);
    ASSERT_EQ(ends[0]->send_small(1, data.data(), 8, 2, 0), 0);
    EXPECT_EQ(completed(other_received).bytes, 8u);
  }
}

TEST_F(StreamEndpointTest, WritesNothingMoreAfterACancel) {
  const Bytes data = numbered(kLong);
  Bytes place(kLong);
  ASSERT_EQ(receive(1, place, 1, received), 0);
  ends[1]->cancel(received);
  EXPECT_EQ(completed(received).error, ECANCELED);
  // In the middle of a long message: this sends until the socket is full.
  ASSERT_EQ(receive(1, place, 2, received), 0);
  ASSERT_EQ(send(0, 1, data, 2, sent), 0);
  const base::Deadline end = base::Deadline::after(milliseconds(10000));
  while (place[0] != data[0] || place[1] != data[1]) {
    look();
    ASSERT_FALSE(end.expired());
  }
  if (!came(received)) {
    ends[1]->cancel(received);
    EXPECT_EQ(completed(received).error, ECANCELED);
    const Bytes before = place;
    EXPECT_EQ(completed(sent).error, 0);
    look_for(milliseconds(20));
    EXPECT_EQ(place, before);
  }
  ASSERT_EQ(receive(1, place, 3, other_received), 0);
  ASSERT_EQ(ends[0]->send_small(1, data.data(), 8, 3, 0), 0);
  EXPECT_EQ(completed(other_received).error, 0);
}

TEST_F(StreamEndpointTest, CarriesManyMessagesOfAllSizesBothWaysAtOnce) {
  open(3);
  constexpr size_t kMessages = 60;
  std::mt19937 random(7);
  struct Transfer {
    Rank from, to;
    Bytes data, place;
    FabricOperation sent, received;
  };
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (size_t i = 0; i < 6 * kMessages; ++i) {
    auto transfer = std::make_unique<Transfer>();
    transfer->from = static_cast<Rank>(i % 3);
    transfer->to = static_cast<Rank>((i + 1 + i / 3 % 2) % 3);
    const uint64_t most = std::array<uint64_t, 4>{1, 9000, 70000, 400000}[random() % 4];
    transfer->data = numbered(random() % (most + 1), static_cast<uint32_t>(i));
    transfer->place.resize(transfer->data.size());
    transfers.push_back(std::move(transfer));
  }
  std::vector<size_t> order(transfers.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (size_t i = 0; i < transfers.size(); ++i) {
    Transfer& out = *transfers[i];
    ASSERT_EQ(send(out.from, out.to, out.data, i, out.sent), 0);
    Transfer& in = *transfers[order[i]];
    ASSERT_EQ(receive(in.to, in.place, order[i], in.received), 0);
    look();
  }
  for (const auto& transfer : transfers) {
    EXPECT_EQ(completed(transfer->received).error, 0);
    EXPECT_EQ(completed(transfer->sent).error, 0);
    EXPECT_EQ(transfer->place, transfer->data);
  }
}

// The port of this endpoint, for somebody who is not of the job.
base::FileDescriptor stranger_at(const FabricEndpoint& endpoint) {
  const std::string route = endpoint.route(0);  // "127.0.0.1:PORT -> ..."
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(std::stoi(route.substr(route.find(':') + 1))));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  return socket;
}

TEST_F(StreamEndpointTest, HangsUpOnStrangersAndOnNonsense) {
  Bytes place(100);
  ASSERT_EQ(receive(1, place, 7, received), 0);
  struct Attempt {
    StreamHeader header;
    uint64_t behind;
  };
  const Attempt attempts[] = {
      {{StreamKind::kHello, 0, 0, 16, 0}, 16},         // a rank, but not the token
      {{StreamKind::kHello, 55, 0, 16, 0}, 16},        // there is no such rank
      {{StreamKind::kHello, 0, 0, 1 << 30, 0}, 100},   // too long
      {{StreamKind::kWhole, 0, 7, 100, 0}, 100},       // no hello
      {{static_cast<StreamKind>(77), 0, 0, 0, 0}, 0},  // "GET / HTTP/1.1"
  };
  for (const Attempt& attempt : attempts) {
    const base::FileDescriptor socket = stranger_at(*ends[1]);
    Bytes message(sizeof attempt.header + attempt.behind);
    std::memcpy(message.data(), &attempt.header, sizeof attempt.header);
    ASSERT_EQ(::send(socket.get(), message.data(), message.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(message.size()));
    look_for(milliseconds(20));
    std::byte byte;
    const ssize_t count = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
    EXPECT_TRUE(count == 0 || (count < 0 && errno == ECONNRESET))
        << "kind " << static_cast<uint32_t>(attempt.header.kind) << ": " << count;
  }
  EXPECT_FALSE(came(received));
  const Bytes data = numbered(100);
  ASSERT_EQ(send(0, 1, data, 7, sent), 0);
  EXPECT_EQ(completed(received).error, 0);
  EXPECT_EQ(place, data);
}

TEST_F(StreamEndpointTest, KeepsFewConnectionsOfStrangersWhoSayNothing) {
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  std::vector<base::FileDescriptor> strangers;
  const auto before = files();
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(stranger_at(*ends[1]));
    look();
  }
  look_for(milliseconds(20));
  EXPECT_LE(files() - before, 300 + 70);
  Bytes place(10);
  ASSERT_EQ(receive(1, place, 7, received), 0);
  ASSERT_EQ(send(0, 1, ten, 7, sent), 0);
  EXPECT_EQ(completed(received).error, 0);
}

TEST_F(StreamEndpointTest, BringsWhatAPeerSentBeforeItLeft) {
  const Bytes small = numbered(50000), unread = numbered(60000, 9);
  std::vector<Bytes> places(20, Bytes(small.size()));
  std::vector<FabricOperation> operations(places.size());
  // A connection that has bytes for the one who leaves, which it never reads.
  Bytes greeting(1);
  ASSERT_EQ(receive(0, greeting, 99, other_received), 0);
  ASSERT_EQ(ends[1]->send_small(0, unread.data(), 1, 99, 0), 0);
  completed(other_received);
  ASSERT_EQ(ends[1]->send_small(0, unread.data(), unread.size(), 98, 0), 0);
  for (size_t i = 0; i < places.size(); ++i) {
    ASSERT_EQ(ends[0]->send_small(1, small.data(), small.size(), i, 0), 0);
  }
  std::thread leaving([this] { ends[0]->close(); });
  leaving.join();
  ends[0].reset();
  for (size_t i = 0; i < places.size(); ++i) ASSERT_EQ(receive(1, places[i], i, operations[i]), 0);
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(completed(operations[i]).error, 0);
    EXPECT_EQ(places[i], small);
  }
  const base::Deadline end = base::Deadline::after(milliseconds(5000));
  int error = 0;
  while ((error = ends[1]->send_small(0, small.data(), 8, 1, 0)) == 0 && !end.expired()) look();
  EXPECT_TRUE(error == -ESHUTDOWN || error == -ECONNRESET) << error;
}

TEST_F(StreamEndpointTest, FailsSendsToAPeerThatIsGone) {
  const Bytes data = numbered(kLong);
  ASSERT_EQ(send(0, 1, data, 1, sent), 0);
  look_for(milliseconds(20));  // offered
  ends[1]->close();
  ends[1].reset();
  EXPECT_NE(completed(sent).error, 0);
  EXPECT_LT(send(0, 1, data, 2, other_sent), 0);
}

TEST_F(StreamEndpointTest, FailsSendsToAPortWhereNobodyListens) {
  ends[1]->close();
  ends[1].reset();
  ASSERT_EQ(send(0, 1, ten, 1, sent), 0);
  EXPECT_EQ(completed(sent).error, ECONNREFUSED);
  EXPECT_EQ(send(0, 1, ten, 1, sent), -ECONNREFUSED);
}

TEST_F(StreamEndpointTest, FailsAReceiveWhosePeerGoesInTheMiddleOfTheMessage) {
  Bytes place(kLong);
  const Bytes data = numbered(kLong);
  ASSERT_EQ(receive(1, place, 1, received), 0);
  ASSERT_EQ(send(0, 1, data, 1, sent), 0);
  std::array<FabricCompletion, 8> completions;
  const base::Deadline end = base::Deadline::after(milliseconds(10000));
  // Only until the first bytes are there: the rest waits for room.
  while (place[0] != data[0] || place[1] != data[1]) {
    ends[0]->poll(completions);
    ends[1]->poll(completions);
    ASSERT_FALSE(end.expired());
  }
  const Bytes so_far = place;
  ends[0]->close();
  ends[0].reset();
  if (so_far.back() == std::byte{0}) {
    const FabricCompletion completion = completed(received);
    EXPECT_TRUE(completion.error != 0 || place == data);
  }
}

TEST_F(StreamEndpointTest, LeavesNoDescriptorOpen) {
  ends.clear();
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = files();
  for (int i = 0; i < 5; ++i) {
    open(3);
    Bytes place(10);
    ASSERT_EQ(receive(1, place, 7, received), 0);
    ASSERT_EQ(send(0, 1, ten, 7, sent), 0);
    ASSERT_EQ(send(2, 0, ten, 7, other_sent), 0);
    completed(received);
    seen.clear();
  }
  ends.clear();
  EXPECT_EQ(files(), before);
}

TEST_F(StreamEndpointTest, RefusesAddressesOfAnotherKind) {
  auto endpoint = open_stream("127.0.0.1");
  ASSERT_TRUE(endpoint);
  const auto done = (*endpoint)->introduce({(*endpoint)->address(), Bytes(3)});
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().sentence.find("rank 1"), std::string::npos);
  EXPECT_FALSE(open_stream("a name"));
  EXPECT_FALSE(open_stream("203.0.113.77"));
  EXPECT_TRUE(open_stream("::1"));
}

}  // namespace
}  // namespace neuron::ccom
