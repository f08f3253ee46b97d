// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/device_memory.h"

#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstring>
#include <utility>

#include "driver/core/descriptor.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/service/error.h"
#include "hw/address_map.h"

namespace neuron::service {

Pin& Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    if (chunk_) memory_->unpin(chunk_);
    memory_ = other.memory_;
    chunk_ = other.chunk_;
    other.chunk_ = nullptr;
  }
  return *this;
}

Pin::~Pin() {
  if (chunk_) memory_->unpin(chunk_);
}

DeviceMemory::DeviceMemory(unsigned device, chip::Chip& chip, IoSpace& io, HostArena& arena,
                           HostArena& own, MemoryBudget& budget, MemoryFiles& files)
    : device_(device),
      chip_(chip),
      layout_(*nd_chip_for_device(chip.config().pci_device)),
      io_(io),
      arena_(arena),
      own_(own),
      budget_(budget),
      files_(files) {
  nd_handles_init(&handles_);
}

DeviceMemory::~DeviceMemory() {
  while (!chunks_.empty()) {
    Chunk* chunk = chunks_.begin()->second.get();
    unpublish(chunk);
    give_back(chunk);
  }
}

int DeviceMemory::start() {
  const chip::ChipConfig& config = chip_.config();
  const uint64_t size = config.hbm_bytes_each;
  const uint64_t small = size > 4 * ND_HBM_SMALL_POOL ? ND_HBM_SMALL_POOL : 0;
  hbm_.resize(config.hbm_count);
  for (uint32_t i = 0; i < config.hbm_count; ++i) {
    if (nd_hbm_init(&hbm_[i], nd_chip_hbm_base(&layout_, i), size, layout_.carve_out, small,
                    nodes_.add(), NodeStore::kBatch) != 0) {
      return fail(-EINVAL, "device %u: an HBM of %" PRIu64 " bytes cannot be laid out", device_,
                  size);
    }
    nd_account_allocate(&accounting_, NEURON_MEMALLOC_TYPE_NCDEV_DEVICE, false, layout_.carve_out);
  }
  return 0;
}

int DeviceMemory::insert_handle(Chunk& chunk) {
  const bool shared = chunk.charged.process != 0;
  if (shared && !handle_shares_->has_share(chunk.charged)) {
    return fail(-ENOENT,
                "device %u: user %u has %zu of %zu memory handles, of which %zu are given out, and "
                "the rest is for others; free some",
                device_, chunk.charged.user, handle_shares_->taken_by_user(chunk.charged),
                handle_shares_->room(), handle_shares_->taken());
  }
  if (nd_handles_full(&handles_)) {
    auto level = std::make_unique<nd_handle_entry[]>(ND_HANDLES_PER_LEVEL);
    if (nd_handles_add_level(&handles_, level.get()) != 0) {
      return fail(-ENOENT, "device %u: all %u memory handles are in use; free some", device_,
                  ND_HANDLE_LEVELS * ND_HANDLES_PER_LEVEL - 1);
    }
    levels_.push_back(std::move(level));
  }
  if (shared) handle_shares_->take(chunk.charged);
  const int error = nd_handles_insert(&handles_, &chunk, &chunk.handle);
  if (error && shared) handle_shares_->give_back(chunk.charged);
  return error;
}

void DeviceMemory::remove_handle(Chunk& chunk) {
  if (chunk.handle == 0) return;
  nd_handles_remove(&handles_, chunk.handle);
  chunk.handle = 0;
  if (chunk.charged.process != 0) handle_shares_->give_back(chunk.charged);
}

