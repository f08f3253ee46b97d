// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>

#include "nrt/nec.h"
#include "nrt/nrt.h"
#include "nrt/nrt_open.h"
#include "nrt/nrt_version.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakePort;
using test::FakeState;
using ::testing::HasSubstr;

// Sizes, offsets out, offsets in and sizes that came, of three ranks.
class DynamicAllToAll : public ::testing::Test {
 protected:
  DynamicAllToAll() { std::iota(words_.begin(), words_.end(), 100); }
  std::array<uint32_t, 12> words_{};
  enc_host_mem_t memory_ = [this] {
    enc_host_mem_t memory{};
    memory.va = words_.data();
    memory.size = sizeof(words_);
    return memory;
  }();
};

TEST_F(DynamicAllToAll, HasFourWordsForEachRank) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(nec_get_dynamic_send_size_bytes(&memory_, 4, rank, 3), 4u * (100 + rank));
    EXPECT_EQ(nec_get_dynamic_send_offset_bytes(&memory_, 2, rank, 3), 2u * (103 + rank));
    EXPECT_EQ(nec_get_dynamic_recv_offset_bytes(&memory_, 8, rank, 3), 8u * (106 + rank));
    nec_set_recv_size_bytes(&memory_, 40, 4, rank, 3);
    EXPECT_EQ(words_[9 + rank], 10u);
  }
}

TEST_F(DynamicAllToAll, ARankThatHasNoWordHasNoBytes) {
  const auto before = words_;
  EXPECT_EQ(nec_get_dynamic_send_size_bytes(&memory_, 4, -1, 3), 0u);
  EXPECT_EQ(nec_get_dynamic_send_size_bytes(&memory_, 4, 3, 3), 0u);
  EXPECT_EQ(nec_get_dynamic_send_size_bytes(nullptr, 4, 0, 3), 0u);
  nec_set_recv_size_bytes(&memory_, 40, 4, 3, 3);
  nec_set_recv_size_bytes(&memory_, 40, 0, 0, 3);
  memory_.size -= 1;
  nec_set_recv_size_bytes(&memory_, 40, 4, 2, 3);
  nec_set_recv_size_bytes(nullptr, 40, 4, 2, 3);
  EXPECT_EQ(words_, before);
  nec_set_recv_size_bytes(&memory_, 40, 4, 1, 3);
  EXPECT_EQ(words_[10], 10u) << "the words before it are whole";
  memory_.va = nullptr;
  EXPECT_EQ(nec_get_dynamic_recv_offset_bytes(&memory_, 4, 0, 3), 0u);
}

TEST(Semaphore, IsIncrementedByAStore) {
  volatile uint32_t word = 0;
  nec_inc_semaphore(&word, 5);
  EXPECT_EQ(word, 5u);
  nec_inc_semaphore(nullptr, 5);
}

class Devices : public ::testing::Test {
 protected:
  explicit Devices(uint32_t generation = 2) {
    state_.generation = generation;
    state_.devices = 2;
    state_.routing_ids = {7, 5};
    state_.connected = {1, 0};
    ndl::set_port(std::make_unique<FakePort>(state_));
  }
  ~Devices() override {
    nrt_close();
    ndl::release_port();
  }
  void build() {
    int places[] = {10, 11}, devices[] = {0, 1};
    ASSERT_EQ(nec_build_port_and_rid_map(0, places, devices, 2), NRT_SUCCESS);
  }
  FakeState state_;
};

TEST_F(Devices, AreCountedInASessionOnly) {
  EXPECT_EQ(nec_get_device_count(nullptr, 0), -1);
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  EXPECT_EQ(nec_get_device_count(nullptr, 2), 2);
  int devices[3] = {9, 9, 9};
  EXPECT_EQ(nec_get_device_count(devices, 1), 2);
  EXPECT_THAT(devices, ::testing::ElementsAre(0, 9, 9)) << "the array has one place";
  EXPECT_EQ(nec_get_device_count(devices, 3), 2);
  EXPECT_THAT(devices, ::testing::ElementsAre(0, 1, 9));
}

TEST_F(Devices, HaveAPlaceAndARoutingId) {
  build();
  EXPECT_EQ(nec_mla_idx_to_rid(0, 10), 7);
  EXPECT_EQ(nec_mla_idx_to_rid(0, 11), 5);
  EXPECT_EQ(nec_mla_idx_to_rid(0, 12), -1);
  EXPECT_EQ(nec_rid_to_mla_idx(0, 7), 10);
  EXPECT_EQ(nec_rid_to_mla_idx(0, 5), 11);
  EXPECT_EQ(nec_rid_to_mla_idx(0, 6), -1);
  EXPECT_TRUE(nec_is_mla_available(0, 11));
  EXPECT_FALSE(nec_is_mla_available(0, 12));
}

