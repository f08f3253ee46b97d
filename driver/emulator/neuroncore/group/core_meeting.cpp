// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/core_meeting.h"

#include <algorithm>
#include <utility>

#include "driver/emulator/neuroncore/engines/operand_view.h"
#include "driver/emulator/neuroncore/group/datapath.h"

namespace neuron::core {

using chip::PairExchange;

Fault CoreMeeting::send(Sequencer& s, const isa::Instruction& i) {
  if (strict_.is_on()) {
    isa::Instruction reads = i;
    reads.dst = {};
    if (Fault raised = strict_.check(s, reads)) return raised;
  }
  const OperandView source(state_.memory, i.src0);
  const size_t row = source.elements() * source.element_bytes();
  PairExchange::Tile tile{source.dtype(), source.partitions(), source.elements(),
                          std::vector<std::byte>(row * source.partitions())};
  for (unsigned p = 0; p < source.partitions(); ++p) {
    source.load_raw(p, 0, source.elements(), tile.contents.data() + p * row);
  }
  const unsigned other = PairExchange::other_core(state_.core);
  // A third tile is on its way only if the other core's semaphore was written by something else.
  if (state_.exchange->put(other, i.scalar0.value, std::move(tile))) return {};
  return make_fault(NEURON_FAULT_SEM_OVERFLOW, i.scalar0.value, PairExchange::kMost,
                    NEURON_INST_SCALAR0);
}

Fault CoreMeeting::arrive(Sequencer& s, const isa::Instruction& i, ModelTime now) {
  if (state_.exchange == nullptr) {
    return make_fault(NEURON_FAULT_BUS, PairExchange::other_core(state_.core), 4);
  }
  ModelTime told = now;
  if (i.opcode == NEURON_OP_SENDRECV) {
    if (Fault fault = send(s, i)) return fault;
    told += isa::cost_of(i, s.engine, state_.limits.generation).interval;
    s.sent_until = told;
  }
  const uint64_t window = state_.bus.layout().core_address(PairExchange::other_core(state_.core));
  const uint64_t address =
      window + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * uint64_t{i.scalar0.value};
  strict_.release_memory(s, now);
  if (Fault raised = strict_.stores(s, address, now)) return raised;
  if (!state_.bus.write32(address, 1, state_.access_of(s, told))) {
    return bus_fault(state_.bus, address);
  }
  s.met = true;
  return {};
}

Fault CoreMeeting::receive(Issue& issue) {
  const isa::Instruction& i = issue.i;
  std::optional<PairExchange::Tile> tile = state_.exchange->take(state_.core, i.scalar0.value);
  const OperandView dst(state_.memory, i.dst);
  if (!tile) {
    return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, 0, NEURON_INST_SRC0 + 8);
  }
  if (tile->dtype != i.dst.dtype) {
    return make_fault(NEURON_FAULT_OPERAND_DTYPE, 0, tile->dtype, NEURON_INST_DST + 4);
  }
  if (tile->partitions != dst.partitions() || tile->elements != dst.elements()) {
    const bool parts = tile->partitions != dst.partitions();
    return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0,
                      parts ? tile->partitions
                            : static_cast<uint32_t>(std::min<uint64_t>(tile->elements, UINT32_MAX)),
                      static_cast<uint8_t>(NEURON_INST_DST + (parts ? 3 : 8)));
  }
  if (strict_.is_on()) {
    isa::Instruction writes = i;
    writes.src0 = {};
    if (Fault raised = strict_.check(issue.s, writes)) return raised;
  }
  const size_t row = dst.elements() * dst.element_bytes();
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    dst.store_raw(p, 0, dst.elements(), tile->contents.data() + p * row);
  }
  issue.s.written = range_of(state_.memory, i.dst);
  // The other tile was here before its semaphore. The own one may still be on its way.
  issue.cost.interval = issue.s.sent_until > issue.now ? issue.s.sent_until - issue.now : 0;
  return {};
}

}  // namespace neuron::core
