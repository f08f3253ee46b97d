// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stands for a network card that takes a dma-buf: /dev/neuron-importer, one attachment per open
 * file. Used by the test guest only. Commands (argument: a number, or where one is written): 'i' 1:
 * attach to the dma-buf with this descriptor; can let go of it (2: cannot) 'i' 3: map it; writes
 * struct importer_map 'i' 4: unmap it   'i' 5: detach   'i' 6: how often the exporter asked to let
 * go
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

struct importer_map {
	__u64 first; /* address of the first piece, as the card would use it */
	__u64 bytes;
	__u64 pieces;
};

struct importer {
	struct dma_buf *buffer;
	struct dma_buf_attachment *attachment;
	struct sg_table *table;
	bool pinned;
	unsigned long asked;
};

static struct pci_dev *card;

static void let_go(struct importer *importer)
{
	if (importer->table)
		dma_buf_unmap_attachment(importer->attachment, importer->table, DMA_BIDIRECTIONAL);
	importer->table = NULL;
}

static void move_notify(struct dma_buf_attachment *attachment)
{
	struct importer *importer = attachment->importer_priv;

	importer->asked++;
	let_go(importer);
}

static const struct dma_buf_attach_ops dynamic = {
	.allow_peer2peer = true,
	.move_notify = move_notify,
};

static long attach(struct importer *importer, int fd, bool pin)
{
	long error = 0;

	if (importer->buffer)
		return -EBUSY;
	importer->buffer = dma_buf_get(fd);
	if (IS_ERR(importer->buffer)) {
		error = PTR_ERR(importer->buffer);
		importer->buffer = NULL;
		return error;
	}
	importer->attachment =
		dma_buf_dynamic_attach(importer->buffer, &card->dev, &dynamic, importer);
	if (IS_ERR(importer->attachment)) {
		error = PTR_ERR(importer->attachment);
		dma_buf_put(importer->buffer);
		importer->buffer = NULL;
		return error;
	}
	if (pin) {
		dma_resv_lock(importer->buffer->resv, NULL);
		error = dma_buf_pin(importer->attachment);
		dma_resv_unlock(importer->buffer->resv);
		importer->pinned = !error;
	}
	return error;
}

static long map(struct importer *importer, void __user *user)
{
	struct importer_map map = {};
	struct scatterlist *entry;
	unsigned int i;

	dma_resv_lock(importer->buffer->resv, NULL);
	importer->table = dma_buf_map_attachment(importer->attachment, DMA_BIDIRECTIONAL);
	if (IS_ERR(importer->table)) {
		long error = PTR_ERR(importer->table);

		importer->table = NULL;
		dma_resv_unlock(importer->buffer->resv);
		return error;
	}
	map.first = sg_dma_address(importer->table->sgl);
	for_each_sgtable_dma_sg(importer->table, entry, i)
	{
		map.bytes += sg_dma_len(entry);
		map.pieces++;
	}
	dma_resv_unlock(importer->buffer->resv);
	return copy_to_user(user, &map, sizeof(map)) ? -EFAULT : 0;
}

static void detach(struct importer *importer)
{
	if (!importer->buffer)
		return;
	dma_resv_lock(importer->buffer->resv, NULL);
	let_go(importer);
	if (importer->pinned)
		dma_buf_unpin(importer->attachment);
	importer->pinned = false;
	dma_resv_unlock(importer->buffer->resv);
	dma_buf_detach(importer->buffer, importer->attachment);
	dma_buf_put(importer->buffer);
	importer->buffer = NULL;
}

static long importer_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct importer *importer = file->private_data;

	if (_IOC_NR(command) <= 2)
		return attach(importer, argument, _IOC_NR(command) == 2);
	if (_IOC_NR(command) == 6)
		return importer->asked;
	if (!importer->buffer)
		return -EINVAL;
	if (_IOC_NR(command) == 3)
		return map(importer, (void __user *)argument);
	if (_IOC_NR(command) == 5) {
		detach(importer);
		return 0;
	}
	dma_resv_lock(importer->buffer->resv, NULL);
	let_go(importer);
	dma_resv_unlock(importer->buffer->resv);
	return 0;
}

static int importer_open(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc(sizeof(struct importer), GFP_KERNEL);
	return file->private_data ? 0 : -ENOMEM;
}

static int importer_release(struct inode *inode, struct file *file)
{
	detach(file->private_data);
	kfree(file->private_data);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = importer_open,
	.release = importer_release,
	.unlocked_ioctl = importer_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "neuron-importer",
	.fops = &operations,
	.mode = 0666,
};

static int __init importer_init(void)
{
	int error;

	/* Any function that may master the bus will do; the first one of the machine. */
	card = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, NULL);
	if (!card)
		return -ENODEV;
	error = dma_set_mask_and_coherent(&card->dev, DMA_BIT_MASK(64));
	/* As network cards that take such memory: one piece is as long as it likes. */
	dma_set_max_seg_size(&card->dev, UINT_MAX);
	if (!error)
		error = misc_register(&device);
	if (error)
		pci_dev_put(card);
	return error;
}

static void __exit importer_exit(void)
{
	misc_deregister(&device);
	pci_dev_put(card);
}

module_init(importer_init);
module_exit(importer_exit);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Importer of dma-bufs for tests");
