// SPDX-License-Identifier: Apache-2.0
#include "driver/operator/functions.h"

#include <cmath>
#include <type_traits>

namespace torch {
namespace {

using ::neuron::operators::counts;
using ::neuron::operators::fail;

// Calls `work` with an element of the type of `type`.
template <class Work>
void with_type(ScalarType type, const Work& work) {
  switch (type) {
    case kByte:
      return work(uint8_t{});
    case kChar:
      return work(int8_t{});
    case kShort:
      return work(int16_t{});
    case kInt:
      return work(int32_t{});
    case kLong:
      return work(int64_t{});
    case kHalf:
      return work(Half{});
    case kBFloat16:
      return work(BFloat16{});
    case kFloat:
      return work(float{});
  }
}

// What elements of T are computed in.
template <class T>
using Computed = std::conditional_t<std::is_integral_v<T>, int64_t, float>;

// One side of a function: a tensor, or one number for all elements.
struct Side {
  Side(const Tensor& t) : tensor(&t) {}  // NOLINT: reads as a tensor
  Side(const Scalar& s) : number(&s) {}  // NOLINT: reads as a number
  const Tensor* tensor = nullptr;
  const Scalar* number = nullptr;

  template <class T>
  Computed<T> at(int64_t n) const {
    if (tensor == nullptr) return number->template to<Computed<T>>();
    return static_cast<Computed<T>>(reinterpret_cast<const T*>(tensor->storage().data)[n]);
  }
};

void check_side(const Side& side, const Tensor& like) {
  if (side.tensor == nullptr) return;
  if (side.tensor->sizes() != like.sizes()) {
    fail(NEURON_OPERATOR_SHAPE, 0, "the operands of a function of tensors have different shapes");
  }
  if (side.tensor->scalar_type() != like.scalar_type()) {
    fail(NEURON_OPERATOR_TYPE, 0, "the operands of a function of tensors have different types");
  }
  counts.stream_elements += static_cast<uint64_t>(like.numel());
}

enum class Takes { kAll, kFloats, kIntegers };

void check_kind(const Tensor& tensor, Takes takes) {
  const bool integral = is_integral(tensor.scalar_type());
  if ((takes == Takes::kFloats && integral) || (takes == Takes::kIntegers && !integral)) {
    fail(NEURON_OPERATOR_TYPE, 0,
         integral ? "the function takes tensors of floating-point numbers only"
                  : "the function takes tensors of integers only");
  }
}

// result[n] = function(a[n], b[n])
template <Takes takes, class F>
Tensor& apply(Tensor& result, const Side& a, const Side& b, const F& function) {
  check_kind(result, takes);
  check_side(a, result);
  check_side(b, result);
  const int64_t count = result.numel();
  with_type(result.scalar_type(), [&](auto element) {
    using T = decltype(element);
    constexpr bool kIntegral = std::is_integral_v<T>;
    if constexpr ((takes == Takes::kAll) || (takes == Takes::kFloats && !kIntegral) ||
                  (takes == Takes::kIntegers && kIntegral)) {
      T* out = reinterpret_cast<T*>(result.storage().data);
      for (int64_t n = 0; n < count; ++n) {
        out[n] = static_cast<T>(function(a.at<T>(n), b.at<T>(n)));
      }
    }
  });
  counts.stream_elements += static_cast<uint64_t>(count);
  return result;
}

Tensor like(const Tensor& tensor) { return empty(tensor.sizes(), tensor.options()); }
const Scalar kNothing = 0;

}  // namespace

#define NEURON_OPERATOR_UNARY(name, takes, expression)                                    \
  Tensor& name##_out(Tensor& result, const Tensor& self) {                                \
    return apply<takes>(result, self, kNothing, [](auto x, auto) { return expression; }); \
  }                                                                                       \
  Tensor name(const Tensor& self) {                                                       \
    Tensor result = like(self);                                                           \
    return name##_out(result, self);                                                      \
  }

