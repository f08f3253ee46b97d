// SPDX-License-Identifier: GPL-2.0-only
/*
 * Datastores: 16 per device, 256 KiB each, in which processes publish counters. When one is
 * released its counters are added to those of sysfs. The memory of a slot is made when it is first
 * used and kept for the next process.
 */
#include "driver/kmod/neuron.h"

int nd_datastore_create(struct neuron_device *nd)
{
	mutex_init(&nd->datastore_lock);
	return 0;
}

void nd_datastore_destroy(struct neuron_device *nd)
{
	u32 i;

	for (i = 0; i < ND_DATASTORES; i++) {
		nd_chunk_free(nd->datastore_memory[i]);
		nd->datastore_memory[i] = NULL;
	}
}

/* The word of a core's counter: cores beyond the fourth are in the extension. */
static const u64 *core_counter(const u8 *base, u32 core, u32 index)
{
	if (core >= NDS_MAX_NEURONCORE_COUNT)
		return NDS_EXT_NEURONCORE_NC_DATA(base, core - NDS_MAX_NEURONCORE_COUNT) + index;
	if (index < NDS_NC_COUNTER_COUNT)
		return NDS_NEURONCORE_COUNTERS(base, core) + index;
	return NDS_EXT_NEURONCORE_COUNTERS(base, core) + (index - NDS_NC_COUNTER_COUNT);
}

/* Other processes may still write to the mapping, so each word is read once. */
static void fold(struct neuron_device *nd, u32 slot)
{
	u8 *base = nd->datastore_memory[slot]->va;
	u32 core, index;

	for (core = 0; core < nd->cores; core++) {
		for (index = 0; index < NDS_EXT_NC_COUNTER_LAST; index++) {
			const u64 *word = core_counter(base, core, index);
			u64 value = READ_ONCE(*word);

			if (value)
				nd_sysfs_add(nd, core, index, value);
		}
	}
	memset(base, 0, ND_DATASTORE_BYTES);
}

static int acquire(struct neuron_device *nd, pid_t pid, bool create, u64 *address)
{
	struct nd_chunk *spare = NULL;
	bool done = false;
	int result = 0;

	while (!done && !result) { /* bounded: the second round has memory at hand */
		u32 slot;

		mutex_lock(&nd->datastore_lock);
		result = nd_datastore_acquire(&nd->datastores, pid, create, &slot);
		if (!result && !nd->datastore_memory[slot] && spare) {
			nd->datastore_memory[slot] = spare;
			spare = NULL;
		}
		if (!result) {
			done = nd->datastore_memory[slot];
			if (done)
				*address = nd->datastore_memory[slot]->address;
			else
				nd_datastore_release(&nd->datastores, pid, &slot);
		}
		mutex_unlock(&nd->datastore_lock);
		if (!done && !result)
			result = nd_memory_allocate_host(nd, ND_DATASTORE_BYTES, 0,
							 NEURON_MEMALLOC_TYPE_NCDEV_HOST, &spare);
	}
	nd_chunk_free(spare);
	return result;
}

static int acquire_datastore(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			     void __user *user)
{
	struct neuron_ioctl_neuron_ds_info *info = argument;
	struct neuron_device *nd = file->nd;
	pid_t pid = info->pid ? info->pid : nd_current_pid();
	u64 address;
	int result;

	result = acquire(nd, pid, !info->pid, &address);
	if (result)
		return result;
	info->mmap_offset = address;
	info->size = ND_DATASTORE_BYTES;
	return 0;
}

void nd_datastore_process_exit(struct neuron_device *nd, pid_t pid)
{
	u32 slot;

	mutex_lock(&nd->datastore_lock);
	if (!nd_datastore_release(&nd->datastores, pid, &slot))
		fold(nd, slot);
	mutex_unlock(&nd->datastore_lock);
}

/* Only the caller's own; for another process nothing happens. */
static int release_datastore(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			     void __user *user)
{
	const struct neuron_ioctl_neuron_ds_info *info = argument;
	pid_t pid = nd_current_pid();

	if (!info->pid || info->pid == pid)
		nd_datastore_process_exit(file->nd, pid);
	return 0;
}

void nd_datastore_clear_all(struct neuron_device *nd)
{
	u32 i, slot;

	mutex_lock(&nd->datastore_lock);
	for (i = 0; i < ND_DATASTORES; i++) {
		pid_t pid = nd->datastores.slot[i].pid;

		if (pid && !nd_datastore_release(&nd->datastores, pid, &slot))
			fold(nd, slot);
	}
	mutex_unlock(&nd->datastore_lock);
}

const struct nd_handler nd_datastore_handlers[] = {
	{ NEURON_IOCTL_ACQUIRE_NEURON_DS, ND_OUT_SUCCESS, acquire_datastore },
	{ NEURON_IOCTL_RELEASE_NEURON_DS, ND_OUT_NONE, release_datastore },
	{ 0, ND_OUT_NONE, NULL },
};
