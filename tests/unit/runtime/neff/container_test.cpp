// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "driver/base/md5.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::Buffer;
using test::must;
using test::SampleProgram;
using testing::HasSubstr;

void expect_refused(const Buffer& file, const std::string& sentence,
                    const OpenOptions& options = {}) {
  const auto container = Container::open(file, options);
  ASSERT_FALSE(container) << "accepted, expected: " << sentence;
  EXPECT_EQ(container.error().status, NRT_INVALID);
  EXPECT_THAT(container.error().sentence, HasSubstr(sentence));
}

template <class T>
Buffer with_field(size_t offset, T value) {
  Buffer file = SampleProgram().pack();
  base::store_little(file.data() + offset, value);
  return file;
}

TEST(Container, GivesHeaderAndMembersBack) {
  SampleProgram sample;
  for (const bool compress : {false, true}) {
    sample.options.compress = compress;
    const Buffer file = sample.pack();
    const auto container = Container::open(file, {.validate_hash = true});
    ASSERT_TRUE(container) << container.error().sentence;
    EXPECT_EQ(container->compressed(), compress);
    EXPECT_EQ(container->header().name, "sample");
    EXPECT_EQ(container->header().build_version, "test 1");
    EXPECT_EQ(container->header().num_tpb, 1u);
    EXPECT_EQ(container->header().tpb_per_node[0], 1);
    ASSERT_EQ(container->members().size(), sample.members.size());
    for (const auto& [name, bytes] : sample.members) {
      const Member* member = container->find(name);
      ASSERT_TRUE(member) << name;
      EXPECT_TRUE(
          std::equal(bytes.begin(), bytes.end(), member->bytes.begin(), member->bytes.end()));
    }
    EXPECT_EQ(container->directories(), std::vector<std::string>{"sg00"});
    EXPECT_TRUE(container->has_directory("sg00"));
    EXPECT_FALSE(container->has_directory("sg01"));
    EXPECT_FALSE(container->find("sg00"));
  }
}

TEST(Container, RefusesHeadersThatAreNone) {
  expect_refused({}, "the file has 0 bytes, a NEFF begins with a header of 1024");
  expect_refused(with_field<uint64_t>(NEFF_OFF_PKG_VERSION, 3),
                 "header offset 0: packaging version is 3, expected 1 or 2");
  expect_refused(with_field<uint64_t>(NEFF_OFF_HEADER_SIZE, 1 << 20),
                 "header offset 8: header size is 1048576, expected 1024");
  expect_refused(with_field<uint64_t>(NEFF_OFF_DATA_SIZE, UINT64_MAX),
                 "header offset 16: payload size is 18446744073709551615");
  expect_refused(with_field<uint64_t>(NEFF_OFF_DATA_SIZE, 10), "the file is longer than it says");
  expect_refused(with_field<uint32_t>(NEFF_OFF_NUM_TPB, 65),
                 "header offset 168: number of cores is 65, expected at most 64");
  expect_refused(with_field<uint8_t>(NEFF_OFF_TPB_PER_NODE + 3, 65),
                 "header offset 483: cores of node 3 is 65");
  expect_refused(with_field<uint32_t>(NEFF_OFF_LNC_SIZE, 3),
                 "header offset 552: logical core size is 3, expected 0, 1 or 2");
}

TEST(Container, ChecksTheHashOnlyWhenAsked) {
  SampleProgram sample;
  sample.options.compress = false;
  Buffer file = sample.pack();
  file[NEFF_OFF_HASH] ^= 1;
  EXPECT_TRUE(Container::open(file));
  expect_refused(file, "header offset 172: the payload's SHA-256 is ", {.validate_hash = true});
}

