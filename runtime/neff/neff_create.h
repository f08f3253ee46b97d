// SPDX-License-Identifier: Apache-2.0
//
// Makes a NEFF of given contents: a directory of members, or an archive (tar, tar.gz) that becomes
// the payload as it is. Callers: neuron-packager. Thread-safe: no state. A header field that no
// option gives is derived from the contents.
// Fails: NRT_INVALID for contents that are no archive, a member that is not a regular file, a name
// that does not fit, a feature without a known bit.
#ifndef RUNTIME_NEFF_NEFF_CREATE_H
#define RUNTIME_NEFF_NEFF_CREATE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/neff_writer.h"

namespace neuron::tools {

struct CreateOptions {
  std::string input;         // Directory or archive
  std::string name;          // Empty: the input's name without its ending.
  std::string tool_version;  // Build version in the header; empty: "neuron-packager 1".
  std::string neff_version = "2.1";
  uint64_t header_version = 1;  // 1: SHA-256, 2: MD5.
  uint32_t cores = 0;           // 0: the number of sgNN directories.
  std::vector<std::string> features;
  bool compress = true;  // Of a directory.
};

runtime::Result<std::vector<uint8_t>> create_neff(const CreateOptions& options);

// Regular files below the directory, by their path in it. Symbolic links are refused.
runtime::Result<NeffMembers> read_directory(const std::string& directory);

}  // namespace neuron::tools

#endif
