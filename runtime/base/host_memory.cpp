// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace neuron::runtime {
namespace {

// Headers may be older than the kernel.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;

struct Range {
  uint64_t begin = 0, end = 0;
};

const char* name_of(HostUse use) { return use == HostUse::kRead ? "read" : "written"; }

Error refused(const Range& buffer, HostUse use, std::string_view why) {
  return fail(NRT_INVALID,
              "the buffer of {} bytes at {:#x} cannot be {}: {}; give the address of memory that "
              "this process can {} over all these bytes",
              buffer.end - buffer.begin, buffer.begin, name_of(use), why,
              use == HostUse::kRead ? "read" : "write");
}

// What the table of mappings says. Without /proc it says nothing, and the copy may find out.
Result<void> look_up(const Range& buffer, HostUse use) {
  std::ifstream maps("/proc/self/maps");
  uint64_t at = buffer.begin;
  for (std::string line; at < buffer.end && std::getline(maps, line);) {
    unsigned long long begin = 0, end = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%llx-%llx %4s", &begin, &end, access) != 3 || end <= at) {
      continue;
    }
    if (begin > at) break;
    if (access[use == HostUse::kRead ? 0 : 1] == '-') {
      return refused(buffer, use, format("the memory at {:#x} may not be {}", at, name_of(use)));
    }
    at = end;
  }
  if (at >= buffer.end || (at == buffer.begin && !maps.is_open())) return {};
  return refused(buffer, use, format("this process has no memory at {:#x}", at));
}

}  // namespace

Result<void> check_host_memory(const void* buffer, uint64_t size, HostUse use) {
  if (size == 0) return {};
  Range range{.begin = reinterpret_cast<uint64_t>(buffer)};
  if (__builtin_add_overflow(range.begin, size, &range.end)) {
    return fail(NRT_INVALID,
                "the buffer of {} bytes at {:#x} cannot be {}: it would end behind the last "
                "address; give its size in bytes",
                size, range.begin, name_of(use));
  }
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = range.begin / page * page;
  const int saved = errno;
  const int advice = use == HostUse::kRead ? kPopulateRead : kPopulateWrite;
  if (madvise(reinterpret_cast<void*>(first), range.end - first, advice) == 0) return {};
  const int error = std::exchange(errno, saved);
  NEURON_CHECK(look_up(range, use));
  // Older kernels answer EINVAL, and so do all for memory of a device, which has no pages. Behind
  // the end of its file a mapping has none either.
  if (error != EFAULT && error != EHWPOISON) return {};
  return refused(range, use, "the file or the memory behind it has no bytes there");
}

}  // namespace neuron::runtime
