// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/launcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/support/eventually.h"

namespace neuron::ccom {
namespace {

ccom_completion_t completion_of(void (*done)(void*, ccom_status_t, const char*), void* context) {
  ccom_completion_t completion = {};
  completion.size_of = sizeof(completion);
  completion.done = done;
  completion.context = context;
  return completion;
}

TEST(Launchers, ReportWhatIsThrownInTheirThreadAndGoOn) {
  std::atomic<int> looks{0}, failures{0}, without_memory{0}, told{0};
  Launcher launcher(
      [&] {
        if (++looks == 1) throw std::bad_alloc();
      },
      [&](const char*, bool memory_ran_out) { ++(memory_ran_out ? without_memory : failures); });
  launcher.launched();
  ASSERT_TRUE(test::eventually([&] { return looks > 3; }));
  EXPECT_EQ(without_memory, 1);
  launcher.launched();
  launcher.ended(completion_of([](void*, ccom_status_t,
                                  const char*) { throw std::runtime_error("of the program"); },
                               nullptr),
                 CCOM_SUCCESS, "");
  launcher.ended(completion_of([](void* count, ccom_status_t,
                                  const char*) { ++*static_cast<std::atomic<int>*>(count); },
                               &told),
                 CCOM_SUCCESS, "");
  ASSERT_TRUE(test::eventually([&] { return told == 1; }));
  EXPECT_EQ(failures, 1);
}

}  // namespace
}  // namespace neuron::ccom
