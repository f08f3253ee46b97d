// SPDX-License-Identifier: Apache-2.0
#include "tools/device_checks/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

namespace neuron::checks {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMostErrors = 2048, kMostLine = 1u << 20;

std::vector<std::string> merged(const Environment& environment) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view key = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [name, value] : environment) replaced |= name == key;
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : environment)
    if (!value.empty()) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Ending run_child(const std::vector<std::string>& command, const Environment& environment,
                 const Limits& limits, const std::function<void(std::string_view)>& on_line) {
  Ending ending;
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0) {
    ending.code = errno;
    return ending;
  }
  if (::pipe2(err, O_CLOEXEC) != 0) {
    ending.code = errno;
    ::close(out[0]);
    ::close(out[1]);
    return ending;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  std::vector<std::string> words = command, variables = merged(environment);
  pid_t pid = -1;
  // Whoever starts it may have chosen to outlive its readers; a worker without one has nothing to
  // do.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  // This program is run as it was started, also if it has been replaced since.
  const std::string file = words[0] == own_program() ? "/proc/self/exe" : words[0];
  ending.code = ::posix_spawn(&pid, file.c_str(), &actions, &attributes, pointers(words).data(),
                              pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  ::close(err[1]);
  bool late = false, over = false;
  if (ending.code == 0) {
    std::string read;
    const auto next = [&] { return std::min(Clock::now() + limits.step, limits.end); };
    auto deadline = next();
    pollfd ends[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    while (ends[0].fd >= 0 && !late) {
      const auto rest =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (rest <= 0) {
        late = true;
        over = deadline == limits.end;
        break;
      }
      if (::poll(ends, 2, static_cast<int>(rest)) < 0 && errno != EINTR) break;
      for (pollfd& end : ends) {
        if (end.fd < 0 || end.revents == 0) continue;
        char buffer[4096];
        const ssize_t length = ::read(end.fd, buffer, sizeof buffer);
        if (length <= 0) {
          end.fd = -1;
          continue;
        }
        std::string& text = &end == &ends[0] ? read : ending.errors;
        text.append(buffer, static_cast<size_t>(length));
      }
      if (ending.errors.size() > kMostErrors)
        ending.errors.erase(0, ending.errors.size() - kMostErrors);
      size_t newline;
      while ((newline = read.find('\n')) != std::string::npos) {
        on_line(std::string_view(read).substr(0, newline));
        read.erase(0, newline + 1);
        deadline = next();
      }
      if (read.size() > kMostLine) read.clear();
    }
    // It may also have closed its output and go on.
    const auto patience = late ? deadline : next();
    int status = 0;
    pid_t reaped = 0;
    while ((reaped = ::waitpid(pid, &status, WNOHANG)) == 0 && Clock::now() < patience)
      ::usleep(1000);
    if (reaped == 0) {
      late = true;
      over = patience == limits.end;
      ::kill(pid, SIGKILL);
      // Bounded: a process that hangs in the kernel is left to init.
      const auto end = Clock::now() + std::chrono::seconds(5);
      while (::waitpid(pid, &status, WNOHANG) == 0 && Clock::now() < end) ::usleep(1000);
    }
    ending.how = late                  ? over ? Ending::How::kOver : Ending::How::kLate
                 : WIFSIGNALED(status) ? Ending::How::kSignalled
                                       : Ending::How::kExited;
    ending.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  ::close(out[0]);
  ::close(err[0]);
  return ending;
}

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  std::string own(path, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  // It may have been replaced since it was started.
  constexpr std::string_view kDeleted = " (deleted)";
  if (own.ends_with(kDeleted)) own.resize(own.size() - kDeleted.size());
  return own;
}

std::string program_beside(const std::string& name) {
  const std::string own = own_program();
  return own.substr(0, own.rfind('/') + 1) + name;
}

}  // namespace neuron::checks
