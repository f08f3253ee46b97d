// SPDX-License-Identifier: Apache-2.0
// An internet address with a port: 10.0.0.1:4000, [fe80::1]:4000.
//
// Names are refused: all ranks must mean the same address, whatever their resolvers say.
// Thread-safe: values. Fails: CCOM_INVALID with the text and what is expected.
#ifndef CCOM_BOOTSTRAP_ADDRESS_H
#define CCOM_BOOTSTRAP_ADDRESS_H

#include <array>
#include <cstdint>
#include <string>

#include "ccom/base/error.h"

struct sockaddr;

namespace neuron::ccom {

struct Address {
  bool v6 = false;
  std::array<uint8_t, 16> bytes{};  // the first four of IPv4
  uint32_t scope = 0;               // interface of a link-local IPv6 address
  uint16_t port = 0;

  bool operator==(const Address&) const = default;
};

Result<Address> parse_address(const std::string& text);
std::string text_of(const Address& address);
// Whether only this host reaches it.
bool is_loopback(const Address& address);

// Opens a listening socket at the address; port 0 means any port. `address` becomes the address
// that it is bound to.
Result<int> open_listener(Address& address, const std::string& purpose);

// Conversion to and from the system's form, which has `length` bytes.
struct SystemAddress {
  alignas(8) std::array<std::byte, 128> bytes{};
  uint32_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(bytes.data()); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(bytes.data()); }
};
SystemAddress system_address(const Address& address);
Address address_of(const SystemAddress& system);

}  // namespace neuron::ccom

#endif
