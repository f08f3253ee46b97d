// SPDX-License-Identifier: GPL-2.0-only
/*
 * Notification queues: memory that cores and CC cores fill. A queue outlives the process that asked
 * for it and goes with a reset of its core.
 */
#include <linux/delay.h>

#include "driver/kmod/neuron.h"

struct nd_nq_request {
	struct nd_nq_key key;
	u32 size;
	bool host;
	u32 hbm;
	u32 region;
	bool replace; /* even if the queue exists */
};

int nd_notification_create(struct neuron_device *nd)
{
	u32 i;

	for (i = 0; i < ND_MAX_CORES; i++)
		mutex_init(&nd->core[i].nq_lock);
	for (i = 0; i < ND_MAX_TOPSPS; i++)
		mutex_init(&nd->topsp[i].nq_lock);
	return 0;
}

static void point_at(struct neuron_device *nd, const struct nd_nq_key *key, u64 address, u32 size)
{
	struct nd_register_write writes[ND_NQ_WRITES];

	nd_write_sequence(nd, writes, nd_nq_sequence(nd->chip, key, address, size, writes));
}

static int create(struct neuron_device *nd, const struct nd_nq_request *request,
		  struct nd_notification_queue *queue)
{
	const struct nd_nq_key *key = &request->key;
	struct nd_memory_request wanted = {
		.size = request->size,
		/* The hardware wants a ring in HBM aligned to its size. */
		.alignment = request->host ? 0 : request->size,
		.host = request->host,
		.hbm = request->hbm,
		.region = request->region,
		.core = key->topsp ? key->device / nd->chip->topsps_per_core : key->device,
		.category = request->host ? NEURON_MEMALLOC_TYPE_NOTIFICATION_HOST
					  : NEURON_MEMALLOC_TYPE_NOTIFICATION_DEVICE,
		.lifespan = ND_LIFE_DEVICE,
		.payer = nd_current_pid(),
		.with_handle = true,
	};
	struct nd_chunk *chunk;
	int result;

	result = nd_memory_allocate(nd, &wanted, &chunk);
	if (result)
		return result;
	/* No entry of an earlier owner of the memory may look like a new one. */
	if (!request->host)
		result = nd_copy_fill(nd_copy_ring_of(chunk), chunk->address, 0, chunk->size);
	if (result) {
		nd_chunk_free(chunk);
		return result;
	}
	/*
	 * The hardware is pointed at the new memory, and has written the entry at hand, before the
	 * old is freed.
	 */
	point_at(nd, key, chunk->address, request->size);
	if (queue->chunk)
		usleep_range(1000, 1200);
	nd_chunk_free(queue->chunk);
	queue->chunk = chunk;
	queue->size = request->size;
	return 0;
}

static int find_or_create(struct neuron_device *nd, const struct nd_nq_request *request,
			  __u64 *offset, __u64 *handle)
{
	const struct nd_nq_key *key = &request->key;
	struct nd_notification_queue *queue;
	struct mutex *lock;
	int result;

	result = nd_nq_check(nd->chip, key, request->size);
	if (result)
		return result;
	if (key->device >= (key->topsp ? nd->cores * nd->chip->topsps_per_core : nd->cores))
		return -EINVAL;
	if (key->topsp) {
		lock = &nd->topsp[key->device].nq_lock;
		queue = &nd->topsp[key->device].nq[nd_nq_slot(key)];
	} else {
		lock = &nd->core[key->device].nq_lock;
		queue = &nd->core[key->device].nq[nd_nq_slot(key)];
	}
	mutex_lock(lock);
	result = !queue->chunk || request->replace ? create(nd, request, queue) : 0;
	if (!result) {
		*offset = queue->chunk->host ? queue->chunk->address : ~0ull;
		if (handle)
			*handle = queue->chunk->handle;
	}
	mutex_unlock(lock);
	return result;
}

