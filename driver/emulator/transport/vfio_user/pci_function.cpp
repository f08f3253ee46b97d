// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/pci_function.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/chip/memory_file.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "hw/address_map.h"

namespace neuron::transport {
namespace {

// Pages of a DMA engine behind its last queue: interrupt and error tables, which the model stores
// without effect.
constexpr uint64_t kConfigurationFirst = 0x31000;
constexpr uint64_t kConfigurationBytes = 0xF000;
// Descriptors, of up to 64 KiB each, whose transfer a client's processor may wait for.
constexpr uint32_t kQuickDescriptors = 1024;
constexpr uint64_t kFirstSerial = 0x1000;

// QEMU waits so long for an answer (x-msg-timeout) before it lets the guest go on without it.
constexpr uint64_t kAnswerNs = 5'000'000'000;
// By how much drivers multiply their patience for chips that say they are emulated (240) or
// simulated (255).
constexpr uint64_t kEmulatorPatience = 100'000;
constexpr uint64_t kSimulatorPatience = 10'000;

chip::DriverPatience patience_of(const PciLayout& layout) {
  const uint64_t factor = layout.revision == NEURON_PCI_REVISION_EMULATOR ? kEmulatorPatience
                          : layout.revision == NEURON_PCI_REVISION_QEMU   ? kSimulatorPatience
                                                                          : 1;
  return {layout.descriptor_ms * 1'000'000 * factor, kAnswerNs, kQuickDescriptors};
}

// A client holds this file too; if it could be shortened, our own accesses would fault.
void seal_size(int file) {
  (void)fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

}  // namespace

void PciStatistics::clear() {
  for (auto* counter : {&register_reads, &register_writes, &polls, &doorbells, &before_doorbell,
                        &memory_accesses, &config_accesses, &odd_widths, &resets}) {
    counter->store(0, std::memory_order_relaxed);
  }
}

PciFunction::PciFunction(unsigned index, const VfioUserOptions& options)
    : index_(index), options_(options) {}

PciFunction::~PciFunction() {
  chip_.reset();  // its threads use the guest's memory
  if (configuration_file_ >= 0) close(configuration_file_);
}

std::unique_ptr<PciFunction> PciFunction::create(unsigned index, const VfioUserOptions& options,
                                                 std::string& error) {
  std::unique_ptr<PciFunction> function(new PciFunction(index, options));
  if (!find_pci_layout(options.pci_device, options.revision, options.hbm_bytes_each,
                       function->layout_, error)) {
    return nullptr;
  }
  function->memory_ = std::make_unique<GuestMemory>();
  if (!function->memory_->valid()) {
    error = "a virtual machine's function needs " + std::to_string(GuestMemory::kWindow >> 30) +
            " GiB of address space for the guest's memory, which cannot be reserved: " +
            std::strerror(errno) + "; raise the limit of address space (ulimit -v)";
    return nullptr;
  }
  if (options.log) {
    function->host_writes_.set_log([log = options.log, name = "nd" + std::to_string(index) + ": "](
                                       const std::string& sentence) { log(name + sentence); });
  }
  function->config_ = std::make_unique<PciConfigSpace>(function->layout_);
  return function->build(error) ? std::move(function) : nullptr;
}

bool PciFunction::build(std::string& error) {
  chip::ChipConfig config;
  config.index = index_;
  config.pci_device = layout_.device;
  config.revision = layout_.revision;
  config.routing_id = routing_id_of(layout_.device, index_);
  config.serial = kFirstSerial + index_;
  config.cores = layout_.cores;
  config.hbm_bytes_each = layout_.stack_bytes;
  config.hbm_count = layout_.stacks;
  config.workers = options_.workers;
  config.host_writes = &host_writes_;
  config.patience = patience_of(layout_);
  std::unique_ptr<chip::Chip> chip = core::create_chip(config, *memory_, error);
  if (chip == nullptr) return false;
  seal_size(chip->hbm().fd());
  memory_mappable_ = true;
  for (unsigned i = 0; i < layout_.stacks; ++i) {
    memory_mappable_ = memory_mappable_ && chip->hbm().file_offset(layout_.stack_addresses[i]) ==
                                               i * layout_.stack_distance;
  }
  if (options_.prepare) options_.prepare(index_, *chip);
  {
    const std::lock_guard guard(chip_mutex_);
    chip_ = std::move(chip);
  }
  return options_.map_level < MapLevel::kConfiguration || create_configuration_file(error);
}

bool PciFunction::create_configuration_file(std::string& error) {
  if (configuration_file_ >= 0) close(configuration_file_);
  configuration_file_ = chip::create_memory_file("neuron-registers");
  if (configuration_file_ < 0 ||
      chip::size_memory_file(configuration_file_, layout_.register_bytes) != 0) {
    error =
        std::string("the memory file of the register pages that are mapped cannot be created: ") +
        std::strerror(errno);
    return false;
  }
  seal_size(configuration_file_);
  configuration_areas_.clear();
  for (const uint64_t engine : layout_.engines) {
    configuration_areas_.push_back({engine + kConfigurationFirst, kConfigurationBytes});
  }
  return true;
}

bool PciFunction::power_cycle(std::string& error) {
  std::unique_ptr<chip::Chip> old;
  {
    const std::lock_guard guard(chip_mutex_);
    old = std::move(chip_);
  }
  old.reset();  // waits for its threads: from here on nothing uses the guest's memory
  memory_->unmap_all();
  memory_->set_bus_master(false);
  config_->reset();
  statistics_.clear();
  return build(error);
}

void PciFunction::reset() {
  statistics_.resets.fetch_add(1, std::memory_order_relaxed);
  memory_->set_bus_master(false);
  config_->reset();
  chip_->reset(0);
  if (configuration_file_ >= 0) {
    (void)fallocate(configuration_file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    static_cast<off_t>(layout_.register_bytes));
  }
}

void PciFunction::with_chip(const std::function<void(chip::Chip&)>& use) {
  const std::lock_guard guard(chip_mutex_);
  if (chip_ != nullptr) use(*chip_);
}

bool PciFunction::off() const { return chip_->faults().off(); }

uint64_t PciFunction::region_bytes(unsigned index) const {
  if (index == layout_.register_bar) return layout_.register_bytes;
  if (index == PciLayout::kMemoryBar) return layout_.memory_bytes();
  return index == vfio_user::kConfigRegion ? PciConfigSpace::kBytes : 0;
}

PciRegion PciFunction::region(unsigned index) const {
  PciRegion region;
  region.bytes = region_bytes(index);
  if (index == layout_.register_bar) {
    region.file = configuration_file_;
    region.areas = configuration_areas_;
  } else if (index == PciLayout::kMemoryBar) {
    if (options_.map_level == MapLevel::kNothing || !memory_mappable_) return region;
    region.file = chip_->hbm().fd();
    if (layout_.stack_distance == layout_.stack_bytes) return region;
    for (unsigned i = 0; i < layout_.stacks; ++i) {
      region.areas.push_back({i * layout_.stack_distance, layout_.stack_bytes});
    }
  }
  return region;
}

std::byte* PciFunction::memory_at(uint64_t offset, size_t length) {
  const uint64_t stack = offset / layout_.stack_distance;
  const uint64_t inside = offset % layout_.stack_distance;
  if (stack >= layout_.stacks) return nullptr;
  return chip_->hbm().direct(layout_.stack_addresses[stack] + inside, length);
}

void PciFunction::count(uint64_t offset, bool write) {
  if (!write && offset == layout_.firmware_version) {
    statistics_.polls.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  auto& counter = write ? statistics_.register_writes : statistics_.register_reads;
  counter.fetch_add(1, std::memory_order_relaxed);
  const bool doorbell = write && layout_.is_doorbell(offset);
  if (doorbell) {
    statistics_.doorbells.fetch_add(1, std::memory_order_relaxed);
  } else if (statistics_.doorbells.load(std::memory_order_relaxed) == 0) {
    statistics_.before_doorbell.fetch_add(1, std::memory_order_relaxed);
  }
}

bool PciFunction::read(unsigned region, uint64_t offset, std::span<std::byte> out) {
  if (off()) {
    std::fill(out.begin(), out.end(), std::byte{0xFF});
    return true;
  }
  if (region == vfio_user::kConfigRegion) {
    statistics_.config_accesses.fetch_add(1, std::memory_order_relaxed);
    return config_->read(offset, out);
  }
  if (region == layout_.register_bar) {
    count(offset, false);
    read_registers(offset, out);
    return true;
  }
  statistics_.memory_accesses.fetch_add(1, std::memory_order_relaxed);
  const std::byte* from = memory_at(offset, out.size());
  if (from == nullptr) {
    std::fill(out.begin(), out.end(), std::byte{0xFF});
  } else {
    std::copy_n(from, out.size(), out.begin());
  }
  return true;
}

bool PciFunction::write(unsigned region, uint64_t offset, std::span<const std::byte> in) {
  if (off()) return true;
  if (region == vfio_user::kConfigRegion) {
    statistics_.config_accesses.fetch_add(1, std::memory_order_relaxed);
    bool wants_reset = false;
    const bool inside = config_->write(offset, in, wants_reset);
    if (wants_reset) reset();
    memory_->set_bus_master(config_->bus_master());
    return inside;
  }
  if (region == layout_.register_bar) {
    count(offset, true);
    write_registers(offset, in);
    return true;
  }
  statistics_.memory_accesses.fetch_add(1, std::memory_order_relaxed);
  std::byte* to = memory_at(offset, in.size());
  if (to != nullptr) std::copy(in.begin(), in.end(), to);
  return true;
}

bool PciFunction::may_take_long(unsigned region, uint64_t offset,
                                std::span<const std::byte> in) const {
  if (region != layout_.register_bar) return false;
  if (offset == layout_.firmware_trigger) return true;  // a reset waits for the cores
  uint32_t descriptors = 0;
  if (in.size() != sizeof descriptors || !layout_.is_doorbell(offset)) return false;
  std::memcpy(&descriptors, in.data(), sizeof descriptors);
  return descriptors > kQuickDescriptors;
}

// Whole words are register accesses. What is left at the ends reaches memories of the chip (SBUF,
// PSUM), which have bytes; registers have none.
void PciFunction::read_registers(uint64_t offset, std::span<std::byte> out) {
  if (offset % 4 != 0 || out.size() != 4) {
    statistics_.odd_widths.fetch_add(1, std::memory_order_relaxed);
  }
  for (size_t done = 0; done < out.size();) {
    const uint64_t at = offset + done;
    const size_t bytes = std::min<size_t>(4 - at % 4, out.size() - done);
    const uint32_t word = chip_->read_register(at - at % 4);
    std::memcpy(out.data() + done, reinterpret_cast<const std::byte*>(&word) + at % 4, bytes);
    done += bytes;
  }
}

void PciFunction::write_registers(uint64_t offset, std::span<const std::byte> in) {
  if (offset % 4 != 0 || in.size() != 4) {
    statistics_.odd_widths.fetch_add(1, std::memory_order_relaxed);
  }
  for (size_t done = 0; done < in.size();) {
    const uint64_t at = offset + done;
    const size_t bytes = std::min<size_t>(4 - at % 4, in.size() - done);
    if (bytes == 4) {
      uint32_t word;
      std::memcpy(&word, in.data() + done, 4);
      chip_->write_register(at, word);
    } else {
      uint64_t address;
      if (layout_.core_address(at, address)) {
        (void)chip_->bus().write(address, in.subspan(done, bytes), chip::Access{});
      }
    }
    done += bytes;
  }
}

std::string PciFunction::describe() const {
  const auto value = [](const std::atomic<uint64_t>& counter) {
    return std::to_string(counter.load(std::memory_order_relaxed));
  };
  const PciStatistics& s = statistics_;
  return "nd" + std::to_string(index_) + ": " + value(s.before_doorbell) +
         " register accesses before the first doorbell, in all " + value(s.register_reads) +
         " reads and " + value(s.register_writes) + " writes (" + value(s.doorbells) +
         " doorbells, " + value(s.odd_widths) + " not of an aligned word), " +
         value(s.config_accesses) + " of the configuration space, " + value(s.memory_accesses) +
         " trapped of the HBM, " + value(s.resets) + " resets; guest memory " +
         std::to_string(memory_->bytes() >> 20) + " MiB in " +
         std::to_string(memory_->file_maps()) + " of " + std::to_string(memory_->maps()) + " maps";
}

}  // namespace neuron::transport
