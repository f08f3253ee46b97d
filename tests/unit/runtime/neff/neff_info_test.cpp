// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/neff_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "runtime/neff/container.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::tools {
namespace {

using test::must;
using test::SampleProgram;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Opened {
  explicit Opened(const SampleProgram& sample)
      : bytes(sample.pack()), container(must(neff::Container::open(bytes))) {}
  std::vector<uint8_t> bytes;
  neff::Container container;
};
std::string text_of(const SampleProgram& sample) {
  const Opened opened(sample);
  return neff_info_text(opened.container);
}

TEST(NeffInfo, OfAProgramSaysWhatItIsAndWhereItRuns) {
  const Opened opened{SampleProgram()};
  const std::string text = neff_info_text(opened.container);
  EXPECT_THAT(text, HasSubstr("Name:              sample\n"));
  EXPECT_THAT(text, HasSubstr("Build version:     test 1\n"));
  EXPECT_THAT(text, HasSubstr("(open-program)\n"));
  EXPECT_THAT(text, HasSubstr("Logical core size: 1\n"));
  EXPECT_THAT(text, HasSubstr("Runs on:           trn1 or inf2, logical cores of 1; trn2 with "
                              "NEURON_RT_ALLOW_LEGACY_NEFF=1 and NEURON_LOGICAL_NC_CONFIG=1\n"));
  EXPECT_THAT(text,
              HasSubstr(std::to_string(opened.container.unpacked_bytes()) + " bytes unpacked, " +
                        std::to_string(opened.container.members().size()) + " members\n"));
  // Columns are as wide as their widest text, two apart.
  EXPECT_THAT(text, HasSubstr("\nNODE  Executor    Name  Variable  Size  Type  Format  Shape    "
                              "DataType  TimeSeries\n"
                              "1     NeuronCore  sg00  x:0       256   IN    NC      [4, 16]  "
                              "float32   false\n"
                              "1     NeuronCore  sg00  y:0       256   OUT   -       [128]    "
                              "bfloat16  false\n"));
}

TEST(NeffInfo, OfAHashSaysWhichItIs) {
  SampleProgram sample;
  for (const auto& [version, name, digits] : {std::tuple{1, "SHA-256", 64u}, {2, "MD5", 32u}}) {
    sample.options.header_version = static_cast<uint64_t>(version);
    const std::string text = text_of(sample);
    const size_t at = text.find("Hash:") + 19;
    EXPECT_EQ(text.find(std::string(" (") + name + ")\n", at), at + digits) << name;
    EXPECT_THAT(text, HasSubstr("Packaging version: " + std::to_string(version) + "\n"));
  }
}

TEST(NeffInfo, OfAPayloadSaysWhetherItIsCompressed) {
  SampleProgram sample;
  sample.options.compress = true;
  EXPECT_THAT(text_of(sample), HasSubstr(" bytes gzip, "));
  sample.options.compress = false;
  EXPECT_THAT(text_of(sample), HasSubstr(" bytes tar, "));
}

TEST(NeffInfo, OfABrokenProgramHasTheReasonAndNoTable) {
  SampleProgram sample;
  sample.set("sg00/def.json", "{");
  const std::string text = text_of(sample);
  EXPECT_THAT(
      text, AllOf(HasSubstr("Runs on:           nothing here: "), Not(HasSubstr("trn1 or inf2,"))));
  SampleProgram without;
  without.set("neff.json", "{}");
  EXPECT_THAT(text_of(without), Not(HasSubstr("NODE")));
}

TEST(NeffInfo, InJsonHasTheSame) {
  const Opened opened{SampleProgram()};
  const auto value = boost::json::parse(neff_info_json(opened.container)).as_object();
  EXPECT_EQ(value.at("name"), "sample");
  EXPECT_EQ(value.at("build_version"), "test 1");
  EXPECT_EQ(value.at("enabled_features"), boost::json::parse(R"(["open-program"])"));
  EXPECT_EQ(value.at("runs_here"), true);
  EXPECT_THAT(std::string(value.at("runs_on").as_string()), HasSubstr("trn1 or inf2"));
  EXPECT_FALSE(value.contains("reason"));
  EXPECT_EQ(value.at("notes").as_array().size(), 0u);
  EXPECT_EQ(value.at("members").as_array().size(), opened.container.members().size());
  EXPECT_EQ(value.at("members").at(0).at("size").to_number<size_t>(),
            opened.container.members()[0].bytes.size());
  EXPECT_EQ(value.at("inputs"), boost::json::parse(R"([{"node": "sg00", "executor": "NeuronCore",
      "name": "x:0", "size": 256, "format": "NC", "shape": [4, 16], "dtype": "float32",
      "timeseries": false}])"));
  EXPECT_EQ(value.at("outputs").at(0).at("dtype"), "bfloat16");

  SampleProgram broken;
  broken.set("sg00/def.json", "{");
  const Opened wrong(broken);
  const auto reason = boost::json::parse(neff_info_json(wrong.container)).as_object();
  EXPECT_EQ(reason.at("runs_here"), false);
  EXPECT_FALSE(reason.contains("runs_on"));
  EXPECT_NE(std::string(reason.at("reason").as_string()), "");
}

}  // namespace
}  // namespace neuron::tools
