// SPDX-License-Identifier: Apache-2.0
// Counts of n-grams: sequences of n whole numbers that are listed in the model.
#include <algorithm>
#include <set>
#include <utility>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

// A node that compares more has an attribute that nobody meant.
constexpr int64_t kLongest = 64, kMostSkipped = 4096;

// The n-grams of one length, of which element j of each is one column.
struct NGrams {
  int64_t length = 0;
  std::vector<std::vector<int64_t>> columns;
  int64_t count() const { return static_cast<int64_t>(columns[0].size()); }
};

// `starts` has the place of the first 1-gram of the pool, of the first 2-gram, and so on.
std::vector<NGrams> n_grams_of(Call& c, const std::vector<int64_t>& pool,
                               const std::vector<int64_t>& starts) {
  std::vector<NGrams> all;
  const auto size = static_cast<int64_t>(pool.size());
  if (static_cast<int64_t>(starts.size()) > kLongest) {
    c.b.fail("n-grams of up to {} elements; {} are supported", starts.size(), kLongest);
  }
  for (size_t i = 0; i < starts.size() && c.b.ok(); ++i) {
    const auto length = static_cast<int64_t>(i) + 1;
    const int64_t first = starts[i], end = i + 1 < starts.size() ? starts[i + 1] : size;
    if (first < 0 || end < first || end > size || (end - first) % length != 0) {
      c.b.fail("{}-grams from element {} to {} of a pool of {}", length, first, end, size);
      break;
    }
    NGrams n_grams{length, std::vector<std::vector<int64_t>>(i + 1)};
    std::set<std::vector<int64_t>> seen;
    for (int64_t at = first; at < end; at += length) {
      const auto begin = pool.begin() + at;
      if (!seen.insert({begin, begin + length}).second) {
        c.b.fail("the {}-gram at element {} of the pool is there twice", length, at);
      }
      for (size_t j = 0; j <= i; ++j) n_grams.columns[j].push_back(begin[static_cast<int64_t>(j)]);
    }
    all.push_back(std::move(n_grams));
  }
  return all;
}

// [rows, n-grams]: how often each is in a row of x, its elements `distance` apart; kNone if rows
// are too short for one.
Value occurrences(Call& c, Value x, const NGrams& n_grams, int64_t distance) {
  const int64_t rows = c.b.size(x, 0), places = c.b.size(x, 1) - (n_grams.length - 1) * distance;
  if (places < 1 || !c.b.ok()) return graph::kNone;
  Value all = graph::kNone;
  for (int64_t j = 0; j < n_grams.length; ++j) {
    const Value element =
        c.b.reshape(c.b.slice_axis(x, 1, {j * distance, places}), {rows, 1, places});
    const Value wanted = c.b.constant(Tensor::of_integers(c.b.type(x), {1, n_grams.count(), 1},
                                                          n_grams.columns[static_cast<size_t>(j)]));
    const Value equal = c.b.map(Function::kEqual, element, wanted);
    all = j == 0 ? equal : c.b.map(Function::kAnd, all, equal);
  }
  return c.b.reduce(Function::kAdd, c.b.cast(all, Type::kF32), {2}, false);
}

// Sums the columns of [rows, n-grams] that have the same place among the outputs.
Value to_places(Call& c, Value counts, const std::vector<int64_t>& places, int64_t outputs) {
  std::vector<std::vector<int64_t>> layers;  // of each output the next n-gram that it counts
  std::vector<size_t> used(static_cast<size_t>(outputs), 0);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<size_t>(places[i]);
    const size_t layer = used[place]++;
    if (layer == layers.size()) layers.emplace_back(static_cast<size_t>(outputs), -1);
    layers[layer][place] = static_cast<int64_t>(i);
  }
  Value sum = graph::kNone;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Value part = c.b.pick(counts, 1, layers[i]);
    sum = i == 0 ? part : c.b.add(sum, part);
  }
  return sum;
}

// The specification gives a weight to each n-gram of the pool, onnxruntime to each output; false,
// and a failure, where these differ.
bool weights_agree(Call& c, const std::vector<int64_t>& places,
                   const std::vector<double>& weights) {
  if (weights.empty()) return true;
  if (weights.size() != places.size()) {
    c.b.fail("{} weights of {} n-grams", weights.size(), places.size());
    return false;
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<size_t>(places[i]);
    if (place < weights.size() && weights[place] == weights[i]) continue;
    c.b.fail(
        "n-gram {} has weight {} by the specification, and that of output {} by onnxruntime; sort "
        "the pool by ngram_indexes",
        i, weights[i], place);
    return false;
  }
  return true;
}

