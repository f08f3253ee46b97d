// SPDX-License-Identifier: Apache-2.0
//
// The 1024-byte header in front of a NEFF's payload.
// Callers: container.h (reading), the NEFF writer of the tools (layout and uuid). Thread-safe:
// values. parse_header() checks every field that has a rule. It accepts any vendor's header;
// compatibility.h decides what can be run. Fails: NRT_INVALID with offset, found and expected.
#ifndef RUNTIME_NEFF_HEADER_H
#define RUNTIME_NEFF_HEADER_H

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "driver/base/hexadecimal.h"
#include "runtime/base/error.h"

namespace neuron::neff {

using base::hexadecimal;

using Bytes = std::span<const uint8_t>;

struct Header {
  uint64_t pkg_version = 1;  // 1: SHA-256 in hash; 2: MD5 in its first 16 bytes.
  uint64_t header_size = 1024;
  uint64_t data_size = 0;
  uint64_t version_major = 2;
  uint64_t version_minor = 1;
  std::string build_version;  // At most 127 bytes.
  uint32_t num_tpb = 1;
  std::array<uint8_t, 32> hash{};
  std::array<uint8_t, 16> uuid{};
  std::string name;  // At most 255 bytes.
  uint32_t requested_tpb_count = 1;
  std::array<uint8_t, 64> tpb_per_node{};
  uint64_t feature_bits = 0;
  uint32_t lnc_size = 1;  // As stored; 0 is read as 1.

  // Offset of the first byte behind the documented fields that is not zero; 0 if all are zero.
  uint32_t stray_offset = 0;

  uint32_t effective_lnc() const { return lnc_size == 0 ? 1 : lnc_size; }
};

runtime::Result<Header> parse_header(Bytes file);

// The inverse of parse_header().
std::array<uint8_t, 1024> encode_header(const Header& header);

// Fails with NRT_INVALID if the payload's hash is not the header's; the sentence has both digests.
runtime::Result<void> check_hash(const Header& header, Bytes payload);

}  // namespace neuron::neff

#endif
