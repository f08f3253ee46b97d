// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tree under /sys/class/neuron_device/neuronN that tools read: identity, state, memory in use,
 * results of executions. sysfs_tree.c has its shape; here is what its files say.
 *
 * A counter is three files: total (running sum; of memory: bytes now), present (the last change)
 * and peak. Writing anything to one sets it to 0. Memory is counted by memory.c, results come from
 * datastores when these are released.
 */
#include <linux/kstrtox.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/sysfs.h>

#include "driver/core/attribute_rows.h"
#include "driver/kmod/neuron.h"
#include "driver/kmod/sysfs.h"

/* Guards nd->sysfs and the counters in it, of all devices: they change a few times per process. */
static DEFINE_SPINLOCK(counters_lock);
/* Around telling pollers: a folder is taken out of the tree only when nobody tells its pollers. */
DEFINE_STATIC_SRCU(notifying);
/* 0: counters tell pollers about changes; -1: they do not. */
static int notify_delay = -1;

/* ---- counters ---- */

static u64 *field_of(struct nd_counter *counter, enum nd_sysfs_field field)
{
	return field == ND_SYSFS_TOTAL	   ? &counter->total
	       : field == ND_SYSFS_PRESENT ? &counter->present
					   : &counter->peak;
}

static struct nd_counter *memory_counter(struct nd_sysfs_node *node)
{
	struct neuron_device *nd = node->nd;

	switch (node->kind) {
	case ND_SYSFS_DEVICE_CATEGORY:
		return &nd->memory.accounting.category[node->id];
	case ND_SYSFS_CORE_CATEGORY:
		return &nd->core[node->core].accounting.category[node->id];
	case ND_SYSFS_CORE_HOST:
		return &nd->core[node->core].accounting.host;
	default:
		return &nd->core[node->core].accounting.device;
	}
}

static struct nd_counter *contiguous_scratchpad(struct nd_sysfs_node *node)
{
	u32 category = NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE;

	return &node->nd->core[node->core].accounting.category[category];
}

/* Resets are counted one at a time, where they happen: present is 1 after the first new one. */
static u64 read_resets(struct nd_sysfs_node *node, atomic64_t *resets, enum nd_sysfs_field field)
{
	u64 total = atomic64_read(resets);

	return field == ND_SYSFS_TOTAL ? total : total > node->seen;
}

static void clear_resets(struct nd_sysfs_node *node, atomic64_t *resets, enum nd_sysfs_field field)
{
	if (field == ND_SYSFS_TOTAL) {
		node->seen = 0;
		atomic64_set(resets, 0);
	} else {
		node->seen = atomic64_read(resets);
	}
}

static u64 read_field(struct nd_sysfs_node *node, enum nd_sysfs_field field)
{
	struct neuron_device *nd = node->nd;
	u64 value = 0;

	switch (node->kind) {
	case ND_SYSFS_RESET_REQUESTS:
		return read_resets(node, &nd->core[node->core].reset_requests, field);
	case ND_SYSFS_RESET_FAILURES:
		return read_resets(node, &nd->core[node->core].reset_failures, field);
	case ND_SYSFS_RESULT:
		spin_lock(&counters_lock);
		if (nd->sysfs)
			value = *field_of(
				&((struct nd_sysfs *)nd->sysfs)->result[node->core][node->id],
				field);
		spin_unlock(&counters_lock);
		/* A multiplication with its addition is two operations. */
		return node->id == NDS_NC_COUNTER_MAC_COUNT ? 2 * value : value;
	default:
		mutex_lock(&nd->memory.lock);
		value = *field_of(memory_counter(node), field);
		/* The contiguous scratchpad is a shared scratchpad with a category of its own. */
		if (node->kind == ND_SYSFS_CORE_CATEGORY &&
		    node->id == NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE)
			value += *field_of(contiguous_scratchpad(node), field);
		mutex_unlock(&nd->memory.lock);
		return value;
	}
}

