// SPDX-License-Identifier: Apache-2.0
// Calls of custom operators in the file that the builder writes, and those that it refuses.
#include "tools/compiler/program_builder/custom_call.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/unit/tools/compiler/program_builder/program_reader.h"

namespace neuron::builder {
namespace {

using ::testing::HasSubstr;

CustomCall relu() {
  CustomCall call;
  call.name = "relu";
  call.image = {1, 2, 3};
  return call;
}

const neff::Variable& variable(const testing::Loaded& loaded, const std::string& name) {
  for (const neff::Variable& v : loaded.graph().variables) {
    if (v.name == name) return v;
  }
  ADD_FAILURE() << "no variable " << name;
  return loaded.graph().variables[0];
}

TEST(CustomCall, BecomesATableADescriptionAndOneInstructionOfPool) {
  Program program("call");
  const Buffer x = program.temporary("x", NEURON_DTYPE_F32, {2, 3});
  const Buffer y = program.temporary("y", NEURON_DTYPE_I32, {6});
  CustomCall call = relu();
  call.multicore = true;
  call.arguments = {x, CustomArgument::real(0.5), CustomArgument::integer(-7)};
  custom_operator(program, call, y);
  const auto loaded = testing::load(program.build());
  ASSERT_FALSE(loaded.code[NEURON_ENGINE_POOL].empty());
  EXPECT_EQ(loaded.code[NEURON_ENGINE_POOL][0].opcode, NEURON_OP_CUSTOM_OPERATOR);
  const neff::Variable& table = variable(loaded, "relu");
  ASSERT_EQ(table.list.size(), 4u);
  EXPECT_EQ(loaded.graph().variables[table.list[1]].contents.size(), 3u);
  EXPECT_EQ(loaded.graph().variables[table.list[2]].name, "x");
  EXPECT_EQ(loaded.graph().variables[table.list[3]].name, "y");
  neuron_operator_description d;
  const neff::Bytes bytes = loaded.graph().variables[table.list[0]].contents;
  ASSERT_EQ(bytes.size(), sizeof(d));
  std::memcpy(&d, bytes.data(), sizeof(d));
  EXPECT_STREQ(d.name, "relu");
  EXPECT_EQ(d.flags, NEURON_OPERATOR_MULTICORE);
  EXPECT_EQ(d.arguments, 4u);
  EXPECT_EQ(d.argument[0].size[1], 3u);
  EXPECT_EQ(d.argument[1].value, std::bit_cast<uint64_t>(0.5));
  EXPECT_EQ(d.argument[2].value, static_cast<uint64_t>(-7));
  EXPECT_EQ(d.argument[3].dtype, unsigned{NEURON_DTYPE_I32});
}

TEST(CustomCall, OfTheSameLibraryHasItsImageOnce) {
  Program program("calls");
  const Buffer x = program.temporary("x", NEURON_DTYPE_F32, {4});
  for (int n = 0; n < 2; ++n) {
    CustomCall call = relu();
    call.arguments = {x};
    custom_operator(program, call, x);
  }
  const auto loaded = testing::load(program.build());
  EXPECT_EQ(variable(loaded, "relu").list, variable(loaded, "relu.2").list);
}

TEST(CustomCall, RefusesWhatItCannotDescribe) {
  const auto refusal = [](const std::function<void(Program&)>& list) {
    Program program("refused");
    list(program);
    const auto built = program.build();
    return built ? std::string("built") : built.error().sentence;
  };
  EXPECT_THAT(
      refusal([](Program& p) { custom_operator(p, relu(), p.input("x", NEURON_DTYPE_F32, {4})); }),
      HasSubstr("writes to input \"x\""));
  EXPECT_THAT(refusal([](Program& p) {
                custom_operator(p, relu(), p.temporary("y", NEURON_DTYPE_F32, {65536}));
              }),
              HasSubstr("of at most 65535 elements"));
  EXPECT_THAT(refusal([](Program& p) {
                CustomCall call = relu();
                call.image.clear();
                custom_operator(p, call, p.temporary("y", NEURON_DTYPE_F32, {4}));
              }),
              HasSubstr("an image of 0 bytes"));
}

}  // namespace
}  // namespace neuron::builder
