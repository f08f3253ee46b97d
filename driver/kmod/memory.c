// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of a device: HBM from the pools of the driver core, host memory (host_memory.c), and the
 * tables that find it by handle and by address.
 *
 * memory.lock guards all of it. No function here touches user memory or registers.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "driver/kmod/neuron.h"

#define NODES_PER_BATCH 128u

struct node_batch {
	struct list_head link; /* memory.nodes */
	struct nd_block nodes[NODES_PER_BATCH];
};

static struct nd_block *new_nodes(struct neuron_device *nd)
{
	struct node_batch *batch = kvzalloc(sizeof(*batch), GFP_KERNEL);

	if (!batch)
		return NULL;
	list_add(&batch->link, &nd->memory.nodes);
	return batch->nodes;
}

int nd_memory_create(struct neuron_device *nd)
{
	const struct nd_chip *chip = nd->chip;
	u64 small = ALIGN_DOWN((u64)nd_param_small_pool_size, PAGE_SIZE);
	u32 hbm;

	if (chip->hbm_bytes <= 4 * small)
		small = 0;
	nd->memory.chunks = RB_ROOT;
	nd_handles_init(&nd->memory.handles);
	for (hbm = 0; hbm < chip->hbms; hbm++) {
		struct nd_block *nodes = new_nodes(nd);

		if (!nodes)
			return -ENOMEM;
		if (nd_hbm_init(&nd->memory.hbm[hbm], nd_chip_hbm_base(chip, hbm), chip->hbm_bytes,
				chip->carve_out, small, nodes, NODES_PER_BATCH)) {
			dev_err(nd->dev, "neuron%u: an HBM of %llu bytes cannot be laid out\n",
				nd->index, chip->hbm_bytes);
			return -EINVAL;
		}
		nd_account_allocate(&nd->memory.accounting, NEURON_MEMALLOC_TYPE_NCDEV_DEVICE,
				    false, chip->carve_out);
		nd_account_allocate(&nd->core[hbm].accounting, NEURON_MEMALLOC_TYPE_NCDEV_DEVICE,
				    false, chip->carve_out);
	}
	nd_host_reserve_create(nd);
	nd->memory.ready = true;
	return 0;
}

/* ---- tables; the lock is held ---- */

static struct nd_chunk *find_containing(struct neuron_device *nd, u64 address)
{
	struct rb_node *node = nd->memory.chunks.rb_node;

	while (node) {
		struct nd_chunk *chunk = rb_entry(node, struct nd_chunk, node);

		if (address < chunk->address)
			node = node->rb_left;
		else if (address - chunk->address >= chunk->size)
			node = node->rb_right;
		else
			return chunk;
	}
	return NULL;
}

static int insert_handle(struct neuron_device *nd, struct nd_chunk *chunk)
{
	struct nd_handle_table *table = &nd->memory.handles;

	if (nd_handles_full(table)) {
		struct nd_handle_entry *level =
			kvcalloc(ND_HANDLES_PER_LEVEL, sizeof(*level), GFP_KERNEL);

		if (!level)
			return -ENOMEM;
		if (nd_handles_add_level(table, level)) {
			kvfree(level);
			dev_warn_ratelimited(nd->dev,
					     "neuron%u: all %u memory handles are in use\n",
					     nd->index,
					     ND_HANDLE_LEVELS * ND_HANDLES_PER_LEVEL - 1);
			return -ENOENT;
		}
	}
	return nd_handles_insert(table, chunk, &chunk->handle);
}

static int publish(struct neuron_device *nd, struct nd_chunk *chunk, bool with_handle)
{
	struct rb_node **link = &nd->memory.chunks.rb_node;
	struct rb_node *parent = NULL;
	int error = with_handle ? insert_handle(nd, chunk) : 0;

	if (error)
		return error;
	while (*link) {
		parent = *link;
		if (chunk->address < rb_entry(parent, struct nd_chunk, node)->address)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}
	rb_link_node(&chunk->node, parent, link);
	rb_insert_color(&chunk->node, &nd->memory.chunks);
	chunk->published = true;
	nd_account_allocate(&nd->memory.accounting, chunk->category, chunk->host, chunk->size);
	nd_account_allocate(&nd->core[chunk->core].accounting, chunk->category, chunk->host,
			    chunk->size);
	return 0;
}

/* False if it was out of the tables already. */
static bool unpublish(struct neuron_device *nd, struct nd_chunk *chunk)
{
	if (!chunk->published)
		return false;
	chunk->published = false;
	rb_erase(&chunk->node, &nd->memory.chunks);
	if (chunk->handle)
		nd_handles_remove(&nd->memory.handles, chunk->handle);
	nd_account_free(&nd->memory.accounting, chunk->category, chunk->host, chunk->size);
	nd_account_free(&nd->core[chunk->core].accounting, chunk->category, chunk->host,
			chunk->size);
	return true;
}

