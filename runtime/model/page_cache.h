// SPDX-License-Identifier: Apache-2.0
//
// Which parts of a file the host has in its cache. To ask by reading (RWF_NOWAIT) makes the kernel
// read ahead what is then read a second time; to look (mincore) reads nothing.
//
// Callers: FileReader, one thread. Owns: address space of the range's size. Cannot fail: where the
// kernel does not say it, because the file is another user's, everything seems to be there.
#ifndef RUNTIME_MODEL_PAGE_CACHE_H
#define RUNTIME_MODEL_PAGE_CACHE_H

#include <cstdint>
#include <vector>

namespace neuron::runtime {

class PageCache {
 public:
  PageCache(int descriptor, uint64_t offset, uint64_t bytes);
  ~PageCache();
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;

  // How many of `bytes` from `offset` on are there without a gap. A part of the constructor's
  // range.
  uint64_t resident(uint64_t offset, uint64_t bytes);

 private:
  uint64_t start_ = 0;  // in the file, on a page boundary
  uint64_t bytes_ = 0;
  void* memory_ = nullptr;  // null: unknown
  std::vector<unsigned char> pages_;
};

}  // namespace neuron::runtime

#endif
