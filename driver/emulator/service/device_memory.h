// SPDX-License-Identifier: Apache-2.0
// Memory of one device: HBM and host chunks, their handles, their owners.
//
// Concepts: a chunk is one allocation; its handle is a small integer (driver/core/handle_table.h).
// It belongs to the session that allocated it or to the device. A Pin keeps the memory in place
// while a copy works on it: a chunk freed meanwhile loses its handle at once and its memory when
// the last pin goes. Where processes are served, a chunk of a process is a file of its own in the
// place of its addresses, so that its owner can map it and nothing else. Callers: any thread (one
// mutex, never held while the chip works). Owns all chunks. Fails: negative errno and a sentence.
#ifndef DRIVER_EMULATOR_SERVICE_DEVICE_MEMORY_H
#define DRIVER_EMULATOR_SERVICE_DEVICE_MEMORY_H

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "driver/core/accounting.h"
#include "driver/core/chip.h"
#include "driver/core/handle_table.h"
#include "driver/core/hbm.h"
#include "driver/emulator/chip/chip.h"
#include "driver/emulator/service/client.h"
#include "driver/emulator/service/host_arena.h"
#include "driver/emulator/service/io_space.h"
#include "driver/emulator/service/memory_budget.h"
#include "driver/emulator/service/memory_files.h"
#include "driver/emulator/service/shares.h"
#include "uapi/neuron_shared.h"

namespace neuron::service {

struct Chunk {
  uint64_t address = 0;  // device address; host memory has the host bit
  uint64_t size = 0;     // whole pages
  std::byte* data = nullptr;
  nd_block* block = nullptr;
  uint64_t session = 0;       // 0: the device itself
  Client client;              // whom it serves, also if it is the device's
  Client charged;             // whose part of the memory it is
  base::FileDescriptor file;  // none: it cannot be mapped by a process
  uint64_t serial = 0;        // of the file, of all that the device has ever had
  uint32_t handle = 0;        // 0: none
  uint32_t core = 0;
  uint32_t category = 0;
  uint32_t hbm = 0;
  uint32_t pins = 0;
  bool host = false;
  bool scratchpad = false;
  bool freed = false;
  bool own = false;  // the driver's own: no process can name or map it
};

// Whether a chunk may be used by a client: it is its own process's, or there are no others.
inline bool serves(const Chunk& chunk, const Client& client) {
  return client.process == 0 || chunk.client.process == client.process;
}

struct AllocateRequest {
  uint64_t size = 0;
  uint64_t alignment = 0;
  bool host = false;
  uint32_t hbm = 0;
  uint32_t region = 0;
  uint32_t core = 0;
  uint32_t category = 0;
  uint64_t session = 0;
  Client client;
  bool with_handle = true;
  // Host memory for the driver alone: in its own arena and I/O space. Without a handle.
  bool own = false;
};

class DeviceMemory;

// Holds a chunk in place. Empty if the handle or address was not live.
class Pin {
 public:
  Pin() = default;
  Pin(DeviceMemory* memory, Chunk* chunk) : memory_(memory), chunk_(chunk) {}
  Pin(Pin&& other) noexcept : memory_(other.memory_), chunk_(other.chunk_) {
    other.chunk_ = nullptr;
  }
  Pin& operator=(Pin&& other) noexcept;
  ~Pin();
  explicit operator bool() const { return chunk_ != nullptr; }
  const Chunk* operator->() const { return chunk_; }
  const Chunk& operator*() const { return *chunk_; }

 private:
  DeviceMemory* memory_ = nullptr;
  Chunk* chunk_ = nullptr;
};

class DeviceMemory {
 public:
  // Borrows all, which outlive it. `own`: the arena that no process maps.
  DeviceMemory(unsigned device, chip::Chip& chip, IoSpace& io, HostArena& arena, HostArena& own,
               MemoryBudget& budget, MemoryFiles& files);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Lays out the pools; once, before anything else.
  int start();

  // The chunk lives until it is freed; only its owner may keep the pointer.
  int allocate(const AllocateRequest& request, Chunk** out);
  void free(Chunk* chunk);
  // Frees by handle; -EINVAL if it is not live, belongs to the device itself, or to a process that
  // is not `client`.
  int free_handle(uint64_t handle, const Client& client);
  void release_session(uint64_t session);

