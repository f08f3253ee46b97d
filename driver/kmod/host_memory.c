// SPDX-License-Identifier: GPL-2.0-only
/*
 * Host memory for the device: whose it is, how much a process may have, and the reserve.
 *
 * What a process takes from the host, notification queues included, counts against it until the
 * host has it back, over all devices: a freed allocation that is still mapped or exported counts.
 * The reserve of a device is one contiguous range that is taken when the device is probed, because
 * the kernel gives pieces of a few MiB only, and small ones once its memory is scattered.
 *
 * Callers of the reserve hold memory.lock; charges have a lock of their own, which is a leaf.
 */
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "driver/kmod/neuron.h"

#define LARGEST_BLOCK ((u64)PAGE_SIZE << ND_LARGEST_ORDER)
/* Pieces of the reserve, used and free: more than that make it refuse. */
#define RESERVE_NODES 1024u

/* ---- what processes have ---- */

struct nd_charge {
	struct list_head link; /* charges */
	pid_t pid;
	u64 bytes;
};

static DEFINE_SPINLOCK(charges_lock);
static LIST_HEAD(charges);

static u64 limit_of_a_process(void)
{
	u64 wanted = READ_ONCE(nd_param_host_limit_mib);

	return wanted ? wanted << 20 : (u64)totalram_pages() << PAGE_SHIFT >> 1;
}

static struct nd_charge *find_charge(pid_t pid)
{
	struct nd_charge *charge;

	list_for_each_entry(charge, &charges, link)
		if (charge->pid == pid)
			return charge;
	return NULL;
}

int nd_host_charge(struct neuron_device *nd, pid_t pid, u64 bytes, struct nd_charge **out)
{
	struct nd_charge *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	u64 limit = limit_of_a_process();
	struct nd_charge *charge;
	u64 held;
	bool fits;

	if (!fresh)
		return -ENOMEM;
	spin_lock(&charges_lock);
	charge = find_charge(pid);
	held = charge ? charge->bytes : 0;
	fits = held <= limit && bytes <= limit - held;
	if (fits && !charge) {
		charge = fresh;
		fresh = NULL;
		charge->pid = pid;
		list_add(&charge->link, &charges);
	}
	if (fits)
		charge->bytes += bytes;
	spin_unlock(&charges_lock);
	kfree(fresh);
	if (fits) {
		*out = charge;
		return 0;
	}
	dev_warn_ratelimited(
		nd->dev,
		"neuron%u: pid %d holds %llu bytes of host memory and asks for %llu more, but a process may have %llu: free some, or raise the module's parameter host_memory_limit_mib\n",
		nd->index, pid, held, bytes, limit);
	return -ENOMEM;
}

void nd_host_uncharge(struct nd_charge *charge, u64 bytes)
{
	struct nd_charge *gone = NULL;

	if (!charge)
		return;
	spin_lock(&charges_lock);
	charge->bytes -= bytes;
	if (!charge->bytes) {
		list_del(&charge->link);
		gone = charge;
	}
	spin_unlock(&charges_lock);
	kfree(gone);
}

/* ---- the reserve ---- */

static int by_address(const void *a, const void *b)
{
	unsigned long left = *(const unsigned long *)a;
	unsigned long right = *(const unsigned long *)b;

	return left < right ? -1 : left > right;
}

/* Length of the run of neighbours that begins with block `first`, `most` at the most. */
static u32 run_from(const unsigned long *blocks, u32 count, u32 first, u32 most)
{
	u32 length = 1;

	while (length < most && first + length < count &&
	       blocks[first + length] == blocks[first] + length * LARGEST_BLOCK)
		length++;
	return length;
}

/*
 * The kernel gives blocks. Soon after the start of a host most of those that it gives in a row are
 * neighbours: the longest run of them is kept, and the others go back. Returns its first byte and
 * how many blocks it has.
 */
static void *gather(struct neuron_device *nd, u32 wanted, u32 *length)
{
	u32 room = 2 * wanted;
	unsigned long *blocks = kvcalloc(room, sizeof(*blocks), GFP_KERNEL);
	u32 count = 0;
	u32 best = 0;
	u32 i;
	void *base = NULL;

	*length = 0;
	for (; blocks && count < room; count++) {
		struct page *page = alloc_pages_node(dev_to_node(nd->dev),
						     GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY,
						     ND_LARGEST_ORDER);

		if (!page)
			break;
		blocks[count] = (unsigned long)page_address(page);
	}
	if (!count)
		goto done;
	sort(blocks, count, sizeof(*blocks), by_address, NULL);
	for (i = 0; i < count && *length < wanted; i++) {
		u32 found = run_from(blocks, count, i, wanted);

		if (found > *length) {
			*length = found;
			best = i;
		}
	}
	base = (void *)blocks[best];
	for (i = 0; i < count; i++)
		if (i < best || i >= best + *length)
			free_pages(blocks[i], ND_LARGEST_ORDER);
done:
	kvfree(blocks);
	return base;
}

