// SPDX-License-Identifier: GPL-2.0-only
/*
 * Export of device and host memory that a process has mapped as a dma-buf, so that a network card
 * reads and writes it without a copy.
 *
 * An export holds a reference to its chunk. When the chunk is freed the export is revoked:
 * importers that can let go are told to, nobody maps it again, and the memory goes back once no
 * importer has it mapped any more.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "driver/kmod/neuron.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif

/* Longest piece of one scatterlist entry, whose length has 32 bits. */
#define LONGEST_PIECE SZ_1G

struct nd_export {
	struct list_head link; /* exports */
	struct neuron_device *nd;
	struct dma_buf *buffer;
	u64 offset; /* in the chunk */
	u64 size;
	bool host;
	struct mutex lock;	/* the three below; inside the reservation lock of the buffer */
	struct nd_chunk *chunk; /* NULL: revoked and unused */
	bool revoked;
	u32 users; /* mappings and pins */
};

/* All exports of all devices. Outside the reservation lock of any of them. */
static DEFINE_MUTEX(exports_lock);
static LIST_HEAD(exports);

/* Lock held. A revoked export gives its chunk back when nobody uses it. */
static void drop_chunk_if_unused(struct nd_export *export)
{
	if (export->revoked && !export->users && export->chunk) {
		nd_chunk_put(export->chunk);
		export->chunk = NULL;
	}
}

static int begin_use(struct nd_export *export)
{
	int result = 0;

	mutex_lock(&export->lock);
	if (export->revoked) {
		result = -ENODEV;
	} else {
		export->users++;
		atomic_inc(&export->chunk->imports);
	}
	mutex_unlock(&export->lock);
	return result;
}

static void end_use(struct nd_export *export)
{
	mutex_lock(&export->lock);
	export->users--;
	atomic_dec(&export->chunk->imports);
	drop_chunk_if_unused(export);
	mutex_unlock(&export->lock);
}

static int attach(struct dma_buf *buffer, struct dma_buf_attachment *attachment)
{
	struct nd_export *export = buffer->priv;

	/* Device memory is a BAR: there are no pages behind it. */
	return export->host || attachment->peer2peer ? 0 : -EOPNOTSUPP;
}

static int pin(struct dma_buf_attachment *attachment)
{
	return begin_use(attachment->dmabuf->priv);
}

static void unpin(struct dma_buf_attachment *attachment)
{
	end_use(attachment->dmabuf->priv);
}

/*
 * Calls `use` for each physically contiguous piece of at most `longest` bytes; returns the number
 * of pieces or an error.
 */
static int walk_pieces(struct nd_export *export, u32 longest,
		       int (*use)(struct scatterlist *entry, unsigned long pfn, u32 length),
		       struct scatterlist *entry)
{
	unsigned long first = 0;
	u64 length = 0;
	int pieces = 0;
	u64 at;

	for (at = 0; at <= export->size; at += PAGE_SIZE) {
		unsigned long pfn = 0;
		int error = 0;

		if (at < export->size)
			error = nd_chunk_pfn(export->chunk, export->offset + at, &pfn);
		if (error)
			return error;
		if (length && at < export->size && pfn == first + (length >> PAGE_SHIFT) &&
		    length < longest) {
			length += PAGE_SIZE;
			continue;
		}
		if (length) {
			pieces++;
			if (use) {
				error = use(entry, first, length);
				if (error)
					return error;
				entry = sg_next(entry);
			}
		}
		first = pfn;
		length = PAGE_SIZE;
	}
	return pieces;
}

static int put_page_piece(struct scatterlist *entry, unsigned long pfn, u32 length)
{
	sg_set_page(entry, pfn_to_page(pfn), length, 0);
	return 0;
}

/* The physical address stays in the DMA address until map_bar() replaces it. */
static int put_bar_piece(struct scatterlist *entry, unsigned long pfn, u32 length)
{
	sg_set_page(entry, NULL, length, 0);
	sg_dma_address(entry) = (dma_addr_t)pfn << PAGE_SHIFT;
	sg_dma_len(entry) = 0;
	return 0;
}

