// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/onnx/importer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "tools/compiler/onnx/call.h"
#include "tools/compiler/onnx/model.pb.h"
#include "tools/compiler/onnx/needed_nodes.h"
#include "tools/compiler/onnx/operator_table.h"
#include "tools/compiler/onnx/tensor_reader.h"
#include "tools/compiler/onnx/unknown_bindings.h"

namespace neuron::onnx {
namespace {

using graph::Refusal;
using graph::RefusalClass;
using runtime::Result;

constexpr int kMostNested = 24;
// A model with more of them is not one that somebody can mend one by one.
constexpr size_t kMostRefusals = 1000;
constexpr int64_t kOldest = 1, kNewest = 22;

using Scope = std::map<std::string, Item>;
using Sets = std::map<std::string, int64_t>;  // domain to version

// What a node is called: many exporters name none, so that only its first output tells it.
std::string label(const file::NodeData& node) {
  return !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
}

class Importer {
 public:
  Importer(const file::ModelData& model, const std::string& name, const std::string& folder,
           const Bindings& bindings)
      : model_(model), folder_(folder), bindings_(bindings), builder_(name, bindings.limits) {
    for (const file::FunctionData& function : model.functions()) {
      functions_.try_emplace({function.domain(), function.name()}, &function);
    }
  }

  Imported run();

 private:
  void refuse(RefusalClass kind, const std::string& node, const std::string& operator_name,
              const std::string& sentence, const std::vector<Value>& to_bind = {});
  bool read_operator_sets();
  void read_initializers(const file::GraphData& graph, Scope& scope);
  void read_input(const file::ValueData& input, Scope& scope);
  void read_tensor_input(const file::ValueData& input, const file::TypeData::Tensor& type,
                         Scope& scope);
  bool read_bound(const file::ValueData& input, Scope& scope);
  void import_nodes(const google::protobuf::RepeatedPtrField<file::NodeData>& nodes,
                    const Sets& sets);
  void import_node(const file::NodeData& node, const Sets& sets);
  void import_operator(const file::NodeData& node, const Sets& sets, std::vector<Item> inputs);
  std::vector<Item> import_function(const file::FunctionData& function, const file::NodeData& node,
                                    const std::vector<Item>& inputs);
  std::vector<Item> import_body(const file::GraphData& body, const std::vector<Item>& inputs,
                                const Sets& sets);
  const Item* find(const std::string& name) const;
  const file::FunctionData* function_of(const file::NodeData& node) const;
  void set_outputs(const file::NodeData& node, const std::vector<Item>& results);
  // An output that its operator does not give is refused where it is needed.
  void refuse_if_lacking(const std::string& name, const Item& item);
  void add_output(const std::string& name, const Item& item);
  std::vector<std::string> inputs_behind(const std::vector<Value>& values) const;

  const file::ModelData& model_;
  const std::string folder_;
  const Bindings& bindings_;
  Builder builder_;
  Sets sets_;
  std::vector<std::vector<Scope>> frames_;      // of functions; in each, of graphs and their bodies
  std::optional<Needed> needed_;                // only this part of the model is imported
  std::map<std::string, std::string> lacking_;  // outputs that operators do not give, and why
  std::vector<Refusal> refusals_;
  std::set<std::pair<std::string, std::string>> refused_;  // node and sentence of each
  std::map<std::pair<std::string, std::string>, const file::FunctionData*> functions_;
  std::vector<std::string> inputs_;
  int nested_ = 0;
  int64_t steps_ = 0;  // nodes imported, of all rounds of loops
  bool stopped_ = false;
};

void Importer::refuse(RefusalClass kind, const std::string& node, const std::string& operator_name,
                      const std::string& sentence, const std::vector<Value>& to_bind) {
  Refusal refusal{kind, node, operator_name, sentence, inputs_behind(to_bind)};
  if (kind == RefusalClass::kBinding && !refusal.inputs.empty()) {
    refusal.sentence += ": from ";
    std::string cure;
    for (const std::string& input : refusal.inputs) {
      const std::string name = base::escaped(input);
      refusal.sentence += (cure.empty() ? "input \"" : " and input \"") + name + "\"";
      cure += " --constant " + name + "=VALUE";
    }
    refusal.sentence += "; say" + cure;
  }
  // A node in a loop's body would be refused in each round.
  if (stopped_ || !refused_.emplace(node, refusal.sentence).second) return;
  refusals_.push_back(std::move(refusal));
  if (refusals_.size() < kMostRefusals) return;
  stopped_ = true;
  refusals_.push_back({RefusalClass::kForm,
                       "",
                       "",
                       base::format("{} refusals; what follows is not looked at", kMostRefusals),
                       {}});
}

std::vector<std::string> Importer::inputs_behind(const std::vector<Value>& values) const {
  if (values.empty()) return {};
  const auto& nodes = builder_.graph().nodes;
  std::vector<bool> marks(nodes.size(), false);
  for (const Value value : values) marks[static_cast<size_t>(value)] = true;
  std::set<Value> found;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!marks[i]) continue;
    if (nodes[i].kind == graph::Kind::kInput) found.insert(static_cast<Value>(i));
    for (const Value operand : nodes[i].operands) marks[static_cast<size_t>(operand)] = true;
  }
  std::vector<std::string> names;
  for (const Value value : found) names.push_back(nodes[static_cast<size_t>(value)].name);
  return names;
}

