// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls about DMA engines and queues: rings of processes, descriptors, doorbells, state.
 * nd_engine.lock guards the queues of an engine and the order of writes to them.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver/core/descriptor.h"
#include "driver/kmod/neuron.h"
#include "driver/kmod/trace.h"

#define BATCH_LIMIT 256u
#define ENGINE_REVISION 4u
/* Descriptors that are checked and copied at a time. */
#define DESCRIPTOR_PIECE 4096u

enum { ENGINE_DISABLE = 0, ENGINE_NORMAL = 2, ENGINE_ABORT = 3 };

/* ---- engines ---- */

static int check_queue(struct neuron_device *nd, u32 engine, u32 queue)
{
	if (nd_queue_check_id(nd->chip, engine, queue) == 0)
		return 0;
	dev_warn_ratelimited(nd->dev,
			     "neuron%u has DMA engines 0 to %u with %u queues, found %u queue %u\n",
			     nd->index, nd->chip->dma_engines - 1, NEURON_DMA_QUEUES, engine,
			     queue);
	return -EINVAL;
}

static int no_effect(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	if (call->request == NEURON_IOCTL_DMA_QUEUE_RELEASE) {
		const struct neuron_ioctl_dma_queue_release *r = argument;

		trace_dma_queue_release(file->nd->index, r->eng_id, r->qid, 0);
	}
	return 0;
}

static int set_state(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	const struct neuron_ioctl_dma_eng_set_state *s = argument;
	struct neuron_device *nd = file->nd;
	int error = check_queue(nd, s->eng_id, 0);
	u64 base;
	u32 bit;

	if (error)
		return error;
	switch (s->state) {
	case ENGINE_DISABLE:
		bit = BIT(1);
		break;
	case ENGINE_NORMAL:
		bit = BIT(0);
		break;
	case ENGINE_ABORT:
		bit = BIT(2);
		break;
	default:
		dev_warn_ratelimited(nd->dev, "neuron%u: DMA engine %u has no state %u to be set\n",
				     nd->index, s->eng_id, s->state);
		return 0;
	}
	base = nd_chip_udma(nd->chip, s->eng_id) + NEURON_UDMA_CHANGE_STATE;
	mutex_lock(&nd->engine[s->eng_id].lock);
	nd_write(nd, base + NEURON_UDMA_M2S, bit);
	nd_write(nd, base + NEURON_UDMA_S2M, bit);
	mutex_unlock(&nd->engine[s->eng_id].lock);
	return 0;
}

static int get_state(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	const struct neuron_ioctl_dma_eng_get_state *s = argument;
	struct neuron_device *nd = file->nd;
	struct neuron_dma_eng_state state = {
		.revision_id = ENGINE_REVISION,
		.max_queues = NEURON_DMA_QUEUES,
		.num_queues = NEURON_DMA_QUEUES,
	};
	int error = check_queue(nd, s->eng_id, 0);
	u64 base;

	if (error)
		return error;
	base = nd_chip_udma(nd->chip, s->eng_id) + NEURON_UDMA_STATE;
	state.tx_state = nd_engine_state(nd_read(nd, base + NEURON_UDMA_M2S));
	state.rx_state = nd_engine_state(nd_read(nd, base + NEURON_UDMA_S2M));
	if (READ_ONCE(nd->lost))
		return -ENODEV;
	return copy_to_user((void __user *)s->state, &state, sizeof(state)) ? -EFAULT : 0;
}

/* ---- queues ---- */

/* Pins the memory of a ring; handle 0 is no ring. */
static int take_ring(struct nd_file *file, const struct neuron_ioctl_dma_queue_init *q, u64 handle,
		     u32 count, const char *name, struct nd_queue_ring *ring,
		     struct nd_chunk **chunk)
{
	struct neuron_device *nd = file->nd;

