/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/process_table.h"

struct nd_process *nd_process_find(struct nd_process_table *table, int32_t pid)
{
	uint32_t i;

	for (i = 0; i < ND_PROCESSES; i++)
		if (table->slot[i].pid == pid)
			return &table->slot[i];
	return NULL;
}

int nd_process_attach(struct nd_process_table *table, int32_t pid)
{
	struct nd_process *process = nd_process_find(table, pid);

	if (pid == 0)
		return -ND_EINVAL;
	if (!process) {
		process = nd_process_find(table, 0);
		if (!process)
			return -ND_EBUSY;
		memset(process, 0, sizeof(*process));
		process->pid = pid;
	}
	process->references++;
	return 0;
}

bool nd_process_detach(struct nd_process_table *table, int32_t pid)
{
	struct nd_process *process = pid ? nd_process_find(table, pid) : NULL;

	if (!process || --process->references)
		return false;
	memset(process, 0, sizeof(*process));
	return true;
}

uint32_t nd_process_count(const struct nd_process_table *table)
{
	uint32_t count = 0;
	uint32_t i;

	for (i = 0; i < ND_PROCESSES; i++)
		count += table->slot[i].pid != 0;
	return count;
}

static struct nd_datastore *find(struct nd_datastore_table *table, int32_t pid)
{
	uint32_t i;

	for (i = 0; i < ND_DATASTORES; i++)
		if (table->slot[i].pid == pid)
			return &table->slot[i];
	return NULL;
}

int nd_datastore_acquire(struct nd_datastore_table *table, int32_t pid, bool create, uint32_t *slot)
{
	struct nd_datastore *found = pid ? find(table, pid) : NULL;
	uint32_t i;

	if (pid == 0)
		return -ND_EINVAL;
	if (!found && !create)
		return -ND_ENOENT;
	for (i = 0; !found && i < ND_DATASTORES; i++)
		if (table->slot[i].pid == 0)
			found = &table->slot[i];
	if (!found)
		return -ND_ENOMEM;
	for (i = 0; found->pid == 0 && i < ND_DATASTORES; i++)
		if (table->slot[i].pid == 0 && table->slot[i].cleared < found->cleared)
			found = &table->slot[i];
	found->pid = pid;
	*slot = (uint32_t)(found - table->slot);
	return 0;
}

int nd_datastore_release(struct nd_datastore_table *table, int32_t pid, uint32_t *slot)
{
	struct nd_datastore *found = pid ? find(table, pid) : NULL;

	if (!found)
		return -ND_ENOENT;
	found->pid = 0;
	found->cleared = ++table->clock;
	*slot = (uint32_t)(found - table->slot);
	return 0;
}