int DeviceMemory::allocate_host(const AllocateRequest& request, Chunk& chunk) {
  if (request.alignment) {
    return fail(-EINVAL,
                "device %u: host memory takes no alignment, found %" PRIu64
                "; it is page aligned anyway",
                device_, request.alignment);
  }
  chunk.data = arena_of(chunk.own).allocate(chunk.size, &chunk.block);
  if (!chunk.data) {
    return fail(-ENOMEM,
                "device %u: no address range left for %" PRIu64
                " bytes of host memory; free some or lift the limit on the address space",
                device_, chunk.size);
  }
  const uint64_t io =
      chunk.own ? io_.map_own(chunk.data, chunk.size) : io_.map(chunk.data, chunk.size);
  if (!io) {
    arena_of(chunk.own).free(chunk.block);
    return fail(-ENOMEM, "device %u: no I/O addresses left for %" PRIu64 " bytes of host memory",
                device_, chunk.size);
  }
  chunk.address = layout_.host_base | io;
  return 0;
}

int DeviceMemory::allocate_hbm(const AllocateRequest& request, Chunk& chunk) {
  if (request.hbm >= hbm_.size()) {
    return fail(-EINVAL, "device %u has HBM 0 to %zu, found %u", device_, hbm_.size() - 1,
                request.hbm);
  }
  if (request.region != 0) {
    return fail(-EINVAL, "device %u: HBM %u has one region, 0; found %u", device_, request.hbm,
                request.region);
  }
  if (request.alignment > INT_MAX ||
      (request.alignment && !nd_is_power_of_two(request.alignment))) {
    return fail(-EINVAL, "device %u: alignment %" PRIu64 " is not a power of two of at most 1 GiB",
                device_, request.alignment);
  }
  retire_bad_pages();
  nd_hbm& hbm = hbm_[request.hbm];
  if (nd_hbm_needs_nodes(&hbm)) nd_hbm_give_nodes(&hbm, nodes_.add(), NodeStore::kBatch);
  const bool scratchpad = request.category == NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE;
  const int error = scratchpad ? nd_hbm_allocate_scratchpad(&hbm, chunk.size, &chunk.block)
                               : nd_hbm_allocate(&hbm, chunk.size, request.alignment, &chunk.block);
  if (error) {
    return fail(-ENOMEM,
                "device %u: HBM %u has no room for %" PRIu64 " bytes: %" PRIu64
                " are free, the largest block is %" PRIu64 "; free tensors or unload models",
                device_, request.hbm, chunk.size, nd_hbm_free_bytes(&hbm),
                nd_hbm_largest_free(&hbm));
  }
  chunk.address = chunk.block->start;
  chunk.data = chip_.hbm().direct(chunk.address, chunk.size);
  chunk.scratchpad = scratchpad;
  return 0;
}

int DeviceMemory::allocate(const AllocateRequest& request, Chunk** out) {
  if (request.size == 0 || request.size > INT64_MAX) {
    return fail(-EINVAL,
                "device %u: cannot allocate %" PRIu64 " bytes; the size must be 1 to 2^63-1",
                device_, request.size);
  }
  if (request.core >= chip_.config().cores) {
    return fail(-EINVAL, "device %u has cores 0 to %u, found %u", device_, chip_.config().cores - 1,
                request.core);
  }
  auto chunk = std::make_unique<Chunk>();
  chunk->size = nd_align_up(request.size, ND_PAGE_SIZE);
  chunk->host = request.host;
  chunk->hbm = request.hbm;
  chunk->core = request.core;
  chunk->category = nd_category(request.category, request.host);
  chunk->session = request.session;
  chunk->client = chunk->charged = request.client;
  chunk->own = request.own;
  const std::lock_guard lock(mutex_);
  // Address space first: the sentence for a request beyond the HBM must not blame the host.
  int error = request.host ? allocate_host(request, *chunk) : allocate_hbm(request, *chunk);
  if (error) return error;
  error =
      budget_.reserve(chunk->size, chunk->charged, request.host ? "host memory" : "HBM", device_);
  if (error) {
    if (request.host) {
      io_.unmap(chunk->address & ~layout_.host_base, chunk->size);
      arena_of(chunk->own).free(chunk->block);
    } else {
      nd_hbm_free(&hbm_[chunk->hbm], chunk->block);
    }
    return error;
  }
  make_file(*chunk);
  if (request.with_handle) error = insert_handle(*chunk);
  nd_account_allocate(&accounting_, chunk->category, chunk->host, chunk->size);
  nd_account_allocate(&core_accounting_[chunk->core], chunk->category, chunk->host, chunk->size);
  Chunk* raw = chunk.get();
  chunks_.emplace(raw->address, std::move(chunk));
  if (error) {
    unpublish(raw);
    give_back(raw);
    return error;
  }
  *out = raw;
  return 0;
}