	memset(ring, 0, sizeof(*ring));
	*chunk = NULL;
	if (!handle)
		return 0;
	*chunk = nd_chunk_pin(nd, handle);
	if (!*chunk)
		return -EINVAL;
	ring->address = (*chunk)->address;
	ring->count = count;
	if (!nd_queue_check_ring(ring, (*chunk)->size))
		return 0;
	dev_warn_ratelimited(
		nd->dev,
		"neuron%u engine %u queue %u: %s ring of %u descriptors at 0x%llx in %llu bytes; it must be a multiple of 16, at least 32, inside its memory and 256-byte aligned\n",
		nd->index, q->eng_id, q->qid, name, count, ring->address, (*chunk)->size);
	nd_chunk_put(*chunk);
	*chunk = NULL;
	return -EINVAL;
}

static int init_queue(struct nd_file *file, const struct neuron_ioctl_dma_queue_init *q)
{
	struct neuron_device *nd = file->nd;
	struct nd_register_write writes[ND_QUEUE_INIT_WRITES];
	const struct nd_queue_ring dummy = { nd->dummy_ring->address, ND_QUEUE_DUMMY_DESCRIPTORS };
	struct nd_queue fresh = { .owner = nd_current_pid() };
	const struct nd_queue_ring *tx = &fresh.tx;
	const struct nd_queue_ring *rx = &fresh.rx;
	struct nd_queue *queue;
	int error = check_queue(nd, q->eng_id, q->qid);

	if (error)
		return error;
	if (q->rxc_handle) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u engine %u queue %u: completion rings are not supported\n",
			nd->index, q->eng_id, q->qid);
		return -EINVAL;
	}
	error = take_ring(file, q, q->tx_handle, q->tx_desc_count, "tx", &fresh.tx,
			  &fresh.tx_chunk);
	if (error)
		return error;
	error = take_ring(file, q, q->rx_handle, q->rx_desc_count, "rx", &fresh.rx,
			  &fresh.rx_chunk);
	if (error) {
		nd_chunk_put(fresh.tx_chunk);
		return error;
	}
	mutex_lock(&nd->engine[q->eng_id].lock);
	queue = &nd->engine[q->eng_id].queue[q->qid];
	if (queue->reserved && queue->reserved_by != fresh.owner) {
		error = -EALREADY;
	} else {
		trace_dma_queue_init(nd->index, q->eng_id, q->qid, fresh.tx.address, fresh.tx.count,
				     fresh.rx.address, fresh.rx.count);
		/* A side that loses its ring looks at an empty one, not at memory that goes. */
		if (!tx->count && queue->tx.count)
			tx = &dummy;
		if (!rx->count && queue->rx.count)
			rx = &dummy;
		nd_write_sequence(nd, writes,
				  nd_queue_init_sequence(nd->chip, q->eng_id, q->qid, tx, rx,
							 writes));
		fresh.reserved = queue->reserved;
		fresh.reserved_core = queue->reserved_core;
		fresh.reserved_by = queue->reserved_by;
		/* What the hardware was pointed at before goes after it was pointed elsewhere. */
		swap(*queue, fresh);
		/* A read returns when the writes before it have arrived. */
		if (fresh.tx_chunk || fresh.rx_chunk)
			nd_read(nd, nd_queue_register(nd->chip, q->eng_id, q->qid, true,
						      NEURON_UDMAQ_CFG));
	}
	mutex_unlock(&nd->engine[q->eng_id].lock);
	nd_chunk_put(fresh.tx_chunk);
	nd_chunk_put(fresh.rx_chunk);
	if (error)
		dev_warn_ratelimited(nd->dev,
				     "neuron%u engine %u queue %u carries the host's copies\n",
				     nd->index, q->eng_id, q->qid);
	return READ_ONCE(nd->lost) ? -ENODEV : error;
}

static int queue_init(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	return init_queue(file, argument);
}

static int queue_init_batch(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			    void __user *user)
{
	const struct neuron_ioctl_dma_queue_init_batch *batch = argument;
	u32 i;

	if (batch->count >= BATCH_LIMIT)
		return -E2BIG;
	for (i = 0; i < batch->count; i++) {
		int error = init_queue(file, &batch->entries[i]);

		if (error)
			return error;
	}
	return 0;
}

