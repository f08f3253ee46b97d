// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/file_image.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/neff/gzip_reader.h"

namespace neuron::runtime {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kSmallest = 1u << 20;       // members below are read with the rest
constexpr uint64_t kArrayHeader = 128u << 10;  // of a .npy, at most; a longer header is refused
constexpr uint64_t kLargest = 64ull << 30;

// Reads the size field of a plain ustar header; false if holes may not rely on this header.
bool plain_size(const uint8_t* header, uint64_t& size) {
  size = 0;
  bool digit = false;
  for (size_t i = 124; i < 136; ++i) {
    const uint8_t c = header[i];
    if (c >= '0' && c <= '7') {
      size = size * 8 + (c - '0');
      digit = true;
    } else if ((c == ' ' || c == 0) && digit) {
      break;
    } else if (c != ' ') {
      return false;
    }
  }
  return digit;
}

bool is_array(const uint8_t* header) {
  const auto* name = reinterpret_cast<const char*>(header);
  return std::string_view(name, ::strnlen(name, 100)).ends_with(".npy");
}

}  // namespace

void FileImage::Unmap::operator()(uint8_t* memory) const { ::munmap(memory, size); }

Result<FileImage> FileImage::open(const std::string& path, bool whole, bool ring) {
  FileImage image;
  NEURON_TRY(reader, FileReader::open(path, ring));
  image.reader_ = std::move(reader);
  image.size_ = image.reader_->size();
  if (image.size_ == 0) return fail(NRT_INVALID, "{} is empty; expected a NEFF", path);
  if (image.size_ > kLargest) {
    return fail(NRT_INVALID, "{} has {} bytes; expected a NEFF of at most {}", path, image.size_,
                kLargest);
  }
  void* memory = ::mmap(nullptr, image.size_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(NRT_RESOURCE, "no address space for the {} bytes of {}", image.size_, path);
  }
  image.memory_ = {static_cast<uint8_t*>(memory), Unmap{image.size_}};
  if (whole) {
    NEURON_CHECK(image.fill(0, image.size_));
  } else {
    NEURON_CHECK(image.fill_archive());
  }
  return image;
}

Result<void> FileImage::fill(uint64_t from, uint64_t to) {
  if (from >= to) return {};
  return reader_->read(from, memory_.get() + from, to - from);
}

// Reads everything but the holes. From the first member that is not plain on, reads all of the
// rest.
Result<void> FileImage::fill_archive() {
  uint64_t at = std::min(size_, neff::Header{}.header_size);
  NEURON_CHECK(fill(0, at));
  const auto header = neff::parse_header(bytes());
  if (!header || header->header_size != at || size_ < at + kBlock) return fill(at, size_);
  uint64_t filled = at;
  const auto fill_to = [&](uint64_t end) -> Result<void> {
    NEURON_CHECK(fill(filled, end));
    filled = end;
    return {};
  };
  NEURON_CHECK(fill_to(at + kBlock));
  if (neff::is_gzip(bytes().subspan(at, kBlock))) return fill_to(size_);
  while (size_ - at >= kBlock) {
    NEURON_CHECK(fill_to(at + kBlock));
    const uint8_t* block = memory_.get() + at;
    const uint8_t type = block[156];
    uint64_t length = 0;
    const bool regular = type == '0' || type == 0;
    if ((!regular && type != '5') || block[0] == 0 || !plain_size(block, length) ||
        length > size_ - at - kBlock) {
      break;
    }
    const uint64_t contents = at + kBlock;
    if (regular && length >= kSmallest && is_array(block)) {
      NEURON_CHECK(fill_to(contents + kArrayHeader));
      holes_.emplace_back(filled, length - kArrayHeader);
      filled = contents + length;
    }
    at = contents + (length + kBlock - 1) / kBlock * kBlock;
    if (at > size_) break;
    NEURON_CHECK(fill_to(at));
  }
  return fill_to(size_);
}

bool FileImage::in_hole(neff::Bytes part) const {
  const uint64_t first = offset_of(part), last = first + part.size();
  for (const auto& [offset, length] : holes_) {
    if (first < offset + length && offset < last) return true;
  }
  return false;
}

Result<void> FileImage::stream(
    neff::Bytes part,
    const std::function<Result<void>(const std::byte*, uint64_t, uint64_t)>& take) const {
  return reader_->stream(offset_of(part), part.size(), take);
}

}  // namespace neuron::runtime
