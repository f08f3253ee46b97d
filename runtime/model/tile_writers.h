// SPDX-License-Identifier: Apache-2.0
//
// Which transfers of a model write SBUF or PSUM, for reports about reads that came too early.
// Callers: loader (builds it once per model), fault reports. Thread-safe: const. Owns a copy of
// what it tells. Fails: never; a byte that no transfer writes has none.
#ifndef RUNTIME_MODEL_TILE_WRITERS_H
#define RUNTIME_MODEL_TILE_WRITERS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rings/ring_plan.h"

namespace neuron::runtime {

// A transfer into a state buffer.
struct TileWriter {
  uint8_t engine = 0;  // whose program triggers it
  uint32_t id = 0;
  uint8_t queue = 0;      // hardware queue number
  uint8_t queues = 1;     // DMA engines that share it
  std::string queue_set;  // its name
  uint64_t begin = 0;     // byte of the core's window at which `to` begins
  neff::DmaAccess to;
  std::optional<uint8_t> semaphore, event;  // what says that it is done
};

class TileWriters {
 public:
  TileWriters() = default;
  TileWriters(const neff::Subgraph& subgraph, const RingPlan& rings);

  // The first transfer that writes the byte of the core's window; of this hardware queue, if it is
  // given. Null: there is none.
  const TileWriter* find(uint64_t offset, std::optional<uint8_t> queue) const;

 private:
  std::vector<TileWriter> writers_;
};

}  // namespace neuron::runtime

#endif
