// SPDX-License-Identifier: Apache-2.0
// The 1024^3 fp32 NEFF, execute to finish, against OpenBLAS sgemm on one thread.
#include <cblas.h>

#include <memory>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {

Ratio matmul_f32() {
  constexpr int n = 1024;
  constexpr double kOperations = 2.0 * n * n * n;
  Ratio ratio{.name = "matmul-f32",
              .peer_name = "OpenBLAS sgemm, one thread",
              .unit = "FLOP/s",
              .goal = 0.6};
  auto ours = std::make_shared<Session>("matmul_f32_1024.neff");
  ratio.error = ours->error();
  auto a = std::make_shared<std::vector<float>>(size_t{n} * n, 0.5f);
  auto b = std::make_shared<std::vector<float>>(size_t{n} * n, 0.25f);
  auto c = std::make_shared<std::vector<float>>(size_t{n} * n);
  openblas_set_num_threads(1);
  ratio.peer_name += std::string(" (") + openblas_get_corename() + ")";
  ratio.ours = [ours] {
    const double start = now_seconds();
    for (int i = 0; i < 3; ++i) {
      if (ours->execute() != NRT_SUCCESS) return -1.0;
    }
    return 3 * kOperations / (now_seconds() - start);
  };
  ratio.peer = [a, b, c] {
    const double start = now_seconds();
    for (int i = 0; i < 3; ++i) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a->data(), n, b->data(),
                  n, 0.0f, c->data(), n);
    }
    return 3 * kOperations / (now_seconds() - start);
  };
  return ratio;
}

}  // namespace neuron::bench
