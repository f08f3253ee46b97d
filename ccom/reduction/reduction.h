// SPDX-License-Identifier: Apache-2.0
// Element-wise reduction of several operands, with the same bits on every host and SIMD path.
//
// result[i] = ((a0[i] op a1[i]) op a2[i]) ...: operands in the given order. Floating-point types
// below 32 bits are widened to fp32, accumulated there, and rounded once, to nearest even. fp32
// accumulates as itself. There is no contraction, and subnormals are kept. In min and max, a NaN
// operand gives NaN, and -0 is less than +0. A NaN result is the positive quiet NaN. Integers wrap.
// An average is the sum until it is divided. A result may be one of the operands, or share none of
// their bytes. Thread-safe: functions of their arguments; the caller's MXCSR has no influence.
// Cannot fail.
#ifndef CCOM_REDUCTION_REDUCTION_H
#define CCOM_REDUCTION_REDUCTION_H

#include <ccom/ccom.h>

#include <cstddef>
#include <cstdint>

namespace neuron::ccom {

// `operands`: pointers of any alignment. `count` >= 1. `streaming`: the result will not be read
// soon (stores past the caches).
void reduce(ccom_type_t type, ccom_reduction_t reduction, std::byte* result,
            const std::byte* const* operands, uint32_t count, uint64_t elements,
            bool streaming = false);

// The same with copies of the result in all of `results`, each operand read once. A result may be
// an operand. With CCOM_AVERAGE and a `divisor` other than 0, the sum is divided: integers towards
// zero, floating-point types in fp32 before the rounding.
void reduce_to_many(ccom_type_t type, ccom_reduction_t reduction, std::byte* const* results,
                    uint32_t result_count, const std::byte* const* operands, uint32_t count,
                    uint64_t elements, bool streaming = false, uint32_t divisor = 0);

// The same with plain loops: the definition that tests compare with.
void reduce_reference(ccom_type_t type, ccom_reduction_t reduction, std::byte* result,
                      const std::byte* const* operands, uint32_t count, uint64_t elements,
                      uint32_t divisor = 0);

// memcpy. With `streaming`, stores bypass the caches; they are ordered before the caller's later
// stores.
void copy_bytes(std::byte* destination, const std::byte* source, uint64_t bytes,
                bool streaming = false);

// The instructions in use: the widest that the processor has, unless a test selects others.
enum class ReductionPath : uint8_t { kScalar, kAvx2, kAvx512 };
ReductionPath reduction_path();
bool select_reduction_path(ReductionPath path);  // false: not on this processor

}  // namespace neuron::ccom

#endif
