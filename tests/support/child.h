// SPDX-License-Identifier: Apache-2.0
// A child of this process: how it ended, in time or not.
//
// Callers: one thread. A Child owns its process: the destructor kills the process and takes its
// status. Deadline: wait() returns after `limit`, and then says that the process still runs.
#ifndef TESTS_SUPPORT_CHILD_H
#define TESTS_SUPPORT_CHILD_H

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <iosfwd>
#include <string>

#include "tests/support/eventually.h"

namespace neuron::test {

// How a process ended. A number means the exit status: EXPECT_EQ(child.wait(), 0) prints a sentence
// if the child has ended otherwise, or not at all.
struct Ending {
  enum class Kind { kExited, kSignalled, kStillRuns, kNotStarted };
  Kind kind = Kind::kNotStarted;
  int number = 0;  // exit status, signal or errno

  bool operator==(const Ending&) const = default;
  bool operator==(int status) const { return kind == Kind::kExited && number == status; }
  // "exited with status 3", "was ended by signal 9 (Killed)", "still runs", "was not started: ...".
  std::string sentence() const;
};
inline Ending ended_by(int signal) { return {Ending::Kind::kSignalled, signal}; }
std::ostream& operator<<(std::ostream& stream, const Ending& ending);

// In a child: its first thread ends, as by pthread_exit() in main(), and another one lives on.
[[noreturn]] int live_in_another_thread();

class Child {
 public:
  // `pid` is what fork() returned to the parent; negative: there is no process. With `group`, the
  // process leads a group, and what ends it ends the group.
  explicit Child(pid_t pid = -1, bool group = false) : pid_(pid), group_(group) {}
  // Runs `body` in a forked child, whose exit status is what it returns.
  static Child forked(const std::function<int()>& body);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  // Does nothing when the process has ended and wait() has said so.
  void signal(int number) const;
  Ending wait(std::chrono::milliseconds limit = kPatience);
  // Kills it and waits for its end.
  Ending kill();
  // Whether it has ended, is stopped, or has gone on after a stop. wait() still tells its status.
  bool ended() const;
  bool stopped() const;
  bool continued() const;

 private:
  bool is(int state) const;
  bool owns() const { return pid_ > 0 && ending_.kind == Ending::Kind::kStillRuns; }

  pid_t pid_;
  bool group_;
  Ending ending_{Ending::Kind::kStillRuns};
};

}  // namespace neuron::test

#endif
