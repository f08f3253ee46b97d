// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/hlo/importer.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

using graph::Refusal;
using graph::RefusalClass;
using runtime::Result;

constexpr int kMostNested = 24;
constexpr int32_t kTuple = 13;  // PrimitiveType

const std::map<std::string, Import>& table() {
  static const std::map<std::string, Import> kTable = [] {
    std::map<std::string, Import> map;
    for (const auto list : {map_opcodes(), array_opcodes(), row_opcodes(), convolution_opcodes(),
                            order_opcodes(), collective_opcodes()}) {
      for (const Opcode& entry : list) map.emplace(entry.name, entry.import);
    }
    return map;
  }();
  return kTable;
}

// A layout that is not that of C is one of the device, which front ends do not ask for.
bool usual_layout(const file::Form& form) {
  const auto& order = form.layout().minor_to_major();
  for (int i = 0; i < order.size(); ++i) {
    if (order.Get(i) != order.size() - 1 - i) return false;
  }
  return true;
}

// Kernels of NKI: a trace of ours, or what its own compiler has made, which is its instructions.
constexpr const char* kNativeKernel = "AwsNeuronCustomNativeKernel";

std::string unknown(const file::Instruction& instruction) {
  const std::string& target = instruction.custom_call_target();
  if (instruction.opcode() == "replica-id" || instruction.opcode() == "partition-id") {
    return "a program does not know the number of its rank; give it as an input";
  }
  if (instruction.opcode() != "custom-call") return "the opcode is not known";
  if (target == kNativeKernel) {
    return base::format(
        "an NKI kernel of {} operands and {} bytes, whose encoding is not public; run the kernel "
        "alone with neuron-nki, or leave its operations to the module",
        instruction.operand_ids_size(), instruction.backend_config().size());
  }
  std::string known;
  for (const auto& [name, import] : table()) {
    constexpr std::string_view kCall = "custom-call ";
    if (!name.starts_with(kCall)) continue;
    known += (known.empty() ? "" : ", ") + name.substr(kCall.size());
  }
  return base::format("the custom call of \"{}\" is not known; known are {}", base::escaped(target),
                      known);
}

class Importer {
 public:
  Importer(const file::Module& module, const std::string& name, const graph::Limits& limits)
      : module_(module), limits_(limits), builder_(name, limits) {}

  Imported import();

 private:
  const file::Computation* find(int64_t id) const;
  std::vector<std::string> output_names(const file::Computation& entry) const;
  Value donor_of(const file::Computation& entry, size_t output);
  void add_outputs(const file::Computation& entry, const Values& results);
  Values run(const file::Computation& computation, const Values& arguments);
  Values run_called(int64_t id, const Values& arguments);
  Values step(const file::Instruction& instruction, std::vector<Values> operands);
  Step::Combination combination(int64_t id) const;
  Value parameter(const file::Instruction& instruction);
  void check(const file::Instruction& instruction, const Values& values);
  void refuse(const file::Instruction& instruction, RefusalClass kind, const std::string& sentence);

  const file::Module& module_;
  const graph::Limits limits_;
  Builder builder_;
  std::vector<Refusal> refusals_;
  std::map<int64_t, Value> parameters_;  // of the entry, by instruction
  std::vector<Value> donors_;            // of the outputs
  int nested_ = 0;
  int each_ = 0;  // computations of numbers that run for each element of arrays
  int64_t steps_ = 0;
};

const file::Computation* Importer::find(int64_t id) const {
  for (const file::Computation& computation : module_.computations()) {
    if (computation.id() == id) return &computation;
  }
  return nullptr;
}

void Importer::refuse(const file::Instruction& instruction, RefusalClass kind,
                      const std::string& sentence) {
  for (const Refusal& other : refusals_) {
    if (other.node == instruction.name() && other.sentence == sentence) return;
  }
  refusals_.push_back({kind, instruction.name(), instruction.opcode(), sentence, {}});
}

Value Importer::parameter(const file::Instruction& instruction) {
  const auto type = type_of(instruction.shape().element_type());
  const bool dynamic = std::count(instruction.shape().is_dynamic_dimension().begin(),
                                  instruction.shape().is_dynamic_dimension().end(), true) != 0;
  if (!type) {
    return builder_.fail("a parameter of element type {}", instruction.shape().element_type());
  }
  if (dynamic) return builder_.fail("a dimension is dynamic; trace with static shapes");
  const Shape shape = shape_of(instruction.shape());
  if (std::count(shape.begin(), shape.end(), 0) != 0) return builder_.fail("no elements");
  return builder_.input(instruction.name(), *type, shape);
}

