// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/chip.h"

#include <algorithm>
#include <deque>
#include <new>
#include <thread>
#include <vector>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/core_connections.h"
#include "driver/emulator/chip/firmware_ram.h"
#include "driver/emulator/chip/group_workers.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/chip/host_window.h"
#include "driver/emulator/chip/sdma_wrapper.h"
#include "driver/emulator/chip/topsp.h"
#include "driver/emulator/chip/udma_engine.h"
#include "driver/emulator/neuroncore/neuron_core.h"
#include "hw/address_map.h"

namespace neuron::chip {
namespace {

constexpr unsigned kHostEngine = 32;  // of core 0; the next is core 1's
constexpr unsigned kTopspsPerCore = 3;
constexpr uint8_t kQemuRevision = NEURON_PCI_REVISION_QEMU;
constexpr uint64_t kPeCounterBytes = 0x1000;

// Set while this thread writes a register with the promise to run the group itself.
// The core whose group this thread has promised to run after the register access it is in.
constexpr uint64_t kNoCore = ~uint64_t{0};
thread_local uint64_t promised_core = kNoCore;

// The extra reset register of revision 255: any write resets the device, and it reads 0.
class SimulationReset final : public RegisterTarget {
 public:
  explicit SimulationReset(FirmwareResets& resets) : resets_(resets) {}

 protected:
  bool accepts(uint64_t, uint64_t, bool, const Access&) override { return true; }
  uint32_t read_word(uint64_t, const Access&) override { return 0; }
  void write_word(uint64_t, uint32_t, const Access& access) override {
    if (access.origin == Origin::kHost) resets_.reset_device();
  }

 private:
  FirmwareResets& resets_;
};

class EmulatedChip final : public Chip, public FirmwareResets, public core::RunnableListener {
 public:
  EmulatedChip(const ChipConfig& config, HostMemory& host)
      : config_(config),
        host_(host),
        workers_(config.workers != 0 ? config.workers
                                     : std::max(1u, std::thread::hardware_concurrency()),
                 [this](unsigned core, auto deadline) { return run_group(core, deadline); }) {}

  bool build(std::string& error);

  uint32_t read_register(uint64_t offset) override;
  void write_register(uint64_t offset, uint32_t value, bool inline_run) override;
  RunResult run_group(unsigned core, std::chrono::steady_clock::time_point deadline) override;
  Bus& bus() override { return bus_; }
  Hbm& hbm() override { return *hbm_; }
  const ChipConfig& config() const override { return config_; }
  void reset(uint32_t core_map) override;
  ChipFaults& faults() override { return faults_; }
  void set_power(bool on) override;
  std::string describe_core(unsigned core) override;

  void reset_device() override;
  void reset_cores(uint32_t map) override;
  void core_runnable(unsigned core) override {
    if (core != promised_core) workers_.wake(core);
  }

 private:
  struct CoreBlock {
    explicit CoreBlock(const Bus& bus) : notifications(bus) {}
    NotificationBlock notifications;
    SemaphoreBlock semaphores;
    StoredRegisters pe_counters{kPeCounterBytes};
    std::unique_ptr<core::NeuronCore> core;  // null: the core is fused off
  };

  void attach(uint64_t bar_offset, uint64_t size, BusTarget& target, std::string name) {
    names_.push_back(std::move(name));
    bus_.attach(NEURON_V2_BAR0_DEVICE_BASE + bar_offset, size, &target, names_.back().c_str());
  }
  void attach_engines();
  void attach_core(unsigned index);
  void reset_core(unsigned index);
  void refused(uint64_t offset);

