// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"

namespace neuron::core {

Fault execute_pool(UnitContext& context, const isa::Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_IOTA:
      return execute_iota(context, i);
    case NEURON_OP_AFFINE_SELECT:
      return affine_select(context, i);
    case NEURON_OP_PARTITION_REDUCE:
      return partition_reduce(context, i);
    case NEURON_OP_LOCAL_GATHER:
      return local_gather(context, i);
    case NEURON_OP_N_GATHER:
      return n_gather(context, i);
    case NEURON_OP_SEQUENCE_BOUNDS:
      return sequence_bounds(context, i);
    case NEURON_OP_NONZERO_WITH_COUNT:
      return nonzero_with_count(context, i);
    case NEURON_OP_TOPK:
      return topk(context, i);
    case NEURON_OP_CUSTOM:
      return execute_custom(context, i);
    default:
      return make_fault(NEURON_FAULT_ILLEGAL_OPCODE, 0, i.opcode, NEURON_INST_HEAD);
  }
}

}  // namespace neuron::core
