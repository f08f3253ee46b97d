// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that move bytes: between handles, user buffers and the chip, through the copy ring of a
 * core.
 */
#include <linux/io.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver/kmod/neuron.h"
#include "driver/kmod/trace.h"

/* ---- handle to handle ---- */

struct pair {
	struct nd_chunk *source;
	struct nd_chunk *destination;
};

static void unpin_pair(struct pair *pair)
{
	nd_chunk_put(pair->source);
	nd_chunk_put(pair->destination);
}

static int pin_pair(struct neuron_device *nd, u64 source, u64 destination, struct pair *pair)
{
	pair->source = nd_chunk_pin(nd, source);
	pair->destination = pair->source ? nd_chunk_pin(nd, destination) : NULL;
	if (pair->destination)
		return 0;
	nd_chunk_put(pair->source);
	return -EINVAL;
}

static int check_pair(struct pair *pair, u64 source_offset, u64 destination_offset, u64 size)
{
	int error = nd_chunk_check_range(pair->source, source_offset, size);

	return error ? error : nd_chunk_check_range(pair->destination, destination_offset, size);
}

static int copy(struct nd_file *file, const struct neuron_ioctl_mem_copy64 *c)
{
	struct pair pair;
	struct nd_chunk *rules;
	int error = pin_pair(file->nd, c->src_mem_handle, c->dst_mem_handle, &pair);

	if (error)
		return error;
	error = check_pair(&pair, c->src_offset, c->dst_offset, c->size);
	trace_ioctl_mem_copy(file->nd->index, pair.source->address + c->src_offset,
			     pair.destination->address + c->dst_offset, c->size);
	/* The queue of the side in HBM; of the destination if both or none are. */
	rules = pair.destination->host && !pair.source->host ? pair.source : pair.destination;
	if (!error)
		error = nd_copy(nd_copy_ring_of(rules), pair.destination->address + c->dst_offset,
				pair.source->address + c->src_offset, c->size, 0);
	unpin_pair(&pair);
	return error;
}

static int mem_copy(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		    void __user *user)
{
	const struct neuron_ioctl_mem_copy *c = argument;
	const struct neuron_ioctl_mem_copy64 wide = { c->src_mem_handle, c->dst_mem_handle, c->size,
						      c->src_offset, c->dst_offset };

	return copy(file, &wide);
}

static int mem_copy64(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	return copy(file, argument);
}

/* ---- asynchronous ---- */

static int copy_async(struct nd_file *file, const struct neuron_ioctl_mem_copy_async64 *c,
		      __u32 *wait_handle)
{
	struct neuron_device *nd = file->nd;
	struct nd_copy_ring *ring;
	struct pair pair;
	u32 handle;
	int error;

	if (nd_async_next((s32)c->pwait_handle, &handle)) {
		dev_warn_ratelimited(nd->dev, "neuron%u: there is no transfer handle %d\n",
				     nd->index, (s32)c->pwait_handle);
		return -EINVAL;
	}
	if (nd_async_check_size(c->size)) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: an asynchronous copy has at most %llu bytes, found %llu\n",
			nd->index, ND_ASYNC_BYTES, c->size);
		return -EINVAL;
	}
	error = pin_pair(nd, c->src_mem_handle, c->dst_mem_handle, &pair);
	if (error)
		return error;
	ring = nd_copy_ring_of(pair.source->host ? pair.destination : pair.source);
	error = check_pair(&pair, c->src_offset, c->dst_offset, c->size);
	if (error)
		goto unpin;
	error = nd_async_check_started(&ring->async, (s32)c->pwait_handle);
	if (error)
		goto unpin;
	if (handle == NEURON_DMA_H2T_CTX_HANDLE_SYNC)
		error = nd_copy(ring, pair.destination->address + c->dst_offset,
				pair.source->address + c->src_offset, c->size, 0);
	else
		error = nd_copy_start(ring, handle, pair.destination, c->dst_offset, pair.source,
				      c->src_offset, c->size);
	if (error)
		goto unpin;
	*wait_handle = handle;
	/*
	 * While the engine works; whether it succeeds does not matter. The buffer keeps its bytes,
	 * which fault_in_writeable() would not let it.
	 */
	if (c->host_prefetch_addr && c->size &&
	    access_ok((void __user *)c->host_prefetch_addr, c->size))
		(void)!fault_in_safe_writeable((char __user *)c->host_prefetch_addr, c->size);
	if ((s32)c->pwait_handle > 0)
		error = nd_copy_wait(ring, c->pwait_handle);
