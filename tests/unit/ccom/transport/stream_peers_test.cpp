// SPDX-License-Identifier: Apache-2.0
// Stream endpoints among peers that crowd, leave, break the rules, or are not of the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <map>
#include <thread>

#include "ccom/transport/stream_endpoint.h"
#include "ccom/transport/stream_matching.h"
#include "driver/base/backoff.h"
#include "driver/base/deadline.h"
#include "driver/base/file_descriptor.h"
#include "tests/unit/ccom/transport/stream_ends.h"

namespace neuron::ccom {
namespace {

using Bytes = std::vector<std::byte>;
using std::chrono::milliseconds;

constexpr uint64_t kShort = 50000;

class StreamPeersTest : public StreamEnds {
 protected:
  void look(size_t at) {
    std::array<FabricCompletion, 8> completions;
    const int count = ends[at]->poll(completions);
    for (int i = 0; i < count; ++i) {
      const auto& completion = completions[static_cast<size_t>(i)];
      seen[completion.operation] = completion;
    }
  }
  void look_for(size_t at, milliseconds span) {
    const base::Deadline end = base::Deadline::after(span);
    while (!end.expired()) look(at);
  }
  // Polls one endpoint until `operation` has completed. -1: it has not.
  int error_of(size_t at, const FabricOperation& operation) {
    const base::Deadline end = base::Deadline::after(milliseconds(10000));
    while (seen.find(&operation) == seen.end() && !end.expired()) look(at);
    return seen.find(&operation) == seen.end() ? -1 : seen[&operation].error;
  }
  void receive(size_t at, Bytes& place, uint64_t tag, FabricOperation& operation) {
    ASSERT_EQ(ends[at]->receive(kAnyPeer, place.data(), place.size(), nullptr, tag, 0, operation),
              0);
  }

