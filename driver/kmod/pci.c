// SPDX-License-Identifier: GPL-2.0-only
/*
 * PCI functions: probe and remove, the table of devices, access to registers.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/module.h>

#include "driver/kmod/neuron.h"

/* ---- the table of devices ---- */

static DEFINE_MUTEX(nd_devices_lock);
static struct neuron_device *nd_devices[ND_MAX_DEVICES]; /* nd_devices_lock */
static u32 nd_devices_count;				 /* nd_devices_lock */

struct neuron_device *nd_device_by_index(u32 index)
{
	struct neuron_device *nd = NULL;

	if (index >= ND_MAX_DEVICES)
		return NULL;
	mutex_lock(&nd_devices_lock);
	nd = nd_devices[index];
	if (nd)
		nd_device_get(nd);
	mutex_unlock(&nd_devices_lock);
	return nd;
}

u32 nd_device_count(void)
{
	return READ_ONCE(nd_devices_count);
}

static int nd_devices_add(struct neuron_device *nd)
{
	int error = 0;

	mutex_lock(&nd_devices_lock);
	if (nd_devices[nd->index]) {
		error = -ENODEV;
	} else {
		nd_devices[nd->index] = nd;
		WRITE_ONCE(nd_devices_count, nd_devices_count + 1);
	}
	mutex_unlock(&nd_devices_lock);
	return error;
}

static void nd_devices_remove(struct neuron_device *nd)
{
	mutex_lock(&nd_devices_lock);
	if (nd_devices[nd->index] == nd) {
		nd_devices[nd->index] = NULL;
		WRITE_ONCE(nd_devices_count, nd_devices_count - 1);
	}
	mutex_unlock(&nd_devices_lock);
}

static void nd_device_free(struct kref *refs)
{
	struct neuron_device *nd = container_of(refs, struct neuron_device, refs);

	nd_mapping_destroy(nd);
	nd_host_reserve_destroy(nd);
	nd_core_destroy(nd);
	cleanup_srcu_struct(&nd->srcu);
	pci_dev_put(nd->pdev);
	kvfree(nd->engine);
	kvfree(nd);
}

void nd_device_get(struct neuron_device *nd)
{
	kref_get(&nd->refs);
}

void nd_device_put(struct neuron_device *nd)
{
	kref_put(&nd->refs, nd_device_free);
}

int nd_enter(struct neuron_device *nd, int *token)
{
	*token = srcu_read_lock(&nd->srcu);
	/* Pairs with the store in nd_remove(), which synchronize_srcu() follows. */
	if (READ_ONCE(nd->removed)) {
		srcu_read_unlock(&nd->srcu, *token);
		return -ENODEV;
	}
	/* For the checker, which knows no functions that lock only if they succeed. */
	__release(&nd->srcu);
	return 0;
}

void nd_exit(struct neuron_device *nd, int token)
{
	__acquire(&nd->srcu);
	srcu_read_unlock(&nd->srcu, token);
}

/* ---- registers ---- */

/*
 * A single register may hold all ones, a whole device does not: its routing id is a small number
 * or "not ready".
 */
static void nd_check_lost(struct neuron_device *nd)
{
	if (READ_ONCE(nd->lost))
		return;
	if (readl(nd->bar0 + nd->chip->misc_ram + NEURON_FW_ROUTING_ID) != ND_ALL_ONES)
		return;
	if (!xchg(&nd->lost, true))
		dev_err(nd->dev,
			"neuron%u: registers read all ones: the device is powered off or was removed; calls that need it fail with ENODEV until it is probed again\n",
			nd->index);
	wake_up_all(&nd->reset.wait);
}

u32 nd_read(struct neuron_device *nd, u64 offset)
{
	u32 value;

	if (WARN_ON_ONCE(offset % 4 || offset >= nd->bar0_size))
		return ND_ALL_ONES;
	if (READ_ONCE(nd->lost))
		return ND_ALL_ONES;
	value = readl(nd->bar0 + offset);
	if (unlikely(value == ND_ALL_ONES))
		nd_check_lost(nd);
	return value;
}

void nd_write(struct neuron_device *nd, u64 offset, u32 value)
{
	if (WARN_ON_ONCE(offset % 4 || offset >= nd->bar0_size))
		return;
	if (READ_ONCE(nd->lost))
		return;
	writel(value, nd->bar0 + offset);
}

void nd_write_sequence(struct neuron_device *nd, const struct nd_register_write *writes,
		       size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		nd_write(nd, writes[i].offset, writes[i].value);
}

/* ---- probe ---- */

static struct neuron_device *nd_device_new(struct pci_dev *pdev)
{
	struct neuron_device *nd = kvzalloc(sizeof(*nd), GFP_KERNEL);
	u32 i;