static int queue_start(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	const struct neuron_ioctl_dma_queue_copy_start *s = argument;
	struct neuron_device *nd = file->nd;
	const struct nd_queue *queue;
	int error = check_queue(nd, s->eng_id, s->qid);

	if (error)
		return error;
	mutex_lock(&nd->engine[s->eng_id].lock);
	queue = &nd->engine[s->eng_id].queue[s->qid];
	if (queue->tx.count == 0 || queue->rx.count == 0) {
		error = -EINVAL;
	} else if (s->tx_desc_count > queue->tx.count || s->rx_desc_count > queue->rx.count) {
		error = -EPERM;
	} else {
		trace_dma_queue_copy_start(nd->index, s->eng_id, s->qid, s->tx_desc_count);
		/* The destination side first; the doorbell of the source side starts it. */
		if (s->rx_desc_count)
			nd_write(nd,
				 nd_queue_register(nd->chip, s->eng_id, s->qid, false,
						   NEURON_UDMAQ_TAIL_INC),
				 s->rx_desc_count);
		if (s->tx_desc_count)
			nd_write(nd,
				 nd_queue_register(nd->chip, s->eng_id, s->qid, true,
						   NEURON_UDMAQ_TAIL_INC),
				 s->tx_desc_count);
	}
	mutex_unlock(&nd->engine[s->eng_id].lock);
	if (error)
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u engine %u queue %u: cannot start %u and %u descriptors: %s\n",
			nd->index, s->eng_id, s->qid, s->tx_desc_count, s->rx_desc_count,
			error == -EPERM ? "that is more than its rings have"
					: "it has no rings; call DMA_QUEUE_INIT first");
	return READ_ONCE(nd->lost) ? -ENODEV : error;
}

static int acknowledge(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	const struct neuron_ioctl_dma_ack_completed *a = argument;
	struct neuron_device *nd = file->nd;
	struct nd_queue *queue;
	int error = check_queue(nd, a->eng_id, a->qid);

	if (error)
		return error;
	trace_dma_ack_completed(nd->index, a->eng_id, a->qid, a->count);
	mutex_lock(&nd->engine[a->eng_id].lock);
	queue = &nd->engine[a->eng_id].queue[a->qid];
	if (queue->tx.count)
		queue->tx_completed = (queue->tx_completed + (u64)a->count) % queue->tx.count;
	if (queue->rx.count)
		queue->rx_completed = (queue->rx_completed + (u64)a->count) % queue->rx.count;
	mutex_unlock(&nd->engine[a->eng_id].lock);
	return 0;
}

static u32 queue_word(struct neuron_device *nd, u32 engine, u32 queue, bool tx, u32 reg)
{
	return nd_read(nd, nd_queue_register(nd->chip, engine, queue, tx, reg));
}

static void read_queue(struct neuron_device *nd, u32 engine, u32 queue, bool tx,
		       struct neuron_dma_queue_state *state)
{
	memset(state, 0, sizeof(*state));
	state->hw_status = queue_word(nd, engine, queue, tx, NEURON_UDMAQ_STATUS);
	state->length = queue_word(nd, engine, queue, tx, NEURON_UDMAQ_LENGTH);
	state->base_addr = (u64)queue_word(nd, engine, queue, tx, NEURON_UDMAQ_BASE_HI) << 32 |
			   queue_word(nd, engine, queue, tx, NEURON_UDMAQ_BASE_LO);
	state->completion_base_addr =
		(u64)queue_word(nd, engine, queue, tx, NEURON_UDMAQ_CMPL_BASE_HI) << 32 |
		queue_word(nd, engine, queue, tx, NEURON_UDMAQ_CMPL_BASE_LO);
	state->head_pointer = queue_word(nd, engine, queue, tx, NEURON_UDMAQ_HEAD);
	state->tail_pointer = queue_word(nd, engine, queue, tx, NEURON_UDMAQ_TAIL);
	state->completion_head = queue_word(nd, engine, queue, tx, NEURON_UDMAQ_CMPL_HEAD);
}

