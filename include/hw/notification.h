/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Notification queues: rings that the device fills. Queue i of a block has its registers at
 * block + 0x100 + i * 0x28. The slot is fixed because the hardware knows only the slot: 0-4 trace of engine e,
 * 5 notify, 6 semaphores and events, 7 errors, 8 throttle, 9 transfers of the core's DMA engines. The entry format
 * is ours.
 *
 * A profile is these rings and nothing else: an engine whose MODE traces all (or an instruction with the trace bit)
 * writes slot 0-4, and whoever wants semaphores or transfers gives slot 6 or 9 a ring. Nothing is spent without one.
 *
 * The device writes bytes 0-27 of an entry, then the last word with release order; the host reads the last word
 * with acquire order and takes the entry if its phase bit matches the lap (1 on the first lap, toggling at each
 * wrap). Size 0 or base 0 disables the queue at once. Full = tail + 1 equals head: trace queues then drop
 * and count; the error queue keeps its last slot for an overflow entry.
 */
#ifndef HW_NOTIFICATION_H
#define HW_NOTIFICATION_H

#define NEURON_NQ_COUNT 16
#define NEURON_NQ_BASE(i) (0x100u + (i) * 0x28u)
#define NEURON_NQ_ADDRESS_LO 0x00
#define NEURON_NQ_ADDRESS_HI 0x04
#define NEURON_NQ_SIZE 0x08 /* bytes, power of two; writing resets tail, phase and drop count */
#define NEURON_NQ_HEAD 0x0C /* entries consumed modulo ring size, written by the host */
#define NEURON_NQ_TAIL 0x10
#define NEURON_NQ_MODE 0x14 /* bit 0: overwrite the oldest */
#define NEURON_NQ_DROPPED 0x18

#define NEURON_NQ_SLOT_TRACE(engine) (engine)
#define NEURON_NQ_SLOT_NOTIFY 5
#define NEURON_NQ_SLOT_SEMAPHORE 6
#define NEURON_NQ_SLOT_ERROR 7
#define NEURON_NQ_SLOT_THROTTLE 8
#define NEURON_NQ_SLOT_TRANSFER 9

enum neuron_notification_kind {
	NEURON_NK_TRACE = 1, /* time: the result is visible; info: ps since the unit began, wait ps (both at most 2^32 - 1),
				elements << 8 | performance mode (0 none, 2 and 4: as many times as fast) */
	NEURON_NK_NOTIFY = 2,
	NEURON_NK_SEMAPHORE = 3, /* info: index (bit 8 event), new value, old value; engine DMA: pc is engine << 8 | queue */
	NEURON_NK_ERROR = 4,     /* info per fault: field {offset | rule << 8 | expected << 16, value found,
				    operand 0 dst 1 src0 2 src1 3 none} (expected: WEIGHTS only, what is loaded),
				    memory {lo, hi, bytes}, semaphore {index (bit 8 event), before, operand},
				    DMA {engine << 8 | queue, ring index, address low},
				    DMA_OOB, INDEX_OOB {offset or index found, bound, address low or partition << 20 | offset},
				    CUSTOM_OPERATOR {enum neuron_operator_failure | core << 8, value, address low} */
	NEURON_NK_DMA = 5,       /* info: engine << 8 | queue, bytes, duration ps */
	NEURON_NK_THROTTLE = 6,
	NEURON_NK_COMPLETE = 7,
	NEURON_NK_OVERFLOW = 8, /* info: entries dropped */
	NEURON_NK_WAIT = 9,     /* before the trace of an instruction that waited. time: the end of the wait; info: index
				   (bit 8 event; NEURON_WAITED_FOR_DMA: the engine's own transfers), wait ps low, high */
	NEURON_NK_TRANSFER = 10, /* slot 9; time: the end; engine, pc, debug, opcode: the instruction that rang; code:
				    packets but one that writes a register; info: CC core that rang << 24 | places << 16 | engine << 8 |
				    queue, bytes read, duration ps */
};

struct neuron_notification {
	unsigned long long time; /* model time, ps */
	unsigned int pc;
	unsigned int debug;
	unsigned int info[3];
	unsigned int word; /* 0 phase | 4:1 kind | 8:5 engine | 16:9 fault code or update op | 28:17 opcode | 31:29 zero */
};
#define NEURON_WAITED_FOR_DMA 0x200u
/* Places of a transfer: four bits of what it reads, then four of what it writes. Registers do not count. */
#define NEURON_PLACE_HBM 1u
#define NEURON_PLACE_CORE 2u  /* SBUF, PSUM */
#define NEURON_PLACE_HOST 4u
#define NEURON_PLACE_OTHER 8u /* another chip */
#define NEURON_PLACE_WRITE_SHIFT 4
#define NEURON_NOTIFICATION_BYTES 32
#define NEURON_NW_KIND_SHIFT 1
#define NEURON_NW_ENGINE_SHIFT 5
#define NEURON_NW_CODE_SHIFT 9
#define NEURON_NW_OPCODE_SHIFT 17

#endif
