/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the driver has to know of a chip generation: counts, sizes, and where its blocks lie in BAR0
 * and in the device's address space. One table per generation, so that all other code is written
 * once.
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

struct nd_chip {
	uint32_t generation; /* 2 or 3, as DEVICE_BASIC_INFO reports it */
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
};

extern const struct nd_chip nd_chip_v2;
extern const struct nd_chip nd_chip_v3;

/* The table for a PCI device id, NULL for a chip that is not known. */
const struct nd_chip *nd_chip_for_device(uint16_t pci_device);

/* BAR0 offsets. */
uint64_t nd_chip_core_window(const struct nd_chip *chip, uint32_t core);
uint64_t nd_chip_topsp_window(const struct nd_chip *chip, uint32_t topsp);
uint64_t nd_chip_udma(const struct nd_chip *chip, uint32_t engine);
uint64_t nd_chip_sdma(const struct nd_chip *chip, uint32_t engine);
uint64_t nd_chip_core_notification(const struct nd_chip *chip, uint32_t core);
uint64_t nd_chip_topsp_notification(const struct nd_chip *chip, uint32_t topsp);

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

/* Physical core behind a logical one of a device; the same core before generation 3. */
uint32_t nd_chip_physical_core(const struct nd_chip *chip, uint32_t device, uint32_t core);

/* Reset map of the firmware: a core with its CC cores and, on generation 3, its DMA engines. */
uint32_t nd_chip_reset_map(const struct nd_chip *chip, uint32_t core_map);

ND_END

#endif
