// SPDX-License-Identifier: Apache-2.0
// Descriptors that never are 0, 1 or 2. A process may have started without standard streams; what
// it then prints must not land in a device, in device memory or in a log.
// Callers: whoever opens a descriptor in a library that programs load. Thread-safe: no state.
// Takes the descriptor that it is given. Fails like open: -1 with errno.
#ifndef DRIVER_NDL_DESCRIPTOR_H
#define DRIVER_NDL_DESCRIPTOR_H

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace neuron::ndl {

inline int above_standard_streams(int descriptor) {
  constexpr int kFirst = 3;
  if (descriptor < 0 || descriptor >= kFirst) return descriptor;
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, kFirst);
  const int error = errno;
  close(descriptor);
  errno = error;
  return moved;
}

}  // namespace neuron::ndl

#endif
