// SPDX-License-Identifier: Apache-2.0
// Which of GpSimd's cores runs the operator.
#ifndef DRIVER_OPERATOR_NEURON_NEURON_UTILS_HPP
#define DRIVER_OPERATOR_NEURON_NEURON_UTILS_HPP

#include <cstdint>

#include "driver/operator/process.h"

inline uint32_t get_cpu_id() { return neuron::operators::place.core; }
inline uint32_t get_cpu_count() { return neuron::operators::place.cores; }

#endif
