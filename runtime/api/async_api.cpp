// SPDX-License-Identifier: Apache-2.0
//
// The asynchronous calls, in both epochs: nrta_*@@NRT_3.0.0 with a status word, nrta_*@NRT_2.0.0
// with an error tracker. The names of the functions here are not exported; their versions are.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "driver/base/file_descriptor.h"
#include "nrt/nrt_async.h"
#include "runtime/api/guard.h"
#include "runtime/async/async_queues.h"
#include "runtime/collectives/registry.h"
#include "runtime/exec/executor.h"
#include "runtime/observe/last_error.h"

// Programs that are linked today get name_3; older programs ask for name_2. The version nodes are
// in libnrt.map.
#define TWO_VERSIONS(name)                             \
  __asm__(".symver " #name "_3," #name "@@NRT_3.0.0"); \
  __asm__(".symver " #name "_2," #name "@NRT_2.0.0")
TWO_VERSIONS(nrta_tensor_write);
TWO_VERSIONS(nrta_tensor_read);
TWO_VERSIONS(nrta_tensor_copy);
TWO_VERSIONS(nrta_execute_schedule);
TWO_VERSIONS(nrta_cc_schedule);
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
// A client of the older epoch that looks functions up by name gets the current ones and passes them
// a tracker in place of a status word. A handle has bits that no pointer has, so the tracker is
// recognised and used.
Result<AsyncResult> result_of(Session& session, StatusWord status) {
  if (HandleTable::is_handle(status.word)) return track(session, status.word);
  AsyncResult result;
  result.word = status.word;
  return result;
}

// A full queue is not a mistake and may occur often: its sentence is kept but not logged.
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
    set_last_error(std::string(name) + ": " + given.error().sentence);
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
        const TraceSpan span(session.system_trace, TraceEvent::kScheduleExecution,
                             {.core = object->core().index(), .name = object->name()});
        if (object->core().unusable()) unit->kill(NRT_EXEC_UNIT_UNRECOVERABLE);
        NEURON_TRY(inputs, pin<TensorSet>(session, input, HandleKind::kTensorSet, "input"));
        NEURON_TRY(outputs, pin<TensorSet>(session, output, HandleKind::kTensorSet, "output"));
        AsyncRequest request;
        request.kind = AsyncKind::kExecute;
        NEURON_TRY(tensors, match_cached(session, *object, *inputs, *outputs));
        request.tensors = std::move(tensors);
        NEURON_TRY(result, result_of(session, slot));
        request.result = std::move(result);
        CoreCounters& counters = object->core().counters;
        request.model = std::move(object);
        auto given = queues.submit(*unit, std::move(request));
        if (!given) counters.refused(given.error().status);
        return given;
      });
}

// What a collective context of the C interface stands for.
struct CollectiveContext {
  std::shared_ptr<HostCollective> collective;
  std::shared_ptr<const HostCollectiveRequest> operands;
};

Result<ccom_reduction_t> reduction_of(nrt_op_type_t op) {
  switch (op) {
    case NRT_OP_ADD:
      return CCOM_ADD;
    case NRT_OP_MAX:
      return CCOM_MAX;
    case NRT_OP_MIN:
      return CCOM_MIN;
    default:
      return fail(NRT_INVALID, "op is {}; collectives reduce by add (0), max (2) or min (3)",
                  static_cast<int>(op));
  }
}

Result<std::vector<TensorView>> views_of(Session& session, const nrt_tensor_list_t* list,
                                         const char* what) {
  if (list == nullptr) return null_argument(what);
  if (list->num_tensors == 0 || list->tensors == nullptr) {
    return fail(NRT_INVALID, "the list '{}' has no tensor", what);
  }
  std::vector<TensorView> views;
  for (size_t i = 0; i < list->num_tensors; ++i) {
    NEURON_TRY(tensor, pin<Tensor>(session, list->tensors[i], HandleKind::kTensor, what));
    views.push_back(tensor->view());
  }
  return views;
}

Result<HostCollectiveRequest> request_of(Session& session, const nrt_cc_comm_t& comm,
                                         const nrt_tensor_list_t* input,
                                         const nrt_tensor_list_t* output, nrt_dtype_t dtype,
                                         nrt_op_type_t op, nrt_cc_op_type_t cc_op) {
  HostCollectiveRequest request;
  switch (cc_op) {
    case NRT_CC_ALLGATHER:
      request.operation = CCOM_ALL_GATHER;
      break;
    case NRT_CC_ALLREDUCE:
      request.operation = CCOM_ALL_REDUCE;
      break;
    case NRT_CC_REDUCESCATTER:
      request.operation = CCOM_REDUCE_SCATTER;
      break;
    default:
      return fail(NRT_INVALID,
                  "cc_op is {}; expected all-gather (0), all-reduce (1) or "
                  "reduce-scatter (2)",
                  static_cast<int>(cc_op));
  }
  request.type = collective_type_of(dtype);
  if (request.type == CCOM_TYPE_COUNT) {
    return fail(NRT_INVALID, "dtype is {}, which no collective moves", static_cast<int>(dtype));
  }
  if (request.operation != CCOM_ALL_GATHER) {
    NEURON_TRY(reduction, reduction_of(op));
    request.reduction = reduction;
  }
  if (comm.replica_group == nullptr || comm.rank >= comm.rank_n ||
      comm.rank_n > comm.ctx_device_count) {
    return fail(NRT_INVALID, "the communicator has rank {} of {} in a job of {}{}", comm.rank,
                comm.rank_n, comm.ctx_device_count,
                comm.replica_group == nullptr ? ", and no replica_group" : "");
  }
  request.group.assign(comm.replica_group, comm.replica_group + comm.rank_n);
  if (request.group[comm.rank] != comm.ctx_device_id) {
    return fail(NRT_INVALID,
                "replica_group names rank {} at place {}, where this rank says it is, but it is "
                "rank {} of the job (ctx_device_id)",
                request.group[comm.rank], comm.rank, comm.ctx_device_id);
  }
  NEURON_TRY(inputs, views_of(session, input, "input"));
  request.inputs = std::move(inputs);
  NEURON_TRY(outputs, views_of(session, output, "output"));
  request.outputs = std::move(outputs);
  return request;
}