	if (!nd)
		return NULL;
	nd->chip = nd_chip_for_device(pdev->device);
	nd->engine = kvcalloc(nd->chip->dma_engines, sizeof(*nd->engine), GFP_KERNEL);
	if (!nd->engine || init_srcu_struct(&nd->srcu)) {
		kvfree(nd->engine);
		kvfree(nd);
		return NULL;
	}
	kref_init(&nd->refs);
	nd->layout = *nd->chip;
	nd->chip = &nd->layout;
	nd->pdev = pci_dev_get(pdev);
	nd->dev = &pdev->dev;
	mutex_init(&nd->copy_queues_lock);
	mutex_init(&nd->exits_lock);
	mutex_init(&nd->files_lock);
	mutex_init(&nd->processes_lock);
	mutex_init(&nd->scrub_lock);
	mutex_init(&nd->datastore_lock);
	INIT_LIST_HEAD(&nd->files);
	spin_lock_init(&nd->leaving_lock);
	INIT_LIST_HEAD(&nd->leaving);
	init_waitqueue_head(&nd->leaving_wait);
	spin_lock_init(&nd->mappings_lock);
	INIT_LIST_HEAD(&nd->mappings);
	spin_lock_init(&nd->oplog.lock);
	mutex_init(&nd->memory.lock);
	INIT_LIST_HEAD(&nd->memory.all);
	INIT_LIST_HEAD(&nd->memory.nodes);
	mutex_init(&nd->firmware.lock);
	spin_lock_init(&nd->reset.lock);
	INIT_LIST_HEAD(&nd->reset.requests);
	init_waitqueue_head(&nd->reset.wait);
	for (i = 0; i < ND_MAX_CORES; i++) {
		mutex_init(&nd->core[i].lock);
		mutex_init(&nd->core[i].nq_lock);
		mutex_init(&nd->core[i].ring.lock);
		init_waitqueue_head(&nd->core[i].init_wait);
		nd->core[i].init = NEURON_CINIT_STATE_INVALID;
	}
	for (i = 0; i < ND_MAX_TOPSPS; i++)
		mutex_init(&nd->topsp[i].nq_lock);
	for (i = 0; i < nd->chip->dma_engines; i++)
		mutex_init(&nd->engine[i].lock);
	return nd;
}

static void nd_unmap_bars(struct neuron_device *nd)
{
	struct pci_dev *pdev = nd->pdev;

	if (nd->bar0)
		pci_iounmap(pdev, nd->bar0);
	nd->bar0 = NULL;
	if (nd->bar4)
		iounmap(nd->bar4);
	nd->bar4 = NULL;
	if (nd->write_combined)
		arch_io_free_memtype_wc(nd->bar4_start, nd->bar4_size);
	nd->write_combined = false;
	if (nd->bar4_start)
		pci_release_region(pdev, 4);
	if (nd->bar0_start)
		pci_release_region(pdev, nd->bar0_number);
	nd->bar0_start = 0;
	nd->bar4_start = 0;
}

static int nd_map_bars(struct neuron_device *nd)
{
	struct pci_dev *pdev = nd->pdev;
	int error;

	/* Models of revision 255 may have the registers in BAR 2. */
	if (nd->is_qemu && pci_resource_len(pdev, 2) >= nd->chip->bar0_bytes)
		nd->bar0_number = 2;
	nd->bar0_size = pci_resource_len(pdev, nd->bar0_number);
	if (nd->bar0_size < nd->chip->bar0_bytes) {
		dev_err(nd->dev, "BAR %u has %llu bytes, expected %llu of registers\n",
			nd->bar0_number, nd->bar0_size, nd->chip->bar0_bytes);
		return -ENODEV;
	}
	error = pci_request_region(pdev, nd->bar0_number, "APB");
	if (error) {
		dev_err(nd->dev, "BAR %u (registers) is in use: %d\n", nd->bar0_number, error);
		return error;
	}
	nd->bar0_start = pci_resource_start(pdev, nd->bar0_number);
	nd->bar4_size = pci_resource_len(pdev, 4);
	if (nd->bar4_size) {
		error = pci_request_region(pdev, 4, "BAR4");
		if (error) {
			dev_err(nd->dev, "BAR 4 (device memory) is in use: %d\n", error);
			return error;
		}
		nd->bar4_start = pci_resource_start(pdev, 4);
		/* Without this, mappings of it would be uncached. */
		if (nd_param_wc_enable &&
		    !arch_io_reserve_memtype_wc(nd->bar4_start, nd->bar4_size))
			nd->write_combined = true;
		if (nd->write_combined && !nd->is_qemu)
			nd->bar4 = ioremap_wc(nd->bar4_start, nd->bar4_size);
	} else {
		dev_warn(nd->dev, "no BAR 4: device memory cannot be mapped by user space\n");
	}
	nd->hbm_window = nd->chip->hbm_window;
	if (nd->bar4_size && nd->bar4_size < nd->chip->bar4_bytes) {
		nd->hbm_window = ALIGN_DOWN(nd->bar4_size / nd->chip->hbms, PAGE_SIZE);
		if (nd->is_qemu && nd->chip->model_shows_hbm)
			nd->layout.hbm_bytes = nd->hbm_window;
	}
	nd->bar0 = pci_iomap(pdev, nd->bar0_number, 0);
	if (!nd->bar0) {
		dev_err(nd->dev, "cannot map %llu bytes of registers of BAR %u\n", nd->bar0_size,
			nd->bar0_number);
		return -ENOMEM;
	}
	return 0;
}

