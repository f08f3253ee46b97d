// SPDX-License-Identifier: Apache-2.0
// NEURON_LIBRARY(name, m) { m.def("operator", &shape_function, "kernel_function"); ... }
#ifndef DRIVER_OPERATOR_TORCHNEURON_REGISTER_H
#define DRIVER_OPERATOR_TORCHNEURON_REGISTER_H

#include "driver/operator/registry.h"

#define NEURON_LIBRARY(name, m)                                                         \
  static void neuron_library_##name(::torch::neuron::Library& m);                       \
  static const ::torch::neuron::LibraryRegistration neuron_library_registration_##name( \
      #name, &neuron_library_##name);                                                   \
  static void neuron_library_##name(::torch::neuron::Library& m)

#endif
