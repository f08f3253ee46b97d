// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/udma_recode.h"

#include <cstring>

namespace neuron::chip {

compression::Malformed recode(bool compresses, std::span<const std::byte> from,
                              std::span<std::byte> to) {
  const std::span bytes(reinterpret_cast<const uint8_t*>(from.data()), from.size());
  const std::span result(reinterpret_cast<uint8_t*>(to.data()), to.size());
  if (!compresses) return compression::decompress(bytes, result);
  const std::vector<uint8_t> stream = compression::compress(bytes);
  if (stream.size() > result.size()) {
    return {"the stream does not fit into the bytes that the metadata gives the result",
            static_cast<uint32_t>(result.size())};
  }
  std::memcpy(result.data(), stream.data(), stream.size());
  std::memset(result.data() + stream.size(), 0, result.size() - stream.size());
  return {};
}

}  // namespace neuron::chip
