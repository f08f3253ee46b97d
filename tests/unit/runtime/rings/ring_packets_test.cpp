// SPDX-License-Identifier: Apache-2.0
// Packets of compute transfers, against what the transfer says element by element.
#include "runtime/rings/ring_packets.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <random>

#include "hw/udma.h"

namespace neuron::runtime {
namespace {

using neff::DmaAccess;
using neff::DmaOperation;
using neff::DmaTransfer;
using Places = std::vector<uint64_t>;  // byte by byte: variable << 40 | offset

// The bytes that a side names, in order.
Places places_of(const DmaAccess& a) {
  Places result;
  for (uint64_t i3 = 0; i3 < a.sizes[3]; ++i3) {
    for (uint64_t i2 = 0; i2 < a.sizes[2]; ++i2) {
      for (uint64_t i1 = 0; i1 < a.sizes[1]; ++i1) {
        for (uint64_t i0 = 0; i0 < a.sizes[0]; ++i0) {
          result.push_back(uint64_t{a.variable} << 40 |
                           (a.offset + i0 + i1 * a.steps[1] + i2 * a.steps[2] + i3 * a.steps[3]));
        }
      }
    }
  }
  return result;
}

// Where each byte of the transfer's result goes, with the bytes it comes from, source by source.
struct Moves {
  Places to;
  std::vector<Places> from;
};

// What the packets say; `scales` gets the parameter of each source as the packets give it.
Moves moves_of(const PacketList& list, size_t sources, uint32_t from_bytes, uint32_t to_bytes,
               std::vector<std::vector<uint32_t>>& scales) {
  Moves moves;
  moves.from.resize(sources);
  PacketList::End begin;
  for (const PacketList::End& end : list.ends) {
    EXPECT_LE(end.m2s - begin.m2s, 65u);
    EXPECT_LE(end.s2m - begin.s2m, 65u);
    Places in, out;
    std::vector<std::pair<size_t, uint32_t>> changes;
    uint64_t rows = 0, columns = 0;
    for (uint32_t d = begin.m2s; d < end.m2s; ++d) {
      const RingDescriptor& one = list.m2s[d];
      EXPECT_EQ(one.first, d == begin.m2s);
      EXPECT_EQ(one.last, d + 1 == end.m2s);
      if (one.base == RingDescriptor::kMetadata) {
        EXPECT_EQ((one.length >> 17 & 15) + 1u, sources);
        changes.emplace_back(in.size(), static_cast<uint32_t>(one.offset));
        rows = one.offset >> NEURON_DMA_META_ROWS_SHIFT & 0xFFFF;
        columns = one.offset >> NEURON_DMA_META_COLUMNS_SHIFT;
        EXPECT_LT(rows, 4096u) << "would look like an address of the host";
        continue;
      }
      EXPECT_NE(one.operation, 0);
      EXPECT_LE(one.length, 65536u);
      for (uint32_t i = 0; i < one.length; ++i) {
        in.push_back(uint64_t{one.base} << 40 | (one.offset + i));
      }
    }
    for (uint32_t d = begin.s2m; d < end.s2m; ++d) {
      for (uint32_t i = 0; i < list.s2m[d].length; ++i) {
        out.push_back(uint64_t{list.s2m[d].base} << 40 | (list.s2m[d].offset + i));
      }
    }
    EXPECT_LT(in.size(), size_t{1} << 20);
    EXPECT_LT(out.size(), size_t{1} << 20);
    EXPECT_EQ(in.size() / sources / from_bytes * to_bytes, out.size());
    const size_t each = in.size() / sources;
    std::vector<uint32_t> scale(sources);
    for (const auto& [at, value] : changes) {
      EXPECT_EQ(at % each, 0u) << "metadata inside a source";
      std::fill(scale.begin() + static_cast<ptrdiff_t>(at / each), scale.end(), value);
    }
    scales.push_back(scale);
    if (rows * columns != 0) {
      EXPECT_EQ(in.size(), rows * columns * from_bytes);
      Places turned;
      for (uint64_t c = 0; c < columns; ++c) {
        for (uint64_t r = 0; r < rows; ++r) {
          for (uint32_t b = 0; b < from_bytes; ++b) {
            turned.push_back(in[(r * columns + c) * from_bytes + b]);
          }
        }
      }
      in = turned;
    }
    moves.to.insert(moves.to.end(), out.begin(), out.end());
    for (size_t s = 0; s < sources; ++s) {
      moves.from[s].insert(moves.from[s].end(), in.begin() + static_cast<ptrdiff_t>(s * each),
                           in.begin() + static_cast<ptrdiff_t>((s + 1) * each));
    }
    begin = end;
  }
  return moves;
}

DmaAccess side(uint32_t variable, uint8_t dtype, std::array<uint64_t, 4> sizes,
               std::array<int64_t, 4> steps, uint64_t offset = 0) {
  DmaAccess access;
  access.variable = variable;
  access.dtype = dtype;
  access.dimensions = 4;
  access.sizes = sizes;
  access.steps = steps;
  access.offset = offset;
  return access;
}

TEST(RingPackets, ComputeMovesEveryElementOfEverySourceOnceWhereverTheSidesBreak) {
  std::mt19937 random(11);
  constexpr uint8_t kTypes[] = {NEURON_DTYPE_U8, NEURON_DTYPE_BF16, NEURON_DTYPE_F32,
                                NEURON_DTYPE_I64};
  for (int round = 0; round < 60; ++round) {
    DmaTransfer t;
    t.operation = DmaOperation::kFma;
    const uint8_t from = kTypes[random() % 4], to = kTypes[random() % 4];
    const uint64_t fb = neff::dtype_bytes(from), tb = neff::dtype_bytes(to);
    const uint64_t a = 1 + random() % 70, b = 1 + random() % 9, c = 1 + random() % 6,
                   d = 1 + random() % 4;
    const size_t sources = 1 + random() % 16;
    for (uint32_t s = 0; s < sources; ++s) {
      // Each source breaks somewhere else.
      switch (random() % 3) {
        case 0:
          t.from.push_back(side(s, from, {a * fb, b, c, d}, {1, 700, 9000, 100000}, 16 * s));
          break;
        case 1:
          t.from.push_back(side(s, from, {fb, a * b, c * d, 1}, {1, 32, 90000, 0}, 8));
          break;
        default:
          t.from.push_back(side(s, from, {a * b * c * d * fb, 1, 1, 1}, {1, 0, 0, 0}));
      }
      t.from.back().scale = static_cast<float>(random() % 3);
    }
    t.to = side(99, to, {a * b * tb, d, c, 1}, {1, 70000, -9000, 0}, 100000);
    const uint32_t spread = 1 + random() % 16;
    const auto list = cut_into_packets(t, spread, 1u << 22);
    ASSERT_TRUE(list) << list.error().sentence;
    std::vector<std::vector<uint32_t>> scales;
    const Moves moves = moves_of(*list, sources, fb, tb, scales);
    EXPECT_EQ(moves.to, places_of(t.to));
    for (size_t s = 0; s < sources; ++s) {
      EXPECT_EQ(moves.from[s], places_of(t.from[s])) << "source " << s;
      for (const auto& scale : scales) {
        EXPECT_EQ(std::bit_cast<float>(scale[s]), t.from[s].scale) << "source " << s;
      }
    }
  }
}

TEST(RingPackets, LargeTransfersUseAllEnginesAndStayBelowAMebibyte) {
  DmaTransfer t;
  t.operation = DmaOperation::kCast;
  t.from = {side(0, NEURON_DTYPE_F32, {64 << 20, 1, 1, 1}, {1, 0, 0, 0})};
  t.to = side(1, NEURON_DTYPE_BF16, {32 << 20, 1, 1, 1}, {1, 0, 0, 0});
  EXPECT_GE(cut_into_packets(t, 16, 1u << 22)->ends.size(), 64u);
  t.from[0].sizes[0] = 1 << 18;
  t.to.sizes[0] = 1 << 17;
  EXPECT_EQ(cut_into_packets(t, 16, 1u << 22)->ends.size(), 16u);
  t.from[0].sizes[0] = 64;
  t.to.sizes[0] = 32;
  EXPECT_EQ(cut_into_packets(t, 16, 1u << 22)->ends.size(), 1u) << "too small to share";
}

TEST(RingPackets, MinAndMaxCarryTheirConstantAsFp32) {
  DmaTransfer t;
  t.operation = DmaOperation::kMax;
  t.constant_dtype = NEURON_DTYPE_I32;
  t.constant = static_cast<uint32_t>(-3);
  t.from = {side(0, NEURON_DTYPE_F32, {64, 1, 1, 1}, {1, 0, 0, 0})};
  t.to = side(1, NEURON_DTYPE_F32, {64, 1, 1, 1}, {1, 0, 0, 0});
  const auto list = cut_into_packets(t, 1, 1000);
  ASSERT_TRUE(list);
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(list->m2s[0].offset)), -3.0f);
  EXPECT_EQ(list->m2s[0].length & 15, unsigned{NEURON_DMA_MAX});
}

