// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/onnx/importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/support/files.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"
#include "tools/compiler/graph/interpreter.h"

namespace neuron::onnx {
namespace {

using graph::RefusalClass;
using graph::Tensor;
using graph::Type;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Imported import(const ModelWriter& writer, const Bindings& bindings = {}) {
  auto imported = import_model(writer.bytes(), "test", "", bindings);
  EXPECT_TRUE(imported) << (imported ? "" : imported.error().sentence);
  return imported ? std::move(*imported) : Imported{};
}

std::vector<double> run(const Imported& imported, const std::vector<double>& x) {
  EXPECT_THAT(imported.refusals, IsEmpty());
  if (!imported.refusals.empty()) return {};
  const auto size = static_cast<int64_t>(x.size());
  const auto outputs = graph::evaluate(
      imported.graph, {std::make_shared<const Tensor>(Tensor::of_reals(Type::kF32, {size}, x))});
  return outputs[0]->reals;
}

TEST(OnnxImporter, RefusesBytesThatAreNoModel) {
  const std::vector<uint8_t> bytes = {'h', 'e', 'l', 'l', 'o'};
  const auto imported = import_model(bytes, "test", "");
  ASSERT_FALSE(imported);
  EXPECT_THAT(imported.error().sentence, HasSubstr("no ONNX model"));
}

TEST(OnnxImporter, NamesEveryReasonOfAModelAtOnce) {
  ModelWriter writer;
  writer.input("x", {4});
  writer.node("StringNormalizer", {"x"}, {"a"});
  writer.node("FlyToTheMoon", {"x"}, {"b"});
  writer.node("Add", {"a", "b"}, {"y"});  // its inputs are refused already
  writer.node("Relu", {"nowhere"}, {"z"});
  writer.output("y");
  const Imported imported = import(writer);
  ASSERT_EQ(imported.refusals.size(), 3u);
  EXPECT_EQ(imported.refusals[0].kind, RefusalClass::kStrings);
  EXPECT_EQ(imported.refusals[1].kind, RefusalClass::kOperator);
  EXPECT_THAT(imported.refusals[1].text(), HasSubstr("node \"the FlyToTheMoon\" (FlyToTheMoon)"));
  EXPECT_EQ(imported.refusals[2].kind, RefusalClass::kInvalid);
  EXPECT_THAT(imported.refusals[2].text(), HasSubstr("\"nowhere\" is made by no node before it"));
}

TEST(OnnxImporter, SaysHowToFixFreeDimensions) {
  ModelWriter writer;
  writer.input("x", {0, 3});
  writer.node("Relu", {"x"}, {"y"});
  writer.output("y");
  const Imported imported = import(writer);
  ASSERT_EQ(imported.refusals.size(), 1u);
  EXPECT_EQ(imported.refusals[0].kind, RefusalClass::kShape);
  EXPECT_THAT(imported.refusals[0].text(), HasSubstr("[n0, 3]"));
  EXPECT_THAT(imported.refusals[0].text(), HasSubstr("--shape x=1x3"));
  Bindings by_name;
  by_name.dimensions["n0"] = 2;
  EXPECT_THAT(import(writer, by_name).refusals, IsEmpty());
  Bindings by_shape;
  by_shape.shapes["x"] = {5, 3};
  EXPECT_THAT(import(writer, by_shape).refusals, IsEmpty());
}

TEST(OnnxImporter, SaysWhichNamesOfTheCallerAreNotInTheModel) {
  ModelWriter w;
  w.input("x", {0, 3});
  w.node("Relu", {"x"}, {"y"});
  w.output("y");
  Bindings bindings;
  bindings.batch = 2;
  bindings.shapes["z"] = {1};
  bindings.dimensions["sequence"] = 4;
  bindings.constants["v"] = graph::Tensor::zeros(graph::Type::kF32, {});
  const auto imported = import_model(w.bytes(), "test", "", bindings);
  ASSERT_TRUE(imported);
  EXPECT_TRUE(imported->refusals.empty());
  EXPECT_THAT(imported->unknown,
              ::testing::ElementsAre(HasSubstr("--shape z: the model has no such input; it has x"),
                                     HasSubstr("--constant v"), HasSubstr("there are n0")));
  EXPECT_EQ(imported->graph.nodes[static_cast<size_t>(imported->graph.inputs[0])].shape,
            (graph::Shape{2, 3}));
}

TEST(OnnxImporter, SaysThatAFileIsEmptyOrCutOff) {
  ModelWriter w;
  w.input("x", {2});
  w.node("Relu", {"x"}, {"y"});
  w.output("y");
  const auto bytes = w.bytes();
  const auto cut = import_model(std::span(bytes).first(bytes.size() - 5), "test", "");
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().sentence, HasSubstr("cut off or damaged"));
  const auto empty = import_model({}, "test", "");
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().sentence, HasSubstr("is empty"));
}

