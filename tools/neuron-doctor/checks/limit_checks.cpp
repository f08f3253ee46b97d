// SPDX-License-Identifier: Apache-2.0
// Checks what the kernel grants this process: locked memory, descriptors, io_uring, memory, a
// clock.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "driver/base/file_descriptor.h"
#include "tools/neuron-doctor/checks/check.h"

namespace neuron::doctor {
namespace {

constexpr rlim_t kLeastLocked = rlim_t{64} << 20;
constexpr rlim_t kLeastFiles = 1024;
constexpr uint64_t kLeastMemory = uint64_t{512} << 20;

std::string bytes_text(uint64_t bytes) {
  return tools::text_cell(boost::json::value(bytes), tools::Unit::kBytes);
}

std::string limit_text(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : std::to_string(value);
}

void check_limit(const char* id, const char* what, int resource, rlim_t least, const char* action,
                 Checks& checks) {
  rlimit limit{};
  Check check{id, what, Verdict::kPass, {}, {}, {}};
  // NOLINTNEXTLINE: the type of the first argument differs between C libraries.
  getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  check.found = std::string(what) + ": " + limit_text(limit.rlim_cur);
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < least) {
    check.verdict = Verdict::kWarn;
    check.expected = "at least " + std::to_string(least);
    check.action = action;
  }
  checks.push_back(check);
}

// "MemAvailable" of meminfo, in bytes; of the numbers without kB, the number.
uint64_t memory_field(const Host& host, const std::string& field) {
  std::ifstream file(host.proc + "/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field + ":")) continue;
    std::istringstream words(line.substr(field.size() + 1));
    uint64_t value = 0;
    std::string unit;
    words >> value >> unit;
    return unit == "kB" ? value * 1024 : value;
  }
  return 0;
}

void check_memory(const Host& host, Checks& checks) {
  Check available{"memory.available", "memory of the host", Verdict::kPass, {}, {}, {}};
  const uint64_t bytes = memory_field(host, "MemAvailable");
  available.found = bytes_text(bytes) + " available";
  if (bytes == 0) {
    available.verdict = Verdict::kSkip;
    available.found = "not known";
  } else if (bytes < kLeastMemory) {
    available.verdict = Verdict::kWarn;
    available.expected = "at least " + bytes_text(kLeastMemory);
    available.action = "end what uses it; emulated devices need what their programs allocate";
  }
  checks.push_back(available);

  Check huge{"memory.huge_pages", "transparent huge pages", Verdict::kPass, {}, {}, {}};
  std::ifstream file(host.places.sys + "/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(file, modes);
  if (modes.empty()) {
    huge.verdict = Verdict::kSkip;
    huge.found = "the kernel does not tell";
  } else {
    huge.found = "transparent huge pages: " + modes +
                 "; reserved: " + std::to_string(memory_field(host, "HugePages_Total"));
    if (modes.find("[never]") != std::string::npos) {
      huge.verdict = Verdict::kWarn;
      huge.expected = "madvise or always: large buffers are slower without";
      huge.action = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    }
  }
  checks.push_back(huge);

  Check shared{"memory.shm", "shared memory", Verdict::kPass, {}, {}, {}};
  struct statvfs state {};
  if (statvfs("/dev/shm", &state) != 0) {
    shared.verdict = Verdict::kWarn;
    shared.found = std::string("/dev/shm: ") + std::strerror(errno);
    shared.expected = "a file system in memory";
    shared.action = "mount -t tmpfs tmpfs /dev/shm";
  } else {
    const uint64_t free = uint64_t{state.f_bavail} * state.f_frsize;
    shared.found = "/dev/shm: " + bytes_text(free) + " free";
    if (free < (uint64_t{64} << 20)) {
      shared.verdict = Verdict::kWarn;
      shared.expected = "at least 64 MiB; a container has that much by default";
      shared.action = "give the container more (--shm-size), or delete what fills it";
    }
  }
  checks.push_back(shared);
}

void check_uring(const Host& host, Checks& checks) {
  Check check{"kernel.io_uring", "io_uring", Verdict::kPass, "io_uring is allowed", {}, {}};
  io_uring_params parameters{};
  const base::FileDescriptor ring(static_cast<int>(syscall(__NR_io_uring_setup, 1, &parameters)));
  if (!ring) {
    const int reason = errno;
    check.verdict = Verdict::kWarn;
    check.found = std::string("io_uring_setup: ") + std::strerror(reason);
    check.expected =
        "allowed: asynchronous copies and weights read ahead use it, with threads else";
    std::ifstream file(host.proc + "/sys/kernel/io_uring_disabled");
    std::string disabled;
    std::getline(file, disabled);
    check.action = !disabled.empty() && disabled != "0" ? "sysctl kernel.io_uring_disabled=0"
                   : reason == ENOMEM                   ? "raise the limit of locked memory"
                                      : "allow it in the container's seccomp profile";
  }
  checks.push_back(check);
}

void check_clock(Checks& checks) {
  Check check{"clock.synchronised", "clock", Verdict::kPass, {}, {}, {}};
  timex state{};
  const int status = adjtimex(&state);
  if (status < 0) {
    check.verdict = Verdict::kSkip;
    check.found = std::string("the kernel does not tell: ") + std::strerror(errno);
  } else if (status == TIME_ERROR || (state.status & STA_UNSYNC) != 0) {
    check.verdict = Verdict::kWarn;
    check.found = "the clock is not synchronised";
    check.expected = "a time service: logs and dumps of several hosts are put in order by time";
    check.action = "start chrony or systemd-timesyncd";
  } else {
    check.found = "the clock is synchronised";
  }
  checks.push_back(check);
}

}  // namespace

void check_limits(const Host& host, Checks& checks) {
  check_limit("limit.memlock", "bytes of locked memory", RLIMIT_MEMLOCK, kLeastLocked,
              "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit; libfabric registers "
              "memory",
              checks);
  check_limit("limit.files", "open files", RLIMIT_NOFILE, kLeastFiles,
              "ulimit -n 65536, or LimitNOFILE= in the unit", checks);
  check_memory(host, checks);
  check_uring(host, checks);
  check_clock(checks);
}

}  // namespace neuron::doctor