static int queue_get_state(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			   void __user *user)
{
	const struct neuron_ioctl_dma_queue_get_state *s = argument;
	struct neuron_device *nd = file->nd;
	struct neuron_dma_queue_state tx;
	struct neuron_dma_queue_state rx;
	int error = check_queue(nd, s->eng_id, s->qid);

	if (error)
		return error;
	read_queue(nd, s->eng_id, s->qid, true, &tx);
	read_queue(nd, s->eng_id, s->qid, false, &rx);
	if (READ_ONCE(nd->lost))
		return -ENODEV;
	if (copy_to_user((void __user *)s->tx, &tx, sizeof(tx)) ||
	    copy_to_user((void __user *)s->rx, &rx, sizeof(rx)))
		return -EFAULT;
	return 0;
}

/* ---- descriptors ---- */

/* True if the host memory lies in one chunk of a device that the caller has open. */
static bool is_own_memory(struct neuron_device *nd, u64 address, u64 size)
{
	pid_t pid = nd_current_pid();
	bool found = false;
	u32 i;

	for (i = 0; i <= ND_MAX_DEVICES && !found; i++) {
		struct neuron_device *other = i == 0 ? nd : nd_device_by_index(i - 1);
		struct nd_chunk *chunk;

		if (!other)
			continue;
		if (i == 0 || (other != nd && nd_file_is_attached(other, pid))) {
			chunk = nd_chunk_pin_address(other, address, size);
			found = chunk;
			nd_chunk_put(chunk);
		}
		if (i)
			nd_device_put(other);
	}
	return found;
}

static int check_descriptors(struct neuron_device *nd, const struct nd_descriptor *descriptors,
			     u32 count)
{
	struct nd_chunk *known = NULL;
	u32 i;

	for (i = 0; i < count; i++) {
		const struct nd_descriptor *d = &descriptors[i];
		u64 address = d->address;
		u32 length = nd_descriptor_length(d);

		/* The words of a metadata descriptor are no address. */
		if ((d->control & NEURON_DESC_META) ||
		    (!nd_chip_is_host(nd->chip, address) &&
		     !nd_chip_is_host(nd->chip, address + length - 1)))
			continue;
		if (known && address >= known->address && length <= known->size &&
		    address - known->address <= known->size - length)
			continue;
		nd_chunk_put(known);
		known = nd_chunk_pin_address(nd, address, length);
		if (known || is_own_memory(nd, address, length))
			continue;
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: a descriptor points to %u bytes of host memory at 0x%llx, which is no memory of a device that pid %d has open\n",
			nd->index, length, address, nd_current_pid());
		return -EINVAL;
	}
	nd_chunk_put(known);
	return 0;
}

static int copy_descriptors(struct nd_file *file, u64 handle, const void __user *buffer, u32 count,
			    u64 offset, u32 type)
{
	struct neuron_device *nd = file->nd;
	struct nd_descriptor *piece = NULL;
	struct nd_chunk *ring;
	u32 done = 0;
	int error;

	if (type != NEURON_DMA_QUEUE_TYPE_TX && type != NEURON_DMA_QUEUE_TYPE_RX)
		return -EPERM;
	ring = nd_chunk_pin(nd, handle);
	if (!ring)
		return -EINVAL;
	error = nd_chunk_check_range(ring, offset, (u64)count * NEURON_DESC_BYTES);
	trace_dma_desc_copy(nd->index, handle, ring->address + offset,
			    (u64)count * NEURON_DESC_BYTES);
	if (!error && count) {
		piece = kvmalloc_array(min(count, DESCRIPTOR_PIECE), sizeof(*piece), GFP_KERNEL);
		error = piece ? 0 : -ENOMEM;
	}
	/* Checked in a copy, so that the process cannot change them between check and use. */
	while (!error && done < count) {
		u32 now = min(count - done, DESCRIPTOR_PIECE);
		u64 at = offset + (u64)done * NEURON_DESC_BYTES;

		if (copy_from_user(piece, buffer + (u64)done * NEURON_DESC_BYTES,
				   now * sizeof(*piece))) {
			error = -EFAULT;
			break;
		}
		error = check_descriptors(nd, piece, now);
		if (error)
			break;
		if (ring->host)
			memcpy(ring->va + at, piece, now * sizeof(*piece));
		else
			error = nd_copy_from_kernel(nd_copy_ring_of(ring), ring->address + at,
						    piece, now * sizeof(*piece));
		done += now;
	}
	kvfree(piece);
	nd_chunk_put(ring);
	return error;
}

