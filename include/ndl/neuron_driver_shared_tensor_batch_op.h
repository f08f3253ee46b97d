// SPDX-License-Identifier: Apache-2.0
// nrt_tensor_batch_op_t: one transfer of a batched tensor read or write.
//
// A header of its own, because the runtime's public nrt.h needs it without the rest of the driver
// interface. The definition is the kernel interface's.
#ifndef NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H
#define NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H

#include "uapi/neuron_tensor_batch_op.h"

#endif  // NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H
