// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/header.h"

#include <algorithm>
#include <cstring>

#include "driver/base/little_endian.h"
#include "driver/base/md5.h"
#include "driver/base/sha256.h"
#include "hw/neff_program.h"

namespace neuron::neff {

using runtime::fail;
using runtime::Result;

namespace {

std::string fixed_text(const uint8_t* from, size_t size) {
  const auto* end = std::find(from, from + size, 0);
  return std::string(reinterpret_cast<const char*>(from), static_cast<size_t>(end - from));
}

}  // namespace

Result<Header> parse_header(Bytes file) {
  if (file.size() < NEFF_HEADER_BYTES) {
    return fail(
        NRT_INVALID,
        "the file has {} bytes, a NEFF begins with a header of {}; it is truncated or no NEFF",
        file.size(), NEFF_HEADER_BYTES);
  }
  const uint8_t* raw = file.data();
  Header header;
  header.pkg_version = base::load_little<uint64_t>(raw + NEFF_OFF_PKG_VERSION);
  if (header.pkg_version != 1 && header.pkg_version != 2) {
    return fail(
        NRT_INVALID,
        "this is not a NEFF file: header offset {}: packaging version is {}, expected 1 or 2",
        NEFF_OFF_PKG_VERSION, header.pkg_version);
  }
  header.header_size = base::load_little<uint64_t>(raw + NEFF_OFF_HEADER_SIZE);
  if (header.header_size != NEFF_HEADER_BYTES) {
    return fail(NRT_INVALID, "header offset {}: header size is {}, expected {}",
                NEFF_OFF_HEADER_SIZE, header.header_size, NEFF_HEADER_BYTES);
  }
  header.data_size = base::load_little<uint64_t>(raw + NEFF_OFF_DATA_SIZE);
  const uint64_t behind = file.size() - NEFF_HEADER_BYTES;
  if (header.data_size != behind) {
    return fail(
        NRT_INVALID,
        "header offset {}: payload size is {}, but {} bytes follow the header; the file is {}",
        NEFF_OFF_DATA_SIZE, header.data_size, behind,
        header.data_size > behind ? "truncated" : "longer than it says");
  }
  header.version_major = base::load_little<uint64_t>(raw + NEFF_OFF_VERSION_MAJOR);
  header.version_minor = base::load_little<uint64_t>(raw + NEFF_OFF_VERSION_MINOR);
  header.build_version = fixed_text(raw + NEFF_OFF_BUILD_VERSION, 128);
  header.num_tpb = base::load_little<uint32_t>(raw + NEFF_OFF_NUM_TPB);
  if (header.num_tpb > 64) {
    return fail(NRT_INVALID, "header offset {}: number of cores is {}, expected at most 64",
                NEFF_OFF_NUM_TPB, header.num_tpb);
  }
  std::memcpy(header.hash.data(), raw + NEFF_OFF_HASH, header.hash.size());
  std::memcpy(header.uuid.data(), raw + NEFF_OFF_UUID, header.uuid.size());
  header.name = fixed_text(raw + NEFF_OFF_NAME, 256);
  header.requested_tpb_count = base::load_little<uint32_t>(raw + NEFF_OFF_REQUESTED_TPB);
  std::memcpy(header.tpb_per_node.data(), raw + NEFF_OFF_TPB_PER_NODE, header.tpb_per_node.size());
  for (size_t node = 0; node < header.tpb_per_node.size(); ++node) {
    if (header.tpb_per_node[node] > 64) {
      return fail(NRT_INVALID, "header offset {}: cores of node {} is {}, expected at most 64",
                  NEFF_OFF_TPB_PER_NODE + node, node, header.tpb_per_node[node]);
    }
  }
  header.feature_bits = base::load_little<uint64_t>(raw + NEFF_OFF_FEATURE_BITS);
  header.lnc_size = base::load_little<uint32_t>(raw + NEFF_OFF_LNC_SIZE);
  if (header.lnc_size > 2) {
    return fail(NRT_INVALID, "header offset {}: logical core size is {}, expected 0, 1 or 2",
                NEFF_OFF_LNC_SIZE, header.lnc_size);
  }
  const auto* stray = std::find_if(raw + NEFF_OFF_PAD, raw + NEFF_HEADER_BYTES,
                                   [](uint8_t byte) { return byte != 0; });
  if (stray != raw + NEFF_HEADER_BYTES) header.stray_offset = static_cast<uint32_t>(stray - raw);
  return header;
}

std::array<uint8_t, 1024> encode_header(const Header& header) {
  std::array<uint8_t, 1024> raw{};
  auto copy_text = [&](size_t at, size_t size, const std::string& text) {
    std::memcpy(raw.data() + at, text.data(), std::min(size, text.size()));
  };
  base::store_little(raw.data() + NEFF_OFF_PKG_VERSION, header.pkg_version);
  base::store_little(raw.data() + NEFF_OFF_HEADER_SIZE, header.header_size);
  base::store_little(raw.data() + NEFF_OFF_DATA_SIZE, header.data_size);
  base::store_little(raw.data() + NEFF_OFF_VERSION_MAJOR, header.version_major);
  base::store_little(raw.data() + NEFF_OFF_VERSION_MINOR, header.version_minor);
  copy_text(NEFF_OFF_BUILD_VERSION, 128, header.build_version);
  base::store_little(raw.data() + NEFF_OFF_NUM_TPB, header.num_tpb);
  std::memcpy(raw.data() + NEFF_OFF_HASH, header.hash.data(), header.hash.size());
  std::memcpy(raw.data() + NEFF_OFF_UUID, header.uuid.data(), header.uuid.size());
  copy_text(NEFF_OFF_NAME, 256, header.name);
  base::store_little(raw.data() + NEFF_OFF_REQUESTED_TPB, header.requested_tpb_count);
  std::memcpy(raw.data() + NEFF_OFF_TPB_PER_NODE, header.tpb_per_node.data(),
              header.tpb_per_node.size());
  base::store_little(raw.data() + NEFF_OFF_FEATURE_BITS, header.feature_bits);
  base::store_little(raw.data() + NEFF_OFF_LNC_SIZE, header.lnc_size);
  return raw;
}

Result<void> check_hash(const Header& header, Bytes payload) {
  std::array<uint8_t, 32> found{};
  size_t used = found.size();
  if (header.pkg_version == 2) {
    const auto digest = base::md5(payload);
    std::copy(digest.begin(), digest.end(), found.begin());
    used = digest.size();
  } else {
    found = base::Sha256::of(payload);
  }
  if (found != header.hash) {
    return fail(
        NRT_INVALID,
        "header offset {}: the payload's {} is {}, the header says {}; the file was damaged or "
        "altered after it was packed",
        NEFF_OFF_HASH, used == 16 ? "MD5" : "SHA-256", hexadecimal({found.data(), used}),
        hexadecimal({header.hash.data(), used}));
  }
  return {};
}

}  // namespace neuron::neff