static void clear_field(struct nd_sysfs_node *node, enum nd_sysfs_field field)
{
	struct neuron_device *nd = node->nd;

	switch (node->kind) {
	case ND_SYSFS_RESET_REQUESTS:
		clear_resets(node, &nd->core[node->core].reset_requests, field);
		break;
	case ND_SYSFS_RESET_FAILURES:
		clear_resets(node, &nd->core[node->core].reset_failures, field);
		break;
	case ND_SYSFS_RESULT:
		spin_lock(&counters_lock);
		if (nd->sysfs)
			*field_of(&((struct nd_sysfs *)nd->sysfs)->result[node->core][node->id],
				  field) = 0;
		spin_unlock(&counters_lock);
		break;
	default:
		/* Bytes in use are what they are; the two others start again. */
		mutex_lock(&nd->memory.lock);
		if (field != ND_SYSFS_TOTAL)
			*field_of(memory_counter(node), field) = 0;
		mutex_unlock(&nd->memory.lock);
		break;
	}
}

static ssize_t show_counter(struct nd_sysfs_node *node, const struct nd_sysfs_attribute *attribute,
			    char *text)
{
	return sysfs_emit(text, "%llu\n", read_field(node, attribute->field));
}

static void store_counter(struct nd_sysfs_node *node, const struct nd_sysfs_attribute *attribute,
			  const char *text)
{
	clear_field(node, attribute->field);
}

struct nd_sysfs_attribute nd_sysfs_total = {
	{ "total", 0644 }, ND_SYSFS_TOTAL, show_counter, store_counter
};
struct nd_sysfs_attribute nd_sysfs_present = {
	{ "present", 0644 }, ND_SYSFS_PRESENT, show_counter, store_counter
};
struct nd_sysfs_attribute nd_sysfs_peak = {
	{ "peak", 0644 }, ND_SYSFS_PEAK, show_counter, store_counter
};

static void tell_pollers(struct nd_sysfs_node *node, bool peak)
{
	sysfs_notify(&node->kobj, NULL, "total");
	sysfs_notify(&node->kobj, NULL, "present");
	if (peak)
		sysfs_notify(&node->kobj, NULL, "peak");
	kobject_put(&node->kobj);
}

void nd_sysfs_add(struct neuron_device *nd, u32 core, u32 index, u64 value)
{
	struct nd_sysfs_node *node = NULL;
	struct nd_sysfs *sysfs;
	int token = srcu_read_lock(&notifying);

	spin_lock(&counters_lock);
	sysfs = nd->sysfs;
	if (sysfs && core < ND_MAX_CORES && index < ND_SYSFS_RESULTS) {
		sysfs->result[core][index].total += value;
		sysfs->result[core][index].present = value;
		if (!READ_ONCE(notify_delay))
			node = sysfs->result_node[core][index];
		if (node)
			kobject_get(&node->kobj);
	}
	spin_unlock(&counters_lock);
	if (node)
		tell_pollers(node, false);
	srcu_read_unlock(&notifying, token);
}

void nd_sysfs_memory_changed(struct neuron_device *nd, u32 core, u32 category, bool host)
{
	struct nd_sysfs_node *nodes[3] = {};
	struct nd_sysfs *sysfs;
	int token;
	u32 i;

	if (READ_ONCE(notify_delay) || core >= ND_MAX_CORES)
		return;
	category = nd_category(category, host);
	token = srcu_read_lock(&notifying);
	spin_lock(&counters_lock);
	sysfs = nd->sysfs;
	if (sysfs) {
		nodes[0] = sysfs->device_category_node[category];
		nodes[1] = sysfs->core_category_node[core][category];
		nodes[2] = sysfs->core_memory_node[core][host];
	}
	for (i = 0; i < ARRAY_SIZE(nodes); i++)
		if (nodes[i])
			kobject_get(&nodes[i]->kobj);
	spin_unlock(&counters_lock);
	for (i = 0; i < ARRAY_SIZE(nodes); i++)
		if (nodes[i])
			tell_pollers(nodes[i], true);
	srcu_read_unlock(&notifying, token);
}

