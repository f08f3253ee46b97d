/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "driver/core/chip.h"

#include "hw/address_map.h"

#define GIB (1ull << 30)

static bool inside(uint64_t address, uint64_t size, uint64_t base, uint64_t length)
{
	return address >= base && size <= length && address - base <= length - size;
}

/* ---- generation 2 ---- */

static uint64_t v2_core_window(uint32_t core)
{
	return NEURON_V2_CORE_WINDOW(core);
}

static uint64_t v2_topsp_window(uint32_t topsp)
{
	return NEURON_V2_TOPSP_WINDOW(topsp);
}

static uint64_t v2_udma(uint32_t engine)
{
	return NEURON_V2_UDMA(engine);
}

static uint64_t v2_sdma(uint32_t engine)
{
	return NEURON_V2_SDMA(engine);
}

static uint64_t v2_core_notification(uint32_t core)
{
	return NEURON_V2_CORE_NOTIFICATION(core);
}

static uint64_t v2_topsp_notification(uint32_t topsp)
{
	return NEURON_V2_TOPSP_NOTIFICATION(topsp);
}

static uint64_t v2_pe_counters(uint32_t core)
{
	return NEURON_V2_CORE_PE_COUNTERS(core);
}

static uint64_t v2_hbm_base(uint32_t hbm)
{
	return (uint64_t)hbm * NEURON_V2_HBM_STRIDE;
}

static uint64_t v2_core_address(uint32_t core)
{
	return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(core);
}

static uint64_t v2_topsp_address(uint32_t topsp)
{
	return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_TOPSP_WINDOW(topsp);
}

/* The windows are adjacent, and a range may cross from one to the next. */
static bool v2_is_programmable(const struct nd_chip *chip, uint64_t address, uint64_t size)
{
	return inside(address, size, v2_core_address(0),
		      chip->cores * (uint64_t)NEURON_V2_CORE_WINDOW_SIZE) ||
	       inside(address, size, v2_topsp_address(0),
		      chip->topsps * (uint64_t)NEURON_V2_TOPSP_WINDOW_SIZE);
}

static const struct nd_chip_map v2_map = {
    .core_window = v2_core_window,
    .topsp_window = v2_topsp_window,
    .udma = v2_udma,
    .sdma = v2_sdma,
    .core_notification = v2_core_notification,
    .topsp_notification = v2_topsp_notification,
    .pe_counters = v2_pe_counters,
    .hbm_base = v2_hbm_base,
    .core_address = v2_core_address,
    .topsp_address = v2_topsp_address,
    .core_cookie = v2_core_address,
    .is_programmable = v2_is_programmable,
};

/* ---- generation 1: what it has in another place than generation 2 ---- */

static uint64_t v1_udma(uint32_t engine)
{
	return NEURON_V1_UDMA(engine);
}

static uint64_t v1_sdma(uint32_t engine)
{
	return NEURON_V1_SDMA(engine);
}

static uint64_t v1_core_notification(uint32_t core)
{
	return NEURON_V1_CORE_NOTIFICATION(core);
}

static uint64_t v1_pe_counters(uint32_t core)
{
	return NEURON_V1_CORE_PE_COUNTERS(core);
}

static const struct nd_chip_map v1_map = {
    .core_window = v2_core_window,
    .topsp_window = v2_topsp_window,
    .udma = v1_udma,
    .sdma = v1_sdma,
    .core_notification = v1_core_notification,
    .topsp_notification = v2_topsp_notification,
    .pe_counters = v1_pe_counters,
    .hbm_base = v2_hbm_base,
    .core_address = v2_core_address,
    .topsp_address = v2_topsp_address,
    .core_cookie = v2_core_address,
    .is_programmable = v2_is_programmable,
};

/* ---- generations 3 and 4 ---- */

static uint64_t v3_core_window(uint32_t core)
{
	return NEURON_V3_CORE_WINDOW(core);
}

