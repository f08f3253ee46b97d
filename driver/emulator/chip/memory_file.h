// SPDX-License-Identifier: Apache-2.0
// A file in memory, for contents that are mapped.
// Callers: HBM, the memories of a core. Thread-safe: no state. The caller owns the descriptor,
// which never is 0, 1 or 2: a process may have started without standard streams, and what it then
// prints must not land in device memory. Fails like memfd_create: -1 with errno.
#ifndef DRIVER_EMULATOR_CHIP_MEMORY_FILE_H
#define DRIVER_EMULATOR_CHIP_MEMORY_FILE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace neuron::chip {

inline int create_memory_file(const char* name) {
  constexpr int kFirst = 3;
  const int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0 || file >= kFirst) return file;
  const int moved = fcntl(file, F_DUPFD_CLOEXEC, kFirst);
  const int error = errno;
  close(file);
  errno = error;
  return moved;
}

}  // namespace neuron::chip

#endif
