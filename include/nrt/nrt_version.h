// SPDX-License-Identifier: Apache-2.0
// Version of the runtime library. May be asked before nrt_init, from any thread.
#ifndef NRT_VERSION_H
#define NRT_VERSION_H

#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define RT_VERSION_DETAIL_LEN 128
#define GIT_HASH_LEN 64

typedef struct nrt_version {
  uint64_t rt_major;
  uint64_t rt_minor;
  uint64_t rt_patch;
  uint64_t rt_maintenance;
  char rt_detail[RT_VERSION_DETAIL_LEN];  // text, NUL-terminated
  char git_hash[GIT_HASH_LEN];            // text, NUL-terminated
} nrt_version_t;

// Fills at most `size` bytes of *ver, so that a caller with an older, smaller struct is served too.
// NRT_INVALID: ver is NULL or size is 0.
NRT_STATUS nrt_get_version(nrt_version_t *ver, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NRT_VERSION_H
