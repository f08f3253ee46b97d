// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/executions.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <random>
#include <vector>

namespace neuron::profile {
namespace {

void expect_same(const Execution& a, const Execution& b, size_t n) {
  EXPECT_EQ(a.exec_id, b.exec_id) << n;
  EXPECT_EQ(a.begin_ns, b.begin_ns) << n;
  EXPECT_EQ(a.end_ns, b.end_ns) << n;
  EXPECT_EQ(a.device_ps, b.device_ps) << n;
  EXPECT_EQ(a.failed, b.failed) << n;
  EXPECT_EQ(a.events, b.events) << n;
}

// Against a plain list, in any order; times of a damaged file may be any.
TEST(Executions, AreWhatWasAddedWhereverOneLooks) {
  std::mt19937_64 random(7);
  Executions executions;
  std::vector<Execution> plain;
  for (size_t n = 0; n < 1000; ++n) {
    Execution one{.exec_id = n < 500 ? n : random(), .failed = n % 7 == 0};
    one.begin_ns = n < 500 ? n * 1000 : random();
    one.end_ns = n < 500 ? n * 1000 + 400 : random();
    one.device_ps = random();
    if (n == 0 || random() % 4 == 0) {
      executions.add(one);
      one.events = n;
      plain.push_back(one);
      continue;
    }
    const size_t earlier = random() % n;
    executions.add_same(earlier, one);
    Execution same = plain[earlier];
    same.exec_id = one.exec_id;
    same.begin_ns = one.begin_ns;
    same.end_ns = one.end_ns;
    plain.push_back(same);
  }
  ASSERT_EQ(executions.size(), plain.size());
  for (size_t n = 0; n < plain.size(); ++n) expect_same(executions[n], plain[n], n);
  for (size_t n = plain.size(); n-- > 0;) expect_same(executions[n], plain[n], n);
  for (int times = 0; times < 2000; ++times) {
    const size_t n = random() % plain.size();
    expect_same(executions[n], plain[n], n);
  }
}

TEST(Executions, ThatRepeatTakeAboutTenBytesEach) {
  constexpr size_t kMany = 1'000'000;
  const size_t before = ::mallinfo2().uordblks;
  Executions executions;
  executions.add({.exec_id = 1});
  for (size_t n = 1; n < kMany; ++n) {
    executions.add_same(n - 1, {.exec_id = n + 1,
                                .begin_ns = 1'700'000'000'000'000'000 + n * 60'000,
                                .end_ns = 1'700'000'000'000'000'000 + n * 60'000 + 50'000});
  }
  EXPECT_EQ(executions[kMany - 1].exec_id, kMany);
  EXPECT_LT(::mallinfo2().uordblks - before, kMany * 16);
}

}  // namespace
}  // namespace neuron::profile
