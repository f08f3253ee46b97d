// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what ranks of a job may send while they join: frames, and the message in each.
//
// An input is a stream as it would come from a connection. Whatever is accepted must be encoded
// to the same bytes again (texts for people excepted), so that no two readings of one message
// exist, and takes no more memory than a small multiple of what came.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ccom/bootstrap/address.h"
#include "ccom/bootstrap/message.h"

namespace {

using namespace neuron::ccom;

// A text that was cleaned for terminals differs from what came, but not twice.
template <class T>
void read_as(std::span<const std::byte> body) {
  T message;
  if (!decode(body, message)) {
    return;
  }
  const Bytes once = encode(message);
  T again;
  if (once.size() != body.size() || !decode(once, again) || encode(again) != once) {
    abort();
  }
}

void read_message(MessageType type, std::span<const std::byte> body) {
  switch (type) {
    case MessageType::kHello:
      return read_as<Hello>(body);
    case MessageType::kChallenge:
      return read_as<Challenge>(body);
    case MessageType::kProof:
      return read_as<Proof>(body);
    case MessageType::kJoin:
      return read_as<Join>(body);
    case MessageType::kPlace:
      return read_as<TreePlace>(body);
    case MessageType::kRefuse:
      return read_as<Refuse>(body);
    case MessageType::kAttach:
      return read_as<Attach>(body);
    case MessageType::kTable:
      return read_as<Table>(body);
    case MessageType::kGatherUp:
      return read_as<GatherUp>(body);
    case MessageType::kGatherDown:
      return read_as<GatherDown>(body);
    case MessageType::kRoundFailed:
      return read_as<RoundFailed>(body);
    case MessageType::kFailure:
      return read_as<Failure>(body);
    case MessageType::kRegroup:
      return read_as<Regroup>(body);
    case MessageType::kRegroupDecided:
      return read_as<RegroupDecided>(body);
    case MessageType::kNotice:
    case MessageType::kGrowthNotice:
      return read_as<Notice>(body);
    default:
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto rest = std::as_bytes(std::span(data, size));
  static_cast<void>(parse_address(std::string(reinterpret_cast<const char*>(data), size)));
  while (rest.size() >= FrameHeader::kBytes) {
    FrameHeader header;
    if (!decode(rest.first(FrameHeader::kBytes), header)) {
      return 0;
    }
    rest = rest.subspan(FrameHeader::kBytes);
    const auto body = rest.first(std::min<size_t>(header.length, rest.size()));
    read_message(header.type, body);
    rest = rest.subspan(body.size());
  }
  return 0;
}
