// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls about the device itself: identity, versions, registers, processes, UltraServer, metrics.
 */
#include <linux/ctype.h>
#include <linux/ratelimit.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver/kmod/neuron.h"
#include "driver/kmod/trace.h"

/* What DEVICE_INFO calls the address of BAR0: user space adds offsets to it and never follows it.
 */
#define BAR0_BASE 0x4E0000000000ull
#define MAX_REGISTERS 100u
#define MAX_LINE 512u
#define MAX_METRIC 128u
#define COMMAND_POWER_PROFILE 3

#define FEATURES                                                                      \
	(NEURON_DRIVER_FEATURE_ASYNC_DMA | NEURON_DRIVER_FEATURE_BATCH_DMAQ_INIT |    \
	 NEURON_DRIVER_FEATURE_BIG_CORE_MAPS | NEURON_DRIVER_FEATURE_MEM_ALLOC_TYPE | \
	 NEURON_DRIVER_FEATURE_HBM_SCRUB | NEURON_DRIVER_FEATURE_MEM_ALLOC64 |        \
	 NEURON_DRIVER_FEATURE_CONTIGUOUS_SCRATCHPAD | NEURON_DRIVER_FEATURE_ZEROCOPY)

/* Calls that have had no effect for years. */
static int nothing(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		   void __user *user)
{
	return 0;
}

static int device_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	struct neuron_ioctl_device_info *info = argument;
	struct neuron_device *nd = file->nd;

	memset(info, 0, sizeof(*info));
	info->architecture = nd->chip->generation;
	info->revision = nd->revision;
	info->connected_device_count = nd_topology_neighbours(nd, info->connected_devices);
	info->bar_address[0] = BAR0_BASE;
	info->bar_size[0] = nd->bar0_size;
	return 0;
}

static int basic_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	struct neuron_ioctl_device_basic_info *info = argument;

	info->architecture = file->nd->chip->generation;
	info->revision = file->nd->revision;
	return 0;
}

static int driver_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	struct neuron_ioctl_device_driver_info *info = argument;

	if (info->size && info->size < sizeof(*info))
		return -EINVAL;
	info->architecture = file->nd->chip->generation;
	info->revision = file->nd->revision;
	info->version = 0;
	info->size = sizeof(*info);
	info->feature_flags1 = FEATURES;
	if (IS_ENABLED(CONFIG_DMA_SHARED_BUFFER))
		info->feature_flags1 |= NEURON_DRIVER_FEATURE_DMABUF;
	return 0;
}

static int driver_info_set(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			   void __user *user)
{
	return -ND_ENOTSUPP;
}

static int compatible_version(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			      void __user *user)
{
	struct neuron_ioctl_compatible_version *range = argument;

	range->min = file->nd->chip->min_interface;
	range->max = file->nd->chip->max_interface;
	return 0;
}

static int device_bdf(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	struct neuron_ioctl_device_bdf *bdf = argument;
	struct pci_dev *pdev = file->nd->pdev;

	memset(bdf, 0, sizeof(*bdf));
	bdf->bus_number = pdev->bus->number;
	bdf->slot = PCI_SLOT(pdev->devfn);
	bdf->func = PCI_FUNC(pdev->devfn);
	return 0;
}

static int device_bdf_ext(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			  void __user *user)
{
	struct neuron_ioctl_device_bdf_ext *bdf = argument;
	u32 index = bdf->nd_index;
	struct neuron_device *nd;

	if (index >= ND_MAX_DEVICES)
		return -EINVAL;
	nd = nd_device_by_index(file->nd->index + index);
	if (!nd)
		return -EINVAL;
	memset(bdf, 0, sizeof(*bdf));
	bdf->nd_index = index;
	bdf->domain = pci_domain_nr(nd->pdev->bus);
	bdf->bus_number = nd->pdev->bus->number;
	bdf->slot = PCI_SLOT(nd->pdev->devfn);
	bdf->func = PCI_FUNC(nd->pdev->devfn);
	nd_device_put(nd);
	return 0;
}

static int host_device_id(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			  void __user *user)
{
	((struct neuron_ioctl_host_device_id *)argument)->host_device_id = file->nd->index;
	return 0;
}

static int routing_ids(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	struct neuron_ioctl_host_device_id_to_rid_map *map = argument;
	u32 i;

	memset(map, 0, sizeof(*map));
	for (i = 0; i < ND_MAX_DEVICES; i++) {
		struct neuron_device *nd = nd_device_by_index(i);

		if (!nd)
			continue;
		map->host_did_to_rid_map[i] = nd->routing_id;
		map->count++;
		nd_device_put(nd);
	}
	return 0;
}

