// SPDX-License-Identifier: Apache-2.0
#include <nrt/nrt_version.h>

#include <set>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

class Session : public RuntimeTest {};

TEST_F(Session, CountsCoresBeforeInit) {
  nrt_close();
  uint32_t nc = 0, vnc = 0;
  ASSERT_EQ(nrt_get_total_nc_count(&nc), NRT_SUCCESS) << nrt_open_last_error();
  ASSERT_EQ(nrt_get_total_vnc_count(&vnc), NRT_SUCCESS);
  EXPECT_EQ(nc, 2u);
  EXPECT_EQ(vnc, 2u);
}

TEST_F(Session, TellsTheInstanceType) {
  char type[32] = "";
  ASSERT_EQ(nrt_open_get_instance_type(type, sizeof(type)), NRT_SUCCESS);
  EXPECT_STREQ(type, "trn1.2xlarge");
  ASSERT_EQ(nrt_open_get_instance_type(type, 5), NRT_SUCCESS);
  EXPECT_STREQ(type, "trn1");
  EXPECT_EQ(nrt_open_get_instance_type(type, 0), NRT_INVALID);
  EXPECT_EQ(nrt_open_get_instance_type(nullptr, 5), NRT_INVALID);
}

TEST_F(Session, CountsVisibleCoresByEnvironmentBeforeInitAndByOwnershipAfter) {
  nrt_close();
  Setting one("NEURON_RT_VISIBLE_CORES", "1");
  uint32_t nc = 0, vnc = 0;
  ASSERT_EQ(nrt_get_visible_nc_count(&nc), NRT_SUCCESS);
  EXPECT_EQ(nc, 1u);
  init();
  ASSERT_EQ(nrt_get_visible_vnc_count(&vnc), NRT_SUCCESS);
  EXPECT_EQ(vnc, 1u);
  ASSERT_EQ(nrt_get_total_nc_count(&nc), NRT_SUCCESS);
  EXPECT_EQ(nc, 2u);
  nrt_tensor_t* tensor = nullptr;
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 1, 64, nullptr, &tensor), NRT_INVALID);
  tensor = make_tensor(64, 0);
  nrt_tensor_device_allocation_info_t info{};
  ASSERT_EQ(nrt_tensor_get_device_allocation_info(tensor, &info), NRT_SUCCESS);
  EXPECT_EQ(info.hbm_index, 1) << "core 0 of the process is core 1 of the device";
}

TEST_F(Session, RefusesCoresThatDoNotExistOrAreNotContiguous) {
  nrt_close();
  {
    Setting far("NEURON_RT_VISIBLE_CORES", "2");
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("cores 0-1"));
  }
  {
    Setting many("NEURON_RT_NUM_CORES", "3");
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("NEURON_RT_NUM_CORES=3"));
  }
  {
    Setting gap("NEURON_RT_VISIBLE_CORES", "0,2");
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("contiguous"));
  }
}

TEST_F(Session, LooksForDevicesAnewAfterAnInitThatFailed) {
  nrt_close();
  {
    const Setting small("NEURON_EMULATOR", "trn1.2xlarge");
    const Setting far("NEURON_RT_VISIBLE_CORES", "5");
    ASSERT_NE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  }
  const Setting large("NEURON_EMULATOR", "trn1.32xlarge");
  const Setting far("NEURON_RT_VISIBLE_CORES", "5");
  EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  nrt_close();
}

TEST_F(Session, InitIsIdempotentAndWorksAgainAfterClose) {
  nrt_tensor_t* tensor = make_tensor(64);
  EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_size(tensor), 64u) << "a second nrt_init changes nothing";
  nrt_close();
  init();
  EXPECT_EQ(nrt_tensor_get_size(tensor), 0u) << "nrt_close has freed the tensor";
}

TEST_F(Session, CloseGivesBackWhatWasLeft) {
  const uint64_t before = used_bytes();
  for (int i = 0; i < 10; ++i) make_tensor(1 << 20);
  nrt_tensor_set_t* set = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
  EXPECT_GT(used_bytes(), before);
  nrt_close();
  init();
  EXPECT_EQ(used_bytes(), before);
}

TEST_F(Session, SaysUninitialisedBeforeAndClosedAfter) {
  nrt_close();
  nrt_tensor_t* tensor = nullptr;
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor), NRT_CLOSED);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("nrt_init"));
  // A program of its own has never initialised anything.
  const test::Run fresh = test::run({built("tests/api-other-process"), "fresh"});
  EXPECT_EQ(fresh.ending, 0) << fresh.output;
}