static void give_blocks_back(struct nd_host_reserve *reserve)
{
	u64 at;

	for (at = 0; at < reserve->size; at += LARGEST_BLOCK)
		free_pages((unsigned long)reserve->base + at, ND_LARGEST_ORDER);
	reserve->base = NULL;
	reserve->size = 0;
}

/* True if the host makes larger pieces by itself: an IOMMU does, or memory kept for that. */
static bool needs_no_reserve(struct neuron_device *nd)
{
	dma_addr_t dma;
	void *large = dma_alloc_coherent(nd->dev, 2 * LARGEST_BLOCK, &dma,
					 GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);

	if (large)
		dma_free_coherent(nd->dev, 2 * LARGEST_BLOCK, large, dma);
	return large;
}

void nd_host_reserve_create(struct neuron_device *nd)
{
	struct nd_host_reserve *reserve = &nd->memory.reserve;
	u64 blocks = DIV_ROUND_UP_ULL(nd_param_host_reserve, LARGEST_BLOCK);
	u32 length;

	/* Its memory is used as it is: caches must show the device what is in it. */
	if (!blocks || !dev_is_dma_coherent(nd->dev) || needs_no_reserve(nd))
		return;
	if (blocks > totalram_pages() >> (ND_LARGEST_ORDER + 1)) {
		dev_warn(
			nd->dev,
			"a reserve of %lu bytes (mempool_host_memory_size) is more than half of the host's memory: there will be none\n",
			nd_param_host_reserve);
		return;
	}
	reserve->nodes = kvcalloc(RESERVE_NODES, sizeof(*reserve->nodes), GFP_KERNEL);
	if (reserve->nodes)
		reserve->base = gather(nd, blocks, &length);
	if (!reserve->base)
		goto none;
	reserve->size = length * LARGEST_BLOCK;
	reserve->dma = dma_map_page(nd->dev, virt_to_page(reserve->base), 0, reserve->size,
				    DMA_BIDIRECTIONAL);
	if (dma_mapping_error(nd->dev, reserve->dma)) {
		give_blocks_back(reserve);
		goto none;
	}
	nd_pool_init(&reserve->pool, reserve->dma, reserve->size, reserve->nodes, RESERVE_NODES);
	reserve->ready = true;
	if (length < blocks)
		dev_info(
			nd->dev,
			"the reserve of host memory has %llu bytes instead of %llu: memory is scattered already\n",
			reserve->size, blocks * LARGEST_BLOCK);
	return;
none:
	kvfree(reserve->nodes);
	reserve->nodes = NULL;
	dev_info(
		nd->dev,
		"no reserve of host memory: an allocation can have at most %llu contiguous bytes\n",
		LARGEST_BLOCK);
}

void nd_host_reserve_stop(struct neuron_device *nd)
{
	struct nd_host_reserve *reserve = &nd->memory.reserve;

	if (reserve->ready)
		dma_unmap_page(nd->dev, reserve->dma, reserve->size, DMA_BIDIRECTIONAL);
	reserve->ready = false;
}

void nd_host_reserve_destroy(struct neuron_device *nd)
{
	struct nd_host_reserve *reserve = &nd->memory.reserve;

	if (reserve->base)
		give_blocks_back(reserve);
	kvfree(reserve->nodes);
	reserve->nodes = NULL;
}

static void *take_from_reserve(struct nd_host_reserve *reserve, struct nd_chunk *chunk)
{
	void *va;

	if (!reserve->ready || nd_pool_spare(&reserve->pool) < ND_POOL_NODES_PER_ALLOCATION ||
	    nd_pool_allocate(&reserve->pool, chunk->size, 0, &chunk->block))
		return NULL;
	chunk->dma = chunk->block->start;
	va = reserve->base + (chunk->dma - reserve->dma);
	memset(va, 0, chunk->size);
	return va;
}

/* ---- allocations ---- */

#define PAGES_ATTRIBUTES (DMA_ATTR_SKIP_CPU_SYNC | DMA_ATTR_NO_WARN)

/*
 * True if the device would get a copy of the pages: in a guest with encrypted memory. Some kernels
 * say so of every device behind an IOMMU, which copies for those only that the host does not trust.
 */
static bool is_bounced(struct neuron_device *nd, dma_addr_t dma)
{
	if (!dma_need_sync(nd->dev, dma))
		return false;
#ifdef CONFIG_IOMMU_API
	{
		struct iommu_domain *domain = iommu_get_domain_for_dev(nd->dev);

		if (domain && (domain->type & __IOMMU_DOMAIN_PAGING))
			return nd->pdev->untrusted;
	}
#endif
	return true;
}