static int descriptors(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	const struct neuron_ioctl_dma_copy_descriptors *c = argument;

	return copy_descriptors(file, c->mem_handle, (const void __user *)c->buffer, c->num_descs,
				c->offset, c->queue_type);
}

static int descriptors64(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			 void __user *user)
{
	const struct neuron_ioctl_dma_copy_descriptors64 *c = argument;

	return copy_descriptors(file, c->mem_handle, (const void __user *)c->buffer, c->num_descs,
				c->offset, c->queue_type);
}

static int copyout(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		   void __user *user)
{
	const struct neuron_ioctl_dma_descriptor_copyout *c = argument;
	struct neuron_device *nd = file->nd;
	struct nd_chunk *chunk = NULL;
	struct nd_queue_ring ring = {};
	u64 offset = (u64)c->start_index * NEURON_DESC_BYTES;
	u64 bytes = (u64)c->count * NEURON_DESC_BYTES;
	struct nd_queue *queue;
	int error = check_queue(nd, c->eng_id, c->qid);

	if (error)
		return error;
	mutex_lock(&nd->engine[c->eng_id].lock);
	queue = &nd->engine[c->eng_id].queue[c->qid];
	if (c->type == NEURON_DMA_QUEUE_TYPE_TX) {
		ring = queue->tx;
		chunk = queue->tx_chunk;
	} else if (c->type == NEURON_DMA_QUEUE_TYPE_RX) {
		ring = queue->rx;
		chunk = queue->rx_chunk;
	}
	if (chunk)
		nd_chunk_get(chunk);
	mutex_unlock(&nd->engine[c->eng_id].lock);
	if (c->count == 0 || !chunk)
		error = -EINVAL;
	else if (c->start_index >= ring.count || c->count > ring.count - c->start_index)
		error = -EFBIG;
	else if (chunk->host)
		error = copy_to_user((void __user *)c->buffer, chunk->va + offset, bytes) ? -EFAULT
											  : 0;
	else
		error = nd_zero_copy(nd_copy_ring_of(chunk), ring.address + offset,
				     (void __user *)c->buffer, bytes, false);
	nd_chunk_put(chunk);
	return error;
}

static int quiesce(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		   void __user *user)
{
	return -ENOTTY;
}

const struct nd_handler nd_dma_handlers[] = {
	{ NEURON_IOCTL_DMA_ENG_INIT, ND_OUT_NONE, no_effect },
	{ NEURON_IOCTL_DMA_QUEUE_RELEASE, ND_OUT_NONE, no_effect },
	{ NEURON_IOCTL_DMA_ENG_SET_STATE, ND_OUT_NONE, set_state },
	{ NEURON_IOCTL_DMA_ENG_GET_STATE, ND_OUT_NONE, get_state },
	{ NEURON_IOCTL_DMA_QUEUE_INIT, ND_OUT_NONE, queue_init },
	{ NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, ND_OUT_NONE, queue_init_batch },
	{ NEURON_IOCTL_DMA_QUEUE_COPY_START, ND_OUT_NONE, queue_start },
	{ NEURON_IOCTL_DMA_ACK_COMPLETED, ND_OUT_NONE, acknowledge },
	{ NEURON_IOCTL_DMA_QUEUE_GET_STATE, ND_OUT_NONE, queue_get_state },
	{ NEURON_IOCTL_DMA_COPY_DESCRIPTORS, ND_OUT_NONE, descriptors },
	{ NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, ND_OUT_NONE, descriptors64 },
	{ NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, ND_OUT_NONE, copyout },
	{ NEURON_IOCTL_DMA_QUIESCE_QUEUES, ND_OUT_NONE, quiesce },
	{},
};
