// SPDX-License-Identifier: Apache-2.0
// What looking costs: neuron-ls with the 16 devices of a daemon, and lscpu, each from its start to
// its end.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/bench/ratio.h"
#include "tests/multi/processes.h"

namespace neuron::bench {
namespace {

constexpr int kTimes = 10;

// Milliseconds of a run; below 0 if one fails. Both write to a file that forgets.
double run(const char* program, const char* variable) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  char* const arguments[] = {const_cast<char*>(program), nullptr};
  char* const environment[] = {const_cast<char*>(variable), const_cast<char*>("PATH=/usr/bin:/bin"),
                               nullptr};
  const double start = now_seconds();
  bool good = true;
  for (int i = 0; i < kTimes && good; ++i) {
    pid_t child = 0;
    int status = -1;
    good = ::posix_spawnp(&child, program, &actions, nullptr, arguments, environment) == 0 &&
           ::waitpid(child, &status, 0) == child && status == 0;
  }
  posix_spawn_file_actions_destroy(&actions);
  return good ? (now_seconds() - start) / kTimes * 1e3 : -1;
}

struct Shared {
  multi::Folder folder;
  multi::Daemon daemon{folder, "trn1.32xlarge"};
};

}  // namespace

Ratio ls() {
  auto shared = std::make_shared<Shared>();
  const std::string variable = "NEURON_EMULATOR=unix:" + shared->daemon.socket();
  return {.name = "ls",
          .peer_name = "lscpu",
          .unit = "ms from start to end",
          .goal = 3,
          .smaller_is_better = true,
          .rounds = 15,
          .ours = [shared,
                   variable] { return run(NEURON_BUILD_DIR "/bin/neuron-ls", variable.c_str()); },
          .peer = [] { return run("lscpu", "LC_ALL=C"); }};
}

}  // namespace neuron::bench
