// SPDX-License-Identifier: Apache-2.0
// rng, dropout and set_rng_seed: one counter-based stream per partition.
#include <cstring>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"

namespace neuron::core {
namespace {

// Separates the streams of rng and dropout from those of stochastic rounding.
constexpr uint32_t kLane = 1u << 16;

// Draws a word for each element of row r of the block.
void draw(const UnitContext& context, const isa::Operand& dst, const Block& block, unsigned r,
          uint32_t* words) {
  const RandomNumbers& numbers = context.random_numbers;
  numerics::RandomStream stream(numbers.seeded ? numbers.seed : context.seed,
                                kLane | context.engine << 8 | (dst.start + block.part + r),
                                numbers.position + block.first);
  stream.fill(words, block.count);
}

}  // namespace

Fault random_bits(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const size_t bytes = dst.element_bytes();
  std::byte* out = bytes_of(context.scratch.a.data());
  auto* words = reinterpret_cast<uint32_t*>(context.scratch.b.data());
  for_blocks(dst.partitions(), dst.elements(), false, [&](const Block& block) {
    std::byte* at = out;
    for (unsigned r = 0; r < block.rows; ++r) {
      draw(context, i.dst, block, r, words);
      for (size_t e = 0; e < block.count; ++e, at += bytes) {
        std::memcpy(at, words + e, bytes);  // little endian: the low bits
      }
    }
    store_raw_block(dst, block, out);
  });
  context.random_numbers.position += dst.elements();
  return {};
}

Fault dropout(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const bool raw = i.src0.dtype == i.dst.dtype && i.src0.bias == i.dst.bias;
  const size_t bytes = dst.element_bytes();
  Scratch& s = context.scratch;
  auto* words = reinterpret_cast<uint32_t*>(s.b.data());
  for_blocks(dst.partitions(), dst.elements(), dst.clobbers(source), [&](const Block& block) {
    std::byte* out = bytes_of(s.c.data());
    if (raw) {
      load_raw_block(source, block, out);
    } else {
      narrow_block(context, dst, i.dst, block, load_block(source, block, s.a.data()), out);
    }
    std::byte* at = out;
    for (unsigned r = 0; r < block.rows; ++r) {
      float probability;
      expand_scalar(context, i.scalar0, block.part + r, 1, 1, &probability);
      draw(context, i.dst, block, r, words);
      for (size_t e = 0; e < block.count; ++e, at += bytes) {
        // 24 bits are exact in fp32: probability 0 never hits, 1 always does, NaN never.
        const bool hit = static_cast<float>(words[e] >> 8) * 0x1p-24f < probability;
        if (hit != i.vector.invert) std::memset(at, 0, bytes);
      }
    }
    store_raw_block(dst, block, out);
  });
  context.random_numbers.position += dst.elements();
  return {};
}

Fault set_random_seed(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  uint32_t seed = 0;
  std::byte raw[sizeof(seed)] = {};
  source.load_raw(0, 0, 1, raw);
  std::memcpy(&seed, raw, sizeof(seed));
  context.random_numbers = {true, seed, 0};
  return {};
}

}  // namespace neuron::core
