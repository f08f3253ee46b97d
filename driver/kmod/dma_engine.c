// SPDX-License-Identifier: GPL-2.0-only
/*
 * DMA engines: set-up after a reset, and what becomes of the queues of a process that goes.
 * nd_engine.lock guards the queues of an engine and the order of writes to them.
 */
#include <linux/delay.h>

#include "driver/kmod/neuron.h"
#include "driver/kmod/trace.h"

#define ENGINES_PER_CORE 16u
#define DRAIN_MS 10

int nd_dma_create(struct neuron_device *nd)
{
	return nd_memory_allocate_hidden(nd, ND_QUEUE_DUMMY_DESCRIPTORS * NEURON_DESC_BYTES, 0,
					 NEURON_MEMALLOC_TYPE_NCDEV_HOST, &nd->dummy_ring);
}

/* The queue has no rings any more; the lock is held. */
static void forget(struct nd_queue *queue)
{
	nd_chunk_put(queue->tx_chunk);
	nd_chunk_put(queue->rx_chunk);
	queue->tx_chunk = NULL;
	queue->rx_chunk = NULL;
	memset(&queue->tx, 0, sizeof(queue->tx));
	memset(&queue->rx, 0, sizeof(queue->rx));
	queue->tx_completed = 0;
	queue->rx_completed = 0;
	queue->owner = 0;
}

static void forget_engine(struct neuron_device *nd, u32 engine)
{
	u32 queue;

	mutex_lock(&nd->engine[engine].lock);
	for (queue = 0; queue < NEURON_DMA_QUEUES; queue++)
		forget(&nd->engine[engine].queue[queue]);
	mutex_unlock(&nd->engine[engine].lock);
}

void nd_dma_destroy(struct neuron_device *nd)
{
	u32 engine;

	for (engine = 0; engine < nd->chip->dma_engines; engine++)
		forget_engine(nd, engine);
	nd_chunk_free(nd->dummy_ring);
	nd->dummy_ring = NULL;
}

/* True if all cores whose copies this engine carries are among `cores`. */
static bool serves_only(struct neuron_device *nd, u32 engine, u32 cores)
{
	u32 core;

	for (core = 0; core < nd->chip->cores; core++)
		if (nd_has_core(nd, core) && nd->core[core].ring.engine == engine &&
		    !(cores >> core & 1))
			return false;
	return true;
}

void nd_dma_forget_queues(struct neuron_device *nd, u32 cores)
{
	u32 core;
	u32 i;

	for (core = 0; core < nd->chip->cores; core++) {
		if (!(cores >> core & 1))
			continue;
		for (i = 0; i < ENGINES_PER_CORE; i++)
			forget_engine(nd, core * ENGINES_PER_CORE + i);
		if (serves_only(nd, nd->core[core].ring.engine, cores))
			forget_engine(nd, nd->core[core].ring.engine);
	}
}

static void start_engine(struct neuron_device *nd, u32 engine)
{
	size_t count = nd_engine_init_sequence(nd->chip, engine, nd->engine_writes);

	trace_dma_engine_init(nd->index, engine);
	mutex_lock(&nd->engine[engine].lock);
	nd_write_sequence(nd, nd->engine_writes, count);
	mutex_unlock(&nd->engine[engine].lock);
}

void nd_dma_start_engines(struct neuron_device *nd, u32 cores)
{
	u32 started = ND_MAX_DMA_ENGINES;
	u32 core;
	u32 i;

	for (core = 0; core < nd->chip->cores; core++) {
		struct nd_copy_ring *ring = &nd->core[core].ring;

		if (!(cores >> core & 1))
			continue;
		for (i = 0; i < ENGINES_PER_CORE; i++)
			start_engine(nd, core * ENGINES_PER_CORE + i);
		/* Cores that share an engine are neighbours. */
		if (ring->engine != started && serves_only(nd, ring->engine, cores))
			start_engine(nd, ring->engine);
		started = ring->engine;
		nd_copy_ring_restart(ring);
	}
}

void nd_dma_process_exit(struct neuron_device *nd, pid_t pid)
{
	const struct nd_queue_ring dummy = { nd->dummy_ring->address, ND_QUEUE_DUMMY_DESCRIPTORS };
	struct nd_register_write writes[ND_QUEUE_INIT_WRITES];
	bool any = false;
	u32 engine;
	u32 i;

	for (engine = 0; engine < nd->chip->dma_engines; engine++) {
		mutex_lock(&nd->engine[engine].lock);
		for (i = 0; i < NEURON_DMA_QUEUES; i++) {
			struct nd_queue *queue = &nd->engine[engine].queue[i];

			if (queue->owner != pid)
				continue;
			queue->owner = 0;
			/* Its rings feed instructions: they stay, and so does their memory. */
			if (nd_queue_is_instruction_fetch(nd->chip, engine, i))
				continue;
			nd_write_sequence(nd, writes,
					  nd_queue_init_sequence(nd->chip, engine, i, &dummy,
								 &dummy, writes));
			any = true;
		}
		mutex_unlock(&nd->engine[engine].lock);
	}
	if (!any)
		return;
	/* Engines finish reading the old rings before these are freed. */
	msleep(DRAIN_MS);
	for (engine = 0; engine < nd->chip->dma_engines; engine++) {
		mutex_lock(&nd->engine[engine].lock);
		for (i = 0; i < NEURON_DMA_QUEUES; i++) {
			struct nd_queue *queue = &nd->engine[engine].queue[i];

			if (queue->owner == 0 &&
			    !nd_queue_is_instruction_fetch(nd->chip, engine, i))
				forget(queue);
		}
		mutex_unlock(&nd->engine[engine].lock);
	}
}
