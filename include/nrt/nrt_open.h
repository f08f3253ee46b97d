/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extensions of this runtime to the libnrt ABI (version node NRT_OPEN_1.0): what the original interface has
 * no call for. Look a symbol up with dlsym if your program must also run on the vendor's library.
 *
 * Structs carry their own size: the caller sets `size` to sizeof(struct), the library fills no more than that and
 * only ever appends fields. Every function is thread-safe.
 */
#ifndef NRT_OPEN_H
#define NRT_OPEN_H

#include <stdint.h>

#include <nrt/nrt.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The sentence of this thread's last failed nrt_* call: what failed, where, found and expected, what to do.
 * Never NULL; empty before the first failure. Valid until the thread's next nrt_* call; the library owns it. */
const char *nrt_open_last_error(void);

#define NRT_OPEN_ENGINES 5
/* Order of the per-engine arrays: Tensor (PE), Scalar (Activation), GpSimd (Pool), Vector (DVE), Sync (SP). */
typedef struct nrt_open_execution_report {
	uint64_t size;                              /* set by the caller */
	uint64_t execution_id;                      /* of the model's last finished execution, from 1 */
	uint64_t device_ps;                         /* model time from doorbell to completion, picoseconds */
	uint64_t host_ns;                           /* host time of that nrt_execute call */
	uint64_t engine_busy_ps[NRT_OPEN_ENGINES];  /* model time that the engine spent executing */
	uint64_t engine_instructions[NRT_OPEN_ENGINES];
} nrt_open_execution_report_t;

/* Report of the last execution of `model`. Source of the device figures: the completion record and the notification
 * entries that the core wrote. NRT_INVALID for a NULL argument, a size smaller than the first two fields, or a model
 * that has not been executed. */
NRT_STATUS nrt_open_get_execution_report(const nrt_model_t *model, nrt_open_execution_report_t *report);

typedef struct nrt_open_memory_usage {
	char category[48]; /* name as in the driver's sysfs: "tensors", "model_code", "constants", ... */
	uint64_t bytes;
	uint32_t chunks;
	uint32_t hbm_index;
} nrt_open_memory_usage_t;

/* Device memory of the chip that holds `vnc`, by HBM and category, as the driver lists it. `capacity` entries of
 * `usage` are filled, `count` gets the number there is. NRT_INVALID, NRT_UNINITIALIZED. */
NRT_STATUS nrt_open_get_memory_usage(uint32_t vnc, nrt_open_memory_usage_t *usage, uint32_t capacity, uint32_t *count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
