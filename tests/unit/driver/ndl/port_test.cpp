// SPDX-License-Identifier: Apache-2.0
// How a process comes to its port, and what it is told when there is none.
#include "driver/ndl/port.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "driver/ndl/error.h"
#include "driver/ndl/port_backends.h"
#include "ndl/ndl.h"
#include "tests/support/files.h"
#include "tests/support/setting.h"

namespace neuron::ndl {
namespace {

using test::Folder;
using Environment = test::Setting;

TEST(Port, SaysHowToGetADeviceWhenThereIsNone) {
  Folder empty;
  EXPECT_EQ(kernel_port(empty.path()), nullptr);
  const std::string sentence = last_error();
  EXPECT_NE(sentence.find("load the neuron kernel module"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("NEURON_EMULATOR"), std::string::npos) << sentence;
}

TEST(Port, ReachesTheCallerOfTheDriverLibrary) {
  const Environment emulator("NEURON_EMULATOR", "unix:/nowhere/socket");
  release_port();
  int index = 0;
  EXPECT_EQ(ndl_available_devices(&index, 1), -ENODEV);
  EXPECT_NE(std::string(last_error()).find("unix:/nowhere/socket"), std::string::npos)
      << last_error();
  ndl_device_t* device = nullptr;
  EXPECT_EQ(ndl_open_device(0, nullptr, &device), -ENODEV);
  EXPECT_EQ(ndl_open_device(-1, nullptr, &device), -ENODEV);
  EXPECT_EQ(ndl_open_device(64, nullptr, &device), -ENODEV);
}

TEST(Port, NamesTheEmulatorLibraryThatItCannotLoad) {
  EXPECT_EQ(embedded_port("trn1.2xlarge", "/nowhere/libemulator.so"), nullptr);
  EXPECT_NE(std::string(last_error()).find("/nowhere/libemulator.so"), std::string::npos)
      << last_error();
  EXPECT_NE(std::string(last_error()).find("NEURON_EMULATOR_LIBRARY"), std::string::npos);
  EXPECT_EQ(embedded_port("trn1.2xlarge", "libm.so.6"), nullptr);
  EXPECT_NE(std::string(last_error()).find("no emulator library"), std::string::npos)
      << last_error();
}

TEST(KernelPort, ListsItsNodesByNumber) {
  Folder folder;
  for (const char* name : {"neuron10", "neuron2", "neuron0", "neuron", "neuronx", "neuron1a"}) {
    folder.write(name, "");
  }
  const auto port = kernel_port(folder.path());
  ASSERT_NE(port, nullptr);
  int indexes[8] = {};
  ASSERT_EQ(port->devices(indexes, 8), 3);
  EXPECT_EQ(indexes[0], 0);
  EXPECT_EQ(indexes[1], 2);
  EXPECT_EQ(indexes[2], 10);
  EXPECT_EQ(port->devices(indexes, 1), 3) << "the count does not depend on the room";
}

TEST(KernelPort, ReportsWhatTheSystemCallsSay) {
  Folder folder;
  folder.write("neuron0", "");
  const auto port = kernel_port(folder.path());
  ASSERT_NE(port, nullptr);
  std::unique_ptr<DevicePort> device;
  EXPECT_EQ(port->open(5, O_RDWR, device), -ENODEV);
  EXPECT_NE(std::string(last_error()).find("neuron5"), std::string::npos) << last_error();
  ASSERT_EQ(port->open(0, O_RDWR, device), 0);
  EXPECT_GE(device->descriptor(), 0);
  EXPECT_NE(fcntl(device->descriptor(), F_GETFD) & FD_CLOEXEC, 0) << "not for programs we start";
  int argument = 0;
  EXPECT_EQ(device->ioctl(0x4E01, &argument), -ENOTTY) << "a plain file is no device";
  EXPECT_NE(std::string(last_error()), "");
  void* address = nullptr;
  EXPECT_EQ(device->map(0, 1, 0, &address), -EINVAL);
  uint32_t value = 0;
  EXPECT_EQ(device->read_register(2, &value), -EINVAL);
  EXPECT_EQ(device->read_register(0x2700000, &value), -ENOTTY);
}

TEST(KernelPort, WaitsForAWordUntilItsDeadline) {
  Folder folder;
  folder.write("neuron0", "");
  const auto port = kernel_port(folder.path());
  std::unique_ptr<DevicePort> device;
  ASSERT_EQ(port->open(0, O_RDWR, device), 0);
  uint32_t word = 7;
  EXPECT_EQ(device->wait(0, &word, 6, 0), 0) << "it differs already";
  EXPECT_EQ(device->wait(0, &word, 7, 1), -ETIMEDOUT) << "the deadline has passed";
  EXPECT_NE(std::string(last_error()).find("core 0"), std::string::npos) << last_error();
}

TEST(KernelPort, ClosesItsDescriptor) {
  Folder folder;
  folder.write("neuron0", "");
  const auto port = kernel_port(folder.path());
  std::unique_ptr<DevicePort> device;
  ASSERT_EQ(port->open(0, O_RDWR, device), 0);
  const int descriptor = device->descriptor();
  device.reset();
  EXPECT_EQ(fcntl(descriptor, F_GETFD), -1);
}

TEST(Error, PutsTheCauseBehindTheCircumstance) {
  EXPECT_EQ(fail(-ENOMEM, "HBM %d has no block of %d bytes", 1, 4096), -ENOMEM);
  EXPECT_EQ(explain(-ENOMEM, "device %d", 3), -ENOMEM);
  EXPECT_STREQ(last_error(), "device 3: HBM 1 has no block of 4096 bytes");
  EXPECT_EQ(errno, ENOMEM);
  clear_error();
  explain(-EPERM, "device %d", 3);
  EXPECT_STREQ(last_error(), "device 3: Operation not permitted");
  const std::string longest(5000, 'x');
  fail(-EIO, "%s", longest.c_str());
  EXPECT_EQ(std::string(last_error()).size(), 1023u);
  explain(-EIO, "%s", longest.c_str());
  EXPECT_EQ(std::string(last_error()).size(), 1023u);
}

}  // namespace
}  // namespace neuron::ndl
