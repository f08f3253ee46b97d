// SPDX-License-Identifier: Apache-2.0
// The floating-point environment of one computation: round to nearest even, all exceptions masked,
// subnormals kept or flushed. The caller's MXCSR, sticky flags included, comes back when the scope
// ends.
//
// The compiler does not know that arithmetic depends on MXCSR: open a scope only in a function that
// calls the arithmetic through a function that is not inlined.
// One object per thread and scope, on the stack; never fails.
#ifndef DRIVER_EMULATOR_NUMERICS_FLOAT_ENVIRONMENT_H
#define DRIVER_EMULATOR_NUMERICS_FLOAT_ENVIRONMENT_H

#include <xmmintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace neuron::numerics {

// What arithmetic does with subnormal operands and results. The PE always flushes; the other
// engines keep them unless their MODE register says otherwise.
enum class Subnormals : uint8_t { kKeep, kFlush };

class FloatScope {
 public:
  explicit FloatScope(Subnormals subnormals) : saved_(_mm_getcsr()) {
    _mm_setcsr(subnormals == Subnormals::kFlush ? kMasked | kFlushToZero | kDenormalsAreZero
                                                : kMasked);
  }
  ~FloatScope() { _mm_setcsr(saved_); }
  FloatScope(const FloatScope&) = delete;
  FloatScope& operator=(const FloatScope&) = delete;

 private:
  static constexpr unsigned kMasked = 0x1F80;
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  unsigned saved_;
};

// Flush to zero and denormals are zero: the environment of the PE.
class FlushScope : public FloatScope {
 public:
  FlushScope() : FloatScope(Subnormals::kFlush) {}
};

// Copies n floats with subnormals replaced by zeros of their sign, by integer operations. Apply it
// to operands before arithmetic that flushes: a compiler may replace a comparison and a selection
// by an instruction that passes an operand through, which differs for subnormal operands.
inline void copy_flushed(const float* in, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = std::bit_cast<uint32_t>(in[i]);
    if ((bits & 0x7F800000u) == 0) bits &= 0x80000000u;
    out[i] = std::bit_cast<float>(bits);
  }
}

}  // namespace neuron::numerics
#endif
