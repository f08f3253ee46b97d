// SPDX-License-Identifier: GPL-2.0-only
/*
 * Further queues on the engine that carries the host's copies of a core: with a ring of the driver
 * each, for zero-copy transfers that must not wait behind each other, or merely kept for a service.
 *
 * copy_queues_lock serialises reservations; the engine's lock guards the marks, the core's lock the
 * table of rings.
 */
#include "driver/kmod/neuron.h"

#define MAX_QUEUES 16u

struct nd_copy_ring *nd_copy_ring_find(struct neuron_device *nd, u32 core, s32 queue)
{
	struct nd_core *found = &nd->core[core];
	struct nd_copy_ring *ring = NULL;

	if (queue == NEURON_DMA_H2T_DEFAULT_QID || queue == (s32)found->ring.queue)
		return &found->ring;
	if (queue < 0 || queue >= NEURON_DMA_QUEUES)
		return NULL;
	mutex_lock(&found->lock);
	ring = found->further[queue];
	if (ring)
		kref_get(&ring->refs);
	mutex_unlock(&found->lock);
	return ring;
}

/* Gives up the ring of a queue; false if it has none. */
static bool drop_ring(struct neuron_device *nd, u32 core, u32 queue)
{
	struct nd_copy_ring *ring;

	mutex_lock(&nd->core[core].lock);
	ring = nd->core[core].further[queue];
	nd->core[core].further[queue] = NULL;
	mutex_unlock(&nd->core[core].lock);
	/* Transfers under way end first: they hold references. */
	if (ring)
		nd_copy_ring_put(ring);
	return ring;
}

/* Gives up a queue kept for a service; false if it is none of this core. */
static bool drop_service(struct neuron_device *nd, u32 core, u32 queue)
{
	struct nd_engine *engine = &nd->engine[nd->core[core].ring.engine];
	struct nd_queue *found = &engine->queue[queue];
	bool mine;

	mutex_lock(&engine->lock);
	mine = found->reserved && found->reserved_by && found->reserved_core == core;
	if (mine) {
		found->reserved = false;
		found->reserved_by = 0;
	}
	mutex_unlock(&engine->lock);
	return mine;
}

void nd_copy_queues_reset(struct neuron_device *nd, u32 core_map)
{
	u32 core;
	u32 queue;

	mutex_lock(&nd->copy_queues_lock);
	for (core = 0; core < nd->chip->cores; core++)
		for (queue = 0; queue < NEURON_DMA_QUEUES; queue++)
			if (core_map >> core & 1)
				drop_ring(nd, core, queue);
	mutex_unlock(&nd->copy_queues_lock);
}

void nd_copy_queues_process_exit(struct neuron_device *nd, pid_t pid)
{
	u32 core;
	u32 i;

	for (core = 0; core < nd->chip->cores; core++) {
		struct nd_engine *engine;

		if (!nd_has_core(nd, core))
			continue;
		engine = &nd->engine[nd->core[core].ring.engine];
		mutex_lock(&engine->lock);
		for (i = 0; i < NEURON_DMA_QUEUES; i++) {
			if (engine->queue[i].reserved_by != pid)
				continue;
			engine->queue[i].reserved = false;
			engine->queue[i].reserved_by = 0;
		}
		mutex_unlock(&engine->lock);
	}
}

/* Marks up to `count` free queues of the engine and returns their bits. */
static u32 reserve(struct neuron_device *nd, u32 core, u32 count, pid_t pid)
{
	struct nd_engine *engine = &nd->engine[nd->core[core].ring.engine];
	u32 map = 0;
	u32 i;

	mutex_lock(&engine->lock);
	for (i = 0; i < NEURON_DMA_QUEUES && count; i++) {
		struct nd_queue *queue = &engine->queue[i];

		if (queue->reserved || queue->owner)
			continue;
		queue->reserved = true;
		queue->reserved_core = core;
		queue->reserved_by = pid;
		map |= BIT(i);
		count--;
	}
	mutex_unlock(&engine->lock);
	return map;
}

