// SPDX-License-Identifier: Apache-2.0
#include "driver/base/hmac_sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "driver/base/hexadecimal.h"
#include "driver/base/random_bytes.h"

namespace neuron::base {
namespace {

std::string hmac(std::string_view key, std::string_view data) {
  return hexadecimal(hmac_sha256(std::as_bytes(std::span(key)), std::as_bytes(std::span(data))));
}

TEST(HmacSha256, AuthenticatesAsPublished) {
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256, TellsDigestsApart) {
  const uint8_t text[] = {'a'};
  const Sha256::Digest a = Sha256::of(text);
  Sha256::Digest b = a;
  EXPECT_TRUE(equal_digests(a, b));
  b[31] ^= 1;
  EXPECT_FALSE(equal_digests(a, b));
}

TEST(RandomBytes, FillsEveryPlaceWithBytesThatDifferEachTime) {
  Sha256::Digest first{}, second{};
  ASSERT_TRUE(random_bytes(first));
  ASSERT_TRUE(random_bytes(second));
  EXPECT_FALSE(equal_digests(first, second));
  EXPECT_TRUE(random_bytes({}));
}

}  // namespace
}  // namespace neuron::base
