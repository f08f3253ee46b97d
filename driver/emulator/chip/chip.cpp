// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/chip.h"

#include <algorithm>
#include <deque>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/fabric.h"
#include "driver/emulator/chip/firmware_ram.h"
#include "driver/emulator/chip/group_workers.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/chip/host_window.h"
#include "driver/emulator/chip/pair_exchange.h"
#include "driver/emulator/chip/sdma_wrapper.h"
#include "driver/emulator/chip/topsp.h"
#include "driver/emulator/chip/udma_engine.h"
#include "hw/address_map.h"

namespace neuron::chip {
namespace {

constexpr uint8_t kQemuRevision = NEURON_PCI_REVISION_QEMU;
constexpr uint64_t kPeCounterBytes = 0x1000;

// Set while this thread writes a register with the promise to run the group itself.
// The core whose group this thread has promised to run after the register access it is in.
constexpr uint64_t kNoCore = ~uint64_t{0};
thread_local uint64_t promised_core = kNoCore;

// The extra reset register of revision 255, which reads 0. A write resets the device, or, where the
// register takes a map of what to reset, what the map names; 0 names the device.
class SimulationReset final : public RegisterTarget {
 public:
  SimulationReset(FirmwareResets& resets, bool takes_map)
      : resets_(resets), takes_map_(takes_map) {}

 protected:
  bool accepts(uint64_t, uint64_t, bool, const Access&) override { return true; }
  uint32_t read_word(uint64_t, const Access&) override { return 0; }
  void write_word(uint64_t, uint32_t value, const Access& access) override {
    if (access.origin != Origin::kHost) return;
    if (takes_map_ && value != 0) {
      resets_.reset_cores(value);
    } else {
      resets_.reset_device();
    }
  }

 private:
  FirmwareResets& resets_;
  const bool takes_map_;
};

// The window of a CC core on the bus; its core runs it.
class CcWindow final : public BusTarget {
 public:
  CcWindow(Core& core, unsigned k) : core_(core), base_(kCcWindows + k * kCcWindowBytes) {}
  bool read(uint64_t offset, std::span<std::byte> out, const Access& access) override {
    return core_.read(base_ + offset, out, access);
  }
  bool write(uint64_t offset, std::span<const std::byte> in, const Access& access) override {
    return core_.write(base_ + offset, in, access);
  }

 private:
  Core& core_;
  const uint64_t base_;
};

// Bits of firmware's reset map that belong to a core beside its own, bit n.
uint32_t engines_in_map(const ChipLayout& layout, unsigned core) {
  return 1u << (layout.reset_engines + core);
}
uint32_t topsp_in_map(const ChipLayout& layout, unsigned topsp) {
  return 1u << (layout.reset_topsps + topsp / layout.reset_topsps_per_bit);
}

class EmulatedChip final : public Chip, public FirmwareResets, public RunnableListener {
 public:
  EmulatedChip(const ChipConfig& config, const ChipLayout& layout, HostMemory& host,
               CoreFactory make_core)
      : config_(config),
        layout_(layout),
        make_core_(std::move(make_core)),
        all_host_(host),
        host_(config.clients_memory != nullptr ? *config.clients_memory : host),
        bus_(layout),
        simulation_reset_(*this, layout.simulation_reset_takes_map),
        workers_(config.workers != 0 ? config.workers
                                     : std::max(1u, std::thread::hardware_concurrency()),
                 [this](unsigned core, auto deadline) {
                   // A group that only a peer can wake gives its worker back.
                   return run_slice(core, deadline);
                 }) {}

  ~EmulatedChip() override { fabric().detach(node()); }

  bool build(std::string& error);

