// SPDX-License-Identifier: Apache-2.0
// The programs of graphs with every kind of node, of every generation, with and without
// optimisation. That their values are right is what tests/system/onnx and tests/property/compiler
// test on devices; here nothing changes unseen. A change of the lowering, of the builder or of the
// format changes them; then neff.sha256 gets the lines that this test prints, with the reason.
//
// They are the same whichever compiler built this: of two arguments that add nodes or instructions,
// C++ leaves open which comes first, so no call has two. The sanitizers' compiler begins with the
// first argument, the one of the build that ships with the last.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <string>

#include "driver/base/format.h"
#include "driver/base/sha256.h"
#include "tests/bench/compiler/models.h"
#include "tests/property/compiler/random_graph.h"
#include "tests/support/files.h"
#include "tools/compiler/graph/builder.h"
#include "tools/compiler/hlo/importer.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/compiler/onnx/importer.h"

namespace neuron::lowering {
namespace {

using graph::Builder;
using graph::Function;
using graph::Shape;
using graph::Type;

std::map<std::string, std::string> golden() {
  std::ifstream file(test::source("tests/unit/tools/compiler/lowering/neff.sha256"));
  std::map<std::string, std::string> hashes;
  for (std::string hash, name; file >> hash >> name;) hashes[name] = hash;
  return hashes;
}

// Of all programs that the graph becomes; what is refused is its sentence.
std::string hash_of(const Graph& graph) {
  std::vector<uint8_t> all;
  std::string refused;
  const auto add = [&](const Options& options) {
    const auto lowered = lower(graph, options);
    std::string text = lowered ? "" : lowered.error().sentence;
    if (lowered) {
      for (const auto& refusal : lowered->refusals) text += refusal.text();
      refused += text;
      for (const auto& note : lowered->notes) text += note;
      all.insert(all.end(), lowered->neff.begin(), lowered->neff.end());
      text += base::format("{} tasks, {} bytes in {} transfers", lowered->tasks,
                           lowered->moved.bytes, lowered->moved.transfers);
    }
    if (!lowered) refused += text;
    all.insert(all.end(), text.begin(), text.end());
  };
  for (const uint8_t generation : {uint8_t{2}, uint8_t{3}, uint8_t{4}}) {
    add({.generation = generation});
  }
  add({.level = 0});
  add({.products = ProductType::kBf16});
  EXPECT_EQ(refused, "");
  std::string text;
  for (const uint8_t byte : base::Sha256::of(all)) text += base::format("{:02x}", byte);
  return text;
}

class LoweredBytes : public testing::Test {
 protected:
  void expect(const std::string& name, const Graph& graph) {
    EXPECT_FALSE(graph.outputs.empty()) << name;
    EXPECT_EQ(hash_of(graph) + "  " + name, golden_[name] + "  " + name);
  }
  void expect(const std::string& name, Builder& b) {
    EXPECT_TRUE(b.ok()) << name << ": " << b.problem();
    expect(name, b.finish());
  }

 private:
  std::map<std::string, std::string> golden_ = golden();
};

TEST_F(LoweredBytes, OfRandomGraphsAreThoseOfBefore) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    std::vector<uint32_t> numbers(100);
    for (uint32_t& number : numbers) number = static_cast<uint32_t>(random());
    expect(base::format("random-{}", seed), property::random_graph(numbers, 40));
  }
}

TEST_F(LoweredBytes, OfModelsAreThoseOfBefore) {
  for (const bench::Model& model : bench::models()) {
    if (model.large) continue;
    const auto imported = onnx::import_model(model.write().bytes(), model.name, "");
    ASSERT_TRUE(imported) << imported.error().sentence;
    ASSERT_TRUE(imported->refusals.empty()) << imported->refusals[0].text();
    expect(model.name, imported->graph);
  }
}

