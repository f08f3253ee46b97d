// SPDX-License-Identifier: Apache-2.0
// Who the device is, and who may ask it what.
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

std::string first_line(const std::string& path) {
  char line[256] = "";
  if (FILE* file = std::fopen(path.c_str(), "r")) {
    if (!std::fgets(line, sizeof(line), file)) line[0] = 0;
    std::fclose(file);
  }
  line[std::strcspn(line, "\n")] = 0;
  return line;
}

CASE("a device opens for reading and writing, and for writing only") {
  const Device full;
  const Device restricted(0, O_WRONLY);
  const Device reader(0, O_RDONLY);
  EXPECT(full.chip().architecture == restricted.chip().architecture);
}

CASE("the driver names its chip, its layout version and its features") {
  const Device device;
  neuron_ioctl_device_driver_info info = {};
  info.size = sizeof(info);
  EXPECT_EQ(device.call(NEURON_IOCTL_DRIVER_INFO_GET, &info), 0);
  EXPECT_EQ(info.architecture, device.chip().architecture);
  EXPECT_EQ(info.version, 0);
  EXPECT_EQ(info.size, sizeof(info));
  EXPECT_EQ(info.feature_flags1 & 0xff, 0xff);
}

CASE("driver information cannot be set") {
  const Device device(0, O_WRONLY);
  neuron_ioctl_device_driver_info info = {};
  info.size = sizeof(info);
  EXPECT_EQ(device.call(NEURON_IOCTL_DRIVER_INFO_SET, &info), -kNotSupported);
}

CASE("the device tells its architecture, register space and neighbours") {
  const Device device;
  neuron_ioctl_device_info info = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_INFO, &info), 0);
  EXPECT_EQ(info.architecture, device.chip().architecture);
  EXPECT_EQ(info.bar_size[0], device.chip().register_bar_size);
  EXPECT(info.bar_address[0] != 0);
  EXPECT_EQ(info.connected_device_count, Device::count() == 16 ? 4 : 0);
}

CASE("the accepted runtime interface numbers are those of the chip") {
  const Device device(0, O_WRONLY);
  neuron_ioctl_compatible_version version = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_COMPATIBLE_VERSION, &version), 0);
  const bool second = device.chip().architecture == 2;
  EXPECT_EQ(version.min, second ? 5 : 10);
  EXPECT_EQ(version.max, second ? 7 : 11);
}

CASE("the PCI place of a device is one that the bus knows") {
  const Device device;
  neuron_ioctl_device_bdf_ext place = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_BDF_EXT, &place), 0);
  char path[96];
  std::snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/vendor", place.domain,
                place.bus_number, place.slot, place.func);
  EXPECT(first_line(path) == "0x1d0f");
  neuron_ioctl_device_bdf old = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_BDF, &old), 0);
  EXPECT_EQ(old.bus_number, place.bus_number);
  EXPECT_EQ(old.slot, place.slot);
  place.nd_index = 63;
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_BDF_EXT, &place), -EINVAL);
}

CASE("each node knows its index on the host, and every routing id is listed once") {
  const unsigned devices = Device::count();
  for (unsigned i = 0; i < devices; ++i) {
    const Device device(i);
    neuron_ioctl_host_device_id id = {99};
    EXPECT_EQ(device.call(NEURON_IOCTL_HOST_DEVICE_ID, &id), 0);
    EXPECT_EQ(id.host_device_id, i);
  }
  const Device device(0, O_WRONLY);
  neuron_ioctl_host_device_id_to_rid_map map = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP, &map), 0);
  EXPECT_EQ(map.count, devices);
  if (devices != 1 && devices != 16) return;  // the public driver fills the map for whole hosts
  __u64 seen = 0;
  for (unsigned i = 0; i < devices; ++i) {
    EXPECT(map.host_did_to_rid_map[i] < 64);
    seen |= 1ull << map.host_did_to_rid_map[i];
  }
  EXPECT_EQ(__builtin_popcountll(seen), devices);
}