unpin:
	unpin_pair(&pair);
	return error;
}

static int mem_copy_async(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			  void __user *user)
{
	struct neuron_ioctl_mem_copy_async *c = argument;
	const struct neuron_ioctl_mem_copy_async64 wide = {
		c->src_mem_handle, c->dst_mem_handle,	  c->size,	   c->src_offset,
		c->dst_offset,	   c->host_prefetch_addr, c->pwait_handle, 0
	};

	return copy_async(file, &wide, &c->wait_handle);
}

static int mem_copy_async64(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			    void __user *user)
{
	struct neuron_ioctl_mem_copy_async64 *c = argument;

	return copy_async(file, c, &c->wait_handle);
}

static int mem_copy_async_wait(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			       void __user *user)
{
	const struct neuron_ioctl_mem_copy_async_wait *w = argument;
	struct pair pair;
	int error;

	error = pin_pair(file->nd, w->src_mem_handle, w->dst_mem_handle, &pair);
	if (error)
		return error;
	error = nd_copy_wait(nd_copy_ring_of(pair.source->host ? pair.destination : pair.source),
			     w->pwait_handle);
	unpin_pair(&pair);
	return error;
}

/* ---- buffers ---- */

/* Most that the CPU writes itself, whatever user space allows. */
#define CPU_BYTES (2 * PAGE_SIZE)

/* A few words go to HBM faster through the write-combined BAR than by DMA. */
static bool fits_cpu(struct nd_chunk *chunk, u64 size, u64 offset, u32 threshold)
{
	struct neuron_device *nd = chunk->nd;
	unsigned long pfn;

	return size <= threshold && size <= CPU_BYTES && !((size | offset) % 4) && nd->bar4 &&
	       !nd_chunk_pfn(chunk, offset, &pfn) && !nd_chunk_pfn(chunk, offset + size - 1, &pfn);
}

static int write_by_cpu(struct nd_chunk *chunk, const void __user *buffer, u64 size, u64 offset)
{
	struct neuron_device *nd = chunk->nd;
	u64 inside = nd_chip_bar4_offset(nd->chip, chunk->address + offset, nd->hbm_window);
	void *words = kmalloc(size, GFP_KERNEL);
	int error = words ? 0 : -ENOMEM;

	if (!error && copy_from_user(words, buffer, size))
		error = -EFAULT;
	if (!error) {
		__iowrite32_copy(nd->bar4 + inside, words, size / 4);
		/* Out of the write-combining buffers before any doorbell that follows. */
		wmb();
	}
	kfree(words);
	return error;
}

static int buffer_copy(struct nd_file *file, u64 handle, void __user *buffer, u64 size, u64 offset,
		       bool to_device, s32 queue, u32 cpu_threshold)
{
	struct neuron_device *nd = file->nd;
	struct nd_chunk *chunk = nd_chunk_pin(nd, handle);
	struct nd_copy_ring *ring;
	int error;

	if (!chunk)
		return -EINVAL;
	ring = nd_copy_ring_find(nd, chunk->core, queue);
	error = nd_chunk_check_range(chunk, offset, size);
	if (!ring) {
		dev_warn_ratelimited(nd->dev, "neuron%u core %u: no copy queue %d\n", nd->index,
				     chunk->core, queue);
		error = -ENOENT;
	}
	if (error || size == 0)
		goto unpin;
	if (to_device)
		trace_ioctl_mem_copyin(nd->index, handle, chunk->address + offset, size);
	else
		trace_ioctl_mem_copyout(nd->index, handle, chunk->address + offset, size);
	if (nd_is_lost(nd))
		error = -ENODEV;
	else if (!chunk->host && to_device && fits_cpu(chunk, size, offset, cpu_threshold))
		error = write_by_cpu(chunk, buffer, size, offset);
	else if (!chunk->host)
		error = nd_zero_copy(ring, chunk->address + offset, buffer, size, to_device);
	else if (to_device)
		error = copy_from_user(chunk->va + offset, buffer, size) ? -EFAULT : 0;
	else
		error = copy_to_user(buffer, chunk->va + offset, size) ? -EFAULT : 0;
unpin:
	if (ring)
		nd_copy_ring_put(ring);
	nd_chunk_put(chunk);
	return error;
}

