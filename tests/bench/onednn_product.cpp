// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/onednn_product.h"

#include <cblas.h>

#include <algorithm>
#include <cstdint>

#include "tests/bench/ratio.h"

namespace neuron::bench {
namespace {

// Fills a matrix of either type with the same number.
void fill(dnnl::memory& memory, float value) {
  constexpr size_t kElements = size_t{OneDnnProduct::kSize} * OneDnnProduct::kSize;
  if (memory.get_desc().data_type() == dnnl::memory::data_type::f32) {
    std::fill_n(static_cast<float*>(memory.get_data_handle()), kElements, value);
  } else {
    const uint16_t code = value == 0.5f ? 0x3F00 : 0x3E80;
    std::fill_n(static_cast<uint16_t*>(memory.get_data_handle()), kElements, code);
  }
}

}  // namespace

OneDnnProduct::OneDnnProduct(dnnl::memory::data_type type) {
  using Memory = dnnl::memory;
  const Memory::dims shape{kSize, kSize};
  const Memory::desc plain(shape, type, Memory::format_tag::ab);
  const Memory::desc any(shape, type, Memory::format_tag::any);
  const Memory::desc out(shape, Memory::data_type::f32, Memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(plain, any, out), engine_);
  implementation_ = description.impl_info_str();
  left_ = Memory(plain, engine_);
  result_ = Memory(out, engine_);
  right_ = Memory(description.weights_desc(), engine_);
  Memory unpacked(plain, engine_);
  fill(left_, 0.5f);
  fill(unpacked, 0.25f);
  dnnl::reorder(unpacked, right_).execute(stream_, unpacked, right_);
  stream_.wait();
  product_ = dnnl::matmul(description);
}

void OneDnnProduct::run() {
  product_.execute(stream_,
                   {{DNNL_ARG_SRC, left_}, {DNNL_ARG_WEIGHTS, right_}, {DNNL_ARG_DST, result_}});
  stream_.wait();
}

double OneDnnProduct::rate(int runs) {
  const double start = now_seconds();
  for (int i = 0; i < runs; ++i) run();
  return runs * kOperations / (now_seconds() - start);
}

BestFloatProduct::BestFloatProduct() {
  constexpr size_t kElements = size_t{OneDnnProduct::kSize} * OneDnnProduct::kSize;
  a_.assign(kElements, 0.5f);
  b_.assign(kElements, 0.25f);
  c_.assign(kElements, 0.0f);
  openblas_set_num_threads(1);
  onednn_ = std::make_unique<OneDnnProduct>(dnnl::memory::data_type::f32);
  double blas = 0, onednn = 0;
  for (int i = 0; i < 5; ++i) {
    blas = std::max(blas, blas_rate(2));
    onednn = std::max(onednn, onednn_->rate(2));
  }
  if (blas > onednn) {
    onednn_.reset();
    name_ = std::string("OpenBLAS sgemm (") + openblas_get_corename() + ")";
  } else {
    name_ = "oneDNN f32 (" + onednn_->implementation() + ")";
  }
  name_ += ", one thread";
}

double BestFloatProduct::blas_rate(int runs) {
  constexpr int n = OneDnnProduct::kSize;
  const double start = now_seconds();
  for (int i = 0; i < runs; ++i) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a_.data(), n, b_.data(),
                n, 0.0f, c_.data(), n);
  }
  return runs * OneDnnProduct::kOperations / (now_seconds() - start);
}

double BestFloatProduct::rate(int runs) { return onednn_ ? onednn_->rate(runs) : blas_rate(runs); }

}  // namespace neuron::bench
