// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/compiler/hlo/module_writer.h"
#include "tools/compiler/graph/interpreter.h"
#include "tools/compiler/hlo/importer.h"

namespace neuron::hlo {
namespace {

using graph::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Imported import(const ModuleWriter& writer) {
  auto imported = import_module(writer.bytes(), "test");
  EXPECT_TRUE(imported) << (imported ? "" : imported.error().sentence);
  if (!imported) return {};
  for (const graph::Refusal& refusal : imported->refusals) ADD_FAILURE() << refusal.text();
  return std::move(*imported);
}

std::vector<double> run_imported(const ModuleWriter& writer,
                                 std::vector<std::vector<double>> inputs) {
  const Imported imported = import(writer);
  if (!imported.refusals.empty() || imported.graph.outputs.empty()) return {};
  std::vector<graph::SharedTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& node = imported.graph.nodes[static_cast<size_t>(imported.graph.inputs[i])];
    Tensor tensor = Tensor::zeros(node.type, node.shape);
    for (size_t k = 0; k < inputs[i].size(); ++k) tensor.set(k, inputs[i][k]);
    tensors.push_back(std::make_shared<const Tensor>(std::move(tensor)));
  }
  const auto output = graph::evaluate(imported.graph, tensors)[0];
  std::vector<double> values;
  for (size_t i = 0; i < static_cast<size_t>(output->elements()); ++i) {
    values.push_back(output->real(i));
  }
  return values;
}

TEST(HloImporter, RefusesBytesThatAreNoModule) {
  const std::vector<uint8_t> bytes = {1, 2, 3};
  EXPECT_FALSE(import_module(bytes, "test"));
}

TEST(HloImporter, NamesElementTypesThatItDoesNotHave) {
  ModuleWriter w;
  w.parameter("x", 0, {2}, 28);
  const auto imported = import_module(w.bytes(), "test");
  ASSERT_TRUE(imported);
  ASSERT_FALSE(imported->refusals.empty());
  EXPECT_THAT(imported->refusals[0].text(),
              HasSubstr("a parameter of element type f8e4m3, which is not supported"));
}

TEST(HloImporter, SaysWhichOutputHasNoElementsIfNoOtherHasAny) {
  ModuleWriter w;
  auto& slice = w.add("slice", kF32, {0}, {w.parameter("x", 0, {10})});
  auto* d = slice.add_slice_dimensions();
  d->set_start(5);
  d->set_limit(5);
  d->set_stride(1);
  const auto imported = import_module(w.bytes(), "test");
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->refusals.size(), 1u);
  EXPECT_EQ(imported->refusals[0].kind, graph::RefusalClass::kEmpty);
  EXPECT_THAT(imported->refusals[0].text(),
              HasSubstr("\"output0\": the output has the shape 0, which has no elements"));
}

TEST(HloImporter, MultipliesWithBatchAndContractingDimensionsAnywhere) {
  ModuleWriter w;
  const int64_t a = w.parameter("a", 0, {2, 3, 2});  // [depth, rows, batch]
  const int64_t b = w.parameter("b", 1, {2, 2, 1});  // [batch, depth, columns]
  auto& dot = w.add("dot", kF32, {2, 3, 1}, {a, b});
  auto& numbers = *dot.mutable_dot_dimension_numbers();
  numbers.add_lhs_batch_dimensions(2);
  numbers.add_rhs_batch_dimensions(0);
  numbers.add_lhs_contracting_dimensions(0);
  numbers.add_rhs_contracting_dimensions(1);
  // Batch 0 of a: rows (1, 7), (3, 9), (5, 11); batch 1: (2, 8), (4, 10), (6, 12).
  EXPECT_THAT(run_imported(w, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 10, 100, 1000}}),
              ElementsAre(71, 93, 115, 8200, 10400, 12600));
}

TEST(HloImporter, FoldsWithTheComputationAndTheFirstValueThatAreCalled) {
  ModuleWriter w;
  const int64_t most = w.combiner("maximum");
  const int64_t x = w.parameter("x", 0, {2, 3});
  const int64_t first = w.constant({}, {4});
  auto& reduce = w.add("reduce", kF32, {2}, {x, first});
  reduce.add_dimensions(1);
  reduce.add_called_computation_ids(most);
  EXPECT_THAT(run_imported(w, {{1, 2, 3, 7, 8, 9}}), ElementsAre(4, 9));
}

