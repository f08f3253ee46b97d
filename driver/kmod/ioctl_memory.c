// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls about memory: allocation, information, lists, scrubbing, places to map.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver/kmod/neuron.h"
#include "driver/kmod/trace.h"

/* One piece of a scrub, so that copies of others get their turn. */
#define SCRUB_PIECE (64ull << 20)
#define EXTENDED_PAGE_CHUNKS 64u

static int allocate(struct nd_file *file, const struct nd_memory_request *wanted,
		    __u64 __user *user_handle)
{
	struct neuron_device *nd = file->nd;
	struct nd_memory_request request = *wanted;
	struct nd_chunk *chunk;
	int error;

	request.pid = nd_current_pid();
	request.payer = request.pid;
	request.lifespan = ND_LIFE_PROCESS;
	request.with_handle = true;
	request.pinned = true;
	error = nd_memory_allocate(nd, &request, &chunk);
	if (error)
		return error;
	trace_ioctl_mem_alloc(nd->index, chunk->handle, chunk->address, chunk->size);
	if (put_user((__u64)chunk->handle, user_handle)) {
		nd_chunk_free(chunk);
		error = -EFAULT;
	}
	nd_chunk_put(chunk);
	return error;
}

static u32 default_category(u32 host)
{
	return host ? NEURON_MEMALLOC_TYPE_UNKNOWN_HOST : NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE;
}

static int mem_alloc(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	const struct neuron_ioctl_mem_alloc *a = argument;
	struct nd_memory_request request = {
		.size = a->size,
		.host = a->host_memory,
		.hbm = a->dram_channel,
		.region = a->dram_region,
		.core = a->nc_id,
		.category = default_category(a->host_memory),
	};

	return allocate(file, &request, (__u64 __user *)a->mem_handle);
}

static int mem_alloc_v2(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			void __user *user)
{
	const struct neuron_ioctl_mem_alloc_v2 *a = argument;
	struct nd_memory_request request = {
		.size = a->size,
		.alignment = a->align,
		.host = a->host_memory,
		.hbm = a->dram_channel,
		.region = a->dram_region,
		.core = a->nc_id,
		.category = default_category(a->host_memory),
	};

	return allocate(file, &request, (__u64 __user *)a->mem_handle);
}

/* Both forms with a category: the longer one begins like the other. */
static int mem_alloc_typed(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			   void __user *user)
{
	const struct neuron_ioctl_mem_alloc_v2_mem_type *a = argument;
	struct nd_memory_request request = {
		.size = a->size,
		.alignment = a->align,
		.host = a->host_memory,
		.hbm = a->dram_channel,
		.region = a->dram_region,
		.core = a->nc_id,
		.category = a->mem_type,
	};

	BUILD_BUG_ON(offsetof(struct neuron_ioctl_mem_alloc_v2_mem_type, mem_handle) !=
		     offsetof(struct neuron_ioctl_mem_alloc_v2_mem_type64, mem_handle));
	return allocate(file, &request, (__u64 __user *)a->mem_handle);
}

static int mem_free(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		    void __user *user)
{
	const struct neuron_ioctl_mem_free *a = argument;

	trace_ioctl_mem_free(file->nd->index, a->mem_handle, 0, 0);
	return nd_memory_free_handle(file->nd, a->mem_handle);
}

static int mem_get_pa(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	const struct neuron_ioctl_mem_get_pa *a = argument;
	struct nd_chunk *chunk = nd_chunk_pin(file->nd, a->mem_handle);
	u64 address;

	if (!chunk)
		return -EINVAL;
	address = chunk->address;
	nd_chunk_put(chunk);
	return put_user(address, (__u64 __user *)a->pa) ? -EFAULT : 0;
}

static int mem_get_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			void __user *user)
{
	const struct neuron_ioctl_mem_get_info *a = argument;
	struct nd_chunk *chunk = nd_chunk_pin(file->nd, a->mem_handle);
	u64 address;

	if (!chunk)
		return -EINVAL;
	address = chunk->address;
	nd_chunk_put(chunk);
	if (put_user(address, (__u64 __user *)a->pa) ||
	    put_user(address, (__u64 __user *)a->mmap_offset))
		return -EFAULT;
	return 0;
}

