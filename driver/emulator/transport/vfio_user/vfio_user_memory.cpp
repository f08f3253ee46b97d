// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "driver/emulator/transport/vfio_user/vfio_user_guard.h"
#include "driver/emulator/transport/vfio_user/vfio_user_protocol.h"

namespace neuron::transport {
namespace {

std::string range_text(uint64_t address, uint64_t size) {
  char text[64];
  std::snprintf(text, sizeof text, "0x%llx (0x%llx bytes)",
                static_cast<unsigned long long>(address), static_cast<unsigned long long>(size));
  return text;
}

// The file can shrink under us unless it is sealed; the guard then supplies zeros. Here only what
// is wrong from the beginning.
bool file_holds(int file, uint64_t offset, uint64_t size, std::string& why) {
  struct stat status = {};
  if (fstat(file, &status) != 0) {
    why = std::string("the file of the map cannot be examined: ") + std::strerror(errno);
    return false;
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || offset > bytes || size > bytes - offset) {
    why = "the file of the map has " + std::to_string(bytes) + " bytes, the map begins at " +
          std::to_string(offset) + " and has " + std::to_string(size);
    return false;
  }
  return true;
}

}  // namespace

GuestMemory::GuestMemory() {
  void* window =
      mmap(nullptr, kWindow, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (window == MAP_FAILED) return;
  window_ = static_cast<std::byte*>(window);
  (void)madvise(window, kWindow, MADV_DONTDUMP);
  guard_memory(window_, kWindow);
}

GuestMemory::~GuestMemory() {
  if (window_ == nullptr) return;
  unguard_memory(window_);
  munmap(window_, kWindow);
}

std::byte* GuestMemory::translate(uint64_t address, size_t length) {
  if (!bus_master_.load(std::memory_order_relaxed)) return nullptr;
  if (address >= kWindow || length > kWindow - address) return nullptr;
  const uint64_t end = address + length;
  const std::shared_lock guard(mutex_);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return nullptr;
  --range;
  if (address >= range->second.end) return nullptr;
  // Bounded: every step passes a map.
  while (range->second.reachable && range->second.end < end) {
    const uint64_t next = range->second.end;
    ++range;
    if (range == ranges_.end() || range->first != next) return nullptr;
  }
  return range->second.reachable ? window_ + address : nullptr;
}

int GuestMemory::map(uint64_t address, uint64_t size, int file, uint64_t offset, bool writable,
                     std::string& why) {
  using vfio_user::kPage;
  if (size == 0 || address % kPage != 0 || size % kPage != 0 || size > UINT64_MAX - address) {
    why = "a map of guest memory at " + range_text(address, size) + " is not in whole pages";
    return EINVAL;
  }
  const bool above = file >= 0 && (address >= kWindow || size > kWindow - address);
  const bool reachable = file >= 0 && !above;
  if (reachable && (offset % kPage != 0 || offset > INT64_MAX - size)) {
    why = "the offset " + std::to_string(offset) + " of a map's file is not a page's";
    return EINVAL;
  }
  if (reachable && !file_holds(file, offset, size, why)) return EINVAL;
  if (window_ == nullptr) {
    why = "there is no address space for guest memory";
    return ENOMEM;
  }
  const std::unique_lock guard(mutex_);
  const auto next = ranges_.lower_bound(address);
  const bool before = next != ranges_.begin() && std::prev(next)->second.end > address;
  if (before || (next != ranges_.end() && next->first < address + size)) {
    why = "guest memory at " + range_text(address, size) + " overlaps a map that exists";
    return EEXIST;
  }
  if (ranges_.size() >= vfio_user::kMaxDmaMaps || (reachable && file_maps_ >= kMaxFileMaps)) {
    why = "there are " + std::to_string(ranges_.size()) + " maps of guest memory, " +
          std::to_string(file_maps_) + " of them with a file; more are not taken";
    return ENOSPC;
  }
  if (reachable) {
    const int sharing = writable ? MAP_SHARED : MAP_PRIVATE;
    if (mmap(window_ + address, size, PROT_READ | PROT_WRITE, sharing | MAP_FIXED | MAP_NORESERVE,
             file, static_cast<off_t>(offset)) == MAP_FAILED) {
      const int error = errno;
      why = "guest memory at " + range_text(address, size) +
            " cannot be mapped: " + std::strerror(error);
      return error;
    }
    (void)madvise(window_ + address, size, MADV_DONTDUMP);
    ++file_maps_;
  }
  // Windows of other devices lie there; guests have no memory so high.
  if (above) {
    why = "guest memory at " + range_text(address, size) + " lies above 2^40: no DMA there";
  }
  ranges_.emplace(address, Range{address + size, reachable});
  return 0;
}

void GuestMemory::release(uint64_t address, const Range& range) {
  if (!range.reachable) return;
  --file_maps_;
  // Where this fails the guest's pages stay mapped, which a late transfer may touch as well.
  (void)mmap(window_ + address, range.end - address, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

int GuestMemory::unmap(uint64_t address, uint64_t size, std::string& why) {
  if (size == 0 || size > UINT64_MAX - address) {
    why = "guest memory to unmap at " + range_text(address, size) + " is no range";
    return EINVAL;
  }
  const uint64_t end = address + size;
  const std::unique_lock guard(mutex_);
  auto first = ranges_.lower_bound(address);
  bool cuts = first != ranges_.begin() && std::prev(first)->second.end > address;
  auto last = first;
  while (last != ranges_.end() && last->first < end) {
    cuts = cuts || last->second.end > end;
    ++last;
  }
  if (cuts) {
    why = "unmapping guest memory at " + range_text(address, size) + " would cut a map in two";
    return EINVAL;
  }
  if (first == last) {
    why = "no guest memory is mapped at " + range_text(address, size);
    return ENOENT;
  }
  for (auto range = first; range != last; ++range) release(range->first, range->second);
  ranges_.erase(first, last);
  return 0;
}

void GuestMemory::unmap_all() {
  const std::unique_lock guard(mutex_);
  for (const auto& [address, range] : ranges_) release(address, range);
  ranges_.clear();
}

size_t GuestMemory::maps() const {
  const std::shared_lock guard(mutex_);
  return ranges_.size();
}

size_t GuestMemory::file_maps() const {
  const std::shared_lock guard(mutex_);
  return file_maps_;
}

uint64_t GuestMemory::bytes() const {
  const std::shared_lock guard(mutex_);
  uint64_t bytes = 0;
  for (const auto& [address, range] : ranges_) {
    if (range.reachable) bytes += range.end - address;
  }
  return bytes;
}

}  // namespace neuron::transport