static int mem_buf_copy(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			void __user *user)
{
	const struct neuron_ioctl_mem_buf_copy *c = argument;

	return buffer_copy(file, c->mem_handle, (void __user *)c->buffer, c->size, c->offset,
			   c->copy_to_mem_handle, NEURON_DMA_H2T_DEFAULT_QID, 0);
}

/* Also the first form of zero-copy, whose argument is the same. */
static int mem_buf_copy64(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			  void __user *user)
{
	const struct neuron_ioctl_mem_buf_copy64 *c = argument;

	return buffer_copy(file, c->mem_handle, (void __user *)c->buffer, c->size, c->offset,
			   c->copy_to_mem_handle, NEURON_DMA_H2T_DEFAULT_QID, 0);
}

static bool refuses_zero_copy(struct neuron_device *nd)
{
	return !nd->chip->copies_without_buffer && !nd_param_zerocopy_trn1;
}

static int mem_buf_zerocopy64(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			      void __user *user)
{
	const struct neuron_ioctl_mem_buf_copy64zc *c = argument;

	if (refuses_zero_copy(file->nd))
		return -EINVAL;
	return buffer_copy(file, c->mem_handle, (void __user *)c->buffer, c->size, c->offset,
			   c->is_copy_to_device, c->h2t_qid, c->bar4_wr_threshold);
}

static int one_batch(struct nd_file *file, const neuron_memcpy_batch_t *batch, bool to_device,
		     s32 queue)
{
	const nrt_tensor_batch_op_t __user *ops =
		(const nrt_tensor_batch_op_t __user *)batch->ops_ptr;
	u32 i;

	if (!ops || batch->num_ops == 0)
		return -EINVAL;
	for (i = 0; i < batch->num_ops; i++) {
		nrt_tensor_batch_op_t op;
		u64 offset;
		int error;

		if (copy_from_user(&op, ops + i, sizeof(op)))
			return -EFAULT;
		offset = batch->mem_handle_offset + op.offset;
		if (op.size == 0 || offset < op.offset)
			return -EINVAL;
		error = buffer_copy(file, batch->mem_handle, (void __user *)op.buffer, op.size,
				    offset, to_device, queue, batch->bar4_wr_threshold);
		if (error)
			return error;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

static int mem_buf_zerocopy64_batches(struct nd_file *file, const struct nd_ioctl *call,
				      void *argument, void __user *user)
{
	const struct neuron_ioctl_mem_buf_copy64zc_batches *c = argument;
	const neuron_memcpy_batch_t __user *batches =
		(const neuron_memcpy_batch_t __user *)c->batches_ptr;
	u32 i;

	if (refuses_zero_copy(file->nd) || !batches || c->num_batches == 0)
		return -EINVAL;
	for (i = 0; i < c->num_batches; i++) {
		neuron_memcpy_batch_t batch;
		int error;

		if (copy_from_user(&batch, batches + i, sizeof(batch)))
			return -EFAULT;
		error = one_batch(file, &batch, c->is_copy_to_device, c->h2t_qid);
		if (error)
			return error;
	}
	return 0;
}

/* ---- fills and on-chip memory ---- */

static int fill(struct nd_file *file, u64 handle, u64 offset, u32 value, u64 size)
{
	struct nd_chunk *chunk = nd_chunk_pin(file->nd, handle);
	u32 byte = value & 0xFF;
	int error;

	if (!chunk)
		return -EINVAL;
	error = nd_chunk_check_range(chunk, offset, size);
	if (!error && size) {
		if (chunk->host)
			memset(chunk->va + offset, byte, size);
		else
			error = nd_copy_fill(nd_copy_ring_of(chunk), chunk->address + offset,
					     byte * 0x01010101u, size);
	}
	nd_chunk_put(chunk);
	return error;
}

static int mem_set(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		   void __user *user)
{
	const struct neuron_ioctl_memset *m = argument;

	return fill(file, m->mem_handle, m->offset, m->value, m->size);
}

static int mem_set64(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	const struct neuron_ioctl_memset64 *m = argument;

	return fill(file, m->mem_handle, m->offset, m->value, m->size);
}

/* The offset counts on both sides. */
static int program(struct nd_file *file, u32 core, u64 destination, void *buffer, u64 size,
		   u64 offset)
{
	struct neuron_device *nd = file->nd;
	u64 to = destination + offset;
	u64 from = (u64)buffer + offset;

	if (!nd_has_core(nd, core))
		return -E2BIG;
	if (to < destination || size == 0 || !nd_chip_is_programmable(nd->chip, to, size)) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u core %u: %llu bytes at 0x%llx are not inside a core or CC core window\n",
			nd->index, core, size, to);
		return -ENOMEM;
	}
	if (from < offset)
		return -EFAULT;
	return nd_zero_copy(&nd->core[core].ring, to, (void __user *)from, size, true);
}