  const ChipConfig config_;
  ChipFaults faults_;
  HostWindow host_;
  Bus bus_;
  std::deque<std::string> names_;
  std::unique_ptr<Hbm> hbm_;
  std::vector<std::unique_ptr<SdmaWrapper>> wrappers_;
  std::vector<std::unique_ptr<UdmaEngine>> engines_;
  std::vector<std::unique_ptr<Topsp>> topsps_;
  std::vector<std::unique_ptr<CoreBlock>> cores_;
  std::unique_ptr<FirmwareRam> firmware_;
  SimulationReset simulation_reset_{*this};
  GroupWorkers workers_;  // last: its threads use everything above
};

bool EmulatedChip::build(std::string& error) {
  if (config_.cores == 0 || config_.cores > NEURON_V2_CORES) {
    error = "a chip of generation 2 has 1 or 2 cores, not " + std::to_string(config_.cores);
    return false;
  }
  hbm_ = Hbm::create(config_.hbm_count, config_.hbm_bytes_each, config_.numa_node, host_placement(),
                     error);
  if (hbm_ == nullptr) return false;
  for (unsigned i = 0; i < hbm_->stacks(); ++i) {
    names_.push_back("HBM " + std::to_string(i));
    bus_.attach(i * NEURON_V2_HBM_STRIDE, hbm_->stack_bytes(), &hbm_->stack(i),
                names_.back().c_str());
  }
  std::vector<uint64_t> stacks;
  for (unsigned i = 0; i < hbm_->stacks(); ++i) stacks.push_back(i * NEURON_V2_HBM_STRIDE);
  faults_.describe_chip(static_cast<int>(config_.index), std::move(stacks), hbm_->stack_bytes());
  bus_.attach(NEURON_V2_HOST_BASE, NEURON_V2_HOST_SIZE, &host_, "host memory");
  // Notification blocks exist for both cores: the driver may set up what the second would use.
  for (unsigned i = 0; i < NEURON_V2_CORES; ++i) {
    cores_.push_back(std::make_unique<CoreBlock>(bus_));
  }
  attach_engines();
  for (unsigned i = 0; i < NEURON_V2_CORES; ++i) attach_core(i);
  for (unsigned i = 0; i < NEURON_V2_TOPSPS; ++i) {
    topsps_.push_back(std::make_unique<Topsp>(bus_));
    const std::string name = "TOPSP " + std::to_string(i);
    attach(NEURON_V2_TOPSP_WINDOW(i), NEURON_SEM_BLOCK_SIZE, topsps_[i]->semaphores(), name);
    attach(NEURON_V2_TOPSP_NOTIFICATION(i), NotificationBlock::kBytes, topsps_[i]->notifications(),
           name + " notifications");
  }
  firmware_ =
      std::make_unique<FirmwareRam>(bus_, *this, config_.routing_id, config_.serial, faults_);
  attach(NEURON_V2_MISC_RAM, FirmwareRam::kBytes, *firmware_, "firmware RAM");
  if (config_.revision == kQemuRevision) {
    attach(NEURON_V2_SIM_RESET, 4, simulation_reset_, "simulation reset");
  }
  return true;
}

void EmulatedChip::attach_engines() {
  for (unsigned i = 0; i < NEURON_V2_DMA_ENGINES; ++i) {
    const unsigned owner = i < kHostEngine ? i / NEURON_V2_DMA_ENGINES_PER_CORE : i - kHostEngine;
    wrappers_.push_back(std::make_unique<SdmaWrapper>(bus_));
    engines_.push_back(std::make_unique<UdmaEngine>(i, bus_, cores_[owner]->notifications,
                                                    wrappers_[i]->notifications()));
    engines_[i]->set_faults(faults_);
    const std::string name = "DMA engine " + std::to_string(i);
    attach(NEURON_V2_UDMA(i), NEURON_UDMA_SIZE, *engines_[i], name);
    attach(NEURON_V2_SDMA(i), SdmaWrapper::kBytes, *wrappers_[i], name + " wrapper");
  }
}

void EmulatedChip::attach_core(unsigned index) {
  CoreBlock& block = *cores_[index];
  const std::string name = "core " + std::to_string(index);
  attach(NEURON_V2_CORE_NOTIFICATION(index), NotificationBlock::kBytes, block.notifications,
         name + " notifications");
  attach(NEURON_V2_CORE_PE_COUNTERS(index), kPeCounterBytes, block.pe_counters,
         name + " PE counters");
  if (index >= config_.cores) return;
  CoreConnections connections{
      index, config_.routing_id, bus_, *hbm_, block.semaphores, block.notifications, {}};
  for (unsigned i = 0; i < NEURON_V2_DMA_ENGINES_PER_CORE; ++i) {
    connections.engines[i] = engines_[index * NEURON_V2_DMA_ENGINES_PER_CORE + i].get();
  }
  connections.faults = &faults_;
  block.core = std::make_unique<core::NeuronCore>(connections, this);
  attach(NEURON_V2_CORE_WINDOW(index), NEURON_V2_CORE_WINDOW_SIZE, *block.core, name);
}

void EmulatedChip::refused(uint64_t offset) {
  const uint64_t address = NEURON_V2_BAR0_DEVICE_BASE + offset;
  const uint64_t window = offset / NEURON_V2_CORE_WINDOW_SIZE;
  Access host;
  host.core = static_cast<uint8_t>(window < cores_.size() ? window : 0);
  cores_[host.core]->notifications.post_error(
      NEURON_FAULT_BUS, host,
      {static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32), 4});
}

uint32_t EmulatedChip::read_register(uint64_t offset) {
  uint32_t value = 0xFFFFFFFFu;
  if (faults_.armed() && faults_.host_access()) [[unlikely]] {
    return value;
  }
  if (offset >= NEURON_V2_BAR0_SIZE ||
      !bus_.read32(NEURON_V2_BAR0_DEVICE_BASE + offset, value, Access{})) {
    refused(offset);
    return 0xFFFFFFFFu;
  }
  return value;
}

void EmulatedChip::write_register(uint64_t offset, uint32_t value, bool inline_run) {
  if (faults_.armed() && faults_.host_access()) [[unlikely]] {
    return;
  }
  // A doorbell of a DMA engine may reach any core: the promise is one for core windows only.
  promised_core = inline_run ? offset / NEURON_V2_CORE_WINDOW_SIZE : kNoCore;
  if (offset >= NEURON_V2_BAR0_SIZE ||
      !bus_.write32(NEURON_V2_BAR0_DEVICE_BASE + offset, value, Access{})) {
    refused(offset);
  }
  promised_core = kNoCore;
}

RunResult EmulatedChip::run_group(unsigned core, std::chrono::steady_clock::time_point deadline) {
  if (core >= cores_.size() || cores_[core]->core == nullptr) return RunResult::kQuiescent;
  return cores_[core]->core->run(deadline);
}

std::string EmulatedChip::describe_core(unsigned core) {
  if (core >= cores_.size() || cores_[core]->core == nullptr) {
    return "the chip has no core " + std::to_string(core) + "; it has " +
           std::to_string(config_.cores);
  }
  return cores_[core]->core->describe();
}

void EmulatedChip::reset(uint32_t core_map) {
  if (core_map == 0) {
    reset_device();
  } else {
    for (unsigned i = 0; i < NEURON_V2_CORES; ++i) {
      if ((core_map >> i & 1) != 0) core_map |= 7u << (8 + kTopspsPerCore * i);
    }
    reset_cores(core_map);
  }
}

void EmulatedChip::reset_core(unsigned index) {
  faults_.core_was_reset(index);
  CoreBlock& block = *cores_[index];
  // A core resets its semaphores itself, as the only one who may write them while it runs.
  if (block.core != nullptr) {
    block.core->reset();
  } else {
    block.semaphores.reset();
  }
  for (unsigned i = 0; i < NEURON_V2_DMA_ENGINES_PER_CORE; ++i) {
    engines_[index * NEURON_V2_DMA_ENGINES_PER_CORE + i]->reset();
    wrappers_[index * NEURON_V2_DMA_ENGINES_PER_CORE + i]->reset();
  }
  // The driver's own engine serves copies of other cores and processes meanwhile: its rings stay.
  engines_[kHostEngine + index]->clear_aborts();
  block.notifications.reset();
  block.pe_counters.clear();
}

void EmulatedChip::reset_cores(uint32_t map) {
  for (unsigned i = 0; i < NEURON_V2_CORES; ++i) {
    if ((map >> i & 1) != 0) reset_core(i);
  }
  for (unsigned i = 0; i < NEURON_V2_TOPSPS; ++i) {
    if ((map >> (8 + i) & 1) != 0) topsps_[i]->reset();
  }
}

void EmulatedChip::reset_device() {
  faults_.device_was_reset();
  reset_cores(~0u);
  for (unsigned i = kHostEngine; i < NEURON_V2_DMA_ENGINES; ++i) {
    engines_[i]->reset();
    wrappers_[i]->reset();
  }
}

void EmulatedChip::set_power(bool on) {
  if (!on) return faults_.set_off(true);
  if (!faults_.off()) return;
  reset_device();
  for (unsigned i = 0; i < hbm_->stacks(); ++i) {
    (void)hbm_->discard(i * NEURON_V2_HBM_STRIDE, hbm_->stack_bytes());
  }
  faults_.set_off(false);
}

}  // namespace

ChipFaults& Chip::faults() { return ChipFaults::none(); }

std::unique_ptr<Chip> Chip::create(const ChipConfig& config, HostMemory& host, std::string& error) {
  try {
    auto chip = std::make_unique<EmulatedChip>(config, host);
    if (!chip->build(error)) return nullptr;
    return chip;
  } catch (const std::bad_alloc&) {
    error = "the host has not enough memory for a chip's registers and cores";
    return nullptr;
  }
}

}  // namespace neuron::chip
