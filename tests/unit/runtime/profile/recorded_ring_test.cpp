// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/recorded_ring.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "runtime/profile/execution_chunk.h"

namespace neuron::runtime {
namespace {

using Entries = std::vector<neuron_notification>;

Entries entries(uint32_t first, size_t count, uint32_t phase) {
  Entries list(count);
  for (size_t n = 0; n < count; ++n) {
    list[n].pc = first + static_cast<uint32_t>(n);
    list[n].word = NEURON_NK_TRACE << NEURON_NW_KIND_SHIFT | phase;
  }
  return list;
}

std::vector<uint32_t> counters(const RecordedRing& ring) {
  std::vector<uint32_t> found;
  for (const neuron_notification& entry : ring.entries()) {
    EXPECT_EQ(entry.word & 1, 0U) << "entries have no phase";
    found.push_back(entry.pc);
  }
  return found;
}

TEST(RecordedRing, AnExecutionInWhateverPiecesAndPhaseRepeatsTheLastOne) {
  RecordedRing ring;
  EXPECT_TRUE(ring.repeats()) << "nothing was, and nothing is";
  ring.add(entries(0, 10, 1));
  EXPECT_FALSE(ring.repeats());
  EXPECT_EQ(counters(ring), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  ring.written();
  for (uint32_t first = 1; first < 10; ++first) {
    ring.add(entries(0, first, first % 2));
    EXPECT_FALSE(ring.repeats());
    ring.add(entries(first, 10 - first, (first + 1) % 2));
    EXPECT_TRUE(ring.repeats());
    EXPECT_EQ(counters(ring).size(), 10U);
    ring.forget();
  }
}

TEST(RecordedRing, OneThatEndsEarlierGoesOnOrDiffersAnywhereIsKeptWhole) {
  for (size_t byte = 0; byte < sizeof(neuron_notification); ++byte) {
    RecordedRing ring;
    ring.add(entries(0, 4, 1));
    ring.written();
    Entries other = entries(0, 4, 0);
    reinterpret_cast<uint8_t*>(&other[2])[byte] ^= 0x80;
    ring.add(other);
    EXPECT_FALSE(ring.repeats()) << byte;
    EXPECT_EQ(std::memcmp(ring.entries().data(), other.data(), sizeof(other[0]) * 4), 0);
    ring.written();
    ring.add(other);
    EXPECT_TRUE(ring.repeats());
  }
  RecordedRing ring;
  ring.add(entries(0, 4, 1));
  ring.written();
  ring.add(entries(0, 4, 1));
  ring.add(entries(4, 1, 1));
  EXPECT_FALSE(ring.repeats());
  EXPECT_EQ(counters(ring), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  ring.written();
  ring.add(entries(0, 2, 1));
  EXPECT_FALSE(ring.repeats());
  EXPECT_EQ(counters(ring), (std::vector<uint32_t>{0, 1}));
  ring.written();
  EXPECT_FALSE(ring.repeats());
  ring.add(entries(0, 2, 0));
  EXPECT_TRUE(ring.repeats());
}

TEST(RepeatedExecutionText, HasTheNumbersOfTheExecution) {
  RepeatedExecutionText text;
  EXPECT_EQ(text.of({.exec_id = 7, .begin_ns = 1, .end_ns = UINT64_MAX}, 3),
            R"({"exec_id":7,"begin_ns":1,"end_ns":18446744073709551615,"same_as":3})");
  EXPECT_EQ(
      text.of({.exec_id = UINT32_MAX, .begin_ns = UINT64_MAX, .end_ns = UINT64_MAX}, UINT64_MAX),
      R"({"exec_id":4294967295,"begin_ns":18446744073709551615,)"
      R"("end_ns":18446744073709551615,"same_as":18446744073709551615})");
}

}  // namespace
}  // namespace neuron::runtime