// What importers make of a file, which fuzzers begin with; not all of them are whole models.
TEST_F(LoweredBytes, OfFilesAreThoseOfBefore) {
  const auto read = [](const std::string& name) {
    const std::string text = test::read_file(test::source("tests/fuzz/corpus/" + name));
    EXPECT_FALSE(text.empty()) << name;
    return std::vector<uint8_t>(text.begin(), text.end());
  };
  for (const char* name : {"collectives", "convolution", "dot", "gather", "reduce", "scatter",
                           "slices", "sort", "top_k"}) {
    const auto imported = hlo::import_module(read(base::format("hlo/{}.pb", name)), name);
    ASSERT_TRUE(imported) << imported.error().sentence;
    ASSERT_TRUE(imported->refusals.empty()) << imported->refusals[0].text();
    expect(base::format("hlo-{}", name), imported->graph);
  }
  for (const char* name : {"conv", "gather", "lstm", "resize", "shapes", "topk"}) {
    const auto imported = onnx::import_model(read(base::format("onnx/{}.onnx", name)), name, "");
    ASSERT_TRUE(imported) << imported.error().sentence;
    ASSERT_TRUE(imported->refusals.empty()) << imported->refusals[0].text();
    expect(base::format("onnx-{}", name), imported->graph);
  }
}

// All that a type has, each of inputs, so that nothing is computed while the graph is built.
TEST_F(LoweredBytes, OfEveryFunctionAreThoseOfBefore) {
  for (const Type type : {Type::kF32, Type::kF16, Type::kBf16, Type::kI8, Type::kI16, Type::kI32,
                          Type::kI64, Type::kU8, Type::kU16, Type::kU32, Type::kU64, Type::kBool}) {
    const std::string of = graph::type_name(type);
    Builder b("functions");
    const Value x = b.input("x", type, {3, 70}), y = b.input("y", type, {3, 70});
    size_t made = 0;
    for (int i = 0; i <= static_cast<int>(Function::kGreaterOrEqual); ++i) {
      const auto function = static_cast<Function>(i);
      if (function == Function::kCast) continue;
      const Value z = function < Function::kAdd ? b.map(function, x) : b.map(function, x, y);
      if (b.ok() && z >= 0) b.output(base::format("y{}", i), z);
      made += b.ok() ? 1 : 0;
      b.clear();
    }
    EXPECT_GT(made, 2u) << of;
    const Value less = b.map(Function::kLess, x, y);
    if (b.ok()) b.output("selected", b.select(less, x, y));
    b.clear();
    expect("functions-" + of, b);

    Builder casts("casts");
    const Value from = casts.input("x", type, {5, 33});
    for (const Type to : {Type::kF32, Type::kF16, Type::kBf16, Type::kI8, Type::kI16, Type::kI32,
                          Type::kI64, Type::kU8, Type::kU16, Type::kU32, Type::kBool}) {
      if (to != type) casts.output(graph::type_name(to), casts.cast(from, to));
    }
    expect("casts-" + of, casts);
  }
}

TEST_F(LoweredBytes, OfReductionsAreThoseOfBefore) {
  for (const Shape& shape : {Shape{130, 70, 3}, Shape{2, 5000}, Shape{20000}, Shape{3, 300, 40}}) {
    for (const Type type : {Type::kF32, Type::kI32}) {
      Builder b("folds");
      const Value x = b.input("x", type, shape);
      const auto rank = static_cast<int64_t>(shape.size());
      for (int64_t axis = 0; axis < rank; ++axis) {
        for (const Function function :
             {Function::kAdd, Function::kMultiply, Function::kMaximum, Function::kMinimum}) {
          b.output(base::format("{}{}", graph::function_name(function), axis),
                   b.reduce(function, x, {axis}, axis % 2 == 0));
        }
      }
      expect(base::format("folds-{}-{}", graph::type_name(type), graph::shape_text(shape)), b);
    }
  }
}