TEST(HloImporter, BroadcastsPadsAndSlicesByTheirDimensionNumbers) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2});
  auto& wide = w.add("broadcast", kF32, {2, 3}, {x});
  wide.add_dimensions(0);
  const int64_t wide_id = wide.id();
  const int64_t zero = w.constant({}, {9});
  auto& pad = w.add("pad", kF32, {3, 2}, {wide_id, zero});
  const int64_t pad_id = pad.id();
  auto* rows = pad.mutable_padding_config()->add_dimensions();
  rows->set_interior_padding(1);
  pad.mutable_padding_config()->add_dimensions()->set_edge_padding_low(-1);
  auto& slice = w.add("slice", kF32, {2, 2}, {pad_id});
  for (const auto& [start, limit, stride] : {std::tuple{0, 3, 2}, {0, 2, 1}}) {
    auto* d = slice.add_slice_dimensions();
    d->set_start(start);
    d->set_limit(limit);
    d->set_stride(stride);
  }
  EXPECT_THAT(run_imported(w, {{5, 6}}), ElementsAre(5, 5, 6, 6));
}

TEST(HloImporter, GathersWindowsAndMovesStartsIntoTheArray) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {3, 4});
  const int64_t starts = w.parameter("starts", 1, {2, 2}, kS32);
  auto& gather = w.add("gather", kF32, {2, 2}, {x, starts});
  auto& numbers = *gather.mutable_gather_dimension_numbers();
  numbers.add_offset_dims(1);
  numbers.add_collapsed_slice_dims(0);
  numbers.add_start_index_map(0);
  numbers.add_start_index_map(1);
  numbers.set_index_vector_dim(1);
  gather.add_gather_slice_sizes(1);
  gather.add_gather_slice_sizes(2);
  // The second window begins at (2, 3), where only one element is left: it moves to (2, 2).
  EXPECT_THAT(run_imported(w, {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {1, 1, 2, 3}}),
              ElementsAre(5, 6, 10, 11));
}

TEST(HloImporter, ScattersRowsByTheComputationAndSkipsThoseOutside) {
  ModuleWriter w;
  const int64_t sum = w.combiner("add");
  const int64_t x = w.parameter("x", 0, {3, 2});
  const int64_t places = w.parameter("places", 1, {3}, kS32);
  const int64_t updates = w.parameter("updates", 2, {3, 2});
  auto& scatter = w.add("scatter", kF32, {3, 2}, {x, places, updates});
  scatter.add_called_computation_ids(sum);
  auto& numbers = *scatter.mutable_scatter_dimension_numbers();
  numbers.add_update_window_dims(1);
  numbers.add_inserted_window_dims(0);
  numbers.add_scatter_dims_to_operand_dims(0);
  numbers.set_index_vector_dim(1);
  EXPECT_THAT(run_imported(w, {{1, 2, 3, 4, 5, 6}, {2, 7, 2}, {10, 20, 30, 40, 50, 60}}),
              ElementsAre(1, 2, 3, 4, 65, 86));
}

TEST(HloImporter, UpdatesASliceWhoseStartIsData) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {5});
  const int64_t update = w.parameter("update", 1, {2});
  const int64_t start = w.parameter("start", 2, {}, kS32);
  w.add("dynamic-update-slice", kF32, {5}, {x, update, start});
  EXPECT_THAT(run_imported(w, {{1, 2, 3, 4, 5}, {8, 9}, {1}}), ElementsAre(1, 8, 9, 4, 5));
  EXPECT_THAT(run_imported(w, {{1, 2, 3, 4, 5}, {8, 9}, {99}}), ElementsAre(1, 2, 3, 8, 9));
}

