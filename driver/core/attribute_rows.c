/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/attribute_rows.h"

#include "hw/address_map.h"
#include "uapi/neuron_counters.h"
#include "uapi/neuron_shared.h"

#define ROW(name, counter) {name, counter},

const struct nd_attribute_row nd_result_rows[ND_RESULT_ROWS] = {NEURON_OUTCOME_COUNTERS(ROW)
								    NEURON_CAUSE_COUNTERS(ROW)};

const struct nd_attribute_row nd_other_rows[ND_OTHER_ROWS] = {
    {"model_load_count", NDS_NC_COUNTER_MODEL_LOAD_COUNT},
    {"inference_count", NDS_NC_COUNTER_INFERENCE_COUNT},
    {"flop_count", NDS_NC_COUNTER_MAC_COUNT},
    {"nc_time_in_use", NDS_NC_COUNTER_TIME_IN_USE},
};

const struct nd_attribute_row nd_host_memory_rows[ND_HOST_MEMORY_ROWS] = {
    {"dma_buffers", NEURON_MEMALLOC_TYPE_CODE_HOST},
    {"tensors", NEURON_MEMALLOC_TYPE_TENSORS_HOST},
    {"constants", NEURON_MEMALLOC_TYPE_CONSTANTS_HOST},
    {"application_memory", NEURON_MEMALLOC_TYPE_MISC_HOST},
    {"driver_memory", NEURON_MEMALLOC_TYPE_NCDEV_HOST},
    {"notifications", NEURON_MEMALLOC_TYPE_NOTIFICATION_HOST},
    {"dma_rings", NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST},
    {"uncategorized", NEURON_MEMALLOC_TYPE_UNKNOWN_HOST},
};

/* The contiguous scratchpad has no folder of its own: it is shown with the shared scratchpad. */
const struct nd_attribute_row nd_device_memory_rows[ND_DEVICE_MEMORY_ROWS] = {
    {"model_code", NEURON_MEMALLOC_TYPE_CODE_DEVICE},
    {"tensors", NEURON_MEMALLOC_TYPE_TENSORS_DEVICE},
    {"constants", NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE},
    {"model_shared_scratchpad", NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE},
    {"runtime_memory", NEURON_MEMALLOC_TYPE_MISC_DEVICE},
    {"driver_memory", NEURON_MEMALLOC_TYPE_NCDEV_DEVICE},
    {"collectives", NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE},
    {"nonshared_scratchpad", NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE},
    {"notifications", NEURON_MEMALLOC_TYPE_NOTIFICATION_DEVICE},
    {"dma_rings", NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE},
    {"uncategorized", NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE},
};

static const struct nd_identity inf1 = {"NDv1", "Inf1", "Inferentia"};
static const struct nd_identity trn1 = {"NDv2", "Trn1", "Trainium1"};
static const struct nd_identity inf2 = {"NDv3", "Inf2", "Inferentia2"};
static const struct nd_identity trn2 = {"NDv3", "Trn2", "Trainium2"};
static const struct nd_identity trn3 = {"NDv4", "Trn3", "Trainium3"};

const struct nd_identity *nd_identity_of(uint16_t pci_device)
{
	if (pci_device >= NEURON_PCI_DEVICE_INF1 && pci_device <= NEURON_PCI_DEVICE_INF1_LAST)
		return &inf1;
	switch (pci_device) {
	case NEURON_PCI_DEVICE_TRN1:
		return &trn1;
	case NEURON_PCI_DEVICE_INF2:
		return &inf2;
	case NEURON_PCI_DEVICE_TRN2:
		return &trn2;
	default:
		return &trn3;
	}
}
