// SPDX-License-Identifier: GPL-2.0-only
/*
 * Transfers between the pages of a process and device memory: the pages are pinned and mapped for
 * the device for as long as an engine works on them.
 */
#include <linux/dma-mapping.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver/kmod/neuron.h"

/* Pages of one piece of a synchronous transfer: 2 MiB. */
#define PIECE_PAGES 512u

/*
 * A process may use one page in several commands at once. Where the device writes, the kernel
 * allows that only for mappings that copy nothing by themselves (its checks of DMA warn of others).
 * So the copies that a bounce buffer needs are asked for here: behind mapping and before unmapping.
 */
#define MAPPING DMA_ATTR_SKIP_CPU_SYNC

static void unmap(struct nd_user_pages *pages)
{
	struct device *dev = pages->nd->dev;
	enum dma_data_direction direction = pages->to_device ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
	u64 done = 0;
	u32 i;

	for (i = 0; i < pages->mapped; i++) {
		u32 offset = i == 0 ? pages->offset : 0;
		u32 length = min_t(u64, pages->size - done, PAGE_SIZE - offset);
		u64 address = pages->segments[i].address & ~pages->nd->chip->host_base;

		if (!pages->to_device)
			dma_sync_single_for_cpu(dev, address, length, direction);
		dma_unmap_page_attrs(dev, address, length, direction, MAPPING);
		done += length;
	}
	pages->mapped = 0;
}

/* One segment a page: unmapping needs them apart; the engine takes as many descriptors anyway. */
static int map(struct nd_user_pages *pages)
{
	struct neuron_device *nd = pages->nd;
	enum dma_data_direction direction = pages->to_device ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
	u64 done = 0;
	u32 i;

	for (i = 0; i < pages->count; i++) {
		u32 offset = i == 0 ? pages->offset : 0;
		u32 length = min_t(u64, pages->size - done, PAGE_SIZE - offset);
		dma_addr_t address = dma_map_page_attrs(nd->dev, pages->pages[i], offset, length,
							direction, MAPPING);

		if (dma_mapping_error(nd->dev, address))
			return -ENOMEM;
		dma_sync_single_for_device(nd->dev, address, length, direction);
		pages->segments[i].address = nd->chip->host_base | address;
		pages->segments[i].size = length;
		pages->mapped = i + 1;
		done += length;
	}
	pages->segment_count = pages->count;
	return 0;
}

void nd_user_pages_release(struct nd_user_pages *pages)
{
	if (!pages->nd)
		return;
	unmap(pages);
	unpin_user_pages_dirty_lock(pages->pages, pages->count, !pages->to_device);
	kvfree(pages->pages);
	kvfree(pages->segments);
	memset(pages, 0, sizeof(*pages));
}

int nd_user_pages_pin(struct neuron_device *nd, unsigned long start, u64 size, bool to_device,
		      struct nd_user_pages *pages)
{
	u64 count = DIV_ROUND_UP_ULL(offset_in_page(start) + size, PAGE_SIZE);
	unsigned int flags = to_device ? 0 : FOLL_WRITE;
	int error;

	memset(pages, 0, sizeof(*pages));
	if (size == 0 || count > S32_MAX || !access_ok((void __user *)start, size))
		return -EFAULT;
	pages->nd = nd;
	pages->offset = offset_in_page(start);
	pages->size = size;
	pages->to_device = to_device;
	pages->pages = kvmalloc_array(count, sizeof(*pages->pages), GFP_KERNEL);
	pages->segments = kvmalloc_array(count, sizeof(*pages->segments), GFP_KERNEL);
	if (!pages->pages || !pages->segments) {
		error = -ENOMEM;
		goto release;
	}
	while (pages->count < count) {
		int pinned = pin_user_pages_fast((start & PAGE_MASK) + pages->count * PAGE_SIZE,
						 count - pages->count, flags,
						 pages->pages + pages->count);

		if (pinned <= 0) {
			error = pinned ? pinned : -EFAULT;
			goto release;
		}
		pages->count += pinned;
	}
	error = map(pages);
	if (!error)
		return 0;
release:
	nd_user_pages_release(pages);
	return error;
}

/* For buffers whose pages cannot be pinned, such as mapped memory of a device. */
static int bounce(struct nd_copy_ring *ring, u64 device, void __user *buffer, u64 size,
		  bool to_device)
{
	u64 room = min_t(u64, size, 64u << 10);
	void *memory = kvmalloc(room, GFP_KERNEL);
	u64 done = 0;
	int error = memory ? 0 : -ENOMEM;

	while (!error && done < size) {
		u64 length = min(size - done, room);

		if (to_device) {
			if (copy_from_user(memory, buffer + done, length))
				error = -EFAULT;
			else
				error = nd_copy_from_kernel(ring, device + done, memory, length);
		} else {
			error = nd_copy_to_kernel(ring, memory, device + done, length);
			if (!error && copy_to_user(buffer + done, memory, length))
				error = -EFAULT;
		}
		done += length;
		if (!error && fatal_signal_pending(current))
			error = -EINTR;
	}
	kvfree(memory);
	return error;
}

int nd_zero_copy(struct nd_copy_ring *ring, u64 device, void __user *buffer, u64 size,
		 bool to_device)
{
	unsigned long start = (unsigned long)buffer;
	u64 done = 0;

	if (!access_ok(buffer, size))
		return -EFAULT;
	while (done < size) {
		u64 length = min_t(u64, size - done,
				   PIECE_PAGES * PAGE_SIZE - offset_in_page(start + done));
		struct nd_user_pages pages;
		int error = nd_user_pages_pin(ring->nd, start + done, length, to_device, &pages);

		if (error == -EFAULT)
			return bounce(ring, device + done, buffer + done, size - done, to_device);
		if (error)
			return error;
		error = nd_copy_segments(ring, device + done, pages.segments, pages.segment_count,
					 to_device);
		nd_user_pages_release(&pages);
		if (error)
			return error;
		done += length;
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return 0;
}