static void give_back(struct neuron_device *nd, struct nd_chunk *chunk)
{
	if (chunk->given_back)
		return;
	chunk->given_back = true;
	list_del(&chunk->all);
	if (chunk->host)
		nd_host_free(nd, chunk);
	else
		nd_hbm_free(&nd->memory.hbm[chunk->hbm], chunk->block);
	chunk->va = NULL;
	chunk->block = NULL;
}

/* Called with the lock held, which it gives up. */
static void release_chunk(struct kref *refs)
{
	struct nd_chunk *chunk = container_of(refs, struct nd_chunk, refs);
	struct neuron_device *nd = chunk->nd;

	give_back(nd, chunk);
	mutex_unlock(&nd->memory.lock);
	kfree(chunk);
	nd_device_put(nd);
}

void nd_chunk_get(struct nd_chunk *chunk)
{
	kref_get(&chunk->refs);
}

void nd_chunk_put(struct nd_chunk *chunk)
{
	if (chunk)
		kref_put_mutex(&chunk->refs, release_chunk, &chunk->nd->memory.lock);
}

/* ---- allocation ---- */

static int allocate_host(struct neuron_device *nd, const struct nd_memory_request *request,
			 struct nd_chunk *chunk)
{
	if (request->alignment) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: host memory takes no alignment, found %llu; it is page aligned anyway\n",
			nd->index, request->alignment);
		return -EINVAL;
	}
	return nd_host_allocate(nd, chunk, request->payer);
}

static int allocate_hbm(struct neuron_device *nd, const struct nd_memory_request *request,
			struct nd_chunk *chunk)
{
	struct nd_hbm *hbm = &nd->memory.hbm[request->hbm];
	int error;

	if (nd_hbm_needs_nodes(hbm)) {
		struct nd_block *nodes = new_nodes(nd);

		if (!nodes)
			return -ENOMEM;
		nd_hbm_give_nodes(hbm, nodes, NODES_PER_BATCH);
	}
	chunk->scratchpad = request->category == NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE;
	if (chunk->scratchpad)
		error = nd_hbm_allocate_scratchpad(hbm, chunk->size, &chunk->block);
	else
		error = nd_hbm_allocate(hbm, chunk->size, request->alignment, &chunk->block);
	if (error) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: HBM %u has no room for %llu bytes: %llu are free, the largest block is %llu\n",
			nd->index, request->hbm, chunk->size, nd_hbm_free_bytes(hbm),
			nd_hbm_largest_free(hbm));
		return -ENOMEM;
	}
	chunk->address = chunk->block->start;
	return 0;
}

static int check_request(struct neuron_device *nd, const struct nd_memory_request *request)
{
	const char *what = NULL;

	if (request->size == 0 || request->size > S64_MAX)
		what = "size";
	else if (!nd_has_core(nd, request->core))
		what = "core";
	else if (!request->host && request->hbm >= nd->chip->hbms)
		what = "HBM";
	else if (!request->host && request->region != 0)
		what = "region";
	else if (!request->host && request->alignment &&
		 (request->alignment > S32_MAX || !nd_is_power_of_two(request->alignment)))
		what = "alignment";
	if (!what)
		return 0;
	dev_warn_ratelimited(
		nd->dev,
		"neuron%u: cannot allocate %llu bytes aligned to %llu for core %u in HBM %u region %u: the %s does not exist or is out of range\n",
		nd->index, request->size, request->alignment, request->core, request->hbm,
		request->region, what);
	return -EINVAL;
}

int nd_memory_allocate(struct neuron_device *nd, const struct nd_memory_request *request,
		       struct nd_chunk **out)
{
	struct nd_chunk *chunk;
	int error = check_request(nd, request);

	if (error)
		return error;
	if (request->lifespan == ND_LIFE_PROCESS && nd_fault_allocate())
		return -ENOMEM;
	chunk = kzalloc(sizeof(*chunk), GFP_KERNEL_ACCOUNT);
	if (!chunk)
		return -ENOMEM;
	kref_init(&chunk->refs);
	chunk->nd = nd;
	chunk->size = PAGE_ALIGN(request->size);
	chunk->host = request->host;
	chunk->hbm = request->hbm;
	chunk->core = request->core;
	chunk->category = nd_category(request->category, request->host);
	chunk->pid = request->pid;
	chunk->lifespan = request->lifespan;
	chunk->hidden = request->hidden;
	INIT_LIST_HEAD(&chunk->dead);
	mutex_lock(&nd->memory.lock);
	if (!nd->memory.ready) {
		error = -ENODEV;
		goto unlock;
	}
	error = chunk->host ? allocate_host(nd, request, chunk) : allocate_hbm(nd, request, chunk);
	if (error)
		goto unlock;
	list_add(&chunk->all, &nd->memory.all);
	error = publish(nd, chunk, request->with_handle);
	if (error) {
		give_back(nd, chunk);
		goto unlock;
	}
	nd_device_get(nd);
	if (request->pinned)
		kref_get(&chunk->refs);
	mutex_unlock(&nd->memory.lock);
	nd_sysfs_memory_changed(nd, request->core, request->category, request->host);
	*out = chunk;
	return 0;

unlock:
	mutex_unlock(&nd->memory.lock);
	kfree(chunk);
	return error;
}

