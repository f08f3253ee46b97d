// SPDX-License-Identifier: Apache-2.0
// What operators give, on small arrays whose results are written down. All cases of ONNX itself are
// in tests/system/onnx.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/tools/compiler/graph/evaluated.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"
#include "tools/compiler/onnx/importer.h"

namespace neuron::onnx {
namespace {

using ::testing::ElementsAre;
using Numbers = std::vector<double>;

void add_text(file::NodeData& node, const std::string& name, const std::string& value) {
  file::AttributeData* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(3);
  attribute->set_s(value);
}
void add_real(file::NodeData& node, const std::string& name, float value) {
  file::AttributeData* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(1);
  attribute->set_f(value);
}

// The values of all outputs, for numbers as the inputs.
std::vector<Numbers> outputs_of(const ModelWriter& writer, const std::vector<Numbers>& inputs) {
  return graph::evaluated(import_model(writer.bytes(), "test", ""), inputs);
}
Numbers output_of(const ModelWriter& writer, const std::vector<Numbers>& inputs) {
  const auto all = outputs_of(writer, inputs);
  return all.empty() ? Numbers{} : all[0];
}

// One node of x, whose result is y.
struct OneNode {
  explicit OneNode(const std::string& type, const std::vector<int64_t>& shape,
                   const std::vector<std::string>& others = {}, int64_t opset = 17)
      : writer(opset) {
    writer.input("x", shape);
    std::vector<std::string> inputs = {"x"};
    inputs.insert(inputs.end(), others.begin(), others.end());
    node = &writer.node(type, inputs, {"y"});
    writer.output("y");
  }
  ModelWriter writer;
  file::NodeData* node;
};

TEST(OnnxOperators, OneHotHasTheOnValueAtEachNumberAlsoFromTheEnd) {
  for (const int64_t axis : {-1, 0}) {
    ModelWriter w;
    w.input("x", {2}, 7);
    w.integers("depth", {3});
    w.constant("values", {2}, {2, 5});
    ModelWriter::attribute(w.node("OneHot", {"x", "depth", "values"}, {"y"}), "axis", axis);
    w.output("y");
    EXPECT_THAT(output_of(w, {{1, -1}}),
                axis == 0 ? ElementsAre(2, 2, 5, 2, 2, 5) : ElementsAre(2, 5, 2, 2, 2, 5));
  }
}

TEST(OnnxOperators, ALoopCarriesValuesAndStacksThoseOfItsRounds) {
  ModelWriter w;
  w.input("x", {2});
  w.integers("rounds", {3});
  file::NodeData& loop = w.node("Loop", {"rounds", "", "x"}, {"last", "each"});
  file::AttributeData* attribute = loop.add_attribute();
  attribute->set_name("body");
  attribute->set_type(5);
  file::GraphData& body = *attribute->mutable_g();
  for (const char* name : {"round", "goes_on", "sum"}) body.add_input()->set_name(name);
  const auto add = [&](const char* type, std::vector<std::string> inputs, const char* output) {
    file::NodeData& node = *body.add_node();
    node.set_op_type(type);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
  };
  add("Identity", {"goes_on"}, "still");
  add("Add", {"sum", "sum"}, "twice");
  add("Neg", {"sum"}, "negative");
  for (const char* name : {"still", "twice", "negative"}) body.add_output()->set_name(name);
  w.output("last");
  w.output("each");
  EXPECT_THAT(outputs_of(w, {{1, 3}}),
              ElementsAre(ElementsAre(8, 24), ElementsAre(-1, -3, -2, -6, -4, -12)));
}

TEST(OnnxOperators, SlicesTakeNegativePlacesAndSteps) {
  const auto sliced = [](int64_t start, int64_t end, int64_t step) {
    OneNode one("Slice", {5}, {"starts", "ends", "axes", "steps"});
    one.writer.integers("starts", {start});
    one.writer.integers("ends", {end});
    one.writer.integers("axes", {0});
    one.writer.integers("steps", {step});
    return output_of(one.writer, {{0, 1, 2, 3, 4}});
  };
  EXPECT_THAT(sliced(1, 4, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(sliced(-3, 99, 1), ElementsAre(2, 3, 4));
  EXPECT_THAT(sliced(-99, -1, 2), ElementsAre(0, 2));
  EXPECT_THAT(sliced(-1, -99, -1), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THAT(sliced(3, 0, -2), ElementsAre(3, 1));
  EXPECT_THAT(sliced(99, 1, -1), ElementsAre(4, 3, 2));
}

TEST(OnnxOperators, PadsHaveTheirModes) {
  const auto padded = [](const char* mode, std::vector<int64_t> pads) {
    OneNode one("Pad", {3}, {"pads", "value"}, 19);
    one.writer.integers("pads", pads);
    one.writer.constant("value", {}, {9});
    add_text(*one.node, "mode", mode);
    return output_of(one.writer, {{1, 2, 3}});
  };
  EXPECT_THAT(padded("constant", {2, 1}), ElementsAre(9, 9, 1, 2, 3, 9));
  EXPECT_THAT(padded("constant", {-1, 1}), ElementsAre(2, 3, 9));
  EXPECT_THAT(padded("edge", {2, 1}), ElementsAre(1, 1, 1, 2, 3, 3));
  EXPECT_THAT(padded("reflect", {2, 1}), ElementsAre(3, 2, 1, 2, 3, 2));
  EXPECT_THAT(padded("wrap", {2, 1}), ElementsAre(2, 3, 1, 2, 3, 1));
  OneNode old("Pad", {3}, {}, 10);
  ModelWriter::attribute(*old.node, "pads", std::vector<int64_t>{0, 2});
  add_real(*old.node, "value", 7);
  EXPECT_THAT(output_of(old.writer, {{1, 2, 3}}), ElementsAre(1, 2, 3, 7, 7));
}

TEST(OnnxOperators, CompressKeepsWhatIsTrue) {
  OneNode one("Compress", {3, 2}, {"kept"});
  file::TensorData* kept = one.writer.model().mutable_graph()->add_initializer();
  kept->set_name("kept");
  kept->set_data_type(9);
  kept->add_dims(3);
  for (const int truth : {0, 1, 1}) kept->add_int32_data(truth);
  EXPECT_THAT(output_of(one.writer, {{1, 2, 3, 4, 5, 6}}), ElementsAre(2, 3)) << "of one line";
  ModelWriter::attribute(*one.node, "axis", 0);
  EXPECT_THAT(output_of(one.writer, {{1, 2, 3, 4, 5, 6}}), ElementsAre(3, 4, 5, 6));
}

TEST(OnnxOperators, LogarithmsOfSumsKeepTheirDimensionsWhereAsked) {
  for (const int64_t keeps : {0, 1}) {
    OneNode one("ReduceLogSumExp", {2, 2});
    ModelWriter::attribute(*one.node, "axes", std::vector<int64_t>{1});
    ModelWriter::attribute(*one.node, "keepdims", keeps);
    const Numbers y = output_of(one.writer, {{1000, 1000, -3, -3}});
    ASSERT_EQ(y.size(), 2u);
    EXPECT_NEAR(y[0], 1000 + std::log(2), 1e-4);
    EXPECT_NEAR(y[1], -3 + std::log(2), 1e-6);
  }
  OneNode logs("ReduceLogSum", {2, 2});
  ModelWriter::attribute(*logs.node, "axes", std::vector<int64_t>{0});
  const Numbers y = output_of(logs.writer, {{1, 2, 3, 4}});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_NEAR(y[0], std::log(4), 1e-6);
  EXPECT_NEAR(y[1], std::log(6), 1e-6);
}

TEST(OnnxOperators, ResizesLookWhereTheirCoordinatesSay) {
  const auto resized = [](const char* coordinates, const char* mode, const char* rounding) {
    OneNode one("Resize", {1, 1, 1, 4}, {"", "", "sizes"});
    one.writer.integers("sizes", {1, 1, 1, 2});
    add_text(*one.node, "coordinate_transformation_mode", coordinates);
    add_text(*one.node, "mode", mode);
    add_text(*one.node, "nearest_mode", rounding);
    return output_of(one.writer, {{10, 20, 30, 40}});
  };
  EXPECT_THAT(resized("asymmetric", "nearest", "floor"), ElementsAre(10, 30));
  EXPECT_THAT(resized("asymmetric", "linear", "floor"), ElementsAre(10, 30));
  EXPECT_THAT(resized("align_corners", "linear", "floor"), ElementsAre(10, 40));
  EXPECT_THAT(resized("half_pixel", "linear", "floor"), ElementsAre(15, 35));
  EXPECT_THAT(resized("half_pixel", "nearest", "ceil"), ElementsAre(20, 40));
}

TEST(OnnxOperators, ConvolutionsOfGroupsSeeTheirChannels) {
  ModelWriter w;
  w.input("x", {1, 4, 3});
  // Two groups of two channels; one output each, of a kernel of two.
  w.constant("w", {2, 2, 2}, {1, 10, 100, 1000, 2, 0, 0, 3});
  w.constant("b", {2}, {0.5, -1});
  file::NodeData& node = w.node("Conv", {"x", "w", "b"}, {"y"});
  ModelWriter::attribute(node, "group", 2);
  w.output("y");
  EXPECT_THAT(
      output_of(w, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 0, 2}}),
      ElementsAre(1 + 20 + 400 + 5000 + 0.5, 2 + 30 + 500 + 6000 + 0.5, 14 + 0 - 1, 16 + 6 - 1));
}

TEST(OnnxOperators, ConvolutionsOfAnUnevenImageHaveItsRowsAndColumns) {
  ModelWriter w;
  w.input("x", {2, 1, 2, 3});
  w.constant("w", {3, 1, 1, 2}, {1, 1, 1, -1, 0, 2});
  ModelWriter::attribute(w.node("Conv", {"x", "w"}, {"y"}), "strides", std::vector<int64_t>{1, 1});
  w.output("y");
  EXPECT_THAT(output_of(w, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}),
              ElementsAre(3, 5, 9, 11, -1, -1, -1, -1, 4, 6, 10, 12,  //
                          15, 17, 21, 23, -1, -1, -1, -1, 16, 18, 22, 24));
}

TEST(OnnxOperators, ScansBothWays) {
  for (const int64_t reversed : {0, 1}) {
    ModelWriter w;
    w.input("x", {3});
    w.constant("zero", {}, {0});
    file::NodeData& scan = w.node("Scan", {"zero", "x"}, {"sum", "sums"});
    ModelWriter::attribute(scan, "num_scan_inputs", 1);
    ModelWriter::attribute(scan, "scan_input_directions", std::vector<int64_t>{reversed});
    file::AttributeData* attribute = scan.add_attribute();
    attribute->set_name("body");
    attribute->set_type(5);
    file::GraphData& body = *attribute->mutable_g();
    for (const char* name : {"before", "element"}) body.add_input()->set_name(name);
    for (const auto& [type, output] : {std::pair{"Add", "after"}, {"Sub", "difference"}}) {
      file::NodeData& node = *body.add_node();
      node.set_op_type(type);
      node.add_input("before");
      node.add_input("element");
      node.add_output(output);
      body.add_output()->set_name(output);
    }
    w.output("sum");
    w.output("sums");
    EXPECT_THAT(outputs_of(w, {{1, 2, 4}}),
                reversed == 0 ? ElementsAre(ElementsAre(7), ElementsAre(-1, -1, -1))
                              : ElementsAre(ElementsAre(7), ElementsAre(-4, 2, 5)));
  }
}

}  // namespace
}  // namespace neuron::onnx
