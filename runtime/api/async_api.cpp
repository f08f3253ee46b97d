// SPDX-License-Identifier: Apache-2.0
//
// The asynchronous calls, in both epochs: nrta_*@@NRT_3.0.0 with a status word, nrta_*@NRT_2.0.0
// with an error tracker. The names of the functions here are not exported; their versions are.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "driver/ndl/descriptor.h"
#include "nrt/nrt_async.h"
#include "runtime/api/guard.h"
#include "runtime/exec/executor.h"
#include "runtime/observe/last_error.h"
#include "runtime/queue/async_queues.h"

// name_3 is what programs get that are linked today, name_2 what older ones ask for; the nodes are
// in libnrt.map.
#define TWO_VERSIONS(name)                             \
  __asm__(".symver " #name "_3," #name "@@NRT_3.0.0"); \
  __asm__(".symver " #name "_2," #name "@NRT_2.0.0")
TWO_VERSIONS(nrta_tensor_write);
TWO_VERSIONS(nrta_tensor_read);
TWO_VERSIONS(nrta_tensor_copy);
TWO_VERSIONS(nrta_execute_schedule);
TWO_VERSIONS(nrta_is_completed);
TWO_VERSIONS(nrta_get_sequence);
#undef TWO_VERSIONS

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

struct StatusWord {
  NRT_STATUS* word;
};
struct Tracker {
  const void* handle;
};

Result<AsyncResult> track(Session& session, const void* handle) {
  AsyncResult result;
  if (handle == nullptr) return result;
  NEURON_TRY(tracker, pin<AsyncErrorTracker>(session, handle, HandleKind::kTracker, "err"));
  result.tracker = std::move(tracker);
  return result;
}
Result<AsyncResult> result_of(Session& session, Tracker tracker) {
  return track(session, tracker.handle);
}
// A client of the older epoch that looks its functions up by name gets the current ones and hands
// them a tracker: no pointer has such bits, so it is served as it expects.
Result<AsyncResult> result_of(Session& session, StatusWord status) {
  if (HandleTable::is_handle(status.word)) return track(session, status.word);
  AsyncResult result;
  result.word = status.word;
  return result;
}

// A full queue is no mistake and may be met often: the sentence is kept, not logged.
template <class Body>
NRT_STATUS scheduled(const char* name, nrta_seq_t* sequence, Body&& body) noexcept {
  bool full = false;
  const NRT_STATUS status = guarded(name, [&](Session& session) -> Result<void> {
    NEURON_TRY(queues, AsyncQueues::of(session));
    Result<nrta_seq_t> given = body(session, *queues);
    if (given) {
      if (sequence != nullptr) *sequence = *given;
      return {};
    }
    if (given.error().status != NRT_QUEUE_FULL) return given.error();
    full = true;
    set_last_error(std::string(name) + ": " + given.error().detail);
    return {};
  });
  return full ? NRT_QUEUE_FULL : status;
}

template <class Slot>
NRT_STATUS schedule_transfer(const char* name, AsyncKind kind, nrt_tensor_t* tensor, void* buffer,
                             uint64_t offset, uint64_t size, int queue, Slot slot,
                             nrta_seq_t* sequence) {
  return scheduled(
      name, sequence, [&](Session& session, AsyncQueues& queues) -> Result<nrta_seq_t> {
        NEURON_TRY(object, pin<Tensor>(session, tensor, HandleKind::kTensor, "tensor"));
        if (buffer == nullptr && size != 0) return null_argument("buf");
        const bool read = kind == AsyncKind::kRead;
        NEURON_TRY(view, object->range(read ? "a read" : "a write", offset, size));
        NEURON_TRY(unit, queues.unit(queues.core_of(*view.storage),
                                     read ? NRTA_XU_TENSOR_READ : NRTA_XU_TENSOR_WRITE, queue));
        AsyncRequest request;
        request.kind = kind;
        NEURON_TRY(result, result_of(session, slot));
        request.result = std::move(result);
        request.storage = std::move(view.storage);
        request.host = static_cast<std::byte*>(buffer);
        request.offset = view.offset + offset;
        request.size = size;
        return queues.submit(*unit, std::move(request));
      });
}

template <class Slot>
NRT_STATUS schedule_copy(nrt_tensor_t* src, uint64_t src_offset, nrt_tensor_t* dst,
                         uint64_t dst_offset, uint64_t size, int queue, Slot slot,
                         nrta_seq_t* sequence) {
  return scheduled(
      "nrta_tensor_copy", sequence,
      [&](Session& session, AsyncQueues& queues) -> Result<nrta_seq_t> {
        NEURON_TRY(from, pin<Tensor>(session, src, HandleKind::kTensor, "src"));
        NEURON_TRY(to, pin<Tensor>(session, dst, HandleKind::kTensor, "dst"));
        NEURON_TRY(plan, Tensor::plan_copy(*from, src_offset, *to, dst_offset, size));
        auto& [source, target] = plan;
        const Storage& owner = source.storage->reachable() ? *source.storage : *target.storage;
        NEURON_TRY(unit, queues.unit(queues.core_of(owner), NRTA_XU_TENSOR_OP, queue));
        const bool onto_itself = source.storage == target.storage && source.offset == target.offset;
        AsyncRequest request;
        request.kind = AsyncKind::kCopy;
        NEURON_TRY(result, result_of(session, slot));
        request.result = std::move(result);
        request.source = std::move(source.storage);
        request.source_offset = source.offset;
        request.storage = std::move(target.storage);
        request.offset = target.offset;
        request.size = onto_itself ? 0 : size;
        return queues.submit(*unit, std::move(request));
      });
}

template <class Slot>
NRT_STATUS schedule_execution(nrt_model_t* model, const nrt_tensor_set_t* input,
                              nrt_tensor_set_t* output, int queue, Slot slot,
                              nrta_seq_t* sequence) {
  return scheduled(
      "nrta_execute_schedule", sequence,
      [&](Session& session, AsyncQueues& queues) -> Result<nrta_seq_t> {
        NEURON_TRY(object, pin<LoadedModel>(session, model, HandleKind::kModel, "model"));
        NEURON_TRY(unit, queues.unit(object->core().index(), NRTA_XU_COMPUTE, queue));
        if (object->core().unusable()) unit->kill(NRT_EXEC_UNIT_UNRECOVERABLE);
        NEURON_TRY(inputs, pin<TensorSet>(session, input, HandleKind::kTensorSet, "input"));
        NEURON_TRY(outputs, pin<TensorSet>(session, output, HandleKind::kTensorSet, "output"));
        AsyncRequest request;
        request.kind = AsyncKind::kExecute;
        NEURON_TRY(tensors, match_cached(session, *object, *inputs, *outputs));
        request.tensors = std::move(tensors);
        NEURON_TRY(result, result_of(session, slot));
        request.result = std::move(result);
        request.model = std::move(object);
        return queues.submit(*unit, std::move(request));
      });
}

Result<AsyncUnit*> unit_of(Session& session, nrta_seq_t sequence) {
  NEURON_TRY(queues, AsyncQueues::of(session));
  return queues->unit_of(sequence);
}

}  // namespace

NRT_EXPORT NRT_STATUS nrta_tensor_write_3(nrt_tensor_t* tensor, const void* buf, uint64_t offset,
                                          uint64_t size, int queue, NRT_STATUS* ret,
                                          nrta_seq_t* req_sequence) {
  return schedule_transfer("nrta_tensor_write", AsyncKind::kWrite, tensor, const_cast<void*>(buf),
                           offset, size, queue, StatusWord{ret}, req_sequence);
}
NRT_EXPORT NRT_STATUS nrta_tensor_write_2(nrt_tensor_t* tensor, const void* buf, uint64_t offset,
                                          uint64_t size, int queue, nrta_error_tracker_t* err,
                                          nrta_seq_t* req_sequence) {
  return schedule_transfer("nrta_tensor_write", AsyncKind::kWrite, tensor, const_cast<void*>(buf),
                           offset, size, queue, Tracker{err}, req_sequence);
}
NRT_EXPORT NRT_STATUS nrta_tensor_read_3(void* buf, nrt_tensor_t* tensor, uint64_t offset,
                                         uint64_t size, int queue, NRT_STATUS* ret,
                                         nrta_seq_t* req_sequence) {
  return schedule_transfer("nrta_tensor_read", AsyncKind::kRead, tensor, buf, offset, size, queue,
                           StatusWord{ret}, req_sequence);
}
NRT_EXPORT NRT_STATUS nrta_tensor_read_2(void* buf, nrt_tensor_t* tensor, uint64_t offset,
                                         uint64_t size, int queue, nrta_error_tracker_t* err,
                                         nrta_seq_t* req_sequence) {
  return schedule_transfer("nrta_tensor_read", AsyncKind::kRead, tensor, buf, offset, size, queue,
                           Tracker{err}, req_sequence);
}
NRT_EXPORT NRT_STATUS nrta_tensor_copy_3(nrt_tensor_t* src, uint64_t src_offset, nrt_tensor_t* dst,
                                         uint64_t dst_offset, uint64_t size, int queue,
                                         NRT_STATUS* ret, nrta_seq_t* req_sequence) {
  return schedule_copy(src, src_offset, dst, dst_offset, size, queue, StatusWord{ret},
                       req_sequence);
}
NRT_EXPORT NRT_STATUS nrta_tensor_copy_2(nrt_tensor_t* src, uint64_t src_offset, nrt_tensor_t* dst,
                                         uint64_t dst_offset, uint64_t size, int queue,
                                         nrta_error_tracker_t* err, nrta_seq_t* req_sequence) {
  return schedule_copy(src, src_offset, dst, dst_offset, size, queue, Tracker{err}, req_sequence);
}
NRT_EXPORT NRT_STATUS nrta_execute_schedule_3(nrt_model_t* model, const nrt_tensor_set_t* input,
                                              nrt_tensor_set_t* output, int queue, NRT_STATUS* ret,
                                              nrta_seq_t* req_sequence) {
  return schedule_execution(model, input, output, queue, StatusWord{ret}, req_sequence);
}
NRT_EXPORT NRT_STATUS nrta_execute_schedule_2(nrt_model_t* model, const nrt_tensor_set_t* input,
                                              nrt_tensor_set_t* output, int queue,
                                              nrta_error_tracker_t* err, nrta_seq_t* req_sequence) {
  return schedule_execution(model, input, output, queue, Tracker{err}, req_sequence);
}

NRT_EXPORT NRT_STATUS nrta_is_completed_3(nrta_seq_t seq, bool* is_completed) {
  return guarded("nrta_is_completed", [&](Session& session) -> Result<void> {
    if (is_completed == nullptr) return null_argument("is_completed");
    NEURON_TRY(unit, unit_of(session, seq));
    const std::uint64_t number = NRTA_SEQ_GET_SEQ_NUM(seq);
    *is_completed = unit->completed() >= number;
    if (*is_completed) AsyncQueues::existing(session)->observed(*unit, number);
    return {};
  });
}
NRT_EXPORT NRT_STATUS nrta_is_completed_2(nrta_seq_t seq, bool* is_completed) {
  return nrta_is_completed_3(seq, is_completed);
}

NRT_EXPORT NRT_STATUS nrta_get_sequence_3(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t* seq) {
  return guarded("nrta_get_sequence", [&](Session& session) -> Result<void> {
    if (seq == nullptr) return null_argument("seq");
    NEURON_TRY(queues, AsyncQueues::of(session));
    NEURON_TRY(unit, queues->unit(lnc, xu, queue));
    const std::uint64_t number = unit->completed();
    *seq = unit->sequence(number);
    if (number != unit->first()) queues->observed(*unit, number);
    return {};
  });
}
NRT_EXPORT NRT_STATUS nrta_get_sequence_2(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t* seq) {
  return nrta_get_sequence_3(lnc, xu, queue, seq);
}

NRT_EXPORT NRT_STATUS nrta_event_register_seq_id_completion(nrta_seq_t seq, int event_fd) {
  return guarded("nrta_event_register_seq_id_completion", [&](Session& session) -> Result<void> {
    NEURON_TRY(unit, unit_of(session, seq));
    const std::uint64_t number = NRTA_SEQ_GET_SEQ_NUM(seq);
    if (event_fd >= 0) return unit->events().add(unit->progress(), number, event_fd);
    if (event_fd != -1) {
      return fail(NRT_INVALID, "event_fd is {}; give an eventfd, or -1 to take it back", event_fd);
    }
    unit->events().remove(number);
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrta_event_register_xu_completion(uint32_t lnc, nrta_xu_t xu, int queue,
                                                        int event_fd) {
  return guarded("nrta_event_register_xu_completion", [&](Session& session) -> Result<void> {
    if (event_fd < -1) {
      return fail(NRT_INVALID, "event_fd is {}; give an eventfd, or -1 to take it back", event_fd);
    }
    NEURON_TRY(queues, AsyncQueues::of(session));
    NEURON_TRY(unit, queues->unit(lnc, xu, queue));
    return unit->events().follow(unit->progress(), event_fd);
  });
}

NRT_EXPORT NRT_STATUS nrta_get_completion_handle(nrta_seq_t seq, int* fd) {
  return guarded("nrta_get_completion_handle", [&](Session& session) -> Result<void> {
    if (fd == nullptr) return null_argument("fd");
    NEURON_TRY(unit, unit_of(session, seq));
    const int event = neuron::ndl::above_standard_streams(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (event < 0) return fail_with_errno(NRT_RESOURCE, errno, "making a completion handle");
    auto added = unit->events().add(unit->progress(), NRTA_SEQ_GET_SEQ_NUM(seq), event);
    if (!added) {
      close(event);
      return added.error();
    }
    *fd = event;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrta_error_tracker_create(uint32_t lnc_idx,
                                                nrta_error_tracker_t** error_tracker) {
  return guarded("nrta_error_tracker_create", [&](Session& session) -> Result<void> {
    if (error_tracker == nullptr) return null_argument("error_tracker");
    NEURON_CHECK(session.core(lnc_idx));
    NEURON_TRY(handle,
               session.handles.insert(HandleKind::kTracker, std::make_unique<AsyncErrorTracker>()));
    *error_tracker = static_cast<nrta_error_tracker_t*>(handle);
    return {};
  });
}

NRT_EXPORT void nrta_error_tracker_destroy(nrta_error_tracker_t* error_tracker) {
  if (error_tracker == nullptr) return;
  unguarded_state("nrta_error_tracker_destroy", [&]() -> Result<void> {
    SessionUse use;
    // nrt_close has freed what was left.
    if (!use) return {};
    if (use->handles.remove(error_tracker, HandleKind::kTracker)) return {};
    return fail(NRT_INVALID_HANDLE,
                "error tracker {} is none of this runtime's: it was destroyed, or is something "
                "else",
                static_cast<void*>(error_tracker));
  });
}

NRT_EXPORT NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t* error_tracker,
                                                  const nrta_error_t** list, size_t* error_count) {
  return guarded("nrta_error_tracker_get_list", [&](Session& session) -> Result<void> {
    NEURON_TRY(tracker, pin<AsyncErrorTracker>(session, error_tracker, HandleKind::kTracker,
                                               "error_tracker"));
    if (list == nullptr) return null_argument("list");
    if (error_count == nullptr) return null_argument("error_count");
    static_assert(sizeof(AsyncErrorTracker::Entry) == sizeof(nrta_error_t));
    const auto& entries = tracker->take();
    *list = reinterpret_cast<const nrta_error_t*>(entries.data());
    *error_count = entries.size();
    return {};
  });
}
