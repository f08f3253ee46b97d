// SPDX-License-Identifier: Apache-2.0
// Definitions that drivers, libraries and operator tools share: feature bits, notification queue
// kinds, memory categories, process information, and the layout of the datastore.
//
// The definitions are those of the kernel interface (uapi/); this header gives them to user space
// with the stdint names that their accessor macros need. Holds no functions.
#ifndef NEURON_DRIVER_SHARED_H
#define NEURON_DRIVER_SHARED_H

#include <stdint.h>

#include "uapi/neuron_datastore.h"
#include "uapi/neuron_shared.h"

#endif  // NEURON_DRIVER_SHARED_H
