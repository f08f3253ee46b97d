// SPDX-License-Identifier: Apache-2.0
// Both ends of a connection in one process, over loopback: what meets what, and how each way to end
// is told on both sides.
#include "runtime/send_receive/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace neuron::runtime {
namespace {

using namespace std::chrono_literals;
using Role = Connection::Role;
using State = Connection::State;
using Clock = Connection::Clock;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSender = 3, kReceiver = 8;

HostAddress loopback() {
  const auto address = HostAddress::parse("127.0.0.1");
  EXPECT_TRUE(address);
  return address ? *address : HostAddress{};
}

// A listener at a port that is free.
base::FileDescriptor listen_anywhere(uint16_t& port) {
  auto listener = listen_on(0);
  EXPECT_TRUE(listener) << (listener ? "" : listener.error().sentence);
  sockaddr_in6 own = {};
  socklen_t size = sizeof(own);
  EXPECT_EQ(::getsockname(listener->get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  port = ntohs(own.sin6_port);
  return std::move(*listener);
}

short events_of(const Connection& connection) {
  pollfd one = {connection.socket(), connection.interest(), 0};
  if (one.fd < 0) return 0;
  EXPECT_GE(::poll(&one, 1, 10), 0);
  return one.revents;
}

class Connections : public testing::Test {
 protected:
  void SetUp() override {
    listener_ = listen_anywhere(port_);
    sender_ =
        std::make_unique<Connection>(Role::kSends, peer(kReceiver), kSender, Clock::now() + 60s);
    receiver_ =
        std::make_unique<Connection>(Role::kReceives, peer(kSender), kReceiver, Clock::now() + 60s);
  }
  Connection::Peer peer(int core) const { return {loopback(), port_, core}; }

  // The connection that the sender has asked for, and what it says of itself.
  base::FileDescriptor accepted(Introduction& says) {
    base::FileDescriptor socket;
    HostAddress from;
    for (int turn = 0; turn < 500 && !socket; ++turn) {
      sender_->progress(events_of(*sender_));
      socket = accept_from(listener_.get(), from);
      if (!socket) pause();
    }
    EXPECT_TRUE(socket);
    size_t heard = 0;
    for (int turn = 0; turn < 500 && heard < sizeof says; ++turn) {
      sender_->progress(events_of(*sender_));
      const ssize_t got = ::recv(socket.get(), reinterpret_cast<char*>(&says) + heard,
                                 sizeof says - heard, MSG_DONTWAIT);
      if (got > 0) heard += static_cast<size_t>(got);
    }
    EXPECT_EQ(heard, sizeof says);
    return socket;
  }
  void meet() {
    Introduction says;
    base::FileDescriptor socket = accepted(says);
    EXPECT_TRUE(says.good());
    EXPECT_EQ(says.from_core, kSender);
    EXPECT_EQ(says.to_core, kReceiver);
    EXPECT_EQ(says.process, static_cast<uint32_t>(::getpid()));
    receiver_->adopt(std::move(socket), says);
    EXPECT_EQ(receiver_->state(), State::kConnected);
    turns([&] { return sender_->state() == State::kConnected; });
  }
  template <class Until>
  void turns(const Until& until) {
    for (int turn = 0; turn < 2000 && !until(); ++turn) {
      sender_->progress(events_of(*sender_));
      receiver_->progress(events_of(*receiver_));
    }
    EXPECT_TRUE(until());
  }
  static void pause() { ::poll(nullptr, 0, 1); }

  std::shared_ptr<Transfer> request(Connection& of, std::vector<std::byte>& memory) {
    auto transfer = std::make_shared<Transfer>();
    transfer->at = memory.data();
    transfer->bytes = memory.size();
    of.add(transfer);
    return transfer;
  }

  uint16_t port_ = 0;
  base::FileDescriptor listener_;
  std::unique_ptr<Connection> sender_, receiver_;
};

std::vector<std::byte> numbered(size_t bytes, unsigned from = 1) {
  std::vector<std::byte> all(bytes);
  for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(from + i * 7);
  return all;
}

TEST_F(Connections, MessagesMeetRequestsInTheirOrder) {
  meet();
  auto first = numbered(10), second = numbered(3, 50), nothing = numbered(0);
  std::vector<std::byte> a(10), b(64), c(1);
  const auto sent = request(*sender_, first), sent_second = request(*sender_, second),
             sent_nothing = request(*sender_, nothing);
  EXPECT_EQ(sender_->in_flight(), 3u);
  EXPECT_EQ(sent->number + 1, sent_second->number);
  const auto got = request(*receiver_, a), got_second = request(*receiver_, b),
             got_nothing = request(*receiver_, c);
  turns([&] { return sent_nothing->done && got_nothing->done; });
  EXPECT_EQ(a, first);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), b.begin())) << "shorter than its room";
  EXPECT_EQ(b[3], std::byte{0});
  EXPECT_EQ(got->moved, 10u);
  EXPECT_EQ(got_second->moved, 3u);
  EXPECT_EQ(got_nothing->moved, 0u);
  EXPECT_EQ(sent->moved, 10u);
  EXPECT_EQ(sent_second->moved, 3u);
  for (const auto& transfer : {sent, sent_second, got, got_second}) {
    EXPECT_TRUE(transfer->done);
    EXPECT_FALSE(transfer->error);
  }
  EXPECT_EQ(sender_->in_flight(), 0u);
  EXPECT_EQ(receiver_->in_flight(), 0u);
}

