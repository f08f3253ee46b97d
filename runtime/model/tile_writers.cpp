// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/tile_writers.h"

namespace neuron::runtime {
namespace {

// Whether one of the runs of the access holds the byte, counted from its beginning.
bool holds(const neff::DmaAccess& access, uint64_t byte) {
  for (uint64_t outer = 0; outer < access.sizes[3]; ++outer) {
    for (uint64_t middle = 0; middle < access.sizes[2]; ++middle) {
      for (uint64_t inner = 0; inner < access.sizes[1]; ++inner) {
        // Steps may be negative; the differences wrap around to the same byte.
        const uint64_t run = outer * static_cast<uint64_t>(access.steps[3]) +
                             middle * static_cast<uint64_t>(access.steps[2]) +
                             inner * static_cast<uint64_t>(access.steps[1]);
        if (byte - run < access.sizes[0]) return true;
      }
    }
  }
  return false;
}

}  // namespace

TileWriters::TileWriters(const neff::Subgraph& subgraph, const RingPlan& rings) {
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    for (const neff::DmaTransfer& transfer : subgraph.engines[engine].dma) {
      const neff::Variable& variable = subgraph.variables[transfer.to.variable];
      if (variable.kind != neff::VariableKind::kStateBuffer) continue;
      const neff::QueueSet& set = subgraph.queues[transfer.queue];
      TileWriter writer;
      writer.engine = static_cast<uint8_t>(engine);
      writer.id = transfer.id;
      writer.queue = rings.number(engine, transfer);
      writer.queues = static_cast<uint8_t>(set.num_queues);
      writer.queue_set = set.name;
      writer.begin = variable.core_offset + transfer.to.offset;
      writer.to = transfer.to;
      writer.semaphore = completion_semaphore(transfer, set, 0);
      writer.event = transfer.event;
      writers_.push_back(std::move(writer));
    }
  }
}

const TileWriter* TileWriters::find(uint64_t offset, std::optional<uint8_t> queue) const {
  for (const TileWriter& writer : writers_) {
    if (queue && writer.queue != *queue) continue;
    if (holds(writer.to, offset - writer.begin)) return &writer;
  }
  return nullptr;
}

}  // namespace neuron::runtime
