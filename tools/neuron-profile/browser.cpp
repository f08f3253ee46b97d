// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/browser.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>

namespace neuron::profile {
namespace {

using runtime::fail;
using runtime::Result;

// Those that open a file with the program that the user prefers.
constexpr const char* kOpeners[] = {"xdg-open", "x-www-browser"};
// A program that has not failed by then shows the page, and may stay until the browser is closed.
constexpr std::chrono::seconds kPatience{5};

// 0, or the error of a program that does not exist.
int start(const char* program, const std::string& file, pid_t& child) {
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&streams, stream, "/dev/null", O_RDWR, 0);
  }
  posix_spawnattr_t apart;
  posix_spawnattr_init(&apart);
  // Ctrl-C on this terminal is not meant for the browser.
  posix_spawnattr_setflags(&apart, POSIX_SPAWN_SETSID);
  char* words[] = {const_cast<char*>(program), const_cast<char*>(file.c_str()), nullptr};
  const int error = ::posix_spawnp(&child, program, &streams, &apart, words, environ);
  posix_spawnattr_destroy(&apart);
  posix_spawn_file_actions_destroy(&streams);
  return error;
}

// Its exit status; nothing while it runs.
std::optional<int> exit_status(pid_t child) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (int status = 0; std::chrono::steady_clock::now() < end;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) return std::nullopt;  // somebody else has taken it
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

}  // namespace

Result<void> show_in_browser(const std::string& file) {
  std::string tried;
  const std::string path = std::filesystem::absolute(file).string();
  for (const char* program : kOpeners) {
    pid_t child = -1;
    const int error = start(program, path, child);
    if (error == 0) {
      const std::optional<int> status = exit_status(child);
      if (!status || *status == 0) return {};
      tried += runtime::format("{} ended with status {}; ", program, *status);
    } else {
      tried += runtime::format("{}: {}; ", program, std::generic_category().message(error));
    }
  }
  return fail(NRT_FAILURE, "no browser shows the page ({}): open '{}' in one by hand",
              tried.substr(0, tried.size() - 2), path);
}

}  // namespace neuron::profile
