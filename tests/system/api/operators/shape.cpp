// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include "torchneuron/register.h"

static torch::Tensor same(torch::Tensor t) { return torch::empty(t.sizes(), t.dtype()); }
static torch::Tensor same_of_two(torch::Tensor a, torch::Tensor) {
  return torch::empty(a.sizes(), torch::kFloat);
}
static torch::Tensor polynomial(torch::Tensor x, double, int64_t, torch::Scalar) {
  return torch::empty(x.sizes(), torch::kFloat);
}

NEURON_LIBRARY(test_ops, m) {
  m.def("relu", &same, "relu_compute");
  m.def("negate", &same, "negate_compute");
  m.def("add", &same_of_two, "add_compute");
  m.def("polynomial", &polynomial, "polynomial_compute");
  m.def("talk", &same, "talk_compute");
}
