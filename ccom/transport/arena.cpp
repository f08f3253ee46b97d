// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace neuron::ccom {
namespace {

constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Maps at a multiple of the huge page size, so that huge pages of the file fit.
void* map_aligned(int descriptor, uint64_t size) {
  void* reserved = mmap(nullptr, size + kHugePage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return MAP_FAILED;
  const auto begin = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t at = (begin + kHugePage - 1) / kHugePage * kHugePage;
  void* mapped = mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED | MAP_NORESERVE, descriptor, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    munmap(reserved, size + kHugePage);
    errno = error;
    return MAP_FAILED;
  }
  if (at > begin) munmap(reserved, at - begin);
  if (begin + kHugePage > at) {
    munmap(reinterpret_cast<void*>(at + size), begin + kHugePage - at);
  }
  // This is only advice: a host without huge pages for memory files ignores it.
  madvise(mapped, size, MADV_HUGEPAGE);
  return mapped;
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(uint64_t bytes) {
  if (bytes == 0 || bytes > (uint64_t{1} << 46)) {
    return fail(CCOM_INVALID, "an arena of {} bytes was asked for: 1 byte to 64 TiB are possible",
                bytes);
  }
  const uint64_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  // Beyond this limit the system does not refuse the size; it kills the process by a signal.
  rlimit file_size{};
  if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur < size) {
    return fail(CCOM_RESOURCE,
                "shared memory between ranks is a memory file of {} bytes, but the limit of file "
                "sizes is {}; raise it (ulimit -f, LimitFSIZE=)",
                size, file_size.rlim_cur);
  }
  const int descriptor = memfd_create("ccom-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    return system_error(errno, "cannot create a memory file for shared memory between ranks");
  }
  if (ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
    const int error = errno;
    close(descriptor);
    return system_error(
        error, neuron::ccom::format("cannot give a memory file {} bytes of address space", size));
  }
  void* data = MAP_FAILED;
  if (fcntl(descriptor, F_ADD_SEALS, kSeals) == 0) data = map_aligned(descriptor, size);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(descriptor);
    return system_error(
        error,
        neuron::ccom::format(
            "cannot map {} bytes of shared memory (limit of address space, ulimit -v?)", size));
  }
  return std::unique_ptr<Arena>(new Arena(static_cast<std::byte*>(data), size, descriptor));
}

Result<std::unique_ptr<Arena>> Arena::map(int descriptor) {
  struct stat status {};
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor, &status) != 0 ||
      status.st_size <= 0 || static_cast<uint64_t>(status.st_size) % kHugePage != 0) {
    close(descriptor);
    return fail(CCOM_INVALID,
                "descriptor {} of a peer's shared memory is no memory file that is sealed against "
                "shrinking, with a size of whole 2 MiB",
                descriptor);
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  void* data = map_aligned(descriptor, size);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(descriptor);
    return system_error(
        error, neuron::ccom::format("cannot map {} bytes of a peer's shared memory", size));
  }
  return std::unique_ptr<Arena>(new Arena(static_cast<std::byte*>(data), size, descriptor));
}

Arena::~Arena() {
  munmap(data_, size_);
  close(descriptor_);
}

}  // namespace neuron::ccom
