// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "driver/base/deadline.h"

namespace neuron::runtime {
namespace {

Result<int> half(int value) {
  if (value % 2) return fail(NRT_INVALID, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  NEURON_TRY(first, half(value));
  NEURON_TRY(second, half(first));
  return second;
}

Result<void> check(int value) {
  NEURON_CHECK(half(value).has_value() ? Result<void>() : Result<void>(half(value).error()));
  return {};
}

TEST(Error, CarriesStatusAndSentenceThroughCallers) {
  EXPECT_EQ(*quarter(12), 3);
  const auto odd = quarter(6);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().status, NRT_INVALID);
  EXPECT_EQ(odd.error().sentence, "3 is odd");
  EXPECT_EQ(odd.error().with("file {}", "a.neff").sentence, "file a.neff: 3 is odd");
  EXPECT_EQ(odd.error().with("file {}", "a.neff").status, NRT_INVALID);
  EXPECT_TRUE(check(2));
  EXPECT_FALSE(check(3));
}

TEST(Error, AppendsTheSystemsReason) {
  const Error error = fail_with_errno(NRT_RESOURCE, ENOMEM, "cannot map {} bytes", 4096);
  EXPECT_EQ(error.errno_, ENOMEM);
  EXPECT_EQ(error.sentence, "cannot map 4096 bytes: Cannot allocate memory (errno 12)");
}

TEST(Error, IsThrownOnlyWhenAValueIsTakenFromIt) {
  EXPECT_THROW((void)quarter(6).value(), std::logic_error);
}

TEST(Deadline, ExpiresAtItsMomentAndNeverOverflows) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(base::Deadline::after(0ns).expired());
  EXPECT_EQ(base::Deadline::after(-1s).remaining(), 0ns);
  const base::Deadline later = base::Deadline::after(1h);
  EXPECT_FALSE(later.expired());
  EXPECT_GT(later.remaining_ms(), 3'599'000);
  EXPECT_LE(later.remaining_ms(), 3'600'000);
  EXPECT_FALSE(base::Deadline::after(std::chrono::nanoseconds::max()).expired());
  EXPECT_EQ(base::Deadline::after(std::chrono::nanoseconds::max()).remaining_ms(), INT32_MAX);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  EXPECT_NEAR(static_cast<double>(later.absolute().tv_sec - now.tv_sec), 3600, 1);
}

}  // namespace
}  // namespace neuron::runtime
