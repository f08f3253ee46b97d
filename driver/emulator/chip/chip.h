// SPDX-License-Identifier: Apache-2.0
// One emulated chip of generation 2, 3 or 4: HBM, registers, DMA engines, NeuronCores and their
// execution groups.
//
// Concepts: the host speaks BAR0 registers (read_register/write_register), BAR4 (hbm()), and
// nothing else. A doorbell of a host queue is executed before the write returns. A register write
// that makes a sequencer runnable (START, a semaphore that it waits for) marks the core's execution
// group runnable; the group is then run by `run_group` in the caller's thread, or by the worker
// pool if no caller has promised to run it inline. Thread-safe: yes. Owns: everything but the
// HostMemory. Fails: by faults as include/hw describes; never throws after construction, never
// aborts.
#ifndef DRIVER_EMULATOR_CHIP_CHIP_H
#define DRIVER_EMULATOR_CHIP_CHIP_H

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/chip/core.h"
#include "driver/emulator/chip/driver_patience.h"
#include "driver/emulator/chip/host_memory.h"

namespace neuron::chip {

class ChipFaults;
class Fabric;
class Hbm;

struct ChipConfig {
  unsigned index = 0;  // among the chips of the host, as fault plans name it
  uint16_t pci_device = 0x7164;
  uint8_t revision = 1;
  uint32_t routing_id = 0;
  uint64_t serial = 0;
  // 0 = what the generation has; Chip::config() has the numbers.
  unsigned cores = 0;
  uint64_t hbm_bytes_each = 0;
  unsigned hbm_count = 0;
  int numa_node = -1;    // where HBM pages go; -1 = no preference
  unsigned workers = 0;  // 0 = host cores
  // What of the host's memory all but the queues of keep_queue() reach; null: all of it. Outlives
  // the chip.
  HostMemory* clients_memory = nullptr;
  // Where the chip records what it writes into the host's memory, or null. Outlives the chip.
  HostWrites* host_writes = nullptr;
  // What the queues of the host's own engines are too late for is refused.
  DriverPatience patience;
  // Links to other chips, in which this is node `first_node` + `index`; null: a chip alone.
  // Outlives the chip.
  Fabric* fabric = nullptr;
  unsigned first_node = 0;  // of the host's first chip
};

class Chip {
 public:
  // Its cores are those that `make_core` makes. Null on failure, with a sentence in `error`.
  static std::unique_ptr<Chip> create(const ChipConfig& config, HostMemory& host,
                                      CoreFactory make_core, std::string& error);
  virtual ~Chip() = default;

  // BAR0. `offset` is 4-byte aligned; an unmapped register reads 0xFFFFFFFF and drops writes (and
  // is notified). `inline_run`: the caller promises to call run_group at once for the core in
  // whose window the register lies, so no worker is woken for that core.
  virtual uint32_t read_register(uint64_t offset) = 0;
  virtual void write_register(uint64_t offset, uint32_t value, bool inline_run = false) = 0;

  // Runs the execution group of a core in this thread until it is quiescent or the deadline passes.
  // If another thread runs the group, this call waits for that thread. If only a write of another
  // core or chip can make the group go on, this call sleeps until there is one.
  virtual RunResult run_group(unsigned core, std::chrono::steady_clock::time_point deadline) = 0;
  // The same without sleeping, for a thread that other groups need too: kQuiescent then.
  virtual RunResult run_slice(unsigned core, std::chrono::steady_clock::time_point deadline) {
    return run_group(core, deadline);
  }

  // The host keeps a queue of one of its DMA engines for itself: this queue alone reaches all of
  // its memory, and no engine or DMA can program it. Before any transfer.
  virtual void keep_queue(unsigned engine, unsigned queue) {
    (void)engine;
    (void)queue;
  }

  virtual Bus& bus() = 0;
  virtual Hbm& hbm() = 0;
  virtual const ChipConfig& config() const = 0;
  // Where the blocks of its generation lie.
  const ChipLayout& layout() { return bus().layout(); }
  // What is behind BAR4: the pieces of the HBM's memory file, in ascending order.
  std::vector<MemoryPiece> bar4();

  // Faults that are planned or injected here, and what came of them.
  virtual ChipFaults& faults();
  // Off: every register reads all ones, writes are lost, nothing completes. On again: the chip is
  // as after a reset, and HBM is empty.
  virtual void set_power(bool on) { (void)on; }

  // Resets cores of the map (bit n = core n, with its TOPSPs and DMA engines) as firmware does; 0 =
  // the whole chip with the host's DMA engines. HBM keeps its contents.
  virtual void reset(uint32_t core_map) = 0;

  // The cores of the map (bit n = core n) stop within a millisecond, also in the middle of an
  // instruction, and rest until they are reset. Does not wait. Which of them rest now.
  virtual void halt(uint32_t core_map) { (void)core_map; }
  virtual uint32_t halted() { return 0; }

  // Text for an operator: for each engine of the core its state, program counter, disassembled
  // instruction and the wait that is not met. Used in deadlock and timeout reports.
  virtual std::string describe_core(unsigned core) = 0;
};

}  // namespace neuron::chip

#endif
