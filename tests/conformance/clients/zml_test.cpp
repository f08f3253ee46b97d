// SPDX-License-Identifier: Apache-2.0
// ZML's zml-smi, which shows devices without a runtime of its own and reads ndl_device directly.
#include <ndl/ndl.h>
#include <nrt/nds/neuron_ds.h>
#include <unistd.h>

#include <algorithm>

#include "tests/conformance/clients/client.h"

namespace neuron::test {
namespace {

class Zml : public Client {
 protected:
  Zml() : Client("trn2.3xlarge") {}
  Library library_;
};

TEST_F(Zml, ListsDevicesWithTheirMemoryTheirProcessesAndWhatCoresDid) {
  uint32_t cores = 0;
  ASSERT_EQ(library_.get<int(uint32_t*)>("nrt_get_total_nc_count")(&cores), kSuccess);
  EXPECT_EQ(cores, 4u) << "two physical cores each";
  int indexes[MAX_NEURON_DEVICE_COUNT] = {};
  ASSERT_EQ(library_.get<decltype(ndl_available_devices)>("ndl_available_devices")(
                indexes, MAX_NEURON_DEVICE_COUNT),
            1);
  ndl_device_init_param_t parameters{};
  parameters.num_dram_regions = 1;
  parameters.map_hbm = true;
  parameters.skip_copy_bufs = true;
  ndl_device_t* device = nullptr;
  ASSERT_EQ(
      library_.get<decltype(ndl_open_device)>("ndl_open_device")(indexes[0], &parameters, &device),
      0);
  EXPECT_EQ(device->device_index, 0);
  EXPECT_EQ(device->device_type, 3) << "Trainium2";
  EXPECT_EQ(device->hbm_size, uint64_t{24} << 30);

  // A process that uses a device: this one.
  ASSERT_EQ(library_.get<int(int, const char*, const char*)>("nrt_init")(1, "", ""), kSuccess);
  struct neuron_app_info* processes = nullptr;
  size_t count = 0;
  ASSERT_EQ(library_.get<decltype(ndl_get_all_apps_info)>("ndl_get_all_apps_info")(
                device, &processes, &count, APP_INFO_ALL),
            0);
  EXPECT_TRUE(std::any_of(processes, processes + count,
                          [](const neuron_app_info& one) { return one.pid == ::getpid(); }));
  std::free(processes);

  nds_instance_t* store = nullptr;
  ASSERT_EQ(library_.get<decltype(nds_open)>("nds_open")(device, ::getpid(), &store), 0);
  const auto counter = library_.get<decltype(nds_get_nc_counter)>("nds_get_nc_counter");
  uint64_t value = 77;
  EXPECT_EQ(counter(store, 0, NDS_NC_COUNTER_INFER_COMPLETED, &value), 0);
  EXPECT_EQ(value, 0u);
  EXPECT_NE(counter(store, 0, 1u << 20, &value), 0);
  EXPECT_NE(counter(store, 99, NDS_NC_COUNTER_INFER_COMPLETED, &value), 0);
  EXPECT_EQ(library_.get<decltype(nds_close)>("nds_close")(store), 0);
  EXPECT_EQ(library_.get<decltype(ndl_close_device)>("ndl_close_device")(device), 0);
  EXPECT_NE(library_.get<decltype(ndl_open_device)>("ndl_open_device")(63, &parameters, &device),
            0);
}

TEST_F(Zml, SeesTheMemoryOfADeviceThatTheRuntimeHasOpenedFirst) {
  ASSERT_EQ(library_.get<int(int, const char*, const char*)>("nrt_init")(1, "", ""), kSuccess);
  ndl_device_init_param_t parameters{};
  parameters.map_hbm = true;
  ndl_device_t* device = nullptr;
  ASSERT_EQ(library_.get<decltype(ndl_open_device)>("ndl_open_device")(0, &parameters, &device), 0);
  EXPECT_EQ(device->hbm_size, uint64_t{24} << 30);
  EXPECT_EQ(device->hbm_va_cnt, 4u);
  EXPECT_EQ(library_.get<decltype(ndl_close_device)>("ndl_close_device")(device), 0);
}

// ctypes takes every function for one that returns an int; the public guide gives this one a
// status.
TEST_F(Zml, ClosingTheRuntimeLeavesAStatusForThoseWhoReadOne) {
  const auto close = library_.get<int()>("nrt_close");
  EXPECT_EQ(close(), kSuccess) << "nothing is open";
  ASSERT_EQ(library_.get<int(int, const char*, const char*)>("nrt_init")(1, "", ""), kSuccess);
  EXPECT_EQ(close(), kSuccess);
}

}  // namespace
}  // namespace neuron::test
