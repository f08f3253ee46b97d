// SPDX-License-Identifier: Apache-2.0
#include "ccom/reduction/reduction.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "ccom/reduction/float_scope.h"
#include "driver/base/small_float.h"

#ifndef CCOM_REDUCTION_SHARED
#define CCOM_REDUCTION_SHARED
namespace neuron::ccom {
// Whole vectors of bytes.
struct ReductionWork {
  ccom_type_t type;
  ccom_reduction_t reduction;
  std::byte* const* results;
  uint32_t result_count;
  const std::byte* const* operands;
  uint32_t count;
  uint64_t bytes;
  bool streaming;
  uint32_t divisor;
};
struct Fp8Values {
  float data[256];
};
constexpr Fp8Values fp8_values(base::SmallFloat format) {
  Fp8Values values{};
  for (uint32_t code = 0; code < 256; ++code) values.data[code] = widen(format, code);
  return values;
}
inline constexpr Fp8Values kFp8E3Values = fp8_values(base::kFp8E3);
inline constexpr Fp8Values kFp8E4Values = fp8_values(base::kFp8E4);
inline constexpr Fp8Values kFp8E5Values = fp8_values(base::kFp8E5);
}  // namespace neuron::ccom
#endif

// Two targets; processors without either run the plain loops of the definition.
#define HWY_BROKEN_EMU128 1
#define HWY_COMPILE_ALL_ATTAINABLE 1
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_SCALAR))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ccom/reduction/reduction.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#if HWY_TARGET != HWY_SCALAR
#include "ccom/reduction/reduction_kernels-inl.h"
#endif

#if HWY_ONCE
namespace neuron::ccom {
namespace {

constexpr uint64_t kWidest = 64;       // bytes of a vector
constexpr uint32_t kFewOperands = 16;  // gathered at once in padded buffers

bool supported(ReductionPath path) {
  // All features that the compiled targets may use, not only those in their names.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  switch (path) {
    case ReductionPath::kAvx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd");
    case ReductionPath::kAvx2:
      return avx2;
    default:
      return true;
  }
}

// Relaxed everywhere: this value does not order any other memory.
std::atomic<ReductionPath> current{supported(ReductionPath::kAvx512) ? ReductionPath::kAvx512
                                   : supported(ReductionPath::kAvx2) ? ReductionPath::kAvx2
                                                                     : ReductionPath::kScalar};

uint64_t type_size(ccom_type_t type) {
  static constexpr uint8_t kSizes[CCOM_TYPE_COUNT] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8};
  return kSizes[type];
}

bool is_integer(ccom_type_t type) {
  constexpr uint32_t kFloats = 1u << CCOM_FP8_E3 | 1u << CCOM_FP8_E4 | 1u << CCOM_FP8_E5 |
                               1u << CCOM_FP16 | 1u << CCOM_BF16 | 1u << CCOM_FP32;
  return (kFloats >> type & 1) == 0;
}

void run_vectors(ReductionPath path, const ReductionWork& work) {
  if (path == ReductionPath::kAvx512) {
    N_AVX3::run(work);
  } else {
    N_AVX2::run(work);
  }
}

// Pieces that stay in the first-level cache, for reductions that need a second pass over a result.
constexpr uint64_t kPiece = 8192;

// The plain loops from `offset` on, and everything else that the contract asks for.
void run_reference(const ReductionWork& work, uint64_t offset) {
  const uint64_t size = type_size(work.type);
  std::vector<const std::byte*> operands(work.count);
  alignas(kWidest) std::byte piece[kPiece];
  for (uint64_t at = offset; at < work.bytes; at += kPiece) {
    const uint64_t bytes = std::min(kPiece, work.bytes - at);
    for (uint32_t k = 0; k < work.count; ++k) operands[k] = work.operands[k] + at;
    reduce_reference(work.type, work.reduction, piece, operands.data(), work.count, bytes / size,
                     work.divisor);
    for (uint32_t r = 0; r < work.result_count; ++r) {
      std::memcpy(work.results[r] + at, piece, bytes);
    }
  }
}