TEST_F(LoweredBytes, OfProductsAreThoseOfBefore) {
  struct Form {
    int64_t batch, rows, depth, columns;
    bool turned;
  };
  for (const Form& f :
       {Form{1, 3, 5, 7, false}, Form{1, 200, 300, 700, false}, Form{3, 40, 130, 20, true},
        Form{1, 1, 1000, 1, false}, Form{12, 64, 32, 64, false}, Form{1, 129, 1, 513, true}}) {
    Builder b("products");
    const Shape left = f.turned ? Shape{f.batch, f.depth, f.rows} : Shape{f.batch, f.rows, f.depth};
    const Value x = b.input("x", Type::kF32, left);
    const Value w = b.input("w", Type::kF32, {f.batch, f.depth, f.columns});
    b.output("y", b.batched_product(x, w, f.turned));
    const Value constant =
        b.constant(graph::Tensor::zeros(Type::kF32, {f.batch, f.depth, f.columns}));
    b.output("z", b.map(Function::kMaximum, b.batched_product(x, constant, f.turned), 0.0));
    expect(base::format("product-{}-{}-{}-{}", f.batch, f.rows, f.depth, f.columns), b);
  }
  Builder whole("whole");
  const Value w = whole.input("w", Type::kI32, {40, 6});
  whole.output("y", whole.product(whole.input("x", Type::kI32, {5, 40}), w));
  expect("product-i32", whole);
}

TEST_F(LoweredBytes, OfConvolutionsAreThoseOfBefore) {
  struct Form {
    const char* name;
    Shape image, weights;
    Builder::Window window;
    int64_t groups;
  };
  for (const Form& f :
       {Form{"plain", {2, 3, 20, 20}, {8, 3, 3, 3}, {3, 1, 20, 1, -1}, 1},
        Form{"strided", {1, 64, 28, 28}, {96, 64, 3, 3}, {3, 1, 14, 2, -1}, 1},
        Form{"point", {1, 160, 14, 14}, {200, 160, 1, 1}, {1, 1, 14, 1, 0}, 1},
        Form{"dilated", {1, 4, 17, 17}, {5, 4, 3, 3}, {3, 2, 13, 1, 0}, 1},
        Form{"groups", {2, 12, 9, 9}, {6, 4, 2, 2}, {2, 1, 8, 1, 0}, 3},
        Form{"depthwise", {1, 96, 14, 14}, {96, 1, 3, 3}, {3, 1, 14, 1, -1}, 96},
        Form{"depthwise-strided", {1, 40, 15, 15}, {40, 1, 5, 5}, {5, 1, 8, 2, -2}, 40}}) {
    Builder b("convolution");
    const Value x = b.input("x", Type::kF32, f.image);
    const Value bias = b.constant(graph::Tensor::zeros(Type::kF32, {1, f.weights[0], 1, 1}));
    const auto weights = [&] { return b.constant(graph::Tensor::zeros(Type::kF32, f.weights)); };
    Value y = b.add(b.convolution(x, weights(), {f.window, f.window}, f.groups), bias);
    y = b.map(Function::kMaximum, y, 0.0);
    b.output("y", y);
    // Once more with weights that are data.
    const Value w = b.input("w", Type::kF32, f.weights);
    b.output("z", b.convolution(x, w, {f.window, f.window}, f.groups));
    expect(std::string("convolution-") + f.name, b);
  }
  Builder spread("spread");
  const Value x = spread.input("x", Type::kF32, {1, 16, 7, 7});
  const Value w = spread.constant(graph::Tensor::zeros(Type::kF32, {8, 16, 4, 4}));
  const Builder::Window window{4, 1, 14, 1, -2};
  spread.output("y", spread.spread_convolution(x, w, {window, window}, {2, 2}, 1));
  expect("convolution-spread", spread);
  for (const bool most : {true, false}) {
    Builder pool("pool");
    const Value image = pool.input("x", Type::kF32, {64, 28, 28});
    const Builder::Window part{3, 1, 14, 2, -1};
    const Value all = pool.windows(image, 1, {part, part}, most ? -1e30 : 0, true);
    pool.output("y", pool.reduce(most ? Function::kMaximum : Function::kAdd,
                                 pool.reshape(all, {64, 9, 196}), {1}, false));
    expect(most ? "pool-maximum" : "pool-sum", pool);
  }
}

