// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/onnx/call.h"

#include "tools/compiler/onnx/model.pb.h"
#include "tools/compiler/onnx/tensor_reader.h"

namespace neuron::onnx {

Call::Call(Builder& builder, const file::NodeData& node, int64_t opset, std::vector<Item> inputs,
           Body body)
    : b(builder), node_(node), opset_(opset), inputs_(std::move(inputs)), body_(std::move(body)) {}

std::string Call::operator_name() const { return node_.op_type(); }

const Item& Call::item(size_t number) const {
  static const Item kNothing;
  return number < inputs_.size() ? inputs_[number] : kNothing;
}

Value Call::in(size_t number) {
  const Item& wanted = item(number);
  if (wanted.kind == Item::Kind::kTensor) return wanted.value;
  return b.fail("input {} is {}, expected a tensor", number,
                wanted.kind == Item::Kind::kNothing ? "missing" : "a sequence");
}

const Tensor* Call::known_value(Value value) {
  const Tensor* constant = b.constant_of(value);
  if (constant != nullptr || value < 0) return constant;
  if (b.ok()) {
    class_ = graph::RefusalClass::kBinding;
    to_bind_.push_back(value);
    b.fail("a shape or the structure depends on values that are only known when it runs");
  }
  return nullptr;
}

const Tensor* Call::known(size_t number) { return known_value(in(number)); }

std::vector<int64_t> Call::known_integers(size_t number) {
  const Tensor* tensor = known(number);
  std::vector<int64_t> list;
  if (tensor == nullptr) return list;
  const auto count = static_cast<size_t>(tensor->elements());
  for (size_t i = 0; i < count; ++i) list.push_back(tensor->integer(i));
  return list;
}

const file::AttributeData* Call::attribute(const char* name) const {
  for (const file::AttributeData& found : node_.attribute()) {
    if (found.name() == name) return &found;
  }
  return nullptr;
}

double Call::known_number(size_t number) {
  const Tensor* tensor = known(number);
  if (tensor == nullptr) return 0;
  if (tensor->elements() == 1) return tensor->real(0);
  b.fail("input {} has {} numbers, expected one", number, tensor->elements());
  return 0;
}

int64_t Call::known_integer(size_t number) {
  const double value = known_number(number);
  const Tensor* tensor = b.ok() ? known(number) : nullptr;
  return tensor != nullptr ? tensor->integer(0) : graph::truncated(Type::kI64, value);
}

int64_t Call::integer(const char* name, int64_t otherwise) const {
  const file::AttributeData* found = attribute(name);
  return found != nullptr ? found->i() : otherwise;
}

double Call::real(const char* name, double otherwise) const {
  const file::AttributeData* found = attribute(name);
  return found != nullptr ? found->f() : otherwise;
}

std::string Call::text(const char* name, const std::string& otherwise) const {
  const file::AttributeData* found = attribute(name);
  return found != nullptr ? found->s() : otherwise;
}

std::vector<int64_t> Call::integers(const char* name, std::vector<int64_t> otherwise) const {
  const file::AttributeData* found = attribute(name);
  if (found == nullptr) return otherwise;
  return {found->ints().begin(), found->ints().end()};
}

std::vector<double> Call::reals(const char* name) const {
  const file::AttributeData* found = attribute(name);
  if (found == nullptr) return {};
  return {found->floats().begin(), found->floats().end()};
}

std::vector<std::string> Call::texts(const char* name) const {
  const file::AttributeData* found = attribute(name);
  if (found == nullptr) return {};
  return {found->strings().begin(), found->strings().end()};
}

std::optional<Type> Call::type(const char* name) {
  const auto number = static_cast<int32_t>(integer(name, 1));
  const auto found = type_of(number);
  if (!found) b.fail("{} asks for {}", name, data_type_text(number));
  return found;
}

std::vector<Item> Call::body(const char* name, const std::vector<Item>& inputs) {
  const file::AttributeData* found = attribute(name);
  if (found != nullptr && found->has_g()) return body_(found->g(), inputs);
  b.fail("the attribute {} has no graph", name);
  return {};
}

size_t Call::outputs() const { return static_cast<size_t>(node_.output_size()); }

bool Call::wants(size_t number) const {
  return number < outputs() && !node_.output(static_cast<int>(number)).empty();
}

void Call::refuse(graph::RefusalClass kind, const std::string& sentence) {
  if (!b.ok()) return;
  class_ = kind;
  b.fail("{}", sentence);
}

}  // namespace neuron::onnx
