/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Control blocks of a NeuronCore: ours, reached by 4-byte BAR, DMA and engine accesses alike. A longer write
 * is applied as words in ascending order, so that one 64-byte DMA write to an engine block configures and
 * starts the engine (read-only words are ignored in a burst). Reads of unmapped words give 0xFFFFFFFF.
 *
 * Life of a program: copied into HBM; one 64-byte write per engine block sets program base, count, entry,
 * record addresses and CONTROL=START; engines run to `wait(go >= 1)`; each launch fills the launch record and
 * increments semaphore 7; the SP program's prologue starts the others through their go semaphores, waits for
 * the done semaphore and executes `complete`, which writes the completion record.
 * "cfg" registers are writable in states IDLE, HALTED, STOPPED, FAULT only; else CTRL_BUSY is notified.
 * A deadlock (an execution has begun, has not completed and no engine or DMA can advance) writes no completion
 * record: STATUS.quiescent is then set while engines are WAITING, and their WAITING registers say for what. A
 * driver whose device runs inside its own wait call reports -EDEADLK from it.
 * CC cores (hw/address_map.h) run with the core, in its model time. While one of them waits for a semaphore of its
 * program (16 and above), or an engine for one of 8-15 or 240-255, the core awaits another core or chip, and an execution in
 * which nothing else can advance is no deadlock: STATUS.awaits. Only the host's own deadline ends it.
 */
#ifndef HW_CONTROL_H
#define HW_CONTROL_H

/* Engine block, offsets from NEURON_CORE_ENGINE(e). */
#define NEURON_ENG_ID 0x000        /* RO 0x4E0E0000 | gen << 8 | engine */
#define NEURON_ENG_STATUS 0x004    /* RO 3:0 state, 8 fault latched, 9 refused write, 10 trace dropped, 31:16 STARTs */
#define NEURON_ENG_PROG_LO 0x008   /* cfg, 128-byte aligned device address (HBM or host) */
#define NEURON_ENG_PROG_HI 0x00C
#define NEURON_ENG_PROG_COUNT 0x010 /* cfg, instructions */
#define NEURON_ENG_ENTRY 0x014      /* cfg, first PC */
#define NEURON_ENG_PREFETCH 0x018   /* cfg, reset 32 */
#define NEURON_ENG_MODE 0x01C       /* 1:0 trace, 3:2 rounding, 4 flush, 5 strict PSUM (implied in strict mode), 6 NaN check */
#define NEURON_ENG_LAUNCH_LO 0x020  /* cfg, launch record */
#define NEURON_ENG_LAUNCH_HI 0x024
#define NEURON_ENG_DONE_LO 0x028 /* cfg, completion record, 64-byte aligned */
#define NEURON_ENG_DONE_HI 0x02C
#define NEURON_ENG_EXEC_ID 0x030
#define NEURON_ENG_STEPS 0x034
#define NEURON_ENG_CONTROL 0x03C /* WO, enum neuron_engine_command */
#define NEURON_ENG_PC 0x040
#define NEURON_ENG_DEBUG 0x044
#define NEURON_ENG_RETIRED_LO 0x048 /* instructions since START; reading LO latches HI */
#define NEURON_ENG_RETIRED_HI 0x04C
#define NEURON_ENG_TIME_LO 0x050 /* model time, ps */
#define NEURON_ENG_TIME_HI 0x054
#define NEURON_ENG_WAITING 0x058  /* the unmet wait word as encoded, 0 = none */
#define NEURON_ENG_WAIT_VAL 0x05C /* that semaphore's value */
#define NEURON_ENG_BREAK0 0x060   /* 8 words: 23:0 PC, bit 31 enable */
#define NEURON_ENG_EXC_CODE 0x080 /* hw/fault.h; the first fault stays */
#define NEURON_ENG_EXC_PC 0x084
#define NEURON_ENG_EXC_DEBUG 0x088
#define NEURON_ENG_EXC_FIELD 0x08C /* 7:0 byte offset, 15:8 rule (R1-R9), 27:16 opcode */
#define NEURON_ENG_EXC_ADDR_LO 0x090
#define NEURON_ENG_EXC_ADDR_HI 0x094
#define NEURON_ENG_EXC_INFO 0x098 /* the value found in the field; semaphores: the value before; memory: bytes */
#define NEURON_ENG_EXC_CLEAR 0x09C /* write 1: clear EXC_*, FAULT -> IDLE */
#define NEURON_ENG_REG0 0x100      /* 64 registers */
#define NEURON_ENG_ACC 0x1000      /* DVE, Activation: 128 accumulators */

/* Ours, for accounting in model time (ps, 64 bits: low word, high word): time spent executing since the last
 * START or launch, and time spent waiting. Reset when semaphore 7 is consumed by the engine's own launch. */
#define NEURON_ENG_BUSY_LO 0x0A0
#define NEURON_ENG_BUSY_HI 0x0A4
/*
 * CC cores: the model time, in ps, at which the host's following increments of this CC core's semaphores take
 * effect. 0, also after a reset: when they come. The host writes it when it tells of data that a network has
 * brought, whose time the other instance knows; a chip without model time ignores it.
 */