template <class Slot>
NRT_STATUS schedule_collective(nrt_cc_context_t** cc_ctx, int queue, Slot slot,
                               nrta_seq_t* sequence) {
  return scheduled(
      "nrta_cc_schedule", sequence,
      [&](Session& session, AsyncQueues& queues) -> Result<nrta_seq_t> {
        if (cc_ctx == nullptr) return null_argument("cc_ctx");
        NEURON_TRY(context,
                   pin<CollectiveContext>(session, *cc_ctx, HandleKind::kCollective, "cc_ctx"));
        const LoadedModel& model = context->collective->model();
        NEURON_TRY(unit, queues.unit(model.core().index(), NRTA_XU_COLLECTIVES, queue));
        const TraceSpan span(session.system_trace, TraceEvent::kScheduleCollective,
                             {.core = model.core().index(), .name = model.name()});
        AsyncRequest request;
        request.kind = AsyncKind::kCollective;
        NEURON_TRY(result, result_of(session, slot));
        request.result = std::move(result);
        request.collective = context->collective;
        request.operands = context->operands;
        auto given = queues.submit(*unit, std::move(request));
        if (!given) return given;  // the caller may try again
        session.handles.remove(*cc_ctx, HandleKind::kCollective);
        *cc_ctx = nullptr;
        return given;
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

NRT_EXPORT NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t* comm, nrt_tensor_list_t* input,
                                      nrt_tensor_list_t* output, nrt_dtype_t dtype,
                                      nrt_op_type_t op, nrt_cc_op_type_t cc_op,
                                      nrt_cc_context_t** cc_ctx) {
  return guarded("nrta_cc_prepare", [&](Session& session) -> Result<void> {
    if (comm == nullptr) return null_argument("comm");
    if (cc_ctx == nullptr) return null_argument("cc_ctx");
    NEURON_TRY(request, request_of(session, *comm, input, output, dtype, op, cc_op));
    NEURON_TRY(core, session.core(comm->vnc));
    CollectivesRegistry& registry = CollectivesRegistry::of(session);
    NEURON_CHECK(registry.meet_all(session, *core, comm->ctx_device_id, comm->ctx_device_count));
    NEURON_TRY(world, registry.world(session, *core, comm->ctx_device_id, comm->ctx_device_count));
    auto context = std::make_unique<CollectiveContext>();
    context->operands = std::make_shared<const HostCollectiveRequest>(std::move(request));
    NEURON_TRY(collective, HostCollective::prepare(*core, session, world, *context->operands));
    context->collective = std::move(collective);
    NEURON_TRY(handle, session.handles.insert(HandleKind::kCollective, std::move(context)));
    *cc_ctx = static_cast<nrt_cc_context_t*>(handle);
    return {};
  });
}
NRT_EXPORT NRT_STATUS nrta_cc_schedule_3(nrt_cc_context_t** cc_ctx, int queue, NRT_STATUS* ret,
                                         nrta_seq_t* req_sequence) {
  return schedule_collective(cc_ctx, queue, StatusWord{ret}, req_sequence);
}
NRT_EXPORT NRT_STATUS nrta_cc_schedule_2(nrt_cc_context_t** cc_ctx, int queue,
                                         nrta_error_tracker_t* err, nrta_seq_t* req_sequence) {
  return schedule_collective(cc_ctx, queue, Tracker{err}, req_sequence);
}

NRT_EXPORT NRT_STATUS nrta_is_completed_3(nrta_seq_t seq, bool* is_completed) {
  return guarded("nrta_is_completed", [&](Session& session) -> Result<void> {
    if (is_completed == nullptr) return null_argument("is_completed");
    NEURON_TRY(unit, unit_of(session, seq));
    const uint64_t number = NRTA_SEQ_GET_SEQ_NUM(seq);
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
    const uint64_t number = unit->completed();
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
    const uint64_t number = NRTA_SEQ_GET_SEQ_NUM(seq);
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
    const int event = neuron::base::above_standard_streams(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
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
    const auto entries = tracker->take();
    *list = reinterpret_cast<const nrta_error_t*>(entries.data());
    *error_count = entries.size();
    return {};
  });
}
