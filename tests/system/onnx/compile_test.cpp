// SPDX-License-Identifier: Apache-2.0
// neuron-compile as a user calls it: a model becomes a file that neuron-run executes, and what is
// said of models and options that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <cstring>

#include "runtime/neff/npy_file.h"
#include "tests/support/daemon.h"
#include "tests/unit/tools/compiler/hlo/module_writer.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"

namespace neuron::compile {
namespace {

using onnx::ModelWriter;
using test::Folder;
using testing::AllOf;
using testing::HasSubstr;

struct Said {
  test::Ending ending;
  std::string out, error;
};

constexpr int kRows = 3, kInputs = 150, kHidden = 40, kClasses = 7;

// Numbers without a pattern that a transposed or shifted array would keep.
float weight(int seed, int i) { return static_cast<float>((i * 37 + seed * 11) % 53 - 26) / 53.0F; }

std::vector<float> weights(int seed, int count, float scale) {
  std::vector<float> list;
  for (int i = 0; i < count; ++i) list.push_back(scale * weight(seed, i));
  return list;
}

class NeuronCompile : public testing::Test {
 protected:
  // softmax(relu(x w1 + b1) w2 + b2)
  ModelWriter network(bool free_rows = false) const {
    ModelWriter writer;
    writer.input("x", {free_rows ? 0 : kRows, kInputs});
    writer.constant("w1", {kInputs, kHidden}, w1_);
    writer.constant("b1", {kHidden}, b1_);
    writer.constant("w2", {kHidden, kClasses}, w2_);
    writer.constant("b2", {kClasses}, b2_);
    writer.node("Gemm", {"x", "w1", "b1"}, {"h"});
    writer.node("Relu", {"h"}, {"r"});
    writer.node("Gemm", {"r", "w2", "b2"}, {"s"});
    writer.node("Softmax", {"s"}, {"probabilities"});
    writer.output("probabilities");
    return writer;
  }
  // What it must give, computed here and not by the compiler.
  std::vector<double> expected(const std::vector<float>& x) const {
    std::vector<double> result;
    for (int row = 0; row < kRows; ++row) {
      std::vector<double> hidden, scores;
      for (int j = 0; j < kHidden; ++j) {
        double sum = b1_[j];
        for (int k = 0; k < kInputs; ++k) sum += x[row * kInputs + k] * w1_[k * kHidden + j];
        hidden.push_back(std::max(0.0, sum));
      }
      double total = 0;
      for (int j = 0; j < kClasses; ++j) {
        double sum = b2_[j];
        for (int k = 0; k < kHidden; ++k) sum += hidden[k] * w2_[k * kClasses + j];
        scores.push_back(std::exp(sum));
        total += scores.back();
      }
      for (const double score : scores) result.push_back(score / total);
    }
    return result;
  }
  void write(const std::string& name, const ModelWriter& writer) const {
    folder_.write(name, writer.bytes());
  }
  Said shell(const std::string& line) const {
    const test::Run ended = test::shell("cd " + folder_.path() + " && { " + line + "; } >out 2>err",
                                        {{"NEURON_EMULATOR", "trn1.2xlarge"}});
    return {ended.ending, folder_.read("out"), folder_.read("err") + ended.output};
  }
  Said compile(const std::string& arguments) const {
    return shell(test::built("bin/neuron-compile") + " " + arguments);
  }