  uint32_t read_register(uint64_t offset) override;
  void write_register(uint64_t offset, uint32_t value, bool inline_run) override;
  RunResult run_group(unsigned core, std::chrono::steady_clock::time_point deadline) override;
  RunResult run_slice(unsigned core, std::chrono::steady_clock::time_point deadline) override;
  void keep_queue(unsigned engine, unsigned queue) override {
    if (engine < engines_.size()) engines_[engine]->keep(queue);
  }
  Bus& bus() override { return bus_; }
  Hbm& hbm() override { return *hbm_; }
  const ChipConfig& config() const override { return config_; }
  void reset(uint32_t core_map) override;
  void halt(uint32_t core_map) override;
  uint32_t halted() override;
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
    std::unique_ptr<Core> core;  // null: the core is fused off
  };

  void attach(uint64_t bar_offset, uint64_t size, BusTarget& target, std::string name) {
    names_.push_back(std::move(name));
    bus_.attach(layout_.device_of(bar_offset), size, &target, names_.back().c_str());
  }
  Fabric& fabric() { return config_.fabric != nullptr ? *config_.fabric : alone_; }
  unsigned node() const {
    return config_.fabric != nullptr ? config_.first_node + config_.index : 0;
  }
  void attach_engines();
  void attach_core(unsigned index);
  void build_translation();
  // Device address of a BAR0 offset; one where nothing is for what BAR0 does not show.
  uint64_t device_of(uint64_t offset) const {
    const uint64_t slot = offset >> kSlotShift;
    return slot < slots_.size() ? slots_[slot] + offset : kNowhere;
  }
  uint64_t core_in_window(uint64_t offset) const {
    return (offset - layout_.core_windows) / NEURON_V2_CORE_WINDOW_SIZE;
  }
  unsigned core_of_topsp(unsigned topsp) const { return topsp / layout_.topsps_per_core; }
  void reset_core(unsigned index);
  void reset_engines_of(unsigned core);
  void refused(uint64_t offset);

  static constexpr unsigned kSlotShift = 22;  // TOPSP windows are the smallest pieces of BAR0
  static constexpr uint64_t kNowhere = ~uint64_t{0} << 56;

  const ChipConfig config_;
  const ChipLayout& layout_;
  const CoreFactory make_core_;
  Fabric alone_{{{config_.routing_id, {}}}, {}};  // where there is no other
  ChipFaults faults_;
  PairExchange exchange_;
  HostWindow all_host_;
  HostWindow host_;  // what of it all but the queues that the host keeps may reach
  Bus bus_;
  std::vector<uint64_t> slots_;  // device address minus BAR0 offset, of each 4 MiB of BAR0
  std::deque<std::string> names_;
  std::unique_ptr<Hbm> hbm_;
  std::vector<std::unique_ptr<SdmaWrapper>> wrappers_;
  std::vector<std::unique_ptr<UdmaEngine>> engines_;
  std::vector<std::unique_ptr<Topsp>> topsps_;
  std::vector<std::unique_ptr<CoreBlock>> cores_;
  std::deque<CcWindow> cc_windows_;
  std::vector<std::unique_ptr<StoredRegisters>> stored_;
  std::unique_ptr<FirmwareRam> firmware_;
  SimulationReset simulation_reset_;
  GroupWorkers workers_;  // last: its threads use everything above
};

void EmulatedChip::build_translation() {
  constexpr uint64_t kSlot = uint64_t{1} << kSlotShift;
  slots_.resize(layout_.bar0_bytes / kSlot);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const uint64_t device = layout_.device_of(i * kSlot);
    slots_[i] = (device == ~uint64_t{0} ? kNowhere : device) - i * kSlot;
  }
}

