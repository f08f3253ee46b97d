// SPDX-License-Identifier: Apache-2.0
// The product of two 1024 x 1024 matrices by oneDNN on one thread, with its weights packed
// beforehand: bf16 x bf16 -> f32, or f32 throughout.
//
// Callers: benchmarks of products. One thread. Owns its matrices. Fails: dnnl::error.
#ifndef TESTS_BENCH_ONEDNN_PRODUCT_H
#define TESTS_BENCH_ONEDNN_PRODUCT_H

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

namespace neuron::bench {

class OneDnnProduct {
 public:
  static constexpr int kSize = 1024;
  static constexpr double kOperations = 2.0 * kSize * kSize * kSize;

  explicit OneDnnProduct(dnnl::memory::data_type type);
  void run();
  // Operations a second of a few runs.
  double rate(int runs);
  // What oneDNN has chosen, such as brg:avx512_core_bf16.
  const std::string& implementation() const { return implementation_; }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::memory left_, right_, result_;
  dnnl::matmul product_;
  std::string implementation_;
};

// The faster of OpenBLAS and oneDNN at a product of f32.
class BestFloatProduct {
 public:
  BestFloatProduct();
  double rate(int runs);
  const std::string& name() const { return name_; }

 private:
  double blas_rate(int runs);
  std::vector<float> a_, b_, c_;
  std::unique_ptr<OneDnnProduct> onednn_;  // null: OpenBLAS is faster
  std::string name_;
};

}  // namespace neuron::bench

#endif