  uint16_t port_of(size_t at) const {
    const std::string route = ends[at]->route(0);  // "127.0.0.1:PORT -> ..."
    return static_cast<uint16_t>(std::stoi(route.substr(route.find(':') + 1)));
  }
  // A socket at the port of an endpoint.
  base::FileDescriptor connect(size_t at) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_of(at));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return socket;
  }
  static void say(const base::FileDescriptor& socket, const void* data, size_t bytes) {
    ASSERT_EQ(::send(socket.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  // What rank `rank` shows first at an endpoint: its address ends with the token.
  Bytes hello(size_t at, Rank rank) const {
    const StreamHeader header{StreamKind::kHello, rank, 0, 16, 0};
    const Bytes address = ends[at]->address();
    Bytes bytes(sizeof header + 16);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, address.data() + address.size() - 16, 16);
    return bytes;
  }
  // The kernel takes less for connections to this endpoint, wherever it allows a lot.
  void narrow(size_t to) const {
    const uint16_t port = port_of(to);
    for (int file = 3; file < 256; ++file) {
      sockaddr_in peer{};
      socklen_t length = sizeof peer;
      if (::getpeername(file, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
          ntohs(peer.sin_port) == port) {
        const int bytes = 128 << 10;
        ::setsockopt(file, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
      }
    }
  }
  static bool hung_up(const base::FileDescriptor& socket) {
    std::array<std::byte, 4096> scrap;
    ssize_t count = 0;
    do {
      count = ::recv(socket.get(), scrap.data(), scrap.size(), MSG_DONTWAIT);
    } while (count > 0);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }

  const Bytes ten = Bytes(10, std::byte{3}), much = Bytes(kShort, std::byte{5});
  FabricOperation first, second;
};

TEST_F(StreamPeersTest, WelcomesManyRanksThatConnectBeforeItLooks) {
  constexpr size_t kRanks = 120;
  open(kRanks);
  std::vector<Bytes> places(kRanks, Bytes(10));
  std::vector<FabricOperation> operations(kRanks);
  for (Rank rank = 1; rank < kRanks; ++rank) {
    ASSERT_EQ(ends[rank]->send_small(0, ten.data(), ten.size(), rank, 0), 0);
    for (int i = 0; i < 3; ++i) look(rank);
    receive(0, places[rank], rank, operations[rank]);
  }
  const base::Deadline end = base::Deadline::after(milliseconds(10000));
  while (seen.size() < kRanks - 1 && !end.expired()) look(0);
  EXPECT_EQ(seen.size(), kRanks - 1);
}

// This process can open nothing meanwhile.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{0, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST_F(StreamPeersTest, SaysThatNoDescriptorIsLeftForWhoConnects) {
  const base::FileDescriptor waiting = connect(0);
  std::array<FabricCompletion, 8> completions;
  int count = 0;
  {
    const NoDescriptors none;
    const base::Deadline end = base::Deadline::after(milliseconds(10000));
    while (count == 0 && !end.expired()) count = ends[0]->poll(completions);
  }
  EXPECT_EQ(count, -EMFILE);
  EXPECT_EQ(ends[0]->failure().status, CCOM_RESOURCE);
  EXPECT_THAT(ends[0]->failure().sentence,
              testing::AllOf(testing::HasSubstr("no other rank can be accepted at 127.0.0.1:"),
                             testing::HasSubstr("Too many open files")));
}

TEST_F(StreamPeersTest, WaitsAMomentForADescriptorForWhoConnects) {
  const base::FileDescriptor waiting = connect(0);
  std::array<FabricCompletion, 8> completions;
  {
    const NoDescriptors none;
    EXPECT_EQ(ends[0]->poll(completions), 0);
  }
  Bytes place(8);
  FabricOperation arrives, leaves;
  receive(0, place, 5, arrives);
  Bytes bytes(8, std::byte{7});
  ASSERT_EQ(ends[1]->send(0, bytes.data(), bytes.size(), nullptr, 5, 0, leaves), 0);
  const base::Deadline end = base::Deadline::after(milliseconds(10000));
  while (seen.find(&arrives) == seen.end() && !end.expired()) {
    look(0);
    look(1);
  }
  EXPECT_EQ(place, bytes);
}

TEST_F(StreamPeersTest, BringsWhatARankSaidRightBeforeItLeft) {
  Bytes place(10);
  ASSERT_EQ(ends[0]->send_small(1, ten.data(), ten.size(), 7, 0), 0);
  ends[0]->close();
  receive(1, place, 7, first);
  EXPECT_EQ(error_of(1, first), 0);
  EXPECT_EQ(place, ten);
}

TEST_F(StreamPeersTest, KnowsThatAPeerHasLeftWhoseConnectionItHasNotSeenYet) {
  ASSERT_EQ(ends[0]->send_small(1, ten.data(), ten.size(), 7, 0), 0);
  look_for(0, milliseconds(5));
  ends[0]->close();
  look(1);
  const int error = ends[1]->send_small(0, ten.data(), ten.size(), 7, 0);
  EXPECT_TRUE(error == 0 || error == -ESHUTDOWN) << error;
  look_for(1, milliseconds(20));
  EXPECT_EQ(ends[1]->send_small(0, ten.data(), ten.size(), 7, 0), -ESHUTDOWN);
}

TEST_F(StreamPeersTest, APeerThatTakesNothingDoesNotHoldUpTheLastMessagesToOthers) {
  // A busy machine may need all of the time for the messages themselves.
  bool all = false;
  for (int attempt = 0; attempt < 4 && !all; ++attempt) {
    open(3);
    seen.clear();
    size_t messages = 0;  // to rank 2
    for (const Rank to : {1u, 2u}) {
      for (messages = 0;; ++messages) {
        if (ends[0]->send_small(to, much.data(), much.size(), messages, 0) != 0) break;
        look(0);
        if (messages == 0) narrow(2);
      }
    }
    std::vector<Bytes> places(messages, Bytes(kShort));
    std::vector<FabricOperation> operations(messages);
    for (size_t i = 0; i < messages; ++i) receive(2, places[i], i, operations[i]);
    std::thread leaving([this] { ends[0]->close(); });
    const base::Deadline end = base::Deadline::after(milliseconds(1500));
    while (seen.size() < messages && !end.expired()) look(2);
    all = seen.size() == messages;
    leaving.join();
    ends.clear();
  }
  EXPECT_TRUE(all);
}

TEST_F(StreamPeersTest, ReadsAllOfAPeerThatLeftBeforeItTookEverything) {
  base::FileDescriptor peer = connect(1);
  const Bytes greeting = hello(1, 0);
  say(peer, greeting.data(), greeting.size());
  std::map<uint64_t, std::pair<Bytes, FabricOperation>> places;
  const auto send_one = [&](uint64_t tag) {
    auto& [place, operation] = places[tag];
    place.resize(kShort);
    receive(1, place, tag, operation);
    const StreamHeader header{StreamKind::kWhole, 0, tag, kShort, 0};
    Bytes message(sizeof header + kShort, std::byte{5});
    std::memcpy(message.data(), &header, sizeof header);
    say(peer, message.data(), message.size());
  };
  const auto all_taken = [&] {
    int waiting = 1;
    const base::Deadline end = base::Deadline::after(milliseconds(300));
    while (::ioctl(peer.get(), SIOCOUTQ, &waiting) == 0 && waiting != 0 && !end.expired()) {
      base::yield_processor();
    }
    return waiting == 0;
  };
  uint64_t tag = 0;
  // The kernel gives more room to a connection on which much has come.
  for (; tag < 1500; ++tag) {
    send_one(tag);
    if (tag % 20 == 19) look_for(1, milliseconds(1));
  }
  EXPECT_EQ(error_of(1, places[tag - 1].second), 0);
  const uint64_t begin = tag;
  for (; tag < begin + 40; ++tag) {
    send_one(tag);
    if (!all_taken()) break;
  }
  ASSERT_GT(tag - begin, 25u) << "the kernel keeps too little for this test";
  while (ends[1]->send_small(0, much.data(), much.size(), 1, 0) == 0) {
  }
  peer.reset();  // with bytes that it has not read
  for (uint64_t i = begin; i < tag; ++i) ASSERT_EQ(error_of(1, places[i].second), 0) << i - begin;
}

TEST_F(StreamPeersTest, EndsAConnectionThatGivesTwoOffersTheSameNumber) {
  const base::FileDescriptor peer = connect(1);
  Bytes message = hello(1, 0);
  for (const uint64_t tag : {1u, 2u}) {
    const StreamHeader offer{StreamKind::kOffer, 0, tag, 100000, 1};
    const auto* bytes = reinterpret_cast<const std::byte*>(&offer);
    message.insert(message.end(), bytes, bytes + sizeof offer);
  }
  Bytes place(100000), other(100000);
  receive(1, place, 1, first);
  receive(1, other, 2, second);
  say(peer, message.data(), message.size());
  EXPECT_EQ(error_of(1, first), EPROTO);
  EXPECT_TRUE(hung_up(peer));
}

TEST_F(StreamPeersTest, TakesATokenInPiecesAndOncePerRank) {
  const base::FileDescriptor peer = connect(1), again = connect(1);
  Bytes message = hello(1, 0);
  for (const std::byte byte : message) {
    say(peer, &byte, 1);
    look_for(1, milliseconds(1));
  }
  say(again, message.data(), message.size());
  look_for(1, milliseconds(20));
  EXPECT_FALSE(hung_up(peer));
  EXPECT_TRUE(hung_up(again));
  say(peer, message.data(), message.size());
  look_for(1, milliseconds(20));
  EXPECT_TRUE(hung_up(peer)) << "it has said hello twice";
}

TEST_F(StreamPeersTest, HangsUpAlthoughAChildOfThisProcessHasTheSocket) {
  const base::FileDescriptor stranger = connect(1);
  look_for(1, milliseconds(5));
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const Bytes nonsense(100, std::byte{9});
  say(stranger, nonsense.data(), nonsense.size());
  look_for(1, milliseconds(20));
  EXPECT_TRUE(hung_up(stranger));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(StreamMatching, KeepsNothingOfAMessageForWhichThereIsNoMemory) {
  class Nobody final : public StreamLink::Owner {
    bool begins(StreamLink&, const StreamHeader&, std::span<std::byte>&) override { return true; }
    bool ends(StreamLink&, const StreamHeader&) override { return true; }
    void sent(FabricOperation&, int) override {}
  } owner;
  StreamLink link(owner, base::FileDescriptor(), false);
  StreamMatching matching;
  EXPECT_THROW(matching.keep(link, {StreamKind::kWhole, 0, 1, uint64_t{1} << 63, 0}),
               std::exception);
  EXPECT_EQ(matching.unfinished(link), nullptr);
}

}  // namespace
}  // namespace neuron::ccom
