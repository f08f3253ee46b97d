// SPDX-License-Identifier: Apache-2.0
// How bandwidths of collectives are counted. Callers: nccom-test, neuron-profile. Thread-safe:
// pure. Cannot fail.
#ifndef TOOLS_COMMON_BUS_FACTOR_H
#define TOOLS_COMMON_BUS_FACTOR_H

#include <ccom/ccom.h>

#include <cstdint>

namespace neuron::tools {

// Bus bandwidth over algorithm bandwidth in a group of `ranks`: what each rank must send at least,
// over the bytes of the operation.
double bus_factor(ccom_operation_t operation, uint32_t ranks);

}  // namespace neuron::tools

#endif
