// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace neuron::ccom {
namespace {

std::string read_small_file(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return "";
  }
  char text[1024];
  const ssize_t length = read(file, text, sizeof(text));
  close(file);
  return {text, static_cast<size_t>(std::max<ssize_t>(length, 0))};
}

uint64_t mix(uint64_t hash, const void* data, size_t length) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < length; ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001b3u;  // FNV-1a
  }
  return hash;
}

uint64_t open_descriptors() {
  uint64_t count = 0;
  if (DIR* folder = opendir("/proc/self/fd")) {
    while (readdir(folder) != nullptr) {
      ++count;
    }
    closedir(folder);
  }
  return count;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != 0 ? name : "unknown";
}

uint64_t host_identity() {
  const std::string boot = read_small_file("/proc/sys/kernel/random/boot_id");
  uint64_t hash = mix(0xcbf29ce484222325u, boot.data(), boot.size());
  const uid_t user = geteuid();
  hash = mix(hash, &user, sizeof(user));
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    struct stat status {};
    if (stat(space, &status) == 0) {
      hash = mix(hash, &status.st_ino, sizeof(status.st_ino));
    }
  }
  return hash;
}

Result<void> reserve_descriptors(uint32_t needed) {
  static std::mutex mutex;  // several ranks of a process raise one limit
  const std::lock_guard lock(mutex);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return system_error(errno, "getrlimit(RLIMIT_NOFILE) failed");
  }
  const rlim_t total = open_descriptors() + needed;
  if (limit.rlim_cur >= total) {
    return {};
  }
  if (limit.rlim_max < total) {
    return fail(CCOM_RESOURCE,
                "this rank needs {} file descriptors and {} are open already, but the limit is {} "
                "(hard limit {}); raise it to {} or more (ulimit -n, LimitNOFILE=)",
                needed, total - needed, limit.rlim_cur, limit.rlim_max, total);
  }
  limit.rlim_cur = total;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return system_error(errno, format("cannot raise the limit of file descriptors to {}", total));
  }
  return {};
}

std::string exit_reason(int32_t process) {
  // A process that ended keeps its status until its parent has read it. A dying process has the
  // status there after its sockets are closed and before it is a zombie. A stopped process has the
  // signal that stopped it in the same field.
  const std::string text = read_small_file(format("/proc/{}/stat", process).c_str());
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) {
    return "";
  }
  const char state = text[name_end + 2];
  const size_t last = text.find_last_of(' ');
  const int status = last == std::string::npos ? 0 : atoi(text.c_str() + last + 1);
  if (state != 'Z' && (status == 0 || state == 'T' || state == 't')) {
    return "";
  }
  if (WIFSIGNALED(status)) {
    return format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace neuron::ccom
