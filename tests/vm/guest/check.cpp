// SPDX-License-Identifier: Apache-2.0
#include "tests/vm/guest/check.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>

namespace neuron::guest {
namespace {

// A kernel that watches everything takes its time.
unsigned seconds_per_case() { return access("/sys/kernel/debug/kmemleak", F_OK) == 0 ? 600 : 60; }

Case*& first_case() {
  static Case* first = nullptr;
  return first;
}

const char* running = "";

extern "C" void took_too_long(int) {
  const auto put = [](const char* text) { return write(STDOUT_FILENO, text, strlen(text)); };
  (void)(put("not ok - ") < 0 || put(running) < 0 || put(" - took too long\n") < 0);
  _exit(1);
}

}  // namespace

Case::Case(const char* sentence_of_case, void (*function)())
    : sentence(sentence_of_case), run(function) {
  Case** place = &first_case();
  while (*place) place = &(*place)->next;
  *place = this;
}

void fail(const char* file, int line, const std::string& why) {
  const char* name = std::strrchr(file, '/');
  throw Failure{std::string(name ? name + 1 : file) + ":" + std::to_string(line) + ": " + why};
}

void expect_equal(long long actual, long long wanted, const char* text, const char* file,
                  int line) {
  if (actual == wanted) return;
  char values[96];
  std::snprintf(values, sizeof(values), " is %lld (0x%llx), not %lld (0x%llx)", actual, actual,
                wanted, wanted);
  fail(file, line, text + std::string(values));
}

int run_cases(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  signal(SIGALRM, took_too_long);
  int number = 0;
  int bad = 0;
  for (const Case* each = first_case(); each; each = each->next) {
    if (argc > 1 && !std::strstr(each->sentence, argv[1])) continue;
    running = each->sentence;
    std::string why;
    const time_t start = time(nullptr);
    alarm(seconds_per_case());
    try {
      each->run();
    } catch (const Failure& failure) {
      why = failure.why;
    } catch (const Skipped& skipped) {
      alarm(0);
      std::printf("ok %d %s # SKIP %s\n", ++number, each->sentence, skipped.why.c_str());
      continue;
    } catch (const std::exception& error) {
      why = error.what();
    }
    alarm(0);
    const long took = static_cast<long>(time(nullptr) - start);
    if (took > 5) std::printf("# the next case took %ld s\n", took);
    if (why.empty()) {
      std::printf("ok %d %s\n", ++number, each->sentence);
    } else {
      std::printf("not ok %d %s - %s\n", ++number, each->sentence, why.c_str());
      ++bad;
    }
  }
  std::printf("1..%d\n", number);
  return bad == 0 && number > 0 ? 0 : 1;
}

}  // namespace neuron::guest

int main(int argc, char** argv) { return neuron::guest::run_cases(argc, argv); }
