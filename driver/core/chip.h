/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the driver has to know of a chip generation: counts, sizes, where its blocks lie in BAR0 and
 * in the device's address space, what it can do. One table row per generation, so that all other
 * code is written once: a new generation is a row and the functions of its map.
 *
 * Callers: everything that programs a device, from any thread: the tables are constant. Indexes are
 * checked by the caller against the counts. Source of the numbers: hw/address_map.h.
 */
#ifndef DRIVER_CORE_CHIP_H
#define DRIVER_CORE_CHIP_H

#include "driver/core/os.h"

ND_BEGIN

#define ND_MAX_CORES 8u
#define ND_MAX_TOPSPS 16u
#define ND_MAX_DMA_ENGINES 132u
#define ND_MAX_HBMS 4u
#define ND_DMA_ENGINES_PER_CORE 16u /* in every generation so far */
#define ND_CORE_MAP_ENTRIES 128u

struct nd_chip;

/* Where the blocks of a generation lie. The functions below say what each address is. */
struct nd_chip_map {
	uint64_t (*core_window)(uint32_t core);
	uint64_t (*topsp_window)(uint32_t topsp);
	uint64_t (*udma)(uint32_t engine);
	uint64_t (*sdma)(uint32_t engine);
	uint64_t (*core_notification)(uint32_t core);
	uint64_t (*topsp_notification)(uint32_t topsp);
	uint64_t (*pe_counters)(uint32_t core);
	uint64_t (*hbm_base)(uint32_t hbm);
	uint64_t (*core_address)(uint32_t core);
	uint64_t (*topsp_address)(uint32_t topsp);
	uint64_t (*core_cookie)(uint32_t core);
	bool (*is_programmable)(const struct nd_chip *chip, uint64_t address, uint64_t size);
};

/* Bits of the firmware's reset map that belong to each core. */
struct nd_reset_field {
	uint8_t first;	  /* bit of core 0 */
	uint8_t per_core; /* bits of each core */
};

/* One generation: all that differs between them. */
struct nd_chip {
	uint32_t generation; /* as DEVICE_BASIC_INFO reports it */
	const struct nd_chip_map *map;
	uint32_t cores;
	uint32_t topsps;
	uint32_t topsps_per_core;
	uint32_t dma_engines;
	uint32_t hbms;
	uint64_t hbm_bytes;  /* populated, of each */
	uint64_t hbm_window; /* distance of two stacks in BAR4 */
	uint64_t carve_out;  /* firmware's, at the start of each */
	uint64_t bar0_bytes;
	uint64_t bar4_bytes;
	uint64_t host_base;  /* device address of host address 0 */
	uint64_t route_mask; /* address bits that say where a transfer goes */
	uint64_t misc_ram;   /* BAR0 offsets */
	uint64_t sim_reset;
	uint32_t min_interface; /* runtime interface numbers that the driver accepts */
	uint32_t max_interface;

	uint64_t bar0_device_base; /* device address of BAR0, by which it is mapped; 0: by parts */
	uint32_t pe_stride;	   /* distance of two row groups of pe_counters */
	uint32_t copy_cores;	   /* cores whose host copies share a DMA engine */
	uint32_t fetch_engines;	   /* bit n: engine n of a core feeds instructions by queue 14 */
	uint32_t engine_defaults;  /* column of the registers that set an engine up (queue.c) */
	uint32_t back_pressure;	   /* of the SDMA wrapper; 0: it has no such register */
	struct nd_reset_field reset[2];
	const uint8_t (*core_pairs)[4]; /* order of core pairs by place; NULL: as numbered */
	uint32_t copy_ms;		/* deadline of a descriptor of the driver's own copies */
	uint32_t reset_seconds;		/* deadline of a reset by the firmware */
	uint32_t power_dies;		/* dies whose power the firmware tells */
	bool maps_hbm;			/* RESOURCE_MMAP_INFO names whole stacks */
	bool has_power_profiles;
	bool tells_repair;	    /* the firmware tells whether a stack can be repaired */
	bool copies_without_buffer; /* the public driver offers zero-copy */
	bool is_switched;	    /* a switch joins the chips, which have no neighbours */
	/* Models of the chip in QEMU: */
	bool model_resets_at_once; /* by a write to sim_reset, without the firmware */
	bool model_shows_hbm;	   /* BAR4 is as large as the memory */
};

extern const struct nd_chip nd_chip_v1;
extern const struct nd_chip nd_chip_v2;
extern const struct nd_chip nd_chip_v3;
extern const struct nd_chip nd_chip_v4;

/* The table for a PCI device id, NULL for a chip that is not known. */
const struct nd_chip *nd_chip_for_device(uint16_t pci_device);

/* BAR0 offsets. */
uint64_t nd_chip_core_window(const struct nd_chip *chip, uint32_t core);
uint64_t nd_chip_topsp_window(const struct nd_chip *chip, uint32_t topsp);
uint64_t nd_chip_udma(const struct nd_chip *chip, uint32_t engine);
uint64_t nd_chip_sdma(const struct nd_chip *chip, uint32_t engine);
uint64_t nd_chip_core_notification(const struct nd_chip *chip, uint32_t core);
uint64_t nd_chip_topsp_notification(const struct nd_chip *chip, uint32_t topsp);
/* Cycles of a row group of the Tensor engine: 64-bit words of matmul, weight load and idle. */
uint64_t nd_chip_pe_counters(const struct nd_chip *chip, uint32_t core, uint32_t group);

/* Device addresses, as descriptors hold them. */
uint64_t nd_chip_hbm_base(const struct nd_chip *chip, uint32_t hbm);
uint64_t nd_chip_core_address(const struct nd_chip *chip, uint32_t core);
uint64_t nd_chip_topsp_address(const struct nd_chip *chip, uint32_t topsp);

/* Offsets by which user space maps the blocks (RESOURCE_MMAP_INFO). */
uint64_t nd_chip_core_cookie(const struct nd_chip *chip, uint32_t core);
uint64_t nd_chip_topsp_cookie(const struct nd_chip *chip, uint32_t topsp);

/* HBM that a device address lies in, or the number of HBMs. */
uint32_t nd_chip_hbm_of(const struct nd_chip *chip, uint64_t address);
/* Offset in BAR4 of an address that lies in an HBM. `hbm_window` is the caller's where a chip model
 * has a smaller BAR4 than silicon. */
uint64_t nd_chip_bar4_offset(const struct nd_chip *chip, uint64_t address, uint64_t hbm_window);

/* True if the address lies behind the host bit. */
bool nd_chip_is_host(const struct nd_chip *chip, uint64_t address);
/* True if [address, address + size) lies in the windows that PROGRAM_ENGINE may write. */
bool nd_chip_is_programmable(const struct nd_chip *chip, uint64_t address, uint64_t size);

/* True if logical cores of a device may be other physical ones. */
bool nd_chip_maps_cores(const struct nd_chip *chip);
/* Physical core behind a logical one of a device. */
uint32_t nd_chip_physical_core(const struct nd_chip *chip, uint32_t device, uint32_t core);
/* The same where the dies are turned round: on nodes 1 and 3 of an UltraServer that has elected. */
uint32_t nd_chip_turned_core(const struct nd_chip *chip, uint32_t device, uint32_t core);

/* Reset map of the firmware: cores with what belongs to them (nd_chip.reset). */
uint32_t nd_chip_reset_map(const struct nd_chip *chip, uint32_t core_map);

ND_END

#endif
