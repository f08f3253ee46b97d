// SPDX-License-Identifier: Apache-2.0
// Test cases of a program that runs inside the guest, without any library.
//
// Concepts: a Case is a sentence and a function; CASE() registers it, run_cases() runs all in the
// order of their files and prints one line each, "ok 3 sentence" or "not ok 3 sentence - why". A
// failed check throws Failure. A case that takes longer than a minute (ten on a debug kernel) ends
// the program with its name. Callers: main of each guest program. Threads: cases may start some,
// and join them.
#ifndef TESTS_VM_GUEST_CHECK_H
#define TESTS_VM_GUEST_CHECK_H

#include <cstdint>
#include <string>

namespace neuron::guest {

struct Failure {
  std::string why;
};

// Why a case does not apply to this driver or chip; counted as skipped (tests/skips).
struct Skipped {
  std::string why;
};

struct Case {
  Case(const char* sentence_of_case, void (*function)());
  const char* sentence;
  void (*run)();
  Case* next = nullptr;
};

// Runs every case whose sentence contains argv[1] (all without it); the exit status of the program.
int run_cases(int argc, char** argv);

[[noreturn]] void fail(const char* file, int line, const std::string& why);
void expect_equal(long long actual, long long wanted, const char* text, const char* file, int line);

}  // namespace neuron::guest

#define NEURON_JOIN_(a, b) a##b
#define NEURON_JOIN(a, b) NEURON_JOIN_(a, b)
#define CASE(sentence)                                                                    \
  static void NEURON_JOIN(run_, __LINE__)();                                              \
  static ::neuron::guest::Case NEURON_JOIN(case_, __LINE__)(sentence,                     \
                                                            NEURON_JOIN(run_, __LINE__)); \
  static void NEURON_JOIN(run_, __LINE__)()

#define EXPECT(condition)                                                           \
  do {                                                                              \
    if (!(condition)) ::neuron::guest::fail(__FILE__, __LINE__, "not " #condition); \
  } while (0)
#define EXPECT_EQ(actual, wanted)                                                               \
  ::neuron::guest::expect_equal(static_cast<long long>(actual), static_cast<long long>(wanted), \
                                #actual, __FILE__, __LINE__)

#endif