TEST(OnnxImporter, NamesTheInputThatDecidesAShapeAndTakesItAsAConstant) {
  ModelWriter writer;
  writer.input("x", {4});
  writer.input("shape", {2}, 7);
  writer.node("Reshape", {"x", "shape"}, {"y"});
  writer.output("y");
  const Imported imported = import(writer);
  ASSERT_EQ(imported.refusals.size(), 1u);
  EXPECT_EQ(imported.refusals[0].kind, RefusalClass::kBinding);
  EXPECT_THAT(imported.refusals[0].inputs, ElementsAre("shape"));
  EXPECT_THAT(imported.refusals[0].text(), HasSubstr("--constant shape=VALUE"));
  Bindings bindings;
  bindings.constants["shape"] = Tensor::of_integers(Type::kI64, {2}, {2, -1});
  const Imported bound = import(writer, bindings);
  EXPECT_THAT(bound.inputs, ElementsAre("x", "shape"));
  EXPECT_THAT(run(bound, {1, 2, 3, 4}), ElementsAre(1, 2, 3, 4));
}

TEST(OnnxImporter, DecidesBranchesOnConstantsAndSelectsThoseOnData) {
  for (const bool known : {true, false}) {
    ModelWriter writer;
    writer.input("x", {2});
    writer.constant("limit", {}, {0});
    writer.node("ReduceSum", {known ? "limit" : "x"}, {"sum"});
    ModelWriter::attribute(*writer.model().mutable_graph()->mutable_node(0), "keepdims", 0);
    writer.node("Less", {"sum", "limit"}, {"negative"});
    file::NodeData& branch = writer.node("If", {"negative"}, {"y"});
    for (const char* side : {"then_branch", "else_branch"}) {
      file::AttributeData* attribute = branch.add_attribute();
      attribute->set_name(side);
      file::NodeData* node = attribute->mutable_g()->add_node();
      node->set_op_type(side[0] == 't' ? "Neg" : "Relu");
      node->add_input("x");
      node->add_output("inner");
      attribute->mutable_g()->add_output()->set_name("inner");
    }
    writer.output("y");
    const Imported imported = import(writer);
    EXPECT_THAT(run(imported, {-5, 1}), known ? ElementsAre(0, 1) : ElementsAre(5, -1));
    EXPECT_THAT(run(imported, {-1, 5}), ElementsAre(0, 5));
  }
}

TEST(OnnxImporter, InlinesFunctionsOfTheModelWithTheirAttributes) {
  ModelWriter writer;
  writer.input("x", {2});
  file::NodeData& call = writer.node("Leak", {"x"}, {"y"});
  call.set_domain("mine");
  file::AttributeData* given = call.add_attribute();
  given->set_name("slope");
  given->set_f(0.5F);
  file::FunctionData* function = writer.model().add_functions();
  function->set_name("Leak");
  function->set_domain("mine");
  function->add_input("a");
  function->add_output("b");
  file::NodeData* body = function->add_node();
  body->set_op_type("LeakyRelu");
  body->add_input("a");
  body->add_output("b");
  file::AttributeData* reference = body->add_attribute();
  reference->set_name("alpha");
  reference->set_ref_attr_name("slope");
  writer.output("y");
  EXPECT_THAT(run(import(writer), {-2, 3}), ElementsAre(-1, 3));
}

TEST(OnnxImporter, StopsFunctionsThatCallThemselves) {
  ModelWriter writer;
  writer.input("x", {2});
  writer.node("F", {"x"}, {"y"}).set_domain("mine");
  file::FunctionData* function = writer.model().add_functions();
  function->set_name("F");
  function->set_domain("mine");
  function->add_input("a");
  function->add_output("b");
  file::NodeData* body = function->add_node();
  body->set_op_type("F");
  body->set_domain("mine");
  body->add_input("a");
  body->add_output("b");
  writer.output("y");
  const Imported imported = import(writer);
  ASSERT_FALSE(imported.refusals.empty());
  EXPECT_EQ(imported.refusals[0].kind, RefusalClass::kInvalid);
}