static uint64_t v3_topsp_window(uint32_t topsp)
{
	return NEURON_V3_TOPSP_WINDOW(topsp);
}

static uint64_t v3_udma(uint32_t engine)
{
	return NEURON_V3_UDMA(engine);
}

static uint64_t v3_sdma(uint32_t engine)
{
	return NEURON_V3_SDMA(engine);
}

static uint64_t v3_core_notification(uint32_t core)
{
	return NEURON_V3_CORE_NOTIFICATION(core);
}

static uint64_t v3_topsp_notification(uint32_t topsp)
{
	return NEURON_V3_TOPSP_NOTIFICATION(topsp);
}

static uint64_t v3_pe_counters(uint32_t core)
{
	static const uint64_t of_die[4] = {0x06141000, 0x062C1000, 0x06541000, 0x066C1000};

	return of_die[core & 3] + NEURON_V3_IO_DIE(core >> 2);
}

static uint64_t v3_hbm_base(uint32_t hbm)
{
	return NEURON_V3_HBM_BASE((uint64_t)hbm);
}

static uint64_t v3_core_address(uint32_t core)
{
	return NEURON_V3_CORE_DEVICE((uint64_t)core);
}

static uint64_t v3_topsp_address(uint32_t topsp)
{
	return NEURON_V3_TOPSP_DEVICE((uint64_t)topsp);
}

static uint64_t v3_core_cookie(uint32_t core)
{
	return NEURON_V3_CORE_COOKIE(core);
}

/* Sizes of the windows beside the cores: pre-processing units and core regions. */
#define V3_CORE_REGION 0x804000000ull
#define V3_PREPROCESSOR 0x34C0000ull
#define V3_PREPROCESSOR_BASE(seng)                                                                 \
	(0x1200000000ull + ((seng)&1) * 0x4000000000ull + ((seng) >> 1) * NEURON_V3_DIE_BIT)

static bool v3_is_programmable(const struct nd_chip *chip, uint64_t address, uint64_t size)
{
	uint32_t i;

	for (i = 0; i < chip->cores; i++)
		if (inside(address, size, v3_core_address(i), V3_CORE_REGION))
			return true;
	for (i = 0; i < chip->topsps; i++)
		if (inside(address, size, v3_topsp_address(i), NEURON_V2_TOPSP_WINDOW_SIZE))
			return true;
	for (i = 0; i < chip->hbms; i++)
		if (inside(address, size, v3_hbm_base(i), chip->hbm_bytes) ||
		    inside(address, size, V3_PREPROCESSOR_BASE((uint64_t)i), V3_PREPROCESSOR))
			return true;
	return false;
}

static const struct nd_chip_map v3_map = {
    .core_window = v3_core_window,
    .topsp_window = v3_topsp_window,
    .udma = v3_udma,
    .sdma = v3_sdma,
    .core_notification = v3_core_notification,
    .topsp_notification = v3_topsp_notification,
    .pe_counters = v3_pe_counters,
    .hbm_base = v3_hbm_base,
    .core_address = v3_core_address,
    .topsp_address = v3_topsp_address,
    .core_cookie = v3_core_cookie,
    .is_programmable = v3_is_programmable,
};

/*
 * By the place of a device in its 4 x 4 torus: bit 2 and bit 0 of its number. Pairs of an even and
 * an odd core stay together.
 */
static const uint8_t v3_core_pairs[4][4] = {
    {2, 3, 1, 0},
    {1, 0, 2, 3},
    {0, 1, 3, 2},
    {3, 2, 0, 1},
};

/* ---- the table ---- */

/* What generations 1 and 2 have in common, a field a line. */
/* clang-format off */
#define CHIP_OF_ONE_DIE \
	.carve_out = NEURON_V2_HBM_CARVE_OUT, \
	.bar0_bytes = NEURON_V2_BAR0_SIZE, \
	.misc_ram = NEURON_V2_MISC_RAM, \
	.sim_reset = NEURON_V2_SIM_RESET, \
	.max_interface = 7, \
	.bar0_device_base = NEURON_V2_BAR0_DEVICE_BASE, \
	.pe_stride = 0x40, \
	.copy_cores = 1, \
	.copy_ms = 40, \
	.reset_seconds = 120, \
	.power_dies = 1