bool Importer::read_operator_sets() {
  for (const file::OperatorSet& set : model_.opset_import()) {
    const std::string domain = set.domain() == "ai.onnx" ? "" : set.domain();
    sets_[domain] = set.version();
    if (domain.empty() && (set.version() < kOldest || set.version() > kNewest)) {
      refuse(RefusalClass::kForm, "", "",
             base::format("the model needs operator set {} of ONNX; {} to {} are known; export it "
                          "with one of these",
                          set.version(), kOldest, kNewest));
      return false;
    }
  }
  sets_.try_emplace("", 1);  // of models before operator sets had numbers
  return true;
}

void Importer::read_initializers(const file::GraphData& graph, Scope& scope) {
  for (const file::TensorData& data : graph.initializer()) {
    auto tensor = read_tensor(data, folder_);
    if (!tensor) {
      refuse(is_text(data.data_type()) ? RefusalClass::kStrings : RefusalClass::kForm, data.name(),
             "", tensor.error().sentence);
      scope[data.name()].kind = Item::Kind::kRefused;
      continue;
    }
    // A body is read again in each round of its loop.
    const bool weights = &graph == &model_.graph();
    scope[data.name()] = Item::of(weights ? builder_.weights(std::move(*tensor))
                                          : builder_.constant(std::move(*tensor)));
    if (builder_.ok()) continue;
    refuse(RefusalClass::kForm, data.name(), "", builder_.problem());
    builder_.clear();
    scope[data.name()].kind = Item::Kind::kRefused;
  }
}

bool Importer::read_bound(const file::ValueData& input, Scope& scope) {
  const std::string& name = input.name();
  if (const auto found = bindings_.constants.find(name); found != bindings_.constants.end()) {
    const auto type = type_of(input.type().tensor_type().elem_type());
    const Value value = builder_.constant(found->second);
    scope[name] = Item::of(type ? builder_.cast(value, *type) : value);
    return true;
  }
  if (const auto found = bindings_.sequences.find(name); found != bindings_.sequences.end()) {
    std::vector<Item> elements;
    for (const Tensor& tensor : found->second) {
      elements.push_back(Item::of(builder_.constant(tensor)));
    }
    scope[name] = Item::sequence(std::move(elements));
    return true;
  }
  const auto& absent = bindings_.absent;
  if (std::find(absent.begin(), absent.end(), name) == absent.end()) return false;
  scope[name] = Item();
  return true;
}

