// SPDX-License-Identifier: Apache-2.0
#include "tests/support/child.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <ostream>
#include <thread>
#include <utility>

#include "driver/base/file_descriptor.h"

namespace neuron::test {

std::string Ending::sentence() const {
  switch (kind) {
    case Kind::kExited:
      return "exited with status " + std::to_string(number);
    case Kind::kSignalled:
      return "was ended by signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
    case Kind::kStillRuns:
      return "still runs";
    case Kind::kNotStarted:
      break;
  }
  return std::string("was not started: ") + std::strerror(number);
}

std::ostream& operator<<(std::ostream& stream, const Ending& ending) {
  return stream << ending.sentence();
}

Child Child::forked(const std::function<int()>& body) {
  std::fflush(nullptr);  // else the child says once more what this process has not yet said
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int status = body();
    std::fflush(nullptr);
    ::_exit(status);
  }
  return Child(pid);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), group_(other.group_), ending_(other.ending_) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(group_, other.group_);
  std::swap(ending_, other.ending_);
  return *this;
}

Child::~Child() { kill(); }

void Child::signal(int number) const {
  if (owns()) ::kill(group_ ? -pid_ : pid_, number);
}

Ending Child::wait(std::chrono::milliseconds limit) {
  if (pid_ <= 0) return {Ending::Kind::kNotStarted};
  if (!owns()) return ending_;
  const base::Deadline deadline = base::Deadline::after(limit);
  const base::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  for (bool last = false;; last = deadline.expired()) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      ending_ = WIFEXITED(status) ? Ending{Ending::Kind::kExited, WEXITSTATUS(status)}
                                  : ended_by(WTERMSIG(status));
      return ending_;
    }
    if (last) return ending_;
    // Without a descriptor for the process this is a nap.
    pollfd end = {process.get(), POLLIN, 0};
    ::poll(&end, 1, process ? deadline.remaining_ms() : 1);
  }
}

Ending Child::kill() {
  signal(SIGKILL);
  return wait();
}

bool Child::is(int state) const {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, state | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}
bool Child::ended() const { return !owns() || is(WEXITED); }
bool Child::stopped() const { return owns() && is(WSTOPPED); }
bool Child::continued() const { return owns() && is(WCONTINUED); }

int live_in_another_thread() {
  std::thread([] {
    for (;;) ::pause();
  }).detach();
  // Not pthread_exit(), which takes the frames of the caller's caller down.
  for (;;) ::syscall(SYS_exit, 0);
}

}  // namespace neuron::test
