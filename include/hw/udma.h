/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * UDMA engine: registers, 16-byte descriptors and ring rules.
 *
 * An engine has a memory-to-stream half (M2S, source) and a stream-to-memory half (S2M, destination),
 * 16 queues each. A queue is a ring of descriptors in memory. The bytes of the M2S descriptors FIRST..LAST
 * are a packet; they fill consecutive S2M descriptors of the same queue number; the next packet starts at a
 * fresh S2M descriptor. Work is possible when both sides hold descriptors. Doorbell order: S2M, then M2S.
 * Inside a queue strict order; queues of an engine are independent, served round robin per packet.
 *
 * Classes of service (generation 4; that there are four is published, all else is ours): the descriptor that opens a
 * packet, a data or a metadata descriptor, has the packet's class, 0 to 3; a further metadata descriptor repeats it, all
 * others have 0. Of the queues whose next packet could begin, an engine takes one with the lowest class, round robin
 * among equals. The priority is strict: while packets of a lower class are ready, those of a higher one wait, however
 * long, and a packet behind another one of its queue waits for it whatever its class. What is in service is not broken
 * off. A class is the packet's, not the queue's, so rings in memory and descriptors that engines generate have it alike.
 *
 * Ring ids: 2 bits, expected value 1 after reset, +1 each time the index wraps to 0. On engines 0-31 a
 * mismatch is counted, not refused (static rings are replayed and their ids go stale); on 32 and 33 too, as
 * the public driver's own rings never mismatch.
 *
 * Ours: a write of sw control bit 8 by an engine of the core (a `write` instruction) rewinds a ring:
 * head = tail = 0. The same write from the host or by DMA does that and also makes the queue refuse doorbells of
 * engines (NEURON_FAULT_DMA_RING) until the next START of an engine of its core, so that a driver that
 * re-points the queues of a dead process stops its program too. Writing the base registers keeps head and tail.
 */
#ifndef HW_UDMA_H
#define HW_UDMA_H

#define NEURON_UDMA_SIZE 0x40000u
#define NEURON_UDMA_M2S 0x00000u
#define NEURON_UDMA_S2M 0x20000u
#define NEURON_UDMA_QUEUE(half, q) ((half) + 0x1000u + (q) * 0x1000u)

/* Per-queue registers. */
#define NEURON_UDMAQ_CFG 0x20 /* bit 16 prefetch, bit 17 schedule; 0x03000000 paused, 0x03030000 running */
#define NEURON_UDMAQ_STATUS 0x24
#define NEURON_UDMAQ_BASE_LO 0x28
#define NEURON_UDMAQ_BASE_HI 0x2C
#define NEURON_UDMAQ_LENGTH 0x30 /* descriptors, 24 bits */
#define NEURON_UDMAQ_HEAD 0x34   /* 23:0 index, 31:30 ring id */
#define NEURON_UDMAQ_TAIL_INC 0x38
#define NEURON_UDMAQ_TAIL 0x3C
#define NEURON_UDMAQ_CURRENT 0x40
#define NEURON_UDMAQ_CMPL_BASE_LO 0x44
#define NEURON_UDMAQ_CMPL_BASE_HI 0x48
#define NEURON_UDMAQ_CMPL_HEAD 0x4C
#define NEURON_UDMAQ_M2S_RATE_LIMIT 0x74
#define NEURON_UDMAQ_M2S_CMPL_CFG 0xA0
#define NEURON_UDMAQ_S2M_CMPL_CFG 0x54
#define NEURON_UDMAQ_M2S_SW_CONTROL 0xB0
#define NEURON_UDMAQ_S2M_SW_CONTROL 0x64
#define NEURON_UDMAQ_SW_RESET (1u << 8)
#define NEURON_UDMAQ_CFG_RESET 0x03000000u
#define NEURON_UDMAQ_CFG_RUNNING 0x03030000u
#define NEURON_UDMAQ_CFG_ENABLE_BITS 0x00030000u
#define NEURON_UDMA_INDEX_MASK 0x00FFFFFFu
#define NEURON_UDMA_RING_ID_SHIFT 30

/* State of a half: 2-bit fields at 1:0 completion, 5:4 stream, 9:8 data, 13:12 prefetch. */
#define NEURON_UDMA_STATE 0x200
#define NEURON_UDMA_CHANGE_STATE 0x204 /* bit 0 normal, 1 disable, 2 abort */
#define NEURON_UDMA_STATE_NORMAL 0x1111u
#define NEURON_UDMA_STATE_ABORT 0x2222u