void Importer::read_tensor_input(const file::ValueData& input, const file::TypeData::Tensor& type,
                                 Scope& scope) {
  const auto element = type_of(type.elem_type());
  if (!element) {
    refuse(is_text(type.elem_type()) ? RefusalClass::kStrings : RefusalClass::kForm, input.name(),
           "", "the input has " + data_type_text(type.elem_type()));
    return;
  }
  Shape shape;
  std::string text, example;
  int free = 0;
  bool of_batch = false;  // the first dimension alone is free
  const auto bound = bindings_.shapes.find(input.name());
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    const auto& dimension = type.shape().dim(i);
    // Older exporters write free dimensions as -1.
    const bool fixed = dimension.has_dim_value() && dimension.dim_value() >= 0;
    int64_t size = fixed ? dimension.dim_value() : 0;
    const auto named = bindings_.dimensions.find(dimension.dim_param());
    if (!fixed) {
      if (named != bindings_.dimensions.end()) {
        size = named->second;
      } else if (i == 0) {
        size = bindings_.batch;
      }
      if (size == 0) of_batch = ++free == 1 && i == 0;
    }
    text += (text.empty() ? "" : ", ") + (fixed ? std::to_string(size)
                                          : dimension.dim_param().empty()
                                              ? "?"
                                              : base::escaped(dimension.dim_param()));
    example += (example.empty() ? "" : "x") + std::to_string(std::max<int64_t>(1, size));
    shape.push_back(size);
  }
  if (bound != bindings_.shapes.end()) {
    shape = bound->second;
  } else if (free > 0 || !type.has_shape()) {
    const std::string name = base::escaped(input.name());
    refuse(RefusalClass::kShape, input.name(), "",
           !type.has_shape()
               ? base::format("the input has no shape; say --shape {}=1x3x224x224", name)
               : base::format(
                     "the input [{}] has {}; say --shape {}={}{}", text,
                     free == 1 ? "a free dimension" : std::to_string(free) + " free dimensions",
                     name, example, of_batch ? ", or --batch 1" : ""));
    return;
  }
  if (std::count(shape.begin(), shape.end(), 0) != 0) {
    refuse(RefusalClass::kEmpty, input.name(), "",
           base::format("the input has the shape {}, which has no elements; bind it with "
                        "--constant, or give it another shape",
                        graph::shape_text(shape)));
    return;
  }
  const Value value = builder_.input(input.name(), *element, shape);
  if (!builder_.ok()) {
    refuse(RefusalClass::kForm, input.name(), "", builder_.problem());
    builder_.clear();
    return;
  }
  scope[input.name()] = Item::of(value);
}

void Importer::read_input(const file::ValueData& input, Scope& scope) {
  if (scope.count(input.name()) != 0) return;  // an initializer
  inputs_.push_back(input.name());
  if (read_bound(input, scope)) {
    if (builder_.ok()) return;
    refuse(RefusalClass::kForm, input.name(), "", builder_.problem());
    builder_.clear();
    scope[input.name()].kind = Item::Kind::kRefused;
    return;
  }
  scope[input.name()].kind = Item::Kind::kRefused;
  const file::TypeData& type = input.type();
  if (type.has_tensor_type()) return read_tensor_input(input, type.tensor_type(), scope);
  if (type.optional_type().elem_type().has_tensor_type()) {
    return read_tensor_input(input, type.optional_type().elem_type().tensor_type(), scope);
  }
  Refusal refusal{RefusalClass::kBinding,
                  input.name(),
                  "",
                  "the input is a sequence, whose length must be known; bind it as a constant",
                  {input.name()}};
  refusals_.push_back(std::move(refusal));
}

const Item* Importer::find(const std::string& name) const {
  const std::vector<Scope>& scopes = frames_.back();
  for (size_t i = scopes.size(); i-- > 0;) {
    const auto found = scopes[i].find(name);
    if (found != scopes[i].end()) return &found->second;
  }
  return nullptr;
}

const file::FunctionData* Importer::function_of(const file::NodeData& node) const {
  const auto found = functions_.find({node.domain(), node.op_type()});
  return found != functions_.end() ? found->second : nullptr;
}

void Importer::set_outputs(const file::NodeData& node, const std::vector<Item>& results) {
  Item refused;
  refused.kind = Item::Kind::kRefused;
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    frames_.back().back()[node.output(i)] =
        static_cast<size_t>(i) < results.size() ? results[static_cast<size_t>(i)] : refused;
  }
}

void Importer::import_nodes(const google::protobuf::RepeatedPtrField<file::NodeData>& nodes,
                            const Sets& sets) {
  for (const file::NodeData& node : nodes) {
    if (stopped_) return;
    if (needed_ && frames_.size() == 1 && frames_[0].size() == 1 &&
        needed_->nodes.count(&node) == 0) {
      continue;
    }
    if (++steps_ > bindings_.limits.nodes) {
      refuse(RefusalClass::kForm, label(node), node.op_type(),
             base::format("the model has over {} nodes with its loops unrolled; make loops shorter",
                          bindings_.limits.nodes));
      stopped_ = true;
      return;
    }
    import_node(node, sets);
  }
}

void Importer::import_node(const file::NodeData& node, const Sets& sets) {
  std::vector<Item> inputs;
  bool refused = false;
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      inputs.emplace_back();
      continue;
    }
    const Item* item = find(name);
    if (item == nullptr) {
      refuse(RefusalClass::kInvalid, label(node), node.op_type(),
             "its input \"" + base::escaped(name) + "\" is made by no node before it");
      refused = true;
      continue;
    }
    refused = refused || item->kind == Item::Kind::kRefused;
    refuse_if_lacking(name, *item);
    inputs.push_back(*item);
  }
  // What an operator that is not known would give is not known either, so its users are not
  // refused a second time.
  if (refused) return set_outputs(node, {});
  import_operator(node, sets, std::move(inputs));
}

