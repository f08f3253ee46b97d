// SPDX-License-Identifier: Apache-2.0
// A program of one transfer, from variable 0 to variable 1, for tests of ring plans and rings.
#ifndef TESTS_UNIT_RUNTIME_RINGS_RING_SAMPLE_H
#define TESTS_UNIT_RUNTIME_RINGS_RING_SAMPLE_H

#include "runtime/neff/model.h"

namespace neuron::test {

// The transfer has id 7 and semaphore 33; the one queue set has `engines` DMA engines.
inline neff::Subgraph one_transfer(const neff::DmaAccess& from, const neff::DmaAccess& to,
                                   uint32_t engines,
                                   neff::DmaOperation operation = neff::DmaOperation::kCopy) {
  neff::Subgraph graph;
  graph.variables.resize(2);
  graph.queues.resize(1);
  graph.queues[0].name = "q";
  graph.queues[0].num_queues = engines;
  neff::DmaTransfer transfer;
  transfer.id = 7;
  transfer.semaphore = 33;
  transfer.operation = operation;
  transfer.from = {from};
  transfer.to = to;
  transfer.to.variable = 1;
  graph.engines[NEURON_ENGINE_SP].dma.push_back(transfer);
  return graph;
}

}  // namespace neuron::test

#endif
