/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Address maps of generation 2 (trn1, inf2) and, below, of generations 3 (trn2), 4 (trn3) and 1 (inf1).
 *
 * Two address spaces: the BAR0 offset (host MMIO) and the device address (descriptors, ring bases,
 * `write` instructions). BAR0 is a linear view of the last GiB below 2^44:
 *     device address = BAR0 offset + NEURON_V2_BAR0_DEVICE_BASE.
 * Bit 44 set alone in the route field 48:44 means host memory. BAR4 is HBM 0 followed by HBM 1.
 *
 * Public facts: everything but the control blocks inside the core window (0x2600000-0x265FFFF) and the
 * partition strides of SBUF and PSUM, which are ours.
 */
#ifndef HW_ADDRESS_MAP_H
#define HW_ADDRESS_MAP_H

#define NEURON_V2_BAR0_SIZE 0x40000000ull
#define NEURON_V2_BAR0_DEVICE_BASE 0xFFFC0000000ull
#define NEURON_V2_HBM_COUNT 2
#define NEURON_V2_HBM_SIZE 0x400000000ull   /* 16 GiB each */
#define NEURON_V2_HBM_STRIDE 0x1000000000ull /* device address of HBM 1 */
#define NEURON_V2_HBM_CARVE_OUT 0x1000000ull /* the first 16 MiB of each HBM belong to firmware */
#define NEURON_V2_HOST_BASE 0x100000000000ull /* bit 44 */
#define NEURON_V2_ROUTE_MASK 0x1F00000000000ull
#define NEURON_V2_HOST_SIZE NEURON_V2_HOST_BASE /* host addresses 0..2^44-1 behind the base */

#define NEURON_V2_CORES 2
#define NEURON_V2_TOPSPS 6
#define NEURON_V2_TOPSPS_PER_CORE 3
#define NEURON_V2_DMA_ENGINES 34      /* 16 per core, then D2H (core 0) and H2D (core 1) */
#define NEURON_V2_DMA_ENGINES_PER_CORE 16
#define NEURON_DMA_QUEUES 16          /* per engine */
#define NEURON_DMA_QUEUE_COLLECTIVES 15

/* BAR0 offsets. */
#define NEURON_V2_CORE_WINDOW(core) ((core) * 0x4000000ull)
#define NEURON_V2_CORE_WINDOW_SIZE 0x4000000ull
#define NEURON_V2_TOPSP_WINDOW(i) (0x10000000ull + (i) * 0x400000ull)
#define NEURON_V2_TOPSP_WINDOW_SIZE 0x400000ull
#define NEURON_V2_APB 0x30000000ull
#define NEURON_V2_UDMA(engine)                                                                     \
	((engine) < 16   ? 0x30000000ull + (engine) * 0x40000ull                                   \
	 : (engine) < 32 ? 0x30700000ull + ((engine) - 16) * 0x40000ull                            \
	 : (engine) == 32 ? 0x30600000ull                                                          \
			  : 0x30D00000ull)
#define NEURON_V2_UDMA_STRIDE 0x40000ull
#define NEURON_V2_SDMA(engine)                                                                     \
	((engine) < 16   ? 0x30400000ull + (engine) * 0x7000ull                                    \
	 : (engine) < 32 ? 0x30B00000ull + ((engine) - 16) * 0x7000ull                             \
	 : (engine) == 32 ? 0x30640000ull                                                          \
			  : 0x30D40000ull)
#define NEURON_V2_SDMA_NOTIFICATION 0x1000ull /* inside the SDMA wrapper */
#define NEURON_V2_CORE_NOTIFICATION(core) ((core) == 0 ? 0x30535000ull : 0x30C35000ull)
#define NEURON_V2_CORE_PE_COUNTERS(core) ((core) == 0 ? 0x305B1000ull : 0x30CB1000ull)
#define NEURON_V2_TOPSP_NOTIFICATION(i) (0x30E04000ull + (i) * 0x40000ull)
#define NEURON_V2_MISC_RAM 0x30FA0000ull
#define NEURON_V2_SIM_RESET 0x30647010ull /* revision 255 only */

/*
 * Generation 3 (trn2): two dies, four shared engines (SENG) of two cores each. BAR0 shows pieces of
 * the device address space; bit 47 selects the die, bit 46 alone in the route field is host memory.
 */
