// SPDX-License-Identifier: Apache-2.0
// Kernel functions for one core, by each kind of accessor.
#include <stdint.h>
#include <stdio.h>
#include <torch/torch.h>

torch::Tensor relu_compute(const torch::Tensor& t_in) {
  torch::Tensor t_out = torch::zeros(t_in.sizes(), torch::kFloat);
  auto in = t_in.accessor<float, 2>();
  auto out = t_out.accessor<float, 2>();
  for (int64_t i = 0; i < t_in.size(0); ++i) {
    for (int64_t j = 0; j < t_in.size(1); ++j) {
      out[i][j] = in[i][j] > 0.0f ? in[i][j] : 0.0f;
    }
  }
  return t_out;
}

torch::Tensor negate_compute(const torch::Tensor& t_in) {
  size_t num_elem = t_in.numel();
  torch::Tensor t_out = get_dst_tensor();
  constexpr size_t kBuffer = 1024;
  float* buffer = (float*)torch::neuron::tcm_malloc(sizeof(float) * kBuffer);
  assert(buffer != nullptr);
  auto in = t_in.tcm_accessor();
  auto out = t_out.tcm_accessor();
  for (size_t at = 0; at < num_elem; at += kBuffer) {
    size_t count = num_elem - at < kBuffer ? num_elem - at : kBuffer;
    in.tensor_to_tcm<float>(buffer, at, count);
    for (size_t j = 0; j < count; ++j) buffer[j] *= -1;
    out.tcm_to_tensor<float>(buffer, at, count);
  }
  torch::neuron::tcm_free(buffer);
  return t_out;
}

torch::Tensor add_compute(const torch::Tensor& a, const torch::Tensor& b) {
  assert(a.sizes() == b.sizes());
  torch::Tensor t_out = torch::empty(a.sizes(), torch::kFloat);
  auto in_a = a.read_stream_accessor<float>();
  auto in_b = b.read_stream_accessor<float>();
  auto out = t_out.write_stream_accessor<float>();
  for (int i = 0; i < a.numel(); ++i) out.write(in_a.read() + in_b.read());
  out.close();
  return t_out;
}

torch::Tensor polynomial_compute(const torch::Tensor& x, double factor, int64_t offset,
                                 torch::Scalar power) {
  torch::Tensor raised = torch::pow(x, power);
  torch::Tensor scaled = torch::mul(raised, factor);
  return torch::add(scaled, offset);
}

torch::Tensor talk_compute(const torch::Tensor& x) {
  size_t num_elem = x.numel();
  torch::Tensor t_out = torch::zeros({num_elem}, torch::kInt);
  auto in = x.accessor<int32_t, 1>();
  auto out = t_out.accessor<int32_t, 1>();
  for (size_t i = 0; i < num_elem; ++i) {
    out[i] = in[i] + 1;
    printf("element %d becomes %d\n", (int)i, out[i]);
  }
  return t_out;
}
