// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/hlo/importer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

using graph::Refusal;
using graph::RefusalClass;
using runtime::Result;

constexpr int kMostNested = 24;
// A module with more of them is not one that somebody can mend one by one.
constexpr size_t kMostRefusals = 1000;
constexpr int32_t kTuple = 13;  // PrimitiveType

const std::map<std::string, Import>& table() {
  static const std::map<std::string, Import> kTable = [] {
    std::map<std::string, Import> map;
    for (const auto list : {map_opcodes(), array_opcodes(), row_opcodes(), convolution_opcodes(),
                            fold_opcodes(), order_opcodes(), collective_opcodes()}) {
      for (const Opcode& entry : list) map.emplace(entry.name, entry.import);
    }
    return map;
  }();
  return kTable;
}

// Kernels of NKI: a trace of ours, or what its own compiler has made, which is its instructions.
constexpr const char* kNativeKernel = "AwsNeuronCustomNativeKernel";

bool is_random(const std::string& opcode) { return opcode.starts_with("rng"); }

std::string unknown(const file::Instruction& instruction) {
  const std::string& target = instruction.custom_call_target();
  if (instruction.opcode() == "replica-id" || instruction.opcode() == "partition-id") {
    return "a program does not know the number of its rank; give it as an input";
  }
  if (is_random(instruction.opcode())) {
    return "random values cannot be repeated by another runtime; give them as an input";
  }
  if (instruction.opcode() != "custom-call") {
    return "the opcode is not known; neuron-compile --framework XLA --list-operators shows those "
           "that are";
  }
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
      : module_(module), limits_(limits), builder_(name, limits) {
    for (const file::Computation& computation : module.computations()) {
      computations_.try_emplace(computation.id(), &computation);
    }
  }

  Imported import();

 private:
  const file::Computation* find(int64_t id) const;
  std::vector<std::string> output_names(const file::Computation& entry) const;
  std::map<int64_t, Value> donors() const;  // by output
  void add_outputs(const file::Computation& entry, const Values& results);
  Values run(const file::Computation& computation, const Values& arguments);
  Values run_called(int64_t id, const Values& arguments);
  Values step(const file::Instruction& instruction, std::vector<Values> operands);
  Step::Combination combination(int64_t id);
  Value parameter(const file::Instruction& instruction);
  void check(const file::Instruction& instruction, const Values& values);
  void refuse(const file::Instruction& instruction, RefusalClass kind, const std::string& sentence);

  const file::Module& module_;
  const graph::Limits limits_;
  Builder builder_;
  std::map<int64_t, const file::Computation*> computations_;
  std::map<int64_t, Step::Combination> combinations_;  // of those that were asked for
  std::vector<Refusal> refusals_;
  std::set<std::pair<std::string, std::string>> refused_;  // node and sentence of each
  std::map<int64_t, Value> parameters_;                    // of the entry, by number
  std::vector<Value> donors_;                              // of the outputs
  bool stopped_ = false;
  int nested_ = 0;
  int each_ = 0;  // computations of numbers that run for each element of arrays
  int64_t steps_ = 0;
};

const file::Computation* Importer::find(int64_t id) const {
  const auto found = computations_.find(id);
  return found != computations_.end() ? found->second : nullptr;
}

void Importer::refuse(const file::Instruction& instruction, RefusalClass kind,
                      const std::string& sentence) {
  if (stopped_ || !refused_.emplace(instruction.name(), sentence).second) return;
  refusals_.push_back({kind, instruction.name(), instruction.opcode(), sentence, {}});
  if (refusals_.size() < kMostRefusals) return;
  stopped_ = true;
  refusals_.push_back({RefusalClass::kForm,
                       "",
                       "",
                       base::format("{} refusals; what follows is not looked at", kMostRefusals),
                       {}});
}

Value Importer::parameter(const file::Instruction& instruction) {
  const auto type = type_of(instruction.shape().element_type());
  const bool dynamic = std::count(instruction.shape().is_dynamic_dimension().begin(),
                                  instruction.shape().is_dynamic_dimension().end(), true) != 0;
  if (!type) {
    return builder_.fail("a parameter of element type {}",
                         element_type_text(instruction.shape().element_type()));
  }
  if (dynamic) return builder_.fail("a dimension is dynamic; trace with static shapes");
  if (!usual_layout(instruction.shape())) {
    return builder_.fail("a layout other than that of rows; give the parameter that of its array");
  }
  if (instruction.parameter_number() < 0 ||
      parameters_.count(instruction.parameter_number()) != 0) {
    return builder_.fail("two parameters, or none, have the number {}",
                         instruction.parameter_number());
  }
  const Shape shape = shape_of(instruction.shape());
  if (std::count(shape.begin(), shape.end(), 0) != 0) return builder_.fail("no elements");
  return builder_.input(instruction.name(), *type, shape);
}

