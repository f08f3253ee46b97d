// SPDX-License-Identifier: Apache-2.0
//
// An open file that is closed at the end of its scope. Thread-safe: no. Owns the descriptor.
// Cannot fail: a negative descriptor is the absence of one.
#ifndef DRIVER_BASE_FILE_DESCRIPTOR_H
#define DRIVER_BASE_FILE_DESCRIPTOR_H

#include <unistd.h>

#include <utility>

namespace neuron::base {

class FileDescriptor {
 public:
  explicit FileDescriptor(int value = -1) : value_(value) {}
  ~FileDescriptor() {
    if (value_ >= 0) close(value_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_;
};

}  // namespace neuron::base

#endif
