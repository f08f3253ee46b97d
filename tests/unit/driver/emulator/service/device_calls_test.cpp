// SPDX-License-Identifier: Apache-2.0
// Identity, versions, topology, registers; which calls exist and who may make them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "driver/emulator/service/error.h"
#include "tests/support/child.h"
#include "tests/support/setting.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

using DeviceCalls = ServiceTest;

TEST_F(DeviceCalls, AProcessWithTheNumberOfAnotherWaitsUntilThatOneIsFree) {
  const Client before = {4711, 1000, 1}, after = {4711, 1000, 2};
  Session* first = nullptr;
  Session* second = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, before, &first), 0) << last_error();
  EXPECT_EQ(instance_->open(0, O_RDWR, after, &second), -EAGAIN);
  EXPECT_THAT(last_error(), HasSubstr("pid 4711 was another process"));
  ASSERT_EQ(instance_->open(0, O_RDWR, before, &second), 0) << last_error();
  ASSERT_EQ(instance_->close(first), 0);
  ASSERT_EQ(instance_->close(second), 0);
  EXPECT_EQ(instance_->open(0, O_RDWR, after, &second), 0) << last_error();
}

TEST_F(DeviceCalls, AProcessNeitherFindsNorReplacesAQueueThatAnotherHasMade) {
  const Client one = {301, 1000, 1}, other = {302, 1000, 2};
  Session* first = nullptr;
  Session* second = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, one, &first), 0) << last_error();
  ASSERT_EQ(instance_->open(0, O_RDWR, other, &second), 0) << last_error();
  neuron_ioctl_notifications_init_v2 init = {};
  init.nq_type = NQ_TYPE_NOTIFY;
  init.size = 4096;
  init.on_host_memory = 1;
  ASSERT_EQ(first->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init), 0) << last_error();
  const uint64_t offset = init.mmap_offset;
  ASSERT_EQ(first->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init), 0);
  EXPECT_EQ(init.mmap_offset, offset);
  // Another one gets neither it nor its place, in whatever form it asks.
  init.mmap_offset = 0;
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init), -EBUSY);
  EXPECT_THAT(last_error(), HasSubstr("is pid 301's, which has the device open"));
  neuron_ioctl_notifications_init_v1 old = {};
  old.nq_type = NQ_TYPE_NOTIFY;
  old.size = 4096;
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V1, &old), -EBUSY);
  neuron_ioctl_notifications_init_with_realloc_v2 anew = {};
  anew.nq_type = NQ_TYPE_NOTIFY;
  anew.size = 4096;
  anew.on_host_memory = 1;
  anew.force_alloc_mem = 1;
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, &anew), -EBUSY);
  void* memory = nullptr;
  EXPECT_EQ(first->map(4096, 3, offset, &memory), 0) << last_error();
  // Its own process replaces it, and what a process has left behind is anybody's.
  ASSERT_EQ(first->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, &anew), 0)
      << last_error();
  EXPECT_NE(anew.mmap_offset, offset);
  ASSERT_EQ(instance_->close(first), 0);
  ASSERT_EQ(second->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init), 0) << last_error();
  EXPECT_NE(init.mmap_offset, anew.mmap_offset);
}

TEST_F(DeviceCalls, AQueueThatAProcessHasLeftIsFreeAlsoWhenItsPidIsGivenOutAgain) {
  const Client one = {301, 1000, 1}, again = {301, 1000, 2}, other = {302, 1000, 3};
  Session* first = nullptr;
  Session* second = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, one, &first), 0) << last_error();
  neuron_ioctl_notifications_init_v2 init = {};
  init.nq_type = NQ_TYPE_NOTIFY;
  init.size = 4096;
  init.on_host_memory = 1;
  ASSERT_EQ(first->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init), 0) << last_error();
  ASSERT_EQ(instance_->close(first), 0);
  ASSERT_EQ(instance_->open(0, O_RDWR, again, &first), 0) << last_error();
  ASSERT_EQ(instance_->open(0, O_RDWR, other, &second), 0) << last_error();
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init), 0) << last_error();
}

