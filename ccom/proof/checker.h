// SPDX-License-Identifier: Apache-2.0
// Proves a schedule before it is used, by running it on sets of contributions instead of bytes.
//
// For a window of 1 and for `window` it checks: every send meets a receive of its size and order;
// no channel waits in a circle; credits never go negative, and every credit is used; no step reads
// bytes that no step wrote, or overwrites bytes that a send still reads; offsets lie inside the
// buffers; at the end each output byte of each rank holds the requested value, with every
// contribution exactly once. Callers: planner, tests. Thread-safe: functions of their arguments.
// Fails: a sentence with rank, channel, step and byte.
#ifndef CCOM_PROOF_CHECKER_H
#define CCOM_PROOF_CHECKER_H

#include "ccom/base/error.h"
#include "ccom/request/request.h"
#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

Result<void> check_schedule(const Schedule& schedule, const Request& request, uint32_t window);

}  // namespace neuron::ccom

#endif