/* Revision, cores and number of the device: what the firmware and the configuration space say. */
static int nd_identify(struct neuron_device *nd)
{
	u32 all = (1u << nd->chip->cores) - 1;
	int index;
	int error = nd_firmware_routing_id(nd, &nd->routing_id);

	if (error)
		return error;
	index = nd_topology_index(nd, nd->routing_id);
	if (nd->routing_id >= ND_MAX_DEVICES || index < 0 || index >= ND_MAX_DEVICES) {
		dev_err(nd->dev, "routing id is 0x%x, expected 0 to %u\n", nd->routing_id,
			ND_MAX_DEVICES - 1);
		return -ENODEV;
	}
	nd->index = index;
	nd->cores = nd->chip->cores;
	nd->core_map = all;
	if (nd->is_emulator) {
		nd->cores = clamp_t(u32, nd_param_cores_per_device, 1, nd->chip->cores);
		nd->core_map = nd_param_core_map & all;
		if (!nd->core_map)
			nd->core_map = 1;
	}
	return 0;
}

static int nd_create_parts(struct neuron_device *nd)
{
	u32 core;
	int error = nd_memory_create(nd);

	if (!error)
		error = nd_firmware_create(nd);
	if (!error)
		error = nd_dma_create(nd);
	if (!error)
		error = nd_core_create(nd);
	if (!error)
		error = nd_notification_create(nd);
	for (core = 0; !error && core < nd->chip->cores; core++)
		if (nd_has_core(nd, core))
			error = nd_copy_ring_create(nd, core);
	if (!error)
		error = nd_datastore_create(nd);
	if (!error)
		error = nd_dmabuf_create(nd);
	if (!error)
		error = nd_reset_create(nd);
	if (!error)
		error = nd_metrics_create(nd);
	return error;
}

/* Everything is stopped; each part copes with never having been created. */
static void nd_destroy_parts(struct neuron_device *nd)
{
	nd_dmabuf_revoke(nd, NULL);
	nd_mapping_revoke(nd);
	nd_notification_destroy(nd);
	/* From here on the device reads and writes no memory of the host. */
	pci_clear_master(nd->pdev);
	nd_dmabuf_destroy(nd);
	nd_datastore_destroy(nd);
	nd_copy_queues_reset(nd, nd->core_map);
	nd_copy_rings_destroy(nd);
	nd_dma_destroy(nd);
	nd_firmware_destroy(nd);
	nd_memory_destroy(nd);
}

static int nd_create_node(struct neuron_device *nd)
{
	dev_t number = MKDEV(MAJOR(nd_region), MINOR(nd_region) + nd->index);
	int error;

	nd->cdev = cdev_alloc();
	if (!nd->cdev)
		return -ENOMEM;
	nd->cdev->owner = THIS_MODULE;
	nd->cdev->ops = &nd_file_operations;
	error = cdev_add(nd->cdev, number, 1);
	if (error) {
		kobject_put(&nd->cdev->kobj);
		nd->cdev = NULL;
		return error;
	}
	nd->device = device_create(nd_class, NULL, number, nd, "neuron%u", nd->index);
	if (IS_ERR(nd->device)) {
		error = PTR_ERR(nd->device);
		nd->device = NULL;
		return error;
	}
	return nd_sysfs_create(nd);
}

static void nd_destroy_node(struct neuron_device *nd)
{
	dev_t number = MKDEV(MAJOR(nd_region), MINOR(nd_region) + nd->index);

	nd_sysfs_destroy(nd);
	if (nd->device)
		device_destroy(nd_class, number);
	nd->device = NULL;
	if (nd->cdev)
		cdev_del(nd->cdev);
	nd->cdev = NULL;
}

