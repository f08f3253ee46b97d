/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Custom operators: what custom_operator (hw/isa.h) finds in device memory, and what the process that runs the
 * operator finds in its files. All of it is ours; the interface of the operator's source is public
 * (driver/operator/README.md).
 *
 * The instruction's address names a call table: 64-bit device addresses of the description, of the image, and of one
 * tensor for each argument that is one, in their order; the output is the last argument. Tensors are dense, the last
 * dimension innermost. The image is a static ELF program for x86-64. It is started once for each GpSimd core, with the
 * arguments "run", the core's number and the number of cores, and with two open files: NEURON_OPERATOR_INPUT_FILE,
 * which cannot be written (struct neuron_operator_input, then the input tensors), and NEURON_OPERATOR_RESULT_FILE
 * (struct neuron_operator_result, then the output tensor). It ends with status 0 and `state` DONE. All numbers are
 * little endian; whoever reads what the other side has written checks it.
 */
#ifndef HW_CUSTOM_OPERATOR_H
#define HW_CUSTOM_OPERATOR_H

#ifdef __cplusplus
extern "C" {
#endif

#define NEURON_OPERATOR_MAGIC 0x504F434Eu /* "NCOP" */
#define NEURON_OPERATOR_VERSION 1
/* Stands in the section .neuron_operators of each library of operators, by which a file is known as one. */
#define NEURON_OPERATOR_MARK "library of Neuron custom operators, version 1"
#define NEURON_OPERATOR_ARGUMENTS 16 /* the output included */
#define NEURON_OPERATOR_DIMENSIONS 8 /* documented limits of tensors: 8 dimensions of at most 65535 */
#define NEURON_OPERATOR_DIMENSION_MAX 65535
#define NEURON_OPERATOR_NAME 64      /* bytes, with a final zero */
#define NEURON_OPERATOR_CORES 8
#define NEURON_OPERATOR_IMAGE_MAX (64u << 20)
#define NEURON_OPERATOR_TENSORS_MAX (64u << 20) /* bytes of all tensors of a call */
#define NEURON_OPERATOR_TCM_BYTES (64u << 10)   /* of a core: documented */
#define NEURON_OPERATOR_TCM_POOL (16u << 10)    /* of it the part of tcm_malloc: documented */
#define NEURON_OPERATOR_STREAM_BYTES (4u << 10) /* buffer of a stream accessor, from the pool: documented */
#define NEURON_OPERATOR_PRINT_BYTES (128u << 10) /* of printf: documented */

/* Words of a call table, 8 bytes each. */
#define NEURON_CALL_DESCRIPTION 0
#define NEURON_CALL_IMAGE 1
#define NEURON_CALL_TENSORS 2

enum neuron_operator_kind {
	NEURON_OPERATOR_TENSOR = 1,
	NEURON_OPERATOR_DOUBLE = 2,  /* value: its bits */
	NEURON_OPERATOR_INT64 = 3,
	NEURON_OPERATOR_SCALAR = 4,  /* torch::Scalar that holds a double */
	NEURON_OPERATOR_SCALAR_INT = 5, /* torch::Scalar that holds an integer */
};

struct neuron_operator_argument {
	unsigned int kind;  /* enum neuron_operator_kind */
	unsigned int dtype; /* enum neuron_dtype, of a tensor */
	unsigned int dimensions;
	unsigned int zero;
	unsigned int size[NEURON_OPERATOR_DIMENSIONS]; /* outermost first */
	unsigned long long value;
	unsigned long long offset; /* in the description: 0; in the process: of the tensor in its file */
};

#define NEURON_OPERATOR_MULTICORE 1u /* flags: all 8 cores run it, else core 0 */
struct neuron_operator_description {
	unsigned int magic;
	unsigned int version;
	unsigned int flags;
	unsigned int arguments; /* with the output, which is the last */
	unsigned long long image_bytes;
	unsigned long long zero;
	char name[NEURON_OPERATOR_NAME];
	struct neuron_operator_argument argument[NEURON_OPERATOR_ARGUMENTS];
};

#define NEURON_OPERATOR_INPUT_FILE 3
#define NEURON_OPERATOR_RESULT_FILE 4
#define NEURON_OPERATOR_IMAGE_FILE 5 /* closed when the program begins */
#define NEURON_OPERATOR_TENSOR_ALIGNMENT 4096 /* of tensors in the files */

/* Beginning of the input file. */
struct neuron_operator_input {
	struct neuron_operator_description description;
	unsigned long long bytes; /* of the file */
	unsigned long long result_bytes; /* of the result file */
};

/* Accesses that the operator has made; driver/isa/operator_cost.h has the formula. */
struct neuron_operator_counts {
	unsigned long long elements;        /* of device memory, one at a time: accessors */
	unsigned long long stream_elements; /* read and written through stream accessors and by tensor functions */
	unsigned long long transfers;       /* between device memory and TCM */
	unsigned long long transfer_bytes;
};

enum neuron_operator_state {
	NEURON_OPERATOR_STARTED = 0,
	NEURON_OPERATOR_DONE = 1,
	NEURON_OPERATOR_FAILED = 2, /* `failure` says why */
};

/* Beginning of the result file; the text of printf follows, then the output tensor. */
struct neuron_operator_result {
	unsigned int state;   /* enum neuron_operator_state */
	unsigned int failure; /* enum neuron_operator_failure */
	unsigned int value;
	unsigned int printed; /* bytes that printf has written in all; the last NEURON_OPERATOR_PRINT_BYTES are kept, as a ring */
	unsigned long long address;
	struct neuron_operator_counts counts;
	char text[256]; /* what an assertion or an exception said */
};

/* Why a call has failed: word 0, bits 7:0, of NEURON_FAULT_CUSTOM_OPERATOR. Word 1 is the value named here, word 2 the
 * lower half of the address. Those from 32 on are what the program said of itself. */
enum neuron_operator_failure {
	NEURON_OPERATOR_NOT_ALLOWED = 1, /* the device does not run code of the host */
	NEURON_OPERATOR_DESCRIPTION = 2, /* malformed; the byte */
	NEURON_OPERATOR_NOT_STARTED = 3, /* no process; errno */
	NEURON_OPERATOR_SIGNAL = 4,      /* ended by a signal; its number and the address of the access */
	NEURON_OPERATOR_EXIT = 5,        /* ended without a result; exit status */
	NEURON_OPERATOR_SYSTEM_CALL = 6, /* asked the system for what it may not have; number of the call */
	NEURON_OPERATOR_TIME = 7,        /* was ended after so many ms */
	NEURON_OPERATOR_MEMORY = 32,     /* allocation; MiB that it asked for, 0: unknown */
	NEURON_OPERATOR_BOUNDS = 33,     /* accessor outside of its tensor; index */
	NEURON_OPERATOR_TYPE = 34,       /* accessor or argument of another type than its tensor */
	NEURON_OPERATOR_SHAPE = 35,      /* shapes do not go together; argument, or 255: result */
	NEURON_OPERATOR_STREAM = 36,     /* stream accessor behind its tensor's end, or closed */
	NEURON_OPERATOR_ONE_CORE = 37,      /* accessor that only a single core may use */
	NEURON_OPERATOR_COHERENCE = 38,  /* two accessors of one tensor against its policy */
	NEURON_OPERATOR_TCM = 39,        /* transfer outside of the TCM pool */
	NEURON_OPERATOR_ABORT = 40,      /* abort(), assert() */
	NEURON_OPERATOR_EXCEPTION = 41,  /* uncaught */
	NEURON_OPERATOR_UNKNOWN = 42,    /* the image has no operator of this name, or other arguments */
};
#define NEURON_OPERATOR_CORE_SHIFT 8 /* word 0, bits 11:8: the GpSimd core */

#ifdef __cplusplus
}
#endif
#endif
