// SPDX-License-Identifier: Apache-2.0
// Programs as child processes: one to talk to line by line, or one whose output is wanted.
//
// Callers: one thread. A Process owns its child, which is killed at the end, and the pipes to it.
// Deadlines: what waits for output or for the end waits for kPatience, or for the given limit.
// Fails: a program that cannot be started has ended before it began, and wait() says why.
#ifndef TESTS_SUPPORT_PROCESS_H
#define TESTS_SUPPORT_PROCESS_H

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "tests/support/child.h"

namespace neuron::test {

// Variables that a program has beside or instead of this process's own; without a value it has
// none of that name.
using Environment = std::map<std::string, std::optional<std::string>>;
using Words = std::vector<std::string>;

// A child whose standard input and output are pipes.
class Process {
 public:
  enum class Group { kShared, kSeparate };
  // Not opened: posix_spawn closes descriptor 2 before it opens another file as such.
  static constexpr const char* kSameError = "/dev/stderr";
  // The first word is a path, or a name that is looked for in PATH. Standard error is appended to
  // the file `log`; without one it joins standard output, and with kSameError it stays that of this
  // process. With a group of its own, what ends the child ends what it has started.
  explicit Process(const Words& command, const Environment& environment = {},
                   const std::string& log = "", Group group = Group::kShared);

  pid_t pid() const { return child_.pid(); }
  void signal(int number) const { child_.signal(number); }
  Ending wait(std::chrono::milliseconds limit = kPatience);
  Ending kill() { return child_.kill(); }
  // Asks it to end (SIGTERM) and waits until it has.
  Ending stop();
  // Whether it has ended; wait() still tells how.
  bool ended() const { return child_.ended(); }

  bool say(const std::string& line) { return write(line + "\n"); }
  bool write(const std::string& text);
  // The next line of output; "(nothing)" after kPatience, "(end)" when there is no more.
  std::string line();
  std::string ask(const std::string& question) { return say(question) ? line() : "(end)"; }
  // The next output before a delimiter, which is taken away. Nothing at the end of the output or at
  // the deadline; at_end() tells which.
  std::optional<std::string> until(char delimiter, base::Deadline deadline);
  // All that is left of the output, until its end or the deadline.
  std::string rest(std::chrono::milliseconds limit = kPatience);
  bool at_end() const { return end_; }
  void close_input() { input_ = base::FileDescriptor(); }
  void close_output() { output_ = base::FileDescriptor(); }

 private:
  // Takes what there is; false at the deadline and at the end.
  bool read(base::Deadline deadline);

  base::FileDescriptor input_, output_;
  Child child_;
  int refused_ = 0;  // the errno with which it was not started
  bool end_ = false;
  std::string read_;
};

// What a program that has run said, both outputs together, and how it ended. Past the limit it is
// killed with all that it has started, and `ending` says that it still ran.
struct Run {
  Ending ending;
  std::string output;
};
Run run(const Words& command, const Environment& environment = {},
        std::chrono::milliseconds limit = kPatience);
// The same for a line of the shell.
Run shell(const std::string& line, const Environment& environment = {},
          std::chrono::milliseconds limit = kPatience);

}  // namespace neuron::test

#endif
