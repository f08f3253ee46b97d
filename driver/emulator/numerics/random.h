// SPDX-License-Identifier: Apache-2.0
// Random words of the chip: counter-based (Philox 4x32, 10 rounds), so that word i of a partition
// is a pure function of (seed, partition, i) and does not depend on the order in which partitions
// are computed.
//
// Used for stochastic rounding and the rng instruction. One RandomStream per (engine, partition)
// and instruction; the engine keeps the position between instructions. No allocation, no failure;
// objects belong to one thread.
#ifndef DRIVER_EMULATOR_NUMERICS_RANDOM_H
#define DRIVER_EMULATOR_NUMERICS_RANDOM_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace neuron::numerics {

// Four independent 32-bit words for a 128-bit counter under a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class RandomStream {
 public:
  // `lane` separates the streams that draw from one seed: partition in bits 7:0, engine above.
  RandomStream(uint64_t seed, uint32_t lane, uint64_t position = 0)
      : seed_(seed), position_(position), lane_(lane) {}

  // The word at any position, without moving.
  uint32_t at(uint64_t position) const;
  uint32_t next();
  // The next n words, as n calls of next() would give them.
  void fill(uint32_t* out, size_t n);
  uint64_t position() const { return position_; }

 private:
  std::array<uint32_t, 4> block(uint64_t number) const;

  static constexpr uint64_t kNoBlock = ~0ull;
  uint64_t seed_;
  uint64_t position_;
  uint64_t cached_number_ = kNoBlock;
  std::array<uint32_t, 4> cached_{};
  uint32_t lane_;
};

}  // namespace neuron::numerics
#endif
