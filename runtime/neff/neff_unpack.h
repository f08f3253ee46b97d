// SPDX-License-Identifier: Apache-2.0
//
// Writes the members of a NEFF into a directory. Callers: neuron-packager. Thread-safe: no state.
// Nothing outside the directory is touched: names were checked when the file was opened, and
// symbolic links found inside the directory are not followed. Without `force` nothing is written if
// any file exists. Fails with NRT_INVALID and a sentence that names the path and the system's
// reason.
#ifndef RUNTIME_NEFF_NEFF_UNPACK_H
#define RUNTIME_NEFF_NEFF_UNPACK_H

#include <string>

#include "runtime/base/error.h"
#include "runtime/neff/container.h"

namespace neuron::tools {

struct UnpackOptions {
  std::string directory;  // Created if it does not exist; its parent must.
  bool force = false;     // Replace existing files.
};

runtime::Result<void> unpack_neff(const neff::Container& container, const UnpackOptions& options);

}  // namespace neuron::tools

#endif
