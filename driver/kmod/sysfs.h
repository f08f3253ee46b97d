/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What sysfs.c (contents of files) and sysfs_tree.c (which files exist) share.
 *
 * A node is a folder. It is freed by its kobject; its files are served only while it is in the
 * tree, and removal waits for them, so they may use the device. The counters of results belong to
 * struct nd_sysfs, which is reached through nd->sysfs under a lock of sysfs.c.
 */
#ifndef DRIVER_KMOD_SYSFS_H
#define DRIVER_KMOD_SYSFS_H

#include <linux/kobject.h>
#include <linux/list.h>

#include "driver/kmod/neuron.h"

/* Counters of a core that a datastore carries. */
#define ND_SYSFS_RESULTS NDS_EXT_NC_COUNTER_LAST

enum nd_sysfs_kind {
	ND_SYSFS_FOLDER, /* of the device */
	ND_SYSFS_CORE_FOLDER,
	ND_SYSFS_RESULT, /* id: counter of the datastore */
	ND_SYSFS_RESET_REQUESTS,
	ND_SYSFS_RESET_FAILURES,
	ND_SYSFS_DEVICE_CATEGORY, /* id: category of memory */
	ND_SYSFS_CORE_CATEGORY,
	ND_SYSFS_CORE_HOST,
	ND_SYSFS_CORE_DEVICE,
};

enum nd_sysfs_field { ND_SYSFS_TOTAL, ND_SYSFS_PRESENT, ND_SYSFS_PEAK };

struct nd_sysfs_node {
	struct kobject kobj;
	struct list_head link; /* nd_sysfs.nodes */
	struct neuron_device *nd;
	enum nd_sysfs_kind kind;
	u32 core;
	u32 id;
	u64 seen; /* resets that `present` was cleared after */
};

struct nd_sysfs_attribute {
	struct attribute attr;
	enum nd_sysfs_field field;
	ssize_t (*show)(struct nd_sysfs_node *node, const struct nd_sysfs_attribute *attribute,
			char *text);
	void (*store)(struct nd_sysfs_node *node, const struct nd_sysfs_attribute *attribute,
		      const char *text);
};

struct nd_sysfs {
	struct list_head nodes; /* parents before children */
	struct nd_counter result[ND_MAX_CORES][ND_SYSFS_RESULTS];
	/* Whom to tell about changes. */
	struct nd_sysfs_node *result_node[ND_MAX_CORES][ND_SYSFS_RESULTS];
	struct nd_sysfs_node *device_category_node[ND_CATEGORIES];
	struct nd_sysfs_node *core_category_node[ND_MAX_CORES][ND_CATEGORIES];
	struct nd_sysfs_node *core_memory_node[ND_MAX_CORES][2]; /* device, host */
};

/* NULL takes the counters away. */
void nd_sysfs_publish(struct neuron_device *nd, struct nd_sysfs *sysfs);

extern const struct attribute_group nd_sysfs_device_group;
extern struct nd_sysfs_attribute nd_sysfs_total;
extern struct nd_sysfs_attribute nd_sysfs_present;
extern struct nd_sysfs_attribute nd_sysfs_peak;
extern struct nd_sysfs_attribute nd_sysfs_notify_delay;
extern struct nd_sysfs_attribute nd_sysfs_serial_number;
extern struct nd_sysfs_attribute nd_sysfs_arch_type;
extern struct nd_sysfs_attribute nd_sysfs_instance_type;
extern struct nd_sysfs_attribute nd_sysfs_device_name;
extern struct nd_sysfs_attribute nd_sysfs_sram_ecc_corrected;
extern struct nd_sysfs_attribute nd_sysfs_mem_ecc_corrected;
extern struct nd_sysfs_attribute nd_sysfs_sram_ecc_uncorrected;
extern struct nd_sysfs_attribute nd_sysfs_mem_ecc_uncorrected;
extern struct nd_sysfs_attribute nd_sysfs_mem_ecc_repairable_uncorrected;
extern struct nd_sysfs_attribute nd_sysfs_utilization;
extern struct nd_sysfs_attribute nd_sysfs_pe_cntrs;

#endif