// How the counts of a node are weighed.
struct Weighing {
  std::string mode;
  std::vector<double> weights;  // of each output; none: all 1
};

Value weighed(Call& c, Value counts, int64_t outputs, const Weighing& weighing) {
  if (weighing.mode == "TF") return counts;
  Value factor = c.b.scalar(Type::kF32, 1);
  if (!weighing.weights.empty()) {
    std::vector<double> padded = weighing.weights;
    padded.resize(static_cast<size_t>(outputs), 0);
    factor = c.b.constant(Tensor::of_reals(Type::kF32, {1, outputs}, std::move(padded)));
  }
  if (weighing.mode == "TFIDF") return c.b.multiply(counts, factor);
  const Value zero = c.b.scalar(Type::kF32, 0);
  return c.b.select(c.b.map(Function::kGreater, counts, 0.0), factor, zero);
}

void tf_idf_vectorizer(Call& c) {
  if (c.has_attribute("pool_strings")) {
    c.refuse(graph::RefusalClass::kStrings,
             "n-grams of strings have no form on the device; number the words before");
    return;
  }
  const std::vector<int64_t> places = c.integers("ngram_indexes");
  const int64_t shortest = c.integer("min_gram_length", 1);
  const int64_t longest = c.integer("max_gram_length", 1);
  const int64_t skipped = c.integer("max_skip_count", 0);
  Weighing weighing{c.text("mode", ""), c.reals("weights")};
  if (shortest < 1 || longest < shortest || longest > kLongest || skipped < 0 ||
      skipped > kMostSkipped) {
    c.b.fail(
        "n-grams of {} to {} elements with up to {} skipped; 1 to {} and 0 to {} are supported",
        shortest, longest, skipped, kLongest, kMostSkipped);
    return;
  }
  if (weighing.mode != "TF" && weighing.mode != "IDF" && weighing.mode != "TFIDF") {
    c.b.fail("mode \"{}\"; TF, IDF and TFIDF are known", weighing.mode);
    return;
  }
  const std::vector<NGrams> all =
      n_grams_of(c, c.integers("pool_int64s"), c.integers("ngram_counts"));
  int64_t listed = 0;
  for (const NGrams& n_grams : all) listed += n_grams.count();
  if (!c.b.ok()) return;
  if (listed == 0 || static_cast<int64_t>(places.size()) != listed) {
    c.b.fail("ngram_indexes has {} elements for {} n-grams", places.size(), listed);
    return;
  }
  if (*std::min_element(places.begin(), places.end()) < 0) {
    c.b.fail("ngram_indexes has a negative element");
    return;
  }
  const int64_t last = *std::max_element(places.begin(), places.end());
  if (!c.b.listable(last) || !weights_agree(c, places, weighing.weights)) return;
  const int64_t outputs = last + 1;

  const Shape shape = c.shape(0);
  if (shape.empty() || shape.size() > 2) {
    c.b.fail("x of {}; one or two dimensions are supported", graph::shape_text(shape));
    return;
  }
  const Value x = c.b.reshape(c.in(0), {shape.size() == 2 ? shape[0] : 1, shape.back()});
  const int64_t rows = c.b.size(x, 0);
  std::vector<Value> counts;
  for (const NGrams& n_grams : all) {
    if (n_grams.count() == 0) continue;
    Value sum = graph::kNone;
    const bool counted = n_grams.length >= shortest && n_grams.length <= longest;
    // Nothing can be skipped between the elements of one.
    const int64_t farthest = !counted ? 0 : n_grams.length == 1 ? 1 : skipped + 1;
    for (int64_t distance = 1; distance <= farthest && c.b.ok(); ++distance) {
      const Value found = occurrences(c, x, n_grams, distance);
      if (found == graph::kNone) break;  // farther apart they are not there either
      sum = sum == graph::kNone ? found : c.b.add(sum, found);
    }
    if (sum == graph::kNone) {
      sum = c.b.expand(c.b.scalar(Type::kF32, 0), {rows, n_grams.count()});
    }
    counts.push_back(sum);
  }
  const Value placed = to_places(c, c.b.concat(counts, 1), places, outputs);
  const Value y = weighed(c, placed, outputs, weighing);
  c.out(shape.size() == 2 ? y : c.b.reshape(y, {outputs}));
}

constexpr Operator kNgramOperators[] = {
    {"TfIdfVectorizer", tf_idf_vectorizer},
};

}  // namespace

std::span<const Operator> ngram_operators() { return kNgramOperators; }

}  // namespace neuron::onnx
