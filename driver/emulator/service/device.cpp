// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/device.h"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "driver/core/queue.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/service/error.h"

namespace neuron::service {

Device::Device(unsigned index, const profiles::Profile& profile, IoSpace& io, HostArena& arena,
               HostArena& own, MemoryBudget& budget, MemoryFiles& files)
    : index_(index),
      profile_(profile),
      layout_(*nd_chip_for_device(profile.pci_device)),
      io_(io),
      arena_(arena),
      own_(own),
      budget_(budget),
      files_(files) {}

Device::~Device() = default;

int Device::probe(const ChipFactory& factory, chip::Fabric& fabric, unsigned node) {
  chip::ChipConfig config;
  config.pci_device = profile_.pci_device;
  config.revision = profile_.revision;
  config.routing_id = place().routing_id;
  config.serial = serial_number(place(), node);
  config.cores = profile_.cores;
  config.numa_node = place().numa_node;
  config.index = index_;
  config.fabric = &fabric;
  config.first_node = node * profile_.chips;
  config.hbm_count = profile_.hbm_stacks;
  config.hbm_bytes_each = profile_.hbm_stack_bytes;
  config.clients_memory = &io_.clients();
  std::string error;
  chip_ = factory(config, io_, error);
  if (!chip_) return fail(-ENOMEM, "device %u: %s", index_, error.c_str());

  memory_ = std::make_unique<DeviceMemory>(index_, *chip_, io_, arena_, own_, budget_, files_);
  if (int code = memory_->start()) return code;
  firmware_ = std::make_unique<Firmware>(index_, *chip_);
  if (int code = firmware_->create(*memory_)) return code;
  uint32_t id = 0;
  if (int code = firmware_->routing_id(&id)) return code;
  if (id != place().routing_id) {
    return fail(-ENODEV, "device %u: routing id is %u, expected %u", index_, id,
                place().routing_id);
  }

  AllocateRequest request;
  request.host = true;
  request.category = NEURON_MEMALLOC_TYPE_NCDEV_HOST;
  request.with_handle = false;
  request.size = ND_DATASTORE_BYTES;
  for (Chunk*& chunk : datastore_memory) {
    if (int code = memory_->allocate(request, &chunk)) return code;
  }
  request.size = ND_PAGE_SIZE;
  if (int code = memory_->allocate(request, &dummy_ring_)) return code;
  for (uint32_t core = 0; core < profile_.cores; ++core) {
    rings_.push_back(std::make_unique<CopyRing>(index_, core, *chip_, io_));
    if (int code = rings_.back()->create(*memory_)) return code;
  }
  if (int code = reset(Firmware::kWholeDevice)) return code;
  statistics = {};  // the driver's own reset does not count
  return 0;
}

int Device::check_present() const {
  if (!chip_->faults().off()) return 0;
  return fail(
      -ENODEV,
      "device %u does not answer: its registers read all ones, as of a chip that was removed "
      "or has lost its power; when it is back, close the runtime and initialise it again",
      index_);
}

void Device::write_sequence(const nd_register_write* writes, size_t count) {
  for (size_t i = 0; i < count; ++i) chip_->write_register(writes[i].offset, writes[i].value);
}

bool Device::shares_engine_with_others(uint32_t core, uint32_t core_map) const {
  for (uint32_t other = 0; other < rings_.size(); ++other) {
    if (rings_[other]->engine() == rings_[core]->engine() && !(core_map >> other & 1)) return true;
  }
  return false;
}

void Device::start_engines(uint32_t core_map) {
  nd_register_write writes[ND_ENGINE_INIT_WRITES];
  for (uint32_t core = 0; core < profile_.cores; ++core) {
    if (!(core_map >> core & 1)) continue;
    const uint32_t first = core * ND_DMA_ENGINES_PER_CORE;
    for (uint32_t engine = first; engine < first + ND_DMA_ENGINES_PER_CORE; ++engine) {
      write_sequence(writes, nd_engine_init_sequence(&layout_, engine, writes));
    }
    // An engine that carries the copies of two cores serves the other one meanwhile.
    if (shares_engine_with_others(core, core_map)) {
      rings_[core]->restart();
      continue;
    }
    write_sequence(writes, nd_engine_init_sequence(&layout_, rings_[core]->engine(), writes));
    rings_[core]->restart();
  }
}

void Device::destroy_notification_queues(uint32_t core_map) {
  nd_register_write writes[ND_NQ_WRITES];
  const auto destroy = [&](bool topsp, uint32_t device, auto& table) {
    for (uint32_t slot = 0; slot < ND_NQ_PER_DEVICE; ++slot) {
      if (!table[slot].memory) continue;
      const nd_nq_key key = {device, topsp, slot / ND_NQ_INDEXES, slot % ND_NQ_INDEXES};
      write_sequence(writes, nd_nq_sequence(&layout_, &key, 0, 0, writes));
      memory_->free(table[slot].memory);
      table[slot] = {};
    }
  };
  for (uint32_t core = 0; core < profile_.cores; ++core) {
    if (core_map >> core & 1) destroy(false, core, core_queues_[core]);
  }
  for (uint32_t topsp = 0; topsp < layout_.topsps; ++topsp) {
    if (core_map >> (topsp / layout_.topsps_per_core) & 1) {
      destroy(true, topsp, topsp_queues_[topsp]);
    }
  }
}

int Device::reset(uint32_t core_map) {
  const uint32_t every_core = (1u << profile_.cores) - 1;
  const uint32_t cores = core_map == Firmware::kWholeDevice ? every_core : core_map;
  const std::lock_guard one_at_a_time(firmware_mutex_);
  const std::lock_guard lock(mutex);
  destroy_notification_queues(cores);
  for (uint32_t core = 0; core < profile_.cores; ++core) {
    if (!(cores >> core & 1)) continue;
    core_state[core].init = NEURON_CINIT_STATE_INVALID;
    ++core_state[core].resets;
    core_state[core].copies = {};
    const uint32_t first = core * ND_DMA_ENGINES_PER_CORE;
    for (uint32_t engine = first; engine < first + ND_DMA_ENGINES_PER_CORE; ++engine) {
      queues[engine].fill({});
    }
    if (shares_engine_with_others(core, cores)) {
      queues[rings_[core]->engine()][rings_[core]->queue()] = {};
    } else {
      queues[rings_[core]->engine()].fill({});
    }
  }
  const int error = firmware_->reset(core_map);
  statistics.count_reset(cores, profile_.cores, error != 0);
  if (error) return error;
  start_engines(cores);
  return 0;
}

void Device::release_datastore(uint32_t slot) {
  statistics.fold(datastore_memory[slot]->data, profile_.cores);
  memory_->take_back(*datastore_memory[slot]);
}

void Device::release_queues(uint64_t session) {
  const nd_queue_ring dummy = {dummy_ring_->address, ND_QUEUE_DUMMY_DESCRIPTORS};
  nd_register_write writes[ND_QUEUE_INIT_WRITES];
  const std::lock_guard lock(mutex);
  for (uint32_t engine = 0; engine < layout_.dma_engines; ++engine) {
    for (uint32_t queue = 0; queue < NEURON_DMA_QUEUES; ++queue) {
      QueueState& state = queues[engine][queue];
      if (state.owner != session || nd_queue_is_instruction_fetch(&layout_, engine, queue)) {
        continue;
      }
      write_sequence(writes,
                     nd_queue_init_sequence(&layout_, engine, queue, &dummy, &dummy, writes));
      state = {};
    }
  }
}

bool Device::has_place_for(const Client& client) const {
  const uint32_t taken = nd_process_count(&processes);
  if (taken + kPlacesForOthers < ND_PROCESSES || client.process == 0 ||
      client.user == ::geteuid()) {
    return true;
  }
  for (uint32_t i = 0; i < ND_PROCESSES; ++i) {
    if (processes.slot[i].pid != 0 && clients[i].user == client.user) return false;
  }
  return true;  // if any is left: the table says that
}

bool Device::is_anothers(const Client& owner, const Client& caller) {
  if (caller.process == 0 || owner.process == caller.process) return false;
  const nd_process* process = owner.pid == 0 ? nullptr : nd_process_find(&processes, owner.pid);
  return process && clients[process - processes.slot].process == owner.process;
}

int Device::set_notification_queue(const nd_nq_key& key, const Client& client, uint32_t size,
                                   bool host, uint32_t hbm, uint32_t region, bool force,
                                   NotificationQueue** queue) {
  auto& table = key.topsp ? topsp_queues_[key.device] : core_queues_[key.device];
  NotificationQueue& found = table[nd_nq_slot(&key)];
  *queue = &found;
  if (found.memory && is_anothers(found.memory->client, client)) {
    return fail(
        -EBUSY,
        "device %u: notification queue of type %u, index %u on %s %u is pid %d's, which has "
        "the device open; end that process, or reset the core",
        index_, key.type, key.index, key.topsp ? "CC core" : "core", key.device,
        found.memory->client.pid);
  }
  if (found.memory && !force && serves(*found.memory, client)) return 0;
  AllocateRequest request;
  request.client = client;
  request.size = size;
  request.host = host;
  request.hbm = hbm;
  request.region = region;
  request.core = key.topsp ? key.device / layout_.topsps_per_core : key.device;
  request.category =
      host ? NEURON_MEMALLOC_TYPE_NOTIFICATION_HOST : NEURON_MEMALLOC_TYPE_NOTIFICATION_DEVICE;
  // The hardware wants a ring in HBM aligned to its size.
  request.alignment = host ? 0 : size;
  Chunk* memory = nullptr;
  if (int error = memory_->allocate(request, &memory)) return error;
  // No entry of an earlier owner of the memory may look like a new one.
  if (!host) {
    if (int error = ring(request.core).fill(memory->address, 0, memory->size)) {
      memory_->free(memory);
      return error;
    }
  }
  nd_register_write writes[ND_NQ_WRITES];
  // The hardware is pointed at the new memory before the old is freed.
  write_sequence(writes, nd_nq_sequence(&layout_, &key, memory->address, size, writes));
  if (found.memory) memory_->free(found.memory);
  found = {memory, size};
  return 0;
}

uint32_t Device::core_of_register(uint64_t offset) const {
  for (uint32_t core = 0; core < profile_.cores; ++core) {
    if (offset - semaphores(core) < NEURON_SEM_BLOCK_SIZE) return core;
  }
  return profile_.cores;
}

bool Device::is_register_cookie(uint64_t offset) const {
  if (layout_.bar0_device_base) return offset - layout_.bar0_device_base < layout_.bar0_bytes;
  for (uint32_t core = 0; core < layout_.cores; ++core) {
    if (offset - nd_chip_core_cookie(&layout_, core) < NEURON_V2_CORE_WINDOW_SIZE) return true;
  }
  for (uint32_t topsp = 0; topsp < layout_.topsps; ++topsp) {
    if (offset - nd_chip_topsp_cookie(&layout_, topsp) < NEURON_V2_TOPSP_WINDOW_SIZE) return true;
  }
  return false;
}

bool Device::is_mappable_register(uint64_t offset) const {
  if (offset % 4) return false;
  for (uint32_t core = 0; core < profile_.cores; ++core) {
    if (offset - semaphores(core) < NEURON_SEM_BLOCK_SIZE) return true;
  }
  for (uint32_t topsp = 0; topsp < layout_.topsps; ++topsp) {
    if (offset - nd_chip_topsp_window(&layout_, topsp) < NEURON_SEM_BLOCK_SIZE) return true;
  }
  return false;
}

}  // namespace neuron::service