TEST_F(LoweredBytes, OfRowsByNumberAreThoseOfBefore) {
  for (const Type type : {Type::kF32, Type::kI32}) {
    Builder b("rows");
    const Value data = b.input("data", type, {300, 40});
    const Value numbers = b.input("numbers", Type::kI64, {150});
    const Value rows = b.input("rows", type, {150, 40});
    b.output("gathered", b.gather(data, numbers));
    b.output("written", b.scatter(data, numbers, rows, std::nullopt));
    for (const Function function : {Function::kAdd, Function::kMaximum, Function::kMultiply}) {
      b.output(graph::function_name(function), b.scatter(data, numbers, rows, function));
    }
    b.output("taken", b.take(data, b.input("few", Type::kI64, {2, 3}), 1));
    b.output("largest", b.best_index(data, 1, true, false));
    b.output("smallest", b.best_index(data, 0, false, true));
    expect(std::string("rows-") + graph::type_name(type), b);
  }
}

TEST_F(LoweredBytes, OfMovesAreThoseOfBefore) {
  Builder b("moves");
  const Value x = b.input("x", Type::kF32, {6, 130, 65});
  for (const std::vector<int64_t>& order :
       {std::vector<int64_t>{2, 1, 0}, {1, 0, 2}, {0, 2, 1}, {2, 0, 1}}) {
    b.output(base::format("turned{}{}{}", order[0], order[1], order[2]), b.transpose(x, order));
  }
  b.output("cut", b.slice(x, {{1, 3, 2}, {129, 65, -2}, {0, 65, 1}}));
  b.output("padded", b.pad(x, {1, 0, -2}, {0, 3, 1}, -1.5));
  b.output("joined", b.concat({x, b.map(Function::kTanh, x)}, 1));
  b.output("picked", b.pick(x, 1, {5, 5, -1, 128, 0}, 7));
  b.output("repeated", b.expand(b.slice_axis(x, 0, {2, 1, 1}), {4, 130, 65}));
  b.output("shaped", b.reshape(b.transpose(x, {0, 2, 1}), {390, 130}));
  expect("moves", b);
}

TEST_F(LoweredBytes, OfExchangesAreThoseOfBefore) {
  using Exchange = graph::Exchange;
  Builder b("exchanges");
  const Value x = b.input("x", Type::kF32, {4, 96});
  const auto exchanged = [&](Exchange::Kind kind, int64_t members, Function function) {
    Exchange exchange;
    exchange.kind = kind;
    exchange.members = members;
    if (kind == Exchange::Kind::kPermute) {
      exchange.pairs = {{0, 1}, {1, 2}, {3, 0}};
    } else {
      exchange.groups = {{0, 1, 2, 3}};
    }
    return b.exchange(x, exchange, function);
  };
  b.output("sum", exchanged(Exchange::Kind::kAllReduce, 1, Function::kAdd));
  b.output("most", exchanged(Exchange::Kind::kAllReduce, 1, Function::kMaximum));
  b.output("all", exchanged(Exchange::Kind::kAllGather, 4, Function::kAdd));
  b.output("part", exchanged(Exchange::Kind::kReduceScatter, 4, Function::kAdd));
  b.output("turned", exchanged(Exchange::Kind::kAllToAll, 4, Function::kAdd));
  b.output("next", exchanged(Exchange::Kind::kPermute, 1, Function::kAdd));
  expect("exchanges", b);
}

}  // namespace
}  // namespace neuron::lowering