TEST(OnnxImporter, ReadsDataBesideTheModelButNowhereElse) {
  const test::Folder folder;
  folder.write("weights.bin", std::string("\0\0\x80\x3F\0\0\0\x40", 8));
  std::filesystem::create_symlink("/etc/hostname", folder.path("link"));
  std::filesystem::create_directory_symlink("/etc", folder.path("linked"));
  const auto refusals = [&](const std::string& location) {
    ModelWriter writer;
    writer.input("x", {2});
    writer.constant("w", {2}, {});
    file::TensorData* data = writer.model().mutable_graph()->mutable_initializer(0);
    data->set_data_location(1);
    file::Entry* entry = data->add_external_data();
    entry->set_key("location");
    entry->set_value(location);
    writer.node("Mul", {"x", "w"}, {"y"});
    writer.output("y");
    return import_model(writer.bytes(), "test", folder.path())->refusals;
  };
  EXPECT_THAT(refusals("weights.bin"), IsEmpty());
  for (const std::string bad : {"../weights.bin", "/etc/hostname", "link", "linked/hostname", ""}) {
    const auto found = refusals(bad);
    ASSERT_EQ(found.size(), 1u) << bad;
    EXPECT_THAT(found[0].text(), HasSubstr("below the folder of the model"));
  }
}

TEST(OnnxImporter, UnderstandsTheFormsOfOldOperatorSets) {
  ModelWriter writer(6);
  writer.input("x", {4});
  writer.constant("bias", {1}, {10});
  file::NodeData& add = writer.node("Add", {"x", "bias"}, {"a"});
  ModelWriter::attribute(add, "broadcast", 1);
  file::NodeData& cut = writer.node("Slice", {"a"}, {"y"});
  for (const auto& [name, value] : {std::pair{"starts", 1}, {"ends", 3}}) {
    file::AttributeData* attribute = cut.add_attribute();
    attribute->set_name(name);
    attribute->add_ints(value);
  }
  writer.output("y");
  EXPECT_THAT(run(import(writer), {1, 2, 3, 4}), ElementsAre(12, 13));
}

// Whether it is refused or imported is the operator's; that it is either, is what counts.
TEST(OnnxImporter, SurvivesEveryOperatorWithInputsAndAttributesThatItDoesNotExpect) {
  const std::vector<std::vector<int64_t>> shapes = {{}, {3}, {2, 3}, {1, 2, 4, 4}};
  for (const std::string& full : operator_names()) {
    const size_t dot = full.rfind('.');
    const std::string domain = dot == std::string::npos ? "" : full.substr(0, dot);
    for (const int64_t opset : {1, 8, 12, 17, 22}) {
      for (size_t inputs = 0; inputs < 6; ++inputs) {
        for (const auto& shape : shapes) {
          ModelWriter writer(opset);
          if (!domain.empty()) {
            file::OperatorSet* set = writer.model().add_opset_import();
            set->set_domain(domain);
            set->set_version(1);
          }
          writer.input("x", shape);
          writer.integers("k", {1, 2});
          std::vector<std::string> names(inputs, "x");
          if (inputs > 1) names.back() = "k";
          file::NodeData& node =
              writer.node(full.substr(dot == std::string::npos ? 0 : dot + 1), names, {"y", "z"});
          node.set_domain(domain);
          ModelWriter::attribute(node, "axis", -7);
          ModelWriter::attribute(node, "num_scan_inputs", 9);
          writer.output("y");
          SCOPED_TRACE(full + " of " + std::to_string(inputs) + " inputs of rank " +
                       std::to_string(shape.size()) + ", operator set " + std::to_string(opset));
          std::vector<graph::Refusal> refusals;
          ASSERT_NO_THROW(refusals = import_model(writer.bytes(), "test", "")->refusals);
          for (const graph::Refusal& refusal : refusals) {
            EXPECT_FALSE(refusal.sentence.empty());
          }
        }
      }
    }
  }
}

TEST(OnnxImporter, EndsAtAValueAndDoesNotLookBehindIt) {
  ModelWriter writer;
  writer.input("x", {2});
  writer.input("unused", {0});
  writer.node("Neg", {"x"}, {"middle"});
  writer.node("FlyToTheMoon", {"middle", "unused"}, {"y"});
  writer.output("y");
  Bindings bindings;
  bindings.end_at = {"middle"};
  const Imported imported = import(writer, bindings);
  EXPECT_THAT(run(imported, {1, -2}), ElementsAre(-1, 2));
  EXPECT_EQ(imported.graph.outputs[0].name, "middle");
  bindings.end_at = {"nothing"};
  ASSERT_EQ(import(writer, bindings).refusals.size(), 1u);
}

TEST(OnnxImporter, RefusesOperatorSetsThatItDoesNotKnow) {
  ModelWriter writer(99);
  writer.input("x", {4});
  writer.node("Relu", {"x"}, {"y"});
  writer.output("y");
  const Imported imported = import(writer);
  ASSERT_EQ(imported.refusals.size(), 1u);
  EXPECT_THAT(imported.refusals[0].text(), HasSubstr("operator set 99"));
}