#define NEURON_V3_BAR0_SIZE 0x100000000ull
#define NEURON_V3_HBM_COUNT 4
#define NEURON_V3_HBM_SIZE 0x600000000ull   /* 24 GiB populated */
#define NEURON_V3_HBM_WINDOW 0x1000000000ull /* of BAR4 per stack: 64 GiB */
#define NEURON_V3_DIE_BIT 0x800000000000ull
#define NEURON_V3_HBM_BASE(i) (((i) & 1) * 0x4000000000ull + ((i) >> 1) * NEURON_V3_DIE_BIT)
#define NEURON_V3_HBM_CARVE_OUT NEURON_V2_HBM_CARVE_OUT
#define NEURON_V3_HOST_BASE 0x400000000000ull /* bit 46 */
#define NEURON_V3_HOST_SIZE NEURON_V3_HOST_BASE
#define NEURON_V3_CORES 8
#define NEURON_V3_TOPSPS 16
#define NEURON_V3_TOPSPS_PER_CORE 2
#define NEURON_V3_DMA_ENGINES 132 /* 16 per core, then one for each SENG's host copies */
#define NEURON_V3_DMA_ENGINES_PER_CORE 16

/* BAR0 offsets, and the device addresses that they show. */
#define NEURON_V3_IO_DIE(die) ((die) * 0x40000000ull)
#define NEURON_V3_IO_DIE_SIZE 0x20000000ull
#define NEURON_V3_IO_DIE_DEVICE(die) (0x8000000000ull + (die) * NEURON_V3_DIE_BIT)
#define NEURON_V3_SENG(seng) (0x80000000ull + (seng) * 0x10000000ull)
#define NEURON_V3_SENG_SIZE 0x10000000ull
#define NEURON_V3_SENG_DEVICE(seng) \
	(0x1000000000ull + ((seng) & 1) * 0x4000000000ull + ((seng) >> 1) * NEURON_V3_DIE_BIT)
#define NEURON_V3_CORE_WINDOW(core) (0xD0000000ull + (core) * 0x4000000ull)
/* Cores 0-3 at 0x20, 0x30, 0x60, 0x70 (x 2^32) of their die, 4-7 likewise on the other one. */
#define NEURON_V3_CORE_DEVICE(core) \
	(0x2000000000ull + ((core) & 1) * 0x1000000000ull + ((core) >> 1 & 1) * 0x4000000000ull + \
	 ((core) >> 2) * NEURON_V3_DIE_BIT)
#define NEURON_V3_CORE_COOKIE(core) (0x2000000000ull + (core) * 0x4000000ull) /* mmap offset */
#define NEURON_V3_TOPSP_WINDOW(i) \
	((i) < 8 ? 0xF0000000ull + (i) * 0x400000ull : 0xF2800000ull + ((i) - 8) * 0x400000ull)
#define NEURON_V3_TOPSP_DEVICE(i) \
	(0x8280000000ull + ((i) & 7) * 0x40000000ull + ((i) >> 3) * NEURON_V3_DIE_BIT)
#define NEURON_V3_UDMA_STRIDE 0x100000ull
#define NEURON_V3_UDMA(engine) \
	((engine) < 32	  ? 0x82000000ull + (engine) * NEURON_V3_UDMA_STRIDE \
	 : (engine) < 64  ? 0x94000000ull + ((engine) - 32) * NEURON_V3_UDMA_STRIDE \
	 : (engine) < 96  ? 0xA2000000ull + ((engine) - 64) * NEURON_V3_UDMA_STRIDE \
	 : (engine) < 128 ? 0xB4000000ull + ((engine) - 96) * NEURON_V3_UDMA_STRIDE \
			  : 0x06800000ull + ((engine) & 1) * 0x100000ull + \
				    (((engine) - 128) >> 1) * 0x40000000ull)
#define NEURON_V3_SDMA(engine) (NEURON_V3_UDMA(engine) + 0x40000ull)
#define NEURON_V3_FIS(engine) \
	((engine) < 32	 ? 0x8C000000ull + (engine) * 0x20000ull \
	 : (engine) < 64 ? 0x9C400000ull + ((engine) - 32) * 0x20000ull \
	 : (engine) < 96 ? 0xAC000000ull + ((engine) - 64) * 0x20000ull \
			 : 0xBC400000ull + ((engine) - 96) * 0x20000ull)
#define NEURON_V3_CORE_NOTIFICATION(core) \
	(((core) >> 2) * 0x40000000ull + 0x06001000ull + ((core) >> 1 & 1) * 0x400000ull + \
	 ((core) & 1) * 0x180000ull)
#define NEURON_V3_TOPSP_NOTIFICATION(i) \
	(((i) >> 3) * 0x40000000ull + 0x06A00000ull + ((i) & 7) * 0x40000ull)
#define NEURON_V3_MISC_RAM 0x06C84000ull
#define NEURON_V3_SIM_RESET 0x06300010ull /* revision 255 only */

/*
 * Generation 4 (trn3) has the map of generation 3 with larger stacks of HBM (public driver 2.25). Its BAR4 keeps
 * 64 GiB for each. Routed addresses by routing id are those of generation 3; its chips have no links to neighbours
 * but one port to a switch, so that an address by link leads nowhere (our choice: no public source has the format).
 */
