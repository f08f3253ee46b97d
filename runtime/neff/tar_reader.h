// SPDX-License-Identifier: Apache-2.0
//
// Reads a tar archive in memory: old, ustar, pax and GNU long names. Callers: container.cpp.
// Thread-safe: no state. Entries borrow the archive's bytes. Only files and directories exist in a
// NEFF: links, devices, sparse files and names that leave the archive are refused, as is a name
// twice. Fails with NRT_INVALID: the sentence names the archive's offset, the member, found and
// expected.
#ifndef RUNTIME_NEFF_TAR_READER_H
#define RUNTIME_NEFF_TAR_READER_H

#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/header.h"
#include "runtime/neff/limits.h"

namespace neuron::neff {

struct TarEntry {
  std::string name;  // Normalised: "a/b", without "./", doubled or trailing slashes.
  bool directory = false;
  Bytes bytes;
};

runtime::Result<std::vector<TarEntry>> read_tar(Bytes archive, const Limits& limits);

}  // namespace neuron::neff

#endif
