// SPDX-License-Identifier: Apache-2.0
// Random bytes of the system, good enough for secrets. Thread-safe: no state.
#ifndef DRIVER_BASE_RANDOM_BYTES_H
#define DRIVER_BASE_RANDOM_BYTES_H

#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <span>

namespace neuron::base {

// False: the system has no randomness.
inline bool random_bytes(std::span<uint8_t> into) {
  while (!into.empty()) {
    const ssize_t got = getrandom(into.data(), into.size(), 0);
    if (got < 0 && errno != EINTR) return false;
    if (got > 0) into = into.subspan(static_cast<size_t>(got));
  }
  return true;
}

}  // namespace neuron::base

#endif
