// SPDX-License-Identifier: Apache-2.0
// The table of calls against the driver's own list.
#include "driver/emulator/service/calls.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <set>
#include <system_error>

#include "driver/emulator/service/error.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

std::vector<Call> all_calls() {
  std::vector<Call> calls;
  for (const auto& group : {kCopyCalls, kMemoryCalls, kDmaCalls, kCoreCalls, kDeviceCalls}) {
    calls.insert(calls.end(), group.begin(), group.end());
  }
  return calls;
}

TEST(Calls, EachRowTakesTheArgumentThatTheDriverListsForItsCall) {
  for (const Call& call : all_calls()) {
    const nd_ioctl* listed = nullptr;
    ASSERT_EQ(nd_ioctl_find(call.request, &listed), 0) << std::hex << call.request;
    EXPECT_EQ(call.argument_bytes, listed->argument_size) << listed->name;
  }
}

TEST(Calls, NoCallHasTwoRows) {
  std::set<uint32_t> seen;
  for (const Call& call : all_calls()) EXPECT_TRUE(seen.insert(call.request).second);
}

class CallsOfASession : public ServiceTest {};

TEST_F(CallsOfASession, ACallWithoutARowIsNamedInItsRefusal) {
  neuron_ioctl_dmabuf_fd argument = {};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMABUF_FD, &argument), -EOPNOTSUPP);
  EXPECT_THAT(last_error(), ::testing::HasSubstr("does not serve DMABUF_FD"));
}

TEST_F(CallsOfASession, WhateverFailsInACallIsItsAnswerAndTheNextOneIsServed) {
  neuron_ioctl_semaphore read = {0, 0, 0};
  behaviour_.before_read = [](uint64_t) {
    throw std::system_error(EAGAIN, std::system_category());
  };
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &read), -EIO);
  EXPECT_THAT(last_error(), ::testing::HasSubstr("was given up: Resource temporarily unavailable"));
  behaviour_.before_read = [](uint64_t) { throw std::bad_alloc(); };
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &read), -ENOMEM);
  behaviour_.before_read = nullptr;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &read), 0) << last_error();
}

}  // namespace
}  // namespace neuron::service
