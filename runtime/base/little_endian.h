// SPDX-License-Identifier: Apache-2.0
//
// Little-endian numbers in byte arrays of any alignment. The caller has checked the bounds.
// Thread-safe: no state. Cannot fail.
#ifndef RUNTIME_BASE_LITTLE_ENDIAN_H_
#define RUNTIME_BASE_LITTLE_ENDIAN_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace neuron::runtime {

static_assert(std::endian::native == std::endian::little,
              "the hosts of the chip are little endian");

template <class T>
T load_little(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store_little(std::uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace neuron::runtime

#endif  // RUNTIME_BASE_LITTLE_ENDIAN_H_
