// SPDX-License-Identifier: Apache-2.0
// A file as public material describes those of the vendor's compiler: it opens, is listed and
// unpacked, and is refused with the sentence that says why and what would run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/neff/compatibility.h"
#include "runtime/neff/model_reader.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::Buffer;
using test::must;
using testing::AllOf;
using testing::HasSubstr;

struct Version {
  uint64_t major, minor, features;
};

Buffer vendor_file(const Version& version) {
  const tools::NeffMembers members = {
      {"debug_info/hlo.txt", tools::bytes_of("HloModule")},
      {"hlo_stats.json", tools::bytes_of("{}")},
      {"info.json", tools::bytes_of(R"({"tool_version": "2.4.0.21", "target": "trn1"})")},
      {"kelf-0.json", tools::bytes_of(R"({"name": "sg00"})")},
      {"metrics.json", tools::bytes_of("[]")},
      {"neff.json", tools::bytes_of(R"({"nodes": [{"name": "sg00"}], "inputs": ["input0"]})")},
      {"sg00/def.json", tools::bytes_of(R"({"var": {}, "dma_queue": {}})")},
      {"sg00/pe.bin", Buffer(640, 0x5A)},
      {"sg00/pool.json", tools::bytes_of(R"({"dma": []})")},
  };
  return must(tools::write_neff(members, {.name = "/tmp/model/out",
                                          .build_version = "2.4.0.21",
                                          .version_major = version.major,
                                          .version_minor = version.minor,
                                          .feature_bits = version.features,
                                          .header_version = 2}));
}

constexpr Version kVersions[] = {{0, 4, 0}, {1, 0, 0}, {2, 0, 0x100}, {2, 0, 0x80000000000000FF}};

TEST(VendorFile, OpensWithItsMd5AndListsItsMembers) {
  for (const Version& version : kVersions) {
    const Buffer file = vendor_file(version);
    const auto container = must(Container::open(file, {.limits = {}, .validate_hash = true}));
    EXPECT_EQ(container.header().pkg_version, 2u);
    EXPECT_EQ(container.members().size(), 9u);
    EXPECT_TRUE(container.has_directory("debug_info"));
    ASSERT_NE(container.find("sg00/pe.bin"), nullptr);
    EXPECT_EQ(container.find("sg00/pe.bin")->bytes.size(), 640u);
  }
}

TEST(VendorFile, AnAlteredPayloadIsNoticedIfTheHashIsAskedFor) {
  Buffer file = vendor_file(kVersions[1]);
  file[NEFF_OFF_HASH] ^= 1;
  EXPECT_TRUE(Container::open(file));
  const auto refused = Container::open(file, {.limits = {}, .validate_hash = true});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence, HasSubstr("the payload's MD5 is"));
}

TEST(VendorFile, IsRefusedWithWhatItWasBuiltForAndWhatRunsIt) {
  for (const Version& version : kVersions) {
    const Buffer file = vendor_file(version);
    const auto container = must(Container::open(file));
    const auto model = load_model(container, {.generation = 2, .lnc = 1});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().status, NRT_UNSUPPORTED_NEFF_VERSION);
    EXPECT_THAT(model.error().sentence,
                AllOf(HasSubstr(base::format(
                          "built for trn1 by compiler version 2.4.0.21 (NEFF version {}.{}, "
                          "feature bits {:#x})",
                          version.major, version.minor, version.features)),
                      HasSubstr("only its vendor knows"), HasSubstr("AWS Neuron runtime")));
  }
}

}  // namespace
}  // namespace neuron::neff