void nd_sysfs_publish(struct neuron_device *nd, struct nd_sysfs *sysfs)
{
	spin_lock(&counters_lock);
	nd->sysfs = sysfs;
	spin_unlock(&counters_lock);
	if (!sysfs)
		synchronize_srcu(&notifying);
}

/* ---- other files ---- */

static void store_nothing(struct nd_sysfs_node *node, const struct nd_sysfs_attribute *attribute,
			  const char *text)
{
}

#define TEXT(name)                                                             \
	struct nd_sysfs_attribute nd_sysfs_##name = { .attr = { #name, 0644 }, \
						      .show = show_##name,     \
						      .store = store_nothing }

static ssize_t show_notify_delay(struct nd_sysfs_node *node,
				 const struct nd_sysfs_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%d\n", READ_ONCE(notify_delay));
}

static void store_notify_delay(struct nd_sysfs_node *node,
			       const struct nd_sysfs_attribute *attribute, const char *text)
{
	int wanted;

	if (!kstrtoint(text, 10, &wanted) && (wanted == 0 || wanted == -1))
		WRITE_ONCE(notify_delay, wanted);
}

struct nd_sysfs_attribute nd_sysfs_notify_delay = { .attr = { "notify_delay", 0644 },
						    .show = show_notify_delay,
						    .store = store_notify_delay };

/* A word of the firmware; false if the device is gone. */
static bool firmware_word(struct neuron_device *nd, u32 offset, u32 *word)
{
	int token;

	if (nd_enter(nd, &token))
		return false;
	*word = nd_firmware_word(nd, offset);
	nd_exit(nd, token);
	return !nd_is_lost(nd);
}

static ssize_t show_serial_number(struct nd_sysfs_node *node,
				  const struct nd_sysfs_attribute *attribute, char *text)
{
	u32 low, high;

	if (!firmware_word(node->nd, NEURON_FW_SERIAL_LO, &low) ||
	    !firmware_word(node->nd, NEURON_FW_SERIAL_HI, &high))
		return sysfs_emit(text, "\n");
	return sysfs_emit(text, "%08x%08x\n", high, low);
}
TEXT(serial_number);

static const struct nd_identity *identity_of(const struct neuron_device *nd)
{
	return nd_identity_of(nd->pdev->device);
}

static ssize_t show_arch_type(struct nd_sysfs_node *node,
			      const struct nd_sysfs_attribute *attribute, char *text)
{
	if (node->kind == ND_SYSFS_CORE_FOLDER)
		return sysfs_emit(text, "NCv%u\n", node->nd->chip->generation);
	return sysfs_emit(text, "%s\n", identity_of(node->nd)->arch_type);
}
TEXT(arch_type);

static ssize_t show_instance_type(struct nd_sysfs_node *node,
				  const struct nd_sysfs_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%s\n", identity_of(node->nd)->instance_type);
}
TEXT(instance_type);

static ssize_t show_device_name(struct nd_sysfs_node *node,
				const struct nd_sysfs_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%s\n", identity_of(node->nd)->device_name);
}
TEXT(device_name);

static ssize_t show_sram_ecc_uncorrected(struct nd_sysfs_node *node,
					 const struct nd_sysfs_attribute *attribute, char *text)
{
	u32 word = 0;

	if (!firmware_word(node->nd, NEURON_FW_ECC_SRAM, &word))
		return -ENODEV;
	return sysfs_emit(text, "%u\n", word & 0xFFFF);
}
TEXT(sram_ecc_uncorrected);