void Importer::import_operator(const file::NodeData& node, const Sets& sets,
                               std::vector<Item> inputs) {
  const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
  if (const file::FunctionData* function = function_of(node)) {
    return set_outputs(node, import_function(*function, node, inputs));
  }
  std::string name = node.op_type();
  const Import import = import_of(domain.empty() ? name : domain + "." + name);
  if (import == nullptr) {
    if (const RefusedOperator* known = refused_operator(name)) {
      refuse(known->kind, label(node), name, known->sentence);
      return set_outputs(node, {});
    }
    refuse(RefusalClass::kOperator, label(node), name,
           (domain.empty() ? std::string("the operator")
                           : "the operator of domain \"" + base::escaped(domain) + "\"") +
               " is not known; --list-operators shows those that are, and --end-at ends the "
               "program before it");
    return set_outputs(node, {});
  }
  const auto set = sets.find(domain);
  builder_.origin(label(node));
  Call call(builder_, node, set == sets.end() ? 1 : set->second, std::move(inputs),
            [&](const file::GraphData& body, const std::vector<Item>& given) {
              return import_body(body, given, sets);
            });
  import(call);
  // Nothing may vanish without a word: what was a list where a tensor is wanted, and the like.
  const bool whole = std::all_of(call.results().begin(), call.results().end(), [](const Item& i) {
    return i.kind != Item::Kind::kTensor || i.value >= 0;
  });
  if (!whole) builder_.fail("it gives no tensor where one is expected");
  if (!builder_.ok()) {
    refuse(call.refusal_class(), label(node), name, builder_.problem(), call.to_bind());
    builder_.clear();
    return set_outputs(node, {});
  }
  const std::vector<Item>& results = call.results();
  for (size_t i = results.size(); i < call.outputs(); ++i) {
    lacking_[node.output(static_cast<int>(i))] = base::format(
        "output {} of node \"{}\" ({}) is needed, of which only {} outputs are "
        "supported in this form; --end-at ends the program before it",
        i, base::escaped(label(node)), base::escaped(name), results.size());
  }
  set_outputs(node, results);
}

std::vector<Item> Importer::import_body(const file::GraphData& body,
                                        const std::vector<Item>& inputs, const Sets& sets) {
  if (nested_ >= kMostNested) {
    builder_.fail("graphs in graphs are over {} deep", kMostNested);
    return {};
  }
  // A round without nodes takes time, too.
  if (++steps_ > bindings_.limits.nodes) {
    builder_.fail("the model has over {} nodes with its loops unrolled; make loops shorter",
                  bindings_.limits.nodes);
    return {};
  }
  ++nested_;
  frames_.back().emplace_back();
  Scope& scope = frames_.back().back();
  for (int i = 0; i < body.input_size() && static_cast<size_t>(i) < inputs.size(); ++i) {
    scope[body.input(i).name()] = inputs[static_cast<size_t>(i)];
  }
  read_initializers(body, scope);
  const size_t before = refusals_.size();
  import_nodes(body.node(), sets);
  std::vector<Item> outputs;
  for (const file::ValueData& output : body.output()) {
    const Item* item = find(output.name());
    if (item == nullptr) {
      builder_.fail("its body gives \"{}\", which no node of it makes",
                    base::escaped(output.name()));
    }
    outputs.push_back(item != nullptr ? *item : Item());
  }
  frames_.back().pop_back();
  --nested_;
  if (refusals_.size() != before) builder_.fail("a node of its body is refused");
  return outputs;
}

// Attributes that the body takes from the call get their values.
file::NodeData substituted(const file::NodeData& node, const file::NodeData& call,
                           const file::FunctionData& function) {
  file::NodeData copy = node;
  copy.clear_attribute();
  const auto named = [](const auto& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(),
                        [&](const file::AttributeData& a) { return a.name() == name; });
  };
  for (const file::AttributeData& attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *copy.add_attribute() = attribute;
      continue;
    }
    const auto given = named(call.attribute(), attribute.ref_attr_name());
    const auto usual = named(function.attribute_proto(), attribute.ref_attr_name());
    const bool has = given != call.attribute().end();
    if (!has && usual == function.attribute_proto().end()) continue;
    file::AttributeData* value = copy.add_attribute();
    *value = has ? *given : *usual;
    value->set_name(attribute.name());
  }
  return copy;
}

