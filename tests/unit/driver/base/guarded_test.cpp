// SPDX-License-Identifier: Apache-2.0
// No exception crosses the edge of a C interface.
#include "driver/base/guarded.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace neuron::base {
namespace {

int status_of(void (*body)()) {
  return guarded(
      [&] {
        body();
        return 0;
      },
      [](const char* what, bool memory) {
        return memory ? 1 : std::string(what) == "broken" ? 2 : 3;
      });
}

TEST(Guarded, ReturnsWhatTheBodyReturns) {
  EXPECT_EQ(status_of([] {}), 0);
}

TEST(Guarded, TellsMemoryThatRanOutFromOtherExceptions) {
  EXPECT_EQ(status_of([] { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(status_of([] { throw std::runtime_error("broken"); }), 2);
  EXPECT_EQ(status_of([] { throw 5; }), 3);
}

}  // namespace
}  // namespace neuron::base
