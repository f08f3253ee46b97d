/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/handle_table.h"

void nd_handles_init(struct nd_handle_table *table)
{
	memset(table, 0, sizeof(*table));
	table->unused = 1; /* 0 is never a handle */
}

bool nd_handles_full(const struct nd_handle_table *table)
{
	return table->first_free == 0 && table->unused >= table->level_count * ND_HANDLES_PER_LEVEL;
}

int nd_handles_add_level(struct nd_handle_table *table, struct nd_handle_entry *entries)
{
	if (table->level_count == ND_HANDLE_LEVELS)
		return -ND_ENOENT;
	memset(entries, 0, ND_HANDLES_PER_LEVEL * sizeof(*entries));
	table->levels[table->level_count++] = entries;
	return 0;
}

static struct nd_handle_entry *entry_of(const struct nd_handle_table *table, uint32_t handle)
{
	return &table->levels[handle / ND_HANDLES_PER_LEVEL][handle % ND_HANDLES_PER_LEVEL];
}

int nd_handles_insert(struct nd_handle_table *table, void *object, uint32_t *handle)
{
	if (!object)
		return -ND_EINVAL;
	if (nd_handles_full(table))
		return -ND_ENOENT;
	if (table->first_free) {
		*handle = table->first_free;
		table->first_free = entry_of(table, *handle)->next_free;
	} else {
		*handle = table->unused++;
	}
	entry_of(table, *handle)->object = object;
	table->live++;
	return 0;
}

void *nd_handles_lookup(const struct nd_handle_table *table, uint64_t handle)
{
	if (handle == 0 || handle >= table->unused)
		return NULL;
	return entry_of(table, (uint32_t)handle)->object;
}

void *nd_handles_remove(struct nd_handle_table *table, uint64_t handle)
{
	void *object = nd_handles_lookup(table, handle);
	struct nd_handle_entry *entry;

	if (!object)
		return NULL;
	entry = entry_of(table, (uint32_t)handle);
	entry->object = NULL;
	entry->next_free = table->first_free;
	table->first_free = (uint32_t)handle;
	table->live--;
	return object;
}
