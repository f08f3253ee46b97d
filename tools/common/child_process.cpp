// SPDX-License-Identifier: Apache-2.0
#include "tools/common/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "driver/base/backoff.h"

namespace neuron::tools {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
constexpr size_t kMostErrors = 2048, kMostLine = 1u << 24;
constexpr auto kDeath = 5s;  // after SIGKILL, until a process is given up

std::vector<std::string> merged(const Environment& environment) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view key = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [name, value] : environment) replaced |= name == key;
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : environment) {
    if (!value.empty()) all.push_back(name + "=" + value);
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

struct Pipe {
  base::FileDescriptor read, write;
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read = base::FileDescriptor(ends[0]);
    write = base::FileDescriptor(ends[1]);
    return true;
  }
};

}  // namespace

std::string Ending::sentence() const {
  switch (how) {
    case How::kExited:
      return "ended with status " + std::to_string(code);
    case How::kSignalled:
      return "was ended by signal " + std::to_string(code);
    case How::kLate:
      return "did not get on in time and was killed";
    case How::kOver:
      return "did not end in time and was killed";
    case How::kNotStarted:
      break;
  }
  return std::string("could not be started: ") + std::strerror(code);
}

// The data that the child needs between fork and exec.
struct ChildProcess::Prepared {
  std::vector<char*> words, variables;
  int streams[3] = {-1, -1, -1};
  const char* file = nullptr;
  int failed = -1;  // the pipe for the errno value of a failed exec
};

ChildProcess::ChildProcess(const Options& options) {
  // Everything that allocates comes before the fork.
  Pipe in, out, err, failed;
  const base::FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  std::vector<std::string> words = options.command, variables = merged(options.environment);
  const auto descriptor_of = [&](Stream stream, Pipe& pipe, bool reads) {
    if (stream == Stream::kPipe && pipe.open()) return reads ? pipe.read.get() : pipe.write.get();
    if (stream == Stream::kNothing) return nothing.get();
    return stream == Stream::kLog ? options.log : -1;
  };
  errno = 0;
  Prepared prepared{
      .words = pointers(words),
      .variables = pointers(variables),
      .streams = {descriptor_of(options.input, in, true), descriptor_of(options.output, out, false),
                  descriptor_of(options.errors, err, false)}};
  // This program runs its own image again, even if its file has been replaced since.
  const bool self = !words.empty() && words[0] == own_program();
  prepared.file = self ? "/proc/self/exe" : prepared.words[0];
  if (errno != 0 || !failed.open() || !nothing) {
    ending_.code = errno;
    return;
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    ending_.code = errno;
    return;
  }
  if (pid_ == 0) {
    if (options.signal_at_our_death != 0) {
      ::prctl(PR_SET_PDEATHSIG, options.signal_at_our_death);
      if (::getppid() != parent) ::_exit(127);
    }
    prepared.failed = failed.write.get();
    run(options, prepared);
  }
  input_ = std::move(in.write);
  output_ = std::move(out.read);
  errors_ = std::move(err.read);
  // Bounded: the other end closes when the command starts, when the function is called, or when the
  // child ends.
  failed.write = base::FileDescriptor();
  int why = 0;
  ssize_t length;
  do {
    length = ::read(failed.read.get(), &why, sizeof why);
  } while (length < 0 && errno == EINTR);
  if (length != sizeof why) return;
  ended_by(base::Deadline::after(kDeath));
  ending_ = {Ending::How::kNotStarted, why, {}};
}

void ChildProcess::run(const Options& options, const Prepared& prepared) {
  for (int i = 0; i < 3; ++i) {
    if (prepared.streams[i] >= 0) ::dup2(prepared.streams[i], i);
  }
  if (options.own_session) ::setsid();
  if (options.first_without_memory) {
    // Everybody may offer himself. Where this is not possible, the kernel chooses.
    const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (score >= 0) {
      [[maybe_unused]] const ssize_t written = ::write(score, "1000", 4);
      ::close(score);
    }
  }
  if (options.work) {
    ::close(prepared.failed);
    options.work();
    ::_exit(0);
  }
  if (options.dies_without_reader) ::signal(SIGPIPE, SIG_DFL);
  ::execvpe(prepared.file, prepared.words.data(), prepared.variables.data());
  const int why = errno;
  if (::write(prepared.failed, &why, sizeof why) < 0) ::_exit(126);
  ::_exit(127);
}

