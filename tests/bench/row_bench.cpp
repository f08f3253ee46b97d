// SPDX-License-Identifier: Apache-2.0
// Softmax, layer norm and GELU of a 4096 x 4096 bf16 matrix: the NEFF, execute to finish, against
// the same written with AVX-512 and libmvec, on one thread.
#include <memory>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/bench/row_peers.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

constexpr size_t kSize = 4096;

template <class Peer>
Ratio rows(const char* name, const char* neff, Peer peer) {
  Ratio ratio{.name = name,
              .peer_name = "AVX-512 and libmvec, one thread",
              .unit = "elements/s",
              .goal = 0.5,
              .rounds = 7};
  if (!row_peers_available()) {
    ratio.error = "the peer needs AVX-512, which this processor has not";
    return ratio;
  }
  auto ours = std::make_shared<Session>(neff);
  ratio.error = ours->error();
  auto in = std::make_shared<std::vector<uint16_t>>(bf16_numbers(kSize * kSize));
  auto out = std::make_shared<std::vector<uint16_t>>(kSize * kSize);
  ratio.ours = [ours] {
    const double start = now_seconds();
    if (ours->execute() != NRT_SUCCESS) return -1.0;
    return kSize * kSize / (now_seconds() - start);
  };
  ratio.peer = [in, out, peer] {
    const double start = now_seconds();
    peer(in->data(), out->data());
    return kSize * kSize / (now_seconds() - start);
  };
  return ratio;
}

}  // namespace

Ratio softmax() {
  return rows("softmax", "softmax_bf16_4096.neff",
              [](const uint16_t* in, uint16_t* out) { softmax_rows(in, out, kSize, kSize); });
}

Ratio layernorm() {
  auto gamma = std::make_shared<std::vector<float>>(kSize, 1.25f);
  auto beta = std::make_shared<std::vector<float>>(kSize, -0.5f);
  return rows("layernorm", "layer_norm_bf16_4096.neff",
              [gamma, beta](const uint16_t* in, uint16_t* out) {
                layernorm_rows(in, gamma->data(), beta->data(), out, kSize, kSize);
              });
}

Ratio gelu() {
  return rows("gelu", "gelu_bf16_4096.neff",
              [](const uint16_t* in, uint16_t* out) { gelu_rows(in, out, kSize, kSize); });
}

}  // namespace neuron::bench
