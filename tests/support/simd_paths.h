// SPDX-License-Identifier: Apache-2.0
// Runs a check on SIMD paths, and says which of them this processor does not have.
//
// A path that is absent is a skip: one line for tests/skips, which knows those that may be absent.
// Callers: tests of the numerics and of what computes with them, in one thread. Restores the path
// that was selected before.
#ifndef TESTS_SUPPORT_SIMD_PATHS_H
#define TESTS_SUPPORT_SIMD_PATHS_H

#include <gtest/gtest.h>

#include <cstdio>
#include <initializer_list>
#include <set>
#include <string>

#include "driver/emulator/numerics/simd_path.h"

namespace neuron::test {

// "Suite.Name" of the test that runs.
inline std::string running_test() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return info == nullptr ? "a test" : std::string(info->test_suite_name()) + "." + info->name();
}

// Selects the path. False: the processor does not have it, which is told once a test.
inline bool select_path_or_tell(numerics::SimdPath path) {
  if (numerics::select_simd_path(path)) return true;
  static std::set<std::string> told;
  const std::string what = running_test() + " on " + numerics::simd_path_name(path);
  if (told.insert(what).second) {
    std::printf("skipped: %s: this processor does not have that SIMD path\n", what.c_str());
  }
  return false;
}

// Calls check(path) on each of the paths that the processor has.
template <class Check>
void on_each_path(std::initializer_list<numerics::SimdPath> paths, const Check& check) {
  const numerics::SimdPath saved = numerics::simd_path();
  for (const numerics::SimdPath path : paths) {
    if (!select_path_or_tell(path)) continue;
    SCOPED_TRACE(numerics::simd_path_name(path));
    check(path);
    if (::testing::Test::HasFatalFailure()) break;
  }
  numerics::select_simd_path(saved);
}

}  // namespace neuron::test

#endif
