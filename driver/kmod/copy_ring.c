// SPDX-License-Identifier: GPL-2.0-only
/*
 * The queues that carry the host's copies of a core: a source and a destination ring in host
 * memory, filled in step, and a marker that the engine copies last and the driver waits for.
 *
 * A ring's mutex is held for a whole copy, its wait included, so copies of a core run in order. A
 * transfer that fails or times out ends with the queue set up anew: whatever was in flight on it is
 * lost (driver/core/async_copy.h). Waits sleep; each has a deadline, and notices within
 * milliseconds that the device has gone.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "driver/core/descriptor.h"
#include "driver/kmod/neuron.h"
#include "driver/kmod/trace.h"

#define BOUNCE_BYTES (64u << 10)
/* Room that a name has in the marker page: a cache line. */
#define MARKER_STRIDE 64u

#define SPIN_US 20
#define SLACK_MS 2000
#define ABANDON_MS 1000
#define LOOK_MS 5
/* Models that run in an interpreter may take this much longer. */
#define SLOW_FACTOR 100
#define ENGINE_ABORTED 3u

static u32 *marker_of(struct nd_copy_ring *ring, u32 name)
{
	return ring->marker->va + name * MARKER_STRIDE;
}

static void drop_held(struct nd_copy_ring *ring, u32 name)
{
	struct nd_copy_memory *held = &ring->held[name];

	nd_chunk_put(held->source);
	nd_chunk_put(held->destination);
	held->source = NULL;
	held->destination = NULL;
}

/* ---- life ---- */

static int create(struct nd_copy_ring *ring, struct neuron_device *nd, u32 core, u32 engine,
		  u32 queue)
{
	u64 bytes = ND_COPY_RING_DESCRIPTORS * NEURON_DESC_BYTES;
	int error;

	ring->nd = nd;
	ring->core = core;
	ring->engine = engine;
	ring->queue = queue;
	error = nd_memory_allocate_hidden(nd, bytes, core, NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST,
					  &ring->source);
	if (!error)
		error = nd_memory_allocate_hidden(
			nd, bytes, core, NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST, &ring->destination);
	if (!error)
		error = nd_memory_allocate_hidden(nd, PAGE_SIZE, core,
						  NEURON_MEMALLOC_TYPE_NCDEV_HOST, &ring->marker);
	if (!error)
		error = nd_memory_allocate_hidden(nd, BOUNCE_BYTES, core,
						  NEURON_MEMALLOC_TYPE_NCDEV_HOST, &ring->pattern);
	if (!error)
		error = nd_ring_init(&ring->ring, ring->source->va, ring->destination->va,
				     ND_COPY_RING_DESCRIPTORS);
	return error;
}

static void destroy(struct nd_copy_ring *ring)
{
	struct neuron_device *nd = ring->nd;
	u32 i;

	if (!nd)
		return;
	mutex_lock(&ring->lock);
	ring->ready = false;
	for (i = 0; i < ND_ASYNC_NAMES; i++)
		drop_held(ring, i);
	nd_chunk_free(ring->source);
	nd_chunk_free(ring->destination);
	nd_chunk_free(ring->marker);
	nd_chunk_free(ring->pattern);
	ring->source = NULL;
	ring->destination = NULL;
	ring->marker = NULL;
	ring->pattern = NULL;
	mutex_unlock(&ring->lock);
}

int nd_copy_ring_create(struct neuron_device *nd, u32 core)
{
	u32 engine;
	u32 queue;

	nd_queue_host_copy(nd->chip, core, &engine, &queue);
	nd->engine[engine].queue[queue].reserved = true;
	return create(&nd->core[core].ring, nd, core, engine, queue);
}

int nd_copy_ring_create_further(struct neuron_device *nd, u32 core, u32 queue,
				struct nd_copy_ring **out)
{
	struct nd_copy_ring *ring = kzalloc(sizeof(*ring), GFP_KERNEL);
	int error;

	if (!ring)
		return -ENOMEM;
	kref_init(&ring->refs);
	ring->further = true;
	mutex_init(&ring->lock);
	error = create(ring, nd, core, nd->core[core].ring.engine, queue);
	if (error) {
		destroy(ring);
		kfree(ring);
		return error;
	}
	mutex_lock(&ring->lock);
	nd_copy_ring_restart(ring);
	mutex_unlock(&ring->lock);
	*out = ring;
	return 0;
}