TEST(OnnxImporter, RefusesOutputsThatAnOperatorDoesNotGive) {
  ModelWriter writer(18);
  writer.input("x", {4});
  // Parts of two elements: there is no third one.
  ModelWriter::attribute(writer.node("Split", {"x"}, {"a", "b", "c"}), "num_outputs", 3);
  writer.output("a");
  EXPECT_THAT(import(writer).refusals, IsEmpty());
  writer.output("c");
  const Imported imported = import(writer);
  ASSERT_EQ(imported.refusals.size(), 1u);
  EXPECT_THAT(imported.refusals[0].text(),
              HasSubstr("output 2 of node \"the Split\" (Split) is needed"));
}

TEST(OnnxImporter, KeepsWhatIsInfiniteOutOfTheRunningSumsBeforeIt) {
  ModelWriter writer;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  writer.input("x", {5});
  writer.integers("axis", {0});
  writer.node("CumSum", {"x", "axis"}, {"y"});
  writer.output("y");
  const std::vector<double> sums = run(import(writer), {1, 2, kInfinity, 3, -kInfinity});
  ASSERT_EQ(sums.size(), 5u);
  EXPECT_EQ(sums[0], 1);
  EXPECT_EQ(sums[1], 3);
  EXPECT_EQ(sums[2], kInfinity);
  EXPECT_EQ(sums[3], kInfinity);
  EXPECT_TRUE(std::isnan(sums[4]));
}

TEST(OnnxImporter, GivesTheLogarithmOfSumsOfInfiniteTerms) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double x : {kInfinity, -kInfinity}) {
    ModelWriter writer;
    writer.input("x", {2});
    writer.node("ReduceLogSumExp", {"x"}, {"y"});
    writer.output("y");
    EXPECT_THAT(run(import(writer), {x, -kInfinity}), ElementsAre(x));
  }
}

TEST(OnnxImporter, RefusesToComputeConstantsWithoutEnd) {
  Bindings bindings;
  bindings.limits.constants = 1000;
  ModelWriter writer;
  writer.input("x", {1});
  writer.constant("start", {}, {0});
  writer.constant("step", {}, {1});
  writer.constant("limit", {}, {400});
  for (const char* name : {"a", "b", "c"}) writer.node("Range", {"start", "limit", "step"}, {name});
  writer.node("Add", {"x", "c"}, {"y"});
  writer.output("y");
  const Imported imported = import(writer, bindings);
  ASSERT_FALSE(imported.refusals.empty());
  EXPECT_THAT(imported.refusals[0].text(), HasSubstr("over 1000 elements together"));
}

TEST(OnnxImporter, EndsLoopsInLoopsWithoutNodes) {
  Bindings bindings;
  bindings.limits.nodes = 10000;
  ModelWriter writer;
  writer.input("x", {1});
  writer.integers("rounds", {4000});
  // Each round of the outer loop has one node, the inner loop, whose rounds have none.
  file::AttributeData* outer = writer.node("Loop", {"rounds", "", "x"}, {"y"}).add_attribute();
  outer->set_name("body");
  const auto describe = [](file::GraphData& body) {
    for (const char* name : {"round", "goes_on", "carried"}) body.add_input()->set_name(name);
    body.add_output()->set_name("goes_on");
    body.add_output()->set_name("carried");
  };
  describe(*outer->mutable_g());
  file::NodeData* node = outer->mutable_g()->add_node();
  node->set_op_type("Loop");
  for (const char* name : {"rounds", "", "carried"}) node->add_input(name);
  node->add_output("inner");
  file::AttributeData* inner = node->add_attribute();
  inner->set_name("body");
  describe(*inner->mutable_g());
  writer.output("y");
  const Imported imported = import(writer, bindings);
  ASSERT_FALSE(imported.refusals.empty());
  EXPECT_THAT(imported.refusals[0].text(), HasSubstr("over 10000 nodes"));
}

TEST(OnnxImporter, RefusesModesOfPaddingThatItDoesNotKnow) {
  ModelWriter writer;
  writer.input("x", {4});
  writer.integers("pads", {1, 1});
  file::AttributeData* mode = writer.node("Pad", {"x", "pads"}, {"y"}).add_attribute();
  mode->set_name("mode");
  mode->set_s("mirror");
  writer.output("y");
  const Imported imported = import(writer);
  ASSERT_EQ(imported.refusals.size(), 1u);
  EXPECT_THAT(imported.refusals[0].text(), HasSubstr("the mode \"mirror\""));
}

}  // namespace
}  // namespace neuron::onnx
