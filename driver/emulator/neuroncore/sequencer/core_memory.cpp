// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/core_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "driver/emulator/chip/memory_file.h"

namespace neuron::core {
namespace {

constexpr size_t kBlock = 2u << 20;  // one block of the pattern; the mapping repeats it

// A file with one block of the default pattern, shared by all cores of the process. -1 if the host
// has no memory files; cores then fill their memory by writing it.
int pattern_file() {
  static const int file = [] {
    int fd = chip::create_memory_file("neuron-core-fill");
    if (fd < 0) return -1;
    std::vector<uint32_t> block(kBlock / 4, CoreMemory::kDefaultFill);
    if (!chip::may_have_file_of(kBlock) ||
        pwrite(fd, block.data(), kBlock, 0) != static_cast<ssize_t>(kBlock)) {
      close(fd);
      return -1;
    }
    return fd;
  }();
  return file;
}

constexpr size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

CoreMemory::CoreMemory(size_t sbuf_bytes) : sbuf_bytes_(std::min(sbuf_bytes, kMaxSbufBytes)) {
  const size_t sbuf = round_up(kSbufStride * NEURON_PARTITIONS, 4096);
  const size_t psum = kPsumStride * NEURON_PARTITIONS;
  bytes_ = round_up(sbuf + psum, kBlock);
  marks_ = std::make_unique<uint64_t[]>(kMarkWords * NEURON_PARTITIONS);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(memory);
  psum_ = base_ + sbuf;
  const int file = pattern_file();
  for (size_t at = 0; at < bytes_; at += kBlock) {
    if (file < 0 || mmap(base_ + at, kBlock, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED) {
      default_fill_ = false;  // no block may count as filled: write them all
      break;
    }
  }
  if (!default_fill_) fill(kDefaultFill);
}

CoreMemory::~CoreMemory() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (gathered_ != nullptr) munmap(gathered_, kGatheredStride * NEURON_PARTITIONS);
}

void CoreMemory::make_gathered() {
  if (gathered_ != nullptr) return;
  void* memory = mmap(nullptr, kGatheredStride * NEURON_PARTITIONS, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  gathered_ = static_cast<std::byte*>(memory);
}

std::byte* CoreMemory::sbuf_at(uint64_t offset, size_t length) {
  const uint64_t partition = offset / NEURON_SBUF_PARTITION_STRIDE;
  const uint64_t at = offset % NEURON_SBUF_PARTITION_STRIDE;
  if (partition >= NEURON_PARTITIONS || length > sbuf_bytes_ || at > sbuf_bytes_ - length) {
    return nullptr;
  }
  return sbuf(static_cast<unsigned>(partition)) + at;
}

std::byte* CoreMemory::psum_at(uint64_t offset, size_t length) {
  const uint64_t partition = offset / NEURON_PSUM_PARTITION_STRIDE;
  const uint64_t at = offset % NEURON_PSUM_PARTITION_STRIDE;
  if (partition >= NEURON_PARTITIONS || length > kPsumBytes || at > kPsumBytes - length) {
    return nullptr;
  }
  return psum(static_cast<unsigned>(partition)) + at;
}

void CoreMemory::fill(uint32_t pattern) {
  std::fill_n(marks_.get(), kMarkWords * NEURON_PARTITIONS, uint64_t{0});
  if (pattern == kDefaultFill && default_fill_) {
    // Drops the private copies, so that the pattern shows again.
    if (madvise(base_, bytes_, MADV_DONTNEED) == 0) return;
  }
  auto* words = reinterpret_cast<uint32_t*>(base_);
  std::fill_n(words, bytes_ / 4, pattern);
}

void CoreMemory::mark_pe(unsigned partition, size_t offset, size_t bytes, bool written) {
  if (bytes == 0) return;
  uint64_t* row = marks_.get() + partition * kMarkWords;
  const size_t first = offset / 4;
  const size_t last = (offset + bytes - 1) / 4;
  const auto mark = [written](uint64_t& word, uint64_t mask) {
    word = written ? word | mask : word & ~mask;
  };
  // Bits from the first cell on, and bits up to the last one.
  const uint64_t from = ~uint64_t{0} << first % 64;
  const uint64_t to = ~uint64_t{0} >> (63 - last % 64);
  if (first / 64 == last / 64) return mark(row[first / 64], from & to);
  mark(row[first / 64], from);
  std::fill(row + first / 64 + 1, row + last / 64, written ? ~uint64_t{0} : uint64_t{0});
  mark(row[last / 64], to);
}

bool CoreMemory::pe_wrote(unsigned partition, size_t offset, size_t bytes) const {
  const uint64_t* row = marks_.get() + partition * kMarkWords;
  size_t first = offset / 4;
  const size_t end = (offset + bytes + 3) / 4;
  while (first < end) {
    const size_t bit = first % 64;
    const size_t count = std::min(end - first, 64 - bit);
    const uint64_t mask = (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << bit;
    if ((row[first / 64] & mask) != mask) return false;
    first += count;
  }
  return true;
}

}  // namespace neuron::core
