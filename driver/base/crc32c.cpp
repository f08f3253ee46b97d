// SPDX-License-Identifier: Apache-2.0
#include "driver/base/crc32c.h"

#include "driver/base/sliced_crc.h"

namespace neuron::base {

uint32_t crc32c(std::span<const uint8_t> bytes) {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits reversed
  return SlicedCrc<kPolynomial>::of(bytes);
}

}  // namespace neuron::base
