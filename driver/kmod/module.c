// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading: parameters, the character region, the class, the PCI driver.
 */
#include <linux/module.h>

#include "driver/kmod/neuron.h"

int nd_param_no_reset;
module_param_named(no_reset, nd_param_no_reset, int, 0660);
MODULE_PARM_DESC(no_reset, "1: let resets succeed without asking the firmware");

ulong nd_param_small_pool_size = ND_HBM_SMALL_POOL;
module_param_named(mempool_small_pool_size, nd_param_small_pool_size, ulong, 0660);
MODULE_PARM_DESC(mempool_small_pool_size, "bytes at the end of each HBM for small allocations");

ulong nd_param_host_reserve = 32ul << 20;
module_param_named(mempool_host_memory_size, nd_param_host_reserve, ulong, 0440);
MODULE_PARM_DESC(mempool_host_memory_size,
		 "bytes of host memory that each device keeps for large allocations; 0: none");

ulong nd_param_host_limit_mib;
module_param_named(host_memory_limit_mib, nd_param_host_limit_mib, ulong, 0660);
MODULE_PARM_DESC(
	host_memory_limit_mib,
	"MiB of host memory that a process may have for all devices; 0: half of the host's");

int nd_param_wc_enable = 1;
module_param_named(wc_enable, nd_param_wc_enable, int, 0660);
MODULE_PARM_DESC(wc_enable, "1: map device memory write-combined");

int nd_param_metric_delay_ms = 150000;
module_param_named(nmetric_metric_post_delay, nd_param_metric_delay_ms, int, 0660);
MODULE_PARM_DESC(nmetric_metric_post_delay, "milliseconds between two posts of metrics");

int nd_param_log_posts = 1;
module_param_named(nmetric_log_posts, nd_param_log_posts, int, 0660);
MODULE_PARM_DESC(nmetric_log_posts, "bit 0: post metrics to the firmware, bit 1: trace them");

int nd_param_cores_per_device = 1;
module_param_named(nc_per_dev_param, nd_param_cores_per_device, int, 0660);
MODULE_PARM_DESC(nc_per_dev_param, "cores of a device of revision 240");

int nd_param_core_map = 1;
module_param_named(dev_nc_map, nd_param_core_map, int, 0660);
MODULE_PARM_DESC(dev_nc_map, "bit per usable core of a device of revision 240");

int nd_param_zerocopy_trn1 = 1;
module_param_named(zerocopy_trn1_override, nd_param_zerocopy_trn1, int, 0660);
MODULE_PARM_DESC(zerocopy_trn1_override, "0: refuse zero-copy transfers on trn1 and inf2");

struct class *nd_class;
dev_t nd_region;

static int __init nd_module_init(void)
{
	int error = alloc_chrdev_region(&nd_region, 0, ND_MAX_DEVICES, "neuron");

	if (error)
		return error;
	nd_class = nd_class_create("neuron_device");
	if (IS_ERR(nd_class)) {
		error = PTR_ERR(nd_class);
		goto no_class;
	}
	error = nd_mapping_module_init();
	if (error)
		goto no_mapping;
	error = nd_uring_module_init();
	if (error)
		goto no_uring;
	error = nd_fault_module_init();
	if (error)
		goto no_fault;
	error = nd_sysfs_module_init();
	if (error)
		goto no_sysfs;
	error = nd_pci_register();
	if (error)
		goto no_pci;
	return 0;

no_pci:
	nd_sysfs_module_exit();
no_sysfs:
	nd_fault_module_exit();
no_fault:
	nd_uring_module_exit();
no_uring:
	nd_mapping_module_exit();
no_mapping:
	class_destroy(nd_class);
no_class:
	unregister_chrdev_region(nd_region, ND_MAX_DEVICES);
	return error;
}

static void __exit nd_module_exit(void)
{
	nd_pci_unregister();
	nd_sysfs_module_exit();
	nd_fault_module_exit();
	nd_uring_module_exit();
	nd_mapping_module_exit();
	class_destroy(nd_class);
	unregister_chrdev_region(nd_region, ND_MAX_DEVICES);
}

module_init(nd_module_init);
module_exit(nd_module_exit);

MODULE_DESCRIPTION("Open driver for AWS Inferentia2 and Trainium chips");
MODULE_AUTHOR("The authors of the open Neuron runtime");
MODULE_LICENSE("GPL");
MODULE_VERSION(ND_VERSION);
