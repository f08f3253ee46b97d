// SPDX-License-Identifier: Apache-2.0
// The reports that ranks exchange about their operations when one of them waits too long.
//
// Concepts: a rank asks, and another answers with its report: for each stream the last two
// collectives, whether the last is under way, how far it got and which rank it waits for. Callers:
// NetworkPort sends and takes reports, the executor fills and reads them. Thread-safe: values.
// Fails: decode refuses messages that are too short, too long, or out of range.
#ifndef CCOM_TRANSPORT_NETWORK_CONTROL_H
#define CCOM_TRANSPORT_NETWORK_CONTROL_H

#include <ccom/ccom.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ccom/transport/connection.h"

namespace neuron::ccom {

enum class StreamState : uint8_t { kIdle, kUnderWay, kDone, kFailed };

struct StreamReport {
  StreamState state = StreamState::kIdle;  // of `last`; kIdle: there was none
  Rank waits_for = kNobody;
  uint64_t steps = 0;
  Signature last;
  Signature before;  // the collective before it; meaningless when last.operation is 0

  static constexpr Rank kNobody = ~Rank{0};
};

struct ControlMessage {
  bool question = false;  // an answer is wanted
  bool leaving = false;   // the last message from its sender
  std::array<StreamReport, CCOM_MAX_STREAMS> streams;

  std::vector<std::byte> encode() const;
  static std::optional<ControlMessage> decode(std::span<const std::byte> bytes, uint32_t ranks);
};

}  // namespace neuron::ccom

#endif