// Each byte of `to` with the byte of `from` that belongs there, by the definition.
void expect_transposed(const DmaTransfer& t, uint32_t spread) {
  const auto list = cut_into_packets(t, spread, 1u << 22);
  ASSERT_TRUE(list) << list.error().sentence;
  std::vector<std::vector<uint32_t>> scales;
  const uint32_t bytes = t.transpose_element_bytes * t.transpose_shape[3];
  const Moves moves = moves_of(*list, 1, bytes, bytes, scales);
  std::map<uint64_t, uint64_t> found;
  for (size_t i = 0; i < moves.to.size(); ++i) {
    EXPECT_TRUE(found.emplace(moves.to[i], moves.from[0][i]).second) << "written twice";
  }
  const Places from = places_of(t.from[0]), to = places_of(t.to);
  ASSERT_EQ(found.size(), to.size());
  const uint64_t rows = t.transpose_shape[1], columns = t.transpose_shape[2];
  for (uint64_t i = 0; i < to.size(); ++i) {
    const uint64_t element = i / bytes, inside = element % (rows * columns);
    const uint64_t r = inside % rows, c = inside / rows;
    const uint64_t source = (element - inside + r * columns + c) * bytes + i % bytes;
    ASSERT_EQ(found[to[i]], from[source]) << "byte " << i;
  }
}