/* The engine looks at an empty ring before this one's memory goes. */
static void release_ring(struct kref *refs)
{
	struct nd_copy_ring *ring = container_of(refs, struct nd_copy_ring, refs);
	struct neuron_device *nd = ring->nd;
	const struct nd_queue_ring dummy = { nd->dummy_ring->address, ND_QUEUE_DUMMY_DESCRIPTORS };
	struct nd_register_write writes[ND_QUEUE_INIT_WRITES];

	nd_write_sequence(nd, writes,
			  nd_queue_init_sequence(nd->chip, ring->engine, ring->queue, &dummy,
						 &dummy, writes));
	nd_read(nd, nd_queue_register(nd->chip, ring->engine, ring->queue, true, NEURON_UDMAQ_CFG));
	destroy(ring);
	mutex_lock(&nd->engine[ring->engine].lock);
	nd->engine[ring->engine].queue[ring->queue].reserved = false;
	mutex_unlock(&nd->engine[ring->engine].lock);
	kfree(ring);
}

void nd_copy_ring_put(struct nd_copy_ring *ring)
{
	if (ring->further)
		kref_put(&ring->refs, release_ring);
}

void nd_copy_rings_destroy(struct neuron_device *nd)
{
	u32 core;

	for (core = 0; core < nd->chip->cores; core++)
		destroy(&nd->core[core].ring);
}

void nd_copy_ring_restart(struct nd_copy_ring *ring)
{
	struct neuron_device *nd = ring->nd;
	const struct nd_queue_ring tx = { ring->source->address, ND_COPY_RING_DESCRIPTORS };
	const struct nd_queue_ring rx = { ring->destination->address, ND_COPY_RING_DESCRIPTORS };
	struct nd_register_write writes[ND_QUEUE_INIT_WRITES];
	size_t count =
		nd_queue_init_sequence(nd->chip, ring->engine, ring->queue, &tx, &rx, writes);
	bool in_use = false;
	u32 i;

	nd_write_sequence(nd, writes, count);
	for (i = 0; i < ND_ASYNC_NAMES; i++)
		in_use |= ring->held[i].source != NULL;
	/* The queue has stopped before its memory may go: a read follows the writes. */
	if (in_use)
		nd_read(nd, nd_queue_register(nd->chip, ring->engine, ring->queue, true,
					      NEURON_UDMAQ_CFG));
	for (i = 0; i < ND_ASYNC_NAMES; i++)
		drop_held(ring, i);
	nd_ring_reset(&ring->ring);
	nd_async_restart(&ring->async);
	ring->ready = true;
}

struct nd_copy_ring *nd_copy_ring_of(struct nd_chunk *chunk)
{
	return &chunk->nd->core[chunk->core].ring;
}

/* ---- one batch; the lock is held ---- */

/* Ends a batch with its marker and rings both doorbells, the destination's first. */
static void submit(struct nd_copy_ring *ring, u32 name, u32 packets)
{
	struct neuron_device *nd = ring->nd;
	u64 address = ring->marker->address + name * MARKER_STRIDE;
	u32 *marker = marker_of(ring, name);

	marker[0] = NEURON_DMA_COMPLETION_MARKER;
	WRITE_ONCE(marker[1], 0);
	nd_ring_push(&ring->ring, address, address + 4, 4, ND_BARRIER_NONE);
	packets++;
	nd_async_start(&ring->async, name, packets);
	/*
	 * The descriptors are in memory before the engine is told: writel() orders them, and pairs
	 * with its fetch.
	 */
	nd_write(nd,
		 nd_queue_register(nd->chip, ring->engine, ring->queue, false,
				   NEURON_UDMAQ_TAIL_INC),
		 packets);
	nd_write(nd,
		 nd_queue_register(nd->chip, ring->engine, ring->queue, true,
				   NEURON_UDMAQ_TAIL_INC),
		 packets);
}

static bool is_aborted(struct nd_copy_ring *ring)
{
	struct neuron_device *nd = ring->nd;
	u64 unit = nd_chip_udma(nd->chip, ring->engine) + NEURON_UDMA_STATE;

	return nd_engine_state(nd_read(nd, unit + NEURON_UDMA_M2S)) == ENGINE_ABORTED ||
	       nd_engine_state(nd_read(nd, unit + NEURON_UDMA_S2M)) == ENGINE_ABORTED;
}

static void report(struct nd_copy_ring *ring, const char *what)
{
	struct neuron_device *nd = ring->nd;
	u64 unit = nd_chip_udma(nd->chip, ring->engine) + NEURON_UDMA_STATE;
	u32 head = nd_read(nd, nd_queue_register(nd->chip, ring->engine, ring->queue, true,
						 NEURON_UDMAQ_HEAD)) &
		   NEURON_UDMA_INDEX_MASK;
	struct nd_descriptor from = {};
	struct nd_descriptor to = {};

	if (head < ND_COPY_RING_DESCRIPTORS) {
		from = ring->ring.source[head];
		to = ring->ring.destination[head];
	}
	dev_err_ratelimited(
		nd->dev,
		"neuron%u core %u: a copy %s on DMA engine %u queue %u, ring index %u (descriptor 0x%llx to 0x%llx, states 0x%x and 0x%x); the queue is set up anew\n",
		nd->index, ring->core, what, ring->engine, ring->queue, head, from.address,
		to.address, nd_read(nd, unit + NEURON_UDMA_M2S),
		nd_read(nd, unit + NEURON_UDMA_S2M));
}