/* Errors that were corrected are counted in the upper half of the same words. */
static ssize_t show_sram_ecc_corrected(struct nd_sysfs_node *node,
				       const struct nd_sysfs_attribute *attribute, char *text)
{
	u32 word = 0;

	if (!firmware_word(node->nd, NEURON_FW_ECC_SRAM, &word))
		return -ENODEV;
	return sysfs_emit(text, "%u\n", word >> 16);
}
TEXT(sram_ecc_corrected);

static ssize_t show_mem_ecc_corrected(struct nd_sysfs_node *node,
				      const struct nd_sysfs_attribute *attribute, char *text)
{
	u32 count = 0;
	u32 hbm, word;

	for (hbm = 0; hbm < node->nd->chip->hbms; hbm++) {
		if (!firmware_word(node->nd, NEURON_FW_ECC_HBM0 + 4 * hbm, &word))
			return -ENODEV;
		count += word >> 16;
	}
	return sysfs_emit(text, "%u\n", count);
}
TEXT(mem_ecc_corrected);

/* Generation 3 tells errors that a repair of the memory will cure from those that it did not. */
enum { REPAIR_NONE, REPAIR_PENDING, REPAIR_FAILED };

static int hbm_errors(struct neuron_device *nd, u32 *count, u32 *repair)
{
	u32 hbm, word;

	*count = 0;
	*repair = REPAIR_NONE;
	for (hbm = 0; hbm < nd->chip->hbms; hbm++) {
		if (!firmware_word(nd, NEURON_FW_ECC_HBM0 + 4 * hbm, &word))
			return -ENODEV;
		*count += word & 0xFFFF;
	}
	if (nd->chip->tells_repair) {
		if (!firmware_word(nd, NEURON_FW_HBM_REPAIR, repair))
			return -ENODEV;
		*repair &= 3;
	}
	return 0;
}

static ssize_t show_mem_ecc_uncorrected(struct nd_sysfs_node *node,
					const struct nd_sysfs_attribute *attribute, char *text)
{
	u32 count, repair;
	int error = hbm_errors(node->nd, &count, &repair);

	return error ? error : sysfs_emit(text, "%u\n", repair == REPAIR_PENDING ? 0 : count);
}
TEXT(mem_ecc_uncorrected);

static ssize_t show_mem_ecc_repairable_uncorrected(struct nd_sysfs_node *node,
						   const struct nd_sysfs_attribute *attribute,
						   char *text)
{
	u32 count, repair;
	int error = hbm_errors(node->nd, &count, &repair);

	return error ? error : sysfs_emit(text, "%u\n", repair == REPAIR_PENDING ? count : 0);
}
TEXT(mem_ecc_repairable_uncorrected);

static ssize_t show_utilization(struct nd_sysfs_node *node,
				const struct nd_sysfs_attribute *attribute, char *text)
{
	static const char *const names[] = { "POWER_STATUS_VALID", "POWER_STATUS_NO_DATA",
					     "POWER_STATUS_INVALID" };
	struct nd_power power;

	nd_metrics_power(node->nd, &power);
	return sysfs_emit(text, "%s,%lld,%u.%02u,%u.%02u,%u.%02u\n", names[power.status],
			  power.when, power.lowest / 100, power.lowest % 100, power.highest / 100,
			  power.highest % 100, power.average / 100, power.average % 100);
}
TEXT(utilization);

/*
 * Cycles of the Tensor engine by row group. Each group has its counters in 64-bit words; matmul,
 * weight load and idle are read in this order.
 */
static ssize_t show_pe_cntrs(struct nd_sysfs_node *node, const struct nd_sysfs_attribute *attribute,
			     char *text)
{
	struct neuron_device *nd = node->nd;
	int length, token;
	u32 group;

	if (nd_enter(nd, &token))
		return -ENODEV;
	length = sysfs_emit(text, "xrow_grp,mm_active,wl_active,idle\n");
	for (group = 0; group < 4; group++) {
		u64 at = nd_chip_pe_counters(nd->chip, node->core, group);
		u64 value[3];
		u32 i;

		for (i = 0; i < 3; i++) {
			value[i] = nd_read(nd, at + 8 * i);
			value[i] |= (u64)nd_read(nd, at + 8 * i + 4) << 32;
		}
		length += sysfs_emit_at(text, length, "%u,%llu,%llu,%llu\n", group, value[0],
					value[1], value[2]);
	}
	nd_exit(nd, token);
	return nd_is_lost(nd) ? -ENODEV : length;
}
TEXT(pe_cntrs);