TEST(HloImporter, KnowsTheFourQuadrantsOfAtan2) {
  ModuleWriter w;
  const int64_t y = w.parameter("y", 0, {5}), x = w.parameter("x", 1, {5});
  w.add("atan2", kF32, {5}, {y, x});
  const std::vector<double> angles = run_imported(w, {{1, 1, -1, -1, 1}, {1, -1, -1, 1, 0}});
  const double eighth = 0.7853981633974483;
  const double wanted[] = {eighth, 3 * eighth, -3 * eighth, -eighth, 2 * eighth};
  ASSERT_EQ(angles.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(angles[i], wanted[i], 1e-6) << i;
}

TEST(HloImporter, UnrollsLoopsThatCountConstants) {
  ModuleWriter w;
  const auto tuple_of = [](file::Instruction& i) {
    i.mutable_shape()->set_element_type(13);
    return i.id();
  };
  const auto element = [&](int64_t state, int64_t number, int32_t type,
                           const ModuleWriter::Sizes& s) {
    auto& i = w.add("get-tuple-element", type, s, {state});
    i.set_tuple_index(number);
    return i.id();
  };
  const int64_t body = w.begin("body");
  int64_t state = tuple_of(w.add("parameter", kF32, {}));
  const int64_t next = w.id("add", kS32, {}, {element(state, 0, kS32, {}), w.whole({}, {1})});
  int64_t x = element(state, 1, kF32, {2});
  x = w.id("add", kF32, {2}, {x, x});
  tuple_of(w.add("tuple", kF32, {}, {next, x}));
  const int64_t condition = w.begin("condition");
  state = tuple_of(w.add("parameter", kF32, {}));
  auto& less = w.add("compare", kPred, {}, {element(state, 0, kS32, {}), w.whole({}, {3})});
  less.set_comparison_direction("LT");
  w.entry();
  const int64_t given = w.parameter("x", 0, {2});
  const int64_t first = tuple_of(w.add("tuple", kF32, {}, {w.whole({}, {0}), given}));
  auto& loop = w.add("while", kF32, {}, {first});
  loop.add_called_computation_ids(body);
  loop.add_called_computation_ids(condition);
  const int64_t last = tuple_of(loop);
  element(last, 1, kF32, {2});
  EXPECT_THAT(run_imported(w, {{1, 5}}), ElementsAre(8, 40));
}

TEST(HloImporter, NamesEveryReasonOfAModuleAtOnce) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2});
  w.add("triangular-solve", kF32, {2}, {x});
  w.add("custom-call", kF32, {2}, {x}).set_custom_call_target("TheirKernel");
  w.add("custom-call", kF32, {2}, {x}).set_custom_call_target("AwsNeuronCustomNativeKernel");
  const int64_t wrong = w.id("add", kF32, {3}, {x, x});  // the module says another shape
  w.add("negate", kF32, {3}, {wrong});
  const auto imported = import_module(w.bytes(), "test");
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->refusals.size(), 4u);
  EXPECT_THAT(imported->refusals[0].text(),
              HasSubstr("(triangular-solve): the opcode is not known"));
  EXPECT_THAT(imported->refusals[1].text(), HasSubstr("\"TheirKernel\" is not known"));
  EXPECT_THAT(imported->refusals[2].text(), HasSubstr("neuron-nki"));
  EXPECT_THAT(imported->refusals[3].text(), HasSubstr("it gives f32 2, and the module says 3"));
}

TEST(HloImporter, NamesInputsAndOutputsInTheOrderOfTheModule) {
  ModuleWriter w;
  const int64_t second = w.parameter("second", 1, {2}), first = w.parameter("first", 0, {2});
  w.add("tuple", kF32, {}, {second, first}).mutable_shape()->set_element_type(13);
  const Imported imported = import(w);
  ASSERT_EQ(imported.graph.inputs.size(), 2u);
  EXPECT_EQ(imported.graph.nodes[static_cast<size_t>(imported.graph.inputs[0])].name, "first");
  EXPECT_EQ(imported.graph.outputs[0].name, "output0");
  EXPECT_EQ(imported.graph.outputs[1].name, "output1");
}

TEST(HloImporter, GivesOutputsTheNamesAndTheMemoryThatTheModuleSays) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2}), y = w.parameter("y", 1, {2});
  w.results({w.id("negate", kF32, {2}, {x}), w.id("add", kF32, {2}, {x, y})}, "first,y_new");
  w.alias(1, 1);
  const Imported imported = import(w);
  ASSERT_EQ(imported.graph.outputs.size(), 2u);
  EXPECT_EQ(imported.graph.outputs[0].name, "first");
  EXPECT_EQ(imported.graph.outputs[1].name, "y_new");
  EXPECT_EQ(imported.graph.outputs[0].donor, graph::kNone);
  EXPECT_EQ(imported.graph.outputs[1].donor, imported.graph.inputs[1]);
}

