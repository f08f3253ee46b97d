// SPDX-License-Identifier: Apache-2.0
//
// What two cores say to each other on a TCP connection. Both sides introduce themselves once; then
// the sender writes messages, and the receiver answers each when its bytes lie in the tensor.
// Callers: Connection, Listener. Plain values, little-endian as every host of a Neuron device.
#ifndef RUNTIME_SEND_RECEIVE_WIRE_H
#define RUNTIME_SEND_RECEIVE_WIRE_H

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

namespace neuron::runtime {

static_assert(std::endian::native == std::endian::little);

// Who speaks, and whom it wants.
struct Introduction {
  static constexpr uint64_t kMagic = 0x5652'444e'5352'4e4f;  // "ONRSNDRV"
  static constexpr uint32_t kVersion = 1;

  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  int32_t from_core = 0;  // absolute numbers of virtual cores
  int32_t to_core = 0;
  uint32_t process = 0;
  std::array<char, 64> host = {};

  bool good() const { return magic == kMagic && version == kVersion; }
  std::string host_name() const { return {host.data(), ::strnlen(host.data(), host.size())}; }
};
static_assert(sizeof(Introduction) == 88);

enum class FrameKind : uint32_t { kMessage = 1, kReceived = 2, kTooLong = 3 };

// Before the bytes of a message, and as the answer to it.
struct Frame {
  FrameKind kind = FrameKind::kMessage;
  uint32_t zero = 0;
  uint64_t number = 0;  // of the message, counted from 0
  uint64_t bytes = 0;   // kTooLong: what the receiver has room for
};
static_assert(sizeof(Frame) == 24);

}  // namespace neuron::runtime

#endif