/* ---- files of the device node itself ---- */

static ssize_t reset_show(struct device *device, struct device_attribute *attribute, char *text)
{
	struct neuron_device *nd = dev_get_drvdata(device);

	return sysfs_emit(text, "%d\n", READ_ONCE(nd->reset.state));
}

/* Does nothing while a process uses the device. */
static ssize_t reset_store(struct device *device, struct device_attribute *attribute,
			   const char *text, size_t size)
{
	struct neuron_device *nd = dev_get_drvdata(device);
	int error, token;

	if (nd_enter(nd, &token))
		return -ENODEV;
	error = nd_file_reset_if_idle(nd);
	nd_exit(nd, token);
	return error ? error : size;
}
static DEVICE_ATTR(reset, 0600, reset_show, reset_store);

static ssize_t core_count_show(struct device *device, struct device_attribute *attribute,
			       char *text)
{
	return sysfs_emit(text, "%u", ((struct neuron_device *)dev_get_drvdata(device))->cores);
}
static DEVICE_ATTR(core_count, 0400, core_count_show, NULL);

static ssize_t connected_devices_show(struct device *device, struct device_attribute *attribute,
				      char *text)
{
	u32 neighbours[8];
	u32 count = nd_topology_neighbours(dev_get_drvdata(device), neighbours);
	int length = 0;
	u32 i;

	for (i = 0; i < count; i++)
		length += sysfs_emit_at(text, length, i ? ", %u" : "%u", neighbours[i]);
	return length + sysfs_emit_at(text, length, "\n");
}
static DEVICE_ATTR(connected_devices, 0400, connected_devices_show, NULL);

static struct attribute *device_attributes[] = { &dev_attr_reset.attr, &dev_attr_core_count.attr,
						 &dev_attr_connected_devices.attr, NULL };
const struct attribute_group nd_sysfs_device_group = { .attrs = device_attributes };

/* ---- files of the class: membership in an UltraServer, which this driver never elects ---- */

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define CLASS_ARGUMENTS const struct class *class, const struct class_attribute *attribute
#else
#define CLASS_ARGUMENTS struct class *class, struct class_attribute *attribute
#endif

static ssize_t no_node_show(CLASS_ARGUMENTS, char *text)
{
	return sysfs_emit(text, "-1\n");
}

static ssize_t no_server_show(CLASS_ARGUMENTS, char *text)
{
	return sysfs_emit(text, "0000000000000000\n");
}

static ssize_t no_mode_show(CLASS_ARGUMENTS, char *text)
{
	return sysfs_emit(text, "\n");
}

static const struct class_attribute class_attributes[] = {
	__ATTR(node_id_2, 0444, no_node_show, NULL),
	__ATTR(node_id_4, 0444, no_node_show, NULL),
	__ATTR(server_id_2, 0444, no_server_show, NULL),
	__ATTR(server_id_4, 0444, no_server_show, NULL),
	__ATTR(ultraserver_mode, 0444, no_mode_show, NULL),
};

int nd_sysfs_module_init(void)
{
	int error = 0;
	u32 i;

	for (i = 0; !error && i < ARRAY_SIZE(class_attributes); i++)
		error = class_create_file(nd_class, &class_attributes[i]);
	if (error)
		nd_sysfs_module_exit();
	return error;
}

void nd_sysfs_module_exit(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(class_attributes); i++)
		class_remove_file(nd_class, &class_attributes[i]);
}
