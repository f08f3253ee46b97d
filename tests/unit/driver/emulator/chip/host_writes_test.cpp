// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/host_writes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

TEST(HostWrites, KeepsTheLastOnesTheOldestFirst) {
  HostWrites writes;
  EXPECT_TRUE(writes.last().empty());
  for (uint64_t n = 0; n < HostWrites::kEntries + 10; ++n) writes.record({.address = n});
  const std::vector<HostWrite> all = writes.last();
  ASSERT_EQ(all.size(), HostWrites::kEntries);
  EXPECT_EQ(all.front().address, 10u);
  EXPECT_EQ(all.back().address, HostWrites::kEntries + 9);
  const std::vector<HostWrite> few = writes.last(3);
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few.front().address, HostWrites::kEntries + 7);
}

TEST(HostWrites, AreWholeWhileOtherThreadsWrite) {
  HostWrites writes;
  std::atomic<bool> stop = false;
  const auto write = [&] {
    for (uint64_t n = 1; !stop; ++n) {
      writes.record({.address = n, .bytes = 3 * n, .descriptor = static_cast<uint32_t>(7 * n)});
    }
  };
  std::thread first(write);
  std::thread second(write);
  for (int look = 0; look < 50; ++look) {
    for (const HostWrite& seen : writes.last()) {
      ASSERT_EQ(seen.bytes, 3 * seen.address);
      ASSERT_EQ(seen.descriptor, static_cast<uint32_t>(7 * seen.address));
    }
  }
  stop = true;
  first.join();
  second.join();
}

TEST(HostWrites, NameTheQueueTheDescriptorAndTheDelayOfACopy) {
  HostWrites writes;
  Machine m(3);
  m.bus.set_host_writes(&writes);
  m.host.add(0x10000, 0x4000);
  m.init(5, 64);
  m.fill(0x1000000, 0x1000, 1);
  m.copy(0, 0x1000000, 0x2000000, 64);  // inside the device: not recorded
  m.copy(1, 0x1000000, NEURON_V2_HOST_BASE + 0x11000, 0x800);
  m.copy(2, 0x1000000, NEURON_V2_HOST_BASE + 0x12000, 4);
  m.ring(5, 3, 3);
  const std::vector<HostWrite> all = writes.last();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].address, 0x11000u);
  EXPECT_EQ(all[0].bytes, 0x800u);
  EXPECT_EQ(all[0].kind, HostWriteKind::kCopy);
  EXPECT_EQ(all[0].engine, 3);
  EXPECT_EQ(all[0].queue, 5);
  EXPECT_EQ(all[0].descriptor, 1u);
  EXPECT_GT(all[0].waited_ns, 0u);
  EXPECT_EQ(all[1].kind, HostWriteKind::kWord);
  EXPECT_EQ(all[1].descriptor, 2u);
  const std::string line = all[0].describe();
  EXPECT_NE(line.find("0x11000 2048 bytes, copy, DMA engine 3 queue 5, S2M descriptor 1, "),
            std::string::npos)
      << line;
  EXPECT_NE(line.find("us behind its doorbell"), std::string::npos) << line;
}

}  // namespace
}  // namespace neuron::chip
