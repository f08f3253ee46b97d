// SPDX-License-Identifier: Apache-2.0
// Functions of whole tensors: each element of the result from the elements at the same place.
//
// Functions that end in _out write a tensor that exists and has the shape of the operands, the
// others make one. An element that is read or written counts as one of a stream. Numbers of 16 bits
// are computed in float; bitwise functions take integers, exp and its like take floats. Fails: by
// ending the call (TYPE, SHAPE).
#ifndef DRIVER_OPERATOR_FUNCTIONS_H
#define DRIVER_OPERATOR_FUNCTIONS_H

#include "driver/operator/tensor.h"

namespace torch {

#define NEURON_OPERATOR_UNARY(name)                       \
  Tensor& name##_out(Tensor& result, const Tensor& self); \
  Tensor name(const Tensor& self);
NEURON_OPERATOR_UNARY(abs)
NEURON_OPERATOR_UNARY(ceil)
NEURON_OPERATOR_UNARY(floor)
NEURON_OPERATOR_UNARY(sin)
NEURON_OPERATOR_UNARY(cos)
NEURON_OPERATOR_UNARY(tan)
NEURON_OPERATOR_UNARY(log)
NEURON_OPERATOR_UNARY(log2)
NEURON_OPERATOR_UNARY(log10)
NEURON_OPERATOR_UNARY(exp)
NEURON_OPERATOR_UNARY(bitwise_not)
#undef NEURON_OPERATOR_UNARY

Tensor& pow_out(Tensor& result, const Tensor& self, const Scalar& other);
Tensor& pow_out(Tensor& result, const Scalar& self, const Tensor& other);
Tensor& pow_out(Tensor& result, const Tensor& self, const Tensor& other);
Tensor pow(const Tensor& self, const Scalar& other);
Tensor pow(const Scalar& self, const Tensor& other);
Tensor pow(const Tensor& self, const Tensor& other);

Tensor& clamp_out(Tensor& result, const Tensor& self, const Scalar& minval, const Scalar& maxval);
Tensor clamp(const Tensor& self, const Scalar& minval, const Scalar& maxval);

Tensor& add_out(Tensor& result, const Tensor& self, const Scalar& other, const Scalar& alpha = 1);
Tensor& add_out(Tensor& result, const Tensor& self, const Tensor& other, const Scalar& alpha = 1);
Tensor add(const Tensor& self, const Scalar& other, const Scalar& alpha = 1);
Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha = 1);
Tensor& sub_out(Tensor& result, const Tensor& self, const Scalar& other, const Scalar& alpha = 1);
Tensor& sub_out(Tensor& result, const Tensor& self, const Tensor& other, const Scalar& alpha = 1);
Tensor sub(const Tensor& self, const Scalar& other, const Scalar& alpha = 1);
Tensor sub(const Tensor& self, const Tensor& other, const Scalar& alpha = 1);

Tensor& mul_out(Tensor& result, const Tensor& self, const Scalar& other);
Tensor& mul_out(Tensor& result, const Tensor& self, const Tensor& other);
Tensor mul(const Tensor& self, const Scalar& other);
Tensor mul(const Tensor& self, const Tensor& other);
Tensor& div_out(Tensor& result, const Tensor& self, const Scalar& other);
Tensor& div_out(Tensor& result, const Tensor& self, const Tensor& other);
Tensor div(const Tensor& self, const Scalar& other);
Tensor div(const Tensor& self, const Tensor& other);

Tensor& bitwise_and_out(Tensor& result, const Tensor& self, const Tensor& other);
Tensor& bitwise_and_out(Tensor& result, const Tensor& self, const Scalar& other);
Tensor& bitwise_and_out(Tensor& result, const Scalar& self, const Tensor& other);
Tensor bitwise_and(const Tensor& self, const Tensor& other);
Tensor bitwise_and(const Tensor& self, const Scalar& other);
Tensor bitwise_and(const Scalar& self, const Tensor& other);
Tensor& bitwise_or_out(Tensor& result, const Tensor& self, const Tensor& other);
Tensor& bitwise_or_out(Tensor& result, const Tensor& self, const Scalar& other);
Tensor& bitwise_or_out(Tensor& result, const Scalar& self, const Tensor& other);
Tensor bitwise_or(const Tensor& self, const Tensor& other);
Tensor bitwise_or(const Tensor& self, const Scalar& other);
Tensor bitwise_or(const Scalar& self, const Tensor& other);

}  // namespace torch

#endif
