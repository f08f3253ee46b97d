// SPDX-License-Identifier: Apache-2.0
// Packets that compress and decompress: there and back over any descriptors, what is malformed,
// what a broken stream leaves as it was, model time.
#include "driver/emulator/chip/udma_recode.h"

#include <algorithm>
#include <random>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kBack = 0x3000000;

class RecodeMachine : public testing::Test {
 protected:
  RecodeMachine() : m(0) { m.init(0, kRing); }

  void metadata(unsigned operation, uint64_t high, uint64_t more = 0) {
    const uint64_t low =
        NEURON_DESC_META | NEURON_DESC_FIRST | id(m2s) | uint64_t{operation} << 32 | more;
    m.descriptor(Machine::kRingM2s, m2s++ % kRing, static_cast<uint32_t>(low),
                 static_cast<uint32_t>(low >> 32), high);
  }
  void data(unsigned operation, uint64_t address, uint32_t bytes, bool last,
            uint32_t kind = NEURON_META_OP_RECODE) {
    const uint32_t meta =
        kind << NEURON_META_OP_SHIFT | 1u << 19 | 3u | (operation & 7u) << NEURON_META_TYPE_SHIFT;
    m.descriptor(Machine::kRingM2s, m2s % kRing,
                 (bytes & 0xFFFF) | id(m2s) | (last ? NEURON_DESC_LAST : 0u), meta, address);
    ++m2s;
  }
  void result(uint64_t address, uint32_t bytes) {
    m.descriptor(Machine::kRingS2m, s2m % kRing, (bytes & 0xFFFF) | id(s2m), 0, address);
    ++s2m;
  }
  // `bytes` in as few descriptors as there can be, or in random ones.
  template <class Add>
  void pieces(uint64_t address, size_t bytes, std::mt19937* random, Add add) {
    for (size_t left = bytes; left != 0;) {
      size_t piece = std::min<size_t>(left, 65536);
      if (random != nullptr && left > bytes / 8) piece = 1 + (*random)() % piece;
      left -= piece;
      add(address, static_cast<uint32_t>(piece), left == 0);
      address += piece;
    }
  }
  void packet(unsigned operation, uint64_t from, size_t from_bytes, uint64_t to, size_t to_bytes,
              std::mt19937* random = nullptr) {
    metadata(operation, to_bytes);
    pieces(from, from_bytes, random,
           [&](uint64_t at, uint32_t n, bool last) { data(operation, at, n, last); });
    pieces(to, to_bytes, random, [&](uint64_t at, uint32_t n, bool) { result(at, n); });
  }
  static uint32_t id(uint32_t at) { return ((1 + at / kRing) & 3) << NEURON_DESC_RING_ID_SHIFT; }
  void run(Origin origin = Origin::kHost) {
    m.ring(0, s2m - s2m_rung, m2s - m2s_rung, origin);
    s2m_rung = s2m;
    m2s_rung = m2s;
  }
  void again() {
    m.listener.faults.clear();
    m.init(0, kRing);
    m2s = s2m = m2s_rung = s2m_rung = 0;
  }
  void put(uint64_t address, const Bytes& bytes) {
    std::memcpy(m.memory(address, bytes.size()), bytes.data(), bytes.size());
  }
  Bytes get(uint64_t address, size_t n) {
    Bytes bytes(n);
    std::memcpy(bytes.data(), m.memory(address, n), n);
    return bytes;
  }
  const char* fault() { return m.listener.faults.empty() ? "" : m.listener.faults[0].rule; }

  Machine m;
  uint32_t m2s = 0, s2m = 0, m2s_rung = 0, s2m_rung = 0;
};

Bytes some(std::mt19937& random, size_t n) {
  Bytes bytes(n);
  const uint32_t values = 1u << random() % 9;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % values * 37);
  return bytes;
}

