// SPDX-License-Identifier: Apache-2.0
// Modules that would have crashed the importer, or whose forms would have given wrong values: each
// is refused with a sentence, or computed right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/tools/compiler/hlo/module_writer.h"
#include "tools/compiler/graph/interpreter.h"
#include "tools/compiler/hlo/importer.h"

namespace neuron::hlo {
namespace {

using graph::RefusalClass;
using graph::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLeastNumber = std::numeric_limits<int64_t>::min();
constexpr int64_t kMostNumber = std::numeric_limits<int64_t>::max();

// The only refusal.
graph::Refusal module_refusal(const ModuleWriter& writer) {
  const auto imported = import_module(writer.bytes(), "test");
  if (!imported || imported->refusals.size() != 1) return {};
  return imported->refusals[0];
}

TEST(HostileModule, OperandsThatNothingMakesAreNamed) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2});
  w.add("add", kF32, {2}, {x, 999});
  const graph::Refusal found = module_refusal(w);
  EXPECT_EQ(found.kind, RefusalClass::kInvalid);
  EXPECT_THAT(found.text(), HasSubstr("operand 999 is made by no instruction before it"));
}

TEST(HostileModule, LayoutsOfColumnsAreNotReadAsRows) {
  ModuleWriter parameter;
  auto& x = parameter.add("parameter", kF32, {2, 3});
  for (const int64_t d : {0, 1}) x.mutable_shape()->mutable_layout()->add_minor_to_major(d);
  EXPECT_THAT(module_refusal(parameter).sentence, HasSubstr("a layout other than that of rows"));

  ModuleWriter constant;
  auto& c = constant.add("constant", kF32, {2, 1});
  *c.mutable_literal()->mutable_shape() = c.shape();
  for (const float value : {1.0F, 2.0F}) c.mutable_literal()->add_f32s(value);
  for (const int64_t d : {0, 1}) {
    c.mutable_literal()->mutable_shape()->mutable_layout()->add_minor_to_major(d);
  }
  EXPECT_THAT(module_refusal(constant).sentence, HasSubstr("a layout other than that of rows"));
}

TEST(HostileModule, ParametersHaveNumbersOfTheirOwn) {
  ModuleWriter w;
  const int64_t a = w.parameter("a", 0, {2});
  w.parameter("b", 0, {2});
  w.add("negate", kF32, {2}, {a});
  EXPECT_THAT(module_refusal(w).sentence, HasSubstr("two parameters, or none, have the number 0"));
}

TEST(HostileModule, ProductsHaveTheSameBatchesOnBothSides) {
  ModuleWriter w;
  const int64_t a = w.parameter("a", 0, {2, 3, 1, 4}), b = w.parameter("b", 1, {3, 2, 4, 1});
  auto& dot = w.add("dot", kF32, {2, 3, 1, 1}, {a, b});
  auto& numbers = *dot.mutable_dot_dimension_numbers();
  for (const int64_t d : {0, 1}) numbers.add_lhs_batch_dimensions(d);
  for (const int64_t d : {0, 1}) numbers.add_rhs_batch_dimensions(d);
  numbers.add_lhs_contracting_dimensions(3);
  numbers.add_rhs_contracting_dimensions(2);
  EXPECT_THAT(module_refusal(w).sentence, HasSubstr("batches of 2x3 and 3x2"));
}

TEST(HostileModule, WidthsOfPaddingThatHaveNoNegativeAreRefused) {
  for (const int64_t width : {kLeastNumber, kMostNumber}) {
    ModuleWriter w;
    const int64_t x = w.parameter("x", 0, {2});
    const int64_t zero = w.constant({}, {0});
    auto& pad = w.add("pad", kF32, {2}, {x, zero});
    auto* d = pad.mutable_padding_config()->add_dimensions();
    d->set_edge_padding_low(width);
    d->set_edge_padding_high(width);
    EXPECT_THAT(module_refusal(w).sentence, HasSubstr("padding of over"));
  }
}

std::vector<double> run_module(const ModuleWriter& writer, const std::vector<Tensor>& inputs) {
  const auto imported = import_module(writer.bytes(), "test");
  EXPECT_TRUE(imported) << (imported ? "" : imported.error().sentence);
  if (!imported) return {};
  for (const graph::Refusal& refused : imported->refusals) ADD_FAILURE() << refused.text();
  if (!imported->refusals.empty()) return {};
  std::vector<graph::SharedTensor> values;
  for (const Tensor& input : inputs) values.push_back(std::make_shared<const Tensor>(input));
  const auto output = graph::evaluate(imported->graph, values)[0];
  std::vector<double> result;
  for (size_t i = 0; i < static_cast<size_t>(output->elements()); ++i) {
    result.push_back(output->real(i));
  }
  return result;
}

TEST(HostileModule, StridesBeyondTheArrayTakeItsFirstElement) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {3});
  auto* d = w.add("slice", kF32, {1}, {x}).add_slice_dimensions();
  d->set_limit(3);
  d->set_stride(kMostNumber);
  EXPECT_THAT(run_module(w, {Tensor::of_reals(graph::Type::kF32, {3}, {7, 8, 9})}), ElementsAre(7));
}

TEST(HostileModule, NothingFoldedIsTheFirstValue) {
  ModuleWriter w;
  const int64_t sum = w.combiner("add");
  const int64_t x = w.parameter("x", 0, {3});
  auto& none = w.add("slice", kF32, {0}, {x});
  none.add_slice_dimensions()->set_stride(1);
  const int64_t none_id = none.id();
  const int64_t spread = [&] {
    auto& wide = w.add("broadcast", kF32, {0, 2}, {none_id});
    wide.add_dimensions(0);
    return wide.id();
  }();
  const int64_t first = w.constant({}, {4});
  auto& fold = w.add("reduce", kF32, {2}, {spread, first});
  fold.add_dimensions(0);
  fold.add_called_computation_ids(sum);
  EXPECT_THAT(run_module(w, {Tensor::of_reals(graph::Type::kF32, {3}, {7, 8, 9})}),
              ElementsAre(4, 4));
}

TEST(HostileModule, BitsOfRowsAreNotCombined) {
  ModuleWriter w;
  const int64_t either = w.combiner("or");
  const int64_t x = w.parameter("x", 0, {3, 2}, kS32);
  const int64_t places = w.parameter("places", 1, {1}, kS32);
  const int64_t updates = w.parameter("updates", 2, {1, 2}, kS32);
  auto& scatter = w.add("scatter", kS32, {3, 2}, {x, places, updates});
  scatter.add_called_computation_ids(either);
  auto& numbers = *scatter.mutable_scatter_dimension_numbers();
  numbers.add_update_window_dims(1);
  numbers.add_inserted_window_dims(0);
  numbers.add_scatter_dims_to_operand_dims(0);
  numbers.set_index_vector_dim(1);
  EXPECT_THAT(module_refusal(w).sentence, HasSubstr("bits of i32 combined"));
}

TEST(HostileModule, RandomNumbersAreRefusedAsSuch) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2});
  w.add("rng", kF32, {2}, {x});
  EXPECT_EQ(module_refusal(w).kind, RefusalClass::kRandom);
}

TEST(HostileModule, RefusalsHaveAnEnd) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2});
  for (int i = 0; i < 5000; ++i) w.add("fly-to-the-moon", kF32, {2}, {x});
  const auto imported = import_module(w.bytes(), "test");
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->refusals.size(), 1001u);
  EXPECT_THAT(imported->refusals.back().sentence, HasSubstr("what follows is not looked at"));
}

}  // namespace
}  // namespace neuron::hlo
