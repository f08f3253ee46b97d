/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * NEFF container header (documented by the vendor) and engine binary (ours).
 *
 * A NEFF is a 1024-byte header and a tar or tar.gz payload. Programs in our encoding set feature bit 52, name
 * the format "nrt-open-program" in neff.json and carry a magic in every engine binary. `hash` covers the payload
 * bytes as stored. Engine binary: header, then sections code, entry, relocation, string, line; CRC-32C
 * (Castagnoli) of everything behind the header, and of the header's first 60 bytes.
 */
#ifndef HW_NEFF_PROGRAM_H
#define HW_NEFF_PROGRAM_H

#define NEFF_HEADER_BYTES 1024
#define NEFF_OFF_PKG_VERSION 0      /* u64: 1 = SHA-256 in hash, 2 = MD5 in its first 16 bytes */
#define NEFF_OFF_HEADER_SIZE 8      /* u64 */
#define NEFF_OFF_DATA_SIZE 16       /* u64 payload bytes */
#define NEFF_OFF_VERSION_MAJOR 24   /* u64 */
#define NEFF_OFF_VERSION_MINOR 32   /* u64 */
#define NEFF_OFF_BUILD_VERSION 40   /* char[128] */
#define NEFF_OFF_NUM_TPB 168        /* u32 */
#define NEFF_OFF_HASH 172           /* u8[32] */
#define NEFF_OFF_UUID 204           /* u8[16] */
#define NEFF_OFF_NAME 220           /* char[256] */
#define NEFF_OFF_REQUESTED_TPB 476  /* u32 */
#define NEFF_OFF_TPB_PER_NODE 480   /* u8[64] */
#define NEFF_OFF_FEATURE_BITS 544   /* u64 */
#define NEFF_OFF_LNC_SIZE 552       /* u32, 0 read as 1 */
#define NEFF_OFF_PAD 556            /* zero to 1024 */
#define NEFF_FEATURE_OPEN_PROGRAM (1ull << 52)
#define NEFF_FEATURE_CUSTOM_OPERATORS (1ull << 53) /* ours, too: calls of hw/custom_operator.h, so it carries code of the host */
#define NEFF_FEATURE_VENDOR_MASK 0x80000000000000FFull /* bits known to the vendor's runtime */
#define NEFF_FORMAT "nrt-open-program"

#define NEURON_BIN_MAGIC "\x89NOPG\r\n\x1a" /* 8 bytes */
#define NEURON_BIN_HEADER_BYTES 64
#define NEURON_BIN_OFF_VERSION 0x08     /* u16 = 1 */
#define NEURON_BIN_OFF_HEADER_SIZE 0x0A /* u16 = 64 */
#define NEURON_BIN_OFF_ENGINE 0x0C      /* u8 */
#define NEURON_BIN_OFF_GENERATION 0x0D  /* u8 */
#define NEURON_BIN_OFF_FLAGS 0x0E       /* u16 = 0 */
#define NEURON_BIN_OFF_CODE_OFF 0x10    /* u32, 128-byte aligned */
#define NEURON_BIN_OFF_CODE_COUNT 0x14  /* instructions */
#define NEURON_BIN_OFF_ENTRY_OFF 0x18
#define NEURON_BIN_OFF_ENTRY_COUNT 0x1C
#define NEURON_BIN_OFF_RELOC_OFF 0x20
#define NEURON_BIN_OFF_RELOC_COUNT 0x24
#define NEURON_BIN_OFF_STRING_OFF 0x28
#define NEURON_BIN_OFF_STRING_SIZE 0x2C
#define NEURON_BIN_OFF_LINE_OFF 0x30
#define NEURON_BIN_OFF_LINE_COUNT 0x34
#define NEURON_BIN_OFF_CRC 0x38
#define NEURON_BIN_OFF_HEADER_CRC 0x3C
#define NEURON_BIN_ENTRY_BYTES 16 /* name u32, pc u32, length u32, kind u32 */
#define NEURON_BIN_RELOC_BYTES 24 /* pc u32, field u16, kind u8, width u8, symbol u32, zero u32, addend i64 */
#define NEURON_BIN_LINE_BYTES 16  /* debug u32, file u32, line u32, column u16, zero u16 */

enum neuron_bin_entry_kind {
	NEURON_ENTRY_MAIN = 0, /* exactly one */
	NEURON_ENTRY_FUNCTION = 1,
	NEURON_ENTRY_LABEL = 2,
};
enum neuron_bin_reloc_kind {
	NEURON_RELOC_VAR_ADDR = 1,  /* device address of a variable + addend, u64 */
	NEURON_RELOC_DMA_BLOCK = 2, /* symbol = decimal id of the engine JSON: the whole dma_trigger body */
	/* Of a queue set: doorbell address (width 8; addend 0 M2S, 1 S2M), or its queue number (width 1). The number
	 * goes into a byte; in dma_generate, dma_gather and dma_scatter, field NEURON_RELOC_QUEUE_CTL, into bits 5:2 of
	 * it, which dma.ctl has there (21:18), and the byte's other bits stay. */
	NEURON_RELOC_QUEUE = 3,
	NEURON_RELOC_SEMAPHORE = 4, /* number, width 1; here and below "peer:NAME" is one of the other core (8 to 15) */
	NEURON_RELOC_SEM_ADDR = 5,  /* device address of the inc alias + addend */
	NEURON_RELOC_PC = 6,        /* 32-bit index of an entry relative to the instruction */
	NEURON_RELOC_CORE = 7,      /* "self", or "peer", the other core: core window base + addend, u64 */
	NEURON_RELOC_PEER = 8,
};
#define NEURON_RELOC_QUEUE_CTL 0x72 /* NEURON_DMA_CTL + 2 */
#define NEURON_RELOC_QUEUE_CTL_SHIFT 2

#endif