TEST_F(RecodeMachine, CompressesAndDecompressesWithoutLossWhereverDescriptorsBreak) {
  std::mt19937 random(31);
  for (int round = 0; round < 120; ++round) {
    const size_t n = 1 + random() % (round % 8 == 0 ? 400'000 : 3000);
    const size_t room = compression::most_stream_bytes(n);
    const Bytes content = some(random, n);
    put(kFrom, content);
    put(kTo, Bytes(room + 1, 0xC5));
    put(kBack, Bytes(n + 1, 0xC5));
    again();
    packet(NEURON_DMA_COMPRESS, kFrom, n, kTo, room, &random);
    packet(NEURON_DMA_DECOMPRESS, kTo, room, kBack, n, &random);
    run();
    ASSERT_STREQ(fault(), "") << n;
    ASSERT_EQ(get(kBack, n), content) << n;
    Bytes stream = compression::compress(content);
    stream.resize(room);  // zeros behind it
    ASSERT_EQ(get(kTo, room), stream);
    EXPECT_EQ(get(kTo + room, 1)[0], 0xC5) << "behind the destination";
    EXPECT_EQ(get(kBack + n, 1)[0], 0xC5) << "behind the destination";
  }
}

TEST_F(RecodeMachine, WorksOnPacketsOfTheLargestSize) {
  std::mt19937 random(32);
  const Bytes content(NEURON_UDMA_MAX_PACKET_BYTES, 9);
  put(kFrom, content);
  packet(NEURON_DMA_COMPRESS, kFrom, content.size(), kTo, 8192);
  packet(NEURON_DMA_DECOMPRESS, kTo, 8192, kBack, content.size());
  run();
  ASSERT_STREQ(fault(), "");
  EXPECT_EQ(get(kBack, content.size()), content);
}

TEST_F(RecodeMachine, WritesNothingOfAStreamThatIsBrokenAndNamesItsByte) {
  std::mt19937 random(33);
  const Bytes content = some(random, 5000);
  const Bytes stream = compression::compress(content);
  unsigned refused = 0;
  for (int round = 0; round < 300; ++round) {
    Bytes turned = stream;
    turned[random() % turned.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    const size_t length = round % 2 == 0 ? turned.size() : 1 + random() % turned.size();
    put(kFrom, turned);
    const Bytes before(content.size(), 0xC5);
    put(kTo, before);
    again();
    packet(NEURON_DMA_DECOMPRESS, kFrom, length, kTo, content.size(), &random);
    run();
    if (m.listener.faults.empty()) {
      ASSERT_EQ(get(kTo, content.size()), content) << "accepted, so nothing was lost";
      continue;
    }
    ++refused;
    const DmaFault& found = m.listener.faults[0];
    EXPECT_EQ(found.code, NEURON_FAULT_DMA_STREAM);
    EXPECT_FALSE(found.s2m);
    EXPECT_LE(found.offset, length);
    EXPECT_EQ(found.address, kFrom + found.offset) << "the sources follow each other in memory";
    EXPECT_EQ(get(kTo, content.size()), before) << "nothing was written";
  }
  EXPECT_GT(refused, 280u);
}

TEST_F(RecodeMachine, NamesTheDescriptorThatHasTheByte) {
  Bytes stream = compression::compress(Bytes(1000, 1));
  stream[NEURON_STREAM_OFF_CHECKSUM] ^= 1;
  put(kFrom, stream);
  metadata(NEURON_DMA_DECOMPRESS, 1000);
  data(NEURON_DMA_DECOMPRESS, kFrom, 10, false);
  data(NEURON_DMA_DECOMPRESS, kFrom + 10, static_cast<uint32_t>(stream.size()) - 10, true);
  result(kTo, 1000);
  run();
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].index, 2u);
  EXPECT_EQ(m.listener.faults[0].offset, 12u);
  EXPECT_NE(m.listener.faults[0].describe().find(
                "queue 0, M2S descriptor 2: the content does not have the checksum of the header "
                "(address 0x100000c, byte 12 of the stream)"),
            std::string::npos)
      << m.listener.faults[0].describe();
}

TEST_F(RecodeMachine, RefusesAStreamThatDoesNotFitItsDestination) {
  std::mt19937 random(34);
  Bytes noise(2000);
  for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
  put(kFrom, noise);
  put(kTo, Bytes(3000, 0xC5));
  packet(NEURON_DMA_COMPRESS, kFrom, 2000, kTo, 2015);
  run();
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_STREAM);
  EXPECT_TRUE(m.listener.faults[0].s2m);
  EXPECT_EQ(m.listener.faults[0].offset, 2015u);
  EXPECT_EQ(get(kTo, 3000), Bytes(3000, 0xC5));
  again();
  packet(NEURON_DMA_COMPRESS, kFrom, 2000, kTo, 2016);
  run();
  EXPECT_STREQ(fault(), "");
  again();  // content of another length than its descriptor says
  packet(NEURON_DMA_DECOMPRESS, kTo, 2016, kBack, 1999);
  run();
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_STREAM);
}

