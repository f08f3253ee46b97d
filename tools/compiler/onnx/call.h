// SPDX-License-Identifier: Apache-2.0
//
// One node of a model while an operator imports it: its inputs and attributes, and where its
// outputs go.
//
// Concept: a name of a model stands for an Item, which is a tensor of the graph, or a list of
// tensors that the importer keeps itself, or nothing (an optional value that is absent).
// Callers: the operators. Thread-safe: no. Borrows the builder and the node. Fails: through the
// builder, which keeps the first problem of the node; what is missing is then kNone, 0 or empty.
#ifndef TOOLS_COMPILER_ONNX_CALL_H
#define TOOLS_COMPILER_ONNX_CALL_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/refusal.h"

namespace neuron::onnx {

namespace file {
class AttributeData;
class GraphData;
class NodeData;
}  // namespace file

using graph::at;
using graph::Builder;
using graph::Function;
using graph::Shape;
using graph::Tensor;
using graph::Type;
using graph::Value;

struct Item {
  enum class Kind : uint8_t {
    kNothing,
    kTensor,
    kSequence,
    kRefused,  // of a node that was refused
  };
  Kind kind = Kind::kNothing;
  Value value = graph::kNone;
  std::vector<Item> elements;

  static Item of(Value value) { return {Kind::kTensor, value, {}}; }
  static Item sequence(std::vector<Item> elements) {
    return {Kind::kSequence, graph::kNone, std::move(elements)};
  }
};

class Call {
 public:
  // Imports a body of the node with its inputs; returns the body's outputs.
  using Body = std::function<std::vector<Item>(const file::GraphData& body,
                                               const std::vector<Item>& inputs)>;

  Call(Builder& builder, const file::NodeData& node, int64_t opset, std::vector<Item> inputs,
       Body body);

  Builder& b;  // NOLINT: every line of an operator names it

  int64_t opset() const { return opset_; }
  std::string operator_name() const;

  size_t count() const { return inputs_.size(); }
  bool has(size_t number) const {
    return number < inputs_.size() && inputs_[number].kind != Item::Kind::kNothing;
  }
  const Item& item(size_t number) const;
  Value in(size_t number);  // fails if it is no tensor
  const Shape& shape(size_t number) { return b.shape(in(number)); }

  // The constant; fails with the class kBinding if it depends on an input of the model.
  const Tensor* known(size_t number);
  std::vector<int64_t> known_integers(size_t number);
  // Of an array of one element; 0 and a failure otherwise.
  double known_number(size_t number);
  int64_t known_integer(size_t number);
  const Tensor* known_value(Value value);

  bool has_attribute(const char* name) const { return attribute(name) != nullptr; }
  const file::AttributeData* attribute(const char* name) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  double real(const char* name, double otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const char* name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> reals(const char* name) const;
  std::vector<std::string> texts(const char* name) const;
  std::optional<Type> type(const char* name);  // of a number for a type; fails on unknown ones
  // Imports the body in the attribute.
  std::vector<Item> body(const char* name, const std::vector<Item>& inputs);

  size_t outputs() const;           // how many the model names
  bool wants(size_t number) const;  // whether the model names the output
  void out(Value value) { out(Item::of(value)); }
  void out(Item item) { results_.push_back(std::move(item)); }
  std::vector<Item>& results() { return results_; }

  // What a refusal of the present problem is, beyond its sentence.
  void refuse(graph::RefusalClass kind, const std::string& sentence);
  graph::RefusalClass refusal_class() const { return class_; }
  const std::vector<Value>& to_bind() const { return to_bind_; }

 private:
  const file::NodeData& node_;
  int64_t opset_;
  std::vector<Item> inputs_, results_;
  Body body_;
  graph::RefusalClass class_ = graph::RefusalClass::kForm;
  std::vector<Value> to_bind_;
};

using Import = void (*)(Call&);

struct Operator {
  const char* name;
  Import import;
};

}  // namespace neuron::onnx

#endif