/* Zeroed pages next to the device, each of its own, so that those beyond the size go back. */
static void *pages_of(struct neuron_device *nd, u64 size, gfp_t flags)
{
	unsigned int order = get_order(size);
	struct page *page = alloc_pages_node(dev_to_node(nd->dev), flags | __GFP_ZERO, order);
	unsigned long at;
	void *va;

	if (!page)
		return NULL;
	split_page(page, order);
	va = page_address(page);
	for (at = size; at < PAGE_SIZE << order; at += PAGE_SIZE)
		free_page((unsigned long)va + at);
	return va;
}

/*
 * Pages of the module's own, which may outlive the device: an importer of a dma-buf may have pinned
 * them. What dma_alloc_coherent() gives may not, so it comes second.
 */
static void *take_pages(struct neuron_device *nd, struct nd_chunk *chunk, gfp_t flags)
{
	void *va;

	if (chunk->size > LARGEST_BLOCK || !dev_is_dma_coherent(nd->dev))
		return NULL;
	va = pages_of(nd, chunk->size, flags);
	if (!va)
		return NULL;
	/* Nothing is in a cache that the device does not see, and importers map the pages too. */
	chunk->dma = dma_map_page_attrs(nd->dev, virt_to_page(va), 0, chunk->size,
					DMA_BIDIRECTIONAL, PAGES_ATTRIBUTES);
	if (!dma_mapping_error(nd->dev, chunk->dma)) {
		if (!is_bounced(nd, chunk->dma)) {
			chunk->pages = true;
			chunk->mapped = true;
			return va;
		}
		dma_unmap_page_attrs(nd->dev, chunk->dma, chunk->size, DMA_BIDIRECTIONAL,
				     PAGES_ATTRIBUTES);
	}
	free_pages_exact(va, chunk->size);
	return NULL;
}

int nd_host_allocate(struct neuron_device *nd, struct nd_chunk *chunk, pid_t payer)
{
	/* Contiguous, and on the account of the process's control group. */
	gfp_t flags =
		(payer ? GFP_KERNEL_ACCOUNT : GFP_KERNEL) | __GFP_NOWARN | __GFP_RETRY_MAYFAIL;
	int error = 0;

	/* An IOMMU makes any size contiguous, and counts its pages in 32 bits. */
	if (chunk->size >> PAGE_SHIFT > min_t(u64, totalram_pages(), U32_MAX)) {
		dev_warn_ratelimited(
			nd->dev, "neuron%u: %llu bytes of host memory are more than the host has\n",
			nd->index, chunk->size);
		return -ENOMEM;
	}
	if (payer)
		error = nd_host_charge(nd, payer, chunk->size, &chunk->charge);
	if (error)
		return error;
	/* Each of them gives zeroes. */
	chunk->va = take_pages(nd, chunk, flags);
	if (!chunk->va)
		chunk->va = dma_alloc_coherent(nd->dev, chunk->size, &chunk->dma, flags);
	if (!chunk->va)
		chunk->va = take_from_reserve(&nd->memory.reserve, chunk);
	if (chunk->va) {
		chunk->address = nd->chip->host_base | chunk->dma;
		return 0;
	}
	nd_host_uncharge(chunk->charge, chunk->size);
	chunk->charge = NULL;
	dev_warn_ratelimited(
		nd->dev,
		"neuron%u: the host has no %llu contiguous bytes left, and the largest piece of the device's reserve is %llu (mempool_host_memory_size)\n",
		nd->index, chunk->size,
		nd->memory.reserve.ready ? nd_pool_largest_free(&nd->memory.reserve.pool) : 0);
	return -ENOMEM;
}

bool nd_host_detach(struct neuron_device *nd, struct nd_chunk *chunk)
{
	if (chunk->mapped)
		dma_unmap_page_attrs(nd->dev, chunk->dma, chunk->size, DMA_BIDIRECTIONAL,
				     PAGES_ATTRIBUTES);
	chunk->mapped = false;
	return chunk->pages || chunk->block;
}

void nd_host_free(struct neuron_device *nd, struct nd_chunk *chunk)
{
	nd_host_detach(nd, chunk);
	if (chunk->block)
		nd_pool_free(&nd->memory.reserve.pool, chunk->block);
	else if (chunk->pages)
		free_pages_exact(chunk->va, chunk->size);
	else
		dma_free_coherent(nd->dev, chunk->size, chunk->va, chunk->dma);
	nd_host_uncharge(chunk->charge, chunk->size);
	chunk->charge = NULL;
}
