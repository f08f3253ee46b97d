// SPDX-License-Identifier: Apache-2.0
#include "driver/base/process_status.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "driver/base/file_descriptor.h"

namespace neuron::base {

std::optional<ProcessStatus> process_status(int32_t pid) {
  char text[1024] = "";
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::read(file.get(), text, sizeof(text) - 1) <= 0) return std::nullopt;
  // Behind the name, which may hold anything, field 3 follows.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return std::nullopt;
  ProcessStatus status;
  status.state = at[2];
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  if (at == nullptr || std::sscanf(at, " %" SCNu64, &status.start_ticks) != 1) return std::nullopt;
  return status;
}

bool process_has_ended(int32_t pid) {
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd ended = {process.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

}  // namespace neuron::base