TEST_F(DeviceCalls, AProcessFetchesNoResultOfAnothersReset) {
  const Client one = {301, 1000, 1}, other = {302, 1000, 2};
  Session* first = nullptr;
  Session* second = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, one, &first), 0) << last_error();
  ASSERT_EQ(instance_->open(0, O_RDWR, other, &second), 0) << last_error();
  neuron_ioctl_device_reset reset = {1, 0};
  ASSERT_EQ(first->ioctl(NEURON_IOCTL_NC_RESET, &reset), 0) << last_error();
  ASSERT_EQ(reset.request_id, 301u);
  neuron_ioctl_device_ready ready = {reset.request_id, 0};
  // To the other one it is as a request that nobody has made.
  ASSERT_EQ(second->ioctl(NEURON_IOCTL_NC_RESET_READY, &ready), 0) << last_error();
  EXPECT_EQ(ready.result, 1);
  ready.result = 1;
  ASSERT_EQ(first->ioctl(NEURON_IOCTL_NC_RESET_READY, &ready), 0) << last_error();
  EXPECT_EQ(ready.result, 0);
}

TEST_F(DeviceCalls, TheLastPlacesAreForUsersWhoHaveNone) {
  ASSERT_EQ(instance_->close(session_), 0);
  const uint32_t user = ::geteuid() + 1;
  std::vector<Session*> sessions;
  const auto open = [&](int32_t pid, uint32_t of) {
    Session* session = nullptr;
    const int error = instance_->open(0, O_RDWR, {pid, of, static_cast<uint64_t>(pid)}, &session);
    if (error == 0) sessions.push_back(session);
    return error;
  };
  for (int32_t pid = 301; pid <= 312; ++pid) ASSERT_EQ(open(pid, user), 0) << last_error();
  EXPECT_EQ(open(313, user), -EBUSY);
  EXPECT_THAT(last_error(), HasSubstr("the last 4 are kept for users who have none"));
  EXPECT_EQ(open(312, user), 0) << last_error();  // a second descriptor takes no place
  // Datastores go with places: one each.
  for (Session* session : sessions) {
    neuron_ioctl_neuron_ds_info own = {};
    EXPECT_EQ(session->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &own), 0) << last_error();
  }
  for (int32_t n = 1; n <= 4; ++n) ASSERT_EQ(open(400 + n, user + n), 0) << last_error();
  neuron_ioctl_neuron_ds_info own = {};
  EXPECT_EQ(sessions.back()->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &own), 0) << last_error();
  EXPECT_EQ(open(405, user + 5), -EBUSY);
  EXPECT_THAT(last_error(), HasSubstr("16 processes have it open already"));
  // With one place fewer taken, it is still only for one who has none.
  ASSERT_EQ(instance_->close(sessions.front()), 0);
  EXPECT_EQ(open(401 + 10, user + 1), -EBUSY);
  EXPECT_EQ(open(405, user + 5), 0) << last_error();
}

TEST_F(DeviceCalls, TheUserOfTheDaemonMayHaveAllPlaces) {
  ASSERT_EQ(instance_->close(session_), 0);
  for (int32_t pid = 301; pid <= 316; ++pid) {
    Session* session = nullptr;
    const Client client = {pid, ::geteuid(), static_cast<uint64_t>(pid)};
    EXPECT_EQ(instance_->open(0, O_RDWR, client, &session), 0) << last_error();
  }
}

TEST_F(DeviceCalls, TellsWhatItIs) {
  neuron_ioctl_device_info info = {};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DEVICE_INFO, &info), 0);
  EXPECT_EQ(info.architecture, 2u);
  EXPECT_EQ(info.connected_device_count, 0u);
  EXPECT_EQ(info.bar_size[0], uint64_t{1} << 30);
  neuron_ioctl_compatible_version version = {};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_COMPATIBLE_VERSION, &version), 0);
  EXPECT_EQ(version.min, 5u);
  EXPECT_EQ(version.max, 7u);
  neuron_ioctl_device_driver_info driver = {};
  driver.size = sizeof(driver);
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DRIVER_INFO_GET, &driver), 0);
  EXPECT_EQ(driver.feature_flags1, 0x1FEu);
  driver.size = 8;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DRIVER_INFO_GET, &driver), -EINVAL);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DRIVER_INFO_SET, &driver), -524);
  neuron_ioctl_device_bdf_ext bdf = {};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DEVICE_BDF_EXT, &bdf), 0);
  EXPECT_EQ(bdf.slot, 0x1E);
  bdf.nd_index = 1;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DEVICE_BDF_EXT, &bdf), -EINVAL);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUIESCE_QUEUES, &info), -ENOTTY);
}

