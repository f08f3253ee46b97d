// SPDX-License-Identifier: Apache-2.0
// Test fixture: the driver library on a fake driver, and the check that nothing is left at the end.
#ifndef TESTS_UNIT_DRIVER_NDL_FIXTURE_H
#define TESTS_UNIT_DRIVER_NDL_FIXTURE_H

#include <gtest/gtest.h>

#include "driver/ndl/device_table.h"
#include "driver/ndl/handle_table.h"
#include "fake_port.h"
#include "ndl/ndl.h"

namespace neuron::ndl::testing {

class Library : public ::testing::Test {
 protected:
  void SetUp() override { set_port(std::make_unique<FakePort>(driver)); }
  void TearDown() override {
    if (device != nullptr) {
      EXPECT_EQ(ndl_close_device(device), 0);
    }
    EXPECT_EQ(handles_in_use(), 0u);
    EXPECT_EQ(driver.open_devices, 0);
    EXPECT_EQ(driver.open_controls, 0);
    EXPECT_EQ(driver.mappings, 0);
    EXPECT_EQ(driver.process_chunks(), 0u);
    set_port(nullptr);
  }
  void open() { ASSERT_EQ(ndl_open_device(0, nullptr, &device), 0) << last_error(); }
  uint64_t allocate(size_t size) {
    uint64_t handle = 0;
    EXPECT_EQ(
        ndl_memory_alloc(device, size, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &handle),
        0)
        << last_error();
    return handle;
  }
  static bool says(const char* part) {
    return std::string(last_error()).find(part) != std::string::npos;
  }

  FakeDriver driver;
  ndl_device_t* device = nullptr;
};

}  // namespace neuron::ndl::testing

#endif