static int program_engine(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			  void __user *user)
{
	const struct neuron_ioctl_program_engine *p = argument;

	return program(file, __ffs(file->nd->core_map), p->dst, p->buffer, p->size, p->offset);
}

static int program_engine_nc(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			     void __user *user)
{
	const struct neuron_ioctl_program_engine_nc *p = argument;

	return program(file, p->nc_id, p->dst, p->buffer, p->size, p->offset);
}

static int program_engine_nc64(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			       void __user *user)
{
	const struct neuron_ioctl_program_engine_nc64 *p = argument;

	return program(file, p->nc_id, p->dst, p->buffer, p->size, p->offset);
}

const struct nd_handler nd_copy_handlers[] = {
	{ NEURON_IOCTL_MEM_COPY, ND_OUT_NONE, mem_copy },
	{ NEURON_IOCTL_MEM_COPY64, ND_OUT_NONE, mem_copy64 },
	{ NEURON_IOCTL_MEM_BUF_COPY, ND_OUT_NONE, mem_buf_copy },
	{ NEURON_IOCTL_MEM_BUF_COPY64, ND_OUT_NONE, mem_buf_copy64 },
	{ NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24, ND_OUT_NONE, mem_buf_copy64 },
	{ NEURON_IOCTL_MEM_BUF_ZEROCOPY64, ND_OUT_NONE, mem_buf_zerocopy64 },
	{ NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, ND_OUT_NONE, mem_buf_zerocopy64_batches },
	{ NEURON_IOCTL_MEMSET, ND_OUT_NONE, mem_set },
	{ NEURON_IOCTL_MEMSET64, ND_OUT_NONE, mem_set64 },
	{ NEURON_IOCTL_MEM_COPY_ASYNC, ND_OUT_SUCCESS, mem_copy_async },
	{ NEURON_IOCTL_MEM_COPY_ASYNC64, ND_OUT_SUCCESS, mem_copy_async64 },
	{ NEURON_IOCTL_MEM_COPY_ASYNC_WAIT, ND_OUT_NONE, mem_copy_async_wait },
	{ NEURON_IOCTL_PROGRAM_ENGINE, ND_OUT_NONE, program_engine },
	{ NEURON_IOCTL_PROGRAM_ENGINE_NC, ND_OUT_NONE, program_engine_nc },
	{ NEURON_IOCTL_PROGRAM_ENGINE_NC64, ND_OUT_NONE, program_engine_nc64 },
	{},
};
