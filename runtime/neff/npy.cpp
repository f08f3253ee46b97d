// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "driver/base/little_endian.h"
#include "runtime/neff/text.h"

namespace neuron::neff {
using runtime::fail;
using runtime::Result;

namespace {

constexpr uint32_t kDimensions = 32;  // NumPy's own limit.

// The header is a Python dictionary with three known keys; this class reads only that much Python.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : text_(text) {}

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<uint64_t>> shape;

  bool parse() {
    if (!take('{')) return false;
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':') || !value(key)) return false;
      if (!take(',')) {
        if (!take('}')) return false;
        break;
      }
    }
    skip();
    return text_.empty();
  }

 private:
  void skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }

  bool take(char c) {
    skip();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool word(std::string_view expected) {
    skip();
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }

  bool quoted(std::string& out) {
    skip();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return false;
    out = std::string(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return true;
  }

  bool value(const std::string& key) {
    if (key == "descr" && !descr) {
      std::string text;
      if (!quoted(text)) return false;
      descr = text;
      return true;
    }
    if (key == "fortran_order" && !fortran_order) {
      if (word("True")) fortran_order = true;
      if (word("False")) fortran_order = false;
      return fortran_order.has_value();
    }
    if (key == "shape" && !shape) return tuple();
    return false;
  }

  bool tuple() {
    if (!take('(')) return false;
    std::vector<uint64_t> sizes;
    while (!take(')')) {
      skip();
      uint64_t size = 0;
      const auto [stop, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || sizes.size() == kDimensions) return false;
      text_.remove_prefix(static_cast<size_t>(stop - text_.data()));
      sizes.push_back(size);
      if (!take(',')) {
        if (!take(')')) return false;
        break;
      }
    }
    shape = std::move(sizes);
    return true;
  }

  std::string_view text_;
};

// Bytes of one element, 0 if the type is not a little-endian number.
uint32_t item_size(std::string_view type) {
  if (type.size() < 3 || type.size() > 4) return 0;
  uint32_t size = 0;
  const auto [stop, error] = std::from_chars(type.data() + 2, type.data() + type.size(), size);
  if (error != std::errc() || stop != type.data() + type.size()) return 0;
  const char order = type[0];
  if (order != '<' && order != '=' && order != '|') return 0;
  if (order == '|' && size != 1 && type[1] != 'V') return 0;
  const bool power = size == 1 || size == 2 || size == 4 || size == 8;
  switch (type[1]) {
    case 'b':
      return size == 1 ? 1 : 0;
    case 'i':
    case 'u':
      return power ? size : 0;
    case 'f':  // "f1" is how packages that add 8-bit floats to NumPy name them.
      return power ? size : 0;
    case 'V':
      return power && size < 8 ? size : 0;
    default:
      return 0;
  }
}

}  // namespace

Result<NpyView> parse_npy(Bytes file) {
  if (file.size() < 10 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0) {
    return fail(NRT_INVALID, "no .npy file: it does not begin with the NumPy magic");
  }
  const unsigned version = file[6];
  if (version < 1 || version > 3 || file[7] != 0) {
    return fail(NRT_INVALID, ".npy offset 6: format version is {}.{}, expected 1.0, 2.0 or 3.0",
                version, file[7]);
  }
  const size_t begin = version == 1 ? 10 : 12;
  if (file.size() < begin) return fail(NRT_INVALID, ".npy header is truncated");
  const size_t length = version == 1 ? base::load_little<uint16_t>(file.data() + 8)
                                     : base::load_little<uint32_t>(file.data() + 8);
  if (length > file.size() - begin) {
    return fail(NRT_INVALID,
                ".npy offset 8: the header has {} bytes, {} are left; the file is truncated",
                length, file.size() - begin);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + begin, length);
  Dictionary header(text);
  if (!header.parse() || !header.descr || !header.fortran_order || !header.shape) {
    return fail(NRT_INVALID,
                ".npy header \"{}\" is not a dictionary of descr, fortran_order and shape",
                printable(text));
  }
  NpyView view;
  view.type = *header.descr;
  view.item_bytes = item_size(view.type);
  if (view.item_bytes == 0) {
    return fail(NRT_INVALID,
                ".npy type is \"{}\", expected a little-endian number such as <f4, <i4 or |u1",
                printable(view.type));
  }
  view.shape = *header.shape;
  if (*header.fortran_order && view.shape.size() > 1) {
    return fail(NRT_INVALID, ".npy array is in Fortran order; save it in C order");
  }
  uint64_t bytes = view.item_bytes;
  for (uint64_t size : view.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      return fail(NRT_INVALID, ".npy shape has more than 2^64 bytes");
    }
  }
  view.data = file.subspan(begin + length);
  if (view.data.size() != bytes) {
    return fail(NRT_INVALID, ".npy data has {} bytes, its shape and type need {}", view.data.size(),
                bytes);
  }
  return view;
}

}  // namespace neuron::neff
