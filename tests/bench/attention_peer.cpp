// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/attention_peer.h"

#include <algorithm>
#include <cmath>

#include "tests/bench/row_peers.h"

namespace neuron::bench {
namespace {

using Memory = dnnl::memory;
constexpr Memory::data_type kBf16 = Memory::data_type::bf16;
constexpr Memory::data_type kF32 = Memory::data_type::f32;

Memory::desc plain(size_t rows, size_t columns, Memory::data_type type) {
  const Memory::dims shape{static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
  return {shape, type, Memory::format_tag::ab};
}
Memory::desc any(size_t rows, size_t columns) {
  const Memory::dims shape{static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
  return {shape, kBf16, Memory::format_tag::any};
}

}  // namespace

AttentionPeer::AttentionPeer(const AttentionInputs& inputs, const Blocks& blocks)
    : positions_(inputs.positions),
      size_(inputs.size),
      blocks_(blocks),
      q_(positions_ * size_),
      weights_(blocks.queries * blocks.keys),
      scores_(blocks.queries * blocks.keys),
      sums_(blocks.queries * size_),
      maxima_(blocks.queries),
      totals_(blocks.queries) {
  for (size_t row = 0; row < positions_; ++row) {
    for (size_t c = 0; c < size_; ++c) q_[row * size_ + c] = inputs.q[c * positions_ + row];
  }
  for (size_t count = blocks_.queries; count <= blocks_.keys; count += blocks_.queries) {
    prepare(count);
  }
  packed_.resize(positions_ / blocks_.keys);
  for (size_t block = 0; block < packed_.size(); ++block) {
    for (size_t count = blocks_.queries; count <= blocks_.keys; count += blocks_.queries) {
      pack(inputs, block * blocks_.keys, count);
    }
  }
}

void AttentionPeer::prepare(size_t count) {
  using Product = dnnl::matmul;
  Products made;
  const Memory::desc q = plain(blocks_.queries, size_, kBf16);
  const Memory::desc scores = plain(blocks_.queries, count, kF32);
  const Memory::desc weights = plain(blocks_.queries, count, kBf16);
  const Memory::desc sums = plain(blocks_.queries, size_, kF32);
  const Product::primitive_desc score(Product::desc(q, any(size_, count), scores), engine_);
  const Product::primitive_desc weigh(Product::desc(weights, any(count, size_), sums), engine_);
  made.packed_k = score.weights_desc();
  made.packed_v = weigh.weights_desc();
  dnnl::post_ops add;
  add.append_sum(1.0F);
  dnnl::primitive_attr adding;
  adding.set_post_ops(add);
  const Product::primitive_desc more(Product::desc(weights, made.packed_v, sums), adding, engine_);
  made.score = Product(score);
  made.weigh = Product(weigh);
  made.weigh_more = Product(more);
  made.q = Memory(q, engine_, q_.data());
  made.scores = Memory(scores, engine_, scores_.data());
  made.weights = Memory(weights, engine_, weights_.data());
  made.sums = Memory(sums, engine_, sums_.data());
  implementation_ = score.impl_info_str();
  products_.push_back(made);
}

void AttentionPeer::pack(const AttentionInputs& inputs, size_t first, size_t count) {
  const Products& products = products_[number_of(count)];
  const auto packed = [&](const Memory::desc& from, const uint16_t* values,
                          const Memory::desc& to) {
    Memory source(from, engine_, const_cast<uint16_t*>(values));
    Memory made(to, engine_);
    dnnl::reorder(source, made).execute(stream_, source, made);
    stream_.wait();
    return made;
  };
  const Memory::dims shape{static_cast<int64_t>(size_), static_cast<int64_t>(count)};
  const Memory::desc columns(shape, kBf16, {static_cast<int64_t>(positions_), 1});
  packed_[first / blocks_.keys].push_back(
      {packed(columns, inputs.k.data() + first, products.packed_k),
       packed(plain(count, size_, kBf16), inputs.v.data() + first * size_, products.packed_v)});
}

void AttentionPeer::run(uint16_t* y) {
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(size_)));
  const RunningRows running{maxima_.data(), totals_.data(), sums_.data(), size_};
  for (size_t row = 0; row < positions_; row += blocks_.queries) {
    const size_t end = row + blocks_.queries;
    for (size_t first = 0; first < end; first += blocks_.keys) {
      const size_t count = std::min(blocks_.keys, end - first);
      Products& products = products_[number_of(count)];
      const Packed& packed = packed_[first / blocks_.keys][number_of(count)];
      products.q.set_data_handle(q_.data() + row * size_);
      products.score.execute(stream_, {{DNNL_ARG_SRC, products.q},
                                       {DNNL_ARG_WEIGHTS, packed.k},
                                       {DNNL_ARG_DST, products.scores}});
      stream_.wait();
      const ScoreBlock block{scores_.data(), blocks_.queries, count, row + 1 - first, scale};
      softmax_block(block, first == 0, running, weights_.data());
      (first == 0 ? products.weigh : products.weigh_more)
          .execute(stream_, {{DNNL_ARG_SRC, products.weights},
                             {DNNL_ARG_WEIGHTS, packed.v},
                             {DNNL_ARG_DST, products.sums}});
      stream_.wait();
    }
    finish_rows(running, blocks_.queries, y + row * size_);
  }
}

}  // namespace neuron::bench
