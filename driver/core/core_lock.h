/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Reader-writer lock of one core, keyed by process and model, and the once-per-reset initialisation
 * handshake of a core. A writer switches the core to its model, then becomes the first reader.
 *
 * Callers: the lock calls, holding the core's lock. Nothing waits here: -EAGAIN means "try again
 * until your deadline".
 */
#ifndef DRIVER_CORE_CORE_LOCK_H
#define DRIVER_CORE_CORE_LOCK_H

#include "driver/core/os.h"

ND_BEGIN

struct nd_core_lock {
	bool writer;
	int32_t pid;
	uint8_t uuid[32];
	uint32_t readers;
};

/* -EALREADY with the lock taken when process and model are the current ones. */
int nd_core_lock_write(struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32]);
/* -EINVAL without a writer, -ENOENT if the writer is another process or model. */
int nd_core_lock_downgrade(struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32]);
/* -EAGAIN while there is a writer; -ENOENT if process or model differ. */
int nd_core_lock_read(struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32]);
/* -EINVAL without readers. */
int nd_core_lock_read_exit(struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32]);
/* Forgets the lock if the process holds it. */
void nd_core_lock_drop(struct nd_core_lock *lock, int32_t pid);

/* enum neuron_cinit_state. Returns -EAGAIN while another process initialises the core. */
int nd_core_init_set(uint32_t *state, uint32_t wanted);

ND_END

#endif