  Pin pin(uint64_t handle);
  // The chunk that contains [address, address + size), unless it is the driver's own.
  Pin pin_address(uint64_t address, uint64_t size = 1);
  // Gives a chunk without handle one.
  int give_handle(const Chunk& chunk, uint32_t* handle);
  // End of the range up to which offsets from this chunk may reach.
  uint64_t reach(const Chunk& chunk);
  // What the process has of a stack.
  std::vector<Pin> pin_all(uint32_t hbm, const Client& client);
  // Gives memory of the device to a client, all zeros and as a file of its own, and takes it back.
  // A file that cannot be had is left out.
  void lend(Chunk& chunk, const Client& client);
  void take_back(Chunk& chunk);

  // Live chunks of a stack in address order, the firmware's carve-out included.
  std::vector<neuron_ioctl_mem_chunk_info> list(uint32_t hbm);
  nd_accounting accounting();
  // Of the chunks of one core.
  nd_accounting accounting(uint32_t core);
  // Lets `change` work on the accounting of the device, or of a core.
  template <typename Change>
  void clear(bool of_core, uint32_t core, Change change) {
    const std::lock_guard lock(mutex_);
    change(of_core ? core_accounting_[core] : accounting_);
  }
  // Gives back the pages of HBM that nobody has allocated, once they are more than `most` bytes.
  // What they held is zeros then. Does nothing where allocations have no files of their own.
  void drop_stray_pages(uint64_t most);
  uint64_t free_bytes(uint32_t hbm);
  uint64_t largest_free(uint32_t hbm);
  // Bytes that are not given out any more because the chip has found them bad.
  uint64_t retired_bytes(uint32_t hbm);
  // Host and HBM bytes of the chunks of a process.
  void usage(int32_t pid, uint64_t* host, uint64_t* device);
  unsigned stacks() const { return static_cast<unsigned>(hbm_.size()); }
  unsigned device() const { return device_; }
  // From now on processes share `most` handles. While they have none.
  void allow_handles(size_t most) { handle_shares_.emplace(most); }

 private:
  friend class Pin;
  int allocate_host(const AllocateRequest& request, Chunk& chunk);
  int allocate_hbm(const AllocateRequest& request, Chunk& chunk);
  int insert_handle(Chunk& chunk);
  void remove_handle(Chunk& chunk);
  void retire_bad_pages();
  void unpublish(Chunk* chunk);  // takes the chunk out of all tables
  HostArena& arena_of(bool own) { return own ? own_ : arena_; }
  void give_back(Chunk* chunk);  // returns its memory and deletes it
  void unpin(Chunk* chunk);
  void make_file(Chunk& chunk);
  bool drop_file(Chunk& chunk);
  // Maps a file in the place of the chunk, or with -1 what lies there otherwise.
  bool place(const Chunk& chunk, int file);

  const unsigned device_;
  chip::Chip& chip_;
  const nd_chip& layout_;
  IoSpace& io_;
  HostArena& arena_;
  HostArena& own_;
  MemoryBudget& budget_;
  MemoryFiles& files_;

  std::mutex mutex_;
  NodeStore nodes_;
  std::vector<nd_hbm> hbm_;
  nd_handle_table handles_;
  // Of processes; the devices' own process may have all.
  std::optional<Shares> handle_shares_{ND_HANDLE_LEVELS * ND_HANDLES_PER_LEVEL - 1};
  std::vector<std::unique_ptr<nd_handle_entry[]>> levels_;
  std::map<uint64_t, std::unique_ptr<Chunk>> chunks_;  // live, by address
  nd_accounting accounting_{};
  std::array<nd_accounting, ND_MAX_CORES> core_accounting_{};
  uint64_t next_serial_ = 1;
  uint32_t bad_epoch_ = 0;           // of the chip, when its bad pages were last asked for
  std::vector<uint64_t> bad_pages_;  // found bad, and still part of a live chunk
  std::set<uint64_t> retired_;       // pages by address
};

}  // namespace neuron::service

#endif
