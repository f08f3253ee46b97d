// SPDX-License-Identifier: Apache-2.0
// nrt_close while other threads call, and sizes that no host has.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

class Lifecycle : public RuntimeTest {};

TEST_F(Lifecycle, ClosesAtOnceWhileOtherThreadsAreRefused) {
  // A call that comes while the runtime closes is counted for a moment: closing must notice when it
  // is the last to go. With this limit a lost wake-up would show after 12 seconds.
  const Setting timeout("NEURON_RT_EXEC_TIMEOUT", "1");
  nrt_close();
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        nrt_tensor_t* tensor = nullptr;
        if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, 64, "t", &tensor) ==
            NRT_SUCCESS) {
          nrt_tensor_free(&tensor);
        }
      }
    });
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20 && std::chrono::steady_clock::now() - start < std::chrono::seconds(10);
       ++i) {
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
    const auto before = std::chrono::steady_clock::now();
    nrt_close();
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
}

TEST_F(Lifecycle, RefusesATensorWhoseSizeWouldWrap) {
  for (const uint64_t size : {UINT64_MAX, UINT64_MAX - 62, UINT64_MAX / 2}) {
    nrt_tensor_t* tensor = nullptr;
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, size, "huge", &tensor),
              NRT_RESOURCE)
        << size;
    EXPECT_EQ(tensor, nullptr);
  }
}

}  // namespace
}  // namespace neuron::test
