// SPDX-License-Identifier: Apache-2.0
//
// Little-endian numbers in byte arrays of any alignment. The caller has checked the bounds.
// Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_LITTLE_ENDIAN_H
#define DRIVER_BASE_LITTLE_ENDIAN_H

#include <bit>
#include <cstdint>
#include <cstring>

namespace neuron::base {

static_assert(std::endian::native == std::endian::little,
              "the hosts of the chip are little endian");

template <class T>
T load_little(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store_little(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace neuron::base

#endif
