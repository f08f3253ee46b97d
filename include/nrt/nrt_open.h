// SPDX-License-Identifier: Apache-2.0
// What this runtime offers beyond the interface of nrt.h: the cause of a failure, loading from a
// file, the cost of an execution, the use of device memory.
//
// Thread-safe: every function. Structs start with their size, which the caller sets before the call
// (sizeof); a library that knows more fields fills only those, and sets it to what it filled.
// Symbols have the version NRT_OPEN_1.0; a program that also runs on other runtimes looks them up
// with dlsym. Errors are those of nrt.h.
#ifndef NRT_OPEN_H
#define NRT_OPEN_H

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

// Why the last failing call of this thread failed, as one sentence; "" before the first. Valid until
// the thread's next failure. Works in any state, also before nrt_init.
const char *nrt_open_last_error(void);

// The type of this host, "trn1.32xlarge", as its firmware or the emulated profile spells it, cut to
// size - 1 bytes and NUL-terminated; "" where nobody says. Works in any state, also before nrt_init.
// NRT_INVALID: no room for it.
NRT_STATUS nrt_open_get_instance_type(char *type, size_t size);

// Reads `size` bytes of a file, from byte `file_offset` on, into a tensor from its byte `offset` on:
// without a copy by this process. What the host has in its cache the kernel copies; the rest comes from
// the disk past the cache (io_uring, O_DIRECT), which stays as it was. Blocks. NRT_INVALID: a range
// outside the tensor or the file, before anything is read. NRT_FAILURE: the file cannot be opened or
// read; NRT_TIMEOUT: it gives no answer for 60 s. Then part of the range may have been written.
NRT_STATUS nrt_open_tensor_read_file(nrt_tensor_t *tensor, size_t offset, const char *path,
                                     uint64_t file_offset, size_t size);

// nrt_load of a file. Large arrays of a NEFF that is not compressed go from the file to the device
// in pieces, by io_uring where the system has it; the host never holds them whole. NRT_FAILURE: the
// file cannot be read.
NRT_STATUS nrt_open_load_file(const char *path, int32_t vnc, int32_t vnc_count,
                              nrt_model_t **model);

// Told how far a load is: `done` of `total` bytes of the model's constants are on the device. Returns
// 0 to end the load, else anything.
typedef int (*nrt_open_load_progress_t)(void *context, uint64_t done, uint64_t total);

// nrt_open_load_file that tells its progress: by each 4 MiB of constants or so, and when the last is
// there; never for a model without constants. `progress` runs in the calling thread, which holds the
// core meanwhile: it must not call this library. NRT_FAILURE also when it has ended the load; then
// nothing is left of the model on the device.
NRT_STATUS nrt_open_load_file_with_progress(const char *path, int32_t vnc, int32_t vnc_count,
                                            nrt_open_load_progress_t progress, void *context,
                                            nrt_model_t **model);

#define NRT_OPEN_ENGINES 5  // PE, Activation, Pool, DVE, SP

typedef struct nrt_open_engine_report {
  uint64_t busy_ps;  // model time spent executing
  uint64_t instructions;
} nrt_open_engine_report_t;

typedef struct nrt_open_execution_report {
  uint64_t size;       // of this struct, set by the caller
  uint64_t exec_id;    // counts the executions on the core
  uint64_t device_ps;  // model time from launch to completion
  uint64_t host_ns;    // time the host waited for the device
  nrt_open_engine_report_t engines[NRT_OPEN_ENGINES];
} nrt_open_execution_report_t;

// The last execution of the model. NRT_FAILURE if there was none or it failed.
NRT_STATUS nrt_open_get_execution_report(nrt_model_t *model, nrt_open_execution_report_t *report);

// How many bytes of an output the last execution of the model has written: the program tells it for an
// output whose size depends on the data, such as the places of a tensor's nonzero elements; of any
// other output it is all of them. Waits for an execution under way. NRT_INVALID: no output has that
// name. NRT_FAILURE: the model was not executed, its last execution failed, or the program tells more
// than the output has.
NRT_STATUS nrt_open_get_output_size(nrt_model_t *model, const char *output, size_t *size);

// How the collectives of a model were planned, in words, a line each: "all_reduce of 64 float32 (add) by
// mesh with 1 channels, ..., between nodes by NeuronLink (...)". They are in the order of the
// collective cores, and on each in that of the program; the lines are the same on all members of a
// collective, and their wording may change. Writes at most `size` bytes with the final zero. The ranks
// of a model meet when it is first executed, if not when it is loaded: NRT_FAILURE before that, and for
// a model without collectives.
NRT_STATUS nrt_open_get_collective_plans(nrt_model_t *model, char *text, size_t size);

typedef struct nrt_open_queue_report {
  uint64_t size;  // of this struct, set by the caller
  uint64_t completed;
  uint64_t failed;    // of these
  uint64_t busy_ps;   // model time spent on all of them
  uint64_t start_ps;  // the last request, on the core's clock of asynchronous requests
  uint64_t end_ps;
} nrt_open_queue_report_t;

// A queue of nrt_async.h, since nrt_init. Model time: each queue does one request after the other,
// and queues do not slow each other down, so transfers and executions of a core overlap. An
// execution takes what its execution report says; a transfer 1.3 us, 50 ns for each 64 KiB
// descriptor, and its bytes at 27.2 GB/s. A request begins when the one before it in its queue has
// ended, and not before any request of the core of which the caller knew, by nrta_is_completed or
// nrta_get_sequence, that it had completed. NRT_INVALID: there is no such queue.
NRT_STATUS nrt_open_get_queue_report(uint32_t vnc, uint32_t xu, int queue,
                                     nrt_open_queue_report_t *report);

typedef struct nrt_open_memory_usage {
  uint64_t size;      // of this struct, set by the caller in the first entry
  char category[32];  // "model_code", "tensors", "dma_rings" ...
  uint64_t bytes;
  uint64_t allocations;
} nrt_open_memory_usage_t;

// What the HBM of a core holds, by category, of all processes. *count: entries of room in, entries
// filled out; a category without allocations has none. NRT_RESOURCE with *count set to what is
// needed if there is too little room.
NRT_STATUS nrt_open_get_memory_usage(uint32_t vnc, nrt_open_memory_usage_t *usage, size_t *count);

#ifdef __cplusplus
}
#endif

#endif  // NRT_OPEN_H
