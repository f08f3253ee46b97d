// SPDX-License-Identifier: Apache-2.0
// Fails the first, second, third ... call of each function to the port, until none is left to fail.
// Each time the function must report that failure, say a sentence, and leave nothing behind.
#include <functional>
#include <vector>

#include "fixture.h"
#include "nrt/nds/neuron_ds.h"

namespace neuron::ndl::testing {
namespace {

struct Scenario {
  const char* name;
  // Uses the device and gives everything back; the first failure it meets, or 0.
  std::function<int(ndl_device_t*)> run;
};

// Keeps the first failure, so that cleaning up after it does not hide it.
class Outcome {
 public:
  bool failed(int result) {
    if (first_ == 0 && result != 0) first_ = result;
    return result != 0;
  }
  int first() const { return first_; }

 private:
  int first_ = 0;
};

int with_memory(ndl_device_t* device, const std::function<int(uint64_t, uint64_t)>& use) {
  Outcome outcome;
  uint64_t first = 0, second = 0;
  if (outcome.failed(ndl_memory_alloc(device, 4096, 0, 0, 0, 0, 0, 0, &first))) {
    return outcome.first();
  }
  if (!outcome.failed(ndl_memory_alloc(device, 4096, 0, 1, 0, 0, 0, 0, &second))) {
    outcome.failed(use(first, second));
    outcome.failed(ndl_memory_free(second));
  }
  outcome.failed(ndl_memory_free(first));
  return outcome.first();
}

std::vector<Scenario> scenarios() {
  static char buffer[4096];
  static nrt_tensor_batch_op_t op = {0, 16, buffer};
  return {
      {"open a second device",
       [](ndl_device_t*) {
         ndl_device_t* other = nullptr;
         const int result = ndl_open_device(1, nullptr, &other);
         return result != 0 ? result : ndl_close_device(other);
       }},
      {"allocate and free",
       [](ndl_device_t* device) {
         return with_memory(device, [](uint64_t, uint64_t) { return 0; });
       }},
      {"map and unmap",
       [](ndl_device_t* device) {
         return with_memory(device, [](uint64_t first, uint64_t second) {
           void* va = nullptr;
           Outcome outcome;
           if (!outcome.failed(ndl_memory_map(first, &va))) {
             outcome.failed(ndl_memory_unmap(first));
           }
           outcome.failed(ndl_memory_map(second, &va));
           return outcome.first();
         });
       }},
      {"copies",
       [](ndl_device_t* device) {
         return with_memory(device, [](uint64_t first, uint64_t second) {
           Outcome outcome;
           neuron_memcpy_batch_t batch = {};
           batch.mem_handle = first;
           batch.ops_ptr = &op;
           batch.num_ops = 1;
           outcome.failed(ndl_memory_buf_copyin(first, buffer, 0, 4096)) ||
               outcome.failed(ndl_memory_buf_copyout(first, buffer, 0, 4096)) ||
               outcome.failed(ndl_memory_buf_zerocopyin(first, buffer, 0, 4096, -1, 0)) ||
               outcome.failed(ndl_memory_buf_zerocopyout(first, buffer, 0, 4096, -1)) ||
               outcome.failed(ndl_memory_buf_batch_copy(&batch, 1, 1, -1)) ||
               outcome.failed(ndl_memset(first, 0, 1, 4096)) ||
               outcome.failed(ndl_memory_copy(first, second, 0, 0, 4096));
           return outcome.first();
         });
       }},
      {"queues",
       [](ndl_device_t* device) {
         return with_memory(device, [](uint64_t first, uint64_t second) {
           Outcome outcome;
           auto batch = std::make_unique<ndl_queue_init_batch>();
           batch->count = 1;
           batch->entries[0] = {0, 1, 32, 32, first, second, 0, 0};
           neuron_dma_queue_state tx = {}, rx = {};
           outcome.failed(ndl_dma_queue_init(0, 0, 0, 32, 32, first, second, 0, 0)) ||
               outcome.failed(ndl_dma_queue_init_batch(0, batch.get())) ||
               outcome.failed(
                   ndl_dma_copy_descriptors(first, buffer, 0, 32, NEURON_DMA_QUEUE_TYPE_TX)) ||
               outcome.failed(ndl_dma_queue_copy_start(0, 0, 0, 1, 1)) ||
               outcome.failed(ndl_dma_ack_completed_desc(0, 0, 0, 1)) ||
               outcome.failed(ndl_dma_queue_get_state(0, 0, 0, &tx, &rx));
           return outcome.first();
         });
       }},
      {"notification queue",
       [](ndl_device_t* device) {
         Outcome outcome;
         uint64_t queue = 0;
         void* va = nullptr;
         if (outcome.failed(ndl_notification_init(device, 0, NQ_DEV_TYPE_NEURON_CORE,
                                                  NQ_TYPE_NOTIFY, 0, 4096, true, 0, 0, &queue))) {
           return outcome.first();
         }
         outcome.failed(ndl_notification_map(queue, &va));
         outcome.failed(ndl_notification_destroy(queue));
         return outcome.first();
       }},
      {"claims",
       [](ndl_device_t*) {
         uint64_t bitmap = 0;
         const int result = ndl_crwl_nc_range_mark(2, 0, 3, nullptr, &bitmap, sizeof(bitmap));
         return result != 0 ? result : ndl_crwl_nc_range_unmark(&bitmap, sizeof(bitmap));
       }},
      {"reset",
       [](ndl_device_t* device) {
         uint32_t request = 0, state = 0;
         uint8_t done = 0;
         Outcome outcome;
         outcome.failed(ndl_reset_ncs(0, 1, &request)) ||
             outcome.failed(ndl_ready_ncs(0, request, &done)) ||
             outcome.failed(ndl_nc_init_set_state(device, 0, NEURON_CINIT_STATE_STARTED, &state));
         return outcome.first();
       }},
      {"registers, semaphores, events",
       [](ndl_device_t* device) {
         uint64_t address = device->csr_base[0];
         uint32_t value = 1;
         Outcome outcome;
         outcome.failed(ndl_bar_write(device, 0, &address, 1, &value)) ||
             outcome.failed(ndl_bar_read(device, 0, &address, 1, &value)) ||
             outcome.failed(ndl_nc_semaphore_write(device, 0, 1, 2)) ||
             outcome.failed(ndl_nc_semaphore_read(device, 0, 1, &value)) ||
             outcome.failed(ndl_nc_event_set(device, 0, 1, 1)) ||
             outcome.failed(ndl_nc_event_get(device, 0, 1, &value)) ||
             outcome.failed(ndl_program_engine(device, 0, 0, buffer, 0, 64));
         return outcome.first();
       }},
      {"questions",
       [](ndl_device_t* device) {
         uint32_t low = 0, high = 0, domain = 0, bus = 0, id = 0;
         uint8_t slot = 0, function = 0;
         int index = 0;
         neuron_app_info* apps = nullptr;
         size_t count = 0;
         Outcome outcome;
         outcome.failed(ndl_get_compatible_version(&low, &high)) ||
             outcome.failed(ndl_get_board_info(&low, &high)) ||
             outcome.failed(ndl_get_device_bdf_ext(0, &domain, &bus, &slot, &function)) ||
             outcome.failed(std::min(ndl_available_devices(&index, 1), 0)) ||
             outcome.failed(ndl_get_host_device_id(device, &id)) ||
             outcome.failed(ndl_get_all_apps_info(device, &apps, &count, 0));
         free(apps);
         return outcome.first();
       }},
      {"datastore",
       [](ndl_device_t* device) {
         nds_instance_t* store = nullptr;
         const int result = nds_open(device, 0, &store);
         return result != 0 ? result : nds_close(store);
       }},
      {"staging buffer",
       [](ndl_device_t* device) {
         ndl_copy_buf_t* staging = nullptr;
         const int result = ndl_get_copy_buf(device, 0, &staging);
         if (result == 0) {
           pthread_mutex_unlock(&staging->lock);
           // Owned by the device: taken back here so that each round starts alike.
           const uint64_t handle = std::exchange(staging->mem_handle, 0);
           return ndl_memory_free(handle);
         }
         return result;
       }},
  };
}

using FailureSweep = Library;

TEST_F(FailureSweep, EachFailedCallIsReportedAndLeavesNothingBehind) {
  open();
  for (const Scenario& scenario : scenarios()) {
    constexpr int kMostCalls = 100;
    int number = 1;
    for (; number <= kMostCalls; ++number) {
      SCOPED_TRACE(std::string(scenario.name) + ", call " + std::to_string(number));
      driver.calls = 0;
      driver.fail_at = number;
      errno = 0;
      const int result = scenario.run(device);
      const bool reached = driver.calls >= number;
      driver.fail_at = 0;
      EXPECT_EQ(handles_in_use(), 0u);
      EXPECT_EQ(driver.process_chunks(), 0u);
      EXPECT_EQ(driver.mappings, 0);
      EXPECT_EQ(driver.open_devices, 1);
      EXPECT_EQ(driver.claims, 0u);
      EXPECT_FALSE(driver.datastore);
      if (!reached) {
        EXPECT_EQ(result, 0) << last_error();
        break;
      }
      EXPECT_EQ(result, -EIO);
    }
    EXPECT_GT(number, 1) << scenario.name << " makes no call";
    EXPECT_LE(number, kMostCalls) << scenario.name;
  }
}

TEST_F(FailureSweep, KeepsTheErrnoAndASentenceOfTheFirstFailure) {
  open();
  driver.fail_with = ENOSPC;
  driver.calls = 0;
  driver.fail_at = 2;  // asking about the memory that was just allocated
  uint64_t handle = 0;
  EXPECT_EQ(ndl_memory_alloc(device, 4096, 0, 0, 0, 0, 0, 0, &handle), -ENOSPC);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_TRUE(says("device 0: asking about memory")) << last_error();
  EXPECT_EQ(handle, 0u);
  EXPECT_EQ(driver.process_chunks(), 0u);
}

TEST_F(FailureSweep, OpeningFailsCleanlyAtEachCall) {
  for (int number = 1;; ++number) {
    driver.calls = 0;
    driver.fail_at = number;
    ndl_device_t* opened = nullptr;
    const int result = ndl_open_device(0, nullptr, &opened);
    if (driver.calls < number) {
      ASSERT_EQ(result, 0);
      EXPECT_GT(number, 3);
      EXPECT_EQ(ndl_close_device(opened), 0);
      break;
    }
    EXPECT_EQ(result, -EIO) << number;
    EXPECT_EQ(driver.open_devices, 0);
    EXPECT_NE(std::string(last_error()), "");
  }
}

}  // namespace
}  // namespace neuron::ndl::testing