static int core_map(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		    void __user *user)
{
	const struct neuron_ioctl_get_logical_to_physical_nc_map *request = argument;
	struct neuron_device *nd = file->nd;
	struct neuron_ioctl_nc_map *map;
	size_t bytes;
	int result = 0;
	u32 i;

	if (!nd_chip_maps_cores(nd->chip))
		return -ND_ENOTSUPP;
	if (request->mapping_version != NEURON_IOCTL_NC_MAPPING_TYPE_V0 ||
	    request->max_map_entries > NEURON_NC_MAP_MAX_ENTRIES)
		return -EINVAL;
	bytes = struct_size(map, mappings, request->max_map_entries);
	map = kzalloc(bytes, GFP_KERNEL);
	if (!map)
		return -ENOMEM;
	map->num_entries = request->max_map_entries;
	for (i = 0; i < map->num_entries; i++) {
		map->mappings[i].device_id = i / nd->chip->cores;
		map->mappings[i].device_nc_idx =
			nd_chip_physical_core(nd->chip, i / nd->chip->cores, i % nd->chip->cores);
	}
	if (copy_to_user((void __user *)request->map, map, bytes))
		result = -EFAULT;
	kfree(map);
	return result;
}

static int first_process(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			 void __user *user)
{
	mutex_lock(&file->nd->processes_lock);
	*(__s32 *)argument = file->nd->processes.slot[0].pid;
	mutex_unlock(&file->nd->processes_lock);
	return 0;
}

static void describe_process(struct neuron_device *nd, u32 flags, pid_t pid,
			     struct neuron_app_info *app)
{
	u32 i;

	memset(app, 0, sizeof(*app));
	app->pid = pid;
	for (i = 0; i < nd->cores && i < APP_INFO_MAX_MODELS_PER_DEVICE; i++) {
		struct nd_core *core = &nd->core[i];

		if (!(flags & APP_INFO_PID_NC_LOCK_INFO))
			break;
		mutex_lock(&core->lock);
		if (core->lock_state.pid == pid) {
			app->nc_lock_map |= 1u << i;
			memcpy(app->uuid_data[i].value, core->lock_state.uuid,
			       sizeof(app->uuid_data[i].value));
		}
		mutex_unlock(&core->lock);
	}
	if (flags & APP_INFO_PID_MEM_USAGE) {
		u64 host = 0;
		u64 device = 0;

		nd_memory_usage(nd, pid, &host, &device);
		app->host_mem_size = host;
		app->device_mem_size = device;
	}
}

static int apps_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	struct neuron_ioctl_get_apps_info __user *out = user;
	struct neuron_ioctl_get_apps_info *info = argument;
	struct neuron_device *nd = file->nd;
	pid_t pids[ND_PROCESSES];
	u32 count = 0;
	u32 i;

	mutex_lock(&nd->processes_lock);
	for (i = 0; i < ND_PROCESSES; i++)
		if (nd->processes.slot[i].pid)
			pids[count++] = nd->processes.slot[i].pid;
	mutex_unlock(&nd->processes_lock);
	info->size = min(count, info->capacity);
	for (i = 0; i < info->size; i++) {
		struct neuron_app_info app;

		describe_process(nd, info->apps_info_flags, pids[i], &app);
		if (copy_to_user(&out->app_data[i], &app, sizeof(app)))
			return -EFAULT;
	}
	return 0;
}

/* All registers are checked before the first is touched. */
static int check_registers(struct neuron_device *nd, const u64 *address, u32 count, bool write)
{
	u32 i;

	for (i = 0; i < count; i++) {
		u64 offset = address[i] - BAR0_BASE;

		if (offset >= nd->bar0_size || offset % 4)
			return -EINVAL;
		if (write && nd_register_check_user_write(nd->chip, offset))
			return -EINVAL;
	}
	return 0;
}

static void access_registers(struct neuron_device *nd, const u64 *address, u32 *data, u32 count,
			     bool write)
{
	u32 i;

	for (i = 0; i < count; i++) {
		u64 offset = address[i] - BAR0_BASE;

		if (write) {
			nd_write(nd, offset, data[i]);
			trace_bar_write(nd->index, offset, data[i]);
		} else {
			data[i] = nd_read(nd, offset);
			trace_bar_read(nd->index, offset, data[i]);
		}
	}
}

