// SPDX-License-Identifier: Apache-2.0
//
// Whole numbers that stand for real ones by a scale and a zero point.
// Callers: operators on quantised values. Fails: through the call.
#ifndef TOOLS_COMPILER_ONNX_QUANTISATION_H
#define TOOLS_COMPILER_ONNX_QUANTISATION_H

#include "tools/compiler/onnx/call.h"

namespace neuron::onnx {

// x - zero as i32. A zero point of one dimension belongs to dimension `axis` of x; -1: the last but
// one, as rows have them. kNone: no zero point.
Value without_zero(Call& c, Value x, Value zero, int64_t axis);

// round(x / scale) + zero within the range of the type; scale and zero fit x by broadcasting.
Value quantised(Call& c, Value x, Value scale, Value zero, Type type);

}  // namespace neuron::onnx

#endif
