// SPDX-License-Identifier: Apache-2.0
// The blocked 1024^3 bf16 NEFF, execute to finish, against oneDNN's bf16 x bf16 -> f32 product on
// one thread with its weights packed beforehand. oneDNN takes AMX where the processor has it.
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

struct Product {
  static constexpr int kSize = 1024;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<uint16_t> a, b;
  std::vector<float> c;
  dnnl::memory left, right, result;
  dnnl::matmul product;
  std::string implementation;

  Product() : a(kSize * kSize, 0x3F00), b(kSize * kSize, 0x3E80), c(kSize * kSize) {
    using Memory = dnnl::memory;
    const Memory::dims shape{kSize, kSize};
    const Memory::desc plain(shape, Memory::data_type::bf16, Memory::format_tag::ab);
    const Memory::desc any(shape, Memory::data_type::bf16, Memory::format_tag::any);
    const Memory::desc out(shape, Memory::data_type::f32, Memory::format_tag::ab);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(plain, any, out), engine);
    implementation = description.impl_info_str();
    left = Memory(plain, engine, a.data());
    result = Memory(out, engine, c.data());
    right = Memory(description.weights_desc(), engine);
    Memory unpacked(plain, engine, b.data());
    dnnl::reorder(unpacked, right).execute(stream, unpacked, right);
    stream.wait();
    product = dnnl::matmul(description);
  }

  void run() {
    product.execute(stream,
                    {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, result}});
    stream.wait();
  }
};

}  // namespace

Ratio matmul_bf16() {
  constexpr double kOperations = 2.0 * Product::kSize * Product::kSize * Product::kSize;
  constexpr int kRuns = 4;
  Ratio ratio{.name = "matmul-bf16",
              .peer_name = "oneDNN bf16 -> f32, one thread",
              .unit = "FLOP/s",
              .goal = 0.5};
  auto ours = std::make_shared<Session>("matmul_bf16_1024.neff");
  ratio.error = ours->error();
  std::shared_ptr<Product> peer;
  try {
    peer = std::make_shared<Product>();
  } catch (const dnnl::error& error) {
    ratio.error = std::string("oneDNN: ") + error.what();
    return ratio;
  }
  ratio.peer_name += " (" + peer->implementation + ")";
  ratio.ours = [ours] {
    const double start = now_seconds();
    for (int i = 0; i < kRuns; ++i) {
      if (ours->execute() != NRT_SUCCESS) return -1.0;
    }
    return kRuns * kOperations / (now_seconds() - start);
  };
  ratio.peer = [peer] {
    const double start = now_seconds();
    for (int i = 0; i < kRuns; ++i) peer->run();
    return kRuns * kOperations / (now_seconds() - start);
  };
  return ratio;
}

}  // namespace neuron::bench
