// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "runtime/neff/text.h"

namespace neuron::neff {

using runtime::fail;
using runtime::Result;

namespace {

constexpr size_t kBlock = 512;
struct Field {
  size_t offset;
  size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr size_t kType = 156;
constexpr Field kMagic{257, 6};
constexpr Field kPrefix{345, 155};
constexpr Field kGnuSparse{386, 109};  // Map, extension flag and real size of GNU's sparse files.

std::string_view text_field(const uint8_t* block, Field field) {
  const char* begin = reinterpret_cast<const char*>(block + field.offset);
  const std::string_view whole(begin, field.size);
  return whole.substr(0, whole.find('\0'));
}

// Octal digits between optional spaces, ended by a space, a NUL or the field's end; or, with the
// first bit set, a big-endian binary number.
std::optional<uint64_t> number_field(const uint8_t* block, Field field) {
  const uint8_t* p = block + field.offset;
  const uint8_t* end = p + field.size;
  if (*p & 0x80) {
    if (*p & 0x40) return std::nullopt;  // Negative
    uint64_t value = *p & 0x3F;
    for (++p; p < end; ++p) {
      if (value >> 56) return std::nullopt;
      value = value << 8 | *p;
    }
    return value;
  }
  while (p < end && *p == ' ') ++p;
  uint64_t value = 0;
  for (; p < end && *p >= '0' && *p <= '7'; ++p) value = value << 3 | (*p - '0');  // <= 36 bits
  for (; p < end; ++p) {
    if (*p == 0) break;
    if (*p != ' ') return std::nullopt;
  }
  return value;
}

// Old archivers summed signed characters.
bool checksum_holds(const uint8_t* block, uint64_t stated) {
  int64_t plain = 0;
  int64_t with_sign = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    const uint8_t byte = own ? ' ' : block[i];
    plain += byte;
    with_sign += static_cast<int8_t>(byte);
  }
  const auto value = static_cast<int64_t>(stated);
  return value == plain || value == with_sign;
}

bool all_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

const char* type_words(char type) {
  switch (type) {
    case '1':
      return "a hard link";
    case '2':
      return "a symbolic link";
    case '3':
      return "a character device";
    case '4':
      return "a block device";
    case '6':
      return "a FIFO";
    case 'S':
      return "a sparse file";
    default:
      return "of an unknown type";
  }
}

class Reader {
 public:
  Reader(Bytes archive, const Limits& limits) : archive_(archive), limits_(limits) {}

  Result<std::vector<TarEntry>> read();

 private:
  // Values of extension records that apply to the next member.
  struct Pending {
    std::optional<std::string> path;
    std::optional<uint64_t> size;
    bool any = false;
  };

  Result<void> read_member();
  Result<void> read_extension(char type, Bytes data);
  Result<void> read_pax(Bytes data, bool global);
  Result<void> add(std::string_view raw_name, bool directory, Bytes data);
  Result<std::string> normalise(std::string_view raw) const;
  Result<void> finish();

