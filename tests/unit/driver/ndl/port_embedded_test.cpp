// SPDX-License-Identifier: Apache-2.0
// The embedded port on an emulator interface that only notes what it is asked.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "driver/ndl/error.h"
#include "driver/ndl/port_backends.h"
#include "ndl/emulator.h"

struct neuron_emulator_instance {
  int opened = 0;
};
struct neuron_emulator_device {
  neuron_emulator_instance* instance;
};

namespace neuron::ndl {
namespace {

struct Notes {
  neuron_emulator_instance instance;
  int live_instances = 0;
  int live_devices = 0;
  int flags = -1;
  uint32_t write_flags = 0;
  int answer = 0;
  const char* sentence = "";
};
Notes notes;

using Interface = struct ::neuron_emulator_interface;

Interface make_interface() {
  Interface fake = {};
  fake.version = NEURON_EMULATOR_INTERFACE_VERSION;
  fake.size = sizeof(fake);
  fake.create = [](const char* profile, neuron_emulator_instance_t** instance) {
    if (std::strcmp(profile, "trn1.2xlarge") != 0) {
      notes.sentence = "there is no such profile";
      return -EINVAL;
    }
    ++notes.live_instances;
    *instance = &notes.instance;
    return 0;
  };
  fake.destroy = [](neuron_emulator_instance_t*) { --notes.live_instances; };
  fake.device_count = [](neuron_emulator_instance_t*) { return 3u; };
  fake.open = [](neuron_emulator_instance_t* instance, unsigned, int flags,
                 neuron_emulator_device_t** device) {
    if (notes.answer != 0) return notes.answer;
    notes.flags = flags;
    ++notes.live_devices;
    *device = new neuron_emulator_device{instance};
    return 0;
  };
  fake.close = [](neuron_emulator_device_t* device) {
    --notes.live_devices;
    delete device;
    return 0;
  };
  fake.ioctl = [](neuron_emulator_device_t*, unsigned long, void*) { return notes.answer; };
  fake.write_register = [](neuron_emulator_device_t*, uint64_t, uint32_t, uint32_t flags) {
    notes.write_flags = flags;
    return 0;
  };
  fake.wait = [](neuron_emulator_device_t*, unsigned, const uint32_t*, uint32_t, uint64_t) {
    return -EDEADLK;
  };
  // A text that grows between asking for its length and for itself.
  fake.describe = [](neuron_emulator_device_t*, unsigned, char* buffer, size_t size) -> size_t {
    if (size == 0) return 5;
    std::memset(buffer, 'x', size - 1);
    buffer[size - 1] = '\0';
    return 50;
  };
  fake.last_error = [] { return notes.sentence; };
  return fake;
}

class EmbeddedPort : public ::testing::Test {
 protected:
  void SetUp() override { notes = {}; }
  const Interface fake = make_interface();
};

TEST_F(EmbeddedPort, OpensClosesAndDestroysWhatItMade) {
  auto port = embedded_port_on(&fake, "trn1.2xlarge", "fake");
  ASSERT_NE(port, nullptr);
  EXPECT_EQ(port->name(), "embedded trn1.2xlarge");
  int indexes[2] = {};
  EXPECT_EQ(port->devices(indexes, 2), 3);
  EXPECT_EQ(indexes[1], 1);
  std::unique_ptr<DevicePort> device;
  ASSERT_EQ(port->open(0, O_WRONLY | O_CLOEXEC, device), 0);
  EXPECT_EQ(notes.flags, O_WRONLY);
  EXPECT_EQ(device->descriptor(), -1);
  EXPECT_EQ(port->open(-1, O_RDWR, device), -ENODEV);
  device.reset();
  port.reset();
  EXPECT_EQ(notes.live_devices, 0);
  EXPECT_EQ(notes.live_instances, 0);
}

TEST_F(EmbeddedPort, KeepsTheInstanceUntilTheLastOfItsDevicesIsClosed) {
  auto port = embedded_port_on(&fake, "trn1.2xlarge", "fake");
  std::unique_ptr<DevicePort> device;
  ASSERT_EQ(port->open(0, O_RDWR, device), 0);
  port.reset();
  EXPECT_EQ(notes.live_instances, 1) << "the device of a call in flight hangs on it";
  device.reset();
  EXPECT_EQ(notes.live_devices, 0);
  EXPECT_EQ(notes.live_instances, 0);
}

TEST_F(EmbeddedPort, PassesTheEmulatorsSentenceOn) {
  EXPECT_EQ(embedded_port_on(&fake, "trn9.huge", "fake"), nullptr);
  EXPECT_STREQ(last_error(), "NEURON_EMULATOR=trn9.huge: there is no such profile");
  const auto port = embedded_port_on(&fake, "trn1.2xlarge", "fake");
  std::unique_ptr<DevicePort> device;
  ASSERT_EQ(port->open(0, O_RDWR, device), 0);
  notes.sentence = "HBM 1 is full";
  notes.answer = -ENOMEM;
  EXPECT_EQ(device->ioctl(1, nullptr), -ENOMEM);
  EXPECT_STREQ(last_error(), "HBM 1 is full");
  notes.answer = 22;
  EXPECT_EQ(device->ioctl(1, nullptr), -EIO) << "a positive answer is an error too";
}

TEST_F(EmbeddedPort, SaysWhetherTheCallerWillRunTheDevice) {
  const auto port = embedded_port_on(&fake, "trn1.2xlarge", "fake");
  std::unique_ptr<DevicePort> device;
  ASSERT_EQ(port->open(0, O_RDWR, device), 0);
  ASSERT_EQ(device->write_register(0, 1, true), 0);
  EXPECT_EQ(notes.write_flags, NEURON_EMULATOR_WRITE_INLINE);
  ASSERT_EQ(device->write_register(0, 1, false), 0);
  EXPECT_EQ(notes.write_flags, 0u);
  uint32_t word = 0;
  EXPECT_EQ(device->wait(0, &word, 0, 0), -EDEADLK);
  EXPECT_EQ(device->describe(0), "xxxxx");
}

TEST_F(EmbeddedPort, RefusesAnotherVersionOfTheInterface) {
  Interface other = fake;
  other.size = 16;
  EXPECT_EQ(embedded_port_on(&other, "trn1.2xlarge", "/lib/old.so"), nullptr);
  EXPECT_NE(std::string(last_error()).find("/lib/old.so"), std::string::npos) << last_error();
  other = fake;
  other.version = 99;
  EXPECT_EQ(embedded_port_on(&other, "trn1.2xlarge", "/lib/new.so"), nullptr);
  EXPECT_EQ(embedded_port_on(nullptr, "trn1.2xlarge", "/lib/none.so"), nullptr);
  EXPECT_EQ(notes.live_instances, 0);
}

}  // namespace
}  // namespace neuron::ndl