TEST_F(Session, ForkedChildIsToldThatItHasNoDevice) {
  nrt_tensor_t* tensor = make_tensor(64);
  Child child = Child::forked([&] {
    uint8_t byte = 0;
    const bool refused = nrt_tensor_read(tensor, &byte, 0, 1) == NRT_UNINITIALIZED &&
                         std::string(nrt_open_last_error()).find("forked") != std::string::npos;
    nrt_tensor_free(&tensor);
    nrt_close();
    return refused ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(nrt_tensor_get_size(tensor), 64u);
}

TEST_F(Session, WithoutDeviceSaysHowToGetOne) {
  nrt_close();
  Setting none("NEURON_EMULATOR", nullptr);
  if (access("/dev/neuron0", F_OK) == 0) GTEST_SKIP() << "this host has a device";
  EXPECT_NE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("NEURON_EMULATOR"));
  {
    const Setting misspelt("NEURON_EMULTOR", "trn1.2xlarge");
    EXPECT_NE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    EXPECT_THAT(nrt_open_last_error(),
                HasSubstr("variable NEURON_EMULTOR; is NEURON_EMULATOR meant?"));
  }
  // Who asks whether there is a device, as libfabric does, is answered by the status alone.
  const Setting errors("NEURON_RT_LOG_LEVEL", "ERROR");
  EXPECT_NE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);  // reads the level
  uint32_t count = 7;
  testing::internal::CaptureStderr();
  EXPECT_NE(nrt_get_total_nc_count(&count), NRT_SUCCESS);
  EXPECT_NE(nrt_get_visible_nc_count(&count), NRT_SUCCESS);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Session, GivesItsVersionToOlderCallersToo) {
  nrt_version_t version;
  std::memset(&version, 0xAA, sizeof(version));
  ASSERT_EQ(nrt_get_version(&version, sizeof(version)), NRT_SUCCESS);
  EXPECT_EQ(version.rt_major, 2u);
  EXPECT_STRNE(version.rt_detail, "");
  std::memset(&version, 0xAA, sizeof(version));
  ASSERT_EQ(nrt_get_version(&version, 8), NRT_SUCCESS);
  EXPECT_EQ(version.rt_major, 2u);
  EXPECT_EQ(version.rt_minor, 0xAAAAAAAAAAAAAAAAu) << "beyond the caller's size";
}

TEST_F(Session, KnowsTheInstanceType) {
  nrt_instance_info_t info{};
  ASSERT_EQ(nrt_get_instance_info(&info, sizeof(info)), NRT_SUCCESS);
  EXPECT_EQ(info.family, static_cast<uint32_t>(NRT_INSTANCE_TRN1));
  EXPECT_EQ(info.size, static_cast<uint32_t>(NRT_INSTANCE_SIZE_2XL));
  EXPECT_STREQ(info.arch_name, "Trn1");
}

TEST_F(Session, AccountsDeviceMemory) {
  const uint64_t before = used_bytes();
  nrt_tensor_t* tensor = make_tensor(8 << 20);
  EXPECT_EQ(used_bytes(), before + (8 << 20));
  nrt_vnc_memory_stats_t stats{};
  size_t size = 0;
  ASSERT_EQ(nrt_get_vnc_memory_stats(0, &stats, sizeof(stats), &size), NRT_SUCCESS);
  EXPECT_EQ(size, sizeof(stats));
  EXPECT_EQ(stats.bytes_limit, 16ull << 30);
  nrt_open_memory_usage_t usage[20] = {};
  usage[0].size = sizeof(usage[0]);
  size_t count = 20;
  ASSERT_EQ(nrt_open_get_memory_usage(0, usage, &count), NRT_SUCCESS) << nrt_open_last_error();
  uint64_t tensors = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::string(usage[i].category) == "tensors") tensors = usage[i].bytes;
  }
  EXPECT_EQ(tensors, 8u << 20);
  count = 1;
  EXPECT_EQ(nrt_open_get_memory_usage(0, usage, &count), NRT_RESOURCE);
  EXPECT_GT(count, 1u);
  nrt_tensor_free(&tensor);
  EXPECT_EQ(used_bytes(), before);
  EXPECT_EQ(nrt_get_vnc_memory_stats(9, &stats, sizeof(stats), &size), NRT_INVALID);
}

TEST_F(Session, TellsHostNumbersOfItsDevices) {
  uint32_t id = 77;
  ASSERT_EQ(nrt_host_device_id_get(0, &id), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(id, 0u);
  EXPECT_EQ(nrt_host_device_id_get(5, &id), NRT_INVALID);
  uint32_t map[64];
  uint32_t count = 99;
  ASSERT_EQ(nrt_host_device_id_rid_map_get(&count, map), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(count, 1u);
}

TEST_F(Session, MapsNoWholeHbmOnThisGeneration) {
  void* address = nullptr;
  size_t size = 0;
  EXPECT_EQ(nrt_get_hbm_mmap_va(0, 0, &address, &size), NRT_INVALID);
  EXPECT_EQ(nrt_get_hbm_mmap_va(0, 2, &address, &size), NRT_INVALID_HANDLE) << "ends enumerations";
  EXPECT_EQ(address, nullptr);
}

TEST_F(Session, NamesEveryStatusByATextOfItsOwn) {
  std::set<std::string> texts;
  for (const int status :
       {0,   1,    2,    3,    4,    5,    6,    7,    9,    10,   11,   13,   14,   15,
        101, 1002, 1003, 1004, 1005, 1006, 1100, 1200, 1201, 1202, 1203, 1204, 1205, 1206}) {
    const std::string text = nrt_get_status_as_str(static_cast<NRT_STATUS>(status));
    EXPECT_NE(text, nrt_get_status_as_str(static_cast<NRT_STATUS>(8))) << status;
    EXPECT_TRUE(texts.insert(text).second) << status << " has the text of another: " << text;
  }
  EXPECT_STREQ(nrt_get_status_as_str(NRT_RESOURCE), "Allocation failure");
}

}  // namespace
}  // namespace neuron::test
