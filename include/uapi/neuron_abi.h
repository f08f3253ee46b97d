/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Base types of the interface between user space and the neuron character device.
 *
 * Included by every other header of this folder, by the kernel module, by the driver core and by
 * the user-space driver library; C11 and C++17, no library. Structs here are memory shared with a
 * kernel: x86-64 layout only, never packed, and a released struct never changes size.
 */
#ifndef NEURON_UAPI_ABI_H
#define NEURON_UAPI_ABI_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stddef.h>
#endif

/*
 * Flexible array members, anonymous structs and 64-bit bit fields are extensions in C11 or C++17
 * that every compiler of this project has; the pair keeps -pedantic quiet for exactly one member.
 */
#if defined(__GNUC__)
#define NEURON_EXTENSION_BEGIN \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wpedantic\"")
#define NEURON_EXTENSION_END _Pragma("GCC diagnostic pop")
#else
#define NEURON_EXTENSION_BEGIN
#define NEURON_EXTENSION_END
#endif

#endif /* NEURON_UAPI_ABI_H */
