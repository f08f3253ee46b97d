// SPDX-License-Identifier: Apache-2.0
//
// Whole files in memory. Callers: programs of tools/. Thread-safe: no state.
// Fails with NRT_INVALID and a sentence that names the file and the system's reason.
#ifndef RUNTIME_BASE_FILE_H
#define RUNTIME_BASE_FILE_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::tools {

// Regular files only. Reads to the end of the file, whatever size the file system claims. Refuses
// what is larger than `most`, and a large file that is mostly holes: a copy that was broken off.
inline constexpr uint64_t kMostFileBytes = uint64_t{16} << 30;
runtime::Result<std::vector<uint8_t>> read_file(const std::string& path,
                                                uint64_t most = kMostFileBytes);

// Replaces the file as a whole: readers see the old or the new contents. A symbolic link stays; the
// file that it points to is replaced. Devices and FIFOs are written to, never replaced.
runtime::Result<void> write_file(const std::string& path, std::span<const uint8_t> contents);

}  // namespace neuron::tools

#endif