static int bar_access(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	const struct neuron_ioctl_bar_rw *access = argument;
	bool write = call->request == NEURON_IOCTL_BAR_WRITE;
	struct neuron_device *nd = file->nd;
	size_t bytes = access->count * sizeof(u32);
	u64 *address;
	u32 *data;
	int result;

	if (access->bar || access->count > MAX_REGISTERS)
		return -EINVAL;
	if (!access->count)
		return 0;
	address = memdup_user((void __user *)access->address, access->count * sizeof(u64));
	if (IS_ERR(address))
		return PTR_ERR(address);
	data = write ? memdup_user((void __user *)access->data, bytes) : kzalloc(bytes, GFP_KERNEL);
	if (IS_ERR_OR_NULL(data)) {
		kfree(address);
		return data ? PTR_ERR(data) : -ENOMEM;
	}
	result = check_registers(nd, address, access->count, write);
	if (!result) {
		access_registers(nd, address, data, access->count, write);
		if (nd_is_lost(nd))
			result = -ENODEV;
		else if (!write && copy_to_user((void __user *)access->data, data, bytes))
			result = -EFAULT;
	}
	kfree(data);
	kfree(address);
	return result;
}

static int hw_counters(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	const struct neuron_ioctl_read_hw_counters *request = argument;
	u32 data[MAX_REGISTERS];
	u64 *address;
	int result;

	if (!request->count || request->count > MAX_REGISTERS)
		return -EINVAL;
	address = memdup_user((void __user *)request->address, request->count * sizeof(u64));
	if (IS_ERR(address))
		return PTR_ERR(address);
	result = nd_firmware_read_registers(file->nd, address, request->count, data);
	if (!result &&
	    copy_to_user((void __user *)request->data, data, request->count * sizeof(u32)))
		result = -EFAULT;
	kfree(address);
	return result;
}

static int post_metric(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	const struct neuron_ioctl_post_metric *metric = argument;
	u8 record[MAX_METRIC];
	int result;

	if (metric->data_size > MAX_METRIC)
		return -E2BIG;
	if (copy_from_user(record, (void __user *)metric->data, metric->data_size))
		return -EFAULT;
	result = nd_firmware_post_metric(file->nd, record, metric->data_size);
	trace_metrics_post(file->nd->index, metric->data_size, result);
	return result;
}

static int metrics_control(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			   void __user *user)
{
	u32 mode = ((struct neuron_ioctl_metrics_ctrl *)argument)->mode;

	if (mode <= NEURON_METRICS_MODE_PERIODIC_DISABLE)
		WRITE_ONCE(file->nd->metrics_paused, mode == NEURON_METRICS_MODE_PERIODIC_DISABLE);
	return 0;
}

static int power_profile(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			 void __user *user)
{
	const struct neuron_ioctl_power_profile *request = argument;
	struct neuron_device *nd = file->nd;
	__le32 profile = cpu_to_le32(request->profile & 0xFF);

	if (request->sz != sizeof(*request))
		return -ENXIO;
	if (request->ctrl)
		return -ND_ENOTSUPP;
	/* Chips and models without power management take any profile and do nothing. */
	if (!nd->chip->has_power_profiles || nd->is_qemu || nd->is_emulator)
		return 0;
	return nd_firmware_command(nd, COMMAND_POWER_PROFILE, &profile, sizeof(profile), NULL, 0);
}

/* Anybody may open a device for such lines: a flood is cut off. */
static DEFINE_RATELIMIT_STATE(line_rate, 5 * HZ, 500);

static int print_line(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	const struct neuron_ioctl_printk *request = argument;
	char *line;
	u32 i;

	if (!request->size || request->size > MAX_LINE)
		return -EFAULT;
	line = memdup_user((void __user *)request->buffer, request->size);
	if (IS_ERR(line))
		return PTR_ERR(line);
	if (line[request->size - 1]) {
		kfree(line);
		return -EBADMSG;
	}
	for (i = 0; line[i]; i++)
		if (!isprint(line[i]) && line[i] != '\t')
			line[i] = line[i] == '\n' ? ' ' : '?';
	if (__ratelimit(&line_rate))
		dev_info(file->nd->dev, "neuron%u pid %d: %s\n", file->nd->index, nd_current_pid(),
			 line);
	kfree(line);
	return 0;
}

static int resource_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			 void __user *user)
{
	struct neuron_ioctl_resource_mmap_info *info = argument;
	u64 offset, size;
	int result = nd_mapping_resource(file->nd, info->block, info->block_id, info->resource,
					 &offset, &size);

	if (result)
		return result;
	info->offset = offset;
	info->size = size;
	return 0;
}