// Bad pages are allocated for good as soon as nobody has them. Before each allocation is soon
// enough.
void DeviceMemory::retire_bad_pages() {
  const uint32_t epoch = chip_.faults().bad_epoch();
  if (epoch == bad_epoch_ && bad_pages_.empty()) [[likely]] {
    return;
  }
  if (epoch != bad_epoch_) {
    bad_pages_ = chip_.faults().bad_pages();
    std::erase_if(bad_pages_, [&](uint64_t page) { return retired_.count(page) != 0; });
    bad_epoch_ = epoch;
  }
  std::erase_if(bad_pages_, [&](uint64_t page) {
    for (nd_hbm& hbm : hbm_) {
      nd_pool* pool = nd_pool_contains(&hbm.main, page)    ? &hbm.main
                      : nd_pool_contains(&hbm.small, page) ? &hbm.small
                                                           : nullptr;
      if (!pool) continue;
      if (nd_hbm_needs_nodes(&hbm)) nd_hbm_give_nodes(&hbm, nodes_.add(), NodeStore::kBatch);
      nd_block* block = nullptr;
      if (nd_pool_allocate_at(pool, page, ND_PAGE_SIZE, &block) != 0) return false;
      retired_.insert(page);
      return true;
    }
    return true;
  });
}

uint64_t DeviceMemory::retired_bytes(uint32_t hbm) {
  const std::lock_guard lock(mutex_);
  if (hbm >= hbm_.size()) return 0;
  retire_bad_pages();
  uint64_t bytes = 0;
  for (const uint64_t page : retired_) {
    if (nd_pool_contains(&hbm_[hbm].main, page) || nd_pool_contains(&hbm_[hbm].small, page)) {
      bytes += ND_PAGE_SIZE;
    }
  }
  return bytes;
}

void DeviceMemory::unpublish(Chunk* chunk) {
  remove_handle(*chunk);
  chunk->freed = true;
  nd_account_free(&accounting_, chunk->category, chunk->host, chunk->size);
  nd_account_free(&core_accounting_[chunk->core], chunk->category, chunk->host, chunk->size);
  const auto found = chunks_.find(chunk->address);
  (void)found->second.release();
  chunks_.erase(found);
}

void DeviceMemory::give_back(Chunk* chunk) {
  if (!drop_file(*chunk)) {
    // The last owner's file is still in this place: nobody gets it again.
    if (chunk->host) io_.unmap(chunk->address & ~layout_.host_base, chunk->size);
  } else if (chunk->host) {
    io_.unmap(chunk->address & ~layout_.host_base, chunk->size);
    arena_of(chunk->own).free(chunk->block);
  } else {
    chip_.hbm().discard(chunk->address, chunk->size);
    nd_hbm_free(&hbm_[chunk->hbm], chunk->block);
  }
  budget_.release(chunk->size, chunk->charged);
  delete chunk;
}

