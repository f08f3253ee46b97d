// SPDX-License-Identifier: Apache-2.0
// Messages of clients, checked.
//
// Concepts: a packet becomes a Request only if every length in it agrees with the packet; nothing
// later looks at raw bytes. Callers: the daemon's event loop, fuzzers. Thread-safe: no state. Owns
// nothing: spans lead into the packet. Fails: null and why.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_SHARED_MESSAGE_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_SHARED_MESSAGE_H

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "driver/wire/wire.h"

namespace neuron::transport {

struct Request {
  wire::Kind kind{};
  uint32_t id = 0;
  uint16_t flags = 0;
  union {
    wire::Hello hello;
    wire::IoctlRequest ioctl;
    wire::MapRequest map;
    wire::ResolveRequest resolve;
    wire::RegisterRequest access;
    wire::WaitRequest wait;
    wire::DescribeRequest describe;
    wire::ObserveRequest observe;
  };
  std::span<const std::byte> argument;  // kIoctl
  std::span<const std::byte> data;      // kIoctl without kFlagDataInFile

  Request() : ioctl() {}
};

std::optional<Request> parse_request(std::span<const std::byte> packet, std::string& why);

}  // namespace neuron::transport

#endif
