// SPDX-License-Identifier: Apache-2.0
// The host's memory as a bus target, behind the host bit.
//
// Callers: any thread. Thread-safe: as HostMemory, which outlives it.
#ifndef DRIVER_EMULATOR_CHIP_HOST_WINDOW_H
#define DRIVER_EMULATOR_CHIP_HOST_WINDOW_H

#include <cstring>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/chip/host_memory.h"

namespace neuron::chip {

class HostWindow final : public BusTarget {
 public:
  explicit HostWindow(HostMemory& memory) : memory_(memory) {}
  HostMemory& memory() { return memory_; }

  bool read(uint64_t offset, std::span<std::byte> out, const Access&) override {
    const Transfer transfer(memory_);
    const std::byte* from = memory_.translate(offset, out.size());
    if (from == nullptr) return false;
    std::memcpy(out.data(), from, out.size());
    return true;
  }
  bool write(uint64_t offset, std::span<const std::byte> in, const Access&) override {
    const Transfer transfer(memory_);
    std::byte* to = memory_.translate(offset, in.size());
    if (to == nullptr) return false;
    std::memcpy(to, in.data(), in.size());
    return true;
  }
  std::byte* direct(uint64_t offset, size_t length) override {
    return memory_.translate(offset, length);
  }

 private:
  HostMemory& memory_;
};

}  // namespace neuron::chip

#endif
