// SPDX-License-Identifier: Apache-2.0
//
// A child process of this program, and how it ended.
//
// Concepts: a program is started with execvp's rules, or a function is called in a copy of this
// process. Each standard stream is this program's own, /dev/null, a log file or a pipe. A process
// that could not be started has ended with kNotStarted, so callers check one place only. Every wait
// has a deadline. A process that hangs in the kernel and survives SIGKILL is left to init.
// Callers: one thread for each object. Owns the process, which is killed with its object, and this
// program's ends of the pipes. Fails: Ending says how.
#ifndef TOOLS_COMMON_CHILD_PROCESS_H
#define TOOLS_COMMON_CHILD_PROCESS_H

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/base/deadline.h"
#include "driver/base/file_descriptor.h"

namespace neuron::tools {

struct Ending {
  enum class How {
    kExited,
    kSignalled,
    kLate,  // killed: it has not written a line for longer than Limits::step
    kOver,  // killed: it had not ended by Limits::end
    kNotStarted,
  } how = How::kNotStarted;
  int code = 0;        // exit status, signal or errno value
  std::string errors;  // the end of its standard error, if that is a pipe

  bool good() const { return how == How::kExited && code == 0; }
  // "ended with status 3", "was ended by signal 9", "could not be started: ...".
  std::string sentence() const;
};

// Variables added to those of this process; a variable without a value is removed.
using Environment = std::vector<std::pair<std::string, std::string>>;

// How long a process may take. It is killed when it takes longer.
struct Limits {
  std::chrono::milliseconds step{30000};  // between two lines of its standard output
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
};

class ChildProcess {
 public:
  enum class Stream { kOurs, kNothing, kLog, kPipe };
  struct Options {
    std::vector<std::string> command;
    // Called in the child instead of a command; kPipe then means standard output.
    std::function<void()> work = {};
    Environment environment = {};
    Stream input = Stream::kNothing, output = Stream::kPipe, errors = Stream::kOurs;
    int log = -1;                       // the descriptor that kLog means; -1: the stream is ours
    int signal_at_our_death = 0;        // that the child gets when the thread that started it ends
    bool dies_without_reader = false;   // SIGPIPE ends it, even if this program ignores the signal
    bool first_without_memory = false;  // the kernel ends it before this program
    bool own_session = false;           // Ctrl-C on this program's terminal is not meant for it
  };

  explicit ChildProcess(const Options& options);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  // Ends of pipes; negative for streams that are none, and once closed.
  int input() const { return input_.get(); }
  int output() const { return output_.get(); }
  void close_input() { input_ = base::FileDescriptor(); }
  void close_output() { output_ = base::FileDescriptor(); }

  // Hands each line of the output to `on_line` until the process ends or the limits are over.
  const Ending& attend(const Limits& limits, const std::function<void(std::string_view)>& on_line);

  // Waits until the process has ended or the deadline passes; true if it has ended.
  bool ended_by(base::Deadline deadline);
  void signal(int number) const;
  // Sends the signal, and SIGKILL if the process has not ended within the grace.
  void end(int number, std::chrono::milliseconds grace);

  // Leaves the process to itself: it outlives this object, and is no longer waited for.
  void let_go() { pid_ = -1; }

  // Valid once the process has ended.
  const Ending& ending() const { return ending_; }

 private:
  struct Prepared;
  [[noreturn]] static void run(const Options& options, const Prepared& prepared);
  bool read_streams(const Limits& limits, const std::function<void(std::string_view)>& on_line);

  pid_t pid_ = -1;  // -1: it has ended
  base::FileDescriptor input_, output_, errors_;
  Ending ending_;
};

// Runs a command to its end, with pipes for its output and its errors.
Ending run_command(const std::vector<std::string>& command, const Environment& environment,
                   const Limits& limits, const std::function<void(std::string_view)>& on_line);

// The file of this program, and that of a program which is installed beside it.
std::string own_program();
std::string program_beside(const std::string& name);

}  // namespace neuron::tools

#endif