TEST(RingPackets, TransposesEveryMatrixWhateverItsShapeAndTheShapeOfItsSides) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    DmaTransfer t;
    t.operation = DmaOperation::kTranspose;
    const uint32_t bytes = 1u << random() % 4;
    const uint64_t columns = 1 + random() % 90, rows = 1 + random() % 90, m = 1 + random() % 3;
    const uint32_t inner = random() % 3 == 0 ? bytes : 1;
    t.transpose_element_bytes = bytes / inner;
    t.transpose_shape = {static_cast<uint32_t>(m), static_cast<uint32_t>(rows),
                         static_cast<uint32_t>(columns), inner};
    t.from = {side(0, NEURON_DTYPE_U8, {columns * bytes, rows, m, 1}, {1, 5000, 1 << 20, 0})};
    t.to = side(1, NEURON_DTYPE_U8, {rows * bytes, columns, m, 1}, {1, 4096, 1 << 20, 0}, 64);
    if (random() % 2) {
      t.from[0] = side(0, NEURON_DTYPE_U8, {columns * rows * m * bytes, 1, 1, 1}, {1, 0, 0, 0});
    }
    if (random() % 2) {
      t.to = side(1, NEURON_DTYPE_U8, {bytes, rows, columns * m, 1}, {1, 16, 5000, 0});
    }
    expect_transposed(t, 1 + random() % 16);
  }
}

