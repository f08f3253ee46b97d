// SPDX-License-Identifier: Apache-2.0
// A file in memory, for contents that are mapped.
// Callers: HBM, the memories of a core, the files of custom operators. Thread-safe: no state. The
// caller owns the descriptor, which is never 0, 1 or 2: a process may have started without standard
// streams, and its output must then not land in device memory. Fails like memfd_create and
// ftruncate: -1 with errno.
#ifndef DRIVER_EMULATOR_CHIP_MEMORY_FILE_H
#define DRIVER_EMULATOR_CHIP_MEMORY_FILE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace neuron::chip {

// `flags`: more of memfd_create. The descriptor is `first` or above.
inline int create_memory_file(const char* name, unsigned flags = 0, int first = 3) {
  const int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (file < 0 || file >= first) return file;
  const int moved = fcntl(file, F_DUPFD_CLOEXEC, first);
  const int error = errno;
  close(file);
  errno = error;
  return moved;
}

// False with EFBIG if the file size limit of this process (ulimit -f), which includes memory files,
// is smaller. Otherwise the host would end the process with SIGXFSZ instead of returning an error.
inline bool may_have_file_of(uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return true;
  errno = EFBIG;
  return false;
}

inline int size_memory_file(int file, uint64_t bytes) {
  return may_have_file_of(bytes) ? ftruncate(file, static_cast<off_t>(bytes)) : -1;
}

}  // namespace neuron::chip

#endif
