// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/shared_message.h"

#include <cstring>

namespace neuron::transport {
namespace {

// Later versions may have longer structs: bytes that are not known yet are ignored.
template <typename T>
bool take(std::span<const std::byte> packet, T& message) {
  if (packet.size() < sizeof(T)) return false;
  std::memcpy(&message, packet.data(), sizeof(T));
  return true;
}

bool take_ioctl(std::span<const std::byte> packet, Request& request) {
  if (!take(packet, request.ioctl)) return false;
  std::span<const std::byte> rest = packet.subspan(sizeof(wire::IoctlRequest));
  if (request.ioctl.argument_bytes > rest.size()) return false;
  request.argument = rest.first(request.ioctl.argument_bytes);
  request.data = rest.subspan(request.ioctl.argument_bytes);
  return (request.flags & wire::kFlagDataInFile) != 0
             ? request.data.empty() && request.ioctl.data_bytes <= wire::kMaxData
             : request.data.size() == request.ioctl.data_bytes;
}

}  // namespace

std::optional<Request> parse_request(std::span<const std::byte> packet, std::string& why) {
  wire::Header header;
  if (!take(packet, header) || header.magic != wire::kMagic || header.size != packet.size()) {
    why = "a packet of " + std::to_string(packet.size()) +
          " bytes that is no message of a shared device";
    return std::nullopt;
  }
  Request request;
  request.kind = static_cast<wire::Kind>(header.kind);
  request.id = header.id;
  request.flags = header.flags;
  bool complete = false;
  switch (request.kind) {
    case wire::Kind::kHello:
      complete = take(packet, request.hello);
      break;
    case wire::Kind::kIoctl:
      complete = take_ioctl(packet, request);
      break;
    case wire::Kind::kMap:
      complete = take(packet, request.map);
      break;
    case wire::Kind::kResolve:
      complete = take(packet, request.resolve);
      break;
    case wire::Kind::kRegister:
      complete = take(packet, request.access);
      break;
    case wire::Kind::kWait:
      complete = take(packet, request.wait);
      break;
    case wire::Kind::kDescribe:
      complete = take(packet, request.describe);
      break;
    case wire::Kind::kObserve:
      complete = take(packet, request.observe);
      break;
    case wire::Kind::kGoodbye:
      complete = true;
      break;
    default:
      why = "a message of kind " + std::to_string(header.kind) + ", which does not exist";
      return std::nullopt;
  }
  if (!complete) {
    why = "a message of kind " + std::to_string(header.kind) + " whose " +
          std::to_string(packet.size()) + " bytes do not agree with what is in it";
    return std::nullopt;
  }
  return request;
}

}  // namespace neuron::transport
