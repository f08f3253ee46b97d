// SPDX-License-Identifier: Apache-2.0
// A kernel function for all cores: each takes its part of the elements and marks it with its
// number.
#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

torch::Tensor parts_compute(const torch::Tensor& t_in) {
  torch::Tensor t_out = get_dst_tensor();
  uint32_t cpu = get_cpu_id();
  size_t part = t_in.numel() / get_cpu_count();
  int32_t* buffer = (int32_t*)torch::neuron::tcm_malloc(part * sizeof(int32_t));
  if (buffer == nullptr) return t_out;
  t_in.tcm_accessor().tensor_to_tcm<int32_t>(buffer, part * cpu, part);
  for (size_t i = 0; i < part; ++i) buffer[i] = buffer[i] * 10 + (int32_t)cpu;
  auto out = t_out.tcm_accessor();
  out.tcm_to_tensor<int32_t>(buffer, part * cpu, part);
  return t_out;
}

// Forbidden here.
torch::Tensor element_compute(const torch::Tensor& t_in) {
  torch::Tensor t_out = get_dst_tensor();
  auto out = t_out.accessor<int32_t, 1>();
  out[0] = (int32_t)t_in.numel();
  return t_out;
}
