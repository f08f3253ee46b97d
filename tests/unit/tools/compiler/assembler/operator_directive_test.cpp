// SPDX-License-Identifier: Apache-2.0
// .operator: what it declares, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "hw/custom_operator.h"
#include "hw/neff_program.h"
#include "tools/compiler/assembler/assembler.h"

namespace neuron::assembler {
namespace {

using ::testing::HasSubstr;

Assembled assembled_directive(const std::string& line) {
  AssembleOptions options;
  options.read = [](const std::string& file) -> runtime::Result<std::vector<uint8_t>> {
    if (file == "ops") return std::vector<uint8_t>{1, 2, 3};
    return runtime::fail(NRT_INVALID, "no file {}", file);
  };
  return assemble(".var x : f32 [2, 3] tmp-buf\n.var y : f32 [2, 3] tmp-buf\n" + line +
                      "\n.engine Pool\nmain: custom_operator at=&relu\nret\n",
                  options);
}

std::string directive_refusal(const std::string& line) {
  const Assembled result = assembled_directive(line);
  return result.ok() ? "accepted" : result.errors[0].message;
}

TEST(OperatorDirective, DeclaresImageDescriptionAndTable) {
  const Assembled result = assembled_directive(
      ".operator relu = \"ops\" (x f32 [2, 3], double 0.5, int64 -7, scalar 2, scalar 2.5) -> "
      "y f32 [2, 3], name=other, multicore");
  ASSERT_TRUE(result.ok()) << render(result.errors, "t", "");
  const auto& variables = result.assembly.model.subgraphs[0].variables;
  ASSERT_EQ(variables.size(), 5u);
  EXPECT_EQ(variables[4].name, "relu");
  EXPECT_EQ(variables[4].list, (std::vector<uint32_t>{3, 2, 0, 1}));
  EXPECT_NE(result.assembly.options.feature_bits & NEFF_FEATURE_CUSTOM_OPERATORS, 0u);
  const auto& bytes = result.assembly.members.at("sg00/relu.description");
  neuron_operator_description d;
  ASSERT_EQ(bytes.size(), sizeof(d));
  std::memcpy(&d, bytes.data(), sizeof(d));
  EXPECT_STREQ(d.name, "other");
  EXPECT_EQ(d.flags, NEURON_OPERATOR_MULTICORE);
  EXPECT_EQ(d.arguments, 6u);
  EXPECT_EQ(d.image_bytes, 3u);
  EXPECT_EQ(d.argument[2].value, static_cast<uint64_t>(-7));
  EXPECT_EQ(d.argument[3].kind, unsigned{NEURON_OPERATOR_SCALAR_INT});
  EXPECT_EQ(d.argument[4].kind, unsigned{NEURON_OPERATOR_SCALAR});
}

TEST(OperatorDirective, RefusesWhatIsNoCall) {
  EXPECT_THAT(directive_refusal(".operator relu = \"none\" (x f32 [2, 3]) -> y f32 [2, 3]"),
              HasSubstr("no file none"));
  EXPECT_THAT(directive_refusal(".operator relu = \"ops\" (x f32 [2, 3])"), HasSubstr("->"));
  EXPECT_THAT(directive_refusal(".operator relu = \"ops\" (z f32 [2, 3]) -> y f32 [2, 3]"),
              HasSubstr("expected a variable"));
  EXPECT_THAT(directive_refusal(".operator relu = \"ops\" (double many) -> y f32 [2, 3]"),
              HasSubstr("a number"));
  EXPECT_THAT(directive_refusal(".operator relu = \"ops\" (x f32 [70000]) -> y f32 [2, 3]"),
              HasSubstr("65535"));
  EXPECT_THAT(directive_refusal(".operator x = \"ops\" (x f32 [2, 3]) -> y f32 [2, 3]"),
              HasSubstr("a name that no other variable has"));
  EXPECT_THAT(directive_refusal(".operator relu = \"ops\" () -> y f32 [2, 3], slow"),
              HasSubstr("name= or multicore"));
}

std::string call_with(int arguments) {
  std::string list;
  for (int i = 0; i < arguments; ++i) list += (i == 0 ? "int64 " : ", int64 ") + std::to_string(i);
  return ".operator relu = \"ops\" (" + list + ") -> y f32 [2, 3]";
}

// The result is the sixteenth of the description.
TEST(OperatorDirective, HasFifteenArgumentsAndNotOneMore) {
  const Assembled most = assembled_directive(call_with(15));
  ASSERT_TRUE(most.ok()) << render(most.errors, "t", "");
  const auto& bytes = most.assembly.members.at("sg00/relu.description");
  neuron_operator_description d;
  ASSERT_EQ(bytes.size(), sizeof(d));
  std::memcpy(&d, bytes.data(), sizeof(d));
  EXPECT_EQ(d.arguments, 16u);
  EXPECT_EQ(d.argument[14].value, 14u);
  EXPECT_EQ(d.argument[15].kind, unsigned{NEURON_OPERATOR_TENSOR});
  EXPECT_THAT(directive_refusal(call_with(16)), HasSubstr("expected at most 15 arguments"));
}

}  // namespace
}  // namespace neuron::assembler
