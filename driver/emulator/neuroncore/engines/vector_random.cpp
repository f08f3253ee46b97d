// SPDX-License-Identifier: Apache-2.0
// rng, dropout and set_rng_seed: one counter-based stream per partition; on engines with XORWOW
// states, which rand_set_state, rand_get_state and rand2 have as well, the words of these.
#include <cstring>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"

namespace neuron::core {
namespace {

// Separates the streams of rng and dropout from those of stochastic rounding.
constexpr uint32_t kLane = 1u << 16;

unsigned states_of(const UnitContext& context) {
  return context.engine == NEURON_ENGINE_POOL ? RandomStates::kOfPool : RandomStates::kOfVector;
}

uint64_t seed_of(const UnitContext& context) {
  return context.random_numbers.seeded ? context.random_numbers.seed : context.seed;
}
uint32_t lane_of(const UnitContext& context, unsigned partition) {
  return kLane | context.engine << 8 | partition;
}

// The states of the engine; nobody has set them: the first words of the seed's streams.
RandomStates& states(UnitContext& context) {
  RandomStates& all = context.states;
  if (all.seeded) return all;
  for (unsigned p = 0; p < NEURON_PARTITIONS; ++p) {
    numerics::RandomStream stream(seed_of(context), lane_of(context, p));
    for (numerics::Xorwow& state : all.lanes[p]) stream.fill(state.words.data(), state.kWords);
  }
  all.seeded = true;
  return all;
}

// Draws a word for each element of row r of the block.
void draw(UnitContext& context, const isa::Operand& dst, const Block& block, unsigned r,
          uint32_t* words) {
  const unsigned partition = dst.start + block.part + r;
  if (context.xorwow) {
    RandomStates::Lane& lane = states(context).lanes[partition];
    const unsigned count = states_of(context);
    for (size_t e = 0; e < block.count; ++e) words[e] = lane[(block.first + e) % count].next();
    return;
  }
  numerics::RandomStream stream(seed_of(context), lane_of(context, partition),
                                context.random_numbers.position + block.first);
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
  context.states.seeded = false;
  return {};
}

// Each number is min + (max - min) x fraction, with a fraction of 24 bits.
Fault uniform(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  auto* words = reinterpret_cast<uint32_t*>(context.scratch.b.data());
  float* values = context.scratch.a.data();
  for_blocks(dst.partitions(), dst.elements(), false, [&](const Block& block) {
    for (unsigned r = 0; r < block.rows; ++r) {
      float bounds[2];
      expand_scalar(context, i.scalar0, block.part + r, 1, 1, bounds);
      expand_scalar(context, i.scalar1, block.part + r, 1, 1, bounds + 1);
      const float range = bounds[1] - bounds[0];
      draw(context, i.dst, block, r, words);
      for (size_t e = 0; e < block.count; ++e) {
        const float fraction = static_cast<float>(words[e] >> 8) * 0x1p-24f;
        values[r * block.count + e] = bounds[0] + range * fraction;
      }
    }
    store_block(context, dst, i.dst, block, values);
  });
  return {};
}

Fault set_random_state(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  RandomStates& all = states(context);
  for (unsigned p = 0; p < source.partitions(); ++p) {
    RandomStates::Lane& lane = all.lanes[i.src0.start + p];
    for (unsigned n = 0; n < states_of(context); ++n) {
      source.load_raw(p, uint64_t{n} * numerics::Xorwow::kWords, numerics::Xorwow::kWords,
                      reinterpret_cast<std::byte*>(lane[n].words.data()));
    }
  }
  return {};
}

Fault get_random_state(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const RandomStates& all = states(context);
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    const RandomStates::Lane& lane = all.lanes[i.dst.start + p];
    for (unsigned n = 0; n < states_of(context); ++n) {
      dst.store_raw(p, uint64_t{n} * numerics::Xorwow::kWords, numerics::Xorwow::kWords,
                    reinterpret_cast<const std::byte*>(lane[n].words.data()));
    }
  }
  return {};
}

}  // namespace neuron::core
