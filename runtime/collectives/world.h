// SPDX-License-Identifier: Apache-2.0
//
// The ranks that take part in collectives, as seen by one of them, and where each rank computes.
// Two kinds: all ranks in this process, one virtual core each, which meet in memory
// (NEURON_RT_ROOT_COMM_ID unset); or ranks of several processes, which meet through libccom at that
// address. Callers: loading of models with collectives, nrt_barrier, nrt_all_gather, host-driven
// collectives. Thread-safe: exchanges of one rank take turns. Owns: the communicator.
// Fails: NRT_TIMEOUT with the ranks that did not come; NRT_INVALID when ranks do not fit together,
// with both sides. Nothing waits longer than NEURON_OPEN_COLLECTIVES_TIMEOUT.
#ifndef RUNTIME_COLLECTIVES_WORLD_H
#define RUNTIME_COLLECTIVES_WORLD_H

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "driver/base/timed_mutex.h"
#include "runtime/collectives/library.h"
#include "runtime/collectives/meeting.h"
#include "runtime/device/core.h"

namespace neuron::runtime {

// Where a rank computes. Processes of one version exchange it as raw bytes.
struct MemberPlace {
  char host[64] = {};
  int32_t process = 0;
  uint32_t embedded = 0;  // its process emulates its own devices
  uint32_t device = 0;    // number on the host
  uint32_t chip = 0;      // routing id
  uint32_t core = 0;      // physical core of the chip
  uint32_t generation = 0;
  // Of the devices that reach each other: the same for ranks of one instance, or of one
  // UltraServer, whose nodes then are one instance here, unless it has more ranks than a CC core
  // has counters of credits for.
  uint64_t instance_key = 0;
  uint32_t instance = 0;  // numbered by the first rank that is there; filled in by World
  uint32_t node = 0;      // of the UltraServer; 0: of none
  uint32_t credit = 0;    // as ccom_device_member_t has it; filled in by World
  uint32_t reserved = 0;
  uint64_t process_space = 0;  // in which `process` counts
};

// What an exchange is for. All ranks make the same exchanges in the same order; each exchange
// checks that they do by this value.
enum class Occasion : uint8_t { kJoin, kBarrier, kAllGather, kLoad, kReady, kPrepare };

class World {
 public:
  // `meeting`: where the ranks of this process meet; null: the ranks meet through libccom at
  // `root`.
  static Result<std::shared_ptr<World>> join(Core& core, uint32_t rank, uint32_t size,
                                             std::shared_ptr<Meeting> meeting,
                                             const std::string& root,
                                             std::chrono::milliseconds timeout);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return static_cast<uint32_t>(size_); }
  const std::vector<MemberPlace>& members() const { return members_; }
  // Fails, with the reason, if this rank cannot exchange data with every other rank.
  Result<void> check_reachable() const;
  // Which numbers the ranks' counters of credits have: 0 where chip and core give them.
  uint64_t credit_numbering() const { return credit_numbering_; }
  // Some ranks are on other instances: their data goes over the network.
  bool spans_instances() const;
  // Opens a proxy for those; all ranks call it together.
  Result<ccom_device_proxy_t*> open_proxy(const ccom_device_host_t& host);

  // Every rank gives `mine` and gets the messages of all, by rank. `number` receives the number of
  // the exchange, which is the same on all ranks; failure_since() takes it.
  Result<std::vector<Message>> exchange(Occasion occasion, std::span<const std::byte> mine,
                                        uint64_t* number = nullptr);
  Result<void> barrier();
  // Keeps exchanges together: while the lock is held, no other thread of this rank makes an
  // exchange.
  Result<std::unique_lock<base::TimedMutex>> hold();
  // Fails if a process of the world is known to be gone, and names it. Any thread; waits for
  // nothing.
  Result<void> check_peers();
  // "rank 3 (process 71 on HOST) is stopped by a signal": of the ranks whose processes this one
  // sees; "": none of them is. Any thread; waits for nothing.
  std::string stopped_ranks() const;
  // Whether it sees all of them.
  bool sees_all_processes() const;
  // Tells all ranks that an execution of this rank has failed, and why. Any thread; waits for
  // nothing.
  void note_failure(const std::string& sentence);
  // The failure that other ranks have reported, as Meeting::failure_since(). Any thread; waits for
  // nothing.
  std::optional<std::string> failure_since(uint64_t number);
  // True once ranks of other processes cannot be reached through this world any more.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  World(uint32_t rank, uint32_t size, std::chrono::milliseconds timeout)
      : rank_(rank), size_(size), timeout_(timeout) {}
  void part_large_ultra_servers();
  void number_members(uint32_t cores);  // of a chip
  Result<std::vector<Message>> exchange_somehow(std::span<const std::byte> mine);
  Result<std::vector<Message>> exchange_through_library(std::span<const std::byte> mine);
  Result<void> gather(const void* mine, void* all, uint64_t bytes);

  const uint32_t rank_;
  const uint32_t size_;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<Meeting> meeting_;
  const CollectivesLibrary* library_ = nullptr;
  base::TimedMutex held_;   // taken before mutex_
  base::TimedMutex mutex_;  // exchanges; comm_, except to send and read failures
  ccom_comm_t* comm_ = nullptr;
  std::atomic<bool> failed_{false};  // relaxed: a hint for threads that look for a world
  // Exchanges through the library, counted as Meeting does. Relaxed: a failure during an exchange
  // may be counted before or after it.
  std::atomic<uint64_t> exchanges_{0};
  std::vector<MemberPlace> members_;
  uint64_t credit_numbering_ = 0;
};

}  // namespace neuron::runtime

#endif
