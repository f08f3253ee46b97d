/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/core_lock.h"

#include "uapi/neuron_shared.h"

static bool is_key(const struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32])
{
	return lock->pid == pid && memcmp(lock->uuid, uuid, sizeof(lock->uuid)) == 0;
}

int nd_core_lock_write(struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32])
{
	if (lock->writer || lock->readers)
		return -ND_EAGAIN;
	lock->writer = true;
	if (is_key(lock, pid, uuid))
		return -ND_EALREADY;
	lock->pid = pid;
	memcpy(lock->uuid, uuid, sizeof(lock->uuid));
	return 0;
}

int nd_core_lock_downgrade(struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32])
{
	if (!lock->writer)
		return -ND_EINVAL;
	if (!is_key(lock, pid, uuid))
		return -ND_ENOENT;
	lock->writer = false;
	lock->readers = 1;
	return 0;
}

int nd_core_lock_read(struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32])
{
	if (lock->writer)
		return -ND_EAGAIN;
	if (!is_key(lock, pid, uuid))
		return -ND_ENOENT;
	lock->readers++;
	return 0;
}

int nd_core_lock_read_exit(struct nd_core_lock *lock, int32_t pid, const uint8_t uuid[32])
{
	if (lock->readers == 0)
		return -ND_EINVAL;
	if (!is_key(lock, pid, uuid))
		return -ND_ENOENT;
	lock->readers--;
	return 0;
}

void nd_core_lock_drop(struct nd_core_lock *lock, int32_t pid)
{
	if (lock->pid == pid)
		memset(lock, 0, sizeof(*lock));
}

int nd_core_init_set(uint32_t *state, uint32_t wanted)
{
	switch (wanted) {
	case NEURON_CINIT_STATE_STARTED:
		if (*state == NEURON_CINIT_STATE_STARTED)
			return -ND_EAGAIN;
		if (*state != NEURON_CINIT_STATE_COMPLETED)
			*state = NEURON_CINIT_STATE_STARTED;
		return 0;
	case NEURON_CINIT_STATE_COMPLETED:
		if (*state == NEURON_CINIT_STATE_STARTED)
			*state = NEURON_CINIT_STATE_COMPLETED;
		return 0;
	case NEURON_CINIT_STATE_INVALID:
		*state = NEURON_CINIT_STATE_INVALID;
		return 0;
	default:
		return -ND_EINVAL;
	}
}
