// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault injection: /sys/kernel/debug/neuron/fail_*, on kernels built with CONFIG_FAULT_INJECTION.
 * Each attribute is asked where its fault would show; without the option the answer is a constant.
 */
#include "driver/kmod/neuron.h"

#ifdef CONFIG_FAULT_INJECTION
#include <linux/debugfs.h>
#include <linux/fault-inject.h>

static DECLARE_FAULT_ATTR(nc_mmap);
static DECLARE_FAULT_ATTR(dma_wait);
static DECLARE_FAULT_ATTR(mc_alloc);
static DECLARE_FAULT_ATTR(fwio_read);
static DECLARE_FAULT_ATTR(fwio_post_metric);
static struct dentry *folder;

int nd_fault_module_init(void)
{
	folder = debugfs_create_dir("neuron", NULL);
	fault_create_debugfs_attr("fail_nc_mmap", folder, &nc_mmap);
	fault_create_debugfs_attr("fail_dma_wait", folder, &dma_wait);
	fault_create_debugfs_attr("fail_mc_alloc", folder, &mc_alloc);
	fault_create_debugfs_attr("fail_fwio_read", folder, &fwio_read);
	fault_create_debugfs_attr("fail_fwio_post_metric", folder, &fwio_post_metric);
	return 0;
}

void nd_fault_module_exit(void)
{
	debugfs_remove_recursive(folder);
}

#define ASK(attribute) should_fail(&(attribute), 1)
#else
#define ASK(attribute) false

int nd_fault_module_init(void)
{
	return 0;
}

void nd_fault_module_exit(void)
{
}
#endif

bool nd_fault_mmap(void)
{
	return ASK(nc_mmap);
}

bool nd_fault_dma_wait(void)
{
	return ASK(dma_wait);
}

bool nd_fault_allocate(void)
{
	return ASK(mc_alloc);
}

bool nd_fault_firmware_read(void)
{
	return ASK(fwio_read);
}

bool nd_fault_post_metric(void)
{
	return ASK(fwio_post_metric);
}
