/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Fault codes of sequencers and DMA queues, as latched in EXC_CODE, carried by error notifications and
 * written to completion records. A fault stops its engine before the faulting instruction has had any
 * effect; (W) marks warnings, which are only notified.
 */
#ifndef HW_FAULT_H
#define HW_FAULT_H

enum neuron_fault {
	NEURON_FAULT_NONE = 0x00,
	NEURON_FAULT_ISA_VERSION = 0x01,
	NEURON_FAULT_ILLEGAL_OPCODE = 0x02,
	NEURON_FAULT_WRONG_ENGINE = 0x03,
	NEURON_FAULT_WRONG_GENERATION = 0x04,
	NEURON_FAULT_ILLEGAL_FIELD = 0x05,
	NEURON_FAULT_OP_NOT_ALLOWED = 0x06,
	NEURON_FAULT_OPERAND_RANGE = 0x08,     /* pattern leaves the partition or bank */
	NEURON_FAULT_OPERAND_PARTITION = 0x09, /* rule R1 */
	NEURON_FAULT_OPERAND_DTYPE = 0x0A,
	NEURON_FAULT_OPERAND_SPACE = 0x0B, /* rule R5 */
	NEURON_FAULT_OPERAND_SHAPE = 0x0C,
	NEURON_FAULT_PSUM_UNDEFINED = 0x0D, /* accumulation onto PSUM that PE did not write */
	NEURON_FAULT_PSUM_COLLISION = 0x0E, /* strict: RACE of two writes to PSUM */
	NEURON_FAULT_WEIGHTS = 0x0F, /* matmul without loaded weights, or K differs */
	NEURON_FAULT_PC_RANGE = 0x10,
	NEURON_FAULT_LOOP_DEPTH = 0x11,
	NEURON_FAULT_LOOP_NEST = 0x12,
	NEURON_FAULT_FETCH = 0x13,
	NEURON_FAULT_CODE_WRITE = 0x14,
	NEURON_FAULT_DIVIDE = 0x15,
	NEURON_FAULT_SEM_OVERFLOW = 0x18,
	NEURON_FAULT_SEM_UNDERFLOW = 0x19,
	NEURON_FAULT_EVENT_DOUBLE = 0x1A,
	NEURON_FAULT_ABORTED = 0x1B,
	NEURON_FAULT_DEADLOCK = 0x1C,   /* reserved for drivers: no device writes it (hw/control.h) */
	NEURON_FAULT_TIME_LIMIT = 0x1D, /* model-time limit of the launch record */
	NEURON_FAULT_BUS = 0x20,
	NEURON_FAULT_LINK = 0x21,
	NEURON_FAULT_NC_UE = 0x22,
	NEURON_FAULT_HBM_UE = 0x23,
	NEURON_FAULT_HBM_UE_REPAIRABLE = 0x24,
	NEURON_FAULT_DMA_DESC = 0x28, /* malformed or unsupported descriptor */
	NEURON_FAULT_DMA_BUS = 0x29,  /* address of a descriptor unmapped */
	NEURON_FAULT_DMA_OOB = 0x2A,
	NEURON_FAULT_DMA_RING = 0x2B, /* doorbell beyond ring, queue not set up, packet > 65 */
	NEURON_FAULT_INDEX_OOB = 0x2C,
	NEURON_FAULT_DMA_ENGINE = 0x2D, /* the DMA engine failed on a descriptor that is right */
	NEURON_FAULT_DMA_STREAM = 0x2E, /* compressed bytes are malformed, or do not fit */
	NEURON_FAULT_NUMERIC_NAN = 0x30, /* W */
	NEURON_FAULT_DOMAIN = 0x31,      /* W; strict: a fault */
	NEURON_FAULT_UNINITIALISED = 0x32, /* strict: bytes were read that nothing has written */
	NEURON_FAULT_RACE = 0x33,          /* strict: two accesses of shared bytes, one a write, without order */
	NEURON_FAULT_CUSTOM_OPERATOR = 0x34,   /* a custom operator failed: enum neuron_operator_failure (hw/custom_operator.h) */
	NEURON_FAULT_NQ_OVERFLOW = 0x38,
	NEURON_FAULT_CTRL_BUSY = 0x39, /* W: refused register write */
	NEURON_FAULT_CC_TIMEOUT = 0x3A,
	NEURON_FAULT_INTERNAL = 0x40, /* a bug of the model */
};

/*
 * Strict mode of an emulated device (NEURON_EMULATOR_STRICT, default on) raises PSUM_UNDEFINED, PSUM_COLLISION,
 * DOMAIN, UNINITIALISED and RACE about two instructions. The entry, PC and engine of the error notification are
 * those of the first, whose access was refused. Its info words, which are also EXC_ADDR_LO, EXC_ADDR_HI and
 * EXC_INFO of the engine, and info (words 0, 1) of the completion record, are:
 *   word 0, where: 19:0 byte in the partition (DOMAIN: element of the operand) | 26:20 partition | 27 PSUM |
 *     28 the first instruction writes there | 29 the second has written | 30 the first is a DMA transfer |
 *     31 the second is
 *   word 1, the second: 23:0 its PC, of a transfer the PC of what rang the doorbell | 27:24 its engine, 8 = the
 *     host, another core | 28 there is one | 29 RACE: it is a transfer in flight, which is still to write there |
 *     30 the race is in device memory, and the second is of the other core of the pair (below) | 31 zero
 *   word 2: DOMAIN: the input, fp32 | UNINITIALISED: where the second has written, as 27:0 of word 0 | else
 *     7:0 queue and DMA engine << 4 of the first, 15:8 of the second
 * With bit 30 of word 1, 27:0 of word 0 are bits 27:0 of the device address of the first byte that both access, and
 * word 2 is its bits 59:28.
 */
#define NEURON_STRICT_PARTITION_SHIFT 20
#define NEURON_STRICT_PLACE_MASK 0xFFFFFu
#define NEURON_STRICT_PSUM (1u << 27)
#define NEURON_STRICT_WRITES (1u << 28)
#define NEURON_STRICT_OTHER_WROTE (1u << 29)
#define NEURON_STRICT_DMA (1u << 30)
#define NEURON_STRICT_OTHER_DMA (1u << 31)
#define NEURON_STRICT_PC_MASK 0xFFFFFFu
#define NEURON_STRICT_ENGINE_SHIFT 24
#define NEURON_STRICT_OTHER (1u << 28)
#define NEURON_STRICT_PENDING (1u << 29)
#define NEURON_STRICT_PEER (1u << 30)
#define NEURON_STRICT_ADDRESS_BITS 28
#define NEURON_STRICT_ADDRESS_MASK 0xFFFFFFFu

#endif
