// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/host_memory.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "driver/base/file_descriptor.h"

namespace neuron::runtime {
namespace {

// Headers may be older than the kernel.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;
struct MappingQuery {
  uint64_t size = sizeof(MappingQuery);
  uint64_t query = 0;  // the mapping that has `address`
  uint64_t address = 0;
  uint64_t begin = 0, end = 0;
  uint64_t access = 0;  // 1: may be read, 2: may be written
  uint64_t page = 0, offset = 0, inode = 0;
  uint32_t device[2] = {};
  uint32_t name_size = 0, build_id_size = 0;
  uint64_t name = 0, build_id = 0;
};
static_assert(sizeof(MappingQuery) == 104);
constexpr unsigned long kQueryMapping = _IOWR('f', 17, MappingQuery);

// From here on a question for each mapping takes less time than one for each page.
constexpr uint64_t kLarge = 256 << 10;

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

// True: it is memory of no file, which has all its bytes, and may be used so. False: something else
// has to say it, as on kernels before 6.11.
bool is_plain(const Range& buffer, HostUse use) {
  const base::FileDescriptor maps(
      base::above_standard_streams(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)));
  for (uint64_t at = buffer.begin; at < buffer.end;) {
    MappingQuery found;
    found.address = at;
    if (::ioctl(maps.get(), kQueryMapping, &found) != 0 || found.inode != 0 || found.end <= at ||
        (found.access & (use == HostUse::kRead ? 1 : 2)) == 0) {
      return false;
    }
    at = found.end;
  }
  return true;
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
  if (size >= kLarge && is_plain(range, use)) return {};
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
