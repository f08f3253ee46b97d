// SPDX-License-Identifier: Apache-2.0
//
// Which descriptors the DMA rings of a model hold, before any address is known.
// One hardware queue replays a ring. A queue set has one ring for the main program's transfers, one
// for each of its instances, and one for each function that has transfers in it. Each ring has a
// hardware queue of its own on the set's DMA engines. Each transfer becomes packets
// (ring_packets.h), spread over the engines in contiguous blocks; then one packet on each engine
// adds 1 to the completion semaphore behind a write barrier. A function's ring holds its transfers
// several times over and has exactly as many slots, so that it wraps by itself. A dynamic queue's
// ring is empty. If these are more rings than a core has queues, functions of an engine share
// queues (SharedRing). Callers: loader (builds it once per model), DescriptorRings (fills in
// addresses). Thread-safe: const. Fails: NRT_INVALID or NRT_UNSUPPORTED_NEFF_VERSION with engine,
// block id, found and allowed.
#ifndef RUNTIME_RINGS_RING_PLAN_H
#define RUNTIME_RINGS_RING_PLAN_H

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/rings/ring_packets.h"

namespace neuron::runtime {

inline constexpr uint32_t kDmaEngines = 16;  // of one core
inline constexpr uint32_t kMaxQueues = 14;   // 14 and 15 are reserved
// For all rings of one model together, free slots included: 256 MiB of descriptors a side.
inline constexpr uint64_t kMaxPackets = 1ull << 24;

// Descriptors per DMA engine of one trigger.
struct TriggerCounts {
  std::array<uint16_t, kDmaEngines> m2s{};
  std::array<uint16_t, kDmaEngines> s2m{};
  bool operator==(const TriggerCounts&) const = default;
};

// Both halves of one queue of one DMA engine.
struct RingPair {
  std::vector<RingDescriptor> m2s, s2m;
  uint32_t m2s_length = 0, s2m_length = 0;  // slots
  uint64_t m2s_offset = 0, s2m_offset = 0;  // bytes in the memory of all rings
  uint32_t m2s_copies = 1, s2m_copies = 1;  // of the descriptors above, one behind the other
};

// The semaphore that queue `e` of the set increments when its part of the transfer has moved.
std::optional<uint8_t> completion_semaphore(const neff::DmaTransfer& transfer,
                                            const neff::QueueSet& set, uint32_t e);

struct QueuePlan {
  uint8_t number = 0;
  uint8_t engines = 0;
  std::string name;  // "in", "in:instance", "in, function late of SP"
  bool dynamic = false;
  bool shared = false;  // `rings` are those of several functions, one behind the other
  std::array<RingPair, kDmaEngines> rings;
};

// A function's ring on a queue that functions share. It is a part of that queue's memory. A call of
// the function first waits until the queue is idle, then makes the part the queue's ring and
// rewinds it, so that the function's first trigger finds its first descriptor. It holds the
// function's transfers once.
struct SharedRing {
  uint8_t number = 0;   // of the queue
  uint8_t engines = 0;  // DMA engines
  // Where it begins in the memory of all rings: bytes, by DMA engine; of M2S, then of S2M.
  std::array<std::array<uint64_t, 2>, kDmaEngines> offset{};
};

// A function whose rings are all on shared queues.
struct SharingFunction {
  uint32_t pc = 0;              // its first instruction
  std::vector<uint32_t> calls;  // the instructions that call it
  std::vector<SharedRing> rings;
};

// Bytes of a ring of so many slots, with those behind it up to the next ring.
uint64_t ring_bytes(uint32_t length);

class FunctionCalls;

class RingPlan {
 public:
  static Result<RingPlan> build(const neff::Subgraph& subgraph);

  // Hardware queues in use, ascending by number.
  const std::vector<QueuePlan>& queues() const { return queues_; }
  // The queue number of the ring that a trigger of this transfer of `engine` pushes.
  uint8_t number(uint32_t engine, const neff::DmaTransfer& transfer) const;
  // The queue number of queue set `set` itself, whose ring is dynamic or the main program's. Empty:
  // the set has neither ring, and nothing may name it.
  std::optional<uint8_t> number(uint32_t set) const;
  const TriggerCounts& counts(uint32_t engine, const neff::DmaTransfer& transfer) const;
  // The functions of an engine that share queues; most programs have none.
  const std::vector<SharingFunction>& sharing(uint32_t engine) const { return sharing_[engine]; }
  bool shares() const;
  // The place of a word that says where the memory of all rings begins: its low half. The loader
  // chooses it if functions share; the ring table of each binding writes it.
  void put_base_at(uint64_t place) { base_place_ = place; }
  uint64_t base_place() const { return base_place_; }
  // Bytes of the memory of all rings; those of M2S come first.
  uint64_t m2s_bytes() const { return bytes_[0]; }
  uint64_t s2m_bytes() const { return bytes_[1]; }

  // The table of addresses: the variables, the constant 1, increment alias of semaphore 0, event 0;
  // of a virtual core of two also the increment alias of semaphore 0 of its other core.
  uint32_t one_index() const { return one_; }
  uint32_t semaphore_index() const { return one_ + 1; }
  uint32_t event_index() const { return one_ + 2; }
  uint32_t peer_semaphore_index() const { return one_ + 3; }
  // Descriptors of both sides, copies included.
  uint64_t descriptor_count() const { return descriptors_; }

 private:
  // Set, instance, engine and function + 1; the latter two are 0 for the main program.
  using RingKey = std::tuple<uint32_t, std::string, uint32_t, uint32_t>;
  // Engine, function + 1, id
  using BlockKey = std::tuple<uint32_t, uint32_t, uint32_t>;

  static RingKey ring_key(uint32_t engine, const neff::DmaTransfer& transfer);
  static BlockKey block_key(uint32_t engine, const neff::DmaTransfer& transfer);
  QueuePlan& ring(const neff::Subgraph& subgraph, uint32_t engine,
                  const neff::DmaTransfer& transfer);
  Result<void> add_transfers(const neff::Subgraph& subgraph);
  Result<TriggerCounts> add(const neff::Subgraph& subgraph, const neff::DmaTransfer& transfer,
                            QueuePlan& queue);
  Result<void> size_rings(QueuePlan& queue, bool function);
  Result<void> number_queues(const neff::Subgraph& subgraph);
  // Puts the rings of an engine's functions (indexes into queues_, by entry) on queues that are
  // numbered from `first` on.
  Result<std::vector<QueuePlan>> share(const neff::EngineProgram& program,
                                       const FunctionCalls& calls,
                                       const std::map<uint32_t, std::vector<uint32_t>>& rings,
                                       size_t first);
  void place_rings();

  std::vector<QueuePlan> queues_;
  std::map<RingKey, uint32_t> rings_;  // index into queues_
  std::map<BlockKey, TriggerCounts> blocks_;
  std::map<RingKey, uint32_t> triggering_;  // engine whose transfers a main ring holds
  std::array<std::vector<SharingFunction>, NEURON_CORE_ENGINES> sharing_;
  std::array<uint64_t, 2> bytes_{};
  uint64_t base_place_ = 0;
  uint32_t one_ = 0;
  uint64_t descriptors_ = 0;
};

}  // namespace neuron::runtime

#endif