// Reduces less than a vector, through padded copies.
void run_tail(ReductionPath path, ReductionWork work, uint64_t offset) {
  if (work.count > kFewOperands) return run_reference(work, offset);
  const uint64_t bytes = work.bytes - offset;
  const uint64_t vector = path == ReductionPath::kAvx512 ? 64 : 32;
  alignas(kWidest) std::byte padded[kFewOperands * kWidest];
  const std::byte* operands[kFewOperands];
  for (uint32_t k = 0; k < work.count; ++k) {
    std::byte* to = padded + k * kWidest;
    std::memset(to, 0, kWidest);
    std::memcpy(to, work.operands[k] + offset, bytes);
    operands[k] = to;
  }
  std::byte* result = padded;
  std::byte* const* results = work.results;
  const uint32_t result_count = work.result_count;
  work.operands = operands;
  work.results = &result;
  work.result_count = 1;
  work.bytes = vector;
  work.streaming = false;
  run_vectors(path, work);
  for (uint32_t r = 0; r < result_count; ++r) std::memcpy(results[r] + offset, padded, bytes);
}

}  // namespace

void reduce_to_many(ccom_type_t type, ccom_reduction_t reduction, std::byte* const* results,
                    uint32_t result_count, const std::byte* const* operands, uint32_t count,
                    uint64_t elements, bool streaming, uint32_t divisor) {
  ReductionWork work{type,
                     reduction,
                     results,
                     result_count,
                     operands,
                     count,
                     elements * type_size(type),
                     streaming,
                     reduction == CCOM_AVERAGE ? divisor : 0};
  const FloatScope scope;
  const ReductionPath path = current.load(std::memory_order_relaxed);
  if (path == ReductionPath::kScalar || (work.divisor != 0 && is_integer(type))) {
    return run_reference(work, 0);
  }
  for (uint32_t r = 0; work.streaming && r < result_count; ++r) {
    work.streaming = reinterpret_cast<uintptr_t>(results[r]) % kWidest == 0;
  }
  const uint64_t bytes = work.bytes;
  const uint64_t whole = bytes & ~uint64_t{path == ReductionPath::kAvx512 ? 63u : 31u};
  // Elements are independent, so the end may be computed first.
  if (whole < bytes) run_tail(path, work, whole);
  work.bytes = whole;
  if (whole != 0) run_vectors(path, work);
  if (work.streaming) _mm_sfence();
}

void reduce(ccom_type_t type, ccom_reduction_t reduction, std::byte* result,
            const std::byte* const* operands, uint32_t count, uint64_t elements, bool streaming) {
  reduce_to_many(type, reduction, &result, 1, operands, count, elements, streaming, 0);
}

void copy_bytes(std::byte* destination, const std::byte* source, uint64_t bytes, bool streaming) {
  if (!streaming || bytes < 4096 ||
      current.load(std::memory_order_relaxed) == ReductionPath::kScalar) {
    if (bytes != 0) std::memcpy(destination, source, bytes);
    return;
  }
  const uint64_t head = (0 - reinterpret_cast<uintptr_t>(destination)) % kWidest;
  std::memcpy(destination, source, head);
  const uint64_t whole = (bytes - head) / kWidest * kWidest;
  if (current.load(std::memory_order_relaxed) == ReductionPath::kAvx512) {
    N_AVX3::stream_bytes(destination + head, source + head, whole);
  } else {
    N_AVX2::stream_bytes(destination + head, source + head, whole);
  }
  std::memcpy(destination + head + whole, source + head + whole, bytes - head - whole);
  _mm_sfence();
}

ReductionPath reduction_path() { return current.load(std::memory_order_relaxed); }

bool select_reduction_path(ReductionPath path) {
  if (!supported(path)) return false;
  current.store(path, std::memory_order_relaxed);
  return true;
}

}  // namespace neuron::ccom
#endif