// What a computation of two scalars does: its root is an operation of both parameters, or the
// second one.
Step::Combination Importer::combination(int64_t id) const {
  const file::Computation* computation = find(id);
  if (computation == nullptr) return {};
  for (const file::Instruction& root : computation->instructions()) {
    if (root.id() != computation->root_id()) continue;
    if (root.opcode() == "parameter") return {std::nullopt, root.parameter_number() == 1};
    if (root.opcode() == "copy" && root.operand_ids_size() == 1) {
      for (const file::Instruction& source : computation->instructions()) {
        if (source.id() != root.operand_ids(0) || source.opcode() != "parameter") continue;
        return {std::nullopt, source.parameter_number() == 1};
      }
    }
    constexpr std::pair<const char*, Function> kFunctions[] = {
        {"add", Function::kAdd},         {"multiply", Function::kMultiply},
        {"maximum", Function::kMaximum}, {"minimum", Function::kMinimum},
        {"and", Function::kAnd},         {"or", Function::kOr}};
    int parameters = 0;
    for (const file::Instruction& operand : computation->instructions()) {
      const auto& used = root.operand_ids();
      const bool is_used = std::count(used.begin(), used.end(), operand.id()) == 1;
      if (is_used && operand.opcode() == "parameter") ++parameters;
    }
    for (const auto& [name, function] : kFunctions) {
      if (root.opcode() == name && parameters == 2) return {function, false};
    }
  }
  return {};
}

Values Importer::run_called(int64_t id, const Values& arguments) {
  const file::Computation* computation = find(id);
  if (computation == nullptr) {
    return {builder_.fail("computation {} is not in the module", id)};
  }
  if (nested_ >= kMostNested) {
    return {builder_.fail("computations call each other over {} deep", kMostNested)};
  }
  ++nested_;
  const size_t before = refusals_.size();
  Values results = run(*computation, arguments);
  --nested_;
  if (refusals_.size() != before) return {builder_.fail("an instruction that it calls is refused")};
  return results;
}

// The result must have the shape and type that the module says.
void Importer::check(const file::Instruction& instruction, const Values& values) {
  if (!builder_.ok() || instruction.shape().element_type() == kTuple || values.size() != 1) return;
  const Shape said = shape_of(instruction.shape());
  const auto type = type_of(instruction.shape().element_type());
  const bool alike = builder_.shape(values[0]) == said || (each_ > 0 && said.empty());
  if (alike && type && builder_.type(values[0]) == *type) return;
  builder_.fail("it gives {} {}, and the module says {}",
                graph::type_name(builder_.type(values[0])),
                graph::shape_text(builder_.shape(values[0])), graph::shape_text(said));
}

Values Importer::step(const file::Instruction& instruction, std::vector<Values> operands) {
  const bool custom = instruction.opcode() == "custom-call";
  const auto entry = table().find(custom ? "custom-call " + instruction.custom_call_target()
                                         : instruction.opcode());
  if (entry == table().end() || (custom && instruction.custom_call_target() == kNativeKernel &&
                                 !is_kernel_trace(instruction.backend_config()))) {
    refuse(instruction, RefusalClass::kOperator, unknown(instruction));
    return {};
  }
  builder_.origin(instruction.name());
  Values values;
  if (!usual_layout(instruction.shape())) {
    builder_.fail("a layout other than that of rows");
  } else {
    Step step{builder_,
              instruction,
              std::move(operands),
              [this](int64_t id, const Values& given) { return run_called(id, given); },
              [this](int64_t id, const Values& given) {
                ++each_;
                Values values = run_called(id, given);
                --each_;
                return values;
              },
              [this](int64_t id) { return combination(id); }};
    values = entry->second(step);
    check(instruction, values);
  }
  if (builder_.ok()) return values;
  refuse(instruction, RefusalClass::kForm, builder_.problem());
  builder_.clear();
  return {};
}

Values Importer::run(const file::Computation& computation, const Values& arguments) {
  std::map<int64_t, Values> values;
  const bool entry = nested_ == 0;
  for (const file::Instruction& instruction : computation.instructions()) {
    if (++steps_ > limits_.nodes) {
      refuse(instruction, RefusalClass::kForm,
             "the module has too many instructions with its loops unrolled");
      return {};
    }
    if (instruction.opcode() == "parameter") {
      const auto number = static_cast<size_t>(std::max<int64_t>(0, instruction.parameter_number()));
      if (!entry) {
        // A single parameter may be a tuple of all arguments.
        const bool all = instruction.shape().element_type() == kTuple;
        values[instruction.id()] = all                         ? arguments
                                   : number < arguments.size() ? Values{arguments[number]}
                                                               : Values();
        continue;
      }
      const Value value = parameter(instruction);
      if (value >= 0) {
        values[instruction.id()] = {value};
        parameters_[instruction.id()] = value;
      } else {
        refuse(instruction, RefusalClass::kForm, builder_.problem());
        builder_.clear();
      }
      continue;
    }
    std::vector<Values> operands;
    bool whole = true;
    for (const int64_t id : instruction.operand_ids()) {
      const auto found = values.find(id);
      whole = whole && found != values.end() && !found->second.empty();
      if (whole) operands.push_back(found->second);
    }
    // What uses a refused instruction is not refused a second time.
    if (whole) values[instruction.id()] = step(instruction, std::move(operands));
  }
  const auto root = values.find(computation.root_id());
  if (root != values.end()) return root->second;
  if (refusals_.empty()) {
    refusals_.push_back(
        {RefusalClass::kInvalid, computation.name(), "", "the computation has no root", {}});
  }
  return {};
}

