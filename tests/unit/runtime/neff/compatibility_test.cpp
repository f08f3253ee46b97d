// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/compatibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/neff/model_reader.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::SampleProgram;
using testing::AllOf;
using testing::HasSubstr;

runtime::Result<void> check(const SampleProgram& sample, const Target& target = {}) {
  const auto file = sample.pack();
  NEURON_TRY(container, Container::open(file));
  NEURON_TRY(model, load_model(container, target));
  return {};
}

void expect_status(const runtime::Result<void>& result, NRT_STATUS status,
                   const testing::Matcher<const std::string&>& sentence) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, status) << result.error().sentence;
  EXPECT_THAT(result.error().sentence, sentence);
}

// What public material shows of a compiler's file.
SampleProgram foreign_program() {
  SampleProgram sample;
  sample.members.clear();
  sample.set("info.json", R"({"tool_version": "2.14.213.0", "target": "trn1"})");
  sample.set("kelf-0.json", "{}");
  sample.set("neff.json", R"({"nodes": []})");
  sample.set("sg00/def.json", "{}");
  sample.set("sg00/pe.bin", "opaque");
  sample.options.version_minor = 0;
  sample.options.feature_bits = 0x80;
  return sample;
}

TEST(Compatibility, AcceptsAProgramOfTheOpenEncodingOnItsDevice) {
  EXPECT_TRUE(check(SampleProgram(), {.generation = 2, .lnc = 1}));
  EXPECT_TRUE(check(SampleProgram(), {}));
}

TEST(Compatibility, SaysWhatAForeignProgramWasBuiltForAndWhatRunsIt) {
  expect_status(
      check(foreign_program()), NRT_UNSUPPORTED_NEFF_VERSION,
      AllOf(HasSubstr("was built for trn1 by compiler version 2.14.213.0 (NEFF version 2.0, "
                      "feature bits 0x80)"),
            HasSubstr("run it on an AWS Neuron instance")));
}

TEST(Compatibility, RefusesAForeignProgramThatHasOurFeatureBit) {
  SampleProgram sample = foreign_program();
  sample.options.feature_bits = NEFF_FEATURE_OPEN_PROGRAM;
  expect_status(check(sample), NRT_UNSUPPORTED_NEFF_VERSION,
                HasSubstr("feature bit 52 is set, but neff.json does not name the format"));
  sample.members.erase("neff.json");
  expect_status(check(sample), NRT_UNSUPPORTED_NEFF_VERSION, HasSubstr("does not name the format"));
}

TEST(Compatibility, RefusesAnEngineBinaryWithoutTheMagic) {
  SampleProgram sample;
  sample.set("sg00/PE.bin", "opaque");
  expect_status(check(sample), NRT_UNSUPPORTED_NEFF_VERSION,
                HasSubstr("not every engine binary has the magic"));
}

TEST(Compatibility, RefusesOurFormatWithoutTheFeatureBit) {
  SampleProgram sample;
  sample.options.feature_bits = 0;
  expect_status(
      check(sample), NRT_UNSUPPORTED_NEFF_VERSION,
      HasSubstr("header offset 544: feature bits are 0x0, but neff.json names the open format"));
}

TEST(Compatibility, RefusesUnknownFeatureBits) {
  SampleProgram sample;
  sample.options.feature_bits |= 0x100;
  expect_status(
      check(sample), NRT_UNSUPPORTED_NEFF_VERSION,
      HasSubstr(
          "header offset 544: feature bits are 0x10000000000100, of which 0x100 are unknown"));
}

TEST(Compatibility, RefusesAnotherFileVersion) {
  SampleProgram sample;
  sample.options.version_major = 3;
  expect_status(check(sample), NRT_UNSUPPORTED_NEFF_VERSION,
                HasSubstr("header offset 24: NEFF version, supported: 2.1 received: 3.1"));
}

TEST(Compatibility, RefusesANewerInstructionSetAndFormat) {
  SampleProgram sample;
  sample.edit("sg00/def.json", "\"isa\": 1", "\"isa\": 2");
  expect_status(check(sample), NRT_UNSUPPORTED_NEFF_VERSION,
                HasSubstr("sg00/def.json: program.isa: found 2, supported is version 1"));
  SampleProgram later;
  later.edit("neff.json", "\"version\": 1", "\"version\": 2");
  expect_status(check(later), NRT_UNSUPPORTED_NEFF_VERSION, HasSubstr("of version 2, supported:"));
}

TEST(Compatibility, RefusesAnotherGenerationUnlessAnOlderOneIsAllowed) {
  expect_status(
      check(SampleProgram(), {.generation = 3}), NRT_UNSUPPORTED_NEFF_VERSION,
      HasSubstr("was built for trn1 (trn1 or inf2), this device is trn2; build it for this device, "
                "or set NEURON_RT_ALLOW_LEGACY_NEFF=1"));
  EXPECT_TRUE(check(SampleProgram(), {.generation = 3, .allow_older = true}));
  SampleProgram newer;
  newer.edit("neff.json", "\"target\": \"trn1\"", "\"target\": \"trn2\"");
  expect_status(check(newer, {.generation = 2, .allow_older = true}), NRT_UNSUPPORTED_NEFF_VERSION,
                HasSubstr("this device is trn1 or inf2; build it for this device"));
  newer.edit("neff.json", "\"target\": \"trn2\"", "\"target\": \"tpu\"");
  expect_status(check(newer), NRT_UNSUPPORTED_NEFF_VERSION,
                HasSubstr("neff.json: target: found \"tpu\""));
}

TEST(Compatibility, RefusesAnotherLogicalCoreSize) {
  expect_status(
      check(SampleProgram(), {.lnc = 2}), NRT_INVALID,
      HasSubstr("header offset 552: the program needs logical cores of 1 physical cores, this "
                "process uses 2; set NEURON_LOGICAL_NC_CONFIG=1 or build it for 2"));
  SampleProgram sample;
  sample.options.lnc_size = 2;
  expect_status(check(sample), NRT_INVALID,
                HasSubstr("neff.json: lnc is 1, the header (offset 552) says 2"));
  sample.options.lnc_size = 0;  // Read as 1.
  EXPECT_TRUE(check(sample, {.lnc = 1}));
}

TEST(Compatibility, RefusesACoreCountThatIsNotTheGraphs) {
  SampleProgram sample;
  sample.options.cores = 2;
  expect_status(check(sample), NRT_INVALID,
                HasSubstr("neff.json: 1 subgraphs, the header (offset 168) says 2 cores"));
}

TEST(Compatibility, RefusesAByteThatNoFieldHas) {
  auto file = SampleProgram().pack();
  file[1000] = 1;
  const auto container = Container::open(file);
  ASSERT_TRUE(container);
  const auto result = check_compatible(*container, {});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().sentence,
              HasSubstr("header offset 1000: a byte behind the known fields"));
}

}  // namespace
}  // namespace neuron::neff
