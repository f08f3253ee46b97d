// SPDX-License-Identifier: Apache-2.0
// The PCI function of a device is taken away while programs use it, and comes back.
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

std::string function_of(const Device& device) {
  neuron_ioctl_device_bdf_ext bdf = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_BDF_EXT, &bdf), 0);
  char name[64];
  std::snprintf(name, sizeof(name), "%04x:%02x:%02x.%x", bdf.domain, bdf.bus_number, bdf.slot,
                bdf.func);
  return name;
}

void write_file(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT(fd >= 0);
  EXPECT_EQ(write(fd, "1", 1), 1);
  close(fd);
}

void plug_in() {
  write_file("/sys/bus/pci/rescan");
  for (int tries = 0; tries < 300 && Device::count() == 0; ++tries) usleep(10000);
  EXPECT_EQ(Device::count(), 1);
}

CASE("calls, mappings and closing of a device that was taken away end with an error") {
  auto device = std::make_unique<Device>();
  const std::string function = function_of(*device);
  __u64 handle = 0;
  EXPECT_EQ(allocate(*device, 1 << 20, {}, handle), 0);
  const auto info = device->info(handle);
  auto* mapping = new Mapping(*device, info.mmap_offset, 1 << 20, PROT_READ | PROT_WRITE);
  mapping->word(0) = 7;
  write_file("/sys/bus/pci/devices/" + function + "/remove");
  EXPECT_EQ(Device::count(), 0);
  std::vector<uint8_t> bytes(4096);
  EXPECT_EQ(device->copy_in(handle, bytes.data(), bytes.size()), -ENODEV);
  EXPECT_EQ(allocate(*device, 4096, {}, handle), -ENODEV);
  // Nothing is behind the mapping any more: a load would be SIGBUS, a system call says EFAULT.
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], mapping->bytes(), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  close(ends[0]);
  close(ends[1]);
  delete mapping;
  device.reset();
  plug_in();
  const Device again;
  EXPECT_EQ(allocate(again, 1 << 20, {}, handle), 0);
  EXPECT_EQ(again.copy_in(handle, bytes.data(), bytes.size()), 0);
}

CASE("a device can be taken away while copies run, as often as one likes") {
  for (int round = 0; round < 3; ++round) {
    std::string function;
    {
      const Device device;
      function = function_of(device);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        const Device device;
        __u64 handle = 0;
        if (allocate(device, 8 << 20, {}, handle) != 0) return;
        std::vector<uint8_t> bytes(8 << 20);
        for (int copies = 0; copies < 10000; ++copies) {
          if (device.copy_in(handle, bytes.data(), bytes.size()) != 0) return;
        }
      });
    }
    usleep(100000);
    write_file("/sys/bus/pci/devices/" + function + "/remove");
    for (std::thread& thread : threads) thread.join();
    plug_in();
  }
  const Device device;
  const Memory memory(device, 4096);
  std::vector<uint8_t> bytes(4096);
  EXPECT_EQ(device.copy_in(memory.handle(), bytes.data(), bytes.size()), 0);
}

CASE("host memory that another device has pinned outlives the chip") {
  const int importer = open("/dev/neuron-importer", O_RDWR | O_CLOEXEC);
  if (importer < 0) throw Skipped{"there is no importer"};
  auto device = std::make_unique<Device>();
  const std::string function = function_of(*device);
  __u64 handle = 0;
  EXPECT_EQ(allocate(*device, 65536, {.host = true}, handle), 0);
  const auto info = device->info(handle);
  auto mapping =
      std::make_unique<Mapping>(*device, info.mmap_offset, 65536, PROT_READ | PROT_WRITE);
  int32_t buffer = -1;
  neuron_ioctl_dmabuf_fd request = {reinterpret_cast<__u64>(mapping->bytes()), 65536, &buffer};
  EXPECT_EQ(device->call(NEURON_IOCTL_DMABUF_FD, &request), 0);
  EXPECT_EQ(ioctl(importer, _IO('i', 2), buffer), 0);
  write_file("/sys/bus/pci/devices/" + function + "/remove");
  mapping.reset();
  device.reset();
  EXPECT_EQ(close(buffer), 0);
  EXPECT_EQ(ioctl(importer, _IO('i', 5), 0), 0);
  close(importer);
  plug_in();
}

}  // namespace
}  // namespace neuron::guest
