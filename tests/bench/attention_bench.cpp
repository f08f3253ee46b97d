// SPDX-License-Identifier: Apache-2.0
// Causal attention of one head, 4096 positions of 128 in bf16: the kernel, execute to finish,
// against oneDNN's products with a softmax in blocks, on one thread. Both answers are compared in
// each round.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/attention_peer.h"
#include "tests/bench/ratio.h"
#include "tests/bench/row_peers.h"
#include "tests/bench/session.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::bench {
namespace {

constexpr size_t kPositions = 4096, kSize = 128;
// Two products of each query with the keys up to its own position; those that are hidden by a mask
// do not count, though both sides compute some.
constexpr double kOperations = 4.0 * kSize * (kPositions * (kPositions + 1) / 2.0);

float value_of(uint16_t code) { return std::bit_cast<float>(uint32_t{code} << 16); }

// v in the order of the packed form: positions p, p + 128 ... behind each other.
std::vector<uint16_t> packed(const std::vector<uint16_t>& v) {
  std::vector<uint16_t> rows;
  for (size_t p = 0; p < NEURON_PARTITIONS; ++p) {
    for (size_t row = p; row < kPositions; row += NEURON_PARTITIONS) {
      const auto first = v.begin() + static_cast<ptrdiff_t>(row * kSize);
      rows.insert(rows.end(), first, first + kSize);
    }
  }
  return rows;
}

// q and k are equal, so that a query attends to its own position most and late rows are not all
// means of noise, near 0.
AttentionInputs inputs() {
  const std::vector<uint16_t> numbers = bf16_numbers(2 * kPositions * kSize);
  const auto middle = numbers.begin() + kPositions * kSize;
  const std::vector<uint16_t> q(numbers.begin(), middle);
  return {kPositions, kSize, q, q, {middle, numbers.end()}};
}

// The faster of some sizes of blocks.
std::shared_ptr<AttentionPeer> best_peer(const AttentionInputs& in) {
  constexpr AttentionPeer::Blocks kBlocks[] = {{128, 256}, {128, 512}, {128, 1024},
                                               {256, 256}, {256, 512}, {256, 1024}};
  std::shared_ptr<AttentionPeer> best;
  double least = 0;
  std::vector<uint16_t> y(kPositions * kSize);
  for (const AttentionPeer::Blocks& blocks : kBlocks) {
    auto peer = std::make_shared<AttentionPeer>(in, blocks);
    peer->run(y.data());
    for (int i = 0; i < 5; ++i) {
      const double start = now_seconds();
      peer->run(y.data());
      const double seconds = now_seconds() - start;
      if (best && seconds >= least) continue;
      least = seconds;
      best = peer;
    }
  }
  return best;
}

// Two correct answers, each a mean of v by weights, differ by at most this: a weight and a result
// are each rounded to bf16, which is 2^-9 of them at most, once on either side. A fiftieth more is
// for the roundings of f32. The mean of |v| by the same weights comes from the peer.
std::vector<float> bounds(AttentionInputs in, const AttentionPeer::Blocks& blocks,
                          const std::vector<uint16_t>& y) {
  for (uint16_t& code : in.v) code &= 0x7FFF;
  std::vector<uint16_t> magnitudes(y.size());
  AttentionPeer(in, blocks).run(magnitudes.data());
  std::vector<float> all;
  for (size_t i = 0; i < y.size(); ++i) {
    all.push_back(1.02F * 0x1p-8F * (value_of(magnitudes[i]) + std::fabs(value_of(y[i]))));
  }
  return all;
}

struct Sides {
  Sides(const std::vector<uint8_t>& neff, const AttentionInputs& in)
      : session({reinterpret_cast<const char*>(neff.data()), neff.size()}, "attention",
                Session::Inputs::kZeros),
        peer(best_peer(in)),
        ours(kPositions * kSize),
        theirs(ours.size()) {
    peer->run(theirs.data());
    allowed = bounds(in, peer->blocks(), theirs);
  }
  // Whether the last answers of both sides agree.
  bool agree() {
    const size_t bytes = ours.size() * sizeof(uint16_t);
    if (nrt_tensor_read(session.outputs()[0], ours.data(), 0, bytes) != NRT_SUCCESS) return false;
    for (size_t i = 0; i < ours.size(); ++i) {
      // Not a number fails, too.
      if (std::fabs(value_of(ours[i]) - value_of(theirs[i])) <= allowed[i]) continue;
      std::fprintf(stderr, "attention: y[%zu] is %g, the peer's is %g; they may differ by %g\n", i,
                   value_of(ours[i]), value_of(theirs[i]), allowed[i]);
      return false;
    }
    return true;
  }

  Session session;
  std::shared_ptr<AttentionPeer> peer;
  std::vector<uint16_t> ours, theirs;
  std::vector<float> allowed;
};

// Writes the inputs; a sentence if that fails.
std::string write(const Session& session, const AttentionInputs& in) {
  if (!session.error().empty()) return session.error();
  const std::vector<uint16_t> v = packed(in.v);
  const std::vector<uint16_t>* values[] = {&in.q, &in.k, &v};
  for (size_t i = 0; i < std::size(values); ++i) {
    if (nrt_tensor_write(session.inputs().at(i), values[i]->data(), 0,
                         values[i]->size() * sizeof(uint16_t)) != NRT_SUCCESS) {
      return "an input of attention cannot be written";
    }
  }
  return {};
}

}  // namespace

Ratio attention() {
  Ratio ratio{.name = "attention", .unit = "FLOP/s", .goal = 0.5};
  if (!row_peers_available()) {
    ratio.error = "the peer needs AVX-512, which this processor has not";
    return ratio;
  }
  const auto neff = kernels::attention(
      "attention", NEURON_DTYPE_BF16,
      {.heads = 1, .sequence = kPositions, .head_size = kSize, .causal = true, .packed = true});
  if (!neff) {
    ratio.error = neff.error().sentence;
    return ratio;
  }
  try {
    const AttentionInputs in = inputs();
    const auto sides = std::make_shared<Sides>(*neff, in);
    ratio.error = write(sides->session, in);
    const auto [queries, keys] = sides->peer->blocks();
    ratio.peer_name = "oneDNN bf16 (" + sides->peer->implementation() +
                      "), softmax by AVX-512 and libmvec, " + std::to_string(queries) +
                      " queries by " + std::to_string(keys) + " keys, one thread";
    ratio.ours = [sides] {
      const double start = now_seconds();
      if (sides->session.execute() != NRT_SUCCESS) return -1.0;
      return kOperations / (now_seconds() - start);
    };
    ratio.peer = [sides] {
      const double start = now_seconds();
      sides->peer->run(sides->theirs.data());
      const double rate = kOperations / (now_seconds() - start);
      return sides->agree() ? rate : -1.0;
    };
  } catch (const dnnl::error& error) {
    ratio.error = std::string("oneDNN: ") + error.what();
  }
  return ratio;
}

}  // namespace neuron::bench
