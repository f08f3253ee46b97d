// SPDX-License-Identifier: Apache-2.0
// Matrices whose rows become columns in HBM, and copies of more single elements than a transfer has
// descriptors for: the elements are where this test computes that they are, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/system/onnx/device_test.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/compiler/onnx/importer.h"
#include "tools/neuron-compile/check/device_run.h"

namespace neuron::compile {
namespace {

using onnx::ModelWriter;
using Sizes = std::vector<int64_t>;

class Transposes : public DeviceTest {
 protected:
  // The only output for this input, at this level; its model time in `us`.
  static graph::Tensor run(const ModelWriter& writer, const graph::Tensor& input, int level,
                           double* us = nullptr) {
    auto imported = onnx::import_model(writer.bytes(), "model", ".", {});
    if (!imported) throw imported.error();
    auto lowered = lowering::lower(imported->graph, {.level = level});
    if (!lowered) throw lowered.error();
    auto result = run_on_device(lowered->neff, imported->graph,
                                {std::make_shared<const graph::Tensor>(input)}, us != nullptr);
    if (!result) throw result.error();
    if (us != nullptr) *us = result->device_us;
    return *result->outputs.at(0);
  }

  static ModelWriter transpose(const Sizes& shape, const Sizes& order, int32_t type) {
    ModelWriter writer;
    writer.input("x", shape, type);
    auto& node = writer.node("Transpose", {"x"}, {"y"});
    ModelWriter::attribute(node, "perm", order);
    writer.output("y");
    return writer;
  }

  // Where element `at` of the transposed array was.
  static size_t origin(size_t at, const Sizes& shape, const Sizes& order) {
    Sizes steps(shape.size(), 1);
    for (size_t i = shape.size() - 1; i-- > 0;) steps[i] = steps[i + 1] * shape[i + 1];
    size_t from = 0;
    for (size_t i = shape.size(); i-- > 0;) {
      const auto axis = static_cast<size_t>(order[i]);
      from += at % static_cast<size_t>(shape[axis]) * static_cast<size_t>(steps[axis]);
      at /= static_cast<size_t>(shape[axis]);
    }
    return from;
  }
};

TEST_F(Transposes, PutEveryElementWhereItBelongs) {
  const struct {
    Sizes shape, order;
  } cases[] = {{{1024, 1030}, {1, 0}},  // more elements than a transfer has descriptors
               {{129, 515}, {1, 0}},   {{7, 65, 131}, {0, 2, 1}},     {{33, 5, 130}, {2, 1, 0}},
               {{9, 2000}, {1, 0}},    {{5, 3, 40, 37}, {3, 1, 2, 0}}};
  for (const auto& test : cases) {
    for (const bool whole : {false, true}) {
      const auto type = whole ? graph::Type::kI32 : graph::Type::kF32;
      graph::Tensor input = graph::Tensor::zeros(type, test.shape);
      const auto count = static_cast<size_t>(input.elements());
      for (size_t i = 0; i < count; ++i) {
        // Every element is another one, and integers have all their 32 bits.
        if (whole) {
          input.integers[i] = static_cast<int32_t>(static_cast<uint32_t>(i) * 2654435761u);
        } else {
          input.reals[i] = static_cast<double>(i) - 1000;
        }
      }
      if (!whole) {
        input.reals[1] = std::numeric_limits<double>::infinity();
        input.reals[2] = std::ldexp(1, -149);
        input.reals[3] = -0.0;
      }
      for (const int level : {0, 2}) {
        const graph::Tensor found =
            run(transpose(test.shape, test.order, whole ? 6 : 1), input, level);
        ASSERT_EQ(static_cast<size_t>(found.elements()), count);
        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i) {
          const size_t from = origin(i, test.shape, test.order);
          const bool same =
              whole ? found.integers[i] == input.integers[from]
                    : found.reals[i] == input.reals[from] &&
                          std::signbit(found.reals[i]) == std::signbit(input.reals[from]);
          wrong += same ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0u) << "of " << count << ", -O" << level
                             << (whole ? ", integers" : ", floats");
      }
    }
  }
}

TEST_F(Transposes, TakeAsLongAsTransfersOfWholeRowsDo) {
  const graph::Tensor input = graph::Tensor::zeros(graph::Type::kF32, {512, 512});
  double us = 0;
  run(transpose({512, 512}, {1, 0}, 1), input, 2, &us);
  // 2 MiB at 400 GB/s are 5 us; one by one the elements took 1,346.
  EXPECT_LE(us, 16);
}

TEST_F(Transposes, EverySecondElementOfManyIsMovedByAsManyTransfersAsThatTakes) {
  ModelWriter writer;
  writer.input("x", {1100, 2000});
  writer.integers("first", {0});
  writer.integers("end", {2000});
  writer.integers("axis", {1});
  writer.integers("step", {2});
  writer.node("Slice", {"x", "first", "end", "axis", "step"}, {"y"});
  writer.output("y");
  graph::Tensor input = graph::Tensor::zeros(graph::Type::kF32, {1100, 2000});
  for (size_t i = 0; i < input.reals.size(); ++i) input.reals[i] = static_cast<double>(i);
  const graph::Tensor found = run(writer, input, 2);
  ASSERT_EQ(found.reals.size(), 1'100'000u);
  size_t wrong = 0;
  for (size_t i = 0; i < found.reals.size(); ++i) {
    wrong += found.reals[i] == static_cast<double>(2 * i) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0u);
}

// What failed first: the right operand of a Gemm, turned.
TEST_F(Transposes, AProductWithATurnedOperandOfAMillionElementsIsCompiled) {
  constexpr int64_t kRows = 3, kDepth = 1024, kColumns = 1025;
  ModelWriter writer;
  writer.input("x", {kColumns, kDepth});
  std::vector<float> left(static_cast<size_t>(kRows * kDepth));
  for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i * 29 % 17) - 8;
  writer.constant("a", {kRows, kDepth}, left);
  ModelWriter::attribute(writer.node("Gemm", {"a", "x"}, {"y"}), "transB", 1);
  writer.output("y");
  graph::Tensor input = graph::Tensor::zeros(graph::Type::kF32, {kColumns, kDepth});
  for (size_t i = 0; i < input.reals.size(); ++i) {
    input.reals[i] = static_cast<double>(i * 37 % 53) - 26;
  }
  const graph::Tensor found = run(writer, input, 2);
  ASSERT_EQ(found.reals.size(), static_cast<size_t>(kRows * kColumns));
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      double sum = 0;  // whole numbers: exact in f32 as well
      for (int64_t k = 0; k < kDepth; ++k) {
        sum += static_cast<double>(left[static_cast<size_t>(row * kDepth + k)]) *
               input.reals[static_cast<size_t>(column * kDepth + k)];
      }
      ASSERT_EQ(found.reals[static_cast<size_t>(row * kColumns + column)], sum);
    }
  }
}

}  // namespace
}  // namespace neuron::compile
