// SPDX-License-Identifier: Apache-2.0

#include "fixture.h"
#include "tests/support/child.h"

namespace neuron::ndl::testing {
namespace {

using Devices = Library;

TEST_F(Devices, AreSharedByAllOpenersAndClosedByTheLast) {
  ndl_device_t *first = nullptr, *second = nullptr;
  ASSERT_EQ(ndl_open_device(1, nullptr, &first), 0);
  ASSERT_EQ(ndl_open_device(1, nullptr, &second), 0);
  EXPECT_EQ(first, second);
  EXPECT_EQ(driver.open_devices, 1);
  EXPECT_EQ(first->device_index, 1);
  EXPECT_EQ(first->device_type, 2);
  EXPECT_EQ(first->device_revision, 255);
  EXPECT_EQ(first->csr_base[0], 0x7F0000000000u);
  EXPECT_EQ(first->connected_device_count, 8) << "a driver's count is not trusted";
  EXPECT_EQ(first->connected_devices[0], 1);
  EXPECT_NE(device_port(first), nullptr);
  EXPECT_EQ(ndl_close_device(first), 0);
  EXPECT_EQ(driver.open_devices, 1);
  EXPECT_EQ(ndl_close_device(second), 0);
  EXPECT_EQ(driver.open_devices, 0);
  EXPECT_EQ(ndl_close_device(second), -ENODEV);
  EXPECT_EQ(device_port(second), nullptr);
}

TEST_F(Devices, AnswerWhatTheyAre) {
  open();
  int indexes[4] = {};
  EXPECT_EQ(ndl_available_devices(indexes, 4), 2);
  EXPECT_EQ(indexes[1], 1);
  EXPECT_EQ(ndl_available_devices(nullptr, 0), 2);
  ndl_version_info_t version = {};
  ASSERT_EQ(ndl_get_version(&version), 0);
  EXPECT_EQ(version.driver_major_version, 2);
  EXPECT_EQ(version.driver_minor_version, 25);
  EXPECT_STREQ(version.driver_full_version, "2.25.4.0");
  uint32_t low = 0, high = 0, architecture = 0, revision = 0;
  EXPECT_EQ(ndl_get_compatible_version(&low, &high), 0);
  EXPECT_EQ(low, 5u);
  EXPECT_EQ(high, 7u);
  EXPECT_EQ(ndl_get_board_info(&architecture, &revision), 0);
  EXPECT_EQ(architecture, 2u);
  uint32_t domain = 9, bus = 0;
  uint8_t slot = 0, function = 9;
  EXPECT_EQ(ndl_get_device_bdf_ext(1, &domain, &bus, &slot, &function), 0);
  EXPECT_EQ(bus, 0x11u);
  EXPECT_EQ(slot, 0x1E);
  EXPECT_EQ(ndl_get_device_bdf(5, &bus, &slot, &function), -ENODEV);
  const auto* context = reinterpret_cast<const ndl_device_context_t*>(device->context);
  EXPECT_TRUE(ndl_feature_supported(context->nd_fd, NEURON_DRIVER_FEATURE_ZEROCOPY));
  EXPECT_FALSE(ndl_feature_supported(context->nd_fd - 1, NEURON_DRIVER_FEATURE_ZEROCOPY));
  neuron_app_info* apps = nullptr;
  size_t count = 0;
  ASSERT_EQ(ndl_get_all_apps_info(device, &apps, &count, APP_INFO_ALL), 0);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(apps[0].pid, 4242);
  free(apps);
}

TEST_F(Devices, ReadAndWriteRegistersByAbsoluteAddress) {
  open();
  uint64_t addresses[] = {device->csr_base[0] + 0x100, device->csr_base[0] + 0x104};
  uint32_t values[] = {7, 8}, back[2] = {};
  ASSERT_EQ(ndl_bar_write(device, 0, addresses, 2, values), 0);
  ASSERT_EQ(ndl_bar_read(device, 0, addresses, 2, back), 0);
  EXPECT_EQ(back[1], 8u);
  EXPECT_EQ(ndl_bar_read(device, 0, addresses, 101, back), -EINVAL);
  EXPECT_EQ(ndl_bar_read(device, 0, addresses, 0, back), -EINVAL);
  EXPECT_EQ(ndl_bar_read(device, 0, nullptr, 1, back), -EINVAL);
}

TEST_F(Devices, KeepTheControlDescriptorOnlyWhileItIsNeeded) {
  uint32_t architecture = 0, revision = 0;
  ASSERT_EQ(ndl_get_board_info(&architecture, &revision), 0);
  EXPECT_EQ(driver.open_controls, 0);
  uint64_t bitmap[8] = {~0ull};
  ASSERT_EQ(ndl_crwl_nc_range_mark(2, 1, 3, nullptr, bitmap, sizeof(bitmap)), 0) << last_error();
  EXPECT_EQ(bitmap[0], 6u);
  EXPECT_EQ(driver.open_controls, 1) << "closing it would drop the claim";
  open();
  ASSERT_EQ(ndl_close_device(device), 0);
  device = nullptr;
  EXPECT_EQ(driver.claims, 6u);
  ASSERT_EQ(ndl_crwl_nc_range_unmark(bitmap, sizeof(bitmap)), 0);
  EXPECT_EQ(driver.open_controls, 0);
  uint32_t available = 0;
  EXPECT_EQ(ndl_crwl_nc_range_mark(9, 0, 31, &available, bitmap, 8), -EBUSY);
  EXPECT_EQ(available, 4u);
  EXPECT_TRUE(says("longest free run: 4")) << last_error();
  EXPECT_EQ(ndl_crwl_nc_range_mark(1, 0, 64, nullptr, bitmap, 8), -EINVAL);
}

TEST_F(Devices, TurnAPositiveAnswerOfTheDriverIntoAnError) {
  open();
  driver.positive_answer = 1;
  uint32_t request = 0;
  EXPECT_EQ(ndl_reset_ncs(0, NEURON_NC_MAP_DEVICE, &request), -EIO);
  EXPECT_TRUE(says("the driver answered 1")) << last_error();
  ASSERT_EQ(ndl_reset_ncs(0, NEURON_NC_MAP_DEVICE, &request), 0);
  uint8_t done = 0;
  ASSERT_EQ(ndl_ready_ncs(0, request, &done), 0);
  EXPECT_EQ(done, 1);
  ASSERT_EQ(ndl_ready_ncs(0, request + 1, &done), 0);
  EXPECT_EQ(done, 0);
}

TEST_F(Devices, RefuseADriverWithoutThe64BitCalls) {
  driver.features = 0x0F;
  EXPECT_EQ(ndl_open_device(0, nullptr, &device), -ENOTSUP);
  EXPECT_EQ(device, nullptr);
  EXPECT_TRUE(says("install driver 2.24 or later")) << last_error();
}

TEST_F(Devices, TellTheCallbackWhatAnOlderDriverLacks) {
  static std::string told;
  driver.features = 0xFF;
  ndl_register_soft_incompat_callback([](const char* sentence) { told = sentence; });
  open();
  ndl_register_soft_incompat_callback(nullptr);
  EXPECT_NE(told.find("zero-copy"), std::string::npos);
}

TEST_F(Devices, CountSemaphoresAndCheckTheirNumbers) {
  open();
  uint32_t value = 0;
  EXPECT_EQ(ndl_nc_semaphore_write(device, 0, 255, 10), 0);
  EXPECT_EQ(ndl_nc_semaphore_increment(device, 0, 255, 5), 0);
  EXPECT_EQ(ndl_nc_semaphore_decrement(device, 0, 255, 1), 0);
  EXPECT_EQ(ndl_nc_semaphore_read(device, 0, 255, &value), 0);
  EXPECT_EQ(value, 14u);
  EXPECT_EQ(ndl_nc_semaphore_read(device, 0, 256, &value), -EINVAL);
  EXPECT_EQ(ndl_nc_event_get(device, 0, 256, &value), -EINVAL);
  EXPECT_EQ(ndl_nc_event_get(device, -1, 0, &value), -E2BIG);
  EXPECT_EQ(ndl_nc_event_set(device, 1, 255, 1), 0);
  EXPECT_EQ(ndl_nc_event_get(device, 1, 255, &value), 0);
  EXPECT_EQ(value, 1u);
  EXPECT_EQ(ndl_nc_event_set(device, 1, 255, 0), 0);
  EXPECT_EQ(ndl_nc_event_get(device, 1, 255, &value), 0);
  EXPECT_EQ(value, 0u);
}

TEST_F(Devices, MakeNotificationQueuesThatOutliveTheirContext) {
  open();
  uint64_t queue = 0, memory = 0;
  ASSERT_EQ(ndl_notification_init(device, 1, NQ_DEV_TYPE_NEURON_CORE, NQ_TYPE_NOTIFY, 2, 4096, true,
                                  0, 0, &queue),
            0)
      << last_error();
  uint32_t size = 0;
  void* va = nullptr;
  EXPECT_EQ(ndl_notification_get_size(queue, &size), 0);
  EXPECT_EQ(size, 4096u);
  EXPECT_EQ(ndl_notification_map(queue, &va), 0);
  EXPECT_EQ(ndl_notification_get_mem_handle(queue, &memory), 0);
  EXPECT_EQ(ndl_memset(memory, 0, 0xFF, 4096), 0);
  EXPECT_EQ(static_cast<uint8_t*>(va)[4095], 0xFF);
  EXPECT_EQ(ndl_memory_free(queue), -EINVAL) << "a queue is no memory";
  EXPECT_EQ(ndl_notification_destroy(queue), 0);
  EXPECT_EQ(driver.mappings, 0);
  EXPECT_EQ(driver.chunks.size(), 1u) << "the driver keeps the queue until its core is reset";
  EXPECT_EQ(ndl_notification_destroy(queue), -EINVAL);
}

TEST_F(Devices, GiveASmallNotificationQueueItsOwnSizeNotThatOfItsPage) {
  open();
  uint64_t queue = 0;
  uint32_t size = 0;
  ASSERT_EQ(ndl_notification_init(device, 0, NQ_DEV_TYPE_NEURON_CORE, NQ_TYPE_NOTIFY, 1, 1024, true,
                                  0, 0, &queue),
            0)
      << last_error();
  ASSERT_EQ(ndl_notification_get_size(queue, &size), 0);
  EXPECT_EQ(size, 1024u) << "the ring wraps there, whatever its memory has";
  EXPECT_EQ(ndl_notification_destroy(queue), 0);
}

TEST_F(Devices, BelongToTheProcessThatOpenedThem) {
  open();
  const uint64_t handle = allocate(4096);
  auto child = test::Child::forked([&] {
    uint64_t pa = 0;
    uint32_t value = 0;
    int failures = 0;
    failures += ndl_nc_semaphore_read(device, 0, 0, &value) != -ENODEV;
    failures += std::string(last_error()).find("fork()") == std::string::npos;
    failures += ndl_memory_get_pa(handle, &pa) != -EINVAL;
    failures += std::string(last_error()).find("fork()") == std::string::npos;
    failures += ndl_close_device(device) != -ENODEV;
    ndl_device_cached_fd_close_all();
    failures += ndl_memory_get_pa(handle, &pa) != -EINVAL;
    // The child starts anew, with a driver of its own.
    FakeDriver mine;
    set_port(std::make_unique<FakePort>(mine));
    ndl_device_t* again = nullptr;
    failures += ndl_open_device(0, nullptr, &again) != 0;
    failures += mine.open_devices != 1;
    failures += ndl_close_device(again) != 0;
    return failures;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(ndl_memory_free(handle), 0) << "the parent goes on";
}

}  // namespace
}  // namespace neuron::ndl::testing
