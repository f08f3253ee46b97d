// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/io_space.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "driver/base/backoff.h"

namespace neuron::service {
namespace {

TEST(IoSpace, TranslatesExactlyTheMappedBytesEvenAcrossSlots) {
  IoSpace space;
  std::vector<std::byte> memory(40 << 20);
  const uint64_t a = space.map(memory.data(), memory.size());
  ASSERT_NE(a, 0u);
  EXPECT_EQ(space.translate(a, memory.size()), memory.data());
  EXPECT_EQ(space.translate(a + (16 << 20) - 1, 2), memory.data() + (16 << 20) - 1);
  EXPECT_EQ(space.translate(a + memory.size() - 1, 1), memory.data() + memory.size() - 1);
  EXPECT_EQ(space.translate(a + memory.size() - 1, 2), nullptr);
  EXPECT_EQ(space.translate(a - 1, 1), nullptr);
  EXPECT_EQ(space.translate(0, 1), nullptr);
  EXPECT_EQ(space.translate(~uint64_t{0}, 1), nullptr);
  space.unmap(a, memory.size());
  EXPECT_EQ(space.translate(a, 1), nullptr);
  EXPECT_NE(space.map(memory.data(), 10), a);  // addresses rotate
}

TEST(IoSpace, ShowsWhatTheDriverKeepsToItsOwnQueuesAlone) {
  IoSpace space;
  std::vector<std::byte> shared(4096), own(4096);
  const uint64_t a = space.map(shared.data(), shared.size());
  const uint64_t b = space.map_own(own.data(), own.size());
  ASSERT_NE(a, 0u);
  ASSERT_NE(b, 0u);
  EXPECT_EQ(space.translate(a, 4096), shared.data());
  EXPECT_EQ(space.translate(b, 4096), own.data());
  EXPECT_EQ(space.clients().translate(a, 4096), shared.data());
  EXPECT_EQ(space.clients().translate(b, 4096), nullptr);
  EXPECT_EQ(space.clients().translate(b & ~(uint64_t{1} << 43), 4096), shared.data())
      << "the same slot of the other space";
  EXPECT_LT(b, uint64_t{1} << 44) << "fits behind the host bit";
  space.unmap(b, own.size());
  EXPECT_EQ(space.translate(b, 1), nullptr);
  EXPECT_EQ(space.translate(a, 1), shared.data());
}

// Both views, and both spaces.
TEST(IoSpace, UnmapsOnlyWhenTheTransfersHaveEndedThatHadBegun) {
  IoSpace space;
  std::vector<std::byte> memory(4096);
  for (const bool own : {false, true}) {
    chip::HostMemory& view = own ? static_cast<chip::HostMemory&>(space) : space.clients();
    const uint64_t address =
        own ? space.map_own(memory.data(), memory.size()) : space.map(memory.data(), memory.size());
    std::atomic<bool> gone = false;
    std::thread owner;
    {
      const chip::Transfer transfer(view);
      ASSERT_EQ(view.translate(address, 4096), memory.data());
      owner = std::thread([&] {
        space.unmap(address, memory.size());
        gone = true;
      });
      // The address goes at once, for those that come later; the memory does not.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (view.translate(address, 1) != nullptr && std::chrono::steady_clock::now() < deadline) {
        base::yield_processor();
      }
      EXPECT_EQ(view.translate(address, 1), nullptr);
      base::sleep_for(std::chrono::milliseconds(5));
      EXPECT_FALSE(gone);
    }
    owner.join();
    EXPECT_TRUE(gone);
  }
}

// A transfer whose memory is freed under it would be seen by the address sanitizer.
TEST(IoSpace, KeepsMemoryUnderTransfersOfManyThreadsThatComeAndGo) {
  IoSpace space;
  std::atomic<uint64_t> published = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  std::atomic<uint64_t> found = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const chip::Transfer transfer(space);
        const std::byte* memory = space.translate(published.load(), 512);
        if (memory == nullptr) continue;
        for (int i = 0; i < 512; ++i) {
          if (memory[i] != std::byte{7}) std::abort();
        }
        ++found;
      }
    });
  }
  // Until there were enough encounters for some to have met the end of a mapping.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int round = 0; round < 30 || found < 30; ++round) {
    auto memory = std::make_unique<std::vector<std::byte>>(512, std::byte{7});
    const uint64_t address = space.map_own(memory->data(), memory->size());
    published = address;
    base::yield_processor();
    space.unmap(address, memory->size());
    std::fill(memory->begin(), memory->end(), std::byte{0});
    memory.reset();
    if (std::chrono::steady_clock::now() > deadline) break;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(found, 30u);
}

}  // namespace
}  // namespace neuron::service
