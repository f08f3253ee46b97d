// SPDX-License-Identifier: Apache-2.0
// The 1024^3 NEFFs of fp32 and bf16, execute to finish, against OpenBLAS and oneDNN on one thread.
#include <memory>
#include <string>

#include "tests/bench/onednn_product.h"
#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

constexpr int kRuns = 3;

Ratio product(const char* name, const char* neff, double goal) {
  Ratio ratio{.name = name, .unit = "FLOP/s", .goal = goal};
  auto ours = std::make_shared<Session>(neff);
  ratio.error = ours->error();
  ratio.ours = [ours] {
    const double start = now_seconds();
    for (int i = 0; i < kRuns; ++i) {
      if (ours->execute() != NRT_SUCCESS) return -1.0;
    }
    return kRuns * OneDnnProduct::kOperations / (now_seconds() - start);
  };
  return ratio;
}

template <class Peer>
void against(Ratio& ratio, const std::shared_ptr<Peer>& peer, const std::string& name) {
  ratio.peer_name = name;
  ratio.peer = [peer] { return peer->rate(kRuns); };
}

}  // namespace

std::vector<Ratio> matmul_f32() {
  Ratio ratio = product("matmul-f32", "matmul_f32_1024.neff", 0.75);
  try {
    const auto peer = std::make_shared<BestFloatProduct>();
    against(ratio, peer, peer->name());
  } catch (const dnnl::error& error) {
    ratio.error = std::string("oneDNN: ") + error.what();
  }
  return {ratio};
}

// With AMX against oneDNN's product on AMX. Without it against the best product of f32, and, with
// no goal, against oneDNN's product of bf16, which is free to sum in any order.
std::vector<Ratio> matmul_bf16() {
  Ratio ratio = product("matmul-bf16", "matmul_bf16_1024.neff", 0.6);
  try {
    const auto peer = std::make_shared<OneDnnProduct>(dnnl::memory::data_type::bf16);
    const std::string name = "oneDNN bf16 -> f32 (" + peer->implementation() + "), one thread";
    against(ratio, peer, name);
    if (peer->implementation().find("amx") != std::string::npos) return {ratio};
    Ratio beside = ratio;
    beside.name = "matmul-bf16-onednn";
    beside.goal = 0;
    ratio.goal = 0.9;
    const auto floats = std::make_shared<BestFloatProduct>();
    against(ratio, floats, floats->name());
    return {ratio, beside};
  } catch (const dnnl::error& error) {
    ratio.error = std::string("oneDNN: ") + error.what();
    return {ratio};
  }
}

}  // namespace neuron::bench