TEST_F(Connections, AMessageIsNotDoneBeforeTheReceiverHasIt) {
  meet();
  auto message = numbered(100);
  const auto sent = request(*sender_, message);
  for (int turn = 0; turn < 20; ++turn) {
    sender_->progress(events_of(*sender_));
    receiver_->progress(events_of(*receiver_));
  }
  EXPECT_FALSE(sent->done);
  EXPECT_EQ(sender_->in_flight(), 1u) << "sent, and not answered";
  EXPECT_EQ(receiver_->interest() & POLLIN, 0) << "without a request it reads nothing";
  std::vector<std::byte> room(100);
  const auto got = request(*receiver_, room);
  EXPECT_NE(receiver_->interest() & POLLIN, 0);
  turns([&] { return sent->done; });
  EXPECT_TRUE(got->done);
  EXPECT_EQ(room, message);
}

TEST_F(Connections, ALargeMessageMovesInTurnsOfAMebibyte) {
  meet();
  constexpr size_t kBytes = (3u << 20) + 5;
  auto message = numbered(kBytes);
  std::vector<std::byte> room(kBytes);
  const auto sent = request(*sender_, message), got = request(*receiver_, room);
  sender_->progress(POLLOUT);
  EXPECT_FALSE(sent->done);
  EXPECT_EQ(sender_->in_flight(), 1u) << "one call moves a part of it";
  turns([&] { return sent->done; });
  EXPECT_EQ(got->moved, kBytes);
  EXPECT_EQ(room, message);
  EXPECT_FALSE(sender_->busy());
  EXPECT_FALSE(receiver_->busy());
}

TEST_F(Connections, AMessageThatIsTooLongFailsOnBothSidesAndTheNextGoesOn) {
  meet();
  auto large = numbered(40000), next = numbered(4, 9);
  std::vector<std::byte> small(39999), room(4);
  const auto sent = request(*sender_, large), sent_next = request(*sender_, next);
  const auto got = request(*receiver_, small), got_next = request(*receiver_, room);
  turns([&] { return sent_next->done && got_next->done; });
  ASSERT_TRUE(sent->error && got->error);
  EXPECT_EQ(sent->error->status, NRT_INVALID);
  EXPECT_THAT(sent->error->sentence,
              AllOf(HasSubstr("a message of 40000 bytes to core 8 of 127.0.0.1 (process "),
                    HasSubstr("the receiver has room for 39999")));
  EXPECT_THAT(got->error->sentence,
              AllOf(HasSubstr("core 3 of 127.0.0.1 (process "),
                    HasSubstr("sent a message of 40000 bytes, and the request has room for 39999; "
                              "nothing was received")));
  EXPECT_EQ(got->moved, 0u);
  EXPECT_EQ(std::count(small.begin(), small.end(), std::byte{0}), 39999);
  EXPECT_FALSE(sent_next->error || got_next->error);
  EXPECT_EQ(room, next);
}

TEST_F(Connections, WhatIsUnderWayFailsWhenThePeerIsGone) {
  meet();
  std::vector<std::byte> room(4), more(4);
  const auto got = request(*receiver_, room), got_more = request(*receiver_, more);
  sender_.reset();
  for (int turn = 0; turn < 500 && receiver_->state() == State::kConnected; ++turn) {
    receiver_->progress(events_of(*receiver_));
  }
  EXPECT_EQ(receiver_->state(), State::kEnded);
  ASSERT_TRUE(got->error && got_more->error && receiver_->error());
  EXPECT_EQ(got->error->status, NRT_FAILURE);
  EXPECT_THAT(got->error->sentence,
              AllOf(HasSubstr("core 3 of 127.0.0.1 (process "),
                    HasSubstr("is gone, with 2 requests of core 8 under way: it closed the "
                              "connection: its process ended or closed the core")));
  EXPECT_TRUE(got->done);
  EXPECT_EQ(receiver_->in_flight(), 0u);
  EXPECT_EQ(receiver_->socket(), -1);
}

TEST_F(Connections, WhatASenderThatIsGoneHasSentIsStillReceived) {
  meet();
  auto message = numbered(12);
  (void)request(*sender_, message);
  sender_->progress(POLLOUT);
  sender_.reset();
  for (int turn = 0; turn < 50; ++turn) receiver_->progress(events_of(*receiver_));
  EXPECT_EQ(receiver_->state(), State::kConnected);
  EXPECT_EQ(receiver_->socket(), -1) << "nothing new can be told of it";
  std::vector<std::byte> room(12);
  const auto got = request(*receiver_, room);
  EXPECT_NE(receiver_->socket(), -1);
  for (int turn = 0; turn < 50 && !got->done; ++turn) receiver_->progress(events_of(*receiver_));
  EXPECT_TRUE(got->done);
  EXPECT_FALSE(got->error);
  EXPECT_EQ(room, message);
}