static int mem_get_extended_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
				 void __user *user)
{
	struct neuron_ioctl_mem_get_extended_info *info = argument;
	struct nd_chunk *chunk = nd_chunk_pin(file->nd, info->mem_handle);

	if (!chunk)
		return -EINVAL;
	info->host_memory = chunk->host;
	info->mmap_offset = chunk->address;
	info->pa = chunk->address;
	info->pid = chunk->pid;
	info->size = chunk->size;
	nd_chunk_put(chunk);
	return 0;
}

static int chunk_at(struct nd_file *file, u64 address, __u64 *offset, __u64 *size, __u64 *handle)
{
	struct nd_chunk *chunk = nd_chunk_pin_address(file->nd, address, 1);
	u32 number = 0;
	int error = 0;

	if (!chunk) {
		dev_warn_ratelimited(file->nd->dev,
				     "neuron%u: no allocation contains address 0x%llx\n",
				     file->nd->index, address);
		return -ENOMEM;
	}
	if (handle)
		error = nd_chunk_give_handle(chunk, &number);
	if (!error) {
		*offset = chunk->address;
		*size = chunk->size;
		if (handle)
			*handle = number;
	}
	nd_chunk_put(chunk);
	return error;
}

static int mem_mc_get_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			   void __user *user)
{
	struct neuron_ioctl_mem_get_mc_mmap_info *info = argument;

	return chunk_at(file, info->pa, &info->mmap_offset, &info->size, NULL);
}

static int mem_mc_get_info_v2(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			      void __user *user)
{
	struct neuron_ioctl_mem_get_mc_mmap_info_v2 *info = argument;

	return chunk_at(file, info->pa, &info->mmap_offset, &info->size, &info->mem_handle);
}

/*
 * Live allocations of a stack in address order, the firmware's first. Writes up to `room` of them
 * and returns how many there are.
 */
static u32 list_chunks(struct neuron_device *nd, u32 hbm, struct neuron_ioctl_mem_chunk_info *out,
		       u32 room)
{
	struct rb_node *node;
	u32 count = 1;

	/* Field by field: the gap at the end of an entry stays zero. */
	if (room) {
		out[0].pa = nd_chip_hbm_base(nd->chip, hbm);
		out[0].size = nd->chip->carve_out;
		out[0].mem_type = NEURON_MEMALLOC_TYPE_NCDEV_DEVICE;
	}
	mutex_lock(&nd->memory.lock);
	for (node = rb_first(&nd->memory.chunks); node; node = rb_next(node)) {
		struct nd_chunk *chunk = rb_entry(node, struct nd_chunk, node);

		if (chunk->host || chunk->hbm != hbm)
			continue;
		if (count < room) {
			out[count].pa = chunk->address;
			out[count].size = chunk->size;
			out[count].mem_type = chunk->category;
		}
		count++;
	}
	mutex_unlock(&nd->memory.lock);
	return count;
}

