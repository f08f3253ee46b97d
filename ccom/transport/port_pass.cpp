// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/port_pass.h"

#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "driver/base/hmac_sha256.h"
#include "driver/base/random_bytes.h"

namespace neuron::ccom {

Result<PortKey> new_port_key() {
  PortKey key;
  if (!base::random_bytes(std::span(reinterpret_cast<uint8_t*>(key.data()), key.size()))) {
    return system_error(errno, "the host gives no random numbers, which keep strangers out");
  }
  return key;
}

PortPass pass_of(const PortKey& receiver, Rank sender) {
  const std::string text = format("libccom port, from rank {}", sender);
  const auto digest =
      base::hmac_sha256(receiver, std::as_bytes(std::span(text.data(), text.size())));
  PortPass result;
  std::memcpy(result.pass.data(), digest.data(), result.pass.size());
  std::memcpy(&result.mask, digest.data() + result.pass.size(), sizeof(result.mask));
  return result;
}

}  // namespace neuron::ccom
