// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/neff_writer.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>

#include "driver/base/md5.h"
#include "driver/base/sha256.h"
#include "runtime/neff/text.h"

namespace neuron::tools {

using runtime::fail;
using runtime::Result;

namespace {

constexpr size_t kBlock = 512;
constexpr size_t kNameBytes = 100;
constexpr size_t kPrefixBytes = 155;

// ustar keeps a long path as "prefix/name", split at a slash.
bool split_name(const std::string& path, std::string& prefix, std::string& name) {
  if (path.size() <= kNameBytes) {
    prefix.clear();
    name = path;
    return true;
  }
  const size_t slash = path.find('/', path.size() - kNameBytes - 1);
  // So large is npos, too.
  if (slash > kPrefixBytes || slash + 1 == path.size()) return false;
  prefix = path.substr(0, slash);
  name = path.substr(slash + 1);
  return true;
}

void put_octal(uint8_t* field, size_t size, uint64_t value) {
  field[size - 1] = 0;
  for (size_t i = size - 1; i-- > 0; value >>= 3) {
    field[i] = static_cast<uint8_t>('0' + (value & 7));
  }
}

void put_size(uint8_t* field, uint64_t size) {
  constexpr uint64_t kOctalEnd = 1ull << 33;
  if (size < kOctalEnd) return put_octal(field, 12, size);
  field[0] = 0x80;  // Binary, big endian: every reader of large archives knows this form.
  for (int i = 0; i < 8; ++i) field[11 - i] = static_cast<uint8_t>(size >> (8 * i));
}

Result<void> put_member(std::vector<uint8_t>& archive, const std::string& path,
                        const std::vector<uint8_t>& contents) {
  std::string prefix;
  std::string name;
  if (path.empty() || !neff::is_utf8(path) || !split_name(path, prefix, name)) {
    return fail(NRT_INVALID, "member name \"{}\" does not fit into a ustar header (155/100 bytes)",
                neff::printable(path));
  }
  uint8_t header[kBlock] = {};
  std::memcpy(header, name.data(), name.size());
  put_octal(header + 100, 8, 0644);
  put_octal(header + 108, 8, 0);
  put_octal(header + 116, 8, 0);
  put_size(header + 124, contents.size());
  put_octal(header + 136, 12, 0);
  std::memset(header + 148, ' ', 8);
  header[156] = '0';
  std::memcpy(header + 257, "ustar\00000", 8);
  std::memcpy(header + 345, prefix.data(), prefix.size());
  uint64_t sum = 0;
  for (uint8_t byte : header) sum += byte;
  put_octal(header + 148, 7, sum);
  archive.insert(archive.end(), header, header + kBlock);
  archive.insert(archive.end(), contents.begin(), contents.end());
  archive.resize((archive.size() + kBlock - 1) / kBlock * kBlock, 0);
  return {};
}

// The same build gets the same uuid: tools match a profile to its program by it.
std::array<uint8_t, 16> derive_uuid(const neff::Header& header) {
  base::Sha256 hash;
  hash.update(bytes_of("neff-uuid"));
  hash.update(header.hash);
  hash.update(bytes_of(header.name));
  hash.update(bytes_of(header.build_version));
  const auto digest = hash.finish();
  std::array<uint8_t, 16> uuid;
  std::copy_n(digest.begin(), uuid.size(), uuid.begin());
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0F) | 0x80);
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3F) | 0x80);
  return uuid;
}

uint32_t count_subgraphs(const NeffMembers& members) {
  std::set<std::string_view> names;
  for (const auto& [path, contents] : members) {
    const std::string_view directory = std::string_view(path).substr(0, path.find('/'));
    if (directory.size() != path.size() && directory.starts_with("sg") && directory.size() >= 4 &&
        directory.find_first_not_of("0123456789", 2) == std::string_view::npos) {
      names.insert(directory);
    }
  }
  return static_cast<uint32_t>(names.size());
}

}  // namespace

