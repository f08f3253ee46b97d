// SPDX-License-Identifier: Apache-2.0
//
// Writes NEFF files. The same members, options and zlib give the same bytes, on every host, at any
// time. Callers: program builder, tests, fuzzers. Thread-safe: no state. The payload is a ustar
// archive (members sorted by name, time and owner 0), as it is or as one gzip member; hash is its
// SHA-256 (or MD5); uuid follows from hash, name and build version. Fails with NRT_INVALID: a name
// that does not fit, a member twice, a field out of range.
#ifndef RUNTIME_NEFF_NEFF_WRITER_H
#define RUNTIME_NEFF_NEFF_WRITER_H

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hw/neff_program.h"
#include "runtime/base/error.h"
#include "runtime/neff/header.h"

namespace neuron::tools {

// Name ("sg00/def.json") to contents.
using NeffMembers = std::map<std::string, std::vector<uint8_t>>;

struct NeffOptions {
  std::string name;           // Network name, at most 255 bytes.
  std::string build_version;  // At most 127 bytes.
  uint64_t version_major = 2;
  uint64_t version_minor = 1;
  uint64_t feature_bits = NEFF_FEATURE_OPEN_PROGRAM;
  uint32_t lnc_size = 1;
  uint32_t cores = 0;  // num_tpb; 0: the number of sgNN directories.
  bool compress = true;
  uint64_t header_version = 1;  // 1: SHA-256 in `hash`; 2: MD5.
  std::optional<std::array<uint8_t, 16>> uuid =
      std::nullopt;  // Absent: from hash, name and build version.
};

runtime::Result<std::vector<uint8_t>> write_neff(const NeffMembers& members,
                                                 const NeffOptions& options);

// The payload alone.
runtime::Result<std::vector<uint8_t>> write_tar(const NeffMembers& members);
runtime::Result<std::vector<uint8_t>> gzip(neff::Bytes bytes);

// Puts a header before a given payload; hash, uuid and sizes are filled in.
std::vector<uint8_t> wrap_payload(neff::Bytes payload, const NeffOptions& options);

std::vector<uint8_t> bytes_of(std::string_view text);

}  // namespace neuron::tools

#endif
