// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: each pair of numbers of a head is turned by the angle of its position.
//
// The first numbers of all pairs lie on the partitions of one tile, the second ones on the same
// partitions of another, wherever they are in memory. So a head takes four products and two sums.
// DVE computes the first numbers of the result and Pool the second ones. Cosines and sines stay in
// SBUF for all heads.
#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/pairs.h"
#include "tools/compiler/kernels/short_names.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

namespace {

constexpr uint64_t kPositions = 1024;  // Of one tile

struct RotatedSet {
  std::array<Tile, 2> x, y;
  std::array<Tile, 4> products;
};

}  // namespace

Neff rope(const std::string& name, uint8_t dtype, const RopeShape& shape) {
  const uint64_t size = shape.head_size, batch = shape.batch, heads = shape.heads;
  const uint64_t sequence = shape.sequence;
  if (size == 0 || size % 2 != 0 || size > 2 * NEURON_PARTITIONS || batch == 0 || heads == 0 ||
      sequence == 0 || (dtype != NEURON_DTYPE_F32 && dtype != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "rope \"{}\" of heads of {}, batch {}, {} heads, {} positions, {}; expected f32 or "
                "bf16, heads of an even size up to 256, and nothing empty",
                name, size, batch, heads, sequence, isa::dtype_name(dtype));
  }
  Program program(name);
  const uint64_t pairs = size / 2;
  const auto parts = static_cast<uint32_t>(pairs);
  const Buffer x = program.input("x", dtype, {size, batch, heads, sequence});
  const Buffer cosines = program.input("cos", dtype, {pairs, batch, sequence});
  const Buffer sines = program.input("sin", dtype, {pairs, batch, sequence});
  const Buffer y = program.output("y", dtype, {size, batch, heads, sequence});
  const auto width = static_cast<uint32_t>(std::min(sequence, kPositions));
  std::array<std::array<Tile, 2>, 2> angles;  // Of each set: cosines and sines
  for (auto& set : angles) {
    set = {program.sbuf("cos", parts, width, dtype), program.sbuf("sin", parts, width, dtype)};
  }
  std::array<RotatedSet, 2> sets;
  for (RotatedSet& set : sets) {
    for (Tile& tile : set.x) tile = program.sbuf("x", parts, width, dtype);
    for (Tile& tile : set.y) tile = program.sbuf("y", parts, width, dtype);
    for (Tile& tile : set.products) tile = program.sbuf("products", parts, width, kF32);
  }
  const uint64_t row = batch * heads * sequence;
  const auto step = static_cast<int64_t>(row);
  unsigned next = 0;
  for (uint64_t b = 0; b < batch; ++b) {
    for (uint64_t at = 0; at < sequence; at += width) {
      const uint64_t count = std::min<uint64_t>(width, sequence - at);
      const auto columns = static_cast<uint32_t>(count);
      const auto& angle = angles[next++ % 2];
      program.section("angles_" + std::to_string(b) + "_" + std::to_string(at));
      for (unsigned i = 0; i < 2; ++i) {
        program.dma(Engine::kActivation, angle[i].column_range(0, columns),
                    (i == 0 ? cosines : sines)
                        .pattern(b * sequence + at, {count, pairs},
                                 {1, static_cast<int64_t>(batch * sequence)}));
      }
      const auto cosine = angle[0].column_range(0, columns);
      const auto sine = angle[1].column_range(0, columns);
      const std::string part = "heads_" + std::to_string(b) + "_" + std::to_string(at);
      for_pairs(program, part, heads, [&](const Piece& head) {
        const RotatedSet& set = sets[head.set];
        const auto half = [&](const Buffer& buffer, uint64_t i) {
          const uint64_t first = (b * heads + head.first) * sequence + at;
          return (shape.interleaved
                      ? buffer.pattern(first + i * row, {count, pairs}, {1, 2 * step})
                      : buffer.pattern(first + i * pairs * row, {count, pairs}, {1, step}))
              .advancing(head.step * static_cast<int64_t>(sequence * isa::dtype_bytes(dtype)));
        };
        for (unsigned i = 0; i < 2; ++i) {
          program.dma(Engine::kSp, set.x[i].column_range(0, columns), half(x, i));
        }
        for (unsigned i = 0; i < 2; ++i) {
          const Engine engine = i == 0 ? Engine::kDve : Engine::kPool;
          const auto own = set.products[2 * i].column_range(0, columns);
          const auto other = set.products[2 * i + 1].column_range(0, columns);
          program.tensor_tensor(engine, own, set.x[i].column_range(0, columns), NEURON_ALU_MUL,
                                cosine);
          program.tensor_tensor(engine, other, set.x[1 - i].column_range(0, columns),
                                NEURON_ALU_MUL, sine);
          program.tensor_tensor(engine, set.y[i].column_range(0, columns), own,
                                i == 0 ? NEURON_ALU_SUB : NEURON_ALU_ADD, other);
        }
        for (unsigned i = 0; i < 2; ++i) {
          program.dma(Engine::kActivation, half(y, i), set.y[i].column_range(0, columns));
        }
      });
    }
  }
  return program.build();
}

}  // namespace neuron::kernels
