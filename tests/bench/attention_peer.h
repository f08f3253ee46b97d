// SPDX-License-Identifier: Apache-2.0
// Causal attention of one head in bf16 by oneDNN's products and a softmax over blocks of keys
// (row_peers.h): what the benchmark of attention compares with.
//
// A tile of queries meets the blocks of keys up to its own last position; what lies beyond is
// neither multiplied nor exponentiated. The products are prepared and the keys and values packed
// beforehand. Callers: attention_bench. One thread. Only where row_peers_available(). Fails:
// dnnl::error.
#ifndef TESTS_BENCH_ATTENTION_PEER_H
#define TESTS_BENCH_ATTENTION_PEER_H

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

namespace neuron::bench {

// q and k [size, positions], v [positions, size]; bf16.
struct AttentionInputs {
  size_t positions = 0, size = 0;
  std::vector<uint16_t> q, k, v;
};

class AttentionPeer {
 public:
  // `queries` divides `keys`, which divides the positions.
  struct Blocks {
    size_t queries = 0, keys = 0;
  };
  AttentionPeer(const AttentionInputs& inputs, const Blocks& blocks);
  // y [positions, size] = softmax(q^T k / sqrt(size)) v.
  void run(uint16_t* y);
  const Blocks& blocks() const { return blocks_; }
  // What oneDNN has chosen for the larger products, such as brg:avx512_core_amx_bf16.
  const std::string& implementation() const { return implementation_; }

 private:
  // The products of a tile of queries with so many keys.
  struct Products {
    dnnl::matmul score, weigh, weigh_more;
    dnnl::memory q, scores, weights, sums;
    dnnl::memory::desc packed_k, packed_v;
  };
  // Some keys and their values, from the first of a block on.
  struct Packed {
    dnnl::memory k, v;
  };
  void prepare(size_t count);
  void pack(const AttentionInputs& inputs, size_t first, size_t count);
  // The number of a count of keys, which is a multiple of a tile's queries.
  size_t number_of(size_t count) const { return count / blocks_.queries - 1; }

  size_t positions_, size_;
  Blocks blocks_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Products> products_;           // by number_of
  std::vector<std::vector<Packed>> packed_;  // by block and number_of
  std::vector<uint16_t> q_, weights_;        // q_: [positions, size]
  std::vector<float> scores_, sums_, maxima_, totals_;
  std::string implementation_;
};

}  // namespace neuron::bench

#endif
