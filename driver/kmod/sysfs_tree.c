// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which folders and files a device has in sysfs, under the names that tools of the public driver
 * look for. What they say is in sysfs.c.
 */
#include <linux/slab.h>

#include "driver/core/attribute_rows.h"
#include "driver/kmod/sysfs.h"

static struct nd_sysfs_node *node_of(struct kobject *kobj)
{
	return container_of(kobj, struct nd_sysfs_node, kobj);
}

static ssize_t show(struct kobject *kobj, struct attribute *attr, char *text)
{
	struct nd_sysfs_attribute *attribute = container_of(attr, struct nd_sysfs_attribute, attr);

	return attribute->show(node_of(kobj), attribute, text);
}

static ssize_t store(struct kobject *kobj, struct attribute *attr, const char *text, size_t size)
{
	struct nd_sysfs_attribute *attribute = container_of(attr, struct nd_sysfs_attribute, attr);

	attribute->store(node_of(kobj), attribute, text);
	return size;
}

static void release(struct kobject *kobj)
{
	kfree(node_of(kobj));
}

static const struct sysfs_ops operations = { .show = show, .store = store };

/* A kind of folder: its name and the attributes in it. */
#define FOLDER_TYPE(name, ...)                                          \
	static struct attribute *name##_attributes[] = { __VA_ARGS__ }; \
	ATTRIBUTE_GROUPS_OF(name);                                      \
	static struct kobj_type name = { .release = release,            \
					 .sysfs_ops = &operations,      \
					 .default_groups = name##_groups }
#define ATTRIBUTE_GROUPS_OF(name)                                                          \
	static const struct attribute_group name##_group = { .attrs = name##_attributes }; \
	static const struct attribute_group *name##_groups[] = { &name##_group, NULL }

FOLDER_TYPE(empty, NULL);
FOLDER_TYPE(counted, &nd_sysfs_total.attr, &nd_sysfs_present.attr, NULL);
FOLDER_TYPE(measured, &nd_sysfs_total.attr, &nd_sysfs_present.attr, &nd_sysfs_peak.attr, NULL);
FOLDER_TYPE(device_info, &nd_sysfs_notify_delay.attr, &nd_sysfs_serial_number.attr, NULL);
FOLDER_TYPE(device_architecture, &nd_sysfs_arch_type.attr, &nd_sysfs_instance_type.attr,
	    &nd_sysfs_device_name.attr, NULL);
FOLDER_TYPE(hardware, &nd_sysfs_sram_ecc_corrected.attr, &nd_sysfs_sram_ecc_uncorrected.attr,
	    &nd_sysfs_mem_ecc_corrected.attr, &nd_sysfs_mem_ecc_uncorrected.attr,
	    &nd_sysfs_mem_ecc_repairable_uncorrected.attr, NULL);
FOLDER_TYPE(power, &nd_sysfs_utilization.attr, NULL);
FOLDER_TYPE(core_architecture, &nd_sysfs_arch_type.attr, NULL);
FOLDER_TYPE(tensor_engine, &nd_sysfs_pe_cntrs.attr, NULL);

/* What is being built; after an error nothing more is added. */
struct builder {
	struct neuron_device *nd;
	struct nd_sysfs *sysfs;
	int error;
};

static struct nd_sysfs_node *add(struct builder *builder, struct kobject *parent, const char *name,
				 struct kobj_type *type, enum nd_sysfs_kind kind, u32 core, u32 id)
{
	struct nd_sysfs_node *node;

	if (builder->error)
		return NULL;
	node = kzalloc(sizeof(*node), GFP_KERNEL);
	if (!node) {
		builder->error = -ENOMEM;
		return NULL;
	}
	node->nd = builder->nd;
	node->kind = kind;
	node->core = core;
	node->id = id;
	builder->error = kobject_init_and_add(&node->kobj, type, parent, "%s", name);
	if (builder->error) {
		kobject_put(&node->kobj);
		return NULL;
	}
	list_add_tail(&node->link, &builder->sysfs->nodes);
	return node;
}

static struct kobject *folder(struct builder *builder, struct kobject *parent, const char *name,
			      struct kobj_type *type)
{
	struct nd_sysfs_node *node = add(builder, parent, name, type, ND_SYSFS_FOLDER, 0, 0);

	return node ? &node->kobj : NULL;
}

static struct kobject *core_folder(struct builder *builder, struct kobject *parent,
				   const char *name, struct kobj_type *type, u32 core)
{
	struct nd_sysfs_node *node =
		add(builder, parent, name, type, ND_SYSFS_CORE_FOLDER, core, 0);

	return node ? &node->kobj : NULL;
}

static void add_device(struct builder *builder)
{
	struct kobject *device = &builder->nd->device->kobj;
	struct kobject *info = folder(builder, device, "info", &device_info);
	struct kobject *stats = folder(builder, device, "stats", &empty);
	struct kobject *memory;
	u32 i;

	folder(builder, info, "architecture", &device_architecture);
	folder(builder, stats, "hardware", &hardware);
	folder(builder, stats, "power", &power);
	memory = folder(builder, stats, "memory_usage", &empty);
	memory = folder(builder, memory, "host_mem", &empty);
	for (i = 0; i < ND_HOST_MEMORY_ROWS; i++)
		builder->sysfs->device_category_node[nd_host_memory_rows[i].id] =
			add(builder, memory, nd_host_memory_rows[i].name, &measured,
			    ND_SYSFS_DEVICE_CATEGORY, 0, nd_host_memory_rows[i].id);
}

static void add_results(struct builder *builder, struct kobject *stats, u32 core)
{
	struct kobject *status = core_folder(builder, stats, "status", &empty, core);
	struct kobject *other = core_folder(builder, stats, "other_info", &empty, core);
	struct nd_sysfs *sysfs = builder->sysfs;
	u32 i;

	for (i = 0; i < ND_RESULT_ROWS; i++)
		sysfs->result_node[core][nd_result_rows[i].id] =
			add(builder, status, nd_result_rows[i].name, &counted, ND_SYSFS_RESULT,
			    core, nd_result_rows[i].id);
	for (i = 0; i < ND_OTHER_ROWS; i++)
		sysfs->result_node[core][nd_other_rows[i].id] =
			add(builder, other, nd_other_rows[i].name, &counted, ND_SYSFS_RESULT, core,
			    nd_other_rows[i].id);
	add(builder, other, "reset_req_count", &counted, ND_SYSFS_RESET_REQUESTS, core, 0);
	add(builder, other, "reset_fail_count", &counted, ND_SYSFS_RESET_FAILURES, core, 0);
}

static void add_core_memory(struct builder *builder, struct kobject *stats, u32 core)
{
	struct kobject *memory = core_folder(builder, stats, "memory_usage", &empty, core);
	struct nd_sysfs *sysfs = builder->sysfs;
	struct nd_sysfs_node *device;
	u32 i;

	sysfs->core_memory_node[core][1] =
		add(builder, memory, "host_mem", &measured, ND_SYSFS_CORE_HOST, core, 0);
	device = add(builder, memory, "device_mem", &measured, ND_SYSFS_CORE_DEVICE, core, 0);
	sysfs->core_memory_node[core][0] = device;
	if (!device)
		return;
	for (i = 0; i < ND_DEVICE_MEMORY_ROWS; i++)
		sysfs->core_category_node[core][nd_device_memory_rows[i].id] =
			add(builder, &device->kobj, nd_device_memory_rows[i].name, &measured,
			    ND_SYSFS_CORE_CATEGORY, core, nd_device_memory_rows[i].id);
}

static void add_core(struct builder *builder, u32 core)
{
	struct kobject *top, *info, *stats;
	char name[24];

	snprintf(name, sizeof(name), "neuron_core%u", core);
	top = core_folder(builder, &builder->nd->device->kobj, name, &empty, core);
	info = core_folder(builder, top, "info", &empty, core);
	core_folder(builder, info, "architecture", &core_architecture, core);
	stats = core_folder(builder, top, "stats", &empty, core);
	add_results(builder, stats, core);
	add_core_memory(builder, stats, core);
	core_folder(builder, stats, "tensor_engine", &tensor_engine, core);
}

static void remove_nodes(struct nd_sysfs *sysfs)
{
	struct nd_sysfs_node *node, *next;

	list_for_each_entry_safe_reverse(node, next, &sysfs->nodes, link) {
		list_del(&node->link);
		kobject_del(&node->kobj);
		kobject_put(&node->kobj);
	}
}

int nd_sysfs_create(struct neuron_device *nd)
{
	struct builder builder = { .nd = nd };
	u32 core;

	builder.sysfs = kvzalloc(sizeof(*builder.sysfs), GFP_KERNEL);
	if (!builder.sysfs)
		return -ENOMEM;
	INIT_LIST_HEAD(&builder.sysfs->nodes);
	builder.error = sysfs_create_group(&nd->device->kobj, &nd_sysfs_device_group);
	if (builder.error) {
		kvfree(builder.sysfs);
		return builder.error;
	}
	add_device(&builder);
	for (core = 0; core < nd->chip->cores; core++)
		if (nd_has_core(nd, core))
			add_core(&builder, core);
	if (builder.error) {
		dev_err(nd->dev, "neuron%u: cannot make its tree in sysfs: %d\n", nd->index,
			builder.error);
		remove_nodes(builder.sysfs);
		sysfs_remove_group(&nd->device->kobj, &nd_sysfs_device_group);
		kvfree(builder.sysfs);
		return builder.error;
	}
	nd_sysfs_publish(nd, builder.sysfs);
	return 0;
}

void nd_sysfs_destroy(struct neuron_device *nd)
{
	struct nd_sysfs *sysfs = nd->sysfs;

	if (!sysfs)
		return;
	nd_sysfs_publish(nd, NULL);
	sysfs_remove_group(&nd->device->kobj, &nd_sysfs_device_group);
	remove_nodes(sysfs);
	kvfree(sysfs);
}
