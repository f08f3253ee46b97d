// SPDX-License-Identifier: Apache-2.0
// A bus target made of 32-bit registers, and plain stored registers.
//
// Concepts: an access must be 4-byte aligned and a multiple of 4 bytes; it is checked as a whole
// (`accepts`) before its words are applied in ascending order. StoredRegisters hold configuration
// that has no effect in the model: they keep what is written and read 0 before. Callers: any
// thread. Thread-safe: as the derived class says; StoredRegisters are thread-safe for each word.
#ifndef DRIVER_EMULATOR_CHIP_REGISTER_TARGET_H
#define DRIVER_EMULATOR_CHIP_REGISTER_TARGET_H

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "driver/emulator/chip/bus.h"

namespace neuron::chip {

class RegisterTarget : public BusTarget {
 public:
  bool read(uint64_t offset, std::span<std::byte> out, const Access& access) final;
  bool write(uint64_t offset, std::span<const std::byte> in, const Access& access) final;

 protected:
  // Whether the words of [offset, offset + bytes) exist for this kind of access. Offset and size
  // are multiples of 4.
  virtual bool accepts(uint64_t offset, uint64_t bytes, bool write, const Access& access) = 0;
  virtual uint32_t read_word(uint64_t offset, const Access& access) = 0;
  virtual void write_word(uint64_t offset, uint32_t value, const Access& access) = 0;
};

class StoredRegisters : public RegisterTarget {
 public:
  explicit StoredRegisters(uint64_t bytes);
  ~StoredRegisters() override;
  uint32_t load(uint64_t offset) const;
  void store(uint64_t offset, uint32_t value);
  void clear();

 protected:
  bool accepts(uint64_t offset, uint64_t bytes, bool write, const Access& access) override;
  uint32_t read_word(uint64_t offset, const Access& access) override;
  void write_word(uint64_t offset, uint32_t value, const Access& access) override;

 private:
  // A page is allocated with its first non-zero word, so that 34 engines do not cost 9 MiB.
  static constexpr uint64_t kPageWords = 1024;
  using Page = std::array<std::atomic<uint32_t>, kPageWords>;
  uint64_t bytes_;
  std::vector<std::atomic<Page*>> pages_;
};

}  // namespace neuron::chip

#endif
