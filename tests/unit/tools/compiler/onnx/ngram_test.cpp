// SPDX-License-Identifier: Apache-2.0
// TfIdfVectorizer against counts that are made position by position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/unit/tools/compiler/onnx/model_writer.h"
#include "tools/compiler/graph/interpreter.h"
#include "tools/compiler/onnx/importer.h"

namespace neuron::onnx {
namespace {

using ::testing::HasSubstr;
using Rows = std::vector<std::vector<int64_t>>;

struct Node {
  std::string mode = "TF";
  int64_t shortest = 1, longest = 1, skipped = 0;
  std::vector<Rows> n_grams;    // of length 1, of length 2, ...
  std::vector<int64_t> places;  // of all of them, in order
  std::vector<float> weights;
};

void text_attribute(file::NodeData& node, const std::string& name, const std::string& value) {
  file::AttributeData* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(3);
  attribute->set_s(value);
}

ModelWriter model_of(const Node& n, const std::vector<int64_t>& shape) {
  ModelWriter writer;
  writer.input("x", shape, 7);
  auto& node = writer.node("TfIdfVectorizer", {"x"}, {"y"});
  std::vector<int64_t> pool, starts;
  for (const Rows& rows : n.n_grams) {
    starts.push_back(static_cast<int64_t>(pool.size()));
    for (const auto& row : rows) pool.insert(pool.end(), row.begin(), row.end());
  }
  text_attribute(node, "mode", n.mode);
  ModelWriter::attribute(node, "min_gram_length", n.shortest);
  ModelWriter::attribute(node, "max_gram_length", n.longest);
  ModelWriter::attribute(node, "max_skip_count", n.skipped);
  ModelWriter::attribute(node, "ngram_counts", starts);
  ModelWriter::attribute(node, "ngram_indexes", n.places);
  ModelWriter::attribute(node, "pool_int64s", pool);
  if (!n.weights.empty()) {
    file::AttributeData* weights = node.add_attribute();
    weights->set_name("weights");
    weights->set_type(6);
    for (const float weight : n.weights) weights->add_floats(weight);
  }
  writer.output("y");
  return writer;
}

std::string refusal_of(const ModelWriter& writer) {
  const auto imported = import_model(writer.bytes(), "test", "");
  if (!imported) return imported.error().sentence;
  return imported->refusals.empty() ? "" : imported->refusals[0].text();
}

std::vector<double> counts_of(const Node& n, const std::vector<int64_t>& row) {
  const auto outputs = *std::max_element(n.places.begin(), n.places.end()) + 1;
  std::vector<double> y(static_cast<size_t>(outputs), 0);
  std::map<int64_t, double> weight;
  size_t number = 0;
  for (size_t i = 0; i < n.n_grams.size(); ++i) {
    const auto length = static_cast<int64_t>(i) + 1;
    for (const auto& wanted : n.n_grams[i]) {
      const int64_t place = n.places[number];
      weight[place] = n.weights.empty() ? 1 : n.weights[number];
      ++number;
      if (length < n.shortest || length > n.longest) continue;
      for (int64_t gap = 0; gap <= (length == 1 ? 0 : n.skipped); ++gap) {
        for (size_t first = 0; first < row.size(); ++first) {
          bool there = true;
          for (size_t j = 0; j < wanted.size() && there; ++j) {
            const size_t at = first + j * static_cast<size_t>(gap + 1);
            there = at < row.size() && row[at] == wanted[j];
          }
          y[static_cast<size_t>(place)] += there ? 1 : 0;
        }
      }
    }
  }
  for (size_t i = 0; i < y.size(); ++i) {
    const double factor =
        weight.count(static_cast<int64_t>(i)) > 0 ? weight[static_cast<int64_t>(i)] : 0;
    if (n.mode == "IDF") y[i] = y[i] > 0 ? factor : 0;
    if (n.mode == "TFIDF") y[i] *= factor;
  }
  return y;
}

TEST(NGrams, OfRandomModelsAreCountedAsOneByOne) {
  std::mt19937 random(5);
  const auto below = [&](uint32_t end) { return static_cast<int64_t>(random() % end); };
  for (int i = 0; i < 300; ++i) {
    Node n;
    n.mode = std::vector<std::string>{"TF", "IDF", "TFIDF"}[random() % 3];
    n.shortest = 1 + below(3);
    n.longest = n.shortest + below(2);
    n.skipped = below(4);
    int64_t listed = 0;
    for (size_t length = 1; length <= 4; ++length) {
      std::set<std::vector<int64_t>> rows;
      for (int64_t k = below(6) + (length == 1 ? 1 : 0); k > 0; --k) {
        std::vector<int64_t> row;
        for (size_t j = 0; j < length; ++j) row.push_back(below(4) - 1);
        rows.insert(row);
      }
      listed += static_cast<int64_t>(rows.size());
      n.n_grams.emplace_back(rows.begin(), rows.end());
    }
    const bool weighs = random() % 2 == 0;
    for (int64_t k = 0; k < listed; ++k) {
      // Weights have a form that all agree on where places are the numbers of the n-grams.
      n.places.push_back(weighs ? k : below(static_cast<uint32_t>(listed) + 3));
      if (weighs) n.weights.push_back(static_cast<float>(below(100)) / 8);
    }
    const int64_t rows = below(3), columns = 1 + below(9);
    std::vector<int64_t> x(static_cast<size_t>(std::max<int64_t>(1, rows) * columns));
    for (int64_t& element : x) element = below(4) - 1;
    const graph::Shape shape = rows == 0 ? graph::Shape{columns} : graph::Shape{rows, columns};

    const auto imported = import_model(model_of(n, shape).bytes(), "test", "");
    ASSERT_TRUE(imported) << imported.error().sentence;
    ASSERT_TRUE(imported->refusals.empty()) << imported->refusals[0].text();
    const auto y = graph::evaluate(imported->graph,
                                   {std::make_shared<const graph::Tensor>(
                                       graph::Tensor::of_integers(graph::Type::kI64, shape, x))});
    std::vector<double> expected;
    for (auto row = x.begin(); row != x.end(); row += columns) {
      const std::vector<double> part = counts_of(n, {row, row + columns});
      expected.insert(expected.end(), part.begin(), part.end());
    }
    EXPECT_EQ(y[0]->reals, expected) << "model " << i << ", mode " << n.mode;
    EXPECT_EQ(y[0]->shape.size(), shape.size());
  }
}

Node two_words() {
  Node n;
  n.n_grams = {{{7}, {9}}};
  n.places = {0, 1};
  return n;
}

TEST(NGrams, AreRefusedWhereTheirWeightsMeanTwoThings) {
  Node n = two_words();
  n.mode = "TFIDF";
  n.weights = {1, 2};
  EXPECT_EQ(refusal_of(model_of(n, {3})), "");
  n.places = {1, 0};
  EXPECT_THAT(refusal_of(model_of(n, {3})), HasSubstr("sort the pool by ngram_indexes"));
  n.weights = {2, 2};
  EXPECT_EQ(refusal_of(model_of(n, {3})), "");
  n.weights = {2};
  EXPECT_THAT(refusal_of(model_of(n, {3})), HasSubstr("1 weights of 2 n-grams"));
}

TEST(NGrams, AreRefusedWhereTheModelContradictsItself) {
  const auto refused = [](auto change) {
    Node n = two_words();
    change(n);
    return refusal_of(model_of(n, {3}));
  };
  EXPECT_THAT(refused([](Node& n) { n.mode = "BM25"; }), HasSubstr("TF, IDF and TFIDF are known"));
  EXPECT_THAT(refused([](Node& n) { n.places = {0}; }), HasSubstr("1 elements for 2 n-grams"));
  EXPECT_THAT(refused([](Node& n) { n.places = {0, -1}; }), HasSubstr("negative"));
  EXPECT_THAT(refused([](Node& n) { n.places = {0, INT64_MAX}; }), HasSubstr("at most"));
  EXPECT_THAT(refused([](Node& n) { n.skipped = -1; }), HasSubstr("-1 skipped"));
  EXPECT_THAT(refused([](Node& n) { n.longest = 0; }), HasSubstr("1 to 0 elements"));
  EXPECT_THAT(refused([](Node& n) { n.n_grams = {{{7}, {7}}}; }), HasSubstr("there twice"));
  EXPECT_THAT(refused([](Node& n) {
                n.n_grams = {{}, {{1, 2}, {3}}};
              }),
              HasSubstr("2-grams from element 0 to 3"));
  EXPECT_THAT(refused([](Node& n) { n.n_grams.clear(); }), HasSubstr("for 0 n-grams"));
  EXPECT_THAT(refusal_of(model_of(two_words(), {3, 2, 2})), HasSubstr("one or two dimensions"));
}

TEST(NGrams, OfStringsAreRefusedAsStrings) {
  ModelWriter writer = model_of(two_words(), {3});
  file::AttributeData* words = writer.model().mutable_graph()->mutable_node(0)->add_attribute();
  words->set_name("pool_strings");
  words->set_type(8);
  words->add_strings("seven");
  const auto imported = import_model(writer.bytes(), "test", "");
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->refusals.size(), 1u);
  EXPECT_EQ(imported->refusals[0].kind, graph::RefusalClass::kStrings);
}

}  // namespace
}  // namespace neuron::onnx