static int allocate_own(struct neuron_device *nd, u64 size, u32 core, u32 category, bool hidden,
			struct nd_chunk **chunk)
{
	struct nd_memory_request request = {
		.size = size,
		.host = true,
		.core = nd_has_core(nd, core) ? core : __ffs(nd->core_map),
		.category = category,
		.lifespan = ND_LIFE_DEVICE,
		.hidden = hidden,
	};

	return nd_memory_allocate(nd, &request, chunk);
}

int nd_memory_allocate_host(struct neuron_device *nd, u64 size, u32 core, u32 category,
			    struct nd_chunk **chunk)
{
	return allocate_own(nd, size, core, category, false, chunk);
}

int nd_memory_allocate_hidden(struct neuron_device *nd, u64 size, u32 core, u32 category,
			      struct nd_chunk **chunk)
{
	return allocate_own(nd, size, core, category, true, chunk);
}

/* ---- freeing ---- */

/* The last step for a chunk that has left the tables, without the lock. */
static void let_go(struct nd_chunk *chunk)
{
	nd_dmabuf_revoke(chunk->nd, chunk);
	nd_sysfs_memory_changed(chunk->nd, chunk->core, chunk->category, chunk->host);
	nd_chunk_put(chunk);
}

void nd_chunk_free(struct nd_chunk *chunk)
{
	struct neuron_device *nd;
	bool mine;

	if (!chunk)
		return;
	nd = chunk->nd;
	mutex_lock(&nd->memory.lock);
	mine = unpublish(nd, chunk);
	mutex_unlock(&nd->memory.lock);
	/* The caller that takes it out of the tables drops the tables' reference. */
	if (mine)
		let_go(chunk);
}

int nd_memory_free_handle(struct neuron_device *nd, u64 handle)
{
	struct nd_chunk *chunk;
	bool live;

	mutex_lock(&nd->memory.lock);
	chunk = nd_handles_lookup(&nd->memory.handles, handle);
	live = chunk && chunk->lifespan == ND_LIFE_PROCESS && unpublish(nd, chunk);
	mutex_unlock(&nd->memory.lock);
	if (!live) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: memory handle %llu is not live, or belongs to the device\n",
			nd->index, handle);
		return -EINVAL;
	}
	let_go(chunk);
	return 0;
}

void nd_memory_process_exit(struct neuron_device *nd, pid_t pid)
{
	struct rb_node *node;
	struct nd_chunk *chunk;
	struct nd_chunk *next;
	LIST_HEAD(dead);

	mutex_lock(&nd->memory.lock);
	for (node = rb_first(&nd->memory.chunks); node;) {
		chunk = rb_entry(node, struct nd_chunk, node);
		node = rb_next(node);
		if (chunk->lifespan != ND_LIFE_PROCESS || chunk->pid != pid)
			continue;
		unpublish(nd, chunk);
		list_add(&chunk->dead, &dead);
	}
	mutex_unlock(&nd->memory.lock);
	list_for_each_entry_safe(chunk, next, &dead, dead) {
		list_del(&chunk->dead);
		let_go(chunk);
	}
}