  Bytes archive_;
  const Limits& limits_;
  uint64_t at_ = 0;      // Next byte to read
  uint64_t header_ = 0;  // Offset of the member's header, for messages
  Pending pending_;
  std::vector<TarEntry> entries_;
  std::unordered_set<std::string> files_;
  std::unordered_set<std::string> directories_;
};

Result<std::vector<TarEntry>> Reader::read() {
  for (;;) {  // bounded: each member moves at_ by a block at least
    if (archive_.size() - at_ < kBlock) {
      return fail(
          NRT_INVALID,
          "archive offset {}: {} bytes are left, a member header or the end mark has {}; the "
          "archive is truncated",
          at_, archive_.size() - at_, kBlock);
    }
    if (all_zero(archive_.subspan(at_, kBlock))) {
      NEURON_CHECK(finish());
      return std::move(entries_);
    }
    NEURON_CHECK(read_member());
  }
}

// The end mark is two zero blocks; archivers write at least one and pad with zeros.
Result<void> Reader::finish() {
  if (pending_.any) {
    return fail(NRT_INVALID, "archive offset {}: the archive ends behind an extension header", at_);
  }
  if (!all_zero(archive_.subspan(at_))) {
    return fail(NRT_INVALID, "archive offset {}: data follows the end mark", at_);
  }
  return {};
}

Result<void> Reader::read_member() {
  const uint8_t* block = archive_.data() + at_;
  header_ = at_;
  const auto checksum = number_field(block, kChecksum);
  if (!checksum || !checksum_holds(block, *checksum)) {
    return fail(
        NRT_INVALID,
        "archive offset {}: the header checksum of member \"{}\" is wrong; the file is damaged or "
        "not a tar archive",
        header_, printable(text_field(block, kName)));
  }
  const char type = static_cast<char>(block[kType]);
  auto size = number_field(block, kSize);
  if (!size) {
    return fail(NRT_INVALID, "archive offset {}: the size of member \"{}\" is not a number",
                header_, printable(text_field(block, kName)));
  }
  const bool extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
  if (!extension && pending_.size) size = pending_.size;
  at_ += kBlock;
  const uint64_t left = archive_.size() - at_;
  const uint64_t padded = *size > left ? 0 : (*size + kBlock - 1) / kBlock * kBlock;
  if (*size > left || padded > left) {
    return fail(
        NRT_INVALID,
        "archive offset {}: member \"{}\" has {} bytes, but {} are left; the archive is truncated",
        header_, printable(text_field(block, kName)), *size, left);
  }
  const Bytes data = archive_.subspan(at_, *size);
  at_ += padded;
  if (extension) return read_extension(type, data);

  const std::string_view magic = text_field(block, kMagic);
  if (magic == "ustar " && !all_zero({block + kGnuSparse.offset, kGnuSparse.size})) {
    return fail(NRT_INVALID, "archive offset {}: a sparse file; a NEFF holds plain files only",
                header_);
  }
  std::string name;
  if (pending_.path) {
    name = *pending_.path;
  } else {
    const std::string_view prefix = text_field(block, kPrefix);
    // GNU archives ("ustar  ") keep times where ustar has the prefix.
    if (magic == "ustar" && !prefix.empty()) name = std::string(prefix) + "/";
    name += text_field(block, kName);
  }
  pending_ = Pending();
  switch (type) {
    case '0':
    case '7':  // Contiguous file: a file.
      return add(name, false, data);
    case '\0':  // Before ustar, a directory was a file whose name ends with a slash.
      return add(name, !name.empty() && name.back() == '/', data);
    case '5':
      return add(name, true, data);
    default:
      return fail(NRT_INVALID,
                  "archive offset {}: member \"{}\" is {} (type {:#04x}); a NEFF holds files and "
                  "directories only",
                  header_, printable(name), type_words(type), static_cast<unsigned>(block[kType]));
  }
}

Result<void> Reader::read_extension(char type, Bytes data) {
  if (data.size() > limits_.extension_bytes) {
    return fail(NRT_INVALID,
                "archive offset {}: an extension header has {} bytes, at most {} are allowed",
                header_, data.size(), limits_.extension_bytes);
  }
  if (type == 'x' || type == 'g') return read_pax(data, type == 'g');
  pending_.any = true;
  if (type == 'L') {
    std::string_view name(reinterpret_cast<const char*>(data.data()), data.size());
    pending_.path = std::string(name.substr(0, name.find('\0')));
  }
  return {};  // 'K', a long link target: the link that follows is refused.
}

// Records "LENGTH KEY=VALUE\n", where LENGTH counts the whole record.
Result<void> Reader::read_pax(Bytes data, bool global) {
  std::string_view rest(reinterpret_cast<const char*>(data.data()), data.size());
  if (!global) pending_.any = true;
  while (!rest.empty()) {
    size_t length = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<size_t>(stop - rest.data());
    const size_t equals = rest.substr(0, std::min(length, rest.size())).find('=');
    if (error != std::errc() || length > rest.size() || length < digits + 3 || *stop != ' ' ||
        rest[length - 1] != '\n' || equals == std::string_view::npos) {
      return fail(NRT_INVALID, "archive offset {}: a pax extension record is malformed", header_);
    }
    const std::string_view key = rest.substr(digits + 1, equals - digits - 1);
    const std::string_view value = rest.substr(equals + 1, length - equals - 2);
    rest.remove_prefix(length);
    if (key.starts_with("GNU.sparse.")) {
      return fail(NRT_INVALID, "archive offset {}: a sparse file; a NEFF holds plain files only",
                  header_);
    }
    if (key != "path" && key != "size") continue;  // Times, owners, comments.
    if (global) {
      return fail(NRT_INVALID, "archive offset {}: a global pax record sets \"{}\" of every member",
                  header_, key);
    }
    if (key == "path") {
      pending_.path = std::string(value);
    } else {
      uint64_t size = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), size);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) {
        return fail(NRT_INVALID, "archive offset {}: the pax size \"{}\" is not a number", header_,
                    printable(value));
      }
      pending_.size = size;
    }
  }
  return {};
}

