// SPDX-License-Identifier: Apache-2.0
// Makes a Request from a caller's ccom_collective_t. Every argument is checked, and the sentence
// names the wrong one.
//
// Callers: communicators. Thread-safe: functions of their arguments. Fails: CCOM_INVALID with the
// argument, its value and the expected one.
#ifndef CCOM_REQUEST_ARGUMENTS_H
#define CCOM_REQUEST_ARGUMENTS_H

#include <ccom/ccom.h>

#include "ccom/base/error.h"
#include "ccom/request/request.h"
#include "ccom/schedule/step.h"

namespace neuron::ccom {

// Facts that follow from operation and rank: sizes of the buffers, and where in place would be.
struct BufferExtents {
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  // If input and output can be in place: their distance, output minus input, in bytes.
  bool can_be_in_place = false;
  int64_t in_place_distance = 0;
};

// Checks everything but buffers. For all_to_all_v the matrix is still missing; all ranks contribute
// to it.
Result<Request> make_request(const ccom_collective_t& call, uint32_t ranks);
BufferExtents buffer_extents(const Request& request, Rank rank, uint32_t ranks);
bool in_place(const BufferExtents& extents, const void* input, const void* output);
Result<void> check_buffers(const ccom_collective_t& call, const BufferExtents& extents);

}  // namespace neuron::ccom

#endif