/* No call begins any more; calls in progress end. */
static void nd_stop(struct neuron_device *nd)
{
	u32 core;

	WRITE_ONCE(nd->removed, true);
	wake_up_all(&nd->reset.wait);
	for (core = 0; core < ND_MAX_CORES; core++)
		wake_up_all(&nd->core[core].init_wait);
	nd_metrics_destroy(nd);
	nd_reset_destroy(nd);
	synchronize_srcu(&nd->srcu);
	nd_uring_drain();
}

static int nd_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct neuron_device *nd;
	int error;

	/* An id that was added at run time (new_id). */
	if (!nd_chip_for_device(pdev->device)) {
		dev_err(&pdev->dev, "device id 0x%04x is none of the chips that are known\n",
			pdev->device);
		return -ENODEV;
	}
	nd = nd_device_new(pdev);
	if (!nd)
		return -ENOMEM;
	nd->revision = pdev->revision;
	nd->is_qemu = nd->revision == NEURON_PCI_REVISION_QEMU;
	nd->is_emulator = nd->revision == NEURON_PCI_REVISION_EMULATOR;
	error = pci_enable_device(pdev);
	if (error) {
		dev_err(nd->dev, "cannot enable the PCI function: %d\n", error);
		goto put;
	}
	error = nd_map_bars(nd);
	if (error)
		goto unmap;
	/* Bits from the host base on are routing: an address of host memory lies below it. */
	error = dma_set_mask_and_coherent(nd->dev, nd->chip->host_base - 1);
	if (error) {
		dev_err(nd->dev, "no DMA with addresses below 0x%llx: %d\n", nd->chip->host_base,
			error);
		goto unmap;
	}
	error = nd_identify(nd);
	if (error)
		goto unmap;
	error = nd_devices_add(nd);
	if (error) {
		dev_err(nd->dev,
			"routing id %u is that of neuron%u, which another function has already\n",
			nd->routing_id, nd->index);
		goto unmap;
	}
	pci_set_drvdata(pdev, nd);
	pci_set_master(pdev);
	error = nd_mapping_create(nd);
	if (error)
		goto stop;
	error = nd_create_parts(nd);
	if (error)
		goto stop;
	error = nd_create_node(nd);
	if (error)
		goto stop;
	error = nd_reset_request_internal(nd);
	if (error)
		goto stop;
	dev_info(nd->dev, "neuron%u: generation %u, revision %u, %u cores, routing id %u\n",
		 nd->index, nd->chip->generation, nd->revision, hweight32(nd->core_map),
		 nd->routing_id);
	return 0;

stop:
	dev_err(nd->dev, "neuron%u: cannot be set up: %d\n", nd->index, error);
	nd_devices_remove(nd);
	nd_destroy_node(nd);
	nd_stop(nd);
	nd_destroy_parts(nd);
	pci_set_drvdata(pdev, NULL);
unmap:
	nd_unmap_bars(nd);
	pci_disable_device(pdev);
put:
	nd_device_put(nd);
	return error;
}

static void nd_remove(struct pci_dev *pdev)
{
	struct neuron_device *nd = pci_get_drvdata(pdev);

	nd_devices_remove(nd);
	if (!pci_device_is_present(pdev))
		WRITE_ONCE(nd->lost, true);
	/* Waits of open files end with this, so that the next steps do not wait for them. */
	WRITE_ONCE(nd->removed, true);
	nd_destroy_node(nd);
	nd_stop(nd);
	nd_destroy_parts(nd);
	nd_unmap_bars(nd);
	pci_disable_device(pdev);
	pci_set_drvdata(pdev, NULL);
	nd_device_put(nd);
}

static const struct pci_device_id nd_pci_ids[] = {
	{ PCI_DEVICE(NEURON_PCI_VENDOR, NEURON_PCI_DEVICE_TRN1) },
	{ PCI_DEVICE(NEURON_PCI_VENDOR, NEURON_PCI_DEVICE_INF2) },
	{ PCI_DEVICE(NEURON_PCI_VENDOR, NEURON_PCI_DEVICE_TRN2) },
	{ PCI_DEVICE(NEURON_PCI_VENDOR, NEURON_PCI_DEVICE_TRN3) },
	{ PCI_DEVICE(NEURON_PCI_VENDOR, NEURON_PCI_DEVICE_TRN3_SECOND) },
	{},
};
MODULE_DEVICE_TABLE(pci, nd_pci_ids);

static struct pci_driver nd_pci_driver = {
	.name = "neuron-driver",
	.id_table = nd_pci_ids,
	.probe = nd_probe,
	.remove = nd_remove,
};

int nd_pci_register(void)
{
	return pci_register_driver(&nd_pci_driver);
}

void nd_pci_unregister(void)
{
	pci_unregister_driver(&nd_pci_driver);
}
