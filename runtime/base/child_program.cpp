// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/child_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>

#include "driver/base/deadline.h"

namespace neuron::runtime {
namespace {

// Files and attributes of a new process, ended at the end of a scope.
struct Spawn {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  Spawn() {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
};

enum class End : uint8_t { kRuns, kEnded, kTaken };

// Whether the process has ended. kTaken: the program that has this library waits for all children
// itself, and has the status.
End look_at(pid_t process, int flags, int& status) {
  // bounded: each turn ends the call but for an interruption.
  for (;;) {
    const pid_t ended = ::waitpid(process, &status, flags);
    if (ended == process) return End::kEnded;
    if (ended == 0) return End::kRuns;
    if (errno != EINTR) return End::kTaken;
  }
}

}  // namespace

Result<void> run_child_program(const std::vector<std::string>& words,
                               std::chrono::milliseconds patience) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const Spawn spawn;
  pid_t process = 0;
  const int error = ::posix_spawn(&process, arguments[0], &spawn.files, &spawn.attributes,
                                  arguments.data(), environ);
  if (error != 0) {
    return fail_with_errno(NRT_FAILURE, error, "the program '{}' cannot be started", words[0]);
  }
  constexpr std::chrono::milliseconds kLook{10};
  const base::Deadline deadline = base::Deadline::after(patience);
  int status = 0;
  End end = look_at(process, WNOHANG, status);
  while (end == End::kRuns && !deadline.expired()) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kLook, deadline.remaining()));
    end = look_at(process, WNOHANG, status);
  }
  if (end == End::kRuns) {
    ::kill(-process, SIGKILL);
    (void)look_at(process, 0, status);
    return fail(NRT_FAILURE, "the program '{}' has not ended within {} ms, and was killed",
                words[0], patience.count());
  }
  if (end == End::kTaken || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return {};
  return WIFEXITED(status) ? fail(NRT_FAILURE, "the program '{}' ended with status {}", words[0],
                                  WEXITSTATUS(status))
                           : fail(NRT_FAILURE, "the program '{}' was ended by signal {}", words[0],
                                  WTERMSIG(status));
}

}  // namespace neuron::runtime