TEST(Container, ChecksTheMd5OfPackagingVersion2) {
  Buffer file = SampleProgram().pack();
  base::store_little<uint64_t>(file.data(), 2);
  const auto digest = base::md5(Bytes(file).subspan(1024));
  std::fill_n(file.begin() + NEFF_OFF_HASH, 32, 0);
  std::copy(digest.begin(), digest.end(), file.begin() + NEFF_OFF_HASH);
  EXPECT_TRUE(Container::open(file, {.validate_hash = true}));
  file[NEFF_OFF_HASH + 15] ^= 0x80;
  expect_refused(file, "the payload's MD5 is ", {.validate_hash = true});
}

TEST(Container, RefusesAPayloadThatUnpacksToMoreThanItsSizeAllows) {
  SampleProgram sample;
  sample.members["zeros"] = Buffer(1 << 20, 0);
  const Buffer file = sample.pack();
  OpenOptions options;
  EXPECT_TRUE(Container::open(file, options));
  options.limits.ratio_floor_bytes = 64 << 10;
  options.limits.expansion_ratio = 1000;
  EXPECT_TRUE(Container::open(file, options));
  options.limits.expansion_ratio = 100;
  expect_refused(file, "unpacks to more than", options);
  options.limits.expansion_ratio = 100000;
  options.limits.unpacked_bytes = 1 << 20;
  expect_refused(file, "unpacks to more than 1048576 bytes", options);
}

TEST(Container, ReadsGzipDataOfSeveralMembers) {
  const Buffer archive = must(tools::write_tar(SampleProgram().members));
  Buffer payload = must(tools::gzip(Bytes(archive).first(1000)));
  const Buffer second = must(tools::gzip(Bytes(archive).subspan(1000)));
  payload.insert(payload.end(), second.begin(), second.end());
  const auto container = Container::open(tools::wrap_payload(payload, {}));
  ASSERT_TRUE(container) << container.error().sentence;
  EXPECT_EQ(container->unpacked_bytes(), archive.size());
}

TEST(Container, RefusesDamagedAndTruncatedGzipData) {
  const Buffer archive = must(tools::write_tar(SampleProgram().members));
  const Buffer good = must(tools::gzip(archive));
  Buffer bad = good;
  bad[bad.size() - 6] ^= 1;  // CRC
  expect_refused(tools::wrap_payload(bad, {}), "the gzip data is damaged (incorrect data check)");
  bad = Buffer(good.begin(), good.end() - 100);
  expect_refused(tools::wrap_payload(bad, {}), "in the middle of its data; the file is truncated");
  bad = good;
  bad.insert(bad.end(), {1, 2, 3});
  expect_refused(tools::wrap_payload(bad, {}), "3 bytes follow the end of the gzip data");
}

TEST(Container, WritesTheSameBytesForTheSameMembers) {
  EXPECT_EQ(SampleProgram().pack(), SampleProgram().pack());
  SampleProgram renamed;
  renamed.options.name = "other";
  const auto one = parse_header(SampleProgram().pack());
  const auto two = parse_header(renamed.pack());
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->hash, two->hash);
  EXPECT_NE(one->uuid, two->uuid);
  EXPECT_EQ(one->uuid[6] >> 4, 8);
  EXPECT_EQ(one->uuid[8] >> 6, 2);
}

TEST(Container, RoundTripsEveryHeaderField) {
  Header header;
  header.pkg_version = 2;
  header.version_major = 7;
  header.version_minor = 8;
  header.build_version = std::string(128, 'b');
  header.num_tpb = 3;
  header.hash.fill(0xAB);
  header.uuid.fill(0xCD);
  header.name = std::string(256, 'n');
  header.requested_tpb_count = 9;
  header.tpb_per_node.fill(4);
  header.feature_bits = 0x8000000000000001;
  header.lnc_size = 2;
  const auto raw = encode_header(header);
  const auto parsed = parse_header(raw);
  ASSERT_TRUE(parsed) << parsed.error().sentence;
  EXPECT_EQ(encode_header(*parsed), raw);
  EXPECT_EQ(parsed->name, header.name);
  EXPECT_EQ(parsed->feature_bits, header.feature_bits);
  EXPECT_EQ(parsed->requested_tpb_count, 9u);
}

}  // namespace
}  // namespace neuron::neff