static int dump_mem_chunks(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			   void __user *user)
{
	struct neuron_ioctl_dump_mem_chunks *dump = argument;
	struct neuron_device *nd = file->nd;
	struct neuron_ioctl_mem_chunk_info *list;
	u32 room;
	u32 count;
	int error = 0;

	if (dump->hbm_index >= nd->chip->hbms)
		return -EINVAL;
	count = list_chunks(nd, dump->hbm_index, NULL, 0);
	dump->num_entries_out = count;
	if (dump->num_entries_in < count)
		return -EAGAIN;
	/* Others may allocate between the two looks. */
	room = min(dump->num_entries_in, count + EXTENDED_PAGE_CHUNKS);
	list = kvcalloc(room, sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	count = list_chunks(nd, dump->hbm_index, list, room);
	dump->num_entries_out = count;
	if (count > room)
		error = -EAGAIN;
	else if (copy_to_user((void __user *)dump->data, list, count * sizeof(*list)))
		error = -EFAULT;
	kvfree(list);
	return error;
}

static int hbm_scrub_start(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			   void __user *user)
{
	const struct neuron_ioctl_hbm_scrub_start *scrub = argument;
	struct neuron_device *nd = file->nd;
	const struct nd_chip *chip = nd->chip;
	u64 done = chip->carve_out;
	int error = 0;
	bool begun;

	if (!nd_has_core(nd, scrub->nc_id))
		return -E2BIG;
	if (scrub->hbm_index >= chip->hbms)
		return -EPERM;
	mutex_lock(&nd->scrub_lock);
	begun = nd->scrubbed & BIT(scrub->hbm_index);
	nd->scrubbed |= BIT(scrub->hbm_index);
	mutex_unlock(&nd->scrub_lock);
	if (begun) {
		dev_warn_ratelimited(
			nd->dev, "neuron%u: HBM %u is being scrubbed; call HBM_SCRUB_WAIT first\n",
			nd->index, scrub->hbm_index);
		return -EPERM;
	}
	while (!error && done < chip->hbm_bytes) {
		u64 length = min(chip->hbm_bytes - done, SCRUB_PIECE);

		error = nd_copy_fill(&nd->core[scrub->nc_id].ring,
				     nd_chip_hbm_base(chip, scrub->hbm_index) + done,
				     scrub->init_val, length);
		done += length;
		if (!error && fatal_signal_pending(current))
			error = -EINTR;
	}
	if (error) {
		mutex_lock(&nd->scrub_lock);
		nd->scrubbed &= ~BIT(scrub->hbm_index);
		mutex_unlock(&nd->scrub_lock);
	}
	return error;
}

static int hbm_scrub_wait(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			  void __user *user)
{
	const struct neuron_ioctl_hbm_scrub_wait *scrub = argument;
	struct neuron_device *nd = file->nd;
	int error = 0;

	if (scrub->hbm_index >= nd->chip->hbms)
		return -EPERM;
	mutex_lock(&nd->scrub_lock);
	if (!(nd->scrubbed & BIT(scrub->hbm_index)))
		error = -EPERM;
	nd->scrubbed &= ~BIT(scrub->hbm_index);
	mutex_unlock(&nd->scrub_lock);
	return error;
}

const struct nd_handler nd_memory_handlers[] = {
	{ NEURON_IOCTL_MEM_ALLOC, ND_OUT_NONE, mem_alloc },
	{ NEURON_IOCTL_MEM_ALLOC_V2, ND_OUT_NONE, mem_alloc_v2 },
	{ NEURON_IOCTL_MEM_ALLOC_V2MT, ND_OUT_NONE, mem_alloc_typed },
	{ NEURON_IOCTL_MEM_ALLOC_V2MT64, ND_OUT_NONE, mem_alloc_typed },
	{ NEURON_IOCTL_MEM_FREE, ND_OUT_NONE, mem_free },
	{ NEURON_IOCTL_MEM_GET_PA, ND_OUT_NONE, mem_get_pa },
	{ NEURON_IOCTL_MEM_GET_INFO, ND_OUT_NONE, mem_get_info },
	{ NEURON_IOCTL_MEM_GET_EXTENDED_INFO, ND_OUT_SUCCESS, mem_get_extended_info },
	{ NEURON_IOCTL_MEM_MC_GET_INFO, ND_OUT_SUCCESS, mem_mc_get_info },
	{ NEURON_IOCTL_MEM_MC_GET_INFO_V2, ND_OUT_SUCCESS, mem_mc_get_info_v2 },
	{ NEURON_IOCTL_DUMP_MEM_CHUNKS, ND_OUT_ALWAYS, dump_mem_chunks },
	{ NEURON_IOCTL_HBM_SCRUB_START, ND_OUT_NONE, hbm_scrub_start },
	{ NEURON_IOCTL_HBM_SCRUB_WAIT, ND_OUT_NONE, hbm_scrub_wait },
	{},
};