NEURON_OPERATOR_UNARY(abs, Takes::kAll, x < 0 ? -x : x + 0)
NEURON_OPERATOR_UNARY(ceil, Takes::kFloats, std::ceil(x))
NEURON_OPERATOR_UNARY(floor, Takes::kFloats, std::floor(x))
NEURON_OPERATOR_UNARY(sin, Takes::kFloats, std::sin(x))
NEURON_OPERATOR_UNARY(cos, Takes::kFloats, std::cos(x))
NEURON_OPERATOR_UNARY(tan, Takes::kFloats, std::tan(x))
NEURON_OPERATOR_UNARY(log, Takes::kFloats, std::log(x))
NEURON_OPERATOR_UNARY(log2, Takes::kFloats, std::log2(x))
NEURON_OPERATOR_UNARY(log10, Takes::kFloats, std::log10(x))
NEURON_OPERATOR_UNARY(exp, Takes::kFloats, std::exp(x))
NEURON_OPERATOR_UNARY(bitwise_not, Takes::kIntegers, ~x)

Tensor& clamp_out(Tensor& result, const Tensor& self, const Scalar& minval, const Scalar& maxval) {
  return apply<Takes::kAll>(result, self, kNothing, [&](auto x, auto) {
    const auto low = minval.to<decltype(x)>(), high = maxval.to<decltype(x)>();
    return x < low ? low : high < x ? high : x;
  });
}
Tensor clamp(const Tensor& self, const Scalar& minval, const Scalar& maxval) {
  Tensor result = like(self);
  return clamp_out(result, self, minval, maxval);
}

// Functions of two sides, of which at least one is a tensor.
#define NEURON_OPERATOR_BINARY(name, takes, A, B, tensor, expression)                    \
  Tensor& name##_out(Tensor& result, const A& self, const B& other) {                    \
    return apply<takes>(result, self, other, [](auto x, auto y) { return expression; }); \
  }                                                                                      \
  Tensor name(const A& self, const B& other) {                                           \
    Tensor result = like(tensor);                                                        \
    return name##_out(result, self, other);                                              \
  }

NEURON_OPERATOR_BINARY(pow, Takes::kFloats, Tensor, Scalar, self, std::pow(x, y))
NEURON_OPERATOR_BINARY(pow, Takes::kFloats, Scalar, Tensor, other, std::pow(x, y))
NEURON_OPERATOR_BINARY(pow, Takes::kFloats, Tensor, Tensor, self, std::pow(x, y))
NEURON_OPERATOR_BINARY(mul, Takes::kAll, Tensor, Scalar, self, x* y)
NEURON_OPERATOR_BINARY(mul, Takes::kAll, Tensor, Tensor, self, x* y)
NEURON_OPERATOR_BINARY(div, Takes::kFloats, Tensor, Scalar, self, x / y)
NEURON_OPERATOR_BINARY(div, Takes::kFloats, Tensor, Tensor, self, x / y)
NEURON_OPERATOR_BINARY(bitwise_and, Takes::kIntegers, Tensor, Tensor, self, x& y)
NEURON_OPERATOR_BINARY(bitwise_and, Takes::kIntegers, Tensor, Scalar, self, x& y)
NEURON_OPERATOR_BINARY(bitwise_and, Takes::kIntegers, Scalar, Tensor, other, x& y)
NEURON_OPERATOR_BINARY(bitwise_or, Takes::kIntegers, Tensor, Tensor, self, x | y)
NEURON_OPERATOR_BINARY(bitwise_or, Takes::kIntegers, Tensor, Scalar, self, x | y)
NEURON_OPERATOR_BINARY(bitwise_or, Takes::kIntegers, Scalar, Tensor, other, x | y)

// self + alpha * other, self - alpha * other
#define NEURON_OPERATOR_SCALED(name, B, operation)                                              \
  Tensor& name##_out(Tensor& result, const Tensor& self, const B& other, const Scalar& alpha) { \
    return apply<Takes::kAll>(result, self, other, [&](auto x, auto y) {                        \
      return x operation alpha.to<decltype(x)>() * y;                                           \
    });                                                                                         \
  }                                                                                             \
  Tensor name(const Tensor& self, const B& other, const Scalar& alpha) {                        \
    Tensor result = like(self);                                                                 \
    return name##_out(result, self, other, alpha);                                              \
  }

NEURON_OPERATOR_SCALED(add, Scalar, +)
NEURON_OPERATOR_SCALED(add, Tensor, +)
NEURON_OPERATOR_SCALED(sub, Scalar, -)
NEURON_OPERATOR_SCALED(sub, Tensor, -)

}  // namespace torch
