// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/page_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace neuron::runtime {
namespace {

const uint64_t kPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));

}  // namespace

PageCache::PageCache(int descriptor, uint64_t offset, uint64_t bytes)
    : start_(offset / kPage * kPage), bytes_(offset + bytes - start_) {
  if (bytes == 0) return;
  // Nothing touches these pages: the file may become shorter.
  void* memory =
      ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(start_));
  if (memory != MAP_FAILED) memory_ = memory;
}

PageCache::~PageCache() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

uint64_t PageCache::resident(uint64_t offset, uint64_t bytes) {
  if (memory_ == nullptr) return bytes;
  const uint64_t first = (offset - start_) / kPage * kPage;
  const uint64_t length = offset + bytes - start_ - first;
  pages_.resize((length + kPage - 1) / kPage);
  if (::mincore(static_cast<char*>(memory_) + first, length, pages_.data()) != 0) return bytes;
  const auto gap = std::find_if(pages_.begin(), pages_.end(),
                                [](unsigned char page) { return (page & 1) == 0; });
  const uint64_t end = start_ + first + static_cast<uint64_t>(gap - pages_.begin()) * kPage;
  return end <= offset ? 0 : std::min(bytes, end - offset);
}

}  // namespace neuron::runtime
