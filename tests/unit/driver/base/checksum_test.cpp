// SPDX-License-Identifier: Apache-2.0
// Published test vectors of the checksums, and pieces against the whole.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "driver/base/crc32.h"
#include "driver/base/crc32c.h"
#include "driver/base/hexadecimal.h"
#include "driver/base/md5.h"
#include "driver/base/sha256.h"

namespace neuron::base {
namespace {

std::vector<uint8_t> bytes(std::string_view text) { return {text.begin(), text.end()}; }

TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(hexadecimal(Sha256::of(bytes(""))),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hexadecimal(Sha256::of(bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      hexadecimal(Sha256::of(bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hexadecimal(Sha256::of(bytes(std::string(1'000'000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, GivesTheSameForPiecesOfAnySize) {
  std::vector<uint8_t> data(300);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7);
  for (size_t piece = 1; piece < 130; ++piece) {
    Sha256 hash;
    for (size_t at = 0; at < data.size(); at += piece) {
      hash.update(std::span(data).subspan(at, std::min(piece, data.size() - at)));
    }
    ASSERT_EQ(hash.finish(), Sha256::of(data)) << piece;
  }
}

TEST(Md5, MatchesThePublishedVectors) {
  EXPECT_EQ(hexadecimal(md5(bytes(""))), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hexadecimal(md5(bytes("message digest"))), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(hexadecimal(md5(bytes("1234567890123456789012345678901234567890123456789012345678901234"
                                  "5678901234567890"))),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(Crc32, MatchesThePublishedVector) {
  EXPECT_EQ(crc32(bytes("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32({}), 0U);
}

TEST(Crc32, GivesWhatTheDefinitionGivesForEveryLengthAndAlignment) {
  std::vector<uint8_t> data(400);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * i * 7 + 3 * i);
  for (size_t first = 0; first < 3; ++first) {
    uint32_t by_bits = 0xFFFFFFFF;
    for (size_t size = 0; first + size < data.size(); ++size) {
      ASSERT_EQ(crc32(std::span(data).subspan(first, size)), ~by_bits) << size;
      by_bits ^= data[first + size];
      for (int bit = 0; bit < 8; ++bit) {
        by_bits = (by_bits >> 1) ^ ((by_bits & 1) != 0 ? 0xEDB88320 : 0);
      }
    }
  }
}

TEST(Crc32c, MatchesThePublishedVectors) {
  EXPECT_EQ(crc32c(bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(std::vector<uint8_t>(32, 0)), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::vector<uint8_t>(32, 0xFF)), 0x62A8AB43u);
  EXPECT_EQ(crc32c({}), 0u);
}

}  // namespace
}  // namespace neuron::base
