// SPDX-License-Identifier: Apache-2.0
//
// nrt_async_sendrecv_*: transfers between tensors of two cores.
#include "nrt/nrt_async_sendrecv.h"
#include "runtime/api/guard.h"
#include "runtime/send_receive/send_receive.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

// Identifiers as pointers that are never followed.
template <class Handle>
Handle* handle_of(SendReceive::Id id) {
  return reinterpret_cast<Handle*>(static_cast<uintptr_t>(id));
}
template <class Handle>
SendReceive::Id id_of(const Handle* handle) {
  return static_cast<SendReceive::Id>(reinterpret_cast<uintptr_t>(handle));
}

NRT_STATUS give_limit(const char* name, int* to, int limit) {
  return unguarded_state(name, [&]() -> Result<void> {
    if (to == nullptr) return null_argument("num");
    *to = limit;
    return {};
  });
}

NRT_STATUS meet(const char* name, Connection::Role role, const char* peer_ip, int peer_lnc, int lnc,
                nrt_async_sendrecv_comm_t** comm) {
  return guarded(name, [&](Session& session) -> Result<void> {
    if (peer_ip == nullptr) return null_argument("peer_ip");
    if (comm == nullptr) return null_argument("comm");
    NEURON_TRY(id, SendReceive::of(session).connect(role, peer_ip, peer_lnc, lnc));
    *comm = handle_of<nrt_async_sendrecv_comm_t>(id);
    return {};
  });
}

NRT_STATUS move(const char* name, Connection::Role role, const nrt_tensor_t* tensor, size_t offset,
                size_t length, const nrt_async_sendrecv_comm_t* comm,
                nrt_async_sendrecv_request_t** request) {
  return guarded(name, [&](Session& session) -> Result<void> {
    if (request == nullptr) return null_argument("request");
    NEURON_TRY(object, pin<Tensor>(session, tensor, HandleKind::kTensor, "tensor"));
    NEURON_TRY(memory, object->range("a transfer", offset, length));
    const TensorView bytes{memory.storage, memory.offset + offset, length};
    NEURON_TRY(id, SendReceive::of(session).transfer(role, id_of(comm), bytes));
    *request = handle_of<nrt_async_sendrecv_request_t>(id);
    return {};
  });
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int* num) {
  return give_limit("nrt_async_sendrecv_get_max_num_communicators_per_lnc", num,
                    SendReceive::kMostConnections);
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int* num) {
  return give_limit("nrt_async_sendrecv_get_max_num_pending_request", num,
                    SendReceive::kMostTransfers);
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_init(int lnc) {
  return guarded("nrt_async_sendrecv_init",
                 [&](Session& session) { return SendReceive::of(session).open(session, lnc); });
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_close(int lnc) {
  return guarded("nrt_async_sendrecv_close",
                 [&](Session& session) { return SendReceive::of(session).close(lnc); });
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_connect(const char* peer_ip, int peer_lnc, int lnc,
                                                 nrt_async_sendrecv_comm_t** send_comm) {
  return meet("nrt_async_sendrecv_connect", Connection::Role::kSends, peer_ip, peer_lnc, lnc,
              send_comm);
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_accept(const char* peer_ip, int peer_lnc, int lnc,
                                                nrt_async_sendrecv_comm_t** recv_comm) {
  return meet("nrt_async_sendrecv_accept", Connection::Role::kReceives, peer_ip, peer_lnc, lnc,
              recv_comm);
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t* comm, bool* done) {
  return guarded("nrt_async_sendrecv_test_comm", [&](Session& session) -> Result<void> {
    if (done == nullptr) return null_argument("done");
    NEURON_TRY(connected, SendReceive::of(session).is_connected(id_of(comm)));
    *done = connected;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t* tensor, size_t offset,
                                                     size_t length,
                                                     nrt_async_sendrecv_comm_t* send_comm,
                                                     nrt_async_sendrecv_request_t** request) {
  return move("nrt_async_sendrecv_send_tensor", Connection::Role::kSends, tensor, offset, length,
              send_comm, request);
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t* tensor, size_t offset,
                                                     size_t length,
                                                     nrt_async_sendrecv_comm_t* recv_comm,
                                                     nrt_async_sendrecv_request_t** request) {
  return move("nrt_async_sendrecv_recv_tensor", Connection::Role::kReceives, tensor, offset, length,
              recv_comm, request);
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t* request,
                                                      bool* done, size_t* size) {
  return guarded("nrt_async_sendrecv_test_request", [&](Session& session) -> Result<void> {
    if (done == nullptr) return null_argument("done");
    NEURON_TRY(progress, SendReceive::of(session).test(id_of(request)));
    *done = progress.done;
    if (size != nullptr && progress.done) *size = progress.bytes;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_async_sendrecv_flush(int lnc) {
  return guarded("nrt_async_sendrecv_flush",
                 [&](Session& session) { return SendReceive::of(session).flush(session, lnc); });
}