  const std::vector<float> w1_ = weights(1, kInputs* kHidden, 0.3F);
  const std::vector<float> b1_ = weights(2, kHidden, 1);
  const std::vector<float> w2_ = weights(3, kHidden* kClasses, 0.5F);
  const std::vector<float> b2_ = weights(4, kClasses, 1);
  Folder folder_;
};

TEST_F(NeuronCompile, MakesAProgramThatGivesTheNetworksValuesInNeuronRun) {
  write("network.onnx", network(true));
  const Said said = compile("network.onnx --dim n0=" + std::to_string(kRows) + " -o network.neff");
  EXPECT_EQ(said.ending, 0) << said.error;
  EXPECT_THAT(said.out, HasSubstr("network.neff: trn1, "));
  const std::vector<float> x = weights(5, kRows * kInputs, 1);
  tools::NpyArray array{.type = "<f4", .shape = {kRows, kInputs}, .data = {}};
  array.data.resize(x.size() * 4);
  std::memcpy(array.data.data(), x.data(), array.data.size());
  folder_.write("x.npy", tools::write_npy(array));
  const Said ran = shell(test::built("bin/neuron-run") +
                         " network.neff --input x=x.npy --output probabilities=y.npy");
  EXPECT_EQ(ran.ending, 0) << ran.error;
  const auto y = tools::read_npy_file(folder_.path("y.npy"));
  ASSERT_TRUE(y) << y.error().sentence;
  const std::vector<double> wanted = expected(x);
  ASSERT_EQ(y->data.size(), wanted.size() * 4);
  for (size_t i = 0; i < wanted.size(); ++i) {
    float value = 0;
    std::memcpy(&value, &y->data[i * 4], 4);
    EXPECT_NEAR(value, wanted[i], 1e-7 + 1e-4 * wanted[i]) << i;
  }
}

TEST_F(NeuronCompile, ChecksWhatItMadeAgainstTheReferenceInEveryWayToCompile) {
  write("network.onnx", network());
  for (const std::string way :
       {"-O0", "-O2", "--auto-cast matmult", "--auto-cast matmult --auto-cast-type fp16"}) {
    const Said said = compile("network.onnx --check " + way);
    EXPECT_EQ(said.ending, 0) << way << said.error;
    EXPECT_THAT(said.out, HasSubstr("the output is as the reference computes it")) << way;
  }
}

TEST_F(NeuronCompile, WritesTheSameBytesEachTime) {
  write("network.onnx", network());
  EXPECT_EQ(compile("network.onnx -o a.neff").ending, 0);
  EXPECT_EQ(compile("network.onnx -o b.neff").ending, 0);
  EXPECT_FALSE(folder_.read("a.neff").empty());
  EXPECT_EQ(folder_.read("a.neff"), folder_.read("b.neff"));
  EXPECT_EQ(compile("network.onnx -o c.neff --target trn2").ending, 0);
  EXPECT_NE(folder_.read("a.neff"), folder_.read("c.neff"));
}

TEST_F(NeuronCompile, RefusesWithSentencesAndAStatusAndWritesNothing) {
  write("free.onnx", network(true));
  const Said free = compile("free.onnx -o no.neff");
  EXPECT_EQ(free.ending, 4);
  EXPECT_THAT(free.error, AllOf(HasSubstr("free.onnx: tensor \"x\""), HasSubstr("say --shape x=")));
  EXPECT_EQ(folder_.read("no.neff"), "");
  folder_.write("text.onnx", std::string("this is no model"));
  EXPECT_EQ(compile("text.onnx").ending, 3);
  EXPECT_EQ(compile("missing.onnx").ending, 1);
  EXPECT_EQ(compile("").ending, 2);
  EXPECT_EQ(compile("free.onnx --shape x").ending, 2);
  EXPECT_EQ(compile("free.onnx --target p5").ending, 2);
  const Said wrong = compile("free.onnx --target trn9");
  EXPECT_THAT(wrong.error,
              HasSubstr("--target: found 'trn9', expected trn1, trn1n, inf2, trn2 or trn3"));
  const Said first = compile("free.onnx --target inf1");
  EXPECT_EQ(first.ending, 2);
  EXPECT_THAT(first.error, HasSubstr("the instruction set of Inferentia1 is not public"));
  EXPECT_EQ(compile("free.onnx --constant x=@missing.npy").ending, 2);
}

TEST_F(NeuronCompile, ListsRefusalsForPrograms) {
  ModelWriter writer = network();
  writer.node("StringNormalizer", {"x"}, {"words"});
  writer.output("words");
  write("words.onnx", writer);
  const Said said = compile("words.onnx --report json");
  EXPECT_EQ(said.ending, 4);
  const auto document = boost::json::parse(said.out);
  const auto& refusals = document.as_object().at("refusals").as_array();
  ASSERT_EQ(refusals.size(), 1u) << said.out;
  EXPECT_EQ(refusals[0].as_object().at("class").as_string(), "strings");
  EXPECT_EQ(refusals[0].as_object().at("operator").as_string(), "StringNormalizer");
  EXPECT_EQ(refusals[0].as_object().at("node").as_string(), "the StringNormalizer");
}

// rows of a table picked by number, times weights, then the largest of each row
hlo::ModuleWriter lookup_module() {
  hlo::ModuleWriter w;
  const int64_t most = w.combiner("maximum");
  const int64_t table = w.parameter("table", 0, {5, 6});
  const int64_t places = w.parameter("places", 1, {3, 1}, hlo::kS32);
  auto& gather = w.add("gather", hlo::kF32, {3, 6}, {table, places});
  gather.mutable_gather_dimension_numbers()->add_offset_dims(1);
  gather.mutable_gather_dimension_numbers()->add_collapsed_slice_dims(0);
  gather.mutable_gather_dimension_numbers()->add_start_index_map(0);
  gather.mutable_gather_dimension_numbers()->set_index_vector_dim(1);
  gather.add_gather_slice_sizes(1);
  gather.add_gather_slice_sizes(6);
  const int64_t rows = gather.id();
  auto& dot = w.add("dot", hlo::kF32, {3, 4}, {rows, w.constant({6, 4}, weights(6, 24, 1))});
  dot.mutable_dot_dimension_numbers()->add_lhs_contracting_dimensions(1);
  dot.mutable_dot_dimension_numbers()->add_rhs_contracting_dimensions(0);
  const int64_t scores = dot.id();
  const int64_t least = w.constant({}, {-1000});
  auto& reduce = w.add("reduce", hlo::kF32, {3}, {scores, least});
  reduce.add_dimensions(1);
  reduce.add_called_computation_ids(most);
  return w;
}

TEST_F(NeuronCompile, TakesAModuleByTheCommandLineOfNeuronxCc) {
  folder_.write("hlo_module.pb", lookup_module().bytes());
  const Said said = compile(
      "compile --framework XLA hlo_module.pb --pipeline compile SaveTemps --target trn1 "
      "--output=lookup.neff --model-type transformer --check");
  EXPECT_EQ(said.ending, 0) << said.error;
  EXPECT_THAT(said.out, HasSubstr("the output is as the reference computes it"));
  const Said shown = shell(test::built("bin/neuron-packager") + " info lookup.neff");
  EXPECT_THAT(shown.out, AllOf(HasSubstr("table"), HasSubstr("places"), HasSubstr("output0")));
}

TEST_F(NeuronCompile, AnswersCallersOfNeuronxCcWithItsCodes) {
  hlo::ModuleWriter w;
  w.add("triangular-solve", hlo::kF32, {2, 2}, {w.parameter("x", 0, {2, 2})});
  folder_.write("solve.pb", w.bytes());
  const Said solve = compile("compile --framework=XLA solve.pb --output solve.neff");
  EXPECT_EQ(solve.ending, 4);
  EXPECT_THAT(solve.error, testing::StartsWith("[NCC_EUOC002] solve.pb: node "));
  EXPECT_THAT(compile("--framework XLA solve.pb").error, testing::StartsWith("solve.pb: node "));
  folder_.write("lookup.pb", lookup_module().bytes());
  const Said cores = compile("compile --framework XLA lookup.pb -lnc 2 --target trn1");
  EXPECT_EQ(cores.ending, 2);
  EXPECT_THAT(cores.error, HasSubstr("[NCC_EARG001]"));
  // Options of its stages have no meaning here.
  const Said inside = compile(
      "compile --framework XLA lookup.pb --target trn2 -lnc=1 --internal-tensorizer-opt-level=2 "
      "--distribution-strategy llm-training --auto-cast=all --auto-cast-type tf32 -O1 --logfile x");
  EXPECT_EQ(inside.ending, 0) << inside.error;
  EXPECT_THAT(compile("list-operators --framework XLA").out, HasSubstr("dynamic-update-slice\n"));
  // A caller who wants what another stage writes would look for it in vain.
  const Said stages = compile(
      "compile --framework XLA lookup.pb --pipeline tensorize SaveTemps --output=stages.neff");
  EXPECT_EQ(stages.ending, 2);
  EXPECT_THAT(stages.error, HasSubstr("--pipeline has 'tensorize SaveTemps', expected a list with "
                                      "'compile'"));
  EXPECT_EQ(folder_.read("stages.neff"), "");
  for (const std::string list : {"--pipeline 'compile SaveTemps'", "--pipeline=compile",
                                 "--pipeline tensorize --pipeline compile"}) {
    EXPECT_EQ(compile("compile --framework XLA lookup.pb -o stages.neff " + list).ending, 0)
        << list;
  }
}

TEST_F(NeuronCompile, RefusesNamesThatTheModelDoesNotHave) {
  write("network.onnx", network());
  for (const std::string option : {"--shape z=1", "--dim z=1", "--constant z=1", "--donate z=x",
                                   "--donate probabilities=z", "--donate probabilities=x"}) {
    const Said said = compile("network.onnx -o no.neff " + option);
    EXPECT_EQ(said.ending, 2) << option;
    EXPECT_THAT(said.error, HasSubstr(option.substr(0, option.find(' ')))) << option;
  }
  EXPECT_EQ(folder_.read("no.neff"), "");
}

TEST_F(NeuronCompile, TakesTheValueOfAnInputIntoTheProgram) {
  ModelWriter writer;
  writer.input("x", {6});
  writer.input("shape", {2}, 7);
  writer.node("Reshape", {"x", "shape"}, {"y"});
  writer.output("y");
  write("reshape.onnx", writer);
  EXPECT_THAT(compile("reshape.onnx").error, HasSubstr("--constant shape=VALUE"));
  const Said said = compile("reshape.onnx --constant 'shape=[2, 3]' --check");
  EXPECT_EQ(said.ending, 0) << said.error;
}

}  // namespace
}  // namespace neuron::compile