#define NEURON_V4_HBM_SIZE 0x900000000ull /* 36 GiB populated */

/*
 * Generation 1 (inf1): counts, device memory and the host bit are public facts, and so is the absence of CC cores. Its
 * register map is ours, no public source has it: the windows of generation 2, and four cores' worth of DMA engines, 16 a
 * core where silicon has 3. Nothing can tell the difference, as no program runs there: its instruction set is not
 * public either. Chips do not reach each other.
 */
#define NEURON_V1_CORES 4
#define NEURON_V1_DRAM_COUNT 2
#define NEURON_V1_DRAM_SIZE 0x100000000ull /* 4 GiB each, where generation 2 has its HBM */
#define NEURON_V1_HOST_BASE 0x400000000000ull /* bit 46 */
#define NEURON_V1_DMA_ENGINES 68	      /* 16 per core, then one for each core's host copies */
#define NEURON_V1_UDMA(engine) (0x32000000ull + (engine) * 0x80000ull)
#define NEURON_V1_SDMA(engine) (NEURON_V1_UDMA(engine) + 0x40000ull)
#define NEURON_V1_CORE_NOTIFICATION(core) (0x34200000ull + (core) * 0x100000ull)
#define NEURON_V1_CORE_PE_COUNTERS(core) (NEURON_V1_CORE_NOTIFICATION(core) + 0x80000ull)

/* Inside a core window W. */
#define NEURON_CORE_SBUF 0x0000000ull /* partition p at p * NEURON_SBUF_PARTITION_STRIDE */
#define NEURON_SBUF_PARTITION_STRIDE 0x40000ull
#define NEURON_CORE_SBUF_SIZE 0x2000000ull
#define NEURON_CORE_PSUM 0x2000000ull /* partition p at p * NEURON_PSUM_PARTITION_STRIDE */
#define NEURON_PSUM_PARTITION_STRIDE 0x4000ull
#define NEURON_CORE_PSUM_SIZE 0x200000ull
#define NEURON_CORE_CONTROL 0x2600000ull /* hw/control.h */
#define NEURON_CORE_CONTROL_SIZE 0x10000ull
#define NEURON_CORE_ENGINE(e) (0x2610000ull + (e) * 0x10000ull)
#define NEURON_CORE_ENGINE_SIZE 0x10000ull
#define NEURON_CORE_SEMAPHORES 0x2700000ull /* event and semaphore block, laid out as below */

/* Event and semaphore block: 256 cells of 4 bytes each. Inside a TOPSP window it starts at +0. */
#define NEURON_SEM_BLOCK_EVENT 0x0000ull
#define NEURON_SEM_BLOCK_READ 0x1000ull
#define NEURON_SEM_BLOCK_SET 0x1400ull
#define NEURON_SEM_BLOCK_INC 0x1800ull /* adds the value written */
#define NEURON_SEM_BLOCK_DEC 0x1C00ull /* subtracts the value written */
#define NEURON_SEM_BLOCK_SIZE 0x2000ull

/*
 * CC core (collective core): a sequencer without a datapath. A core has three of them on generation 2, two on 3;
 * CC core k of core c is TOPSP c * NEURON_Vx_TOPSPS_PER_CORE + k. Its window T (NEURON_V2_TOPSP_WINDOW, of
 * NEURON_V2_TOPSP_WINDOW_SIZE bytes on both generations; device address NEURON_V2_BAR0_DEVICE_BASE + window, or
 * NEURON_V3_TOPSP_DEVICE) holds two blocks and nothing else:
 *     T + 0        events and semaphores, laid out as a core's
 *     T + 0x10000  one engine block (hw/control.h), started by one 64-byte write like any engine's
 * Its notification queues are those of the TOPSP, slot 0 its trace. It executes opcode groups 0, 1, 6 and 7; waits
 * and updates in its instructions, and `sem`, mean its own semaphores. All else it reaches by address.
 * Of each of the core's DMA engines it uses queue NEURON_DMA_QUEUE_COLLECTIVES only; each CC core has DMA engines of
 * its own, so that two never meet in a queue. A CC core that is the only one in use may take all 16.
 */
#define NEURON_CC_SEMAPHORES 0x0ull /* inside the window */
#define NEURON_CC_ENGINE 0x10000ull
#define NEURON_CC_ENGINE_SIZE 0x10000ull
#define NEURON_V2_CC_ENGINES(k) ((k) == 0 ? 0x003Fu : (k) == 1 ? 0x07C0u : 0xF800u) /* of the core's 16 */
#define NEURON_V3_CC_ENGINES(k) ((k) == 0 ? 0x00FFu : 0xFF00u)