bool EmulatedChip::build(std::string& error) {
  if (config_.cores == 0 || config_.cores > layout_.cores) {
    error = "a chip of generation " + std::to_string(layout_.generation) + " has 1 to " +
            std::to_string(layout_.cores) + " cores, not " + std::to_string(config_.cores);
    return false;
  }
  hbm_ = Hbm::create(config_.hbm_count, config_.hbm_bytes_each, config_.numa_node, host_placement(),
                     error, layout_);
  if (hbm_ == nullptr) return false;
  build_translation();
  std::vector<uint64_t> stacks;
  for (unsigned i = 0; i < hbm_->stacks(); ++i) {
    names_.push_back("HBM " + std::to_string(i));
    bus_.attach(layout_.hbm_base[i], hbm_->stack_bytes(), &hbm_->stack(i), names_.back().c_str());
    stacks.push_back(layout_.hbm_base[i]);
  }
  faults_.describe_chip(static_cast<int>(config_.index), std::move(stacks), hbm_->stack_bytes());
  bus_.attach(layout_.host_base, layout_.host_bytes, &host_, "host memory");
  bus_.set_host_writes(config_.host_writes);
  bus_.set_patience(config_.patience);
  bus_.set_host(host_.memory(), all_host_.memory(), all_host_);
  // Notification blocks exist for all cores: the driver may set up what a fused one would use.
  for (unsigned i = 0; i < layout_.cores; ++i) {
    cores_.push_back(std::make_unique<CoreBlock>(bus_));
  }
  attach_engines();
  for (unsigned i = 0; i < layout_.topsps; ++i) topsps_.push_back(std::make_unique<Topsp>(bus_));
  for (unsigned i = 0; i < layout_.cores; ++i) attach_core(i);
  for (unsigned i = 0; i < layout_.topsps; ++i) {
    const std::string name = "TOPSP " + std::to_string(i);
    if (core_of_topsp(i) < config_.cores) {
      cc_windows_.emplace_back(*cores_[core_of_topsp(i)]->core, i % layout_.topsps_per_core);
      attach(layout_.topsp_window(i), NEURON_V2_TOPSP_WINDOW_SIZE, cc_windows_.back(), name);
    } else {
      attach(layout_.topsp_window(i), NEURON_SEM_BLOCK_SIZE, topsps_[i]->semaphores(), name);
    }
    attach(layout_.topsp_notification(i), NotificationBlock::kBytes, topsps_[i]->notifications(),
           name + " notifications");
  }
  for (const RegisterPiece& piece : layout_.stored) {
    stored_.push_back(std::make_unique<StoredRegisters>(piece.bytes));
    attach(piece.bar0, piece.bytes, *stored_.back(), "interrupt control");
  }
  firmware_ = std::make_unique<FirmwareRam>(
      bus_, *this, FirmwareIdentity{config_.routing_id, config_.serial, layout_.firmware_version},
      faults_);
  attach(layout_.misc_ram, FirmwareRam::kBytes, *firmware_, "firmware RAM");
  if (config_.revision == kQemuRevision) {
    attach(layout_.simulation_reset, 4, simulation_reset_, "simulation reset");
  }
  bus_.set_fabric(fabric(), node());
  bus_.seal();
  fabric().attach(node(), bus_, faults_);
  return true;
}

void EmulatedChip::attach_engines() {
  for (unsigned i = 0; i < layout_.dma_engines; ++i) {
    wrappers_.push_back(std::make_unique<SdmaWrapper>(bus_));
    engines_.push_back(std::make_unique<UdmaEngine>(
        i, bus_, cores_[layout_.core_of(i, 0)]->notifications, wrappers_[i]->notifications()));
    engines_[i]->set_faults(faults_);
    const std::string name = "DMA engine " + std::to_string(i);
    attach(layout_.udma(i), NEURON_UDMA_SIZE, *engines_[i], name);
    attach(layout_.sdma(i), SdmaWrapper::kBytes, *wrappers_[i], name + " wrapper");
  }
}

