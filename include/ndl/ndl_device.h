// SPDX-License-Identifier: Apache-2.0
// Devices: finding, opening, identity, versions, registers, processes, UltraServer.
// Rules for all functions: ndl.h.
#ifndef NDL_DEVICE_H
#define NDL_DEVICE_H

#include "ndl/ndl_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Version of the driver (from the kernel module, or of the emulated device) and of this library.
int ndl_get_version(ndl_version_info_t *version);

// Range of runtime interface numbers that the driver accepts for this chip: a runtime with number R
// works if min <= R <= max. Asks the first device; needs none to be open. -ENODEV without a device.
int ndl_get_compatible_version(uint32_t *min_compatible_version, uint32_t *max_compatible_version);

// Whether a feature bit (enum neuron_driver_feature_flag) is present. nd_fd: the descriptor in the
// device's context. False also when the driver cannot tell.
bool ndl_feature_supported(int nd_fd, uint64_t feature);

// `callback` is called with a sentence when driver and library are of different age and something
// optional is missing. NULL removes it. One per process; called in the thread that opens a device.
int ndl_register_soft_incompat_callback(void (*callback)(const char *));

// Numbers of the devices present, ascending; at most device_indexes_size of them are written.
// Returns how many there are, or a negative errno value.
int ndl_available_devices(int *device_indexes, int device_indexes_size);

// Opens a device, or takes another reference if this process has it open; map_hbm then takes effect
// for all references. params may be NULL.
// May wait for a reset that is under way. -ENODEV no such device, -EBUSY 16 processes already use
// it, -ENOMEM.
int ndl_open_device(int device_index, ndl_device_init_param_t *params, ndl_device_t **device);

// Drops a reference. The last one frees everything obtained through the device, and `device`.
int ndl_close_device(ndl_device_t *device);

// For the child after fork(): forgets all devices of the parent, without effect on the parent.
void ndl_device_cached_fd_close_all(void);

// Reads or writes `count` (1 to 100) 32-bit registers. addresses[i] is csr_base[bar] + offset.
// -EINVAL: BAR other than 0, outside the BAR, or a register the driver protects.
int ndl_bar_read(ndl_device_t *device, uint8_t bar, uint64_t *addresses, uint32_t count,
                 uint32_t *buffer);
int ndl_bar_write(ndl_device_t *device, uint8_t bar, uint64_t *addresses, uint32_t count,
                  uint32_t *data);

// Reads counters by device address, through the firmware.
int ndl_read_hw_counters(ndl_device_t *device, uint64_t *addresses, uint32_t count, uint32_t *data);

// Maps part of the register space: `resource` of block number `block_id`. The mapping stays until
// the device is closed. -EINVAL: no such part; -ENOTSUP: an emulated device, whose registers have
// side effects that a store to memory cannot have.
int ndl_mmap_bar_region(ndl_device_t *device, enum neuron_dm_block_type block, uint32_t block_id,
                        enum neuron_dm_resource_type resource, void **va, uint64_t *size);

// Architecture number and PCI revision of the host's devices; needs none to be open.
int ndl_get_board_info(uint32_t *architecture, uint32_t *revision);

// PCI place of a device. The first form has no domain and is kept for old callers.
int ndl_get_device_bdf(int device_index, uint32_t *bus_num, uint8_t *pci_slot, uint8_t *dev_func);
int ndl_get_device_bdf_ext(int device_index, uint32_t *domain, uint32_t *bus_num, uint8_t *pci_slot,
                           uint8_t *dev_func);

// Number of the device on the host, which a container may call by another number.
int ndl_get_host_device_id(ndl_device_t *device, uint32_t *host_device_id);

// Routing id of each device of the host. The array has room for MAX_NEURON_DEVICE_COUNT entries;
// count is set to the number of devices.
int ndl_get_host_device_id_to_rid_map(uint32_t *count, uint32_t *host_did_to_rid_map);

// Physical place of each logical core; `map` has room for max_num_entries (at most 128) entries.
// -ENOTSUP before Trn2, where the two are the same.
int ndl_get_logical_to_physical_nc_map(struct neuron_ioctl_nc_map *map, uint32_t max_num_entries,
                                       enum neuron_ioctl_nc_mapping_type mapping_version);

// Processes attached to the device. *info is one malloc() block of *count entries that the caller
// frees; apps_info_flags: APP_INFO_*.
int ndl_get_all_apps_info(ndl_device_t *device, struct neuron_app_info **info, size_t *count,
                          uint16_t apps_info_flags);

// One line for the kernel log (or the emulated device's log): size counts the NUL, at most 512.
int ndl_printk(char *str, uint32_t size, uint32_t action);

// Prints the owner of core nc_id of the host and recent driver calls to the kernel log. A limit of
// 0 means 128 entries.
int ndl_dump_nc_pid_info(uint32_t nc_id, bool filter_log_owner, uint32_t log_dump_limit);

// UltraServer: kind and number of nodes; election state (NEURON_POD_E_STATE_*); id of this node (-1
// before an election); all of that at once. pod_id: 256 bytes. -EBUSY while an election runs, with
// the outputs filled in.
int ndl_pod_info(uint32_t *pod_type, uint32_t *pod_sz);
int ndl_pod_election_state(uint32_t *state);
int ndl_pod_mapping_info(int *node_id);
int ndl_pod_status(uint8_t *pod_id, uint32_t *state, uint32_t *pod_type, uint32_t *pod_sz,
                   int *node_id, enum neuron_ultraserver_mode *mode, uint32_t *modes_supported);

// Steers the election: ctrl is an enum neuron_pod_ctrl_req, timeout in seconds.
int ndl_pod_ctrl(uint32_t ctrl, enum neuron_ultraserver_mode mode, uint32_t timeout,
                 uint32_t *state);

// Asks the firmware for a performance profile (Trn2 and later; accepted and ignored before).
int ndl_set_performance_profile(ndl_device_t *device, uint32_t profile);

// Throttling notifications; -ENOTSUP where the driver's interface has no call for it.
int ndl_enable_throttling_notifications(ndl_device_t *device, bool enable);

// Pauses or resumes periodic metrics of the device, for all processes.
int ndl_metrics_ctrl(ndl_device_t *device, enum neuron_metrics_mode mode);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NDL_DEVICE_H