/* clang-format on */

const struct nd_chip nd_chip_v1 = {
    .generation = 1,
    .map = &v1_map,
    .cores = NEURON_V1_CORES,
    .dma_engines = NEURON_V1_DMA_ENGINES,
    .hbms = NEURON_V1_DRAM_COUNT,
    .hbm_bytes = NEURON_V1_DRAM_SIZE,
    .hbm_window = NEURON_V1_DRAM_SIZE,
    .bar4_bytes = 8 * GIB,
    .host_base = NEURON_V1_HOST_BASE,
    .route_mask = ~(NEURON_V1_HOST_BASE - 1),
    .min_interface = 2,
    CHIP_OF_ONE_DIE,
};

const struct nd_chip nd_chip_v2 = {
    .generation = 2,
    .map = &v2_map,
    .cores = NEURON_V2_CORES,
    .topsps = NEURON_V2_TOPSPS,
    .topsps_per_core = 3,
    .dma_engines = NEURON_V2_DMA_ENGINES,
    .hbms = NEURON_V2_HBM_COUNT,
    .hbm_bytes = NEURON_V2_HBM_SIZE,
    .hbm_window = NEURON_V2_HBM_SIZE,
    .bar4_bytes = 32 * GIB,
    .host_base = NEURON_V2_HOST_BASE,
    .route_mask = NEURON_V2_ROUTE_MASK,
    .min_interface = 5,
    .fetch_engines = 0x7FF, /* 0 to 10 */
    .engine_defaults = 0,
    .reset = {{8, 3}}, /* CC cores */
    CHIP_OF_ONE_DIE,
};

/* What generations 3 and 4 have in common, a field a line. */
/* clang-format off */
#define CHIP_OF_TWO_DIES \
	.map = &v3_map, \
	.cores = NEURON_V3_CORES, \
	.topsps = NEURON_V3_TOPSPS, \
	.topsps_per_core = NEURON_V3_TOPSPS_PER_CORE, \
	.dma_engines = NEURON_V3_DMA_ENGINES, \
	.hbms = NEURON_V3_HBM_COUNT, \
	.hbm_window = NEURON_V3_HBM_WINDOW, \
	.carve_out = NEURON_V3_HBM_CARVE_OUT, \
	.bar0_bytes = NEURON_V3_BAR0_SIZE, \
	.bar4_bytes = 256 * GIB, \
	.host_base = NEURON_V3_HOST_BASE, \
	.route_mask = ~(NEURON_V3_HOST_BASE - 1), \
	.misc_ram = NEURON_V3_MISC_RAM, \
	.sim_reset = NEURON_V3_SIM_RESET, \
	.min_interface = 10, \
	.max_interface = 11, \
	.pe_stride = 0x30, \
	.copy_cores = 2, \
	.fetch_engines = 0x19F, \
	.engine_defaults = 1, \
	.back_pressure = 0x26, \
	.reset = {{8, 1}, {16, 1}}, \
	.core_pairs = v3_core_pairs, \
	.copy_ms = 80, \
	.reset_seconds = 480, \
	.power_dies = 2, \
	.maps_hbm = true, \
	.has_power_profiles = true, \
	.tells_repair = true, \
	.copies_without_buffer = true, \
	.model_resets_at_once = true, \
	.model_shows_hbm = true
/* clang-format on */

const struct nd_chip nd_chip_v3 = {
    CHIP_OF_TWO_DIES,
    .generation = 3,
    .hbm_bytes = NEURON_V3_HBM_SIZE,
};