static void unreserve(struct neuron_device *nd, u32 core, u32 map)
{
	struct nd_engine *engine = &nd->engine[nd->core[core].ring.engine];
	u32 i;

	mutex_lock(&engine->lock);
	for (i = 0; i < NEURON_DMA_QUEUES; i++) {
		if (!(map >> i & 1))
			continue;
		engine->queue[i].reserved = false;
		engine->queue[i].reserved_by = 0;
	}
	mutex_unlock(&engine->lock);
}

/* A ring for each queue of the map; the marks of those that got one are the ring's. */
static int make_rings(struct neuron_device *nd, u32 core, u32 map)
{
	int error = 0;
	u32 i;

	for (i = 0; i < NEURON_DMA_QUEUES && !error; i++) {
		struct nd_copy_ring *ring;

		if (!(map >> i & 1))
			continue;
		error = nd_copy_ring_create_further(nd, core, i, &ring);
		if (error)
			break;
		mutex_lock(&nd->core[core].lock);
		nd->core[core].further[i] = ring;
		mutex_unlock(&nd->core[core].lock);
	}
	if (!error)
		return 0;
	for (i = 0; i < NEURON_DMA_QUEUES; i++)
		if ((map >> i & 1) && drop_ring(nd, core, i))
			map &= ~BIT(i);
	unreserve(nd, core, map);
	return error;
}

static int allocate_queues(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			   void __user *user)
{
	struct neuron_ioctl_h2t_dma_alloc_queues *request = argument;
	struct neuron_device *nd = file->nd;
	pid_t owner = nd_current_pid();
	u32 core = request->nc_id;
	u32 copies;
	u32 services;
	int error = 0;

	if (!nd_has_core(nd, core) ||
	    (u32)request->copy_queue_cnt + request->service_queue_cnt >= MAX_QUEUES)
		return -E2BIG;
	mutex_lock(&nd->copy_queues_lock);
	copies = reserve(nd, core, request->copy_queue_cnt, 0);
	services = reserve(nd, core, request->service_queue_cnt, owner);
	if (hweight32(copies) != request->copy_queue_cnt ||
	    hweight32(services) != request->service_queue_cnt) {
		dev_warn_ratelimited(nd->dev,
				     "neuron%u core %u: engine %u has no %u free queues left\n",
				     nd->index, core, nd->core[core].ring.engine,
				     request->copy_queue_cnt + request->service_queue_cnt);
		unreserve(nd, core, copies | services);
		error = -EPERM;
	} else {
		error = make_rings(nd, core, copies);
		if (error)
			unreserve(nd, core, services);
	}
	mutex_unlock(&nd->copy_queues_lock);
	request->copy_queue_bmap = copies;
	request->service_queue_bmap = services;
	request->copy_default_queue = nd->core[core].ring.queue;
	return error;
}

static int free_queues(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	const struct neuron_ioctl_h2t_dma_free_queues *request = argument;
	struct neuron_device *nd = file->nd;
	u32 core = request->nc_id;
	int error = 0;
	u32 i;

	if (!nd_has_core(nd, core))
		return -E2BIG;
	mutex_lock(&nd->copy_queues_lock);
	for (i = 0; i < 32; i++) {
		if (!(request->queue_bmap >> i & 1) || i == nd->core[core].ring.queue)
			continue;
		if (i >= NEURON_DMA_QUEUES ||
		    (!drop_ring(nd, core, i) && !drop_service(nd, core, i)))
			error = -ENXIO;
	}
	mutex_unlock(&nd->copy_queues_lock);
	return error;
}

const struct nd_handler nd_copy_queue_handlers[] = {
	{ NEURON_IOCTL_H2T_DMA_ALLOC_QUEUES, ND_OUT_SUCCESS, allocate_queues },
	{ NEURON_IOCTL_H2T_DMA_FREE_QUEUES, ND_OUT_NONE, free_queues },
	{},
};
