/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/chip.h"

#include "hw/address_map.h"

#define GIB (1ull << 30)

const struct nd_chip nd_chip_v2 = {
    .generation = 2,
    .cores = NEURON_V2_CORES,
    .topsps = NEURON_V2_TOPSPS,
    .topsps_per_core = 3,
    .dma_engines = NEURON_V2_DMA_ENGINES,
    .hbms = NEURON_V2_HBM_COUNT,
    .hbm_bytes = NEURON_V2_HBM_SIZE,
    .hbm_window = NEURON_V2_HBM_SIZE,
    .carve_out = NEURON_V2_HBM_CARVE_OUT,
    .bar0_bytes = NEURON_V2_BAR0_SIZE,
    .bar4_bytes = 32 * GIB,
    .host_base = NEURON_V2_HOST_BASE,
    .route_mask = NEURON_V2_ROUTE_MASK,
    .misc_ram = NEURON_V2_MISC_RAM,
    .sim_reset = NEURON_V2_SIM_RESET,
    .min_interface = 5,
    .max_interface = 7,
};

const struct nd_chip nd_chip_v3 = {
    .generation = 3,
    .cores = NEURON_V3_CORES,
    .topsps = NEURON_V3_TOPSPS,
    .topsps_per_core = NEURON_V3_TOPSPS_PER_CORE,
    .dma_engines = NEURON_V3_DMA_ENGINES,
    .hbms = NEURON_V3_HBM_COUNT,
    .hbm_bytes = NEURON_V3_HBM_SIZE,
    .hbm_window = NEURON_V3_HBM_WINDOW,
    .carve_out = NEURON_V3_HBM_CARVE_OUT,
    .bar0_bytes = NEURON_V3_BAR0_SIZE,
    .bar4_bytes = 256 * GIB,
    .host_base = NEURON_V3_HOST_BASE,
    .route_mask = ~(NEURON_V3_HOST_BASE - 1),
    .misc_ram = NEURON_V3_MISC_RAM,
    .sim_reset = NEURON_V3_SIM_RESET,
    .min_interface = 10,
    .max_interface = 11,
};

const struct nd_chip *nd_chip_for_device(uint16_t pci_device)
{
	switch (pci_device) {
	case NEURON_PCI_DEVICE_TRN1:
	case NEURON_PCI_DEVICE_INF2:
		return &nd_chip_v2;
	case NEURON_PCI_DEVICE_TRN2:
		return &nd_chip_v3;
	default:
		return NULL;
	}
}

static bool is_v3(const struct nd_chip *chip)
{
	return chip->generation >= 3;
}

uint64_t nd_chip_core_window(const struct nd_chip *chip, uint32_t core)
{
	return is_v3(chip) ? NEURON_V3_CORE_WINDOW(core) : NEURON_V2_CORE_WINDOW(core);
}

uint64_t nd_chip_topsp_window(const struct nd_chip *chip, uint32_t topsp)
{
	return is_v3(chip) ? NEURON_V3_TOPSP_WINDOW(topsp) : NEURON_V2_TOPSP_WINDOW(topsp);
}

uint64_t nd_chip_udma(const struct nd_chip *chip, uint32_t engine)
{
	return is_v3(chip) ? NEURON_V3_UDMA(engine) : NEURON_V2_UDMA(engine);
}

uint64_t nd_chip_sdma(const struct nd_chip *chip, uint32_t engine)
{
	return is_v3(chip) ? NEURON_V3_SDMA(engine) : NEURON_V2_SDMA(engine);
}

uint64_t nd_chip_core_notification(const struct nd_chip *chip, uint32_t core)
{
	return is_v3(chip) ? NEURON_V3_CORE_NOTIFICATION(core) : NEURON_V2_CORE_NOTIFICATION(core);
}

uint64_t nd_chip_topsp_notification(const struct nd_chip *chip, uint32_t topsp)
{
	return is_v3(chip) ? NEURON_V3_TOPSP_NOTIFICATION(topsp)
			   : NEURON_V2_TOPSP_NOTIFICATION(topsp);
}

uint64_t nd_chip_hbm_base(const struct nd_chip *chip, uint32_t hbm)
{
	return is_v3(chip) ? NEURON_V3_HBM_BASE((uint64_t)hbm)
			   : (uint64_t)hbm * NEURON_V2_HBM_STRIDE;
}

uint64_t nd_chip_core_address(const struct nd_chip *chip, uint32_t core)
{
	return is_v3(chip) ? NEURON_V3_CORE_DEVICE((uint64_t)core)
			   : NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(core);
}