void DeviceMemory::drop_stray_pages(uint64_t most) {
  if (!files_.allowed()) return;
  const std::lock_guard lock(mutex_);
  chip::Hbm& hbm = chip_.hbm();
  uint64_t own = 0;
  for (const auto& [address, chunk] : chunks_) own += chunk->host || chunk->file ? 0 : chunk->size;
  const uint64_t resident = hbm.resident_bytes();
  if (resident <= own || resident - own <= most) return;
  for (unsigned stack = 0; stack < hbm.stacks(); ++stack) {
    uint64_t at = nd_chip_hbm_base(&layout_, stack);
    const uint64_t end = at + hbm.stack_bytes();
    for (auto next = chunks_.lower_bound(at); next != chunks_.end() && next->first < end; ++next) {
      const Chunk& chunk = *next->second;
      if (chunk.host || chunk.file) continue;
      if (chunk.address > at) hbm.discard(at, chunk.address - at);
      at = chunk.address + chunk.size;
    }
    if (at < end) hbm.discard(at, end - at);
  }
}

void DeviceMemory::free(Chunk* chunk) {
  const std::lock_guard lock(mutex_);
  unpublish(chunk);
  if (chunk->pins != 0) return;
  // A transfer that began before may still be at work; the next owner gets the memory afterwards.
  io_.await_transfers();
  give_back(chunk);
}

int DeviceMemory::free_handle(uint64_t handle, const Client& client) {
  const std::lock_guard lock(mutex_);
  auto* chunk = static_cast<Chunk*>(nd_handles_lookup(&handles_, handle));
  if (!chunk || !serves(*chunk, client)) {
    return fail(-EINVAL,
                "device %u: memory handle %" PRIu64 " is not live; it was freed or is foreign",
                device_, handle);
  }
  if (chunk->session == 0) {
    return fail(-EINVAL,
                "device %u: memory handle %" PRIu64
                " belongs to the device (a notification queue); a reset of its core frees it",
                device_, handle);
  }
  unpublish(chunk);
  if (chunk->pins != 0) return 0;
  io_.await_transfers();
  give_back(chunk);
  return 0;
}

void DeviceMemory::release_session(uint64_t session) {
  const std::lock_guard lock(mutex_);
  // One wait for all of it: the process and its queues begin no transfer any more.
  io_.await_transfers();
  // Allocates nothing: what a process holds is given back also when the host is out of memory.
  for (auto next = chunks_.begin(); next != chunks_.end();) {
    Chunk* chunk = (next++)->second.get();
    if (chunk->session != session) continue;
    unpublish(chunk);
    if (chunk->pins == 0) give_back(chunk);
  }
}

Pin DeviceMemory::pin(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  auto* chunk = static_cast<Chunk*>(nd_handles_lookup(&handles_, handle));
  if (chunk) ++chunk->pins;
  return Pin(this, chunk);
}

Pin DeviceMemory::pin_address(uint64_t address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  auto after = chunks_.upper_bound(address);
  if (after == chunks_.begin()) return {};
  Chunk* chunk = std::prev(after)->second.get();
  const uint64_t offset = address - chunk->address;
  if (chunk->own || offset >= chunk->size || size > chunk->size - offset) return {};
  ++chunk->pins;
  return Pin(this, chunk);
}

void DeviceMemory::unpin(Chunk* chunk) {
  const std::lock_guard lock(mutex_);
  if (--chunk->pins != 0 || !chunk->freed) return;
  io_.await_transfers();
  give_back(chunk);
}

int DeviceMemory::give_handle(const Chunk& chunk, uint32_t* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = chunks_.find(chunk.address);
  if (found == chunks_.end() || found->second.get() != &chunk) {
    return fail(-EINVAL, "device %u: the memory at 0x%" PRIx64 " was freed meanwhile", device_,
                chunk.address);
  }
  if (!found->second->handle) {
    const int error = insert_handle(*found->second);
    if (error) return error;
  }
  *handle = found->second->handle;
  return 0;
}

uint64_t DeviceMemory::reach(const Chunk& chunk) {
  uint64_t end = chunk.address + chunk.size;
  if (!chunk.scratchpad) return end;
  const std::lock_guard lock(mutex_);
  if (chunk.client.process == 0) return nd_hbm_main_end(&hbm_[chunk.hbm]);
  // Among processes, as far as what follows is the same one's.
  for (auto next = chunks_.find(end);
       next != chunks_.end() && next->second->scratchpad && serves(*next->second, chunk.client);
       next = chunks_.find(end)) {
    end += next->second->size;
  }
  return end;
}

