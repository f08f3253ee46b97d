// SPDX-License-Identifier: Apache-2.0
// Names of element types and reductions, for sentences and dumps. Thread-safe: functions of their
// arguments. Cannot fail: unknown numbers are "unknown".
#ifndef CCOM_BASE_NAMES_H
#define CCOM_BASE_NAMES_H

#include <cstdint>

namespace neuron::ccom {

const char* type_name(uint32_t type);
const char* reduction_name(uint32_t reduction);

}  // namespace neuron::ccom

#endif