/* This driver elects no UltraServer: each host is on its own. */
static int pod_info(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		    void __user *user)
{
	struct neuron_ioctl_pod_info *info = argument;

	if (info->sz != sizeof(*info))
		return -EINVAL;
	info->pod_type = NEURON_POD_TYPE_NONE;
	info->pod_sz = 0;
	memset(info->pod_id, 0, sizeof(info->pod_id));
	return 0;
}

static int pod_status(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	struct neuron_ioctl_pod_status *status = argument;

	if (status->sz != call->argument_size)
		return -EINVAL;
	status->state = NEURON_POD_E_STATE_SINGLE_NODE;
	status->pod_type = NEURON_POD_TYPE_NONE;
	status->pod_sz = 0;
	status->node_id = -1;
	memset(status->pod_id, 0, sizeof(status->pod_id));
	if (call->request == NEURON_IOCTL_POD_STATUS_V2) {
		struct neuron_ioctl_pod_status_v2 *second = argument;

		second->mode = NEURON_ULTRASERVER_MODE_UNSET;
		second->modes_supported = 1u << NEURON_ULTRASERVER_MODE_X1;
	}
	return 0;
}

static int pod_control(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		       void __user *user)
{
	struct neuron_ioctl_pod_ctrl *control = argument;

	if (control->sz != call->argument_size)
		return -EINVAL;
	control->state = NEURON_POD_E_STATE_SINGLE_NODE;
	return 0;
}

const struct nd_handler nd_device_handlers[] = {
	{ NEURON_IOCTL_DEVICE_INIT, ND_OUT_NONE, nothing },
	{ NEURON_IOCTL_DEVICE_RELEASE, ND_OUT_NONE, nothing },
	{ NEURON_IOCTL_DEVICE_INFO, ND_OUT_SUCCESS, device_info },
	{ NEURON_IOCTL_DEVICE_APP_PID, ND_OUT_SUCCESS, first_process },
	{ NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO, ND_OUT_SUCCESS, apps_info },
	{ NEURON_IOCTL_BAR_READ, ND_OUT_NONE, bar_access },
	{ NEURON_IOCTL_BAR_WRITE, ND_OUT_NONE, bar_access },
	{ NEURON_IOCTL_POST_METRIC, ND_OUT_NONE, post_metric },
	{ NEURON_IOCTL_COMPATIBLE_VERSION, ND_OUT_SUCCESS, compatible_version },
	{ NEURON_IOCTL_DEVICE_BASIC_INFO, ND_OUT_SUCCESS, basic_info },
	{ NEURON_IOCTL_DEVICE_BDF, ND_OUT_SUCCESS, device_bdf },
	{ NEURON_IOCTL_DEVICE_BDF_EXT, ND_OUT_SUCCESS, device_bdf_ext },
	{ NEURON_IOCTL_DRIVER_INFO_GET, ND_OUT_SUCCESS, driver_info },
	{ NEURON_IOCTL_DRIVER_INFO_SET, ND_OUT_NONE, driver_info_set },
	{ NEURON_IOCTL_PRINTK, ND_OUT_NONE, print_line },
	{ NEURON_IOCTL_HOST_DEVICE_ID, ND_OUT_SUCCESS, host_device_id },
	{ NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP, ND_OUT_SUCCESS, routing_ids },
	{ NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, ND_OUT_NONE, core_map },
	{ NEURON_IOCTL_READ_HW_COUNTERS, ND_OUT_NONE, hw_counters },
	{ NEURON_IOCTL_RESOURCE_MMAP_INFO, ND_OUT_SUCCESS, resource_info },
	{ NEURON_IOCTL_METRICS_CTRL, ND_OUT_NONE, metrics_control },
	{ NEURON_IOCTL_POWER_PROFILE, ND_OUT_NONE, power_profile },
	{ NEURON_IOCTL_POD_INFO, ND_OUT_SUCCESS, pod_info },
	{ NEURON_IOCTL_POD_STATUS, ND_OUT_SUCCESS, pod_status },
	{ NEURON_IOCTL_POD_STATUS_V2, ND_OUT_SUCCESS, pod_status },
	{ NEURON_IOCTL_POD_CTRL, ND_OUT_SUCCESS, pod_control },
	{ NEURON_IOCTL_POD_CTRL_V2, ND_OUT_SUCCESS, pod_control },
	{ 0, ND_OUT_NONE, NULL },
};
