// SPDX-License-Identifier: Apache-2.0
// The driver library: a device and what it can do, without knowledge of models or tensors.
//
// The device is a kernel's /dev/neuronN, or an emulated one inside this process or shared by
// several (environment variable NEURON_EMULATOR). Callers: the runtime, the collectives library,
// operator tools.
//
// Rules for all functions: thread-safe, unless two calls work on the same bytes; 0 means success
// and a negative errno value failure, unless said otherwise; NULL where a pointer is needed gives
// -EINVAL; a handle that was freed or never existed gives -EINVAL; a device that was closed gives
// -ENODEV. Sizes and offsets are bytes. After fork() the child opens devices anew.
//
// Ownership: all memory, queues and locks of a process hang on its open device and are freed when
// it is closed or the process ends, however it ends.
#ifndef NDL_H
#define NDL_H

#include "ndl/ndl_bitmap.h"
#include "ndl/ndl_core.h"
#include "ndl/ndl_device.h"
#include "ndl/ndl_dma.h"
#include "ndl/ndl_memory.h"
#include "ndl/ndl_observe.h"
#include "ndl/ndl_types.h"

#endif  // NDL_H
