// SPDX-License-Identifier: Apache-2.0
//
// The windows that convolutions and pools slide over images: sizes, steps and padding of each
// dimension, from the attributes that they share.
// Callers: operators of convolutions and pools. Thread-safe: values. Fails: through the call.
#ifndef TOOLS_COMPILER_ONNX_SPATIAL_H
#define TOOLS_COMPILER_ONNX_SPATIAL_H

#include <vector>

#include "tools/compiler/onnx/call.h"

namespace neuron::onnx {

struct Spatial {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  std::vector<Builder::Window> windows(const Shape& image) const;
  Shape counts(const Shape& image) const;  // of windows that fit
  bool ceils = false;                      // windows may reach beyond the padding
};

// `image` is the spatial part of the input's shape; `kernel` that of the weights, if there are any.
// False: the attributes do not fit, which is a failure of the call.
bool read_spatial(Call& c, const Shape& image, const std::vector<int64_t>& kernel,
                  Spatial& spatial);

// The dimensions behind the first two; fails if there are none.
Shape image_of(Call& c, Value x);

}  // namespace neuron::onnx

#endif
