// SPDX-License-Identifier: Apache-2.0
//
// Small HLO modules for tests. Callers: tests. Values.
#ifndef TESTS_UNIT_TOOLS_COMPILER_HLO_MODULE_WRITER_H
#define TESTS_UNIT_TOOLS_COMPILER_HLO_MODULE_WRITER_H

#include <string>
#include <vector>

#include "tools/compiler/hlo/module.pb.h"

namespace neuron::hlo {

inline constexpr int32_t kPred = 1, kS8 = 2, kS32 = 4, kF32 = 11;  // PrimitiveType

class ModuleWriter {
 public:
  using Sizes = std::vector<int64_t>;

  ModuleWriter() {
    module_.set_name("module");
    begin("main");
    module_.set_entry_computation_id(1);
  }

  // Later instructions belong to this computation; returns its number.
  int64_t begin(const std::string& name) {
    current_ = module_.add_computations();
    current_->set_name(name);
    current_->set_id(module_.computations_size());
    return current_->id();
  }
  // Back to the entry.
  void entry() { current_ = module_.mutable_computations(0); }

  // The last instruction of a computation is its root.
  file::Instruction& add(const std::string& opcode, int32_t type, const Sizes& sizes,
                         const std::vector<int64_t>& operands = {}) {
    file::Instruction* i = current_->add_instructions();
    i->set_id(++last_);
    i->set_name(opcode + "." + std::to_string(last_));
    i->set_opcode(opcode);
    i->mutable_shape()->set_element_type(type);
    for (const int64_t size : sizes) i->mutable_shape()->add_dimensions(size);
    for (const int64_t operand : operands) i->add_operand_ids(operand);
    current_->set_root_id(last_);
    return *i;
  }
  int64_t id(const std::string& opcode, int32_t type, const Sizes& sizes,
             const std::vector<int64_t>& operands = {}) {
    return add(opcode, type, sizes, operands).id();
  }
  int64_t parameter(const std::string& name, int64_t number, const Sizes& sizes,
                    int32_t type = kF32) {
    file::Instruction& i = add("parameter", type, sizes);
    i.set_name(name);
    i.set_parameter_number(number);
    return i.id();
  }
  int64_t constant(const Sizes& sizes, const std::vector<float>& values) {
    file::Instruction& i = add("constant", kF32, sizes);
    *i.mutable_literal()->mutable_shape() = i.shape();
    for (const float value : values) i.mutable_literal()->add_f32s(value);
    return i.id();
  }
  int64_t whole(const Sizes& sizes, const std::vector<int32_t>& values) {
    file::Instruction& i = add("constant", kS32, sizes);
    *i.mutable_literal()->mutable_shape() = i.shape();
    for (const int32_t value : values) i.mutable_literal()->add_s32s(value);
    return i.id();
  }
  // The root becomes a tuple of these; `names` are what the front end calls them.
  void results(const std::vector<int64_t>& values, const std::string& names = "") {
    file::Instruction& root = add("tuple", kF32, {}, values);
    root.mutable_shape()->set_element_type(13);
    auto& attributes = *root.mutable_frontend_attributes()->mutable_map();
    if (!names.empty()) attributes["neff_output_names"] = names;
  }
  void alias(int64_t output, int64_t parameter) {
    auto& entry = *module_.mutable_input_output_alias()->add_entries();
    entry.add_output_shape_index(output);
    entry.set_parameter_number(parameter);
  }
  // A computation of two numbers of f32.
  int64_t combiner(const std::string& opcode) {
    const int64_t number = begin("combine");
    const int64_t a = parameter("a", 0, {}), b = parameter("b", 1, {});
    add(opcode, kF32, {}, {a, b});
    entry();
    return number;
  }

  std::vector<uint8_t> bytes() const {
    const std::string text = module_.SerializeAsString();
    return {text.begin(), text.end()};
  }

 private:
  file::Module module_;
  file::Computation* current_ = nullptr;
  int64_t last_ = 100;
};

}  // namespace neuron::hlo

#endif
