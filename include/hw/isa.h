/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Instruction set of a NeuronCore sequencer, version 1: what the bytes of an instruction mean.
 *
 * This encoding is ours (no public one exists); the semantics of the operations follow the public NKI
 * ISA documentation. Every instruction is 128 bytes, little endian:
 *
 *   00-03 head       opcode and flags            20-37 dst    operand 0
 *   04-07 debug      line-table id, 0 = none     38-4F src0   operand 1
 *   08-0B wait0      both waits must hold        50-67 src1   operand 2, or a pattern
 *   0C-0F wait1                                  68-6F scalar0
 *   10-13 update0    applied in order 0, 1       70-77 scalar1
 *   14-17 update1                                78-7F op     operation word of the opcode's group
 *   18-1F bind       four 16-bit register bindings
 *
 * Groups control, flow and DMA overlay bytes 20-67 (and scalars, op where a body table says so) with a
 * body of their own. A bit that belongs to no field must be zero, an operand slot that the opcode does
 * not use must be all zero, an enum value that is not listed here is illegal: NEURON_FAULT_ILLEGAL_FIELD
 * with the byte offset. Checks run when the instruction issues and no side effect precedes them.
 * PC counts instructions. Fields are described bit by bit beside their constants below.
 */
#ifndef HW_ISA_H
#define HW_ISA_H

