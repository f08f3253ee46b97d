// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/random.h"

#include "driver/emulator/numerics/random_simd.h"

namespace neuron::numerics {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiply0 = 0xD2511F53u;
  constexpr uint64_t kMultiply1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr uint32_t kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiply0 * counter[0];
    const uint64_t p1 = kMultiply1 * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::array<uint32_t, 4> RandomStream::block(uint64_t number) const {
  return philox4x32({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), lane_, 0},
                    {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
}

uint32_t RandomStream::at(uint64_t position) const { return block(position / 4)[position % 4]; }

uint32_t RandomStream::next() {
  const uint64_t number = position_ / 4;
  if (number != cached_number_) {
    cached_ = block(number);
    cached_number_ = number;
  }
  return cached_[position_++ % 4];
}

void RandomStream::fill(uint32_t* out, size_t n) {
  while (n > 0 && position_ % 4 != 0) {
    *out++ = next();
    --n;
  }
  const size_t blocks = n / 4;
  philox_blocks(seed_, lane_, position_ / 4, out, blocks);
  position_ += 4 * blocks;
  for (size_t i = 4 * blocks; i < n; ++i) out[i] = next();
}

}  // namespace neuron::numerics