std::vector<Pin> DeviceMemory::pin_all(uint32_t hbm, const Client& client) {
  std::vector<Pin> pins;  // outlives the lock, which a pin that goes takes
  const std::lock_guard lock(mutex_);
  pins.reserve(chunks_.size());
  for (const auto& entry : chunks_) {
    Chunk& chunk = *entry.second;
    if (chunk.host || chunk.hbm != hbm || !serves(chunk, client)) continue;
    ++chunk.pins;
    pins.emplace_back(this, &chunk);
  }
  return pins;
}

bool DeviceMemory::place(const Chunk& chunk, int file) {
  return chunk.host ? arena_.place(chunk.data, chunk.size, file)
                    : chip_.hbm().place(chunk.address, chunk.size, file);
}

void DeviceMemory::make_file(Chunk& chunk) {
  // Memory that the chip cannot give in one piece is reached by copies.
  if (chunk.own || chunk.client.process == 0 || chunk.data == nullptr) return;
  base::FileDescriptor file = files_.create(chunk.size, chunk.client);
  if (!file) return;
  if (!place(chunk, file.get())) {
    files_.remove(std::move(file), chunk.size, chunk.client);
    return;
  }
  chunk.file = std::move(file);
  chunk.serial = next_serial_++;
}

bool DeviceMemory::drop_file(Chunk& chunk) {
  if (!chunk.file) return true;
  const bool placed = place(chunk, -1);
  files_.remove(std::move(chunk.file), chunk.size, chunk.client);
  return placed;
}

void DeviceMemory::lend(Chunk& chunk, const Client& client) {
  const std::lock_guard lock(mutex_);
  chunk.client = client;
  make_file(chunk);
}

void DeviceMemory::take_back(Chunk& chunk) {
  const std::lock_guard lock(mutex_);
  if (!chunk.file || !drop_file(chunk)) std::memset(chunk.data, 0, chunk.size);
  chunk.client = {};
}

std::vector<neuron_ioctl_mem_chunk_info> DeviceMemory::list(uint32_t hbm) {
  const std::lock_guard lock(mutex_);
  std::vector<neuron_ioctl_mem_chunk_info> found;
  if (hbm >= hbm_.size()) return found;
  found.push_back({hbm_[hbm].main.base, layout_.carve_out, NEURON_MEMALLOC_TYPE_NCDEV_DEVICE});
  for (const auto& entry : chunks_) {
    if (!entry.second->host && entry.second->hbm == hbm) {
      found.push_back({entry.second->address, entry.second->size, entry.second->category});
    }
  }
  return found;
}

nd_accounting DeviceMemory::accounting() {
  const std::lock_guard lock(mutex_);
  return accounting_;
}

nd_accounting DeviceMemory::accounting(uint32_t core) {
  const std::lock_guard lock(mutex_);
  return core_accounting_[core];
}

uint64_t DeviceMemory::free_bytes(uint32_t hbm) {
  const std::lock_guard lock(mutex_);
  return hbm < hbm_.size() ? nd_hbm_free_bytes(&hbm_[hbm]) : 0;
}

uint64_t DeviceMemory::largest_free(uint32_t hbm) {
  const std::lock_guard lock(mutex_);
  return hbm < hbm_.size() ? nd_hbm_largest_free(&hbm_[hbm]) : 0;
}

void DeviceMemory::usage(int32_t pid, uint64_t* host, uint64_t* device) {
  const std::lock_guard lock(mutex_);
  *host = 0;
  *device = 0;
  for (const auto& entry : chunks_) {
    if (entry.second->session != 0 && entry.second->client.pid == pid) {
      *(entry.second->host ? host : device) += entry.second->size;
    }
  }
}

}  // namespace neuron::service