/* Takes the engine out of the abort state and drops what the queue holds. */
static void recover(struct nd_copy_ring *ring)
{
	struct neuron_device *nd = ring->nd;
	u64 unit = nd_chip_udma(nd->chip, ring->engine) + NEURON_UDMA_CHANGE_STATE;

	nd_write(nd, unit + NEURON_UDMA_M2S, 1);
	nd_write(nd, unit + NEURON_UDMA_S2M, 1);
	nd_copy_ring_restart(ring);
	/* The queue has stopped when this returns: a read follows the writes. */
	nd_read(nd, nd_queue_register(nd->chip, ring->engine, ring->queue, true, NEURON_UDMAQ_CFG));
}

static ktime_t deadline_of(struct nd_copy_ring *ring)
{
	struct neuron_device *nd = ring->nd;
	u64 ms = SLACK_MS + nd->chip->copy_ms * (ring->async.pushed - ring->async.released);

	if (nd->is_qemu || nd->is_emulator)
		ms *= SLOW_FACTOR;
	return ktime_add_ms(ktime_get(), ms);
}

static bool has_arrived(struct nd_copy_ring *ring, u32 name)
{
	u32 *arrived = marker_of(ring, name) + 1;

	/* Pairs with the engine's write of the marker, which follows the data in queue order. */
	return smp_load_acquire(arrived) == NEURON_DMA_COMPLETION_MARKER && !nd_fault_dma_wait();
}

static int await(struct nd_copy_ring *ring, u32 name)
{
	struct neuron_device *nd = ring->nd;
	ktime_t deadline = deadline_of(ring);
	ktime_t look = ktime_add_ms(ktime_get(), LOOK_MS);
	bool abandoned = false; /* the caller, removal or a reset wants the copy to end */
	bool by_caller = false;
	unsigned int us;
	int error;

	for (us = 0; us < SPIN_US; us++) {
		if (has_arrived(ring, name))
			goto arrived;
		udelay(1);
	}
	us = 10;
	while (!has_arrived(ring, name)) {
		ktime_t now = ktime_get();

		if (!abandoned && (fatal_signal_pending(current) || READ_ONCE(nd->removed) ||
				   READ_ONCE(ring->reset_waits))) {
			/*
			 * Memory of the caller is in use: it goes only once the engine is done
			 * or has been stopped.
			 */
			by_caller = !READ_ONCE(ring->reset_waits);
			abandoned = true;
			deadline = min(deadline, ktime_add_ms(now, ABANDON_MS));
		}
		if (ktime_after(now, deadline)) {
			if (!by_caller)
				report(ring, "did not finish in time");
			recover(ring);
			error = by_caller ? -EINTR : -ETIMEDOUT;
			goto lost;
		}
		if (ktime_after(now, look)) {
			look = ktime_add_ms(now, LOOK_MS);
			if (is_aborted(ring)) {
				if (READ_ONCE(nd->lost)) {
					error = -ENODEV;
					goto lost;
				}
				/* It may have arrived between the two looks. */
				if (has_arrived(ring, name))
					break;
				report(ring, "was refused by the engine (unmapped address?)");
				recover(ring);
				error = -EIO;
				goto lost;
			}
			if (READ_ONCE(nd->lost)) {
				error = -ENODEV;
				goto lost;
			}
		}
		usleep_range(us, us * 2);
		us = min(us * 2, 500u);
	}
arrived:
	nd_ring_release(&ring->ring, nd_async_finish(&ring->async, name));
	drop_held(ring, name);
	return 0;
lost:
	nd_async_give_up(&ring->async, name);
	drop_held(ring, name);
	return error;
}

static int lock_ring(struct nd_copy_ring *ring)
{
	if (mutex_lock_killable(&ring->lock))
		return -EINTR;
	if (ring->ready && !nd_is_lost(ring->nd))
		return 0;
	mutex_unlock(&ring->lock);
	return -ENODEV;
}

/* ---- copies ---- */

static int copy_locked(struct nd_copy_ring *ring, u64 destination, u64 source, u64 size,
		       u32 pattern)
{
	struct nd_copy copy = { source, destination, size, pattern };

	while (copy.remaining) {
		u32 room = nd_ring_space(&ring->ring);
		u32 packets;
		int error;

		if (room < 2)
			return -EBUSY;
		packets = nd_ring_push_copy(&ring->ring, &copy,
					    room > ND_ASYNC_PIECES + 1 ? room - ND_ASYNC_PIECES : 1,
					    ND_BARRIER_WRITE);
		submit(ring, 0, packets);
		error = await(ring, 0);
		if (error)
			return error;
	}
	return 0;
}

