// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/unit/runtime/collectives/fake_ccom.h"

namespace neuron::runtime {
namespace {

using test::FakeCcom;
using test::Setting;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::StartsWith;

// The library is opened once in a process: what comes before runs in a process of its own, which
// executes this test alone, and ends with 0 if `holds`.
#define EXPECT_IN_A_NEW_PROCESS(holds)            \
  GTEST_FLAG_SET(death_test_style, "threadsafe"); \
  EXPECT_EXIT(std::exit((holds) ? 0 : 1), ::testing::ExitedWithCode(0), "")

bool refuses(const char* path, const std::string& begin, const std::string& end) {
  const Setting named("NEURON_CCOM_LIBRARY", path);
  const auto library = collectives_library();
  if (library) return false;
  EXPECT_EQ(library.error().status, NRT_FAILURE);
  EXPECT_THAT(library.error().sentence, AllOf(StartsWith(begin), EndsWith(end)));
  return !::testing::Test::HasFailure();
}

TEST(CollectivesLibrary, ThatIsNotThereIsNamedWithWhatWasTriedAndWhatToDo) {
  EXPECT_IN_A_NEW_PROCESS(
      refuses("/nowhere/libccom.so.1",
              "collectives need libccom.so.1, which cannot be loaded: /nowhere/libccom.so.1: ",
              "; install it beside libnrt.so.1, or give its path in NEURON_CCOM_LIBRARY"));
}

TEST(CollectivesLibrary, WithoutOurFunctionsIsNamedWithTheFirstThatItLacks) {
  EXPECT_IN_A_NEW_PROCESS(
      refuses("libm.so.6", "libm.so.6 has no function ccom_init: it does not belong", ""));
}

bool opens_after_a_failure() {
  if (!refuses("/nowhere/libccom.so.1", "", "")) return false;
  const Setting named("NEURON_CCOM_LIBRARY", FakeCcom::path());
  return collectives_library().has_value();
}

TEST(CollectivesLibrary, ThatWasNotThereIsLookedForAgain) {
  EXPECT_IN_A_NEW_PROCESS(opens_after_a_failure());
}

bool keeps_signals() {
  const std::array numbers = {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM};
  for (const int number : numbers) signal(number, SIG_IGN);
  const Setting named("NEURON_CCOM_LIBRARY", FakeCcom::path());
  if (!collectives_library()) return false;
  for (const int number : numbers) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) return false;
  }
  return true;
}

TEST(CollectivesLibrary, LeavesTheProgramItsSignals) { EXPECT_IN_A_NEW_PROCESS(keeps_signals()); }

TEST(CollectivesLibrary, HasAllItsFunctionsAndIsOpenedOnce) {
  FakeCcom fake;
  const auto library = collectives_library();
  ASSERT_TRUE(library);
  EXPECT_EQ((*library)->status(nullptr), CCOM_SUCCESS);
  EXPECT_NE((*library)->init, nullptr);
  EXPECT_NE((*library)->free, nullptr);
  EXPECT_NE((*library)->run, nullptr);
  EXPECT_NE((*library)->tell, nullptr);
  EXPECT_NE((*library)->told, nullptr);
  EXPECT_NE((*library)->last_error, nullptr);
  EXPECT_NE((*library)->device_scratch, nullptr);
  EXPECT_NE((*library)->device_compile, nullptr);
  EXPECT_NE((*library)->device_describe, nullptr);
  EXPECT_NE((*library)->device_free, nullptr);
  const Setting elsewhere("NEURON_CCOM_LIBRARY", "/nowhere/libccom.so.1");
  ASSERT_TRUE(collectives_library());
  EXPECT_EQ(*collectives_library(), *library);
}

TEST(CollectivesLibrary, EachOfItsStatusesIsOneOfTheRuntime) {
  for (const auto& [theirs, ours] : {std::pair{CCOM_SUCCESS, NRT_SUCCESS},
                                     {CCOM_INVALID, NRT_INVALID},
                                     {CCOM_MISMATCH, NRT_INVALID},
                                     {CCOM_TIMEOUT, NRT_TIMEOUT},
                                     {CCOM_RANK_DEAD, NRT_FAILURE},
                                     {CCOM_ABORTED, NRT_FAILURE},
                                     {CCOM_RESOURCE, NRT_RESOURCE},
                                     {CCOM_UNSUPPORTED, NRT_UNSUPPORTED_NEFF_VERSION},
                                     {CCOM_SYSTEM, NRT_FAILURE},
                                     {CCOM_IN_PROGRESS, NRT_COLL_PENDING},
                                     {CCOM_REFUSED, NRT_FAILURE}}) {
    EXPECT_EQ(status_of_collectives(theirs), ours) << theirs;
  }
}

}  // namespace
}  // namespace neuron::runtime