TEST_F(Devices, WithTheFirstRoutingIdAreThereToo) {
  state_.routing_ids = {0, 1};
  build();
  EXPECT_TRUE(nec_is_mla_available(0, 10));
}

TEST_F(Devices, OfATableThatCannotBeMadeStayAsTheyWere) {
  build();
  int places[] = {1, 2}, devices[] = {1, 2};
  EXPECT_EQ(nec_build_port_and_rid_map(0, places, devices, 2), NRT_INVALID);
  EXPECT_STREQ(nrt_open_last_error(),
               "nec_build_port_and_rid_map: host_device_ids[1] is 2; this host has devices 0 to 1");
  devices[1] = -1;
  EXPECT_EQ(nec_build_port_and_rid_map(0, places, devices, 2), NRT_INVALID);
  EXPECT_EQ(nec_build_port_and_rid_map(0, nullptr, devices, 1), NRT_INVALID);
  EXPECT_EQ(nec_build_port_and_rid_map(0, places, nullptr, 1), NRT_INVALID);
  state_.failing[NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP] = -EIO;
  EXPECT_EQ(nec_build_port_and_rid_map(0, places, devices, 1), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("the driver does not tell routing ids (error 5)"));
  EXPECT_EQ(nec_mla_idx_to_rid(0, 10), 7);
}

TEST_F(Devices, ThatALinkJoinsArePeers) {
  build();
  EXPECT_EQ(nec_get_peer_mla_idx(0, 10, 0), -1) << "without a session";
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  EXPECT_EQ(nec_get_peer_mla_idx(0, 10, 0), 11);
  EXPECT_EQ(nec_get_peer_mla_idx(0, 10, 1), 10);
  EXPECT_EQ(nec_get_peer_mla_idx(0, 10, 2), -1);
  EXPECT_EQ(nec_get_peer_mla_idx(0, 10, -1), -1);
  EXPECT_EQ(nec_get_peer_mla_idx(0, 12, 0), -1);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("device place 12 has no port 0"));
}

TEST_F(Devices, HaveCoresOfOnePhysicalCoreUnlessTheirGenerationJoinsTwo) {
  uint32_t size = 0;
  EXPECT_EQ(nec_get_virtual_core_size(&size), NRT_SUCCESS);
  EXPECT_EQ(size, 1u);
  state_.generation = 3;
  EXPECT_EQ(nec_get_virtual_core_size(&size), NRT_SUCCESS);
  EXPECT_EQ(size, 2u);
  EXPECT_EQ(nec_get_virtual_core_size(nullptr), NRT_INVALID);
}

TEST(Version, IsThatOfTheRuntime) {
  nec_version_info_t version{};
  ASSERT_EQ(nec_get_version_info(&version), NRT_SUCCESS);
  nrt_version_t runtime{};
  ASSERT_EQ(nrt_get_version(&runtime, sizeof(runtime)), NRT_SUCCESS);
  EXPECT_EQ(version.major, runtime.rt_major);
  EXPECT_EQ(version.minor, runtime.rt_minor);
  EXPECT_EQ(version.patch, runtime.rt_patch);
  EXPECT_EQ(version.maintenance, runtime.rt_maintenance);
  EXPECT_EQ(version.compatibility_version, 1u);
  EXPECT_NE(version.git_hash[0], 0);
  EXPECT_EQ(nec_get_version_info(nullptr), NRT_INVALID);
}

TEST(Pod, NodesReachEachOtherThroughTheSwitchOrFromTheSamePlace) {
  const auto reaches = [](nec_pod_type_t type, uint32_t local, uint32_t node, uint32_t remote,
                          uint32_t other) {
    int can = -1;
    EXPECT_EQ(nec_pod_node_can_access_peer_node(type, local, node, remote, other, &can),
              NRT_SUCCESS);
    return can;
  };
  EXPECT_EQ(reaches(NEC_POD_TYPE_NONE, 1, 0, 2, 0), 1) << "one node";
  EXPECT_EQ(reaches(NEC_POD_TYPE_NONE, 1, 0, 1, 1), 0);
  EXPECT_EQ(reaches(NEC_POD_TYPE_P2P, 1, 0, 1, 1), 1);
  EXPECT_EQ(reaches(NEC_POD_TYPE_P2P, 1, 0, 2, 1), 0);
  EXPECT_EQ(reaches(NEC_POD_TYPE_SWITCH, 1, 0, 2, 1), 1);
  EXPECT_EQ(nec_pod_node_can_access_peer_node(NEC_POD_TYPE_P2P, 1, 0, 1, 1, nullptr), NRT_INVALID);
}

}  // namespace
}  // namespace neuron::runtime
