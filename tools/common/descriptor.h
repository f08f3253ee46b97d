// SPDX-License-Identifier: Apache-2.0
//
// An open file that is closed at the end of its scope. Thread-safe: no. Owns the descriptor.
// Cannot fail: a negative descriptor is the absence of one.
#ifndef TOOLS_COMMON_DESCRIPTOR_H_
#define TOOLS_COMMON_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace neuron::tools {

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_;
};

}  // namespace neuron::tools

#endif  // TOOLS_COMMON_DESCRIPTOR_H_