// Names that the front end wants, in the order of the outputs.
std::vector<std::string> Importer::output_names(const file::Computation& entry) const {
  std::vector<std::string> names;
  for (const file::Instruction& root : entry.instructions()) {
    const auto& attributes = root.frontend_attributes().map();
    const auto found = attributes.find("neff_output_names");
    if (root.id() != entry.root_id() || found == attributes.end()) continue;
    std::string_view rest = found->second;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      names.emplace_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return names;
}

// The parameter that the module gives an output for its memory.
Value Importer::donor_of(const file::Computation& entry, size_t output) {
  for (const auto& alias : module_.input_output_alias().entries()) {
    const auto& place = alias.output_shape_index();
    if ((place.empty() ? 0 : place.Get(0)) != static_cast<int64_t>(output)) continue;
    for (const file::Instruction& instruction : entry.instructions()) {
      if (instruction.opcode() != "parameter" ||
          instruction.parameter_number() != alias.parameter_number()) {
        continue;
      }
      const auto found = parameters_.find(instruction.id());
      return found != parameters_.end() ? found->second : graph::kNone;
    }
  }
  return graph::kNone;
}

void Importer::add_outputs(const file::Computation& entry, const Values& results) {
  std::vector<std::string> names = output_names(entry);
  if (names.size() != results.size()) names.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    const Value value = results[i];
    const Value donor = donor_of(entry, i);
    const std::string name = names.empty() ? "output" + std::to_string(i) : names[i];
    // An array without elements has no tensor.
    const Shape shape = builder_.shape(value);
    if (std::count(shape.begin(), shape.end(), 0) != 0) continue;
    if (donor != graph::kNone && (builder_.shape(donor) != builder_.shape(value) ||
                                  builder_.type(donor) != builder_.type(value))) {
      refusals_.push_back({RefusalClass::kInvalid,
                           name,
                           "",
                           "it is to have the memory of a parameter of another type or shape",
                           {}});
    }
    if (donor != graph::kNone && std::count(donors_.begin(), donors_.end(), donor) != 0) {
      refusals_.push_back({RefusalClass::kInvalid,
                           name,
                           "",
                           "it is to have the memory of a parameter that another output has",
                           {}});
    }
    builder_.output(name, value);
    donors_.push_back(donor);
  }
}

Imported Importer::import() {
  const file::Computation* entry = find(module_.entry_computation_id());
  if (entry == nullptr && module_.computations_size() > 0) {
    entry = &module_.computations(module_.computations_size() - 1);
  }
  Imported imported;
  if (entry == nullptr) {
    refusals_.push_back(
        {RefusalClass::kInvalid, module_.name(), "", "the module has no computation", {}});
  } else {
    add_outputs(*entry, run(*entry, {}));
  }
  imported.graph = builder_.finish();
  for (size_t i = 0; i < imported.graph.outputs.size(); ++i) {
    imported.graph.outputs[i].donor = donors_[i];
  }
  imported.refusals = std::move(refusals_);
  // Inputs in the order of their numbers, whatever that of the instructions is.
  if (entry != nullptr && imported.refusals.empty()) {
    std::map<int64_t, std::string> order;
    for (const file::Instruction& i : entry->instructions()) {
      if (i.opcode() == "parameter") order[i.parameter_number()] = i.name();
    }
    auto& inputs = imported.graph.inputs;
    const auto number = [&](Value value) {
      const std::string& name = imported.graph.nodes[static_cast<size_t>(value)].name;
      for (const auto& [place, other] : order) {
        if (other == name) return place;
      }
      return int64_t{0};
    };
    std::stable_sort(inputs.begin(), inputs.end(),
                     [&](Value a, Value b) { return number(a) < number(b); });
  }
  return imported;
}

}  // namespace

Result<Imported> import_module(std::span<const uint8_t> bytes, const std::string& name,
                               const graph::Limits& limits) {
  constexpr size_t kMostBytes = (size_t{1} << 31) - 1;
  file::Module module;
  if (bytes.size() > kMostBytes ||
      !module.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      module.computations_size() == 0) {
    return runtime::fail(NRT_INVALID,
                         "the file is no HLO module; expected an HloModuleProto message");
  }
  return Importer(module, name, limits).import();
}

std::vector<std::string> opcode_names() {
  std::vector<std::string> names = {"parameter"};
  for (const auto& entry : table()) names.push_back(entry.first);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace neuron::hlo
