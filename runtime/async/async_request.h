// SPDX-License-Identifier: Apache-2.0
//
// One asynchronous request: what to do, what it needs, where its status goes.
// Callers: the C interface (fills), AsyncUnit (keeps), AsyncQueues (performs). Thread-safe: a value
// that one thread has at a time. Shares tensor memory, models and trackers, which live until the
// request is released. Borrows the caller's host buffer and status word.
#ifndef RUNTIME_ASYNC_ASYNC_REQUEST_H
#define RUNTIME_ASYNC_ASYNC_REQUEST_H

#include <cstdint>
#include <memory>

#include "runtime/async/async_error_tracker.h"
#include "runtime/exec/host_driven.h"
#include "runtime/model/loaded_model.h"
#include "runtime/session/handle_table.h"
#include "runtime/tensor/storage.h"

namespace neuron::runtime {

enum class AsyncKind : uint8_t { kNothing, kRead, kWrite, kCopy, kExecute, kCollective };

// Where the status of a request goes; nowhere if both are null.
struct AsyncResult {
  NRT_STATUS* word = nullptr;
  Pin<AsyncErrorTracker> tracker;
};

struct AsyncRequest {
  AsyncKind kind = AsyncKind::kNothing;
  AsyncResult result;
  // Read, write, copy: `size` bytes of `storage`; a copy goes from `source`.
  std::shared_ptr<Storage> storage;
  std::shared_ptr<Storage> source;
  std::byte* host = nullptr;
  uint64_t offset = 0;
  uint64_t source_offset = 0;
  uint64_t size = 0;
  // Execute.
  Pin<LoadedModel> model;
  std::shared_ptr<const MatchedTensors> tensors;
  // A collective that the host starts, and its tensors, whose memory lives as long as the request.
  std::shared_ptr<HostCollective> collective;
  std::shared_ptr<const HostCollectiveRequest> operands;
  // The request does not begin before this model time of the core.
  uint64_t earliest_ps = 0;
};

}  // namespace neuron::runtime

#endif
