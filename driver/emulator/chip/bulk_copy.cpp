// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/bulk_copy.h"

#include <cstring>

namespace neuron::chip {

void bulk_copy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memmove(to, from, bytes);
}

}  // namespace neuron::chip