// What a computation of two scalars does: its root is an operation of both parameters, or the
// second one.
Step::Combination combination_of(const file::Computation& computation) {
  for (const file::Instruction& root : computation.instructions()) {
    if (root.id() != computation.root_id()) continue;
    if (root.opcode() == "parameter") return {std::nullopt, root.parameter_number() == 1};
    if (root.opcode() == "copy" && root.operand_ids_size() == 1) {
      for (const file::Instruction& source : computation.instructions()) {
        if (source.id() != root.operand_ids(0) || source.opcode() != "parameter") continue;
        return {std::nullopt, source.parameter_number() == 1};
      }
    }
    if (root.operand_ids_size() != 2) return {};
    constexpr std::pair<const char*, Function> kFunctions[] = {
        {"add", Function::kAdd},         {"multiply", Function::kMultiply},
        {"maximum", Function::kMaximum}, {"minimum", Function::kMinimum},
        {"and", Function::kAnd},         {"or", Function::kOr}};
    int parameters = 0;
    for (const file::Instruction& operand : computation.instructions()) {
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

Step::Combination Importer::combination(int64_t id) {
  const auto [place, is_new] = combinations_.try_emplace(id);
  const file::Computation* computation = find(id);
  if (is_new && computation != nullptr) place->second = combination_of(*computation);
  return place->second;
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
    const bool random = is_random(instruction.opcode());
    refuse(instruction, random ? RefusalClass::kRandom : RefusalClass::kOperator,
           unknown(instruction));
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
    if (stopped_) return {};
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
        parameters_[instruction.parameter_number()] = value;
      } else {
        refuse(instruction, RefusalClass::kForm, builder_.problem());
        builder_.clear();
        values[instruction.id()] = {};
      }
      continue;
    }
    std::vector<Values> operands;
    bool whole = true;
    for (const int64_t id : instruction.operand_ids()) {
      const auto found = values.find(id);
      if (found == values.end()) {
        refuse(instruction, RefusalClass::kInvalid,
               base::format("its operand {} is made by no instruction before it", id));
      }
      whole = whole && found != values.end() && !found->second.empty();
      if (whole) operands.push_back(found->second);
    }
    // What uses a refused instruction is not refused a second time.
    values[instruction.id()] = whole ? step(instruction, std::move(operands)) : Values();
  }
  const auto root = values.find(computation.root_id());
  if (root != values.end() && !(root->second.empty() && refusals_.empty())) return root->second;
  if (refusals_.empty()) {
    refusals_.push_back(
        {RefusalClass::kInvalid, computation.name(), "", "the computation gives nothing", {}});
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
std::map<int64_t, Value> Importer::donors() const {
  std::map<int64_t, Value> donors;
  for (const auto& alias : module_.input_output_alias().entries()) {
    const auto& place = alias.output_shape_index();
    const auto found = parameters_.find(alias.parameter_number());
    if (found != parameters_.end()) donors.emplace(place.empty() ? 0 : place.Get(0), found->second);
  }
  return donors;
}

void Importer::add_outputs(const file::Computation& entry, const Values& results) {
  std::vector<std::string> names = output_names(entry);
  if (names.size() != results.size()) names.clear();
  const std::map<int64_t, Value> given = donors();
  std::set<Value> used;
  for (size_t i = 0; i < results.size(); ++i) {
    const Value value = results[i];
    const auto found = given.find(static_cast<int64_t>(i));
    const Value donor = found != given.end() ? found->second : graph::kNone;
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
    if (donor != graph::kNone && !used.insert(donor).second) {
      refusals_.push_back({RefusalClass::kInvalid,
                           name,
                           "",
                           "it is to have the memory of a parameter that another output has",
                           {}});
    }
    builder_.output(name, value);
    donors_.push_back(donor);
  }
  if (donors_.empty() && builder_.ok() && !results.empty()) {
    refusals_.push_back({RefusalClass::kEmpty,
                         names.empty() ? "output0" : names[0],
                         "",
                         base::format("the output has the shape {}, which has no elements, and no "
                                      "other has any: nothing is left to execute",
                                      graph::shape_text(builder_.shape(results[0]))),
                         {}});
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
  imported.graph.inputs.clear();
  for (const auto& [number, value] : parameters_) imported.graph.inputs.push_back(value);
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