/*
 * Routed addresses reach another chip of the instance from descriptors and instructions (not from the host, and not
 * as a ring's base or a program). Add the address in that chip's own map:
 *     generation 2: bit 48, 47:44 routing id
 *     generation 3: bit 52, 51:50 link: the neighbour on link k, in the order in which the driver reports neighbours
 *     generations 3 and 4: bit 53, 59:54 routing id: any chip, hop by hop or through the switch; 61:60 how many
 *         instances further in the UltraServer, counted round 4 of them: 0 is the chip's own instance, 1 the next one
 * A chip's own routing id is its own memory, without a link. What can be reached: HBM, SBUF, PSUM, and the event and
 * semaphore blocks of cores and CC cores with all aliases. Host memory of another chip and its other registers
 * (control blocks, doorbells, notifications, firmware) refuse: BUS, in a descriptor DMA_BUS. An id that is absent, and
 * a way with a link that is down: LINK, whose info is the routing id (a link of generation 3: 256 + link; of another
 * instance: bits 7:6 are those of the address).
 * Writes of one DMA queue or one sequencer to one chip arrive in order, so that a semaphore follows its data.
 */
#define NEURON_V2_PEER_BIT (1ull << 48)
#define NEURON_V2_PEER_SHIFT 44
#define NEURON_V2_PEER_LOCAL ((1ull << 44) - 1)
#define NEURON_V2_PEER(id) (NEURON_V2_PEER_BIT | (unsigned long long)(id) << NEURON_V2_PEER_SHIFT) /* id 0..15 */
#define NEURON_V3_NEIGHBOUR_BIT (1ull << 52)
#define NEURON_V3_NEIGHBOUR_SHIFT 50
#define NEURON_V3_NEIGHBOUR_LOCAL ((1ull << 50) - 1)
#define NEURON_V3_NEIGHBOUR(link)                                                                  \
	(NEURON_V3_NEIGHBOUR_BIT | (unsigned long long)(link) << NEURON_V3_NEIGHBOUR_SHIFT)
#define NEURON_V3_PEER_BIT (1ull << 53)
#define NEURON_V3_PEER_SHIFT 54
#define NEURON_V3_PEER_LOCAL ((1ull << 48) - 1)
#define NEURON_V3_PEER(id) (NEURON_V3_PEER_BIT | (unsigned long long)(id) << NEURON_V3_PEER_SHIFT) /* id 0..255 */
#define NEURON_V3_PEER_INSTANCE 64u /* in an id: one instance further */

/* PCI identity. */
#define NEURON_PCI_VENDOR 0x1D0F
#define NEURON_PCI_DEVICE_INF1 0x7064 /* the first of four, 0x7064 to 0x7067 */
#define NEURON_PCI_DEVICE_INF1_LAST 0x7067
#define NEURON_PCI_DEVICE_TRN1 0x7164
#define NEURON_PCI_DEVICE_INF2 0x7264
#define NEURON_PCI_DEVICE_TRN2 0x7364
#define NEURON_PCI_DEVICE_TRN3 0x7564
#define NEURON_PCI_DEVICE_TRN3_SECOND 0x7565 /* no public source says what differs; nothing here does */
#define NEURON_PCI_REVISION_EMULATOR 240
#define NEURON_PCI_REVISION_QEMU 255

/* Firmware mailbox registers inside MISC RAM. */
#define NEURON_FW_API_VERSION 0x000 /* from 7 on requests may stand in the registers themselves */
#define NEURON_FW_ROUTING_ID 0x024
#define NEURON_FW_SERIAL_LO 0x038
#define NEURON_FW_SERIAL_HI 0x03C
#define NEURON_FW_ECC_SRAM 0x040   /* 31:16 corrected errors, 15:0 uncorrected; the next four words: HBM 0 to 3 */
#define NEURON_FW_ECC_HBM0 0x044
#define NEURON_FW_HBM_REPAIR 0x064 /* 1:0 0 none, 1 pending until the device is reset, 2 failed */
#define NEURON_FW_ACKNOWLEDGE 0x0F0 /* 1 with a request in registers; 0 when it is answered */
#define NEURON_FW_DATA 0x100        /* its payload, then the answer's, up to 128 bytes */
#define NEURON_FW_DATA_SIZE 128
#define NEURON_FW_RESET_MAP 0x1D8 /* bit n core n, bits 8+3n.. its TOPSPs */
#define NEURON_FW_RESET 0x1EC     /* 1 device, 2 cores of the map; reads 0 when accepted */
/* Addresses of a request and of its answer. A request in registers has its own header in the first
 * two, which its answer's header then replaces, and zeros in the last two. */
#define NEURON_FW_REQUEST_HI 0x1F0
#define NEURON_FW_REQUEST_LO 0x1F4
#define NEURON_FW_RESPONSE_HI 0x1F8
#define NEURON_FW_RESPONSE_LO 0x1FC
#define NEURON_FW_TRIGGER 0x800
#define NEURON_FW_STATUS 0x808 /* bit 3: reset in progress */

#endif