int nd_copy(struct nd_copy_ring *ring, u64 destination, u64 source, u64 size, u32 pattern)
{
	int error = lock_ring(ring);

	if (error)
		return error;
	trace_dma_memcpy(ring->nd->index, source, destination, size);
	error = copy_locked(ring, destination, source, size, pattern);
	mutex_unlock(&ring->lock);
	return error;
}

int nd_copy_segments(struct nd_copy_ring *ring, u64 device, const struct nd_segment *segments,
		     u32 count, bool to_device)
{
	u32 packets = 0;
	u32 i;
	int error = lock_ring(ring);

	if (error)
		return error;
	for (i = 0; i < count && !error; i++) {
		u64 host = segments[i].address;
		u64 left = segments[i].size;

		while (left && !error) {
			u32 length = min_t(u64, left, NEURON_UDMA_MAX_DESC_BYTES);
			bool last = (left == length && i + 1 == count) ||
				    packets + 1 == ND_ASYNC_PIECES;

			error = nd_ring_push(&ring->ring, to_device ? host : device,
					     to_device ? device : host, length,
					     last ? ND_BARRIER_WRITE : ND_BARRIER_NONE);
			if (error)
				break;
			packets++;
			host += length;
			device += length;
			left -= length;
			if (last) {
				submit(ring, 0, packets);
				packets = 0;
				error = await(ring, 0);
			}
		}
	}
	/* Descriptors that the engine was not told of. */
	if (packets)
		recover(ring);
	mutex_unlock(&ring->lock);
	return error;
}

int nd_copy_fill(struct nd_copy_ring *ring, u64 destination, u32 value, u64 size)
{
	u64 first = min_t(u64, size, BOUNCE_BYTES);
	int error = lock_ring(ring);

	if (error)
		return error;
	memset32(ring->pattern->va, value, BOUNCE_BYTES / sizeof(u32));
	error = copy_locked(ring, destination, ring->pattern->address, first, 0);
	/* The rest repeats what is on the device already. */
	if (!error && size > first)
		error = copy_locked(ring, destination + first, destination, size - first,
				    BOUNCE_BYTES);
	mutex_unlock(&ring->lock);
	return error;
}

int nd_copy_from_kernel(struct nd_copy_ring *ring, u64 destination, const void *source, u64 size)
{
	u64 done = 0;
	int error = lock_ring(ring);

	if (error)
		return error;
	while (done < size && !error) {
		u64 length = min_t(u64, size - done, BOUNCE_BYTES);

		memcpy(ring->pattern->va, source + done, length);
		error = copy_locked(ring, destination + done, ring->pattern->address, length, 0);
		done += length;
	}
	mutex_unlock(&ring->lock);
	return error;
}

int nd_copy_to_kernel(struct nd_copy_ring *ring, void *destination, u64 source, u64 size)
{
	u64 done = 0;
	int error = lock_ring(ring);

	if (error)
		return error;
	while (done < size && !error) {
		u64 length = min_t(u64, size - done, BOUNCE_BYTES);

		error = copy_locked(ring, ring->pattern->address, source + done, length, 0);
		if (!error)
			memcpy(destination + done, ring->pattern->va, length);
		done += length;
	}
	mutex_unlock(&ring->lock);
	return error;
}

/* ---- copies that user space waits for ---- */

int nd_copy_start(struct nd_copy_ring *ring, u32 name, struct nd_chunk *destination,
		  u64 destination_offset, struct nd_chunk *source, u64 source_offset, u64 size)
{
	struct nd_copy copy = { source->address + source_offset,
				destination->address + destination_offset, size, 0 };
	int error = lock_ring(ring);

	if (error)
		return error;
	if (nd_async_is_running(&ring->async, name))
		error = await(ring, name);
	/* An earlier copy that failed concerns nobody here, but a device that is gone does. */
	if (error != -EINTR && error != -ENODEV)
		error = 0;
	if (!error &&
	    nd_ring_space(&ring->ring) < DIV_ROUND_UP_ULL(size, NEURON_UDMA_MAX_DESC_BYTES) + 1)
		error = -EBUSY;
	if (!error) {
		nd_chunk_get(source);
		nd_chunk_get(destination);
		ring->held[name].source = source;
		ring->held[name].destination = destination;
		submit(ring, name, nd_ring_push_copy(&ring->ring, &copy, 1, ND_BARRIER_WRITE));
	}
	mutex_unlock(&ring->lock);
	return error;
}

int nd_copy_wait(struct nd_copy_ring *ring, u32 name)
{
	int error = lock_ring(ring);

	if (error)
		return error;
	error = nd_async_wait(&ring->async, name);
	if (!error)
		error = await(ring, name);
	mutex_unlock(&ring->lock);
	return error;
}