#ifdef __cplusplus
extern "C" {
#endif

#define NEURON_ISA_VERSION 1
#define NEURON_INSTRUCTION_BYTES 128
#define NEURON_REGISTERS 64    /* 32-bit registers of one sequencer */
#define NEURON_LOOP_LEVELS 8   /* nested hardware loops */
#define NEURON_CALL_LEVELS 8   /* return addresses */
#define NEURON_PROGRAM_MAX (1u << 24) /* instructions in one program */

/* Byte offsets of the frame. */
#define NEURON_INST_HEAD 0x00
#define NEURON_INST_DEBUG 0x04
#define NEURON_INST_WAIT0 0x08
#define NEURON_INST_WAIT1 0x0C
#define NEURON_INST_UPDATE0 0x10
#define NEURON_INST_UPDATE1 0x14
#define NEURON_INST_BIND 0x18
#define NEURON_INST_DST 0x20
#define NEURON_INST_SRC0 0x38
#define NEURON_INST_SRC1 0x50
#define NEURON_INST_SCALAR0 0x68
#define NEURON_INST_SCALAR1 0x70
#define NEURON_INST_OP 0x78

/* Engines: the number is the index of the engine block, the go semaphore and the head's engine bit. */
enum neuron_engine {
	NEURON_ENGINE_PE = 0,
	NEURON_ENGINE_ACTIVATION = 1,
	NEURON_ENGINE_POOL = 2,
	NEURON_ENGINE_DVE = 3,
	NEURON_ENGINE_SP = 4,
	NEURON_ENGINE_CC = 5,
	NEURON_ENGINE_HOST = 8, /* only in notification entries: host or AXI */
	NEURON_ENGINE_DMA = 9,  /* only in notification entries */
};
#define NEURON_CORE_ENGINES 5

/* head: 11:0 opcode | 15:12 isa version | 21:16 engine mask | 23:22 zero | 24 trace | 25 break |
 * 26 drain (issue after all earlier work of this engine, DMA included) | 27 nan | 29:28 rounding
 * (0 core mode, 1 nearest even, 2 stochastic, 3 illegal) | 31:30 size (0). */
#define NEURON_HEAD_OPCODE_MASK 0xFFFu
#define NEURON_HEAD_ISA_SHIFT 12
#define NEURON_HEAD_ENGINES_SHIFT 16
#define NEURON_HEAD_ENGINES_MASK 0x3Fu
#define NEURON_HEAD_TRACE (1u << 24)
#define NEURON_HEAD_BREAK (1u << 25)
#define NEURON_HEAD_DRAIN (1u << 26)
#define NEURON_HEAD_NAN (1u << 27)
#define NEURON_HEAD_ROUND_SHIFT 28
#define NEURON_HEAD_SIZE_SHIFT 30

/* wait: 7:0 index | 10:8 condition | 11 event | 12 register | 15:13 zero | 31:16 value or register. */
enum neuron_wait_condition {
	NEURON_WAIT_NONE = 0,
	NEURON_WAIT_GE = 1,
	NEURON_WAIT_EQ = 2,
	NEURON_WAIT_GT = 3,
	NEURON_WAIT_LE = 4,
	NEURON_WAIT_LT = 5,
	NEURON_WAIT_NE = 6,
};
/* update: 7:0 index | 10:8 operation | 11 when (0 at read of last input, 1 at completion) |
 * 12 register | 15:13 zero | 31:16 operand of add, sub, write. */
enum neuron_update_operation {
	NEURON_UPDATE_NONE = 0,
	NEURON_UPDATE_INC = 1,
	NEURON_UPDATE_DEC = 2,
	NEURON_UPDATE_ADD = 3,
	NEURON_UPDATE_SUB = 4,
	NEURON_UPDATE_WRITE = 5,
	NEURON_UPDATE_EVENT_SET = 6,
	NEURON_UPDATE_EVENT_CLEAR = 7,
};
#define NEURON_SEM_SLOT_EVENT (1u << 11) /* wait word */
#define NEURON_SEM_SLOT_WHEN (1u << 11)  /* update word */
#define NEURON_SEM_SLOT_REG (1u << 12)

/* Semaphores: 256, value 0..2^31-1. Events: 256, 0 or 1. By convention: */
#define NEURON_SEMAPHORES 256
#define NEURON_EVENTS 256
#define NEURON_SEMAPHORE_MAX 0x7FFFFFFF
#define NEURON_SEM_GO(engine) (engine) /* 0-4 "go" of an engine */
#define NEURON_SEM_DONE 5
#define NEURON_SEM_ABORT 6
#define NEURON_SEM_LAUNCH 7
#define NEURON_SEM_PROGRAM_FIRST 16 /* 16-239 belong to the program, by name in files */
#define NEURON_SEM_PROGRAM_LAST 239
#define NEURON_SEM_CC_FIRST 240      /* 240-255 belong to collectives */
#define NEURON_SEM_CC_DONE(k) (240 + (k)) /* CC core k has done what it was asked; 243-255 free */
/* Of a CC core's own 256: 0 is its go (cc_trigger increments it), 1-15 are reserved, 16-255 its program's. */
#define NEURON_CC_SEM_GO 0
#define NEURON_CC_SEM_PROGRAM_FIRST 16

/* operand (192 bits): 19:0 base (byte offset in the partition) | 27:20 start partition | 35:28 partitions |
 * 41:36 dtype | 43:42 space | 46:44 free dimensions 1..4 | 47 saturate (destination) | 48 indirect (gen 4) |
 * 53:49 exponent bias of f8 | 63:54 zero | then per dimension d = 0 (innermost) .. 3, 32 bits each at bit
 * 64 + 32 d: size (u16), step (i16, in elements, 0 = broadcast). Unused dimensions have size = step = 0.
 * An indirect operand has one free dimension, of step 1: size 0 is the number n of elements. Element i of partition p is
 * the element of base[p] at the offset (in elements, from base on) that the index tile in SBUF has in its partition
 * p / G * G + i % G, column i / G; G = 32 of PE, 16 of the other engines. Sources gather, the destination scatters.
 * Dimension 3 says where the index is (the encoding is ours): step = bits 15:0 of its byte offset in the partition |
 * size 1:0 bits 17:16 of that offset, 3:2 its start partition / 32, 9:4 its dtype (u16, i32, u32), 15:10 zero. */
#define NEURON_OPERAND_BYTES 24
#define NEURON_INDEX_GROUP 16    /* partitions that share their offsets */
#define NEURON_PE_INDEX_GROUP 32 /* the same on PE */
enum neuron_space { NEURON_SPACE_ABSENT = 0, NEURON_SPACE_SBUF = 1, NEURON_SPACE_PSUM = 2 };

enum neuron_dtype {
	NEURON_DTYPE_NONE = 0,
	NEURON_DTYPE_U64 = 1,
	NEURON_DTYPE_I8 = 2,
	NEURON_DTYPE_U8 = 3,
	NEURON_DTYPE_I16 = 4,
	NEURON_DTYPE_U16 = 5,
	NEURON_DTYPE_BF16 = 6,
	NEURON_DTYPE_F16 = 7,
	NEURON_DTYPE_I32 = 8,
	NEURON_DTYPE_U32 = 9,
	NEURON_DTYPE_F32 = 10,
	NEURON_DTYPE_F32R = 11,
	NEURON_DTYPE_I64 = 12,
	NEURON_DTYPE_F8E3 = 13,
	NEURON_DTYPE_F8E4 = 14,
	NEURON_DTYPE_F8E5 = 15,
	NEURON_DTYPE_TF32 = 16,
	NEURON_DTYPE_F8E4FN = 17,  /* gen 4 */
	NEURON_DTYPE_E8M0 = 18,    /* gen 4 */
	NEURON_DTYPE_F4X4 = 19,    /* gen 4, 16 bits */
	NEURON_DTYPE_F8E5X4 = 20,  /* gen 4 */
	NEURON_DTYPE_F8E4FNX4 = 21 /* gen 4 */
};

/* bind (16 bits): 5:0 register | 9:6 item | 11:10 operand (0 dst, 1 src0, 2 src1) | 14:12 mode | 15 zero. */
enum neuron_bind_item {
	NEURON_BIND_BASE = 0,
	NEURON_BIND_PARTS = 1,
	NEURON_BIND_START = 2,
	NEURON_BIND_SCALAR = 3, /* operand 0, 1: scalar0, scalar1; 2: op bits 63:32 */
	NEURON_BIND_SIZE0 = 4,
	NEURON_BIND_STEP0 = 8,
};
enum neuron_bind_mode {
	NEURON_BIND_UNUSED = 0,
	NEURON_BIND_REPLACE = 1,
	NEURON_BIND_ADD = 2,
	NEURON_BIND_ADD_ELEMENTS = 3, /* register x element size */
	NEURON_BIND_ADD_PAIR = 4,     /* 64-bit pair: even register low, next high; device addresses only */
};

/* scalar (64 bits): 31:0 value (immediate bits, byte offset in the partition, or register number) |
 * 33:32 kind | 39:34 dtype | 41:40 space (pointer) | 48:42 start partition (pointer) | 63:49 zero. */
enum neuron_scalar_kind {
	NEURON_SCALAR_ABSENT = 0,
	NEURON_SCALAR_IMMEDIATE = 1,
	NEURON_SCALAR_POINTER = 2, /* to [partitions of dst, 1] */
	NEURON_SCALAR_REGISTER = 3,
};

/* ALU operations (6 bits). 24-30: bit operations. mod: of registers the dividend's sign, of tensors the divisor's. */
enum neuron_alu {
	NEURON_ALU_BYPASS = 0,
	NEURON_ALU_ADD = 1,
	NEURON_ALU_SUB = 2,
	NEURON_ALU_MUL = 3,
	NEURON_ALU_MAX = 4,
	NEURON_ALU_MIN = 5,
	NEURON_ALU_ABS_MAX = 6,
	NEURON_ALU_ABS_MIN = 7,
	NEURON_ALU_DIV = 8,
	NEURON_ALU_MOD = 9,
	NEURON_ALU_POW = 10,
	NEURON_ALU_AVERAGE = 11,
	NEURON_ALU_EQ = 12,
	NEURON_ALU_NE = 13,
	NEURON_ALU_GT = 14,
	NEURON_ALU_GE = 15,
	NEURON_ALU_LT = 16,
	NEURON_ALU_LE = 17,
	NEURON_ALU_LOGICAL_AND = 18,
	NEURON_ALU_LOGICAL_OR = 19,
	NEURON_ALU_LOGICAL_XOR = 20,
	NEURON_ALU_AND = 24,
	NEURON_ALU_OR = 25,
	NEURON_ALU_XOR = 26,
	NEURON_ALU_NOT = 27,
	NEURON_ALU_SHL = 28,
	NEURON_ALU_SHR_LOGICAL = 29,
	NEURON_ALU_SHR_ARITH = 30,
	NEURON_ALU_ABS = 32,
	NEURON_ALU_SQUARE = 33,
	NEURON_ALU_RELU = 34,
	NEURON_ALU_RSQRT = 35,
	NEURON_ALU_RECIPROCAL = 36,
};

/* Activation functions (8 bits); 128-255 name loaded tables. */
enum neuron_activation {
	NEURON_ACT_COPY = 0,
	NEURON_ACT_SQUARE = 1,
	NEURON_ACT_SIGMOID = 2,
	NEURON_ACT_RELU = 3,
	NEURON_ACT_PRELU = 4,
	NEURON_ACT_GELU = 5,
	NEURON_ACT_GELU_DX = 6,
	NEURON_ACT_GELU_TANH = 7,
	NEURON_ACT_GELU_SIGMOID = 8,
	NEURON_ACT_GELU_SIGMOID_DX = 9,
	NEURON_ACT_SILU = 10,
	NEURON_ACT_SILU_DX = 11,
	NEURON_ACT_TANH = 12,
	NEURON_ACT_SOFTPLUS = 13,
	NEURON_ACT_MISH = 14,
	NEURON_ACT_ERF = 15,
	NEURON_ACT_ERF_DX = 16,
	NEURON_ACT_EXP = 17,
	NEURON_ACT_SIGN = 18,
	NEURON_ACT_ABS = 19,
	NEURON_ACT_LOG = 20,
	NEURON_ACT_SIN = 21,
	NEURON_ACT_ARCTAN = 22,
	NEURON_ACT_SQRT = 23,
	NEURON_ACT_RSQRT = 24,
	NEURON_ACT_RECIPROCAL = 25,
};

/* op.vector: 5:0 op0 | 11:6 op1 | 12 rev0 | 13 rev1 | 19:14 reduce op | 22:20 reduce command | 23 negate |
 * 26:24 axes (trailing dimensions reduced, 1..4) | 27 invert | 31:28 zero | 63:32 imm.
 * op.act: 7:0 function | 15:8 table set | 21:16 reduce op | 24:22 reduce command | 27:25 pre (enum neuron_act_pre) |
 * 28 rev0 | 29 rev1 | 31:30 zero | 63:32 param (fp32).
 * op.pe: 1:0 row/32 | 3:2 column/32 | 5:4 rows (0=128, 1=64, 2=32) | 7:6 columns | 10:8 mode (0 plain) |
 * 11 accumulate | 12 swap (the shadow stationary becomes active first) | 13 onezero moving |
 * 14 onezero stationary | 16:15 quarter of the scale rows (mx) | 63:17 zero.
 * Modes: 0 plain, 1 double_row (both matrices f8 with an outermost dimension of 2; dst = the sum of the two products).
 * op.pool: 5:0 op0 (comparison or reduction) | 11:6 zero | 15:12 log2 of the elements per index | 31:16 count (valid
 * indices, K of topk) | 63:32 imm (channel multiplier, elements of topk, operator number).
 * op.flow: 5:0 rd | 11:6 ra | 17:12 rb | 18 imm (scalar0 instead of rb) | 24:19 alu | 27:25 condition |
 * 28 unsigned | 31:29 zero | 63:32 target (signed instructions, relative to this instruction). */
enum neuron_reduce_command {
	NEURON_REDUCE_IDLE = 0,
	NEURON_REDUCE_RESET = 1,
	NEURON_REDUCE_ACCUMULATE = 2,
	NEURON_REDUCE_RESET_ACCUMULATE = 3,
	NEURON_REDUCE_LOAD_ACCUMULATE = 4,
};
/* Steps of activate2: (a * s0) + s1, and so on. rev0, rev1: the scalar is the left operand. */
enum neuron_act_pre {
	NEURON_PRE_NONE = 0,
	NEURON_PRE_MUL = 1,
	NEURON_PRE_ADD = 2,
	NEURON_PRE_SUB = 3,
	NEURON_PRE_MUL_ADD = 4,
	NEURON_PRE_MUL_SUB = 5,
};
/* op.pe mode of ldweights_sparse and matmul_sparse: S of D. S compressed rows, of neighbouring partitions, stand for D
 * dense ones; the moving matrix has D / S slots in each of these partitions. Element m of the stationary matrix has a
 * position of 4 bits, bits 4 (m mod 4) of word m / 4 of src1: it is dense row `position` of its S partitions, in
 * partition position / slots, slot position mod slots. Positions of one column are different. The product is that of the
 * dense matrix with zeros elsewhere. */
enum neuron_sparsity {
	NEURON_SPARSE_4_OF_16 = 0,
	NEURON_SPARSE_4_OF_12 = 1,
	NEURON_SPARSE_4_OF_8 = 2,
	NEURON_SPARSE_2_OF_8 = 3,
	NEURON_SPARSE_2_OF_4 = 4,
	NEURON_SPARSE_1_OF_4 = 5,
	NEURON_SPARSE_1_OF_2 = 6,
};
#define NEURON_PE_PLAIN 0
#define NEURON_PE_DOUBLE_ROW 1
enum neuron_branch_condition {
	NEURON_BRANCH_ALWAYS = 0,
	NEURON_BRANCH_EQ = 1,
	NEURON_BRANCH_NE = 2,
	NEURON_BRANCH_LT = 3,
	NEURON_BRANCH_LE = 4,
	NEURON_BRANCH_GT = 5,
	NEURON_BRANCH_GE = 6,
};

/* Opcodes: group in 11:8, number in 7:0. In brackets the engines; a = src0, b = src1, s0/s1 scalars. */
enum neuron_opcode {
	/* 0: control [all] */
	NEURON_OP_NOP = 0x000,
	NEURON_OP_HALT = 0x001,     /* state HALTED, PC stays */
	NEURON_OP_DRAIN = 0x002,    /* completes when all earlier work of the engine did */
	NEURON_OP_EVENT = 0x003,    /* waits and updates only */
	NEURON_OP_WRITE = 0x004,    /* store s0 (32 bits) `count` times from addr, `stride` apart; body.address */
	NEURON_OP_NOTIFY = 0x005,   /* notification entry with s0, s1 */
	NEURON_OP_COMPLETE = 0x006, /* write the completion record with status s0 */
	NEURON_OP_BRK = 0x007,
	NEURON_OP_MODE = 0x008, /* MODE bits of this engine: s0 value, s1 mask */
	NEURON_OP_ORDER = 0x009,
	NEURON_OP_BARRIER = 0x00A, /* gen 3; body of a pair, below: goes on when the other core is here, too */
	/* 1: registers and flow [all] */
	NEURON_OP_MOV = 0x100,    /* rd = s0 */
	NEURON_OP_ALU = 0x101,    /* rd = ra alu (rb or s0), 32-bit wrapping */
	NEURON_OP_LOAD = 0x102,   /* rd = 32 bits at device address; body.address */
	NEURON_OP_STORE = 0x103,  /* 32 bits at device address = ra; body.address */
	NEURON_OP_BRANCH = 0x104, /* compare ra with rb or s0, relative target */
	NEURON_OP_LOOP = 0x105,   /* body.loop */
	NEURON_OP_CALL = 0x106,
	NEURON_OP_RET = 0x107,
	NEURON_OP_SEM = 0x108,   /* rd = value of semaphore s0 */
	NEURON_OP_TIME = 0x109,  /* rd, rd+1 = model time in ps */
	NEURON_OP_IDENT = 0x10A, /* rd = s0: 0 core, 1 chip, 2 rank, 3 generation */
	/* 2: PE */
	NEURON_OP_LDWEIGHTS = 0x200, /* a = stationary [K partitions, M] -> shadow weights */
	NEURON_OP_MATMUL = 0x201,    /* dst = PSUM [M, N], a = moving [K, N] */
	NEURON_OP_TRANSPOSE = 0x202, /* dst = PSUM, a = data; the weights are not disturbed */
	NEURON_OP_LDWEIGHTS_MX = 0x203, /* gen 4: a = stationary [K, M] of x4 types, b = its scales */
	NEURON_OP_MATMUL_MX = 0x204,    /* gen 4: dst = PSUM [M, N], a = moving [K, N] of x4 types, b = its scales */
	NEURON_OP_LDWEIGHTS_SPARSE = 0x205, /* gen 3: a = compressed stationary [K, M], b = its positions, u16 [K, M / 4] */
	NEURON_OP_MATMUL_SPARSE = 0x206,    /* gen 3: dst = PSUM [M, N], a = moving [K, slots, N] */
	/* 3: vector and shared */
	NEURON_OP_TENSOR_TENSOR = 0x300, /* [DVE Pool] dst = a op0 b */
	NEURON_OP_TENSOR_SCALAR = 0x301, /* [DVE Pool; Act gen 3] dst = (a op0 s0) op1 s1 */
	NEURON_OP_SCALAR_TENSOR_TENSOR = 0x302,
	NEURON_OP_TENSOR_SCALAR_REDUCE = 0x303, /* [DVE] dst = a op0 s0; accumulator: dst by rop, rcmd; initial s1 */
	NEURON_OP_TENSOR_SCALAR_CUMULATIVE = 0x304, /* [DVE] reg = op1(op0(a, s0), reg), dst = reg; initial s1 by rcmd */
	NEURON_OP_TENSOR_REDUCE = 0x305, /* [DVE] dst = reduce(a, rop, axes) */
	NEURON_OP_TENSOR_TENSOR_SCAN = 0x306, /* [DVE] s = op1(op0(a[i], s), b[i]), dst[i] = s; s0 = initial */
	NEURON_OP_TENSOR_COPY = 0x307,   /* [DVE Pool] dst = a, cast */
	NEURON_OP_COPY_PREDICATED = 0x308, /* [DVE] where b: dst = a (or s0 if a is absent); invert: where not b */
	NEURON_OP_SELECT_REDUCE = 0x309, /* [DVE] gen 3: dst = b is not 0 (invert: is 0) ? a : s0; accumulator: max of dst */
	NEURON_OP_RANGE_SELECT = 0x30A,  /* [DVE] gen 3: x = imm (f32) + number of the element; dst = x op0 s0 and x op1 s1
	                                    ? a : the lowest finite f32; accumulator: max of dst */
	NEURON_OP_RECIPROCAL = 0x30B,    /* [DVE] dst = 1 / a */
	NEURON_OP_EXPONENTIAL = 0x30C,   /* [DVE] gen 4: dst = exp(a - s0), absent s0 = 0; accumulator: its sum, initial s1 */
	NEURON_OP_BN_STATS = 0x30D,      /* [DVE] dst[P,6] = count, mean, var * count of even, then odd elements */
	NEURON_OP_BN_AGGR = 0x30E,       /* [DVE] dst[P,2] = mean, variance of a's triples */
	NEURON_OP_MAX8 = 0x30F,          /* [DVE] dst[P,8] = the 8 largest of a, descending */
	NEURON_OP_FIND_INDEX8 = 0x310,   /* [DVE] dst[P,8] = where in a the values b[P,8] first occur */
	NEURON_OP_MATCH_REPLACE8 = 0x311, /* [DVE] dst = a with the first of each s0 -> values[P,8] replaced by imm;
	                                     s1 -> u32 or u16 [P,8] of the indices, optional */
	NEURON_OP_STREAM_SHUFFLE = 0x312, /* [DVE] per quadrant dst[i] = a[mask[i]]; body.stream_shuffle */
	NEURON_OP_TRANSPOSE32 = 0x313,   /* [DVE] dst = 32 x 32 blocks of a, each transposed in its place; or one
	                                    smaller block [P, N] to [N, P] */
	NEURON_OP_DROPOUT = 0x314,       /* [DVE] dst = a or 0, dropped with probability s0; invert: kept with it */
	NEURON_OP_MEMSET = 0x315,        /* [DVE Pool] dst = imm bits */
	NEURON_OP_RNG = 0x316,           /* [DVE] dst = random bits, the low ones of a 32-bit word per element */
	NEURON_OP_SET_RNG_SEED = 0x317,  /* [DVE] a[1,1] u32 = seed of rng and dropout */
	NEURON_OP_RAND_SET_STATE = 0x318, /* [Pool gen 3, DVE gen 4] a = XORWOW states, u32: [P,6] on Pool, [P,24] on DVE */
	NEURON_OP_RAND_GET_STATE = 0x319, /* [Pool gen 3, DVE gen 4] dst = the states */
	NEURON_OP_RAND2 = 0x31A,          /* [DVE] gen 4: dst = uniform in [s0, s1] */
	NEURON_OP_QUANTIZE_MX = 0x31B,    /* [DVE] gen 4: dst = elements of a, x4 types; b = their scales, a destination;
	                                     imm = quarter of the scale rows */
	NEURON_OP_READ_ACC = 0x31C,      /* [DVE Act] dst[P,1] = accumulator */
	/* 4: Activation */
	NEURON_OP_ACTIVATE = 0x400, /* dst = func(a * s0 + s1); absent s0 = 1, s1 = 0 */
	NEURON_OP_ACTIVATE2 = 0x401, /* gen 4: dst = func((a step0 s0) step1 s1), steps by op.act pre */
	NEURON_OP_LOAD_TABLE = 0x403, /* table set op.set from device memory; body.address */
	/* 5: Pool; op.vector with op0, axes unused */
	NEURON_OP_IOTA = 0x500, /* dst = s0 + partition * imm + pattern */
	NEURON_OP_AFFINE_SELECT = 0x501,    /* dst = (s1 + partition * imm + pattern) op0 0 ? a : s0 */
	NEURON_OP_PARTITION_REDUCE = 0x502, /* dst[1, n] = op0 over the partitions of a */
	NEURON_OP_LOCAL_GATHER = 0x503,     /* per 16 partitions: index i = b at partition i % 16, column i / 16; dst =
	                                       the elements of a from index i on, `elements` of them, for i < count */
	NEURON_OP_N_GATHER = 0x504,         /* dst[p, i] = a[p, b[p, i]] */
	NEURON_OP_SEQUENCE_BOUNDS = 0x505,  /* dst[1, 2, n] = start and end of the segment of each element of a */
	NEURON_OP_TOPK = 0x507, /* per 16 partitions, element e at partition e % 16, column e / 16: dst = the count largest
	                           of the first imm elements of a, ascending; b = their numbers e, a destination (u16, u32) */
	NEURON_OP_NONZERO_WITH_COUNT = 0x506, /* gen 3: in partitions 0, 16, ..: dst[T+1] = s0 + the places of the elements of
	                                         a[T] that are not 0, then imm, last how many they are */
	NEURON_OP_SENDRECV = 0x508, /* gen 3; body of a pair, below: dst = a of the other core of the pair */
	NEURON_OP_CUSTOM = 0x509,           /* operator imm of those that the device registers */
	NEURON_OP_CUSTOM_OPERATOR = 0x50A,  /* the C++ function of the call table at addr (hw/custom_operator.h); body.address */
	/* 6: DMA [all] */
	NEURON_OP_DMA_TRIGGER = 0x600, /* ring the doorbells of prepared rings; body.dma_trigger */
	NEURON_OP_DMA_GENERATE = 0x601, /* [Pool; SP, Act gen 3] descriptors from a pattern; body.dma_generate */
	NEURON_OP_DMA_GATHER = 0x602,   /* [Pool] rows of HBM -> SBUF by index; body.dma_indirect */
	NEURON_OP_DMA_SCATTER = 0x603,  /* [Pool] SBUF -> rows of HBM by index; body.dma_indirect */
	/* 7: collectives */
	NEURON_OP_CC_TRIGGER = 0x700, /* [all] `write`; counts as collective in traces */
	NEURON_OP_CC_ADVANCE = 0x701, /* [CC] marks one step of a collective in traces: s0 step, s1 peer */
};

/* body.address (96 bytes from 0x20), also of load and store:
 * 00-07 device address, 4-byte aligned (bind operand 0, item base) | 08-0B stride | 0C-0D count 1..65535 |
 * 0E-47 zero | then scalar0, scalar1, op.flow in their usual places (0x68, 0x70, 0x78). */
#define NEURON_ADDRESS_ADDR 0x20
#define NEURON_ADDRESS_STRIDE 0x28
#define NEURON_ADDRESS_COUNT 0x2C
/* body.loop: 00-03 step (> 0) | 04-07 length (instructions in the body, directly behind) | 08-47 zero |
 * scalar0 = start | scalar1 = end (exclusive, evaluated once) | op.flow rd = induction register. */
#define NEURON_LOOP_STEP 0x20
#define NEURON_LOOP_LENGTH 0x24
/* body.dma_trigger (from 0x20): 00-07 tail-increment register of the M2S queue on DMA engine 0 of the set |
 * 08-0F the same of S2M | 10-13 distance of DMA engines | 14-15 mask of engines | 16 queue | 17 zero |
 * 18-1B block id for traces | 1C-1F zero | 20-3F descriptors per engine M2S, 16 x u16 | 40-5F S2M.
 * All S2M doorbells are written first, then all M2S. */
#define NEURON_DMA_TRIGGER_M2S 0x20
#define NEURON_DMA_TRIGGER_S2M 0x28
#define NEURON_DMA_TRIGGER_STRIDE 0x30
#define NEURON_DMA_TRIGGER_MASK 0x34
#define NEURON_DMA_TRIGGER_QUEUE 0x36
#define NEURON_DMA_TRIGGER_BLOCK 0x38
#define NEURON_DMA_TRIGGER_M2S_COUNT 0x40
#define NEURON_DMA_TRIGGER_S2M_COUNT 0x60

/* body.stream_shuffle: 00-17 dst | 18-2F src0 | 30-4F mask, 32 bytes; 255 = the row of dst stays | 50-57 zero |
 * 58-5F op (zero). The mask covers scalar0 and scalar1. */
#define NEURON_SHUFFLE_MASK 0x50
#define NEURON_SHUFFLE_ROWS 32
#define NEURON_SHUFFLE_KEEP 255
/* body.dma_generate: 00-07 to (device address; bind operand 0, item base) | 08-27 to dimensions, 4 x { u32 size,
 * i32 step in bytes }, innermost first, unused 0; size 0 counts elements of to_type | 28-2F from (bind operand 1) |
 * 30-4F from dimensions | 50-57 dma.ctl | 58-5B scale: fp32 factor of fma, constant of min and max |
 * 5C-5F limit: the bytes behind `from` (copies into the core) or `to` before binding that may be touched, 0 = any. */
#define NEURON_DMA_GENERATE_TO 0x20
#define NEURON_DMA_GENERATE_TO_DIMS 0x28
#define NEURON_DMA_GENERATE_FROM 0x48
#define NEURON_DMA_GENERATE_FROM_DIMS 0x50
#define NEURON_DMA_CTL 0x70 /* of dma_generate, dma_gather and dma_scatter */
#define NEURON_DMA_GENERATE_SCALE 0x78
#define NEURON_DMA_GENERATE_LIMIT 0x7C
/* body.dma_indirect: 00-17 sbuf (operand: destination of gather, source of scatter) | 18-2F index (operand [P,1]
 * u32) | 30-37 base (HBM address; bind operand 2, item base) | 38-3B row_bytes | 3C-3F row_step (bytes) | 40-43 rows
 * (an index at or above is out of bounds) | 44-4F zero | 50-57 dma.ctl | 58-5F zero. */
#define NEURON_DMA_INDIRECT_BASE 0x50
#define NEURON_DMA_INDIRECT_ROW_BYTES 0x58
#define NEURON_DMA_INDIRECT_ROW_STEP 0x5C
#define NEURON_DMA_INDIRECT_ROWS 0x60
/* dma.ctl (64 bits): 3:0 operation | 9:4 from_type | 15:10 to_type | 16 acc (the destination is one more source) |
 * 17 skip (out of bounds: 0 NEURON_FAULT_DMA_OOB, 1 leave the row) | 21:18 queue | 22 dge | 24:23 priority (gen 4;
 * the class of service of its packets, 0 first, see hw/udma.h) | 31:25 zero | 47:32 mask of DMA engines (row r goes to
 * the r mod popcount-th) | 55:48 semaphore | 56 signal (each engine of the mask increments it) | 63:57 zero. */
enum neuron_dma_operation {
	NEURON_DMA_COPY = 0,
	NEURON_DMA_CAST = 1,
	NEURON_DMA_FMA = 2,
	NEURON_DMA_ADD = 3,
	NEURON_DMA_MIN = 4,
	NEURON_DMA_MAX = 5,
	NEURON_DMA_TRANSPOSE = 6, /* generate: from_dims columns, rows; to_dims rows, columns. gather: the row of index p
	                             becomes element p of one partition per column. Not scatter. */
	NEURON_DMA_REDUCE = 7,    /* of descriptors only (hw/udma.h): in the arithmetic of the elements' own type */
};
enum neuron_dma_reduction {
	NEURON_DMA_REDUCE_SUM = 0,
	NEURON_DMA_REDUCE_PRODUCT = 1,
	NEURON_DMA_REDUCE_MIN = 2,
	NEURON_DMA_REDUCE_MAX = 3,
};

/* Body of a pair: barrier and sendrecv, which the two cores of a logical core (2n and 2n + 1) meet at. s0 = a semaphore
 * 8..15, the same on both cores. wait0 and update0 are empty, wait1 is "semaphore s0 >= 1", update1 decrements it at
 * completion. An engine that reaches it increments the semaphore of the other core once its earlier results are
 * visible (sendrecv: has sent src0 before), then waits as the wait says, and completes. */
#define NEURON_SEM_PAIR_FIRST 8 /* one alone: raised by a write (instruction, DMA) to its inc alias in the other core's window */
#define NEURON_SEM_PAIR_LAST 15 /* no launch clears them: a program takes what it was sent before its execution ends */

/* Block scales of x4 types (gen 4): element value = code x 2^(scale - 127), scale 255 = NaN. A scale belongs to 8
 * partitions x the 4 codes of one x4 element. Operand of P data partitions: up to 32: [P / 8, elements]; more: [P,
 * elements], of which the rows 32 q + r are used, r < 4. The scale of partition p is in row 32 (p / 32) + (p % 32) / 8 +
 * 4 x quarter, counted from the operand's start partition. quantize_mx: the scale is 2^(floor(log2 largest magnitude) -
 * emax + 1), emax = 8 of f8e4fn, 15 of f8e5. */
#define NEURON_MX_PARTITIONS 8
#define NEURON_MX_CODES 4
#define NEURON_MX_SCALE_BIAS 127
#define NEURON_MX_SCALE_NAN 255

/*
 * OURS: what no public source gives, decided here once. A program may rely on it on this device only.
 *   encodings        all of this file
 *   f8e3, f8e4       highest exponent is infinity and NaN; bias 3 and 7
 *   double_row       two products added one after the other, plane 0 first
 *   MX               each operand is code x scale in fp32, zero below 2^-126, infinity above its range; then four
 *                    products, code 0 to 3 of the x4 elements, added one after the other
 *   sparsity         the form of compressed weights; slots are added one after the other, slot 0 first
 *   bf16 in PSUM     accumulation starts from the widened value; one rounding an instruction
 *   XORWOW           state = x, y, z, w, v, d (Marsaglia's order, d += 362437), one after the other; element e of a row
 *                    draws from state e mod 4 on DVE; without rand_set_state: the first words of the core's SEED
 *   rand2            word's upper 24 bits x 2^-24 x (s1 - s0) + s0, each rounded to fp32
 *   exponential      accumulator sums fp32 results before they are rounded to the destination
 *   quantize_mx      largest magnitude leaves NaN out; infinities and NaN: as the element type converts them;
 *                    scale is clamped to 0..254; nothing but zeros: scale 0
 *   barrier          which semaphores, and that a pair is cores 2n and 2n + 1; that single semaphores are raised so, too
 *   custom_operator  the call table, and that the function is a program of the host (hw/custom_operator.h)
 *   64-bit integers  i64 and u64 on Pool from generation 3 on: memset, tensor_copy, tensor_tensor, tensor_scalar,
 *                    tensor_reduce, iota, affine_select, partition_reduce, local_gather, n_gather, sendrecv. Operands have
 *                    one type; add, sub, mul, max, min, abs_max, abs_min, comparisons (1 or 0) and bit operations wrap in
 *                    64 bits. Scalars are integers; an immediate, and imm of memset, has 32 bits and is extended by the
 *                    sign of its type (memset: of dst's). tensor_copy converts: between integers to the nearest end of the
 *                    range, from floats to nearest even in the range, NaN to 0, into floats by way of fp32
 *   indirection      all offsets and gathered elements are read before anything is written; of elements that a scatter
 *                    sends to one place the last stays, and an accumulating product adds each; types of an index
 */

/* Limits; those without a generation in their name hold for 2 and 3. */
#define NEURON_PARTITIONS 128
#define NEURON_V2_SBUF_PARTITION_BYTES 0x30000u /* 192 KiB */
#define NEURON_V3_SBUF_PARTITION_BYTES 0x38000u /* 224 KiB */
#define NEURON_V4_SBUF_PARTITION_BYTES 0x40000u /* 256 KiB */
#define NEURON_PSUM_PARTITION_BYTES 0x4000u     /* 16 KiB */
#define NEURON_PSUM_BANK_BYTES 0x800u
#define NEURON_PSUM_BANKS 8
#define NEURON_PE_MAX_K 128
#define NEURON_PE_MAX_M 128
#define NEURON_PE_MAX_N 512
#define NEURON_V4_PE_MAX_N 4096      /* into f32; a destination may span the banks */
#define NEURON_V4_PE_MAX_N_BF16 8192 /* into bf16 */

#ifdef __cplusplus
}
#endif
#endif