Result<std::string> Reader::normalise(std::string_view raw) const {
  if (raw.size() > limits_.name_bytes) {
    return fail(NRT_INVALID,
                "archive offset {}: a member name has {} bytes, at most {} are allowed", header_,
                raw.size(), limits_.name_bytes);
  }
  auto refuse = [&](const char* why) {
    return fail(NRT_INVALID, "archive offset {}: member name \"{}\" {}", header_, printable(raw),
                why);
  };
  for (char c : raw) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return refuse("holds a control character");
    }
    if (c == '\\') return refuse("holds a backslash");
  }
  if (!is_utf8(raw)) return refuse("is not UTF-8");
  if (raw.starts_with('/')) return refuse("is absolute");
  std::string name;
  uint32_t depth = 0;
  while (!raw.empty()) {
    const size_t slash = raw.find('/');
    const std::string_view part = raw.substr(0, slash);
    raw.remove_prefix(slash == std::string_view::npos ? raw.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      return fail(NRT_INVALID, "archive offset {}: a member name leaves the archive through \"..\"",
                  header_);
    }
    if (++depth > limits_.name_depth) {
      return fail(NRT_INVALID, "archive offset {}: a member name has more than {} parts", header_,
                  limits_.name_depth);
    }
    if (!name.empty()) name += '/';
    name += part;
  }
  return name;
}

Result<void> Reader::add(std::string_view raw_name, bool directory, Bytes data) {
  NEURON_TRY(name, normalise(raw_name));
  if (directory && !data.empty()) {
    return fail(NRT_INVALID, "archive offset {}: directory \"{}\" has {} bytes of data", header_,
                name, data.size());
  }
  if (name.empty()) {
    if (directory) return {};  // "./", the archive's own root.
    return fail(NRT_INVALID, "archive offset {}: a member has no name", header_);
  }
  if (!directory && raw_name.ends_with('/')) {
    return fail(NRT_INVALID, "archive offset {}: file \"{}\" is named like a directory", header_,
                name);
  }
  if (entries_.size() >= limits_.members) {
    return fail(NRT_INVALID, "archive offset {}: more than {} members", header_, limits_.members);
  }
  if (files_.contains(name) || (!directory && directories_.contains(name))) {
    return fail(NRT_INVALID, "archive offset {}: member \"{}\" exists twice", header_,
                printable(name));
  }
  for (size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    const std::string parent = name.substr(0, slash);
    if (files_.contains(parent)) {
      return fail(NRT_INVALID, "archive offset {}: member \"{}\" lies in \"{}\", which is a file",
                  header_, printable(name), printable(parent));
    }
    directories_.insert(parent);
  }
  if (directory) {
    directories_.insert(name);
  } else {
    files_.insert(name);
  }
  entries_.push_back({std::move(name), directory, data});
  return {};
}

}  // namespace

Result<std::vector<TarEntry>> read_tar(Bytes archive, const Limits& limits) {
  return Reader(archive, limits).read();
}

}  // namespace neuron::neff