static void unmap_bar(struct device *importer, struct sg_table *table,
		      enum dma_data_direction direction)
{
	struct scatterlist *entry;
	unsigned int i;

	for_each_sgtable_sg(table, entry, i)
		if (sg_dma_len(entry))
			dma_unmap_resource(importer, sg_dma_address(entry), sg_dma_len(entry),
					   direction, DMA_ATTR_SKIP_CPU_SYNC);
}

static int map_bar(struct device *importer, struct sg_table *table,
		   enum dma_data_direction direction)
{
	struct scatterlist *entry;
	unsigned int i;

	for_each_sgtable_sg(table, entry, i) {
		dma_addr_t address =
			dma_map_resource(importer, sg_dma_address(entry), entry->length, direction,
					 DMA_ATTR_SKIP_CPU_SYNC);

		if (dma_mapping_error(importer, address)) {
			unmap_bar(importer, table, direction);
			return -EIO;
		}
		sg_dma_address(entry) = address;
		sg_dma_len(entry) = entry->length;
	}
	return 0;
}

static int fill_table(struct nd_export *export, struct device *importer, struct sg_table *table,
		      enum dma_data_direction direction)
{
	u32 longest = clamp_t(u32, ALIGN_DOWN(dma_get_max_seg_size(importer), PAGE_SIZE), PAGE_SIZE,
			      LONGEST_PIECE);
	int pieces = walk_pieces(export, longest, NULL, NULL);
	int error;

	if (pieces < 0)
		return pieces;
	error = sg_alloc_table(table, pieces, GFP_KERNEL);
	if (error)
		return error;
	error = walk_pieces(export, longest, export->host ? put_page_piece : put_bar_piece,
			    table->sgl);
	if (error >= 0)
		error = export->host ? dma_map_sgtable(importer, table, direction,
						       DMA_ATTR_SKIP_CPU_SYNC)
				     : map_bar(importer, table, direction);
	if (error)
		sg_free_table(table);
	return error;
}

static struct sg_table *map(struct dma_buf_attachment *attachment,
			    enum dma_data_direction direction)
{
	struct nd_export *export = attachment->dmabuf->priv;
	struct sg_table *table;
	int error;

	error = begin_use(export);
	if (error)
		return ERR_PTR(error);
	table = kzalloc(sizeof(*table), GFP_KERNEL);
	error = table ? fill_table(export, attachment->dev, table, direction) : -ENOMEM;
	if (error) {
		kfree(table);
		end_use(export);
		return ERR_PTR(error);
	}
	return table;
}

static void unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
		  enum dma_data_direction direction)
{
	struct nd_export *export = attachment->dmabuf->priv;

	if (export->host)
		dma_unmap_sgtable(attachment->dev, table, direction, DMA_ATTR_SKIP_CPU_SYNC);
	else
		unmap_bar(attachment->dev, table, direction);
	sg_free_table(table);
	kfree(table);
	end_use(export);
}

static void release(struct dma_buf *buffer)
{
	struct nd_export *export = buffer->priv;

	mutex_lock(&exports_lock);
	list_del(&export->link);
	mutex_unlock(&exports_lock);
	if (export->chunk)
		nd_chunk_put(export->chunk);
	nd_device_put(export->nd);
	kfree(export);
}

static const struct dma_buf_ops operations = {
	.attach = attach,
	.pin = pin,
	.unpin = unpin,
	.map_dma_buf = map,
	.unmap_dma_buf = unmap,
	.release = release,
};

static void revoke(struct nd_export *export)
{
	mutex_lock(&export->lock);
	export->revoked = true;
	mutex_unlock(&export->lock);
	dma_resv_lock(export->buffer->resv, NULL);
	dma_buf_move_notify(export->buffer);
	dma_resv_unlock(export->buffer->resv);
	mutex_lock(&export->lock);
	drop_chunk_if_unused(export);
	mutex_unlock(&export->lock);
}

