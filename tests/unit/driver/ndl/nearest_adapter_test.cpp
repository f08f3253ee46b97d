// SPDX-License-Identifier: Apache-2.0
// Network adapters beside a kernel's devices, in trees that are made like sysfs.
#include "driver/ndl/nearest_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "driver/ndl/error.h"
#include "tests/support/files.h"

namespace neuron::ndl {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class Sysfs : public ::testing::Test {
 protected:
  // A device on PCI. `way`: the folders above it below devices/, from the root of PCI on.
  void pci(const std::string& way, const std::string& address, const char* kind, int node) {
    const std::string folder = "devices/" + way + "/" + address;
    fs::create_directories(root_.path(folder));
    root_.write(folder + "/vendor", "0x1d0f\n");
    root_.write(folder + "/device", std::string(kind) + "\n");
    if (node != kNoFile) root_.write(folder + "/numa_node", std::to_string(node) + "\n");
    link("bus/pci/devices/" + address, folder);
  }
  void chip(const std::string& way, const std::string& address, int node = kNoFile) {
    pci(way, address, "0x7364", node);
  }
  void adapter(const std::string& way, const std::string& address, int node = kNoFile,
               const char* kind = "0xefa1") {
    pci(way, address, kind, node);
    const std::string name = "rdma" + std::to_string(count_++);
    const std::string below = "devices/" + way + "/" + address + "/infiniband/" + name;
    fs::create_directories(root_.path(below));
    link(below + "/device", "devices/" + way + "/" + address);
    link("class/infiniband/" + name, below);
  }
  std::string nearest(const std::string& address, unsigned device = 0) {
    std::string found;
    EXPECT_EQ(nearest_adapter(root_.path(), address, device, found), 0) << last_error();
    return found;
  }

  static constexpr int kNoFile = -2;
  test::Folder root_;

 private:
  void link(const std::string& name, const std::string& to) {
    fs::create_directories(fs::path(root_.path(name)).parent_path());
    fs::create_symlink(root_.path(to), root_.path(name));
  }
  int count_ = 0;
};

TEST_F(Sysfs, TheNearestAdapterIsBehindTheSameSwitch) {
  chip("pci0000:40/0000:40:01.0/0000:41:00.0", "0000:42:00.0", 0);
  adapter("pci0000:10", "0000:10:19.0", 0);
  adapter("pci0000:40/0000:40:02.0", "0000:50:00.0", 0);
  adapter("pci0000:40/0000:40:01.0/0000:41:01.0", "0000:43:00.0", 1);
  EXPECT_EQ(nearest("0000:42:00.0"), "0000:43:00.0");
}

TEST_F(Sysfs, OfAdaptersAsFarAwayTheOneOnTheSameNodeIsNearer) {
  chip("pci0000:10", "0000:10:1b.0", 1);
  adapter("pci0000:20", "0000:20:19.0", 0);
  adapter("pci0000:90", "0000:90:19.0", 1);
  adapter("pci0000:a0", "0000:a0:19.0");
  for (const unsigned device : {0u, 1u, 2u}) {
    EXPECT_EQ(nearest("0000:10:1b.0", device), "0000:90:19.0");
  }
}

TEST_F(Sysfs, DevicesTakeTurnsWhereSeveralAreAsNear) {
  chip("pci0000:10", "0000:10:1b.0");
  adapter("pci0000:10", "0000:10:1a.0");
  adapter("pci0000:10", "0000:10:19.0");
  EXPECT_EQ(nearest("0000:10:1b.0", 0), "0000:10:19.0");
  EXPECT_EQ(nearest("0000:10:1b.0", 1), "0000:10:1a.0");
  EXPECT_EQ(nearest("0000:10:1b.0", 14), "0000:10:19.0");
}

TEST_F(Sysfs, EveryGenerationOfTheAdapterCountsAndNothingElse) {
  chip("pci0000:10", "0000:10:1b.0");
  adapter("pci0000:10", "0000:10:11.0", 0, "0xefa4");
  adapter("pci0000:10", "0000:10:12.0", 0, "0xec20");
  root_.write("devices/pci0000:10/0000:10:12.0/vendor", "0x15b3\n");
  std::string found;
  EXPECT_EQ(nearest_adapter(root_.path(), "0000:10:1b.0", 0, found), -ENOENT);
  EXPECT_THAT(last_error(), HasSubstr("this host has no EFA"));
  for (const char* kind : {"0xefa0", "0xefa1", "0xefa2", "0xefa3"}) {
    root_.write("devices/pci0000:10/0000:10:11.0/device", std::string(kind) + "\n");
    EXPECT_EQ(nearest("0000:10:1b.0"), "0000:10:11.0") << kind;
  }
}

TEST_F(Sysfs, AHostWithoutAdaptersOrWithoutTheDeviceIsAnError) {
  std::string found;
  EXPECT_EQ(nearest_adapter(root_.path(), "0000:10:1b.0", 0, found), -ENODEV);
  EXPECT_THAT(last_error(), HasSubstr("/bus/pci/devices/0000:10:1b.0 cannot be followed"));
  chip("pci0000:10", "0000:10:1b.0", 0);
  EXPECT_EQ(nearest_adapter(root_.path(), "0000:10:1b.0", 0, found), -ENOENT);
  adapter("pci0000:10", "0000:10:19.0");
  fs::remove_all(root_.path("devices/pci0000:10/0000:10:19.0"));
  EXPECT_EQ(nearest_adapter(root_.path(), "0000:10:1b.0", 0, found), -ENOENT) << "a broken link";
}

}  // namespace
}  // namespace neuron::ndl
