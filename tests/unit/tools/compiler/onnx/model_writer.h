// SPDX-License-Identifier: Apache-2.0
//
// Small ONNX models for tests. Callers: tests. Values.
#ifndef TESTS_UNIT_TOOLS_COMPILER_ONNX_MODEL_WRITER_H
#define TESTS_UNIT_TOOLS_COMPILER_ONNX_MODEL_WRITER_H

#include <string>
#include <vector>

#include "tools/compiler/onnx/model.pb.h"

namespace neuron::onnx {

class ModelWriter {
 public:
  explicit ModelWriter(int64_t opset = 17) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
  }

  file::ModelData& model() { return model_; }

  // Of f32; a size of 0 is a free dimension, "n" and its place.
  void input(const std::string& name, const std::vector<int64_t>& shape, int32_t type = 1) {
    describe(*model_.mutable_graph()->add_input(), name, shape, type);
  }
  void output(const std::string& name) { model_.mutable_graph()->add_output()->set_name(name); }
  void constant(const std::string& name, const std::vector<int64_t>& shape,
                const std::vector<float>& values) {
    file::TensorData* data = model_.mutable_graph()->add_initializer();
    data->set_name(name);
    data->set_data_type(1);
    for (const int64_t size : shape) data->add_dims(size);
    for (const float value : values) data->add_float_data(value);
  }
  void integers(const std::string& name, const std::vector<int64_t>& values) {
    file::TensorData* data = model_.mutable_graph()->add_initializer();
    data->set_name(name);
    data->set_data_type(7);
    data->add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t value : values) data->add_int64_data(value);
  }
  file::NodeData& node(const std::string& type, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
    file::NodeData* node = model_.mutable_graph()->add_node();
    node->set_op_type(type);
    node->set_name("the " + type);
    for (const std::string& input : inputs) node->add_input(input);
    for (const std::string& name : outputs) node->add_output(name);
    return *node;
  }
  static void attribute(file::NodeData& node, const std::string& name, int64_t value) {
    file::AttributeData* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(2);  // a whole number; other runtimes want to be told
    attribute->set_i(value);
  }
  static void attribute(file::NodeData& node, const std::string& name,
                        const std::vector<int64_t>& values) {
    file::AttributeData* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(7);  // whole numbers
    for (const int64_t value : values) attribute->add_ints(value);
  }
  std::vector<uint8_t> bytes() const {
    const std::string text = model_.SerializeAsString();
    return {text.begin(), text.end()};
  }

 private:
  static void describe(file::ValueData& value, const std::string& name,
                       const std::vector<int64_t>& shape, int32_t type) {
    value.set_name(name);
    auto* tensor = value.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (size_t i = 0; i < shape.size(); ++i) {
      auto* dimension = tensor->mutable_shape()->add_dim();
      if (shape[i] > 0) {
        dimension->set_dim_value(shape[i]);
      } else {
        dimension->set_dim_param("n" + std::to_string(i));
      }
    }
  }

  file::ModelData model_;
};

}  // namespace neuron::onnx

#endif
