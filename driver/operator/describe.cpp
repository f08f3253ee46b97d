// SPDX-License-Identifier: Apache-2.0
#include "driver/operator/describe.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "driver/operator/registry.h"

namespace neuron::operators {
namespace {

struct TypeName {
  const char* name;
  torch::ScalarType type;
};
constexpr TypeName kTypes[] = {
    {"u8", torch::kByte},   {"i8", torch::kChar},       {"i16", torch::kShort},
    {"i32", torch::kInt},   {"i64", torch::kLong},      {"f16", torch::kHalf},
    {"f32", torch::kFloat}, {"bf16", torch::kBFloat16},
};

char letter_of(neuron_operator_kind kind) {
  constexpr char kLetters[] = "?tdiss";
  return kLetters[kind];
}

int list() {
  std::printf("multicore %d\n", is_multicore() ? 1 : 0);
  for (const Operator& op : all_operators()) {
    const Function* kernel = nullptr;
    for (const auto& [name, function] : all_kernels()) {
      if (name == op.kernel) kernel = &function;
    }
    std::string kinds;
    for (const neuron_operator_kind kind : (kernel != nullptr ? *kernel : op.shape).parameters) {
      kinds += letter_of(kind);
    }
    std::printf("%s %s %s %s%s\n", op.name.c_str(), op.library.c_str(), op.kernel.c_str(),
                kernel == nullptr ? "-" : "", kinds.empty() ? "." : kinds.c_str());
  }
  return 0;
}

// "f32[2,3]"
bool read_tensor(const char* text, torch::Tensor& tensor) {
  for (const TypeName& type : kTypes) {
    const size_t length = std::strlen(type.name);
    if (std::strncmp(text, type.name, length) != 0 || text[length] != '[') continue;
    std::vector<int64_t> sizes;
    char* at = const_cast<char*>(text + length);
    while (*at != ']' && *at != '\0') {
      if (at[1] == ']') break;
      sizes.push_back(std::strtol(at + 1, &at, 10));
    }
    tensor = torch::empty(sizes, type.type);
    return true;
  }
  return false;
}

int shape(const char* name, int count, char** words) {
  for (const Operator& op : all_operators()) {
    if (op.name != name) continue;
    if (op.shape.parameters.size() != static_cast<size_t>(count)) {
      std::fprintf(stderr, "operator %s has %zu arguments, found %d\n", name,
                   op.shape.parameters.size(), count);
      return 1;
    }
    Arguments arguments;
    for (int n = 0; n < count; ++n) {
      Argument argument;
      argument.kind = op.shape.parameters[static_cast<size_t>(n)];
      if (argument.kind == NEURON_OPERATOR_TENSOR) {
        if (!read_tensor(words[n], argument.tensor)) {
          std::fprintf(stderr, "argument %d of %s is %s, expected a tensor such as f32[2,3]\n", n,
                       name, words[n]);
          return 1;
        }
      } else if (argument.kind == NEURON_OPERATOR_INT64) {
        argument.number = static_cast<int64_t>(std::strtoll(words[n], nullptr, 10));
      } else {
        argument.number = std::strtod(words[n], nullptr);
      }
      arguments.push_back(std::move(argument));
    }
    const torch::Tensor result = op.shape.call(arguments);
    for (const TypeName& type : kTypes) {
      if (type.type == result.scalar_type()) std::printf("%s[", type.name);
    }
    const char* separator = "";
    for (const int64_t size : result.sizes()) {
      std::printf("%s%lld", separator, static_cast<long long>(size));
      separator = ",";
    }
    std::printf("]\n");
    return 0;
  }
  std::fprintf(stderr, "there is no operator %s\n", name);
  return 1;
}

}  // namespace

int describe(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "describe") == 0) return list();
  if (count >= 3 && std::strcmp(arguments[1], "shape") == 0) {
    return shape(arguments[2], count - 3, arguments + 3);
  }
  std::fprintf(stderr, "this is a library of custom operators; neuron-operator works with it\n");
  return 1;
}

}  // namespace neuron::operators
