// SPDX-License-Identifier: Apache-2.0
// Models that strangers wrote to make the importer crash, hang or run out of memory, and models
// whose forms would have given wrong values: each is refused with a sentence, or computed right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/files.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"
#include "tools/compiler/graph/interpreter.h"
#include "tools/compiler/onnx/importer.h"

namespace neuron::onnx {
namespace {

using graph::Tensor;
using graph::Type;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int32_t kU8 = 2, kI32 = 6, kI64 = 7;  // TensorProto.DataType

void text(file::NodeData& node, const std::string& name, const std::string& value) {
  file::AttributeData* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_s(value);
}

void list(file::NodeData& node, const std::string& name, const std::vector<int64_t>& values) {
  file::AttributeData* attribute = node.add_attribute();
  attribute->set_name(name);
  for (const int64_t value : values) attribute->add_ints(value);
}

file::GraphData& body(file::NodeData& node, const std::string& name) {
  file::AttributeData* attribute = node.add_attribute();
  attribute->set_name(name);
  return *attribute->mutable_g();
}

// The sentence of the only refusal.
std::string refusal(const ModelWriter& writer, const Bindings& bindings = {}) {
  const auto imported = import_model(writer.bytes(), "test", "", bindings);
  if (!imported) return "no model: " + imported.error().sentence;
  if (imported->refusals.empty()) return "it is not refused";
  return imported->refusals.size() == 1 ? imported->refusals[0].text() : "several refusals";
}

std::vector<std::vector<double>> run(const ModelWriter& writer, const std::vector<Tensor>& inputs) {
  const auto imported = import_model(writer.bytes(), "test", "");
  EXPECT_TRUE(imported) << (imported ? "" : imported.error().sentence);
  if (!imported) return {};
  for (const graph::Refusal& refused : imported->refusals) ADD_FAILURE() << refused.text();
  if (!imported->refusals.empty()) return {};
  std::vector<graph::SharedTensor> values;
  for (const Tensor& input : inputs) values.push_back(std::make_shared<const Tensor>(input));
  std::vector<std::vector<double>> results;
  for (const auto& output : graph::evaluate(imported->graph, values)) {
    results.emplace_back();
    for (size_t i = 0; i < static_cast<size_t>(output->elements()); ++i) {
      results.back().push_back(output->real(i));
    }
  }
  return results;
}

TEST(HostileModel, WidthsOfPaddingThatHaveNoNegativeAreRefused) {
  for (const std::string mode : {"constant", "edge", "wrap", "reflect"}) {
    for (const int64_t width : {kLeast, kMost}) {
      ModelWriter writer;
      writer.input("x", {4});
      writer.integers("pads", {width, width});
      text(writer.node("Pad", {"x", "pads"}, {"y"}), "mode", mode);
      writer.output("y");
      EXPECT_THAT(refusal(writer), HasSubstr("a width of")) << mode;
    }
  }
}

TEST(HostileModel, NumbersOfPlacesBeyondAllMemoryAreRefusedBeforeTheyAreListed) {
  constexpr int64_t kHuge = int64_t{1} << 31;
  ModelWriter edge;
  edge.input("x", {kHuge});
  edge.integers("pads", {1, 1});
  text(edge.node("Pad", {"x", "pads"}, {"y"}), "mode", "edge");
  edge.output("y");
  EXPECT_THAT(refusal(edge), HasSubstr("places one by one"));

  ModelWriter reversed;
  reversed.input("x", {kHuge, 1});
  reversed.integers("lengths", {2});
  reversed.node("ReverseSequence", {"x", "lengths"}, {"y"});
  reversed.output("y");
  EXPECT_THAT(refusal(reversed), HasSubstr("places one by one"));

  ModelWriter split;
  split.input("x", {kHuge});
  split.constant("one", {}, {1});
  split.model().mutable_graph()->mutable_initializer(0)->set_data_type(kI64);
  split.model().mutable_graph()->mutable_initializer(0)->clear_float_data();
  split.model().mutable_graph()->mutable_initializer(0)->add_int64_data(1);
  split.node("SplitToSequence", {"x", "one"}, {"s"});
  split.node("ConcatFromSequence", {"s"}, {"y"});
  split.output("y");
  EXPECT_THAT(refusal(split), HasSubstr("fewer than 65536 parts"));

  ModelWriter scale(17);
  for (const auto& [name, value] : {std::pair{"bins", 16384}, {"length", 1 << 20}}) {
    scale.integers(name, {value});
  }
  scale.constant("rate", {}, {16000});
  scale.constant("low", {}, {0});
  scale.constant("high", {}, {8000});
  scale.input("x", {1});
  scale.node("MelWeightMatrix", {"bins", "length", "rate", "low", "high"}, {"m"});
  scale.node("Mul", {"m", "x"}, {"y"});
  scale.output("y");
  EXPECT_THAT(refusal(scale), HasSubstr("places one by one"));
}

TEST(HostileModel, ConstantMatricesOfRealNumbersAreNotWrittenIntoWholeOnes) {
  ModelWriter resize;
  resize.input("x", {1, 1, 4, 4}, kU8);
  resize.constant("scales", {4}, {1, 1, 2, 2});
  text(resize.node("Resize", {"x", "", "scales"}, {"y"}), "mode", "linear");
  resize.output("y");
  EXPECT_THAT(refusal(resize), HasSubstr("interpolation of u8; cast to f32 before"));

  ModelWriter regions;
  regions.input("x", {1, 1, 4, 4}, kI32);
  regions.constant("rois", {1, 4}, {0, 0, 3, 3});
  regions.integers("batches", {0});
  regions.node("RoiAlign", {"x", "rois", "batches"}, {"y"});
  regions.output("y");
  EXPECT_THAT(refusal(regions), HasSubstr("regions of i32"));

  ModelWriter transform;
  transform.input("x", {1, 8, 1}, kI32);
  transform.node("DFT", {"x"}, {"y"});
  transform.output("y");
  EXPECT_THAT(refusal(transform), HasSubstr("a transform of i32"));
}

TEST(HostileModel, BlocksOfAnImageHaveTheSizeThatTheInputSays) {
  ModelWriter writer(18);
  writer.input("x", {1, 4, 4});
  writer.integers("image", {3, 3});
  writer.integers("block", {0, 2});
  list(writer.node("Col2Im", {"x", "image", "block"}, {"y"}), "kernel_shape", {2, 2});
  writer.output("y");
  EXPECT_THAT(refusal(writer), HasSubstr("blocks of 0x2 and a kernel of 2x2"));
}

TEST(HostileModel, ListsDoNotDoubleInEachNode) {
  ModelWriter writer;
  writer.input("x", {1});
  writer.node("SequenceConstruct", {"x", "x"}, {"two"});
  std::string last = "two";
  for (int i = 0; i < 60; ++i) {
    // Each round gives the list around the body, which the last node made.
    const std::string name = "s" + std::to_string(i);
    file::NodeData& node = writer.node("SequenceMap", {"two"}, {name});
    node.set_name(name);
    file::GraphData& inner = body(node, "body");
    inner.add_input()->set_name("element" + name);
    inner.add_output()->set_name(last);
    last = name;
  }
  writer.node("SequenceAt", {last, "at"}, {"y"});
  writer.integers("at", {0});
  writer.output("y");
  const auto imported = import_model(writer.bytes(), "test", "");
  ASSERT_TRUE(imported);
  ASSERT_FALSE(imported->refusals.empty());
  EXPECT_THAT(imported->refusals[0].text(), HasSubstr("output 0 of its body is no tensor"));
}

TEST(HostileModel, WhatABodyDoesNotMakeIsRefusedAndDoesNotVanish) {
  ModelWriter branch;
  branch.input("x", {1});
  branch.constant("true", {}, {1});
  file::NodeData& node = branch.node("If", {"true"}, {"y"});
  body(node, "then_branch").add_output()->set_name("nowhere");
  body(node, "else_branch").add_output()->set_name("x");
  branch.output("y");
  EXPECT_THAT(refusal(branch), HasSubstr("gives \"nowhere\", which no node of it makes"));

  // A list where each round's tensor is wanted.
  ModelWriter loop;
  loop.input("x", {1});
  loop.integers("rounds", {2});
  loop.node("SequenceConstruct", {"x"}, {"list"});
  file::GraphData& rounds = body(loop.node("Loop", {"rounds", ""}, {"y"}), "body");
  for (const char* name : {"round", "goes_on"}) rounds.add_input()->set_name(name);
  rounds.add_output()->set_name("goes_on");
  rounds.add_output()->set_name("list");
  loop.output("y");
  EXPECT_THAT(refusal(loop), HasSubstr("no tensor where one is expected"));

  ModelWriter absent;
  absent.input("x", {1});
  absent.node("Optional", {}, {"y"});
  absent.output("y");
  EXPECT_THAT(refusal(absent), HasSubstr("absent"));
}

TEST(HostileModel, RefusalsHaveAnEnd) {
  ModelWriter writer;
  writer.input("x", {1});
  for (int i = 0; i < 5000; ++i) {
    writer.node("FlyToTheMoon", {"x"}, {"y" + std::to_string(i)}).set_name(std::to_string(i));
  }
  writer.output("y1");
  const auto imported = import_model(writer.bytes(), "test", "");
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->refusals.size(), 1001u);
  EXPECT_THAT(imported->refusals.back().sentence, HasSubstr("what follows is not looked at"));
}

TEST(HostileModel, ComputedConstantsAreBoundedTogether) {
  Bindings bindings;
  bindings.limits.folded = 1 << 10;
  bindings.limits.constants = 4000;
  ModelWriter writer;
  writer.input("x", {1});
  writer.constant("w", {1000}, std::vector<float>(1000, 1));
  std::string last = "w";
  for (int i = 0; i < 20; ++i) {
    const std::string name = "c" + std::to_string(i);
    writer.node("Add", {last, "w"}, {name});
    last = name;
  }
  writer.node("Mul", {last, "x"}, {"y"});
  writer.output("y");
  const auto imported = import_model(writer.bytes(), "test", "", bindings);
  ASSERT_TRUE(imported);
  ASSERT_TRUE(imported->refusals.empty());
  // Four sums are constants; the program computes the others.
  size_t computed = 0;
  for (const graph::Node& node : imported->graph.nodes) {
    computed += node.kind == graph::Kind::kMap ? 1 : 0;
  }
  EXPECT_EQ(computed, 16u + 1u);
}

TEST(HostileModel, ArraysHaveSixtyFourDimensionsAtMost) {
  ModelWriter writer;
  writer.input("x", std::vector<int64_t>(65, 1));
  writer.node("Relu", {"x"}, {"y"});
  writer.output("y");
  EXPECT_THAT(refusal(writer), HasSubstr("an array of 65 dimensions; at most 64"));
}

TEST(HostileModel, DataBesideTheModelHasTheLengthThatTheModelSays) {
  const test::Folder folder;
  folder.write("weights.bin", std::string(16, '\0'));
  const auto refused = [&](const char* key, const char* value) {
    ModelWriter writer;
    writer.input("x", {2});
    writer.constant("w", {2}, {});
    file::TensorData* data = writer.model().mutable_graph()->mutable_initializer(0);
    data->set_data_location(1);
    for (const auto& [name, entry] : {std::pair{"location", "weights.bin"}, {key, value}}) {
      file::Entry* added = data->add_external_data();
      added->set_key(name);
      added->set_value(entry);
    }
    writer.node("Mul", {"x", "w"}, {"y"});
    writer.output("y");
    const auto imported = import_model(writer.bytes(), "test", folder.path());
    return imported->refusals.empty() ? std::string() : imported->refusals[0].text();
  };
  EXPECT_EQ(refused("length", "8"), "");
  EXPECT_EQ(refused("offset", "8"), "");
  EXPECT_THAT(refused("length", "7"), HasSubstr("is to have 7 bytes, and its shape needs 8"));
  EXPECT_THAT(refused("offset", "9"), HasSubstr("ends before the 8 bytes at 9"));
  EXPECT_THAT(refused("offset", "-8"), HasSubstr("offset of its data is \"-8\""));
  EXPECT_THAT(refused("offset", "x"), HasSubstr("expected a number"));
}

TEST(HostileModel, NegativeDimensionsAreFreeOnes) {
  ModelWriter writer;
  writer.input("x", {1, 3});
  writer.model()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(-1);
  writer.node("Relu", {"x"}, {"y"});
  writer.output("y");
  EXPECT_THAT(refusal(writer),
              HasSubstr("[?, 3] has a free dimension; say --shape x=1x3, or --batch 1"));
}

TEST(HostileModel, ListsThatDoNotFitTheirArrayAreRefused) {
  ModelWriter lengths;
  lengths.input("x", {3, 2});
  lengths.integers("lengths", {1});
  lengths.node("ReverseSequence", {"x", "lengths"}, {"y"});
  lengths.output("y");
  EXPECT_THAT(refusal(lengths), HasSubstr("1 lengths for a batch of 2"));

  ModelWriter numbers;
  numbers.input("x", {2, 2});
  numbers.input("i", {1, 3}, kI64);
  numbers.node("GatherElements", {"x", "i"}, {"y"});
  numbers.output("y");
  EXPECT_THAT(refusal(numbers), HasSubstr("numbers of 1x3 in an array of 2x2"));

  ModelWriter tuples;
  tuples.input("x", {3, 2});
  tuples.input("i", {2, 1}, kI64);
  ModelWriter::attribute(tuples.node("GatherND", {"x", "i"}, {"y"}), "batch_dims", kMost);
  tuples.output("y");
  EXPECT_THAT(refusal(tuples), HasSubstr("tuples of 2x1 in an array of 3x2"));

  ModelWriter equation;
  equation.input("x", {2, 3});
  text(equation.node("Einsum", {"x"}, {"y"}), "equation", "ij->ijz");
  equation.output("y");
  EXPECT_THAT(refusal(equation), HasSubstr("the letter \"z\" of the result is in no term"));

  ModelWriter parts;
  parts.input("x", {6});
  parts.integers("sizes", {kMost, kMost});
  parts.node("Split", {"x", "sizes"}, {"y", "z"});
  parts.output("y");
  EXPECT_THAT(refusal(parts), HasSubstr("of a dimension of 6"));
}

TEST(HostileModel, NamesOfModesThatAreNotKnownAreRefused) {
  ModelWriter resize;
  resize.input("x", {1, 1, 4, 4});
  resize.constant("scales", {4}, {1, 1, 2, 2});
  text(resize.node("Resize", {"x", "", "scales"}, {"y"}), "mode", "area");
  resize.output("y");
  EXPECT_THAT(refusal(resize), HasSubstr("the mode \"area\""));

  ModelWriter sample;
  sample.input("x", {1, 1, 4, 4});
  sample.input("grid", {1, 2, 2, 2});
  text(sample.node("GridSample", {"x", "grid"}, {"y"}), "padding_mode", "mirror");
  sample.output("y");
  EXPECT_THAT(refusal(sample), HasSubstr("with the padding \"mirror\""));

  ModelWriter pool;
  pool.input("x", {1, 1, 4, 4});
  file::NodeData& node = pool.node("MaxPool", {"x"}, {"y"});
  list(node, "kernel_shape", {2, 2});
  text(node, "auto_pad", "SAME");
  pool.output("y");
  EXPECT_THAT(refusal(pool), HasSubstr("the padding \"SAME\""));

  ModelWriter loss(13);
  loss.input("x", {1, 3});
  loss.input("labels", {1}, kI64);
  text(loss.node("NegativeLogLikelihoodLoss", {"x", "labels"}, {"y"}), "reduction", "median");
  loss.output("y");
  EXPECT_THAT(refusal(loss), HasSubstr("the reduction \"median\""));
}

TEST(HostileModel, FunctionsOfRealNumbersAreNotThoseOfWholeOnes) {
  for (const char* type : {"Exp", "Sqrt", "Tanh", "Erf", "Softplus"}) {
    ModelWriter writer;
    writer.input("x", {2}, kI32);
    writer.node(type, {"x"}, {"y"});
    writer.output("y");
    EXPECT_THAT(refusal(writer), HasSubstr("of i32; cast it before")) << type;
  }
  ModelWriter both;
  both.input("x", {2});
  both.node("And", {"x", "x"}, {"y"});
  both.output("y");
  EXPECT_THAT(refusal(both), HasSubstr("and of f32"));
}

TEST(HostileModel, UniqueRowsAreFoundWhateverIsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ModelWriter writer;
  std::vector<float> values;
  for (int i = 0; i < 60; ++i) values.push_back(i % 3 == 0 ? nan : static_cast<float>(i % 4));
  writer.constant("x", {60}, values);
  writer.node("Unique", {"x"}, {"y", "first", "inverse", "counts"});
  for (const char* name : {"y", "first", "inverse", "counts"}) writer.output(name);
  const auto found = run(writer, {});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_THAT(found[0], ElementsAre(0, 1, 2, 3, ::testing::IsNan()));
  EXPECT_THAT(found[1], ElementsAre(4, 1, 2, 7, 0));
  EXPECT_THAT(found[3], ElementsAre(10, 10, 10, 10, 20));
  ASSERT_EQ(found[2].size(), 60u);
  EXPECT_EQ(found[2][0], 4);
  EXPECT_EQ(found[2][7], 3);
  // Numbers beyond those that a double has, too.
  ModelWriter wide;
  wide.integers("x", {(int64_t{1} << 53) + 1, int64_t{1} << 53});
  wide.node("Unique", {"x"}, {"y", "first"});
  wide.output("first");
  EXPECT_THAT(run(wide, {})[0], ElementsAre(1, 0));
  ModelWriter unsorted;
  unsorted.integers("x", {5, 3, 5, 4});
  ModelWriter::attribute(unsorted.node("Unique", {"x"}, {"y", "f", "inverse"}), "sorted", 0);
  unsorted.output("y");
  unsorted.output("inverse");
  const auto order = run(unsorted, {});
  EXPECT_THAT(order[0], ElementsAre(5, 3, 4));
  EXPECT_THAT(order[1], ElementsAre(0, 1, 0, 2));
}

// A constant of another shape has the elements of the one that it comes from, not its shape.
TEST(HostileModel, WhatAConstantHoldsIsFoundByTheShapeThatItHasNow) {
  ModelWriter rows;
  rows.constant("w", {3, 2}, {1, 2, 3, 1, 2, 3});
  rows.integers("shape", {2, 3});
  rows.node("Reshape", {"w", "shape"}, {"x"});
  ModelWriter::attribute(rows.node("Unique", {"x"}, {"y", "first", "inverse"}), "axis", 0);
  rows.node("NonZero", {"x"}, {"places"});
  for (const char* name : {"y", "inverse", "places"}) rows.output(name);
  const auto found = run(rows, {});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_THAT(found[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(found[1], ElementsAre(0, 0));
  EXPECT_THAT(found[2], ElementsAre(0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2));
  ModelWriter boxes;
  boxes.constant("b", {12}, {0, 0, 1, 1, 0, 0, 1, 0.9F, 5, 5, 6, 6});
  boxes.constant("s", {3}, {0.5F, 0.9F, 0.7F});
  boxes.integers("of_boxes", {1, 3, 4});
  boxes.integers("of_scores", {1, 1, 3});
  boxes.integers("most", {3});
  boxes.constant("limit", {1}, {0.5F});
  boxes.node("Reshape", {"b", "of_boxes"}, {"x"});
  boxes.node("Reshape", {"s", "of_scores"}, {"t"});
  boxes.node("NonMaxSuppression", {"x", "t", "most", "limit"}, {"kept"});
  boxes.output("kept");
  EXPECT_THAT(run(boxes, {})[0], ElementsAre(0, 0, 1, 0, 0, 2));
}

TEST(HostileModel, WholeNumbersAreQuantisedByARealScale) {
  ModelWriter writer;
  writer.input("x", {3}, kI32);
  writer.constant("scale", {}, {0.5});
  writer.node("QuantizeLinear", {"x", "scale"}, {"y"});
  writer.output("y");
  EXPECT_THAT(run(writer, {Tensor::of_integers(Type::kI32, {3}, {1, 60, 200})})[0],
              ElementsAre(2, 120, 255));
}

TEST(HostileModel, PoolsOfWholeNumbersHaveTheLeastNumberAround) {
  ModelWriter writer;
  writer.input("x", {1, 1, 2}, kI32);
  file::NodeData& node = writer.node("MaxPool", {"x"}, {"y"});
  list(node, "kernel_shape", {2});
  list(node, "pads", {1, 1});
  writer.output("y");
  EXPECT_THAT(run(writer, {Tensor::of_integers(Type::kI32, {1, 1, 2}, {-1000, -2000})})[0],
              ElementsAre(-1000, -1000, -2000));
}

TEST(HostileModel, TheBestElementIsNanWhereThereIsOne) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ModelWriter writer;
  writer.input("x", {4});
  writer.node("ArgMax", {"x"}, {"most"});
  writer.node("ArgMin", {"x"}, {"least"});
  writer.output("most");
  writer.output("least");
  const auto found = run(writer, {Tensor::of_reals(Type::kF32, {4}, {1, nan, 9, nan})});
  EXPECT_THAT(found[0], ElementsAre(1));
  EXPECT_THAT(found[1], ElementsAre(1));
}

TEST(HostileModel, EachNanIsAmongTheLargestAndTheSmallestElementsAtItsOwnPlace) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t largest : {1, 0}) {
    ModelWriter writer;
    writer.input("x", {5});
    writer.integers("k", {3});
    auto& node = writer.node("TopK", {"x", "k"}, {"values", "places"});
    ModelWriter::attribute(node, "largest", largest);
    writer.output("values");
    writer.output("places");
    const auto found = run(writer, {Tensor::of_reals(Type::kF32, {5}, {1, nan, 9, nan, 4})});
    ASSERT_EQ(found.size(), 2u);
    EXPECT_THAT(found[0],
                ElementsAre(::testing::IsNan(), ::testing::IsNan(), largest != 0 ? 9 : 1));
    EXPECT_THAT(found[1], ElementsAre(1, 3, largest != 0 ? 2 : 0));
  }
}

TEST(HostileModel, PlacesInAListAreFromItsEndToOneBehind) {
  const auto found = [](int64_t place) {
    ModelWriter writer;
    for (const char* name : {"a", "b", "c"}) writer.input(name, {1});
    writer.integers("place", {place});
    writer.node("SequenceConstruct", {"a", "b"}, {"list"});
    writer.node("SequenceInsert", {"list", "c", "place"}, {"more"});
    writer.node("ConcatFromSequence", {"more"}, {"y"});
    writer.output("y");
    return writer;
  };
  const auto one = [](double value) { return Tensor::of_reals(Type::kF32, {1}, {value}); };
  const std::vector<Tensor> inputs = {one(1), one(2), one(3)};
  EXPECT_THAT(run(found(-2), inputs)[0], ElementsAre(3, 1, 2));
  EXPECT_THAT(run(found(-1), inputs)[0], ElementsAre(1, 3, 2));
  EXPECT_THAT(run(found(2), inputs)[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(refusal(found(-3)), HasSubstr("a place in a sequence of 2"));
  EXPECT_THAT(refusal(found(3)), HasSubstr("a place in a sequence of 2"));
}

}  // namespace
}  // namespace neuron::onnx
