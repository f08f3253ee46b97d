/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Arguments of the device calls of /dev/neuronN: identity, versions, register access, processes,
 * UltraServer, metrics (numbers and rules: neuron_ioctl.h).
 */
#ifndef NEURON_UAPI_IOCTL_DEVICE_H
#define NEURON_UAPI_IOCTL_DEVICE_H

#include "uapi/neuron_abi.h"
#include "uapi/neuron_shared.h"

/* The opened device. bar_address are opaque bases: a register is addressed by base + offset. */
struct neuron_ioctl_device_info {
  __u32 architecture;
  __u32 revision;
  __u32 connected_device_count;
  __u32 connected_devices[8]; /* device indexes of the neighbours */
  __u64 bar_address[2];       /* BAR 0 and BAR 2 */
  __u64 bar_size[2];          /* bytes */
};

/* Chip generation and PCI revision, without taking part in the device. */
struct neuron_ioctl_device_basic_info {
  __u32 architecture;
  __u32 revision;
};

/* What driver this is. size: at least sizeof this struct on entry, set by the driver. */
struct neuron_ioctl_device_driver_info {
  __u32 architecture;
  __u32 revision;
  __u32 version; /* layout version, 0 */
  __u32 size;
  __u64 feature_flags1; /* enum neuron_driver_feature_flag */
};

/* Runtime interface numbers that the driver accepts for this chip. */
struct neuron_ioctl_compatible_version {
  __u32 max;
  __u32 min;
};

/* Deprecated: PCI place without the domain. */
struct neuron_ioctl_device_bdf {
  __u32 bus_number;
  __u8 slot;
  __u8 func;
};

/* PCI place of device nd_index, counted from the opened one. */
struct neuron_ioctl_device_bdf_ext {
  __u32 nd_index;
  __u32 domain;
  __u32 bus_number;
  __u8 slot;
  __u8 func;
};

/* Index of the opened device on the host, whatever a container calls it. */
struct neuron_ioctl_host_device_id {
  __u32 host_device_id;
};

/* Routing id of every device of the host. */
struct neuron_ioctl_host_device_id_to_rid_map {
  __u32 count; /* out */
  __u32 host_did_to_rid_map[64];
};

/* Table of logical cores (Trn2 and later). */
struct neuron_ioctl_get_logical_to_physical_nc_map {
  struct neuron_ioctl_nc_map *map; /* out */
  __u32 max_map_entries;
  __u32 mapping_version; /* enum neuron_ioctl_nc_mapping_type */
};

/* Reads or writes up to 100 registers at absolute addresses. */
struct neuron_ioctl_bar_rw {
  __u32 bar;      /* 0 */
  __u64 *address; /* count of them */
  __u32 *data;    /* count of them */
  __u32 count;
};

/* Reads registers by device address through the firmware. */
struct neuron_ioctl_read_hw_counters {
  __u64 *address; /* count of them */
  __u32 *data;    /* out */
  __u32 count;
};

/* Publishes one metric record of at most 128 bytes. */
struct neuron_ioctl_post_metric {
  __u32 *data;
  __u32 data_size; /* bytes */
};

/* Processes attached to the device. */
struct neuron_ioctl_get_apps_info {
  __u16 apps_info_flags; /* APP_INFO_* */
  __u32 capacity;        /* room in app_data */
  __u32 size;            /* out: entries */
  NEURON_EXTENSION_BEGIN
  struct neuron_app_info app_data[];
  NEURON_EXTENSION_END
};

/* One line, NUL-terminated and at most 512 bytes, for the kernel log. */
struct neuron_ioctl_printk {
  void *buffer;
  __u32 size;
  __u32 action; /* ignored */
};

/* UltraServer membership. */
struct neuron_ioctl_pod_info {
  __u16 sz; /* sizeof this struct */
  __u8 pod_type;
  __u8 pod_id[256];
  __u8 pod_sz;
};

/* UltraServer election. */
struct neuron_ioctl_pod_status {
  __u16 sz; /* sizeof the struct passed */
  __u8 pod_id[256];
  __u32 state; /* NEURON_POD_E_STATE_* */
  __u8 pod_type;
  __u8 pod_sz;
  __s8 node_id; /* -1 before an election */
};

/* With the mode. */
struct neuron_ioctl_pod_status_v2 {
  struct neuron_ioctl_pod_status v1;
  __u32 mode;
  __u32 modes_supported; /* bit per enum neuron_ultraserver_mode */
};

/* Steers the election. */
struct neuron_ioctl_pod_ctrl {
  __u16 sz;      /* sizeof the struct passed */
  __u32 ctrl;    /* enum neuron_pod_ctrl_req */
  __u32 timeout; /* seconds */
  __u32 state;   /* out */
};

/* With the mode. */
struct neuron_ioctl_pod_ctrl_v2 {
  struct neuron_ioctl_pod_ctrl v1;
  __u32 mode; /* enum neuron_ultraserver_mode */
};

/* Asks the firmware for a performance profile (Trn2 and later). */
struct neuron_ioctl_power_profile {
  __u16 sz;   /* sizeof this struct */
  __u16 ctrl; /* 0 */
  __u32 profile;
};

/* Pauses or resumes periodic metrics for the device. */
struct neuron_ioctl_metrics_ctrl {
  __u32 mode; /* enum neuron_metrics_mode */
};

#endif /* NEURON_UAPI_IOCTL_DEVICE_H */
