/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C interface between the driver library (driver/ndl, port_embedded) and the embedded device
 * (libneuron-emulator.so.1): the system calls that a kernel driver would serve, as functions.
 *
 * The library exports one symbol, neuron_emulator_interface. An instance holds the devices of one profile and is
 * private to the process; a device handle is what open("/dev/neuronN") would return. ioctl numbers and structs
 * are those of include/uapi. Every function is thread-safe, never throws and never aborts; errors are negative errno
 * values; `last_error` has the sentence of this thread's last failure.
 * Closing a handle frees everything that was obtained through it. `destroy` closes what is open.
 */
#ifndef NDL_EMULATOR_H
#define NDL_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#include "uapi/neuron_observe.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NEURON_EMULATOR_INTERFACE_VERSION 1u

typedef struct neuron_emulator_instance neuron_emulator_instance_t;
typedef struct neuron_emulator_device neuron_emulator_device_t;

/* flags of write_register */
#define NEURON_EMULATOR_WRITE_INLINE 1u /* the caller calls `wait` at once and so runs the device itself */

struct neuron_emulator_interface {
	uint32_t version;
	uint32_t size; /* bytes of this struct; grows at the end only */

	/* Builds the devices of a profile ("trn1.2xlarge", "trn1.32xlarge", "inf2.xlarge", ...). 0 or -errno. */
	int (*create)(const char *profile, neuron_emulator_instance_t **instance);
	void (*destroy)(neuron_emulator_instance_t *instance);
	unsigned (*device_count)(neuron_emulator_instance_t *instance);
	/* open(2) of /dev/neuron<index> with O_RDWR or O_WRONLY. */
	int (*open)(neuron_emulator_instance_t *instance, unsigned index, int flags, neuron_emulator_device_t **device);
	int (*close)(neuron_emulator_device_t *device);
	/* ioctl(2): same return value convention as the kernel, but the error is returned as -errno. */
	int (*ioctl)(neuron_emulator_device_t *device, unsigned long request, void *argument);
	/* mmap(2) of a chunk or resource cookie: HBM, host chunks and datastores map; register blocks give -ENOTSUP. */
	int (*map)(neuron_emulator_device_t *device, size_t length, int protection, uint64_t offset, void **address);
	int (*unmap)(neuron_emulator_device_t *device, void *address, size_t length);
	/* BAR0 register at `offset`, for pages that a kernel port maps (semaphores, events). Same protection as the map. */
	int (*read_register)(neuron_emulator_device_t *device, uint64_t offset, uint32_t *value);
	int (*write_register)(neuron_emulator_device_t *device, uint64_t offset, uint32_t value, uint32_t flags);
	/* Waits until the 32-bit word at `word` (mapped host or HBM memory) differs from `old` or the absolute
	 * CLOCK_MONOTONIC time in ns has passed; runs the execution group of `core` in this thread meanwhile.
	 * 0, -ETIMEDOUT, or -EDEADLK when the group is quiescent and the word has not changed (describe says why). */
	int (*wait)(neuron_emulator_device_t *device, unsigned core, const uint32_t *word, uint32_t old,
		    uint64_t deadline_ns);
	/* State of the engines of a core in words, NUL-terminated; returns the length without NUL. */
	size_t (*describe)(neuron_emulator_device_t *device, unsigned core, char *buffer, size_t size);
	const char *(*last_error)(void);
	/* The answer to a question: at most `capacity` bytes, `*bytes` of them written; `*next` is 0, or the offset at
	 * which the rest of a longer answer is asked for. Does not wait: the answer says so if a device is being reset. */
	int (*observe)(neuron_emulator_instance_t *instance, const struct neuron_emulator_question *question,
		       void *answer, size_t capacity, size_t *bytes, uint64_t *next);
};

const struct neuron_emulator_interface *neuron_emulator_interface(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
