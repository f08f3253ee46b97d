// SPDX-License-Identifier: Apache-2.0
// One device of the host: what a kernel driver keeps for /dev/neuronN.
//
// Concepts: a chip, its memory, the host's copy rings, and tables: attached processes, datastores,
// notification queues, DMA queue owners, core locks, marks of resets. Callers: Session (ioctl),
// Instance (open, close). Thread-safe: `mutex` guards the tables; memory and rings lock for
// themselves; nothing is held while a program runs. Owns the chip. Fails: negative errno and a
// sentence.
#ifndef DRIVER_EMULATOR_SERVICE_DEVICE_H
#define DRIVER_EMULATOR_SERVICE_DEVICE_H

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/core/async_copy.h"
#include "driver/core/chip.h"
#include "driver/core/core_lock.h"
#include "driver/core/notification.h"
#include "driver/core/process_table.h"
#include "driver/emulator/chip/fabric.h"
#include "driver/emulator/service/copy_ring.h"
#include "driver/emulator/service/device_memory.h"
#include "driver/emulator/service/firmware.h"
#include "driver/emulator/service/statistics.h"
#include "driver/profiles/profile.h"
#include "hw/address_map.h"

namespace neuron::service {

// Builds chips; tests bring their own.
using ChipFactory = std::function<std::unique_ptr<chip::Chip>(
    const chip::ChipConfig& config, chip::HostMemory& host, std::string& error)>;

// One DMA queue as user space set it up.
struct QueueState {
  uint64_t owner = 0;  // session, 0: nobody
  Client client{};     // of that session
  nd_queue_ring tx{};
  nd_queue_ring rx{};
  uint32_t tx_completed = 0;  // software completion indexes
  uint32_t rx_completed = 0;
};

struct NotificationQueue {
  Chunk* memory = nullptr;
  uint32_t size = 0;
};

struct CoreState {
  nd_core_lock lock{};
  uint32_t init = NEURON_CINIT_STATE_INVALID;
  uint64_t resets = 0;
  nd_async_copies copies{};  // those that a process will wait for
};

class Device {
 public:
  // Borrows all, which outlive it. `own`: the arena that no process maps.
  Device(unsigned index, const profiles::Profile& profile, IoSpace& io, HostArena& arena,
         HostArena& own, MemoryBudget& budget, MemoryFiles& files);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Builds the chip and brings it up as a driver's probe does: identity, pools, reset, DMA engines.
  // `fabric`: its links to the others; `node`: which of the fabric's instances it is in.
  int probe(const ChipFactory& factory, chip::Fabric& fabric, unsigned node);

  // Resets cores (bit n = core n, Firmware::kWholeDevice for all) and sets their engines up again.
  int reset(uint32_t core_map);
  // Takes a process's queues away from it: they point at an empty ring afterwards.
  void release_queues(uint64_t session);
  void write_sequence(const nd_register_write* writes, size_t count);
  // Creates a notification queue for a client, or replaces one that is to be made anew (`force`) or
  // that a process has left behind; `mutex` is held by the caller. -EBUSY for that of another
  // process that has the device open: its memory stays until the process or a reset gives it up.
  int set_notification_queue(const nd_nq_key& key, const Client& client, uint32_t size, bool host,
                             uint32_t hbm, uint32_t region, bool force, NotificationQueue** queue);
  // BAR0 offset of a core's semaphore block.
  uint64_t semaphores(uint32_t core) const {
    return nd_chip_core_window(&layout_, core) + NEURON_CORE_SEMAPHORES;
  }
  // True for a mapping offset of what RESOURCE_MMAP_INFO names in BAR0.
  bool is_register_cookie(uint64_t offset) const;
  // True for a register of a semaphore or event page, which may be mapped by user space.
  bool is_mappable_register(uint64_t offset) const;
  // The core in whose semaphore block the register lies; cores() if it is in none.
  uint32_t core_of_register(uint64_t offset) const;

  // 0, or -ENODEV with a sentence while the chip does not answer.
  int check_present() const;

  unsigned index() const { return index_; }
  unsigned cores() const { return profile_.cores; }
  const profiles::Profile& profile() const { return profile_; }
  // Where the blocks of the chip lie.
  const nd_chip& layout() const { return layout_; }
  const profiles::ChipPlace& place() const { return profile_.places[index_]; }
  chip::Chip& chip() { return *chip_; }
  DeviceMemory& memory() { return *memory_; }
  CopyRing& ring(uint32_t core) { return *rings_[core]; }
  // With firmware_mutex() held: the firmware takes one request at a time, resets included. It is
  // taken before `mutex`.
  Firmware& firmware() { return *firmware_; }
  std::mutex& firmware_mutex() { return firmware_mutex_; }
  // Of the chip at a place of an instance, which is node `node` of its UltraServer.
  static uint64_t serial_number(const profiles::ChipPlace& place, unsigned node) {
    return 0x4E450000ull + node * profiles::kMaxChips + place.routing_id;
  }
  // Opaque base of register addresses, as DEVICE_INFO gives it.
  uint64_t bar_address() const { return 0xFFFF800000000000ull + (uint64_t{index_} << 32); }

  // Everything below is guarded by `mutex`.
  std::mutex mutex;
  nd_process_table processes{};
  std::array<Client, ND_PROCESSES> clients{};  // who each of `processes` is
  // Places that are kept for users who have none yet: whoever forks does not shut everybody out.
  // Twelve are left for one user, and no device has more than eight cores. The user whose process
  // holds the devices may have all: on a machine of one user there is nobody to keep places for.
  static constexpr uint32_t kPlacesForOthers = 4;
  bool has_place_for(const Client& client) const;
  // Whether something belongs to another process that still has the device open. What a process
  // has left behind is free for all, also under a pid that was given out again.
  bool is_anothers(const Client& owner, const Client& caller);
  nd_datastore_table datastores{};
  std::array<Chunk*, ND_DATASTORES> datastore_memory{};
  std::array<std::array<QueueState, NEURON_DMA_QUEUES>, ND_MAX_DMA_ENGINES> queues{};
  std::array<CoreState, ND_MAX_CORES> core_state{};
  std::map<int32_t, int> reset_results;  // by process, until NC_RESET_READY fetches it
  // By process, bit n: a scrub of HBM n that HBM_SCRUB_WAIT has not fetched.
  std::map<int32_t, uint32_t> scrubbed;
  bool metrics_paused = false;
  Statistics statistics;
  // Keeps the counters of a datastore and clears it.
  void release_datastore(uint32_t slot);

 private:
  void destroy_notification_queues(uint32_t core_map);
  void start_engines(uint32_t core_map);
  // Whether the engine of a core's host copies also serves a core outside the map.
  bool shares_engine_with_others(uint32_t core, uint32_t core_map) const;

  const unsigned index_;
  const profiles::Profile& profile_;
  const nd_chip& layout_;
  IoSpace& io_;
  HostArena& arena_;
  HostArena& own_;
  MemoryBudget& budget_;
  MemoryFiles& files_;
  std::unique_ptr<chip::Chip> chip_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Firmware> firmware_;
  std::vector<std::unique_ptr<CopyRing>> rings_;
  Chunk* dummy_ring_ = nullptr;
  std::mutex firmware_mutex_;
  std::array<std::array<NotificationQueue, ND_NQ_PER_DEVICE>, ND_MAX_CORES> core_queues_{};
  std::array<std::array<NotificationQueue, ND_NQ_PER_DEVICE>, ND_MAX_TOPSPS> topsp_queues_{};
};

}  // namespace neuron::service

#endif
