// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

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

// One of each kind, of 64 bytes.
class KindsOfStorage : public ::testing::Test {
 protected:
  std::vector<std::shared_ptr<Storage>> all() {
    return {*Storage::device(*machine_.device, 0, 64, mappings_, "d"),
            *Storage::pinned(*machine_.device, 0, 64, mappings_, "p"), *Storage::plain(64, "h"),
            Storage::attached(buffer_, 64)};
  }
  // Copies by the driver since the last call.
  size_t copies() {
    const size_t now = machine_.state.count(NEURON_IOCTL_MEM_BUF_ZEROCOPY64) +
                       machine_.state.count(NEURON_IOCTL_MEM_COPY64) +
                       machine_.state.count(NEURON_IOCTL_MEMSET64);
    return now - std::exchange(seen_, now);
  }
  FakeMachine machine_;
  MappingTable mappings_;
  alignas(64) std::byte buffer_[64] = {};
  size_t seen_ = 0;
};

TEST_F(KindsOfStorage, AreWrittenReadAndFilledTheDevicesByTheDriver) {
  for (const auto& storage : all()) {
    const size_t by_driver = storage->kind() == StorageKind::kDevice ? 1 : 0;
    copies();
    ASSERT_TRUE(storage->fill(0, 64, 0x1FF));
    EXPECT_EQ(copies(), by_driver);
    ASSERT_TRUE(storage->write("abcdef", 10, 6));
    EXPECT_EQ(copies(), by_driver);
    ASSERT_TRUE(storage->fill(12, 2, 'x'));
    copies();
    char text[9] = {};
    ASSERT_TRUE(storage->read(text, 9, 8));
    EXPECT_EQ(copies(), by_driver);
    EXPECT_STREQ(text, "\xFF\x61\x62xxef\xFF");
  }
}

TEST_F(KindsOfStorage, AreCopiedFromAndToEachOther) {
  for (const auto& source : all()) {
    for (const auto& target : all()) {
      if (source->kind() == StorageKind::kAttached && target->kind() == StorageKind::kAttached) {
        continue;  // the same memory
      }
      ASSERT_TRUE(source->fill(0, 64, '.'));
      ASSERT_TRUE(target->fill(0, 64, '-'));
      ASSERT_TRUE(source->write("abcdef", 4, 6));
      copies();
      ASSERT_TRUE(Storage::copy(*source, 5, *target, 20, 4));
      const bool by_driver =
          source->kind() == StorageKind::kDevice || target->kind() == StorageKind::kDevice;
      EXPECT_EQ(copies(), by_driver ? 1u : 0u);
      char text[7] = {};
      ASSERT_TRUE(target->read(text, 19, 6));
      EXPECT_STREQ(text, "-bcde-");
    }
  }
}

}  // namespace
}  // namespace neuron::runtime
