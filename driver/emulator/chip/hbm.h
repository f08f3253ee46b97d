// SPDX-License-Identifier: Apache-2.0
// The high-bandwidth memory of one chip: all stacks in one sparse memory file.
//
// Concepts: stack i answers device addresses from layout.hbm_base[i] on and lies in the file as in
// BAR4 (smaller stacks than the generation's: one behind the other). Pages exist once they are
// written; `discard` gives them back. Callers: any thread. HBM is plain memory: threads that share
// a byte order their own accesses. Owns: the file and its mapping, which live as long as this
// object. Fails: create() returns null with a sentence. An address outside the stacks gives a null
// pointer. Accesses inside never fault: the service checks the host's memory before it hands out
// HBM.
#ifndef DRIVER_EMULATOR_CHIP_HBM_H
#define DRIVER_EMULATOR_CHIP_HBM_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/chip/memory_placement.h"

namespace neuron::chip {

class Hbm {
 public:
  // `numa_node` -1 = no preference; a node that the host does not have is no error (see
  // placement_note).
  static std::unique_ptr<Hbm> create(unsigned stacks, uint64_t bytes_each, int numa_node,
                                     MemoryPlacement& placement, std::string& error,
                                     const ChipLayout& layout = kLayoutV2);
  ~Hbm();
  Hbm(const Hbm&) = delete;
  Hbm& operator=(const Hbm&) = delete;

  // Pointer to [address, address + length) of one stack, or null. Valid as long as this object.
  std::byte* direct(uint64_t address, uint64_t length) const {
    for (unsigned stack = 0; stack < stacks_; ++stack) {
      const uint64_t offset = address - bases_[stack];
      if (offset >= bytes_each_) continue;
      return length > bytes_each_ - offset ? nullptr : memory_ + stack * distance_ + offset;
    }
    return nullptr;
  }
  // Gives the whole pages inside the range back to the host; their bytes read 0 afterwards. False
  // if the range is not inside one stack.
  bool discard(uint64_t address, uint64_t length);
  // Maps the beginning of another file in the place of a range, in whole pages, or with -1 its own
  // bytes again. False if the range is not inside one stack or the host refuses; nothing is changed
  // then. The caller owns the file, and the range has no user meanwhile.
  bool place(uint64_t address, uint64_t length, int file);
  // Host memory in use, in bytes.
  uint64_t resident_bytes() const;
  // Offset of a device address in the file, for mapping fd(); UINT64_MAX if outside.
  uint64_t file_offset(uint64_t address) const;

  int fd() const { return fd_; }
  uint64_t file_bytes() const { return file_bytes_; }
  unsigned stacks() const { return stacks_; }
  uint64_t stack_bytes() const { return bytes_each_; }
  BusTarget& stack(unsigned index) { return *targets_[index]; }
  // How pages are placed, for an operator ("node 0", "no preference: the host has no node 3").
  const std::string& placement_note() const { return placement_note_; }
  bool huge_pages() const { return huge_pages_; }

 private:
  class Stack;
  Hbm() = default;
  // At any address with `at` null, else in the place of what is there. MAP_FAILED with errno.
  void* map(void* at, uint64_t length, int file, uint64_t offset);

  int fd_ = -1;
  std::byte* memory_ = nullptr;
  unsigned stacks_ = 0;
  std::array<uint64_t, 4> bases_{};
  uint64_t bytes_each_ = 0;
  uint64_t distance_ = 0;  // of two stacks in the file
  uint64_t file_bytes_ = 0;
  bool huge_pages_ = false;
  MemoryPlacement* placement_ = nullptr;  // null: no preference
  int numa_node_ = -1;
  std::string placement_note_;
  std::vector<std::unique_ptr<BusTarget>> targets_;
};

}  // namespace neuron::chip

#endif
