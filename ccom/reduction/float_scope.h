// SPDX-License-Identifier: Apache-2.0
// The floating-point environment of a reduction: round to nearest even, exceptions masked,
// subnormals kept, whatever the caller's settings are.
//
// It costs a nanosecond if the environment is right already. One object per call, on the stack. The
// arithmetic must be in a function that is not inlined, since the compiler does not know that it
// depends on MXCSR. Cannot fail.
#ifndef CCOM_REDUCTION_FLOAT_SCOPE_H
#define CCOM_REDUCTION_FLOAT_SCOPE_H

#include <xmmintrin.h>

namespace neuron::ccom {

class FloatScope {
 public:
  FloatScope() : saved_(_mm_getcsr()) {
    if ((saved_ & kControl) != kMasked) _mm_setcsr(kMasked);
  }
  ~FloatScope() {
    if ((saved_ & kControl) != kMasked) _mm_setcsr(saved_);
  }
  FloatScope(const FloatScope&) = delete;
  FloatScope& operator=(const FloatScope&) = delete;

 private:
  static constexpr unsigned kControl = 0xFFC0;  // all but the sticky flags
  static constexpr unsigned kMasked = 0x1F80;
  unsigned saved_;
};

}  // namespace neuron::ccom

#endif