void EmulatedChip::attach_core(unsigned index) {
  CoreBlock& block = *cores_[index];
  const std::string name = "core " + std::to_string(index);
  attach(layout_.core_notification(index), NotificationBlock::kBytes, block.notifications,
         name + " notifications");
  attach(layout_.pe_counters(index), kPeCounterBytes, block.pe_counters, name + " PE counters");
  if (index >= config_.cores) return;
  CoreConnections connections{
      index, config_.routing_id, bus_, *hbm_, block.semaphores, block.notifications, {}};
  for (unsigned i = 0; i < kEnginesPerCore; ++i) {
    connections.engines[i] = engines_[index * kEnginesPerCore + i].get();
  }
  connections.faults = &faults_;
  if (PairExchange::other_core(index) < config_.cores) connections.exchange = &exchange_;
  connections.cc_count = layout_.topsps_per_core;
  for (unsigned k = 0; k < connections.cc_count; ++k) {
    Topsp& topsp = *topsps_[index * layout_.topsps_per_core + k];
    connections.cc[k] = {&topsp.semaphores(), &topsp.notifications()};
  }
  block.core = make_core_(connections, this);
  attach(layout_.core_windows + index * NEURON_V2_CORE_WINDOW_SIZE, NEURON_V2_CORE_WINDOW_SIZE,
         *block.core, name);
}

void EmulatedChip::refused(uint64_t offset) {
  const uint64_t device = layout_.device_of(offset);
  const uint64_t address = device == ~uint64_t{0} ? offset : device;
  const uint64_t window = core_in_window(offset);
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
  if (!bus_.read32(device_of(offset), value, Access{})) {
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
  promised_core = inline_run ? core_in_window(offset) : kNoCore;
  if (!bus_.write32(device_of(offset), value, Access{})) refused(offset);
  promised_core = kNoCore;
}

RunResult EmulatedChip::run_group(unsigned core, std::chrono::steady_clock::time_point deadline) {
  if (core >= cores_.size() || cores_[core]->core == nullptr) return RunResult::kQuiescent;
  return cores_[core]->core->run(deadline, true);
}

RunResult EmulatedChip::run_slice(unsigned core, std::chrono::steady_clock::time_point deadline) {
  if (core >= cores_.size() || cores_[core]->core == nullptr) return RunResult::kQuiescent;
  return cores_[core]->core->run(deadline, false);
}

std::string EmulatedChip::describe_core(unsigned core) {
  if (core >= cores_.size() || cores_[core]->core == nullptr) {
    return "the chip has no core " + std::to_string(core) + "; it has " +
           std::to_string(config_.cores);
  }
  return cores_[core]->core->describe();
}

void EmulatedChip::reset(uint32_t core_map) {
  if (core_map == 0) return reset_device();
  uint32_t map = core_map;
  for (unsigned i = 0; i < layout_.topsps; ++i) {
    if ((core_map >> (i / layout_.topsps_per_core) & 1) != 0) map |= topsp_in_map(layout_, i);
  }
  for (unsigned i = 0; i < layout_.cores; ++i) {
    if ((core_map >> i & 1) != 0) map |= engines_in_map(layout_, i);
  }
  reset_cores(map);
}

void EmulatedChip::halt(uint32_t core_map) {
  for (unsigned i = 0; i < cores_.size(); ++i) {
    if ((core_map >> i & 1) != 0 && cores_[i]->core != nullptr) cores_[i]->core->halt();
  }
}

uint32_t EmulatedChip::halted() {
  uint32_t map = 0;
  for (unsigned i = 0; i < cores_.size(); ++i) {
    if (cores_[i]->core != nullptr && cores_[i]->core->halted()) map |= 1u << i;
  }
  return map;
}

void EmulatedChip::reset_core(unsigned index) {
  faults_.core_was_reset(index);
  CoreBlock& block = *cores_[index];
  // A core resets its semaphores itself: while it runs, nothing else may write them.
  if (block.core != nullptr) {
    block.core->reset();
  } else {
    block.semaphores.reset();
  }
  block.notifications.reset();
  block.pe_counters.clear();
}

void EmulatedChip::reset_engines_of(unsigned core) {
  for (unsigned i = core * kEnginesPerCore; i < (core + 1) * kEnginesPerCore; ++i) {
    engines_[i]->reset();
    wrappers_[i]->reset();
  }
  // The driver's own engine serves copies of other cores and processes meanwhile: its rings stay.
  const unsigned host = layout_.host_engine(core);
  uint32_t queues = 0;
  for (unsigned q = 0; q < NEURON_DMA_QUEUES; ++q) {
    if (layout_.core_of(host, q) == core) queues |= 1u << q;
  }
  engines_[host]->clear_aborts(queues);
}

void EmulatedChip::reset_cores(uint32_t map) {
  for (unsigned i = 0; i < layout_.cores; ++i) {
    if ((map >> i & 1) != 0) reset_core(i);
    if ((map & engines_in_map(layout_, i)) != 0) reset_engines_of(i);
  }
  for (unsigned i = 0; i < layout_.topsps; ++i) {
    if ((map & topsp_in_map(layout_, i)) == 0) continue;
    // The semaphores of a CC core belong to the core that runs it.
    if (core_of_topsp(i) < config_.cores) {
      cores_[core_of_topsp(i)]->core->reset_cc(i % layout_.topsps_per_core);
      topsps_[i]->notifications().reset();
    } else {
      topsps_[i]->reset();
    }
  }
}

void EmulatedChip::reset_device() {
  faults_.device_was_reset();
  reset_cores(~0u);
  for (unsigned i = layout_.first_host_engine; i < layout_.dma_engines; ++i) {
    engines_[i]->reset();
    wrappers_[i]->reset();
  }
  for (const auto& block : stored_) block->clear();
}

void EmulatedChip::set_power(bool on) {
  if (!on) {
    faults_.set_off(true);
    for (const auto& block : cores_) {
      if (block->core != nullptr) block->core->disturb();
    }
    return;
  }
  if (!faults_.off()) return;
  reset_device();
  for (unsigned i = 0; i < hbm_->stacks(); ++i) {
    (void)hbm_->discard(layout_.hbm_base[i], hbm_->stack_bytes());
  }
  faults_.set_off(false);
}

}  // namespace