const struct nd_chip nd_chip_v4 = {
    CHIP_OF_TWO_DIES,
    .generation = 4,
    .hbm_bytes = NEURON_V4_HBM_SIZE,
    .is_switched = true,
};

const struct nd_chip *nd_chip_for_device(uint16_t pci_device)
{
	if (pci_device >= NEURON_PCI_DEVICE_INF1 && pci_device <= NEURON_PCI_DEVICE_INF1_LAST)
		return &nd_chip_v1;
	switch (pci_device) {
	case NEURON_PCI_DEVICE_TRN1:
	case NEURON_PCI_DEVICE_INF2:
		return &nd_chip_v2;
	case NEURON_PCI_DEVICE_TRN2:
		return &nd_chip_v3;
	case NEURON_PCI_DEVICE_TRN3:
	case NEURON_PCI_DEVICE_TRN3_SECOND:
		return &nd_chip_v4;
	default:
		return NULL;
	}
}

uint64_t nd_chip_core_window(const struct nd_chip *chip, uint32_t core)
{
	return chip->map->core_window(core);
}

uint64_t nd_chip_topsp_window(const struct nd_chip *chip, uint32_t topsp)
{
	return chip->map->topsp_window(topsp);
}

uint64_t nd_chip_udma(const struct nd_chip *chip, uint32_t engine)
{
	return chip->map->udma(engine);
}

uint64_t nd_chip_sdma(const struct nd_chip *chip, uint32_t engine)
{
	return chip->map->sdma(engine);
}

uint64_t nd_chip_core_notification(const struct nd_chip *chip, uint32_t core)
{
	return chip->map->core_notification(core);
}

uint64_t nd_chip_topsp_notification(const struct nd_chip *chip, uint32_t topsp)
{
	return chip->map->topsp_notification(topsp);
}

uint64_t nd_chip_pe_counters(const struct nd_chip *chip, uint32_t core, uint32_t group)
{
	return chip->map->pe_counters(core) + 0x100 + (uint64_t)group * chip->pe_stride;
}

uint64_t nd_chip_hbm_base(const struct nd_chip *chip, uint32_t hbm)
{
	return chip->map->hbm_base(hbm);
}

uint64_t nd_chip_core_address(const struct nd_chip *chip, uint32_t core)
{
	return chip->map->core_address(core);
}

uint64_t nd_chip_topsp_address(const struct nd_chip *chip, uint32_t topsp)
{
	return chip->map->topsp_address(topsp);
}

uint64_t nd_chip_core_cookie(const struct nd_chip *chip, uint32_t core)
{
	return chip->map->core_cookie(core);
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

bool nd_chip_is_programmable(const struct nd_chip *chip, uint64_t address, uint64_t size)
{
	return chip->map->is_programmable(chip, address, size);
}

bool nd_chip_maps_cores(const struct nd_chip *chip)
{
	return chip->core_pairs != NULL;
}

uint32_t nd_chip_physical_core(const struct nd_chip *chip, uint32_t device, uint32_t core)
{
	if (!chip->core_pairs || core >= chip->cores)
		return core;
	return chip->core_pairs[(device >> 1 & 2) | (device & 1)][core >> 1] * 2u + (core & 1);
}

uint32_t nd_chip_turned_core(const struct nd_chip *chip, uint32_t device, uint32_t core)
{
	if (!chip->core_pairs || core >= chip->cores)
		return core;
	return nd_chip_physical_core(chip, device, core ^ 6);
}

uint32_t nd_chip_reset_map(const struct nd_chip *chip, uint32_t core_map)
{
	uint32_t map = 0;
	uint32_t core;
	uint32_t i;

	for (core = 0; core < chip->cores; core++) {
		if (!(core_map >> core & 1))
			continue;
		map |= 1u << core;
		for (i = 0; i < 2; i++) {
			const struct nd_reset_field *field = &chip->reset[i];

			map |= ((1u << field->per_core) - 1)
			       << (field->first + field->per_core * core);
		}
	}
	return map;
}