/* Descriptor, 16 bytes: word 0 control, word 1 meta control (M2S) or 0 (S2M), words 2-3 address. */
#define NEURON_DESC_BYTES 16
#define NEURON_DESC_LENGTH_MASK 0xFFFFu /* 0 = 64 KiB */
#define NEURON_DESC_META (1u << 23)     /* metadata descriptor */
#define NEURON_DESC_RING_ID_SHIFT 24
#define NEURON_DESC_FIRST (1u << 26)
#define NEURON_DESC_LAST (1u << 27)
#define NEURON_DESC_NOTIFY (1u << 28)
#define NEURON_DESC_DMB (1u << 30)
#define NEURON_META_DEFAULT 0x01080003u
#define NEURON_META_WRITE_BARRIER (1u << 26)
#define NEURON_META_CLASS_SHIFT 27 /* 28:27, ours: class of service of the packet */
#define NEURON_DMA_CLASSES 4
#define NEURON_META_TYPE_SHIFT 20 /* 22:20 */
#define NEURON_META_OP_SHIFT 23   /* 25:23: 2 copy, 3 compute, 4 recode (both ours) */
#define NEURON_META_OP_COPY 2
#define NEURON_META_OP_COMPUTE 3
#define NEURON_META_OP_RECODE 4

/*
 * Compute (ours): op 3 with a type of enum neuron_dma_operation (1 cast .. 7 reduce) on every data descriptor of
 * the packet; parameters lie in a metadata descriptor that opens it (FIRST, never LAST), and for fma may lie before
 * each further source, whose scale then changes. Sources follow one after the other, each of the same number of
 * elements; S2M gets the result once. All is read before anything is written. Sources combine in order, then the
 * destination (acc), then the constant, in fp32 with one rounding into to_type at the end; cast to the same type moves
 * bits. The constant of min and max always takes part: +inf and -inf are neutral. Sources and result are each at most
 * NEURON_UDMA_MAX_PACKET_BYTES; the metadata descriptors count among the 65.
 * 64-bit words of the metadata descriptor: low: 22:0 zero | 23 meta | 25:24 ring id | 26 first | 29:27 zero | 30 dmb |
 * 31 zero | 35:32 operation | 41:36 from_type | 47:42 to_type | 48 acc | 52:49 sources - 1 | 53 stochastic rounding |
 * 55:54 enum neuron_dma_reduction | 57:56 (sources - 1) / 16 (both of reduce; else zero) | 58 zero | 60:59 class of
 * service (above) | 63:61 zero; high: 31:0 scale (fp32 for fma; the fp32 constant of min and max; the divisor of
 * reduce; else zero) | 47:32 rows | 63:48 columns (transpose: blocks of rows x columns elements become columns x rows;
 * else zero). cast and transpose have one source and no acc; transpose keeps the type and does not round.
 * Reduce is what collectives do: up to 64 sources, from_type = to_type, no acc, no stochastic rounding. Integers of 8
 * to 64 bits combine in their own width and wrap; f32, bf16, f16, f8e3, f8e4 and f8e5 combine in fp32 with one rounding
 * at the end, a NaN is the positive quiet one, and -0 is less than +0. A sum may have a divisor, an unsigned number
 * that is not zero: integers are divided towards zero, others in fp32 before the rounding. Zero: it stays the sum.
 *
 * Recode (ours): op 4 with type 0 (compress) or 1 (decompress) on every data descriptor of the packet, which a metadata
 * descriptor opens as above: operation 8 + type, high 31:0 bytes of the result, all else zero; there is no other
 * metadata. Compress makes one stream (hw/compressed_stream.h) of all its source bytes; S2M gets the stream and zeros
 * behind it, as many bytes as the metadata says. Decompress reads one stream at the beginning of its source bytes; S2M
 * gets its content, which has exactly as many bytes as the metadata says. All is read before anything is written, and
 * nothing is written if the stream is malformed or does not fit: NEURON_FAULT_DMA_STREAM, of the descriptor that has
 * the byte, with the byte's number in the stream.
 */
#define NEURON_DMA_COMPRESS 8 /* recode, behind enum neuron_dma_operation */
#define NEURON_DMA_DECOMPRESS 9
#define NEURON_DMA_META_OPERATION_SHIFT 32
#define NEURON_DMA_META_FROM_SHIFT 36
#define NEURON_DMA_META_TO_SHIFT 42
#define NEURON_DMA_META_ACC (1ull << 48)
#define NEURON_DMA_META_SOURCES_SHIFT 49
#define NEURON_DMA_META_STOCHASTIC (1ull << 53)
#define NEURON_DMA_META_REDUCTION_SHIFT 54
#define NEURON_DMA_META_MORE_SOURCES_SHIFT 56
#define NEURON_DMA_META_RESULT_MASK 0xFFFFFFFFull /* high word, recode */
#define NEURON_DMA_META_ROWS_SHIFT 32    /* high word */
#define NEURON_DMA_META_COLUMNS_SHIFT 48 /* high word */

#define NEURON_UDMA_MAX_DESC_BYTES 0x10000u
#define NEURON_UDMA_MAX_PACKET_DESCS 65
#define NEURON_UDMA_MAX_PACKET_BYTES 0xFFFFFu
#define NEURON_UDMA_RING_MIN 32
#define NEURON_UDMA_RING_MAX ((1u << 24) - 16)
#define NEURON_UDMA_RING_MULTIPLE 16
#define NEURON_UDMA_RING_ALIGN 256
#define NEURON_DMA_COMPLETION_MARKER 0xABCDEF01u

#endif