TEST_F(RecodeMachine, MayWriteOverWhatItReads) {
  const Bytes content(4096, 5);
  put(kFrom, compression::compress(content));
  packet(NEURON_DMA_DECOMPRESS, kFrom, 200, kFrom, content.size());
  run();
  EXPECT_STREQ(fault(), "");
  EXPECT_EQ(get(kFrom, content.size()), content);
}

TEST_F(RecodeMachine, IsMalformedInOtherMetadata) {
  struct Case {
    unsigned operation;
    uint64_t high, more;
    const char* rule;
  };
  constexpr uint64_t kLarge = NEURON_UDMA_MAX_PACKET_BYTES;
  const Case cases[] = {
      {NEURON_DMA_COMPRESS, 0, 0, "has no bytes, or more than 1048575"},
      {NEURON_DMA_DECOMPRESS, kLarge + 1, 0, "has no bytes, or more than 1048575"},
      {NEURON_DMA_DECOMPRESS, 64, uint64_t{NEURON_DTYPE_U8} << 36, "and nothing else"},
      {NEURON_DMA_DECOMPRESS, 64, NEURON_DMA_META_ACC, "and nothing else"},
      {NEURON_DMA_COMPRESS, 64 | 1ull << 32, 0, "and nothing else"},
      {NEURON_DMA_COMPRESS, 64, 1, "a reserved bit"},
      {10, 64, 0, "compress or decompress (1 to 9)"},
  };
  for (const Case& c : cases) {
    again();
    metadata(c.operation, c.high, c.more);
    data(c.operation, kFrom, 64, true);
    result(kTo, 64);
    run();
    ASSERT_EQ(m.listener.faults.size(), 1u) << c.rule;
    EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_DESC);
    EXPECT_NE(std::string(fault()).find(c.rule), std::string::npos) << fault();
  }
  again();  // the metadata of one, the data of the other
  metadata(NEURON_DMA_COMPRESS, 64);
  data(NEURON_DMA_DECOMPRESS, kFrom, 64, true);
  result(kTo, 64);
  run();
  EXPECT_NE(std::string(fault()).find("is not the operation of the packet's"), std::string::npos);
  again();
  metadata(NEURON_DMA_COMPRESS, 64);
  data(NEURON_DMA_COMPRESS, kFrom, 64, true, NEURON_META_OP_COMPUTE);
  result(kTo, 64);
  run();
  EXPECT_NE(std::string(fault()).find("operation 3, or 4 of compress"), std::string::npos);
  again();
  data(NEURON_DMA_COMPRESS, kFrom, 64, true);
  result(kTo, 64);
  run();
  EXPECT_NE(std::string(fault()).find("FIRST"), std::string::npos);
  again();
  metadata(NEURON_DMA_COMPRESS, 64);
  data(NEURON_DMA_COMPRESS, kFrom, 32, false);
  metadata(NEURON_DMA_COMPRESS, 64, 0);
  run();
  result(kTo, 64);
  run();
  EXPECT_NE(std::string(fault()).find("FIRST inside"), std::string::npos) << fault();
}

TEST_F(RecodeMachine, TakesTheTimeOfACopyOfItsLongerSide) {
  packet(NEURON_DMA_DECOMPRESS, kFrom, 500, kTo, 60'000);
  run(Origin::kEngine);
  DmaRun next = m.engine.next_run(0, 1);
  EXPECT_EQ(next.packets, 1u);
  EXPECT_EQ(next.bytes, 500u);
  EXPECT_EQ(next.time_bytes, 60'000u);
  again();
  packet(NEURON_DMA_COMPRESS, kFrom, 60'000, kTo, 1000);
  run(Origin::kEngine);
  next = m.engine.next_run(0, 1);
  EXPECT_EQ(next.time_bytes, 60'000u) << "whatever the stream has";
  EXPECT_EQ(m.engine.next_run(0, 1, 100'000).time_bytes, 100'000u);
}

}  // namespace
}  // namespace neuron::chip