void nd_memory_destroy(struct neuron_device *nd)
{
	struct nd_memory *memory = &nd->memory;
	struct node_batch *batch;
	struct node_batch *next_batch;
	struct nd_chunk *chunk;
	struct nd_chunk *next;
	LIST_HEAD(dead);
	u32 i;

	mutex_lock(&memory->lock);
	memory->ready = false;
	list_for_each_entry_safe(chunk, next, &memory->all, all) {
		if (unpublish(nd, chunk))
			list_add(&chunk->dead, &dead);
		/* Another device may still write to host memory that it pinned: that goes later. */
		if (!chunk->host || !atomic_read(&chunk->imports)) {
			give_back(nd, chunk);
		} else if (!nd_host_detach(nd, chunk)) {
			/* The kernel takes back before the device what it keeps for its DMA. */
			dev_warn(
				nd->dev,
				"neuron%u: %llu bytes of host memory that another device has pinned are lost\n",
				nd->index, chunk->size);
			chunk->given_back = true;
			list_del(&chunk->all);
			nd_host_uncharge(chunk->charge, chunk->size);
			chunk->charge = NULL;
		}
	}
	nd_host_reserve_stop(nd);
	for (i = 0; i < memory->handles.level_count; i++)
		kvfree(memory->handles.levels[i]);
	nd_handles_init(&memory->handles);
	list_for_each_entry_safe(batch, next_batch, &memory->nodes, link) {
		list_del(&batch->link);
		kvfree(batch);
	}
	memset(memory->hbm, 0, sizeof(memory->hbm));
	mutex_unlock(&memory->lock);
	list_for_each_entry_safe(chunk, next, &dead, dead) {
		list_del(&chunk->dead);
		nd_chunk_put(chunk);
	}
}

/* ---- looking up ---- */

struct nd_chunk *nd_chunk_pin(struct neuron_device *nd, u64 handle)
{
	struct nd_chunk *chunk;

	mutex_lock(&nd->memory.lock);
	chunk = nd_handles_lookup(&nd->memory.handles, handle);
	if (chunk)
		kref_get(&chunk->refs);
	mutex_unlock(&nd->memory.lock);
	if (!chunk)
		dev_warn_ratelimited(nd->dev, "neuron%u: memory handle %llu is not live\n",
				     nd->index, handle);
	return chunk;
}

struct nd_chunk *nd_chunk_pin_address(struct neuron_device *nd, u64 address, u64 size)
{
	struct nd_chunk *chunk;

	mutex_lock(&nd->memory.lock);
	chunk = find_containing(nd, address);
	if (chunk && (chunk->hidden || size > chunk->size - (address - chunk->address)))
		chunk = NULL;
	if (chunk)
		kref_get(&chunk->refs);
	mutex_unlock(&nd->memory.lock);
	return chunk;
}

int nd_chunk_give_handle(struct nd_chunk *chunk, u32 *handle)
{
	struct neuron_device *nd = chunk->nd;
	int error = 0;

	mutex_lock(&nd->memory.lock);
	if (!chunk->published)
		error = -EINVAL;
	else if (!chunk->handle)
		error = insert_handle(nd, chunk);
	*handle = chunk->handle;
	mutex_unlock(&nd->memory.lock);
	return error;
}

int nd_chunk_check_range(struct nd_chunk *chunk, u64 offset, u64 size)
{
	struct neuron_device *nd = chunk->nd;
	u64 limit = chunk->size;

	if (chunk->scratchpad) {
		mutex_lock(&nd->memory.lock);
		if (nd->memory.ready)
			limit = nd_hbm_main_end(&nd->memory.hbm[chunk->hbm]) - chunk->address;
		mutex_unlock(&nd->memory.lock);
	}
	if (offset <= limit && size <= limit - offset)
		return 0;
	dev_warn_ratelimited(
		nd->dev,
		"neuron%u: offset %llu and size %llu leave memory handle %u of %llu bytes\n",
		nd->index, offset, size, chunk->handle, limit);
	return -EINVAL;
}

void nd_memory_usage(struct neuron_device *nd, pid_t pid, u64 *host, u64 *device)
{
	struct rb_node *node;

	*host = 0;
	*device = 0;
	mutex_lock(&nd->memory.lock);
	for (node = rb_first(&nd->memory.chunks); node; node = rb_next(node)) {
		struct nd_chunk *chunk = rb_entry(node, struct nd_chunk, node);

		if (chunk->lifespan == ND_LIFE_PROCESS && chunk->pid == pid)
			*(chunk->host ? host : device) += chunk->size;
	}
	mutex_unlock(&nd->memory.lock);
}

int nd_chunk_pfn(struct nd_chunk *chunk, u64 offset, unsigned long *pfn)
{
	struct neuron_device *nd = chunk->nd;
	u64 inside;
	void *va;

	if (chunk->host) {
		va = READ_ONCE(chunk->va);
		if (!va)
			return -ENODEV;
		va += offset;
		*pfn = is_vmalloc_addr(va) ? vmalloc_to_pfn(va) : PHYS_PFN(virt_to_phys(va));
		return 0;
	}
	inside = nd_chip_bar4_offset(nd->chip, chunk->address + offset, nd->hbm_window);
	if (!nd->bar4_start || inside >= nd->bar4_size ||
	    chunk->address + offset - nd_chip_hbm_base(nd->chip, chunk->hbm) >= nd->hbm_window)
		return -EINVAL;
	*pfn = PHYS_PFN(nd->bar4_start + inside);
	return 0;
}