TEST(RingPackets, ATransposeMovesElementsThatAreNoNumberOneByOne) {
  DmaTransfer t;  // [2, 5, 7, 3] of 4 bytes: 12 bytes stay together, in pieces that break
  t.operation = DmaOperation::kTranspose;
  t.transpose_element_bytes = 4;
  t.transpose_shape = {2, 5, 7, 3};
  t.from = {side(0, NEURON_DTYPE_U8, {8, 105, 1, 1}, {1, 16, 0, 0})};
  t.to = side(1, NEURON_DTYPE_U8, {4, 210, 1, 1}, {1, 20, 0, 0});
  const auto list = cut_into_packets(t, 16, 1u << 22);
  ASSERT_TRUE(list) << list.error().sentence;
  std::map<uint64_t, uint64_t> found;
  for (size_t d = 0; d < list->m2s.size(); ++d) {
    for (uint32_t i = 0; i < list->m2s[d].length; ++i) {
      EXPECT_TRUE(found.emplace(list->s2m[d].offset + i, list->m2s[d].offset + i).second);
    }
  }
  const Places from = places_of(t.from[0]), to = places_of(t.to);
  for (uint64_t i = 0; i < to.size(); ++i) {
    const uint64_t e = i / 12, r = e % 5, c = e / 5 % 7, m = e / 35;
    ASSERT_EQ(found[to[i] & 0xFFFFFFFF], from[((m * 5 + r) * 7 + c) * 12 + i % 12] & 0xFFFFFFFF);
  }
}

TEST(RingPackets, ATransposeOntoPartitionsIsCutIntoBlocksOfBothSides) {
  DmaTransfer t;  // [200 x 128] of fp32 in HBM to 128 partitions of 200 elements
  t.operation = DmaOperation::kTranspose;
  t.transpose_element_bytes = 4;
  t.transpose_shape = {1, 200, 128, 1};
  t.from = {side(0, NEURON_DTYPE_U8, {128 * 4 * 200, 1, 1, 1}, {1, 0, 0, 0})};
  t.to = side(1, NEURON_DTYPE_U8, {800, 128, 1, 1}, {1, 0x40000, 0, 0});
  expect_transposed(t, 16);
}

TEST(RingPackets, WhatDecompressesIsOnePacketWhoseMetadataHasTheBytesOfTheResult) {
  DmaTransfer t;  // 70000 bytes of streams in HBM to 64 rows of 4096
  t.operation = DmaOperation::kDecompress;
  t.from = {side(0, NEURON_DTYPE_U8, {70'000, 1, 1, 1}, {1, 0, 0, 0}, 16)};
  t.to = side(1, NEURON_DTYPE_U8, {4096, 64, 1, 1}, {1, 0x40000, 0, 0});
  const auto list = cut_into_packets(t, 16, 1u << 22);
  ASSERT_TRUE(list) << list.error().sentence;
  ASSERT_EQ(list->ends.size(), 1u);
  ASSERT_EQ(list->m2s.size(), 3u);
  EXPECT_EQ(list->m2s[0].base, RingDescriptor::kMetadata);
  EXPECT_EQ(list->m2s[0].length, static_cast<uint32_t>(NEURON_DMA_DECOMPRESS));
  EXPECT_EQ(list->m2s[0].offset, 4096u * 64);
  EXPECT_TRUE(list->m2s[0].first);
  EXPECT_EQ(list->m2s[1].length, 65'536u);
  EXPECT_EQ(list->m2s[2].offset, 16u + 65'536);
  EXPECT_EQ(list->m2s[2].length, 70'000u - 65'536);
  EXPECT_EQ(list->m2s[2].operation, NEURON_DMA_DECOMPRESS);
  EXPECT_TRUE(list->m2s[2].last);
  EXPECT_EQ(list->s2m.size(), 64u);
  t.to.sizes[1] = 65;
  EXPECT_EQ(cut_into_packets(t, 16, 1u << 22).error().status, NRT_RESOURCE) << "a row too many";
  t.to = side(1, NEURON_DTYPE_U8, {NEURON_UDMA_MAX_PACKET_BYTES + 1, 1, 1, 1}, {1, 0, 0, 0});
  EXPECT_FALSE(cut_into_packets(t, 16, 1u << 22)) << "a byte too many";
}

}  // namespace
}  // namespace neuron::runtime
