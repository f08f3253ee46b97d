// SPDX-License-Identifier: Apache-2.0
// Copies of memory that clients own: several calls of a client, its own threads and its DMA may use
// the same bytes at once. What arrives then is some mixture of what was there, and never a byte
// more than was asked for; to know more is the client's affair. So this is memcpy, except under a
// thread sanitizer, which would report the client's race as ours: there it goes word by word, in
// relaxed order. Callers: any thread; neither range may overlap the other. Cannot fail.
#ifndef DRIVER_BASE_RACING_COPY_H
#define DRIVER_BASE_RACING_COPY_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "driver/base/thread_sanitizer.h"

namespace neuron::base {

inline void racing_copy(void* to, const void* from, size_t bytes) {
#if NEURON_THREAD_SANITIZER
  auto* out = static_cast<uint8_t*>(to);
  const auto* in = static_cast<const uint8_t*>(from);
  const auto copy = [&](auto unit) {
    using Unit = decltype(unit);
    for (; bytes >= sizeof(Unit); bytes -= sizeof(Unit)) {
      __atomic_store_n(reinterpret_cast<Unit*>(out),
                       __atomic_load_n(reinterpret_cast<const Unit*>(in), __ATOMIC_RELAXED),
                       __ATOMIC_RELAXED);
      out += sizeof(Unit);
      in += sizeof(Unit);
    }
  };
  const auto address = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (address % sizeof(uint64_t) == 0) copy(uint64_t{});
  copy(uint8_t{});
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace neuron::base

#endif
