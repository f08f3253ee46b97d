// SPDX-License-Identifier: Apache-2.0
#include "ccom/request/arguments.h"

#include <algorithm>

#include "ccom/request/layout.h"
#include "ccom/request/names.h"
#include "ccom/request/validate.h"

namespace neuron::ccom {
namespace {

Result<void> take_array(const char* operation, const char* name, const uint64_t* array,
                        uint32_t ranks, std::vector<uint64_t>& into) {
  if (array == nullptr) {
    return fail(CCOM_INVALID, "{}: {} is null; it needs {} numbers, one for each rank", operation,
                name, ranks);
  }
  into.assign(array, array + ranks);
  return {};
}

Result<void> check_size(const ccom_collective_t& call) {
  if (call.size_of != sizeof(ccom_collective_t)) {
    return fail(CCOM_INVALID,
                "collective->size_of is {}, this library knows ccom_collective_t of {} bytes; set "
                "it to sizeof(ccom_collective_t) and compile with the header of version {}",
                call.size_of, sizeof(ccom_collective_t), ccom_version());
  }
  if (call.stream >= CCOM_MAX_STREAMS) {
    return fail(CCOM_INVALID, "stream {} does not exist; streams are 0 to {}", call.stream,
                CCOM_MAX_STREAMS - 1);
  }
  return {};
}

}  // namespace

Result<Request> make_request(const ccom_collective_t& call, uint32_t ranks) {
  NEURON_CHECK(check_size(call));
  Request request;
  request.operation = call.operation;
  request.type = call.operation == CCOM_BARRIER ? CCOM_UINT8 : call.type;
  request.reduction = call.reduction;
  request.algorithm = call.algorithm;
  const char* name = operation_name(call.operation);
  switch (call.operation) {
    case CCOM_BROADCAST:
    case CCOM_REDUCE:
    case CCOM_GATHER:
    case CCOM_SCATTER:
      request.root = call.root;
      request.count = call.count;
      break;
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      if (call.pairs == nullptr && call.pair_count != 0) {
        return fail(CCOM_INVALID, "{}: pairs is null, but pair_count is {}", name, call.pair_count);
      }
      if (call.pair_count > ranks) {
        return fail(CCOM_INVALID, "{}: {} pairs, but {} ranks can send once each at most", name,
                    call.pair_count, ranks);
      }
      request.pairs.assign(call.pairs, call.pairs + call.pair_count);
      request.count = call.count;
      break;
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER_V:
      NEURON_CHECK(take_array(name, "counts", call.counts, ranks, request.counts));
      NEURON_CHECK(
          take_array(name, "displacements", call.displacements, ranks, request.displacements));
      break;
    case CCOM_ALL_TO_ALL_V:
    case CCOM_BARRIER:
      break;
    default:
      request.count = call.count;
  }
  // Other operations ignore the reduction, so it is cleared: equal calls have equal requests.
  if (!reduces(call.operation)) {
    request.reduction = CCOM_ADD;
  }
  if (call.operation != CCOM_ALL_TO_ALL_V) {
    NEURON_CHECK(validate(request, ranks));
  } else if (element_bytes(call.type) == 0) {
    return fail(CCOM_INVALID, "{}: element type {} does not exist; the last one is {}", name,
                static_cast<uint32_t>(call.type), CCOM_TYPE_COUNT - 1);
  }
  return request;
}

BufferExtents buffer_extents(const Request& request, Rank rank, uint32_t ranks) {
  BufferExtents result;
  const Layout apart(request, ranks);
  result.input_bytes = apart.input_bytes(rank);
  result.output_bytes = apart.output_bytes(rank);
  Request shared = request;
  shared.in_place = true;
  const Layout layout(shared, ranks);
  const Slice input = layout.input(rank, 0);
  const Slice output = layout.output(rank, 0);
  // In the variable forms a rank may have no data where the others have some. Then only the
  // addresses of its buffers say whether it works in place.
  const bool variable = request.operation == CCOM_ALL_GATHER_V ||
                        request.operation == CCOM_REDUCE_SCATTER_V ||
                        request.operation == CCOM_ALL_TO_ALL_V;
  result.can_be_in_place = input.buffer == output.buffer &&
                           (variable || (result.input_bytes != 0 && result.output_bytes != 0));
  if (input.buffer == Buffer::kOutput) {
    result.in_place_distance = -static_cast<int64_t>(input.offset);
  } else if (output.buffer == Buffer::kInput) {
    result.in_place_distance = static_cast<int64_t>(output.offset);
  }
  return result;
}

bool in_place(const BufferExtents& extents, const void* input, const void* output) {
  return extents.can_be_in_place && input != nullptr &&
         reinterpret_cast<uintptr_t>(output) - reinterpret_cast<uintptr_t>(input) ==
             static_cast<uintptr_t>(extents.in_place_distance);
}

Result<void> check_buffers(const ccom_collective_t& call, const BufferExtents& extents) {
  const char* name = operation_name(call.operation);
  const auto input = reinterpret_cast<uintptr_t>(call.input);
  const auto output = reinterpret_cast<uintptr_t>(call.output);
  if (input == 0 && extents.input_bytes != 0) {
    return fail(CCOM_INVALID, "{}: input is null, but this rank gives {} bytes", name,
                extents.input_bytes);
  }
  if (output == 0 && extents.output_bytes != 0) {
    return fail(CCOM_INVALID, "{}: output is null, but this rank gets {} bytes", name,
                extents.output_bytes);
  }
  if (extents.input_bytes > UINTPTR_MAX - input || extents.output_bytes > UINTPTR_MAX - output) {
    return fail(CCOM_INVALID, "{}: a buffer of {} or {} bytes does not fit behind its address",
                name, extents.input_bytes, extents.output_bytes);
  }
  if (extents.input_bytes != 0 && extents.output_bytes != 0 &&
      input < output + extents.output_bytes && output < input + extents.input_bytes &&
      !in_place(extents, call.input, call.output)) {
    return fail(
        CCOM_INVALID,
        "{}: input ({} bytes at {:#x}) and output ({} bytes at {:#x}) overlap; they may be "
        "apart, or in place{}",
        name, extents.input_bytes, input, extents.output_bytes, output,
        extents.can_be_in_place
            ? ccom::format(" with output at input {} {}", extents.in_place_distance < 0 ? '-' : '+',
                           extents.in_place_distance < 0 ? -extents.in_place_distance
                                                         : extents.in_place_distance)
            : "");
  }
  return {};
}

}  // namespace neuron::ccom
