// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/network_control.h"

#include <cstring>
#include <type_traits>

namespace neuron::ccom {
namespace {

// All hosts of a job have the same byte order: the bootstrap compares it.
constexpr uint32_t kMagic = 0x63636d32;
constexpr uint32_t kQuestion = 1;
constexpr uint32_t kLeaving = 2;

static_assert(std::has_unique_object_representations_v<Signature>);

struct Wire {
  uint32_t magic = kMagic;
  uint32_t flags = 0;
  struct Stream {
    uint32_t state = 0;
    uint32_t waits_for = 0;
    uint64_t steps = 0;
    Signature last;
    Signature before;
  } streams[CCOM_MAX_STREAMS];
};
static_assert(std::is_trivially_copyable_v<Wire>);

bool valid(const Signature& signature, uint32_t ranks, uint32_t stream) {
  return signature.kind < CCOM_OPERATION_COUNT && signature.type < CCOM_TYPE_COUNT &&
         signature.reduction < CCOM_REDUCTION_COUNT && signature.algorithm < CCOM_ALGORITHM_COUNT &&
         signature.root < ranks && signature.stream == stream;
}

}  // namespace

std::vector<std::byte> ControlMessage::encode() const {
  Wire wire;
  wire.flags = (question ? kQuestion : 0) | (leaving ? kLeaving : 0);
  for (uint32_t i = 0; i < CCOM_MAX_STREAMS; ++i) {
    wire.streams[i] = {static_cast<uint32_t>(streams[i].state), streams[i].waits_for,
                       streams[i].steps, streams[i].last, streams[i].before};
  }
  std::vector<std::byte> bytes(sizeof wire);
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

std::optional<ControlMessage> ControlMessage::decode(std::span<const std::byte> bytes,
                                                     uint32_t ranks) {
  Wire wire;
  if (bytes.size() != sizeof wire) {
    return std::nullopt;
  }
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kMagic || wire.flags > (kQuestion | kLeaving)) {
    return std::nullopt;
  }
  ControlMessage message;
  message.question = (wire.flags & kQuestion) != 0;
  message.leaving = (wire.flags & kLeaving) != 0;
  for (uint32_t i = 0; i < CCOM_MAX_STREAMS; ++i) {
    const auto& from = wire.streams[i];
    if (from.state > static_cast<uint32_t>(StreamState::kFailed) ||
        (from.waits_for >= ranks && from.waits_for != StreamReport::kNobody)) {
      return std::nullopt;
    }
    const auto state = static_cast<StreamState>(from.state);
    if (state != StreamState::kIdle &&
        (!valid(from.last, ranks, i) ||
         (from.before != Signature{} && !valid(from.before, ranks, i)))) {
      return std::nullopt;
    }
    message.streams[i] = {state, from.waits_for, from.steps, from.last, from.before};
  }
  return message;
}

}  // namespace neuron::ccom
