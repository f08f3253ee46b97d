// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;
using ::testing::HasSubstr;

TEST(Storage, SaysWhatTheMemoryIsFor) {
  FakeMachine machine;
  MappingTable mappings;
  const auto device = Storage::device(*machine.device, 1, 64, mappings, "d");
  const auto pinned = Storage::pinned(*machine.device, 1, 64, mappings, "p");
  ASSERT_TRUE(device && pinned);
  EXPECT_EQ((*device)->kind(), StorageKind::kDevice);
  EXPECT_EQ((*pinned)->kind(), StorageKind::kPinned);
  EXPECT_TRUE((*device)->reachable());
  EXPECT_EQ((*device)->size(), 64u);
  EXPECT_EQ(machine.state.at_address((*device)->memory()->address()).request.mem_type,
            static_cast<uint32_t>(NEURON_MEMALLOC_TYPE_TENSORS_DEVICE));
  EXPECT_EQ(machine.state.at_address((*pinned)->memory()->address()).request.mem_type,
            static_cast<uint32_t>(NEURON_MEMALLOC_TYPE_TENSORS_HOST));
  EXPECT_EQ(machine.state.at_address((*pinned)->memory()->address()).request.host_memory, 1u);
}

TEST(Storage, IsFoundByItsAddressWhileItIsMapped) {
  FakeMachine machine;
  MappingTable mappings;
  auto storage = Storage::device(*machine.device, 0, 64, mappings, "d");
  ASSERT_TRUE(storage);
  const auto first = (*storage)->address();
  ASSERT_TRUE(first);
  EXPECT_EQ(*(*storage)->address(), *first);
  const auto at = reinterpret_cast<uint64_t>(*first);
  EXPECT_TRUE(mappings.find(at, 64));
  EXPECT_FALSE(mappings.find(at, 65));
  storage->reset();
  EXPECT_FALSE(mappings.find(at, 1));
}

TEST(Storage, OfTheHostIsAlignedAndUnreachableForDevices) {
  const auto storage = Storage::plain(1, "h");
  ASSERT_TRUE(storage);
  EXPECT_EQ(reinterpret_cast<uint64_t>(*(*storage)->address()) % 64, 0u);
  EXPECT_FALSE((*storage)->reachable());
  EXPECT_EQ((*storage)->kind(), StorageKind::kPlain);
}

TEST(Storage, RefusesMoreThanAnAddressSpaceHasBeforeItAsks) {
  const auto none = Storage::plain(static_cast<uint64_t>(PTRDIFF_MAX) - 62, "huge");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().status, NRT_RESOURCE);
  EXPECT_THAT(none.error().sentence, HasSubstr("no process has as many"));
  const auto most = Storage::plain(static_cast<uint64_t>(PTRDIFF_MAX) - 63, "large");
  ASSERT_FALSE(most);
  EXPECT_THAT(most.error().sentence, HasSubstr("tensor 'large' cannot be had"));
}

}  // namespace
}  // namespace neuron::runtime
