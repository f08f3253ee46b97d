// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/hbm.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>

namespace neuron::chip {
namespace {

class FakePlacement final : public MemoryPlacement {
 public:
  explicit FakePlacement(int nodes, bool works = true) : nodes_(nodes), works_(works) {}
  int node_count() const override { return nodes_; }
  bool prefer(void*, size_t bytes, int node) override {
    asked_bytes = bytes;
    asked_node = node;
    return works_;
  }
  size_t asked_bytes = 0;
  int asked_node = -1;

 private:
  int nodes_;
  bool works_;
};

constexpr uint64_t kStack = NEURON_V2_HBM_SIZE;

std::unique_ptr<Hbm> full_size(MemoryPlacement& placement = host_placement(), int node = -1) {
  std::string error;
  auto hbm = Hbm::create(2, kStack, node, placement, error);
  EXPECT_NE(hbm, nullptr) << error;
  return hbm;
}

TEST(Hbm, Gives32GiBOfAddressesWithoutUsingMemory) {
  const auto hbm = full_size();
  EXPECT_EQ(hbm->resident_bytes(), 0u);
  ASSERT_NE(hbm->direct(kStack - 8, 8), nullptr);
  ASSERT_NE(hbm->direct(NEURON_V2_HBM_STRIDE + kStack - 8, 8), nullptr);
  *hbm->direct(NEURON_V2_HBM_STRIDE, 1) = std::byte{5};
  EXPECT_EQ(*hbm->direct(0, 1), std::byte{0});
  EXPECT_GT(hbm->resident_bytes(), 0u);
  EXPECT_LE(hbm->resident_bytes(), uint64_t{4} << 20);
}

// The host answers a file that grows beyond the limit with a signal that ends the process.
TEST(Hbm, NamesTheLimitOfFileSizesThatItDoesNotFit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{uint64_t{1} << 30, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  std::string error;
  const auto hbm = Hbm::create(2, kStack, -1, host_placement(), error);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(hbm, nullptr);
  EXPECT_NE(error.find("ulimit -f"), std::string::npos) << error;
}

TEST(Hbm, HasNoPointerOutsideItsStacks) {
  const auto hbm = full_size();
  EXPECT_EQ(hbm->direct(kStack, 1), nullptr);
  EXPECT_EQ(hbm->direct(kStack - 1, 2), nullptr);
  EXPECT_EQ(hbm->direct(NEURON_V2_HBM_STRIDE - 1, 1), nullptr);
  EXPECT_EQ(hbm->direct(2 * NEURON_V2_HBM_STRIDE, 1), nullptr);
  EXPECT_EQ(hbm->direct(16, UINT64_MAX), nullptr);
  EXPECT_EQ(hbm->file_offset(kStack), UINT64_MAX);
}

TEST(Hbm, MapsThroughItsFileInTheLayoutOfBar4) {
  const auto hbm = full_size();
  EXPECT_EQ(hbm->file_offset(NEURON_V2_HBM_STRIDE + 0x2000), kStack + 0x2000);
  void* mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, hbm->fd(),
                      static_cast<off_t>(hbm->file_offset(NEURON_V2_HBM_STRIDE + 0x2000)));
  ASSERT_NE(mapped, MAP_FAILED);
  std::memcpy(hbm->direct(NEURON_V2_HBM_STRIDE + 0x2000, 5), "hello", 5);
  EXPECT_EQ(std::memcmp(mapped, "hello", 5), 0);
  munmap(mapped, 4096);
}

TEST(Hbm, DiscardGivesWholePagesBackAndLeavesTheRest) {
  const auto hbm = full_size();
  std::byte* at = hbm->direct(0, 4 << 20);
  std::memset(at, 0x5A, 4 << 20);
  const uint64_t before = hbm->resident_bytes();
  EXPECT_TRUE(hbm->discard(100, (4 << 20) - 200));
  EXPECT_LT(hbm->resident_bytes(), before);
  EXPECT_EQ(at[99], std::byte{0x5A});
  EXPECT_EQ(at[4096], std::byte{0});
  EXPECT_EQ(at[(4 << 20) - 50], std::byte{0x5A});
  EXPECT_TRUE(hbm->discard(5000, 10));  // no whole page inside
  EXPECT_FALSE(hbm->discard(kStack - 4096, 8192));
}

TEST(Hbm, PrefersTheConfiguredNodeOfTheHost) {
  FakePlacement two(2);
  EXPECT_EQ(full_size(two, 1)->placement_note(), "NUMA node 1");
  EXPECT_EQ(two.asked_node, 1);
  EXPECT_EQ(two.asked_bytes, 2 * kStack);
}

TEST(Hbm, StaysUsableWhereTheNodeIsMissingOrRefused) {
  FakePlacement one(1);
  EXPECT_EQ(full_size(one, 3)->placement_note(), "no preference: the host has no NUMA node 3");
  EXPECT_EQ(one.asked_node, -1);
  FakePlacement refuses(2, false);
  EXPECT_NE(full_size(refuses, 1)->placement_note().find("refused"), std::string::npos);
}

TEST(Hbm, RefusesSizesItCannotAddress) {
  std::string error;
  EXPECT_EQ(Hbm::create(3, kStack, -1, host_placement(), error), nullptr);
  EXPECT_NE(error.find("3 stacks"), std::string::npos);
  EXPECT_EQ(Hbm::create(1, 1000, -1, host_placement(), error), nullptr);
  EXPECT_EQ(Hbm::create(0, kStack, -1, host_placement(), error), nullptr);
}

}  // namespace
}  // namespace neuron::chip
