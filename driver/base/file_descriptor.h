// SPDX-License-Identifier: Apache-2.0
// An open file that is closed at the end of its scope.
//
// Callers: everything that opens files, sockets or events. Thread-safe: no. Owns the descriptor.
// Cannot fail: a negative descriptor is the absence of one.
#ifndef DRIVER_BASE_FILE_DESCRIPTOR_H
#define DRIVER_BASE_FILE_DESCRIPTOR_H

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace neuron::base {

class FileDescriptor {
 public:
  explicit FileDescriptor(int value = -1) : value_(value) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : value_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }
  // Hands the descriptor to the caller, which closes it.
  int release() { return std::exchange(value_, -1); }
  void reset(int value = -1) {
    if (value_ >= 0) close(value_);
    value_ = value;
  }

 private:
  int value_;
};

// Moves a descriptor to a number above 2 and takes ownership of it. A process may have started
// without standard streams; its output must then not land in a device, in device memory or in a
// socket. Fails like open(2): -1 with errno.
inline int above_standard_streams(int descriptor) {
  constexpr int kFirst = 3;
  if (descriptor < 0 || descriptor >= kFirst) return descriptor;
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, kFirst);
  const int error = errno;
  close(descriptor);
  errno = error;
  return moved;
}

}  // namespace neuron::base

#endif