uint64_t nd_chip_topsp_address(const struct nd_chip *chip, uint32_t topsp)
{
	return is_v3(chip) ? NEURON_V3_TOPSP_DEVICE((uint64_t)topsp)
			   : NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_TOPSP_WINDOW(topsp);
}

uint64_t nd_chip_core_cookie(const struct nd_chip *chip, uint32_t core)
{
	return is_v3(chip) ? NEURON_V3_CORE_COOKIE(core) : nd_chip_core_address(chip, core);
}

uint64_t nd_chip_topsp_cookie(const struct nd_chip *chip, uint32_t topsp)
{
	return nd_chip_topsp_address(chip, topsp);
}

uint32_t nd_chip_hbm_of(const struct nd_chip *chip, uint64_t address)
{
	uint32_t hbm;

	for (hbm = 0; hbm < chip->hbms; hbm++) {
		uint64_t base = nd_chip_hbm_base(chip, hbm);

		if (address >= base && address - base < chip->hbm_bytes)
			break;
	}
	return hbm;
}

uint64_t nd_chip_bar4_offset(const struct nd_chip *chip, uint64_t address, uint64_t hbm_window)
{
	uint32_t hbm = nd_chip_hbm_of(chip, address);

	return hbm * hbm_window + (address - nd_chip_hbm_base(chip, hbm));
}

bool nd_chip_is_host(const struct nd_chip *chip, uint64_t address)
{
	return (address & chip->route_mask) == chip->host_base;
}

static bool inside(uint64_t address, uint64_t size, uint64_t base, uint64_t length)
{
	return address >= base && size <= length && address - base <= length - size;
}

/* Sizes of the generation 3 windows beside the cores: pre-processing units and core regions. */
#define V3_CORE_REGION 0x804000000ull
#define V3_PREPROCESSOR 0x34C0000ull
#define V3_PREPROCESSOR_BASE(seng)                                                                 \
	(0x1200000000ull + ((seng)&1) * 0x4000000000ull + ((seng) >> 1) * NEURON_V3_DIE_BIT)

bool nd_chip_is_programmable(const struct nd_chip *chip, uint64_t address, uint64_t size)
{
	uint64_t core_bytes = is_v3(chip) ? V3_CORE_REGION : NEURON_V2_CORE_WINDOW_SIZE;
	uint32_t i;

	/* The windows of generation 2 are adjacent, and a range may cross from one to the next. */
	if (!is_v3(chip))
		return inside(address, size, nd_chip_core_address(chip, 0),
			      chip->cores * core_bytes) ||
		       inside(address, size, nd_chip_topsp_address(chip, 0),
			      chip->topsps * NEURON_V2_TOPSP_WINDOW_SIZE);
	for (i = 0; i < chip->cores; i++)
		if (inside(address, size, nd_chip_core_address(chip, i), core_bytes))
			return true;
	for (i = 0; i < chip->topsps; i++)
		if (inside(address, size, nd_chip_topsp_address(chip, i),
			   NEURON_V2_TOPSP_WINDOW_SIZE))
			return true;
	for (i = 0; i < chip->hbms; i++)
		if (inside(address, size, nd_chip_hbm_base(chip, i), chip->hbm_bytes) ||
		    inside(address, size, V3_PREPROCESSOR_BASE((uint64_t)i), V3_PREPROCESSOR))
			return true;
	return false;
}

uint32_t nd_chip_physical_core(const struct nd_chip *chip, uint32_t device, uint32_t core)
{
	/* By the place of a device in its 4 x 4 torus: bit 2 and bit 0 of its number. Pairs of an
	 * even and an odd core stay together. */
	static const uint8_t pairs[4][4] = {
	    {2, 3, 1, 0},
	    {1, 0, 2, 3},
	    {0, 1, 3, 2},
	    {3, 2, 0, 1},
	};

	if (!is_v3(chip) || core >= NEURON_V3_CORES)
		return core;
	return pairs[(device >> 1 & 2) | (device & 1)][core >> 1] * 2u + (core & 1);
}

uint32_t nd_chip_reset_map(const struct nd_chip *chip, uint32_t core_map)
{
	uint32_t map = 0;
	uint32_t core;

	for (core = 0; core < chip->cores; core++) {
		if (!(core_map >> core & 1))
			continue;
		map |= 1u << core;
		/* Generation 3: bit 8 + n is a core's DMA engines, bit 16 + n its CC cores. */
		map |=
		    is_v3(chip) ? (1u << (8 + core)) | (1u << (16 + core)) : 7u << (8 + 3 * core);
	}
	return map;
}