#define NEURON_ENG_ARRIVAL_LO 0x0A8
#define NEURON_ENG_ARRIVAL_HI 0x0AC

enum neuron_engine_state {
	NEURON_STATE_IDLE = 0,
	NEURON_STATE_RUNNING = 1,
	NEURON_STATE_WAITING = 2,
	NEURON_STATE_HALTED = 3,
	NEURON_STATE_STOPPED = 4,
	NEURON_STATE_BREAK = 5,
	NEURON_STATE_FAULT = 6,
};
enum neuron_engine_command {
	NEURON_CMD_START = 1,
	NEURON_CMD_STOP = 2,
	NEURON_CMD_STEP = 3,
	NEURON_CMD_CONTINUE = 4,
	NEURON_CMD_RESET = 5,
	NEURON_CMD_ABORT = 6,
};
#define NEURON_ENG_STATUS_FAULT (1u << 8)

/* Core block, offsets from NEURON_CORE_CONTROL. */
#define NEURON_CORE_ID 0x000     /* RO 0x4E0C0000 | gen << 8 | core */
#define NEURON_CORE_CAPS 0x004   /* RO 3:0 ISA, 7:4 gen, 31:16 SBUF KiB per partition */
#define NEURON_CORE_STATUS 0x008 /* RO 4 bits per engine, 3 from 20 + 4k CC core k, 27 awaits, 31 quiescent */
#define NEURON_CORE_STATUS_AWAITS (1u << 27)    /* nothing can advance without another core or chip */
#define NEURON_CORE_STATUS_QUIESCENT (1u << 31) /* nothing can advance without the host, a core or a chip */
#define NEURON_CORE_FAULTS 0x00C /* RO bit e engine e; 5 + k CC core k; 8 DMA; 9 notification overflow */
#define NEURON_CORE_MODE 0x010   /* 0 default rounding SR, 1 flush, 2 saturate, 3 strict PSUM, 4 stop all on fault (reset 1) */
#define NEURON_CORE_SEED 0x014
#define NEURON_CORE_TIME_LO 0x018
#define NEURON_CORE_TIME_HI 0x01C
#define NEURON_CORE_FILL 0x020 /* SBUF/PSUM pattern at reset, reset value 0xFFFFFFFF (NaN) */
#define NEURON_CORE_ONE 0x024  /* RO 1: the word that a generated transfer copies to a semaphore when it is done */
#define NEURON_CORE_COMMAND 0x03C /* WO 3:0 enum neuron_engine_command, 12:8 engine mask, 13 + k CC core k */
#define NEURON_CORE_MODE_STRICT_PSUM (1u << 3)
#define NEURON_CORE_MODE_STOP_ALL (1u << 4)

/* Launch record, 64 bytes in host or HBM memory: a convention of the SP prologue, not of hardware, but
 * time_limit, work_record and pair, which the core reads when semaphore 7 is consumed. */
struct neuron_launch_record {
	unsigned int exec_id;
	unsigned int binding;
	unsigned int flags; /* NEURON_LAUNCH_* */
	unsigned int ring_entries; /* entries of the ring table */
	unsigned long long ring_table; /* device address of {u64 register, u32 value, u32 zero} entries */
	unsigned long long time_limit; /* model time in ps, 0 = none */
	unsigned long long work_record; /* device address, 64-byte aligned; 0 = none */
	unsigned long long pair; /* ours, read as time_limit is; below */
	unsigned int zero[4];
};
/* `pair`: the execution is one part of two, and its other part is on the other core of the pair (cores 2n and 2n + 1),
 * with the same number. A host takes a larger number for each launch of both; of several executions of one launch
 * each has the next one. 0 = the core works alone. Strict mode compares the accesses of both parts to device memory;
 * nothing else depends on it. */
#define NEURON_LAUNCH_REBIND 1u /* the prologue stores the ring table before it starts the engines */

/* Work record, 128 bytes: the cost of executions. Each execution that completes adds to it before its completion record
 * is written. Nothing else writes there, so a host that subtracts an earlier reading gets the cost of the executions
 * between. */
struct neuron_work_record {
	unsigned long long executions;
	unsigned long long model_ps; /* from launch to completion */
	unsigned long long collectives_ps; /* the busiest of the CC cores */
	unsigned long long engine_busy_ps[5];
	unsigned long long multiply_accumulates; /* of matmul instructions */
	unsigned long long dma_bytes; /* moved by the core's DMA engines */
	unsigned long long link_bytes; /* of these, from or to other chips */
	unsigned long long zero[5];
};

/* Completion record, 64 bytes, 64-byte aligned: written by `complete` and by a fault that stops an engine, not
 * by a deadlock. `sequence` is written last, with release order: old value + 1. */
struct neuron_completion_record {
	unsigned int sequence;
	unsigned int status; /* 0 or enum neuron_fault */
	unsigned long long start; /* model time of the launch, ps */
	unsigned long long end;
	unsigned int exec_id;
	unsigned char engine;
	unsigned char zero0[3];
	unsigned int pc;
	unsigned int debug;
	unsigned long long info; /* EXC_ADDR */
	unsigned int waiters;    /* host only: non-zero = a thread sleeps on `sequence` */
	unsigned int zero1[3];
};

#endif