void nd_dmabuf_revoke(struct neuron_device *nd, struct nd_chunk *chunk)
{
	struct nd_export *export;

	mutex_lock(&exports_lock);
	list_for_each_entry(export, &exports, link) {
		/* A revoked export may have lost its chunk, whose address may be another's by now.
		 */
		if (export->nd == nd && !READ_ONCE(export->revoked) &&
		    (!chunk || export->chunk == chunk))
			revoke(export);
	}
	mutex_unlock(&exports_lock);
}

int nd_dmabuf_create(struct neuron_device *nd)
{
	return 0;
}

void nd_dmabuf_destroy(struct neuron_device *nd)
{
	nd_dmabuf_revoke(nd, NULL);
}

/* A mapping of the calling process on any device that contains the range. */
static struct nd_mapping *find_mapping(u64 va, u64 size)
{
	struct nd_mapping *mapping = NULL;
	u32 i;

	for (i = 0; !mapping && i < ND_MAX_DEVICES; i++) {
		struct neuron_device *nd = nd_device_by_index(i);

		if (!nd)
			continue;
		mapping = nd_mapping_find(nd, nd_current_pid(), va, size);
		nd_device_put(nd);
	}
	return mapping;
}

static int export_mapping(struct nd_mapping *mapping, u64 va, u64 size, struct dma_buf **buffer)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct nd_export *export = kzalloc(sizeof(*export), GFP_KERNEL);

	if (!export)
		return -ENOMEM;
	mutex_init(&export->lock);
	export->nd = mapping->nd;
	export->chunk = mapping->chunk;
	export->host = mapping->chunk->host;
	export->offset = mapping->offset + (va - mapping->start);
	export->size = size;
	info.ops = &operations;
	info.size = size;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = export;
	*buffer = dma_buf_export(&info);
	if (IS_ERR(*buffer)) {
		kfree(export);
		return PTR_ERR(*buffer);
	}
	export->buffer = *buffer;
	nd_device_get(export->nd);
	nd_chunk_get(export->chunk);
	mutex_lock(&exports_lock);
	list_add(&export->link, &exports);
	/* The chunk may have been freed since it was found: the export is then born revoked. */
	if (!READ_ONCE(export->chunk->published))
		revoke(export);
	mutex_unlock(&exports_lock);
	return 0;
}

static int install(struct dma_buf *buffer, s32 __user *out)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);

	if (fd < 0)
		return fd;
	if (put_user(fd, out)) {
		put_unused_fd(fd);
		return -EFAULT;
	}
	fd_install(fd, buffer->file);
	return 0;
}

static int dmabuf_fd(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	const struct neuron_ioctl_dmabuf_fd *request = argument;
	u64 size = PAGE_ALIGN(request->size); /* importers see whole pages */
	struct nd_mapping *mapping;
	struct dma_buf *buffer;
	int result, token;

	if (!size || !PAGE_ALIGNED(request->va) || request->va + size < request->va)
		return -EINVAL;
	mapping = find_mapping(request->va, size);
	if (!mapping)
		return -EINVAL;
	/* The mapping may be of another device, whose removal revokes what was exported before. */
	result = nd_enter(mapping->nd, &token);
	if (!result) {
		result = mapping->chunk ? export_mapping(mapping, request->va, size, &buffer)
					: -EINVAL;
		nd_exit(mapping->nd, token);
	}
	nd_mapping_put(mapping);
	if (result)
		return result;
	result = install(buffer, (s32 __user *)request->fd);
	if (result)
		dma_buf_put(buffer);
	return result;
}

const struct nd_handler nd_dmabuf_handlers[] = {
	{ NEURON_IOCTL_DMABUF_FD, ND_OUT_NONE, dmabuf_fd },
	{ 0, ND_OUT_NONE, NULL },
};