TEST(HloImporter, ConvolvesWithTheKernelTurnedRoundAndZerosBetween) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {1, 1, 2}), k = w.parameter("k", 1, {1, 1, 3});
  auto& convolution = w.add("convolution", kF32, {1, 1, 4}, {x, k});
  auto& numbers = *convolution.mutable_convolution_dimension_numbers();
  numbers.set_input_feature_dimension(1);
  numbers.set_kernel_input_feature_dimension(1);
  numbers.set_output_feature_dimension(1);
  numbers.add_input_spatial_dimensions(2);
  numbers.add_kernel_spatial_dimensions(2);
  numbers.add_output_spatial_dimensions(2);
  auto& window = *convolution.mutable_window()->add_dimensions();
  window.set_size(3);
  window.set_stride(1);
  window.set_padding_low(2);
  window.set_padding_high(1);
  window.set_base_dilation(2);
  window.set_window_reversal(true);
  // 0 0 1 0 2 0, and 30 20 10 under each three of it.
  EXPECT_THAT(run_imported(w, {{1, 2}, {10, 20, 30}}), ElementsAre(10, 20, 30 + 20, 40));
}

TEST(HloImporter, SortsByAComputationOfTwoNumbers) {
  ModuleWriter w;
  const int64_t larger = w.begin("larger");
  const int64_t a = w.parameter("a", 0, {}), b = w.parameter("b", 1, {});
  w.add("compare", kPred, {}, {a, b}).set_comparison_direction("GT");
  w.entry();
  auto& sort = w.add("sort", kF32, {4, 2}, {w.parameter("x", 0, {4, 2})});
  sort.add_dimensions(0);
  sort.add_called_computation_ids(larger);
  EXPECT_THAT(run_imported(w, {{3, 1, 1, 2, 2, 3, 4, 2}}), ElementsAre(4, 3, 3, 2, 2, 2, 1, 1));
}

TEST(HloImporter, MultipliesNarrowNumbersInTheTypeOfTheResult) {
  ModuleWriter w;
  const int64_t a = w.parameter("a", 0, {1, 2}, kS8), b = w.parameter("b", 1, {2, 1}, kS8);
  auto& dot = w.add("dot", kS32, {1, 1}, {a, b});
  dot.mutable_dot_dimension_numbers()->add_lhs_contracting_dimensions(1);
  dot.mutable_dot_dimension_numbers()->add_rhs_contracting_dimensions(0);
  EXPECT_THAT(run_imported(w, {{100, 100}, {100, 50}}), ElementsAre(15000));
}

TEST(HloImporter, TakesTheBranchOfANumberThatIsData) {
  ModuleWriter w;
  const int64_t twice = w.begin("twice");
  const int64_t x = w.parameter("x", 0, {2});
  w.add("add", kF32, {2}, {x, x});
  const int64_t minus = w.begin("minus");
  w.add("negate", kF32, {2}, {w.parameter("x", 0, {2})});
  const int64_t square = w.begin("square");
  const int64_t y = w.parameter("x", 0, {2});
  w.add("multiply", kF32, {2}, {y, y});
  w.entry();
  const int64_t number = w.parameter("number", 0, {}, kS32), given = w.parameter("given", 1, {2});
  auto& branch = w.add("conditional", kF32, {2}, {number, given, given, given});
  for (const int64_t id : {twice, minus, square}) branch.add_called_computation_ids(id);
  EXPECT_THAT(run_imported(w, {{0}, {3, 5}}), ElementsAre(6, 10));
  EXPECT_THAT(run_imported(w, {{1}, {3, 5}}), ElementsAre(-3, -5));
  // Numbers without a branch take the last one.
  EXPECT_THAT(run_imported(w, {{2}, {3, 5}}), ElementsAre(9, 25));
  EXPECT_THAT(run_imported(w, {{-1}, {3, 5}}), ElementsAre(9, 25));
}

