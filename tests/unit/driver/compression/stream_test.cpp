// SPDX-License-Identifier: Apache-2.0
// Streams: the way there and back of all kinds of content, a second reader, and what is no stream.
#include "driver/compression/stream.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "driver/base/crc32c.h"

namespace neuron::compression {
namespace {

using Bytes = std::vector<uint8_t>;

struct Content {
  const char* name;
  std::function<Bytes(std::mt19937&, size_t)> make;
};

Bytes filled(size_t n, const std::function<uint32_t(size_t)>& value) {
  Bytes bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(value(i));
  return bytes;
}

const Content kContents[] = {
    {"noise", [](auto& random, size_t n) { return filled(n, [&](size_t) { return random(); }); }},
    {"zeros", [](auto&, size_t n) { return Bytes(n); }},
    {"few values",
     [](auto& random, size_t n) { return filled(n, [&](size_t) { return random() % 3; }); }},
    {"a short period",
     [](auto& random, size_t n) {
       const size_t period = 1 + random() % 9;
       return filled(n, [=](size_t i) { return i % period * 37; });
     }},
    {"a period beyond the distance of a match",
     [](auto& random, size_t n) {
       const Bytes once = filled(0x10000 + random() % 64, [&](size_t) { return random(); });
       return filled(n, [&](size_t i) { return once[i % once.size()]; });
     }},
    {"weights in bf16",
     [](auto& random, size_t n) {
       std::normal_distribution<float> normal(0, 0.02F);
       Bytes bytes(n);
       for (size_t i = 0; i + 1 < n; i += 2) {
         const float value = normal(random);
         std::memcpy(&bytes[i], reinterpret_cast<const char*>(&value) + 2, 2);
       }
       return bytes;
     }},
    {"runs of noise and of what came before",
     [](auto& random, size_t n) {
       Bytes bytes;
       while (bytes.size() < n) {
         const size_t length = 1 + random() % 300;
         const size_t from = bytes.empty() ? 0 : random() % bytes.size();
         const bool again = !bytes.empty() && random() % 2 != 0;
         for (size_t i = 0; i < length; ++i) {
           bytes.push_back(again ? bytes[from + i] : static_cast<uint8_t>(random()));
         }
       }
       bytes.resize(n);
       return bytes;
     }},
};

Bytes content_of(const Bytes& stream, size_t expected) {
  // Guards on both sides, which nothing may touch.
  Bytes room(expected + 32, 0xC5);
  const Malformed malformed = decompress(stream, std::span(room).subspan(16, expected));
  EXPECT_FALSE(malformed) << malformed.rule << " at " << malformed.at;
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(room[i] & room[room.size() - 1 - i], 0xC5);
  return Bytes(room.begin() + 16, room.end() - 16);
}

// The block format of LZ4 as its description says it, without a thought for bad input.
Bytes plain_reader(const Bytes& stream) {
  Bytes out;
  size_t at = NEURON_STREAM_HEADER_BYTES;
  const auto number = [&](size_t nibble) {
    size_t sum = nibble;
    for (uint8_t more = 255; nibble == 15 && more == 255;) sum += more = stream.at(at++);
    return sum;
  };
  while (at < stream.size()) {
    const uint8_t token = stream.at(at++);
    for (size_t left = number(token >> 4); left != 0; --left) out.push_back(stream.at(at++));
    if (at == stream.size()) break;
    const size_t distance = stream.at(at) + 256 * stream.at(at + 1);
    at += 2;
    for (size_t left = number(token & 15) + 4; left != 0; --left) {
      out.push_back(out.at(out.size() - distance));
    }
  }
  return out;
}

TEST(Stream, GivesEveryContentBackAndIsNeverMuchLonger) {
  std::mt19937 random(5);
  for (const Content& kind : kContents) {
    for (int round = 0; round < 60; ++round) {
      const size_t bytes = 1 + random() % (round < 30 ? 40 : 200'000);
      const Bytes content = kind.make(random, bytes);
      const Bytes stream = compress(content);
      EXPECT_LE(stream.size(), most_stream_bytes(bytes)) << kind.name;
      ASSERT_EQ(content_of(stream, bytes), content) << kind.name << ", " << bytes << " bytes";
      EXPECT_EQ(compress(content), stream) << "the same content, another stream";
      StreamHeader header;
      ASSERT_FALSE(read_header(stream, header));
      if (!header.stored) EXPECT_EQ(plain_reader(stream), content) << kind.name;
    }
  }
}

TEST(Stream, HoldsOneByteAndTheMostBytes) {
  std::mt19937 random(6);
  for (const size_t bytes : {size_t{1}, size_t{2}, size_t{NEURON_STREAM_MAX_CONTENT}}) {
    for (const Content& kind : kContents) {
      const Bytes content = kind.make(random, bytes);
      ASSERT_EQ(content_of(compress(content), bytes), content) << kind.name;
    }
  }
  EXPECT_LT(compress(Bytes(NEURON_STREAM_MAX_CONTENT)).size(), 5000u) << "zeros";
}

TEST(Stream, IgnoresWhatLiesBehindIt) {
  const Bytes content(1000, 7);
  Bytes stream = compress(content);
  stream.insert(stream.end(), 100, 0xEE);
  EXPECT_EQ(content_of(stream, content.size()), content);
}

TEST(Stream, ThatEndsTooEarlyIsRefusedAtEachOfItsBytes) {
  std::mt19937 random(7);
  for (const Content& kind : kContents) {
    const Bytes content = kind.make(random, 600);
    const Bytes stream = compress(content);
    Bytes room(content.size());
    for (size_t length = 0; length < stream.size(); ++length) {
      const Malformed malformed = decompress(std::span(stream).first(length), room);
      ASSERT_TRUE(malformed) << kind.name << " of " << length << " bytes";
      EXPECT_LE(malformed.at, length);
    }
  }
}

TEST(Stream, WithAnyBitTurnedIsRefused) {
  std::mt19937 random(8);
  for (const Content& kind : kContents) {
    const Bytes content = kind.make(random, 500);
    const Bytes stream = compress(content);
    Bytes room(content.size());
    for (size_t bit = 0; bit < 8 * stream.size(); ++bit) {
      Bytes turned = stream;
      turned[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      const Malformed malformed = decompress(turned, room);
      // Where the same bytes come out, as from a match that could begin elsewhere, nothing is lost.
      if (!malformed) ASSERT_EQ(room, content) << kind.name << " bit " << bit;
    }
  }
}

TEST(Stream, OfGarbageIsRefusedInsideItsBounds) {
  std::mt19937 random(9);
  for (int round = 0; round < 20'000; ++round) {
    const uint32_t expected = 1 + random() % 300;
    Bytes stream(NEURON_STREAM_HEADER_BYTES + random() % 200);
    for (uint8_t& byte : stream) byte = static_cast<uint8_t>(random());
    // A right header, so that the sequences are read.
    const auto body = static_cast<uint32_t>(stream.size() - NEURON_STREAM_HEADER_BYTES);
    const uint32_t words[] = {NEURON_STREAM_MAGIC, expected, body};
    std::memcpy(stream.data(), words, sizeof words);
    Bytes room(expected + 2, 0xC5);
    EXPECT_TRUE(decompress(stream, std::span(room).subspan(1, expected)));
    EXPECT_EQ(room.front(), 0xC5);
    EXPECT_EQ(room.back(), 0xC5);
  }
}

struct Broken {
  const char* rule;
  uint32_t at;
  Bytes body;
  uint32_t content = 20;
};

TEST(Stream, NamesTheRuleAndTheByte) {
  const Broken cases[] = {
      {"the body ends inside literals", 17, {0x50, 1, 2}},
      {"the body ends inside a number of literals", 18, {0xF0, 255}},
      {"the literals are more than the header says", 21, {0x1C, 9, 1, 0, 0x40, 1, 2, 3, 4}},
      {"the body ends inside the distance", 18, {0x10, 9, 1}},
      {"a match begins where nothing has been written", 18, {0x10, 9, 2, 0, 0x10, 1}},
      {"a match begins where nothing has been written", 18, {0x10, 9, 0, 0, 0x10, 1}},
      {"the body ends inside the length of a match", 20, {0x1F, 9, 1, 0}},
      {"a match is longer than the header says", 21, {0x1F, 9, 1, 0, 5, 0x10, 1}},
      {"the last sequence has a match", 20, {0x10, 9, 1, 0}},
      {"the sequences give fewer bytes", 18, {0x10, 9}},
  };
  for (const Broken& broken : cases) {
    Bytes stream(NEURON_STREAM_HEADER_BYTES);
    const uint32_t words[] = {NEURON_STREAM_MAGIC, broken.content,
                              static_cast<uint32_t>(broken.body.size()), 0};
    std::memcpy(stream.data(), words, sizeof words);
    stream.insert(stream.end(), broken.body.begin(), broken.body.end());
    Bytes room(broken.content);
    const Malformed malformed = decompress(stream, room);
    ASSERT_TRUE(malformed) << broken.rule;
    EXPECT_EQ(std::string(malformed.rule).rfind(broken.rule, 0), 0u) << malformed.rule;
    EXPECT_EQ(malformed.at, broken.at) << malformed.rule;
  }
}

TEST(Stream, ChecksItsHeader) {
  const Bytes content(100, 3);
  const Bytes stream = compress(content);
  Bytes room(content.size());
  const auto with = [&](size_t offset, uint32_t word) {
    Bytes changed = stream;
    std::memcpy(&changed[offset], &word, sizeof word);
    return decompress(changed, room);
  };
  EXPECT_EQ(with(NEURON_STREAM_OFF_MAGIC, 0).at, 0u);
  EXPECT_EQ(with(NEURON_STREAM_OFF_CONTENT, 99).at, 4u) << "another length";
  EXPECT_EQ(with(NEURON_STREAM_OFF_CONTENT, 0).at, 4u);
  EXPECT_EQ(with(NEURON_STREAM_OFF_CONTENT, NEURON_STREAM_MAX_CONTENT + 1).at, 4u);
  EXPECT_EQ(with(NEURON_STREAM_OFF_BODY, 0).at, 8u);
  EXPECT_EQ(with(NEURON_STREAM_OFF_BODY, 100).at, 8u) << "as long as its content, not stored";
  EXPECT_EQ(with(NEURON_STREAM_OFF_BODY, 99 | NEURON_STREAM_STORED).at, 8u);
  EXPECT_EQ(with(NEURON_STREAM_OFF_CHECKSUM, 1).at, 12u);
  EXPECT_FALSE(with(NEURON_STREAM_OFF_CHECKSUM, base::crc32c(content)));
}

}  // namespace
}  // namespace neuron::compression