std::vector<uint8_t> bytes_of(std::string_view text) {
  return std::vector<uint8_t>(text.begin(), text.end());
}

Result<std::vector<uint8_t>> write_tar(const NeffMembers& members) {
  std::vector<uint8_t> archive;
  size_t total = 2 * kBlock;
  for (const auto& [path, contents] : members) total += contents.size() + 2 * kBlock;
  archive.reserve(total);
  for (const auto& [path, contents] : members) NEURON_CHECK(put_member(archive, path, contents));
  archive.resize(archive.size() + 2 * kBlock, 0);
  return archive;
}

Result<std::vector<uint8_t>> gzip(neff::Bytes bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return fail(NRT_FAIL_HOST_MEM_ALLOC, "no memory to compress {} bytes", bytes.size());
  }
  gz_header header{};
  header.os = 255;  // Unknown: the same bytes wherever it is built.
  deflateSetHeader(&stream, &header);
  std::vector<uint8_t> out;
  size_t consumed = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    constexpr size_t kPiece = 1u << 20;
    const size_t in = std::min(bytes.size() - consumed, kPiece);
    stream.next_in = const_cast<Bytef*>(bytes.data() + consumed);
    stream.avail_in = static_cast<uInt>(in);
    const size_t made = out.size();
    out.resize(made + kPiece);
    stream.next_out = out.data() + made;
    stream.avail_out = kPiece;
    status = deflate(&stream, consumed + in == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    consumed += in - stream.avail_in;
    out.resize(made + kPiece - stream.avail_out);
  }
  deflateEnd(&stream);
  if (status != Z_STREAM_END) {
    return fail(NRT_FAILURE, "zlib refused to compress (code {})", status);
  }
  return out;
}

std::vector<uint8_t> wrap_payload(neff::Bytes payload, const NeffOptions& options) {
  neff::Header header;
  header.data_size = payload.size();
  header.version_major = options.version_major;
  header.version_minor = options.version_minor;
  header.build_version = options.build_version.substr(0, 127);
  header.name = options.name.substr(0, 255);
  header.num_tpb = options.cores ? options.cores : 1;
  header.requested_tpb_count = header.num_tpb;
  header.tpb_per_node[0] = static_cast<uint8_t>(header.num_tpb);
  header.feature_bits = options.feature_bits;
  header.lnc_size = options.lnc_size;
  header.pkg_version = options.header_version;
  if (options.header_version == 2) {
    const auto digest = base::md5(payload);
    std::copy(digest.begin(), digest.end(), header.hash.begin());
  } else {
    header.hash = base::Sha256::of(payload);
  }
  header.uuid = options.uuid ? *options.uuid : derive_uuid(header);
  const auto raw = neff::encode_header(header);
  std::vector<uint8_t> file(raw.size() + payload.size());
  std::copy(raw.begin(), raw.end(), file.begin());
  std::copy(payload.begin(), payload.end(), file.begin() + raw.size());
  return file;
}

Result<std::vector<uint8_t>> write_neff(const NeffMembers& members, const NeffOptions& options) {
  if (options.name.size() > 255 || options.build_version.size() > 127) {
    return fail(NRT_INVALID,
                "the name has {} bytes (at most 255), the build version {} (at most 127)",
                options.name.size(), options.build_version.size());
  }
  NeffOptions complete = options;
  if (complete.cores == 0) complete.cores = std::max(count_subgraphs(members), 1u);
  if (complete.cores > 64 || complete.lnc_size > 2) {
    return fail(NRT_INVALID, "{} cores (1 to 64 are possible) and logical core size {} (1 or 2)",
                complete.cores, complete.lnc_size);
  }
  NEURON_TRY(archive, write_tar(members));
  if (!complete.compress) return wrap_payload(archive, complete);
  NEURON_TRY(packed, gzip(archive));
  return wrap_payload(packed, complete);
}

}  // namespace neuron::tools