CASE("generation 3 maps logical cores to physical ones; generation 2 has no map") {
  const Device device(0, O_WRONLY);
  std::vector<uint32_t> room(1 + 2 * 128);
  auto* map = reinterpret_cast<neuron_ioctl_nc_map*>(room.data());
  neuron_ioctl_get_logical_to_physical_nc_map request = {map, 128, 0};
  const int result = device.call(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, &request);
  if (device.chip().architecture == 2) {
    EXPECT_EQ(result, -kNotSupported);
    return;
  }
  EXPECT_EQ(result, 0);
  const uint32_t first[] = {4, 5, 6, 7, 2, 3, 0, 1};
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(map->mappings[i].device_nc_idx, first[i]);
  request.max_map_entries = 129;
  EXPECT_EQ(device.call(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, &request), -EINVAL);
  request = {map, 128, 1};
  EXPECT_EQ(device.call(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, &request), -EINVAL);
}

CASE("a host of its own belongs to no UltraServer") {
  const Device device(0, O_WRONLY);
  neuron_ioctl_pod_info info = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_POD_INFO, &info), -EINVAL);  // sz is 0
  info.sz = sizeof(info);
  EXPECT_EQ(device.call(NEURON_IOCTL_POD_INFO, &info), 0);
  EXPECT_EQ(info.pod_type, NEURON_POD_TYPE_NONE);
  neuron_ioctl_pod_status_v2 status = {};
  status.v1.sz = sizeof(status);
  EXPECT_EQ(device.call(NEURON_IOCTL_POD_STATUS_V2, &status), 0);
  EXPECT_EQ(status.v1.state, NEURON_POD_E_STATE_SINGLE_NODE);
  EXPECT_EQ(status.v1.node_id, -1);
  neuron_ioctl_pod_status old = {};
  old.sz = sizeof(old);
  EXPECT_EQ(device.call(NEURON_IOCTL_POD_STATUS, &old), 0);
  EXPECT_EQ(old.pod_sz, 0);
}

CASE("attached processes are listed, the caller among them") {
  const Device device;
  std::vector<__u64> room(2 + 16 * 19);
  auto* list = reinterpret_cast<neuron_ioctl_get_apps_info*>(room.data());
  list->apps_info_flags = APP_INFO_ALL;
  list->capacity = 16;
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO, list), 0);
  EXPECT_EQ(list->size, 1);
  EXPECT_EQ(list->app_data[0].pid, getpid());
  int32_t pid = 0;
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_APP_PID, &pid), 0);
  EXPECT_EQ(pid, getpid());
}

CASE("a write-only descriptor serves its own calls and refuses the others") {
  const Device device(0, O_WRONLY);
  __u64 handle = 0;
  EXPECT_EQ(allocate(device, 4096, {}, handle), -EINVAL);
  neuron_ioctl_device_info info = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_INFO, &info), -EINVAL);
  neuron_ioctl_semaphore semaphore = {0, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_SEMAPHORE_READ, &semaphore), -EINVAL);
  neuron_ioctl_device_basic_info basic = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_BASIC_INFO, &basic), 0);
}

CASE("a number that names no call is refused") {
  const Device device;
  EXPECT_EQ(device.call(_IO('N', 250), nullptr), -EINVAL);
  EXPECT_EQ(device.call(_IOWR('N', 21, int), nullptr), -EINVAL);
}

CASE("calls without effect succeed") {
  const Device device;
  neuron_ioctl_device_init init = {1};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_INIT, &init), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_RELEASE, nullptr), 0);
  neuron_ioctl_dma_eng_init engine = {0};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_ENG_INIT, &engine), 0);
  uint8_t ready = 0;
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_RESET_STATUS, &ready), 0);
  EXPECT_EQ(ready, 1);
}

CASE("a line for the kernel's log must end, and must be short") {
  const Device device(0, O_WRONLY);
  char line[600] = "a line of the contract list\n";
  neuron_ioctl_printk request = {line, static_cast<uint32_t>(std::strlen(line) + 1), 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_PRINTK, &request), 0);
  request.size = 4;
  EXPECT_EQ(device.call(NEURON_IOCTL_PRINTK, &request), -EBADMSG);
  request.size = 513;
  EXPECT_EQ(device.call(NEURON_IOCTL_PRINTK, &request), -EFAULT);
}

CASE("the module's version is where libraries look for it") {
  EXPECT(first_line("/sys/module/neuron/version").size() >= 3);
}

}  // namespace
}  // namespace neuron::guest