TEST_F(DeviceCalls, NeighboursFormATorusAndAddressesAreUnique) {
  instance_.reset();
  start("trn1.32xlarge", 0);
  Session* fifth = open(5, O_RDWR, kPid);
  neuron_ioctl_device_info info = {};
  ASSERT_EQ(fifth->ioctl(NEURON_IOCTL_DEVICE_INFO, &info), 0);
  EXPECT_EQ(std::vector<uint32_t>(info.connected_devices, info.connected_devices + 4),
            (std::vector<uint32_t>{1, 4, 9, 6}));
  neuron_ioctl_host_device_id id = {};
  ASSERT_EQ(fifth->ioctl(NEURON_IOCTL_HOST_DEVICE_ID, &id), 0);
  EXPECT_EQ(id.host_device_id, 5u);
  neuron_ioctl_host_device_id_to_rid_map map = {};
  ASSERT_EQ(fifth->ioctl(NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP, &map), 0);
  EXPECT_EQ(map.count, 16u);
  EXPECT_EQ(map.host_did_to_rid_map[5], 3u);
  EXPECT_EQ(instance_->open(16, O_RDWR, kPid, &fifth), -ENODEV);
  for (const char* name : {"trn1.32xlarge", "inf2.24xlarge", "inf2.48xlarge"}) {
    const profiles::Profile& profile = *profiles::find_profile(name);
    std::set<int> places;
    std::set<uint32_t> ids;
    for (unsigned i = 0; i < profile.chips; ++i) {
      const profiles::ChipPlace& place = profile.places[i];
      places.insert(place.bus << 8 | place.slot);
      ids.insert(place.routing_id);
      for (unsigned k = 0; k < place.neighbour_count; ++k) {
        const profiles::ChipPlace& next = profile.places[place.neighbours[k]];
        EXPECT_THAT(std::vector<uint8_t>(next.neighbours, next.neighbours + next.neighbour_count),
                    ::testing::Contains(i))
            << name << " " << i;
      }
    }
    EXPECT_EQ(places.size(), profile.chips) << name;
    EXPECT_EQ(ids.size(), profile.chips) << name;
  }
}

TEST_F(DeviceCalls, AnUnknownProfileNamesThoseThatExist) {
  int error = 0;
  EXPECT_EQ(Instance::create("p5.48xlarge", {}, {}, error), nullptr);
  EXPECT_EQ(error, -ENOENT);
  EXPECT_THAT(last_error(), HasSubstr("trn1.2xlarge"));
}

TEST_F(DeviceCalls, NumbersOfAnotherSizeOrWithoutMeaningAreRefused) {
  alignas(8) char room[256] = {};
  // The size field is part of a number, right or wrong.
  EXPECT_EQ(session_->ioctl(_IOR('N', 22, neuron_ioctl_memset64), room), -EINVAL);
  EXPECT_THAT(last_error(), HasSubstr("MEM_FREE"));
  EXPECT_EQ(session_->ioctl(_IOWR('N', 124, char[44]), room), -EINVAL);
  EXPECT_EQ(session_->ioctl(_IO('N', 200), room), -EINVAL);
  EXPECT_EQ(session_->ioctl(_IO('X', 5), room), -EINVAL);
  EXPECT_EQ(session_->ioctl(0x100000000ul | NEURON_IOCTL_DEVICE_INIT, room), -EINVAL);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_FREE, nullptr), -EFAULT);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMABUF_FD, room), -EOPNOTSUPP);
}

TEST_F(DeviceCalls, ARestrictedDescriptorServesOnlyWhatNeedsNoDevice) {
  Session* restricted = open(0, O_WRONLY, 900);
  EXPECT_EQ(nd_process_count(&device().processes), 1u);
  neuron_ioctl_compatible_version version = {};
  EXPECT_EQ(restricted->ioctl(NEURON_IOCTL_COMPATIBLE_VERSION, &version), 0);
  neuron_ioctl_device_info info = {};
  EXPECT_EQ(restricted->ioctl(NEURON_IOCTL_DEVICE_INFO, &info), -EINVAL);
  EXPECT_THAT(last_error(), HasSubstr("O_RDWR"));
  uint32_t value = 0;
  EXPECT_EQ(restricted->read_register(0x2701000, &value), -EACCES);
  void* address = nullptr;
  EXPECT_EQ(restricted->map(4096, 3, 0x1000000, &address), -EACCES);
}