static int init_v1(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		   void __user *user)
{
	struct neuron_ioctl_notifications_init_v1 *init = argument;
	struct nd_nq_request request = {
		.key = { init->nc_id, false, init->nq_type, init->engine_index },
		.size = init->size,
		.host = true,
	};

	return find_or_create(file->nd, &request, &init->mmap_offset, NULL);
}

static int init_v2(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		   void __user *user)
{
	/* The form with force_alloc_mem begins with the same fields. */
	struct neuron_ioctl_notifications_init_v2 *init = argument;
	struct nd_nq_request request = {
		.key = { init->nq_dev_id, init->nq_dev_type == NQ_DEVICE_TYPE_TOPSP, init->nq_type,
			 init->engine_index },
		.size = init->size,
		.host = init->on_host_memory,
		.hbm = init->dram_channel,
		.region = init->dram_region,
	};

	if (init->nq_dev_type >= NQ_DEVICE_TYPE_MAX)
		return -ENOSYS;
	if (call->request == NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2) {
		struct neuron_ioctl_notifications_init_with_realloc_v2 *form = argument;

		request.replace = form->force_alloc_mem;
		return find_or_create(file->nd, &request, &form->mmap_offset, &form->mem_handle);
	}
	return find_or_create(file->nd, &request, &init->mmap_offset, &init->mem_handle);
}

/* A queue lives until its core is reset. */
static int destroy_v1(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	return 0;
}

/* User space finds the newest entry by its phase bit. */
static int queue_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	return -EPERM;
}

/*
 * Takes down the queues of one core or CC core. The hardware may still be writing the entry at hand
 * for a moment after it was told.
 */
static void take_down(struct neuron_device *nd, bool topsp, u32 device, struct mutex *lock,
		      struct nd_notification_queue *queues)
{
	bool any = false;
	u32 slot;

	mutex_lock(lock);
	for (slot = 0; slot < ND_NQ_PER_DEVICE; slot++) {
		struct nd_nq_key key = { device, topsp, slot / ND_NQ_INDEXES,
					 slot % ND_NQ_INDEXES };

		if (!queues[slot].chunk)
			continue;
		point_at(nd, &key, 0, 0);
		any = true;
	}
	if (any)
		usleep_range(1000, 1200);
	for (slot = 0; slot < ND_NQ_PER_DEVICE; slot++) {
		nd_chunk_free(queues[slot].chunk);
		queues[slot].chunk = NULL;
		queues[slot].size = 0;
	}
	mutex_unlock(lock);
}

void nd_notification_reset(struct neuron_device *nd, u32 core_map)
{
	u32 per_core = nd->chip->topsps_per_core;
	u32 core, i;

	for (core = 0; core < nd->cores; core++) {
		if (!(core_map >> core & 1))
			continue;
		take_down(nd, false, core, &nd->core[core].nq_lock, nd->core[core].nq);
		for (i = core * per_core; i < (core + 1) * per_core; i++)
			take_down(nd, true, i, &nd->topsp[i].nq_lock, nd->topsp[i].nq);
	}
}

void nd_notification_destroy(struct neuron_device *nd)
{
	nd_notification_reset(nd, ~0u);
}

const struct nd_handler nd_notification_handlers[] = {
	{ NEURON_IOCTL_NOTIFICATIONS_INIT_V1, ND_OUT_SUCCESS, init_v1 },
	{ NEURON_IOCTL_NOTIFICATIONS_DESTROY_V1, ND_OUT_NONE, destroy_v1 },
	{ NEURON_IOCTL_NOTIFICATIONS_INIT_V2, ND_OUT_SUCCESS, init_v2 },
	{ NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, ND_OUT_SUCCESS, init_v2 },
	{ NEURON_IOCTL_NOTIFICATIONS_QUEUE_INFO, ND_OUT_NONE, queue_info },
	{ 0, ND_OUT_NONE, NULL },
};