ChipFaults& Chip::faults() { return ChipFaults::none(); }

std::vector<MemoryPiece> Chip::bar4() {
  const uint64_t bytes = config().hbm_bytes_each;
  const bool packed = layout().simulation_packs_bar4 && config().revision == kQemuRevision;
  std::vector<MemoryPiece> pieces;
  for (unsigned i = 0; i < config().hbm_count; ++i) {
    pieces.push_back({i * (packed ? bytes : layout().hbm_window), bytes,
                      hbm().file_offset(layout().hbm_base[i])});
  }
  return pieces;
}

std::unique_ptr<Chip> Chip::create(const ChipConfig& config, HostMemory& host,
                                   CoreFactory make_core, std::string& error) {
  const ChipLayout* layout = layout_of(config.pci_device);
  if (layout == nullptr) {
    error = "PCI device " + std::to_string(config.pci_device) +
            " is no chip that can be emulated; 28772 to 28775 (inf1), 29028 (trn1), 29284 (inf2), "
            "29540 (trn2), 29796 and 29797 (trn3) are";
    return nullptr;
  }
  ChipConfig complete = config;
  if (complete.cores == 0) complete.cores = layout->cores;
  if (complete.hbm_count == 0) complete.hbm_count = layout->hbms;
  if (complete.hbm_bytes_each == 0) complete.hbm_bytes_each = layout->hbm_bytes;
  try {
    auto chip = std::make_unique<EmulatedChip>(complete, *layout, host, std::move(make_core));
    if (!chip->build(error)) return nullptr;
    return chip;
  } catch (const std::bad_alloc&) {
    error = "the host has not enough memory for a chip's registers and cores";
    return nullptr;
  }
}

}  // namespace neuron::chip
