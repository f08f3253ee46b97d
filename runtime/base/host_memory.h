// SPDX-License-Identifier: Apache-2.0
//
// Whether memory that a caller names can be read or written, before a copy finds out by a signal
// that ends the process.
// Concepts: the kernel is asked to bring the pages in as the copy would (madvise, Linux 5.14 and
// later), or which mappings a large buffer lies in (Linux 6.11); only where it refuses, or cannot
// say, /proc/self/maps is read. Nothing is kept from call to call. Callers: whatever copies from or
// to a buffer of a program. Thread-safe. Fails: NRT_INVALID with a sentence that names the buffer
// and the first byte that is wrong. Not covered: a thread that unmaps the buffer while it is
// copied.
#ifndef RUNTIME_BASE_HOST_MEMORY_H
#define RUNTIME_BASE_HOST_MEMORY_H

#include <cstdint>

#include "runtime/base/error.h"

namespace neuron::runtime {

enum class HostUse : uint8_t { kRead, kWritten };

Result<void> check_host_memory(const void* buffer, uint64_t size, HostUse use);

}  // namespace neuron::runtime

#endif
