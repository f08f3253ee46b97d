// SPDX-License-Identifier: Apache-2.0
//
// nrt_debug_client_*: what programs say by `notify`, as prints of tensors of two numbers.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nrt/ndebug_stream.h"
#include "runtime/api/guard.h"
#include "runtime/neff/model.h"
#include "runtime/profile/debug_streams.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

using Payload = ndebug_stream_payload_debug_tensor_read_t;
constexpr size_t kNumbers = 2;

Result<void*> payload_of(const CoreNotes::Event& event, const Core& core) {
  const neuron_notification& note = event.entry;
  constexpr size_t kBytes = kNumbers * sizeof(uint32_t);
  auto* payload = static_cast<Payload*>(std::calloc(1, sizeof(Payload) + kBytes));
  if (payload == nullptr) return fail(NRT_RESOURCE, "no memory for an event of a debug stream");
  const auto engine = static_cast<uint8_t>(note.word >> NEURON_NW_ENGINE_SHIFT & 0xF);
  const std::string where =
      core.peer != nullptr ? format(" of physical core {}", event.core) : std::string();
  std::snprintf(payload->prefix, sizeof(payload->prefix), "notify of %s%s, pc %u, debug id %u",
                neuron::neff::engine_name(engine), where.c_str(), note.pc, note.debug);
  payload->logical_nc_id = core.index();
  payload->pipe = engine;
  std::snprintf(payload->tensor_dtype, sizeof(payload->tensor_dtype), "uint32");
  payload->tensor_shape[0] = kNumbers;
  payload->tensor_data_size = kBytes;
  std::memcpy(reinterpret_cast<char*>(payload) + sizeof(Payload), note.info, kBytes);
  return payload;
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_debug_client_connect(int logical_nc_idx, int* stream_fd) {
  return guarded("nrt_debug_client_connect", [&](Session& session) -> Result<void> {
    if (stream_fd == nullptr) return null_argument("stream_fd");
    NEURON_TRY(core, session.core(logical_nc_idx));
    NEURON_TRY(descriptor, DebugStreams::of(session).connect(*core));
    *stream_fd = descriptor;
    return {};
  });
}

NRT_EXPORT void nrt_debug_client_connect_close(int stream_fd) {
  guarded("nrt_debug_client_connect_close",
          [&](Session& session) { return DebugStreams::of(session).close(stream_fd); });
}

NRT_EXPORT NRT_STATUS nrt_debug_client_read_one_event(int stream_fd,
                                                      ndebug_stream_event_header_t* header,
                                                      void** payload) {
  bool empty = false;
  const NRT_STATUS status =
      guarded("nrt_debug_client_read_one_event", [&](Session& session) -> Result<void> {
        if (header == nullptr) return null_argument("header");
        if (payload == nullptr) return null_argument("payload");
        NEURON_TRY(notes, DebugStreams::of(session).stream(stream_fd));
        const auto note = notes->take();
        empty = !note;
        if (empty) return {};
        NEURON_TRY(made, payload_of(*note, notes->core()));
        std::memset(header, 0, sizeof(*header));
        header->type = NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ;
        header->data_size = sizeof(Payload) + static_cast<Payload*>(made)->tensor_data_size;
        *payload = made;
        return {};
      });
  return status == NRT_SUCCESS && empty ? NRT_QUEUE_EMPTY : status;
}
