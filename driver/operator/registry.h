// SPDX-License-Identifier: Apache-2.0
// The operators of a library: their names, shape functions and kernel functions, and how either is
// called with arguments that are known at run time only.
//
// Callers: the macro NEURON_LIBRARY and the source that neuron-operator writes, before main();
// main(). Owns what is registered, for the life of the process. Fails: an argument of another kind
// than the function's parameter ends the call (UNKNOWN).
#ifndef DRIVER_OPERATOR_REGISTRY_H
#define DRIVER_OPERATOR_REGISTRY_H

#include <array>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "driver/operator/tensor.h"

namespace neuron::operators {

struct Argument {
  neuron_operator_kind kind = NEURON_OPERATOR_TENSOR;
  torch::Tensor tensor;
  torch::Scalar number;
};
using Arguments = std::vector<Argument>;

struct Function {
  std::vector<neuron_operator_kind> parameters;
  std::function<torch::Tensor(const Arguments&)> call;
};

template <typename P>
constexpr neuron_operator_kind kind_of() {
  static_assert(std::is_same_v<P, torch::Tensor> || std::is_same_v<P, torch::Scalar> ||
                    std::is_same_v<P, double> || std::is_same_v<P, int64_t>,
                "parameters of a custom operator are torch::Tensor, torch::Scalar, double or "
                "int64_t");
  if constexpr (std::is_same_v<P, torch::Tensor>) return NEURON_OPERATOR_TENSOR;
  if constexpr (std::is_same_v<P, torch::Scalar>) return NEURON_OPERATOR_SCALAR;
  if constexpr (std::is_same_v<P, double>) return NEURON_OPERATOR_DOUBLE;
  return NEURON_OPERATOR_INT64;
}

template <typename P>
P value_of(const Argument& argument) {
  if constexpr (std::is_same_v<P, torch::Tensor>) {
    return argument.tensor;
  } else if constexpr (std::is_same_v<P, torch::Scalar>) {
    return argument.number;
  } else {
    return argument.number.template to<P>();
  }
}

template <typename... P, size_t... I>
torch::Tensor call_with(torch::Tensor (*function)(P...), const Arguments& arguments,
                        std::index_sequence<I...>) {
  std::tuple<std::decay_t<P>...> values{value_of<std::decay_t<P>>(arguments[I])...};
  return function(static_cast<P>(std::get<I>(values))...);
}

template <typename... P>
Function function_of(torch::Tensor (*function)(P...)) {
  return {{kind_of<std::decay_t<P>>()...}, [function](const Arguments& arguments) {
            return call_with(function, arguments, std::index_sequence_for<P...>());
          }};
}

struct Operator {
  std::string library, name, kernel;
  Function shape;
};

// Whether all cores of GpSimd run the library's operators.
bool& is_multicore();
std::vector<Operator>& all_operators();
std::vector<std::pair<std::string, Function>>& all_kernels();

// Registers a kernel function by its name.
struct KernelRegistration {
  template <typename... P>
  KernelRegistration(const char* name, torch::Tensor (*function)(P...)) {
    all_kernels().emplace_back(name, function_of(function));
  }
};

}  // namespace neuron::operators

namespace torch::neuron {

// What NEURON_LIBRARY hands to its body.
class Library {
 public:
  explicit Library(const char* name) : name_(name) {}
  template <typename... P>
  void def(const char* name, Tensor (*shape)(P...), const char* kernel) {
    ::neuron::operators::all_operators().push_back(
        {name_, name, kernel, ::neuron::operators::function_of(shape)});
  }

 private:
  const char* name_;
};

struct LibraryRegistration {
  LibraryRegistration(const char* name, void (*body)(Library&)) {
    Library library(name);
    body(library);
  }
};

}  // namespace torch::neuron

#endif
