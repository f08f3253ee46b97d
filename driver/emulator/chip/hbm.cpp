// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/hbm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "driver/emulator/chip/memory_file.h"

namespace neuron::chip {

// What the rest of a process needs beside the HBM of one device, for the advice in a sentence.
constexpr uint64_t kRoomBesideKiB = 4u << 20;

constexpr uint64_t kHugePage = 2u << 20;

// Where the address maps have room: 64 GiB to the next block.
constexpr uint64_t kLargestStack = NEURON_V2_HBM_STRIDE;

class Hbm::Stack final : public BusTarget {
 public:
  Stack(std::byte* memory, uint64_t bytes) : memory_(memory), bytes_(bytes) {}

  bool read(uint64_t offset, std::span<std::byte> out, const Access&) override {
    const std::byte* from = direct(offset, out.size());
    if (from == nullptr) return false;
    std::memcpy(out.data(), from, out.size());
    return true;
  }
  bool write(uint64_t offset, std::span<const std::byte> in, const Access&) override {
    std::byte* to = direct(offset, in.size());
    if (to == nullptr) return false;
    std::memcpy(to, in.data(), in.size());
    return true;
  }
  std::byte* direct(uint64_t offset, size_t length) override {
    return offset >= bytes_ || length > bytes_ - offset ? nullptr : memory_ + offset;
  }

 private:
  std::byte* memory_;
  uint64_t bytes_;
};

std::unique_ptr<Hbm> Hbm::create(unsigned stacks, uint64_t bytes_each, int numa_node,
                                 MemoryPlacement& placement, std::string& error,
                                 const ChipLayout& layout) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (stacks == 0 || bytes_each == 0 || bytes_each % page != 0 || bytes_each > kLargestStack ||
      stacks > layout.hbms) {
    error = "HBM of " + std::to_string(stacks) + " stacks of " + std::to_string(bytes_each) +
            " bytes cannot be built: 1 to " + std::to_string(layout.hbms) + " stacks of at most " +
            std::to_string(kLargestStack) + " bytes, in whole pages, are possible";
    return nullptr;
  }
  std::unique_ptr<Hbm> hbm(new Hbm);
  hbm->stacks_ = stacks;
  // Whole stacks lie in the file as in BAR4, so that a virtual machine can map it there.
  hbm->distance_ = bytes_each == layout.hbm_bytes ? layout.hbm_window : bytes_each;
  const uint64_t total = hbm->file_bytes_ = (stacks - 1) * hbm->distance_ + bytes_each;
  hbm->bases_ = layout.hbm_base;
  hbm->bytes_each_ = bytes_each;
  hbm->fd_ = create_memory_file("neuron-hbm");
  if (hbm->fd_ < 0) {
    error = std::string("the memory file of the HBM cannot be created: ") + std::strerror(errno);
    return nullptr;
  }
  if (size_memory_file(hbm->fd_, total) != 0) {
    error = "the memory file of the HBM cannot be sized to " + std::to_string(total) +
            " bytes: " + std::strerror(errno) + "; check the limit of file sizes (ulimit -f)";
    return nullptr;
  }
  void* mapped = hbm->map(nullptr, total, hbm->fd_, 0);
  if (mapped == MAP_FAILED) {
    error = "the HBM needs " + std::to_string(total) + " bytes of address space (" +
            std::to_string(total >> 30) +
            " GiB; memory is used only for what is written), which cannot be mapped: " +
            std::strerror(errno) + "; raise the limit of address space (ulimit -v) to at least " +
            std::to_string((total >> 10) + kRoomBesideKiB) + ", or set it to unlimited";
    return nullptr;
  }
  hbm->memory_ = static_cast<std::byte*>(mapped);
  if (numa_node < 0) {
    hbm->placement_note_ = "no preference";
  } else if (numa_node >= placement.node_count()) {
    hbm->placement_note_ = "no preference: the host has no NUMA node " + std::to_string(numa_node);
  } else if (!placement.prefer(mapped, total, numa_node)) {
    hbm->placement_note_ = "no preference: the host refused NUMA node " +
                           std::to_string(numa_node) + " (" + std::strerror(errno) + ")";
  } else {
    hbm->placement_note_ = "NUMA node " + std::to_string(numa_node);
    hbm->placement_ = &placement;
    hbm->numa_node_ = numa_node;
  }
  for (unsigned i = 0; i < stacks; ++i) {
    hbm->targets_.push_back(std::make_unique<Stack>(hbm->memory_ + i * hbm->distance_, bytes_each));
  }
  return hbm;
}

void* Hbm::map(void* at, uint64_t length, int file, uint64_t offset) {
  void* mapped = mmap(at, length, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE | (at == nullptr ? 0 : MAP_FIXED), file,
                      static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return mapped;
  // Advice only: where the host gives shared memory no huge pages, small ones serve. What has its
  // own file and no room for one is spared the call.
  const bool huge_pages =
      (file == fd_ || length >= kHugePage) && madvise(mapped, length, MADV_HUGEPAGE) == 0;
  if (at == nullptr) huge_pages_ = huge_pages;
  // A core dump of the process would otherwise contain the models' weights, gigabytes of them.
  (void)madvise(mapped, length, MADV_DONTDUMP);
  return mapped;
}

bool Hbm::place(uint64_t address, uint64_t length, int file) {
  std::byte* at = direct(address, length);
  if (at == nullptr) return false;
  const bool own = file < 0;
  if (map(at, length, own ? fd_ : file, own ? file_offset(address) : 0) == MAP_FAILED) return false;
  // Its own file keeps the policy that it has.
  if (!own && placement_ != nullptr) (void)placement_->prefer(at, length, numa_node_);
  return true;
}

Hbm::~Hbm() {
  if (memory_ != nullptr) munmap(memory_, file_bytes_);
  if (fd_ >= 0) close(fd_);
}

bool Hbm::discard(uint64_t address, uint64_t length) {
  if (direct(address, length) == nullptr) return false;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t offset = file_offset(address);
  const uint64_t begin = (offset + page - 1) / page * page;
  const uint64_t end = (offset + length) / page * page;
  if (begin >= end) return true;
  return fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                   static_cast<off_t>(end - begin)) == 0;
}

uint64_t Hbm::resident_bytes() const {
  struct stat status = {};
  if (fstat(fd_, &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

uint64_t Hbm::file_offset(uint64_t address) const {
  const std::byte* at = direct(address, 1);
  return at == nullptr ? UINT64_MAX : static_cast<uint64_t>(at - memory_);
}

}  // namespace neuron::chip