TEST(HloImporter, ExchangesPartsBetweenTheRanksOfGroups) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2, 2});
  auto& exchange = w.add("all-to-all", kF32, {2, 2}, {x});
  exchange.add_dimensions(1);
  for (const auto& [first, second] : {std::pair{0, 2}, {3, 1}}) {
    auto& group = *exchange.add_replica_groups();
    group.add_replica_ids(first);
    group.add_replica_ids(second);
  }
  const Imported imported = import(w);
  ASSERT_EQ(imported.graph.outputs.size(), 1u);
  EXPECT_EQ(graph::ranks_of(imported.graph), 4u);
  std::vector<std::vector<graph::SharedTensor>> inputs;
  for (int rank = 0; rank < 4; ++rank) {
    const double ten = 10.0 * rank;
    inputs.push_back({std::make_shared<const Tensor>(
        Tensor::of_reals(graph::Type::kF32, {2, 2}, {ten, ten + 1, ten + 2, ten + 3}))});
  }
  const auto outputs = graph::evaluate_ranks(imported.graph, inputs);
  // Column 0 of both members for the first of a group, column 1 for the second.
  EXPECT_THAT(outputs[0][0]->reals, ElementsAre(0, 20, 2, 22));
  EXPECT_THAT(outputs[2][0]->reals, ElementsAre(1, 21, 3, 23));
  EXPECT_THAT(outputs[3][0]->reals, ElementsAre(30, 10, 32, 12));
  EXPECT_THAT(outputs[1][0]->reals, ElementsAre(31, 11, 33, 13));
}

TEST(HloImporter, RefusesMemoryOfAnotherShape) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2}), y = w.parameter("y", 1, {3});
  w.results({w.id("negate", kF32, {2}, {x}), w.id("negate", kF32, {3}, {y})});
  w.alias(0, 1);
  const auto imported = import_module(w.bytes(), "test");
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->refusals.size(), 1u);
  EXPECT_THAT(imported->refusals[0].text(), HasSubstr("another type or shape"));
}

TEST(HloImporter, RefusesOneMemoryForTwoOutputs) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2});
  w.results({w.id("negate", kF32, {2}, {x}), w.id("abs", kF32, {2}, {x})});
  w.alias(0, 0);
  w.alias(1, 0);
  const auto imported = import_module(w.bytes(), "test");
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->refusals.size(), 1u);
  EXPECT_THAT(imported->refusals[0].text(), HasSubstr("that another output has"));
}

TEST(HloImporter, LeavesOutOutputsWithoutElements) {
  ModuleWriter w;
  const int64_t x = w.parameter("x", 0, {2});
  auto& empty = w.add("slice", kF32, {0}, {x});
  auto& range = *empty.add_slice_dimensions();
  range.set_start(1);
  range.set_limit(1);
  range.set_stride(1);
  const int64_t nothing = empty.id();
  w.results({nothing, w.id("negate", kF32, {2}, {x})}, "nothing,y");
  const Imported imported = import(w);
  ASSERT_EQ(imported.graph.outputs.size(), 1u);
  EXPECT_EQ(imported.graph.outputs[0].name, "y");
}

TEST(HloImporter, ReplacesRowsWhereTheComputationCopiesTheUpdate) {
  ModuleWriter w;
  const int64_t replace = w.begin("replace");
  w.parameter("a", 0, {});
  const int64_t b = w.parameter("b", 1, {});
  w.add("copy", kF32, {}, {b});
  w.entry();
  const int64_t x = w.parameter("x", 0, {3, 2}), rows = w.parameter("rows", 1, {1, 2});
  const int64_t places = w.whole({1, 1}, {1});
  auto& scatter = w.add("scatter", kF32, {3, 2}, {x, places, rows});
  auto& numbers = *scatter.mutable_scatter_dimension_numbers();
  numbers.add_update_window_dims(1);
  numbers.add_inserted_window_dims(0);
  numbers.add_scatter_dims_to_operand_dims(0);
  numbers.set_index_vector_dim(1);
  scatter.add_called_computation_ids(replace);
  EXPECT_THAT(run_imported(w, {{1, 2, 3, 4, 5, 6}, {8, 9}}), ElementsAre(1, 2, 8, 9, 5, 6));
}

}  // namespace
}  // namespace neuron::hlo