TEST_F(Connections, AnEndThatSomebodyWantsIsTheErrorOfWhatIsUnderWay) {
  meet();
  auto message = numbered(12);
  const auto sent = request(*sender_, message);
  sender_->end(fail(NRT_FAILURE, "core 3 is closed"));
  sender_->end(fail(NRT_FAILURE, "it is ended twice"));
  EXPECT_TRUE(sent->done);
  ASSERT_TRUE(sent->error && sender_->error());
  EXPECT_EQ(sent->error->sentence, "core 3 is closed");
  EXPECT_EQ(sender_->error()->sentence, "core 3 is closed") << "the first one";
  EXPECT_EQ(sender_->in_flight(), 0u);
}

TEST_F(Connections, AnAnswerToAMessageThatWasNotSentEndsTheConnection) {
  Introduction says, mine;
  const base::FileDescriptor socket = accepted(says);
  mine.from_core = kReceiver;
  mine.to_core = kSender;
  ASSERT_EQ(::send(socket.get(), &mine, sizeof mine, MSG_NOSIGNAL), ssize_t{sizeof mine});
  auto message = numbered(12);
  for (int turn = 0; turn < 500 && sender_->state() == State::kMeeting; ++turn) {
    sender_->progress(events_of(*sender_));
  }
  ASSERT_EQ(sender_->state(), State::kConnected);
  const auto sent = request(*sender_, message);
  // Of other numbers, or of more bytes than were sent.
  const Frame wrong{.kind = FrameKind::kReceived, .number = sent->number, .bytes = 13};
  sender_->progress(POLLOUT);
  ASSERT_EQ(::send(socket.get(), &wrong, sizeof wrong, MSG_NOSIGNAL), ssize_t{sizeof wrong});
  for (int turn = 0; turn < 500 && !sent->done; ++turn) sender_->progress(events_of(*sender_));
  ASSERT_TRUE(sent->error);
  EXPECT_THAT(sent->error->sentence, HasSubstr("Protocol error"));
}

TEST_F(Connections, AnotherCoreThanTheExpectedOneIsRefused) {
  Introduction says, mine;
  const base::FileDescriptor socket = accepted(says);
  mine.from_core = kReceiver + 1;
  ASSERT_EQ(::send(socket.get(), &mine, sizeof mine, MSG_NOSIGNAL), ssize_t{sizeof mine});
  for (int turn = 0; turn < 500 && sender_->state() == State::kMeeting; ++turn) {
    sender_->progress(events_of(*sender_));
  }
  ASSERT_TRUE(sender_->error());
  EXPECT_THAT(sender_->error()->sentence,
              HasSubstr(format("what answers at 127.0.0.1 port {} is not core 8", port_)));
}

TEST(ConnectionsOfNobody, FailAtTheirDeadlineWithTheReason) {
  uint16_t port = 0;
  listen_anywhere(port).reset();  // Nobody listens there any more.
  Connection sender(Role::kSends, {loopback(), port, kReceiver}, kSender, Clock::now() + 120ms);
  for (int turn = 0; turn < 500 && sender.state() == State::kMeeting; ++turn) {
    const short events = events_of(sender);
    if (events == 0) ::poll(nullptr, 0, 5);
    sender.progress(events);
  }
  ASSERT_TRUE(sender.error());
  EXPECT_EQ(sender.error()->status, NRT_TIMEOUT);
  EXPECT_EQ(sender.error()->sentence,
            format("core 8 of 127.0.0.1 did not come in time: port {}: Connection refused", port));

  Connection receiver(Role::kReceives, {loopback(), port, kSender}, kReceiver, Clock::now());
  EXPECT_EQ(receiver.state(), State::kMeeting);
  receiver.progress(0);
  ASSERT_TRUE(receiver.error());
  EXPECT_EQ(receiver.error()->sentence,
            "core 3 of 127.0.0.1 did not come in time: it has not connected to core 8");
}

TEST_F(Connections, AListenerThatClosesIsAskedAgain) {
  Introduction says;
  accepted(says).reset();
  const auto asked = [&] {
    HostAddress from;
    base::FileDescriptor again;
    for (int turn = 0; turn < 500 && !again; ++turn) {
      sender_->progress(events_of(*sender_));
      again = accept_from(listener_.get(), from);
      if (!again) pause();
    }
    return static_cast<bool>(again);
  };
  EXPECT_TRUE(asked());
  EXPECT_EQ(sender_->state(), State::kMeeting);
  EXPECT_FALSE(sender_->error());
}

}  // namespace
}  // namespace neuron::runtime
