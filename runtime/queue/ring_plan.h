// SPDX-License-Identifier: Apache-2.0
//
// Which descriptors the DMA rings of a model hold, before any address is known.
// A queue set becomes one hardware queue (number = its index) on its DMA engines; each transfer of
// the engines' `dma` lists becomes packets of one descriptor a side, cut where either side's run
// ends and at 64 KiB, spread over the engines in contiguous blocks; then one packet on each engine
// adds 1 to the transfer's semaphore behind a write barrier.
// Callers: loader (builds it once per model), RingSet (fills in addresses). Thread-safe: const.
// Fails: NRT_INVALID or NRT_UNSUPPORTED_NEFF_VERSION with engine, block id, found and allowed.
#ifndef RUNTIME_QUEUE_RING_PLAN_H_
#define RUNTIME_QUEUE_RING_PLAN_H_

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

inline constexpr std::uint32_t kDmaEngines = 16;  // of one core
inline constexpr std::uint32_t kMaxQueues = 14;   // 14 and 15 are reserved
// Of one model, all rings together: 256 MiB of descriptors a side.
inline constexpr std::uint64_t kMaxPackets = 1ull << 24;

// One descriptor on each side. `from` and `to` are indices into the table of addresses of a
// binding: the subgraph's variables, then the constant 1, then semaphore 0's increment alias.
struct Packet {
  std::uint64_t from_offset = 0;
  std::uint64_t to_offset = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t length = 0;
  bool barrier = false;
};

using EngineCounts = std::array<std::uint16_t, kDmaEngines>;

struct QueuePlan {
  std::uint8_t number = 0;
  std::uint8_t engines = 0;
  std::uint32_t length = 0;  // descriptors of each ring of the queue
  std::array<std::vector<Packet>, kDmaEngines> packets;
};

class RingPlan {
 public:
  static Result<RingPlan> build(const neff::Subgraph& subgraph);

  // Queues that carry something, ascending by number.
  const std::vector<QueuePlan>& queues() const { return queues_; }
  const QueuePlan* queue(std::uint32_t number) const;
  // Descriptors per DMA engine of each trigger of block `id` by `engine`.
  const EngineCounts& counts(std::uint32_t engine, std::uint32_t id) const;
  // Index of the constant 1 in the table of addresses; the semaphores follow.
  std::uint32_t one_index() const { return one_; }
  std::uint32_t semaphore_index() const { return one_ + 1; }
  std::uint64_t packet_count() const { return packets_; }

 private:
  static std::uint64_t key(std::uint32_t engine, std::uint32_t id) {
    return std::uint64_t{engine} << 32 | id;
  }
  Result<EngineCounts> add(const neff::Subgraph& subgraph, std::uint32_t engine,
                           const neff::DmaTransfer& transfer, QueuePlan& queue);

  std::vector<QueuePlan> queues_;
  std::unordered_map<std::uint64_t, EngineCounts> blocks_;
  std::uint32_t one_ = 0;
  std::uint64_t packets_ = 0;
};

}  // namespace neuron::runtime

#endif  // RUNTIME_QUEUE_RING_PLAN_H_
