// SPDX-License-Identifier: Apache-2.0
// What a custom operator's source includes: the tensor library of GpSimd, as AWS documents it
// (driver/operator/README.md lists the names and where they are documented).
#ifndef DRIVER_OPERATOR_TORCH_TORCH_H
#define DRIVER_OPERATOR_TORCH_TORCH_H

#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "driver/operator/functions.h"
#include "driver/operator/neuron/neuron-utils.hpp"
#include "driver/operator/tensor.h"

namespace c10 = torch;
namespace at = torch;

#endif
