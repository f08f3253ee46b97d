// SPDX-License-Identifier: Apache-2.0
//
// Unpacks a gzip payload into memory, within limits. Callers: container.cpp. Thread-safe: no state.
// The result is owned by the caller. Fails with NRT_INVALID (damaged, truncated, beyond a limit) or
// NRT_FAIL_HOST_MEM_ALLOC. Memory grows with the bytes really unpacked, never with the size that a
// file claims.
#ifndef RUNTIME_NEFF_GZIP_READER_H
#define RUNTIME_NEFF_GZIP_READER_H

#include <cstdlib>
#include <memory>

#include "runtime/base/error.h"
#include "runtime/neff/header.h"
#include "runtime/neff/limits.h"

namespace neuron::neff {

struct FreeBytes {
  void operator()(uint8_t* p) const { std::free(p); }
};

struct UnpackedBytes {
  std::unique_ptr<uint8_t, FreeBytes> data;
  uint64_t size = 0;
};

bool is_gzip(Bytes bytes);

runtime::Result<UnpackedBytes> read_gzip(Bytes bytes, const Limits& limits);

}  // namespace neuron::neff

#endif
