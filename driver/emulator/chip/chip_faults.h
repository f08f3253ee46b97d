// SPDX-License-Identifier: Apache-2.0
// The faults of one chip: the armed faults of a plan, those that have happened, and what is broken
// now.
//
// Concepts: hooks in the chip ask `armed()`, one relaxed load, and go on if it is false. If it is
// true, they report their event and receive its fault, if any. Hung engines and power-off last
// until the core is reset or the power comes back; bad HBM lasts until clear(). Thread-safe: all of
// it (a mutex behind armed()). Callers: the chip's parts in any thread; service and control
// channel. Owned by the chip. Fails: arm() returns false for a fault of another chip.
#ifndef DRIVER_EMULATOR_CHIP_CHIP_FAULTS_H
#define DRIVER_EMULATOR_CHIP_CHIP_FAULTS_H

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "driver/emulator/chip/fault_plan.h"
#include "hw/address_map.h"
#include "hw/fault.h"

namespace neuron::chip {

inline constexpr unsigned kEccWords = 5;  // SRAM, HBM 0..3

struct FaultStatus {
  std::vector<std::string> armed;               // lines of the plan that have not happened yet
  std::array<uint16_t, kEccWords> corrected{};  // SRAM, HBM 0..3
  std::array<uint16_t, kEccWords> uncorrected{};
  uint64_t dma_errors = 0;
  uint64_t bad_bytes = 0;      // of HBM
  std::vector<unsigned> hung;  // per core: bit per engine
  bool off = false;
};

class ChipFaults {
 public:
  static constexpr uint64_t kPage = 4096;
  static constexpr unsigned kMostCores = 8;

  ChipFaults() = default;
  // Which chip this is and where its HBM lies; called once, before anything is armed.
  void describe_chip(int chip, std::vector<uint64_t> stacks, uint64_t stack_bytes);
  // For parts that belong to no chip: never armed.
  static ChipFaults& none();

  // Relaxed: a fault that is armed while the chip works need not be seen at once. Its data is read
  // under the mutex.
  bool armed() const { return armed_.load(std::memory_order_relaxed); }
  bool off() const { return off_.load(std::memory_order_relaxed); }

  // How often the chip has lost its power. A client that has seen a smaller number has lost its
  // data in the chip's memory.
  uint32_t losses() const { return losses_.load(std::memory_order_relaxed); }

  // --- events; only while armed() ---
  enum class Issue : uint8_t { kGoesOn, kHangs, kParityError };
  // An engine is about to execute an instruction.
  Issue instruction(unsigned core, unsigned engine);
  // A descriptor is about to be moved. Sources that are not HBM have no memory errors.
  neuron_fault descriptor(unsigned engine, unsigned queue, uint64_t source, uint64_t bytes);
  // An engine fetches or loads bytes: returns the fault if they are known to be bad.
  neuron_fault fetched(uint64_t address, uint64_t bytes);
  // The host accesses a register. True: the chip is gone.
  bool host_access();

  void core_was_reset(unsigned core);
  void device_was_reset();

  // --- operators ---
  bool arm(const FaultSpec& spec);
  // Faults that have not happened yet.
  size_t pending() const;
  // Forgets pending faults and heals the memory. Hung engines and power stay as they are.
  void clear();
  void set_off(bool off);
  FaultStatus status() const;

  // Words of the firmware's RAM that report memory errors.
  static bool has_word(uint64_t offset) {
    return offset == NEURON_FW_HBM_REPAIR ||
           (offset >= NEURON_FW_ECC_SRAM && offset < NEURON_FW_ECC_SRAM + 4 * kEccWords);
  }
  uint32_t ecc_word(uint64_t offset) const;
  // Whole pages of HBM that hold bad bytes, by address. `epoch` changes when there are more.
  std::vector<uint64_t> bad_pages() const;
  uint32_t bad_epoch() const { return bad_epoch_.load(std::memory_order_acquire); }

 private:
  struct Armed {
    FaultSpec spec;
    uint64_t seen = 0;
    uint64_t happened = 0;
  };
  static bool concerns(int wanted, unsigned found) {
    return wanted == FaultSpec::kAny || wanted == static_cast<int>(found);
  }
  // True if the fault happens at this event; removes the fault after its last event.
  static bool strikes(Armed& armed);
  void switch_off();
  void forget_finished();
  void count_ecc(unsigned word, bool corrected);
  neuron_fault meets_bad(uint64_t address, uint64_t bytes);
  void mark_bad(uint64_t address, uint64_t bytes, neuron_fault fault);
  void publish();
  // Counter of the stack that holds the address, 0 if none does.
  unsigned hbm_word(uint64_t address) const;

  int chip_ = 0;
  std::vector<uint64_t> stacks_;  // device addresses
  uint64_t stack_bytes_ = 0;
  std::atomic<bool> armed_{false};
  std::atomic<bool> off_{false};
  std::atomic<uint32_t> losses_{0};
  std::atomic<uint32_t> bad_epoch_{0};

  mutable std::mutex mutex_;
  std::vector<Armed> plan_;
  struct Bad {
    uint64_t end;
    neuron_fault fault;
  };
  std::map<uint64_t, Bad> bad_;  // by first byte
  std::array<uint8_t, kMostCores> hung_{};
  std::array<uint16_t, kEccWords> corrected_{};
  std::array<uint16_t, kEccWords> uncorrected_{};
  uint64_t dma_errors_ = 0;
};

}  // namespace neuron::chip

#endif
