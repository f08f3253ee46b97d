// SPDX-License-Identifier: Apache-2.0
//
// A NEFF file as a container: the header, and the members of its tar or tar.gz payload.
// Callers: model.h, neuron-packager. A NEFF of any compiler opens; compatibility.h says whether it
// can be run. Thread-safe: const calls. Owns the unpacked bytes of a compressed payload. Borrows
// the caller's bytes of an uncompressed payload, which must then outlive it and every span given
// out. Fails: NRT_INVALID for a file that is malformed, hostile or beyond a limit;
// NRT_FAIL_HOST_MEM_ALLOC if the host has no memory to unpack into. Each error is one sentence with
// member, offset, found, expected.
#ifndef RUNTIME_NEFF_CONTAINER_H
#define RUNTIME_NEFF_CONTAINER_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/gzip_reader.h"
#include "runtime/neff/header.h"
#include "runtime/neff/limits.h"

namespace neuron::neff {

struct Member {
  std::string name;  // Relative, no "." or ".." components, no leading or trailing slash.
  Bytes bytes;
};

struct OpenOptions {
  Limits limits;
  bool validate_hash = false;  // NEURON_RT_VALIDATE_HASH
};

class Container {
 public:
  static runtime::Result<Container> open(Bytes file, const OpenOptions& options = {});

  const Header& header() const { return header_; }
  bool compressed() const { return compressed_; }
  uint64_t unpacked_bytes() const { return unpacked_bytes_; }

  // Regular files in the order of the archive.
  const std::vector<Member>& members() const { return members_; }
  // Sorted; every directory that is a member or holds one.
  const std::vector<std::string>& directories() const { return directories_; }
  const Member* find(std::string_view name) const;
  bool has_directory(std::string_view name) const;

 private:
  Header header_;
  bool compressed_ = false;
  uint64_t unpacked_bytes_ = 0;
  std::unique_ptr<uint8_t, FreeBytes> unpacked_;
  std::vector<Member> members_;
  std::vector<std::string> directories_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace neuron::neff

#endif
