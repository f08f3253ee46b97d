/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which counters a device shows in its tree of attributes, and under which names. Tools look for
 * these below /sys/class/neuron_device/neuron<N>/ of the module and of an emulated device.
 *
 * Callers: the module's sysfs, the service of emulated devices. Constants. A counter is a folder of
 * files: `total`, `present` and, for memory, `peak`. The id says what is counted: a counter of the
 * datastore (uapi/neuron_datastore.h) or a category of memory (uapi/neuron_shared.h).
 */
#ifndef DRIVER_CORE_ATTRIBUTE_ROWS_H
#define DRIVER_CORE_ATTRIBUTE_ROWS_H

#include "driver/core/os.h"

ND_BEGIN

struct nd_attribute_row {
	const char *name;
	uint32_t id;
};

#define ND_RESULT_ROWS 24u
#define ND_OTHER_ROWS 4u
#define ND_HOST_MEMORY_ROWS 8u
#define ND_DEVICE_MEMORY_ROWS 11u

/* neuron_core<i>/stats/status/ and .../other_info/, which also has the two counters of resets */
extern const struct nd_attribute_row nd_result_rows[ND_RESULT_ROWS];
extern const struct nd_attribute_row nd_other_rows[ND_OTHER_ROWS];
/* stats/memory_usage/host_mem/ of the device, .../device_mem/ of a core */
extern const struct nd_attribute_row nd_host_memory_rows[ND_HOST_MEMORY_ROWS];
extern const struct nd_attribute_row nd_device_memory_rows[ND_DEVICE_MEMORY_ROWS];

/* Names of a chip: "NDv2", "Trn1", "Trainium1". inf2 has the chip generation of trn1, but
 * bears the names of the next one here. */
struct nd_identity {
	const char *arch_type;
	const char *instance_type;
	const char *device_name;
};
const struct nd_identity *nd_identity_of(uint16_t pci_device);

ND_END

#endif