ChildProcess::~ChildProcess() { end(SIGKILL, 0ms); }

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)),
      ending_(std::move(other.ending_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  input_ = std::move(other.input_);
  output_ = std::move(other.output_);
  errors_ = std::move(other.errors_);
  std::swap(ending_, other.ending_);
  return *this;
}

bool ChildProcess::ended_by(base::Deadline deadline) {
  base::Backoff backoff({.pauses = 0, .yields = 0, .first_sleep = 100us, .longest_sleep = 1ms});
  while (pid_ > 0) {  // bounded: by the deadline
    int status = 0;
    const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
    if (reaped == 0 || (reaped < 0 && errno == EINTR)) {
      if (deadline.expired()) return false;
      backoff.wait(deadline.remaining());
      continue;
    }
    pid_ = -1;
    ending_.how = WIFSIGNALED(status) ? Ending::How::kSignalled : Ending::How::kExited;
    ending_.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  return true;
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

void ChildProcess::end(int number, std::chrono::milliseconds grace) {
  signal(number);
  if (ended_by(base::Deadline::after(grace))) return;
  signal(SIGKILL);
  ended_by(base::Deadline::after(kDeath));
  pid_ = -1;
}

// False: the limit of a step, or the total limit, passed before the output ended.
bool ChildProcess::read_streams(const Limits& limits,
                                const std::function<void(std::string_view)>& on_line) {
  std::string read;
  const auto next = [&] { return std::min(Clock::now() + limits.step, limits.end); };
  base::Deadline deadline(next());
  pollfd ends[] = {{output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}};
  while (ends[0].fd >= 0) {  // bounded: by the deadline
    if (deadline.expired()) return false;
    if (::poll(ends, 2, deadline.remaining_ms()) < 0 && errno != EINTR) return true;
    for (pollfd& end : ends) {
      if (end.fd < 0 || end.revents == 0) continue;
      char buffer[65536];
      const ssize_t length = ::read(end.fd, buffer, sizeof buffer);
      if (length <= 0) {
        end.fd = -1;
        continue;
      }
      std::string& text = &end == &ends[0] ? read : ending_.errors;
      text.append(buffer, static_cast<size_t>(length));
    }
    if (ending_.errors.size() > kMostErrors) {
      ending_.errors.erase(0, ending_.errors.size() - kMostErrors);
    }
    size_t begin = 0;
    for (size_t end; (end = read.find('\n', begin)) != std::string::npos; begin = end + 1) {
      on_line(std::string_view(read).substr(begin, end - begin));
      deadline = base::Deadline(next());
    }
    read.erase(0, begin);
    if (read.size() > kMostLine) read.clear();
  }
  if (!read.empty()) on_line(read);
  return true;
}

const Ending& ChildProcess::attend(const Limits& limits,
                                   const std::function<void(std::string_view)>& on_line) {
  if (pid_ < 0) return ending_;
  // A process may also close its output and go on.
  if (read_streams(limits, on_line) &&
      ended_by(base::Deadline(std::min(Clock::now() + limits.step, limits.end)))) {
    return ending_;
  }
  const bool over = Clock::now() >= limits.end;
  end(SIGKILL, 0ms);
  ending_.how = over ? Ending::How::kOver : Ending::How::kLate;
  return ending_;
}

Ending run_command(const std::vector<std::string>& command, const Environment& environment,
                   const Limits& limits, const std::function<void(std::string_view)>& on_line) {
  ChildProcess child({.command = command,
                      .environment = environment,
                      .errors = ChildProcess::Stream::kPipe,
                      .dies_without_reader = true});
  return child.attend(limits, on_line);
}

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  std::string own(path, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  // The file may have been replaced since the program was started.
  constexpr std::string_view kDeleted = " (deleted)";
  if (own.ends_with(kDeleted)) own.resize(own.size() - kDeleted.size());
  return own;
}

std::string program_beside(const std::string& name) {
  const std::string own = own_program();
  return own.substr(0, own.rfind('/') + 1) + name;
}

}  // namespace neuron::tools
