// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/onnx/operator_table.h"

#include <map>

#include "tools/compiler/onnx/importer.h"
#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

using graph::RefusalClass;

constexpr const char* kText =
    "strings have no form on the device; do this before, and begin behind";
constexpr const char* kChance =
    "random values cannot be repeated by another runtime; give them as an input";
constexpr RefusedOperator kRefusedOperators[] = {
    {"StringNormalizer", RefusalClass::kStrings, kText},
    {"StringSplit", RefusalClass::kStrings, kText},
    {"StringConcat", RefusalClass::kStrings, kText},
    {"RegexFullMatch", RefusalClass::kStrings, kText},
    {"LabelEncoder", RefusalClass::kStrings, kText},
    {"ImageDecoder", RefusalClass::kStrings,
     "compressed images have no form on the device; decode before"},
    {"Bernoulli", RefusalClass::kRandom, kChance},
    {"RandomUniform", RefusalClass::kRandom, kChance},
    {"RandomUniformLike", RefusalClass::kRandom, kChance},
    {"RandomNormal", RefusalClass::kRandom, kChance},
    {"RandomNormalLike", RefusalClass::kRandom, kChance},
    {"Multinomial", RefusalClass::kRandom, kChance},
    {"Gradient", RefusalClass::kGradient,
     "derivatives of other nodes are not computed; export the backward pass as nodes"},
};

const std::map<std::string, Import>& table() {
  static const std::map<std::string, Import> kTable = [] {
    std::map<std::string, Import> map;
    for (const auto list :
         {map_operators(),          activation_operators(), shape_operators(),
          move_operators(),         reduce_operators(),     product_operators(),
          convolution_operators(),  pool_operators(),       normalisation_operators(),
          quantisation_operators(), index_operators(),      search_operators(),
          loss_operators(),         sequence_operators(),   control_operators(),
          recurrent_operators(),    resize_operators(),     signal_operators(),
          image_operators(),        ngram_operators()}) {
      for (const Operator& entry : list) map.emplace(entry.name, entry.import);
    }
    return map;
  }();
  return kTable;
}

}  // namespace

Import import_of(const std::string& name) {
  const auto found = table().find(name);
  return found != table().end() ? found->second : nullptr;
}

const RefusedOperator* refused_operator(const std::string& name) {
  for (const RefusedOperator& refused : kRefusedOperators) {
    if (name == refused.name) return &refused;
  }
  return nullptr;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& entry : table()) names.push_back(entry.first);
  return names;
}

}  // namespace neuron::onnx
