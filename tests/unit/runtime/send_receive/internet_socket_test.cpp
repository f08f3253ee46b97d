// SPDX-License-Identifier: Apache-2.0
#include "runtime/send_receive/internet_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>

namespace neuron::runtime {
namespace {

using ::testing::HasSubstr;

HostAddress address_of(const std::string& text) {
  const auto address = HostAddress::parse(text);
  EXPECT_TRUE(address) << text;
  return address ? *address : HostAddress{};
}

TEST(InternetSocket, AnAddressWithoutAScopeMeansThatOfAnyInterface) {
  HostAddress here = address_of("fe80::1");
  HostAddress at_two = here, at_three = here;
  at_two.scope = 2;
  at_three.scope = 3;
  EXPECT_TRUE(here.same_as(at_two));
  EXPECT_TRUE(at_three.same_as(here));
  EXPECT_TRUE(at_two.same_as(at_two));
  EXPECT_FALSE(at_two.same_as(at_three));
  EXPECT_FALSE(here.same_as(address_of("fe80::2")));
  EXPECT_TRUE(address_of("10.0.0.1").same_as(address_of("::ffff:10.0.0.1")));
}

TEST(InternetSocket, RefusesNames) {
  const auto name = HostAddress::parse("localhost");
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().status, NRT_INVALID);
  EXPECT_THAT(name.error().sentence, HasSubstr("fe80::1%eth0"));
}

// The system gives a connection to a port at which nobody listens that port itself now and then:
// then it is connected to itself, and reads what it writes.
TEST(InternetSocket, AConnectionThatHasMetItselfCountsAsRefused) {
  base::FileDescriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(socket) << "this host has no IPv6";
  const int off = 0;
  ASSERT_EQ(::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)), 0);
  sockaddr_in6 own = {};
  own.sin6_family = AF_INET6;
  own.sin6_addr = address_of("127.0.0.1").bytes;
  socklen_t size = sizeof(own);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&own), size), 0);
  ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&own), size), 0)
      << "TCP lets a socket connect to itself";
  EXPECT_EQ(outcome_of_connecting(socket.get()), ECONNREFUSED);
}

TEST(InternetSocket, AConnectionToAListenerIsNotTakenForOneToItself) {
  base::FileDescriptor listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(listener);
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_loopback;
  socklen_t size = sizeof(any);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
  base::FileDescriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
  EXPECT_EQ(outcome_of_connecting(socket.get()), 0);
}

}  // namespace
}  // namespace neuron::runtime