TEST_F(DeviceCalls, RegistersAreReadAndWrittenButNotTheDriversOwn) {
  neuron_ioctl_device_info info = {};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DEVICE_INFO, &info), 0);
  __u64 addresses[] = {info.bar_address[0] + 0x2610030, info.bar_address[0] + 0x2620030};
  __u32 values[] = {11, 22};
  neuron_ioctl_bar_rw access = {0, addresses, values, 2};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_BAR_WRITE, &access), 0) << last_error();
  values[0] = values[1] = 0;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_BAR_READ, &access), 0);
  EXPECT_EQ(values[1], 22u);
  for (uint64_t offset : {nd_queue_register(&nd_chip_v2, 0, 0, true, NEURON_UDMAQ_TAIL_INC),
                          nd_queue_register(&nd_chip_v2, 33, 15, false, NEURON_UDMAQ_BASE_HI),
                          nd_queue_register(&nd_chip_v2, 32, 0, true, NEURON_UDMAQ_LENGTH),
                          nd_queue_register(&nd_chip_v2, 32, 1, false, NEURON_UDMAQ_CFG),
                          nd_chip_udma(&nd_chip_v2, 32) + NEURON_UDMA_CHANGE_STATE,
                          uint64_t{NEURON_V2_MISC_RAM + NEURON_FW_RESET},
                          uint64_t{NEURON_V2_MISC_RAM + NEURON_FW_RESET_MAP},
                          uint64_t{NEURON_V2_MISC_RAM + NEURON_FW_DATA},
                          uint64_t{NEURON_V2_MISC_RAM + NEURON_FW_TRIGGER},
                          uint64_t{NEURON_V2_BAR0_SIZE}, uint64_t{2}}) {
    addresses[1] = info.bar_address[0] + offset;
    values[0] = 33;
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_BAR_WRITE, &access), -EINVAL) << std::hex << offset;
  }
  addresses[1] = addresses[0];
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_BAR_READ, &access), 0);
  EXPECT_EQ(values[0], 11u);  // nothing of a refused call happened
  access.bar = 4;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_BAR_READ, &access), -EINVAL);
  access = {0, addresses, values, 101};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_BAR_READ, &access), -EINVAL);
}

TEST_F(DeviceCalls, LogLinesAreBounded) {
  char line[600] = "hello";
  neuron_ioctl_printk print = {line, 0, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PRINTK, &print), -EFAULT);
  print.size = 513;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PRINTK, &print), -EFAULT);
  print.size = 5;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PRINTK, &print), -EBADMSG);
  print.size = 6;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PRINTK, &print), 0);
}

TEST_F(DeviceCalls, AHostOnItsOwnIsNoUltraServer) {
  neuron_ioctl_pod_status_v2 status = {};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_POD_STATUS_V2, &status), -EINVAL);
  status.v1.sz = sizeof(status);
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_POD_STATUS_V2, &status), 0);
  EXPECT_EQ(status.v1.state, static_cast<__u32>(NEURON_POD_E_STATE_SINGLE_NODE));
  EXPECT_EQ(status.v1.node_id, -1);
}

TEST_F(DeviceCalls, AChildOfForkIsRefusedAndTheParentGoesOn) {
  auto child = test::Child::forked([&] {
    neuron_ioctl_device_info info = {};
    uint32_t value = 0;
    Session* other = nullptr;
    const bool refused = session_->ioctl(NEURON_IOCTL_DEVICE_INFO, &info) == -EBADF &&
                         session_->read_register(0x2701000, &value) == -EBADF &&
                         session_->wait(0, &value, 0, 0) == -EBADF &&
                         instance_->open(0, O_RDWR, 1, &other) == -EBADF &&
                         instance_->close(session_) == -EBADF;
    return refused ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_NE(allocate(4096), 0u);
}

TEST_F(DeviceCalls, TheMemoryLimitOfTheEnvironmentIsANumber) {
  uint64_t limit = 1;
  test::Setting setting("NEURON_EMULATOR_MEMORY_LIMIT", "4294967296");
  EXPECT_TRUE(memory_limit_of_environment(limit));
  EXPECT_EQ(limit, uint64_t{1} << 32);
  for (const char* bad : {"4G", "-1", "0", "x"}) {
    setting.set(bad);
    EXPECT_FALSE(memory_limit_of_environment(limit)) << bad;
  }
  setting.set(nullptr);
  EXPECT_TRUE(memory_limit_of_environment(limit));
  EXPECT_EQ(limit, 0u);
}

}  // namespace
}  // namespace neuron::service