std::vector<Item> Importer::import_function(const file::FunctionData& function,
                                            const file::NodeData& node,
                                            const std::vector<Item>& inputs) {
  if (nested_ >= kMostNested) {
    refuse(RefusalClass::kInvalid, label(node), node.op_type(),
           base::format("functions call each other over {} deep", kMostNested));
    return {};
  }
  ++nested_;
  Sets sets;
  for (const file::OperatorSet& set : function.opset_import()) {
    sets[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  }
  if (sets.empty()) sets = sets_;
  frames_.emplace_back(1);
  for (int i = 0; i < function.input_size(); ++i) {
    const auto number = static_cast<size_t>(i);
    frames_.back().back()[function.input(i)] = number < inputs.size() ? inputs[number] : Item();
  }
  google::protobuf::RepeatedPtrField<file::NodeData> body;
  for (const file::NodeData& inner : function.node()) {
    *body.Add() = substituted(inner, node, function);
  }
  import_nodes(body, sets);
  std::vector<Item> outputs;
  Item refused;
  refused.kind = Item::Kind::kRefused;
  for (const std::string& name : function.output()) {
    const Item* item = find(name);
    outputs.push_back(item != nullptr ? *item : refused);
  }
  frames_.pop_back();
  --nested_;
  return outputs;
}

void Importer::refuse_if_lacking(const std::string& name, const Item& item) {
  const auto found = lacking_.find(name);
  if (item.kind != Item::Kind::kRefused || found == lacking_.end()) return;
  refuse(RefusalClass::kForm, name, "", found->second);
}

void Importer::add_output(const std::string& name, const Item& item) {
  refuse_if_lacking(name, item);
  if (item.kind == Item::Kind::kSequence) {
    for (size_t i = 0; i < item.elements.size(); ++i) {
      add_output(name + "." + std::to_string(i), item.elements[i]);
    }
    return;
  }
  if (item.kind == Item::Kind::kNothing) {
    refuse(RefusalClass::kForm, name, "",
           "the output is an optional value that is absent, which has no form on the device");
  }
  if (item.kind != Item::Kind::kTensor || item.value < 0) return;
  if (graph::elements_of(builder_.shape(item.value)) == 0) {
    refuse(RefusalClass::kEmpty, name, "",
           base::format("the output has the shape {}, which has no elements",
                        graph::shape_text(builder_.shape(item.value))));
    return;
  }
  builder_.output(name, item.value);
}

Imported Importer::run() {
  Imported imported;
  if (read_operator_sets()) {
    frames_.emplace_back(1);
    Scope& scope = frames_.back().back();
    read_initializers(model_.graph(), scope);
    std::vector<std::string> ends = bindings_.end_at;
    if (ends.empty()) {
      for (const file::ValueData& output : model_.graph().output()) ends.push_back(output.name());
    } else {
      needed_ = needed_for(model_.graph(), ends);
    }
    for (const file::ValueData& input : model_.graph().input()) {
      if (!needed_ || needed_->names.count(input.name()) != 0) read_input(input, scope);
    }
    import_nodes(model_.graph().node(), sets_);
    for (const std::string& name : ends) {
      if (const Item* item = find(name)) {
        add_output(name, *item);
      } else {
        refuse(RefusalClass::kInvalid, name, "", "no node of the model makes this value");
      }
    }
  }
  imported.graph = builder_.finish();
  imported.refusals = std::move(refusals_);
  imported.inputs = std::move(inputs_);
  imported.unknown = unknown_bindings(model_.graph(), bindings_);
  return imported;
}

}  // namespace

Result<Imported> import_model(std::span<const uint8_t> bytes, const std::string& name,
                              const std::string& folder, const Bindings& bindings) {
  constexpr size_t kMostBytes = (size_t{1} << 31) - 1;
  if (bytes.size() > kMostBytes) {
    return runtime::fail(NRT_INVALID,
                         "the file has {} bytes, an ONNX file has at most {}; keep the weights in "
                         "files beside it",
                         bytes.size(), kMostBytes);
  }
  file::ModelData model;
  const bool whole = model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (bytes.empty()) return runtime::fail(NRT_INVALID, "the file is empty");
  if (!whole && model.has_graph()) {
    return runtime::fail(NRT_INVALID,
                         "the file begins as an ONNX model, but is cut off or damaged: it has {} "
                         "bytes; copy it again",
                         bytes.size());
  }
  if (!whole || !model.has_graph()) {
    return runtime::fail(NRT_INVALID, "the file is no ONNX model; expected a ModelProto message");
  }
  return Importer(model, name, folder, bindings).run();
}

}  // namespace neuron::onnx
