// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/model_reader.h"

#include <charconv>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "runtime/neff/definition_reader.h"
#include "runtime/neff/engine_binary.h"
#include "runtime/neff/graph_reader.h"
#include "runtime/neff/subgraph_index.h"
#include "runtime/neff/text.h"
#include "runtime/neff/transfer_reader.h"

namespace neuron::neff {

using runtime::fail;
using runtime::Result;

namespace {

class Loader {
 public:
  Loader(const Container& container, const Target& target, const ModelLimits& limits)
      : container_(container), target_(target), limits_(limits) {}

  Result<Model> load();

 private:
  Result<void> check_target() const;
  Result<void> load_subgraph(const std::string& directory);
  Result<EngineProgram> load_program(const EngineFiles& files, uint8_t engine, uint32_t generation,
                                     const Subgraph& subgraph, const SubgraphIndex& index);
  Result<void> resolve_peers();
  Result<void> resolve_peer(const Subgraph& from, const SubgraphIndex* other,
                            Relocation& relocation) const;
  Result<void> check_shared(const Subgraph& subgraph, const Variable& variable,
                            const Subgraph* other, uint32_t found) const;
  Result<void> bind_tensors(const std::vector<GraphTensor>& from, bool inputs);
  Result<void> check_all_bound() const;

  const Container& container_;
  const Target& target_;
  const ModelLimits& limits_;
  Graph graph_;
  Model model_;
};

// Finds what relocations and calls name. Block ids and functions are looked up by hash: a hostile
// file has as many relocations as transfers.
class Resolver {
 public:
  Resolver(const Subgraph& subgraph, const SubgraphIndex& index, EngineProgram& program,
           const std::string& member)
      : subgraph_(subgraph), index_(index), program_(program), member_(member) {
    for (size_t i = 0; i < program.dma.size(); ++i) {
      const DmaTransfer& transfer = program.dma[i];
      blocks_.try_emplace({transfer.function ? *transfer.function : kNoTarget, transfer.id},
                          static_cast<uint32_t>(i));
    }
    for (uint32_t i = 0; i < program.entries.size(); ++i) {
      entries_.try_emplace(program.entries[i].name, i);
      if (program.entries[i].kind == NEURON_ENTRY_FUNCTION) functions_[program.entries[i].pc] = i;
    }
  }

  Result<void> resolve_all() {
    for (Relocation& relocation : program_.relocations) NEURON_CHECK(resolve(relocation));
    return {};
  }

 private:
  Result<void> resolve(Relocation& relocation);
  Result<void> resolve_variable(Relocation& relocation);
  Result<void> resolve_semaphore(Relocation& relocation);
  Result<void> resolve_block(Relocation& relocation);

  template <class... A>
  runtime::Error refuse(const Relocation& relocation, fmt::format_string<A...> text,
                        A&&... arguments) {
    return fail(NRT_INVALID, "{}: relocation of \"{}\" at instruction {}, byte {}: {}", member_,
                printable(relocation.symbol), relocation.pc, relocation.field,
                base::format_arguments(text, fmt::make_format_args(arguments...)));
  }

  const Subgraph& subgraph_;
  const SubgraphIndex& index_;
  EngineProgram& program_;
  const std::string& member_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> blocks_;  // By function and id
  std::unordered_map<std::string_view, uint32_t> entries_;
  std::map<uint32_t, uint32_t> functions_;  // First instruction to entry
};

Result<void> Resolver::resolve(Relocation& relocation) {
  relocation.target = kNoTarget;
  switch (relocation.kind) {
    case NEURON_RELOC_VAR_ADDR:
      return resolve_variable(relocation);
    case NEURON_RELOC_DMA_BLOCK:
      return resolve_block(relocation);
    case NEURON_RELOC_QUEUE:
      relocation.target = index_.queue(relocation.symbol);
      if (relocation.target == kNoTarget) {
        return refuse(relocation, "def.json has no such queue set");
      }
      return {};
    case NEURON_RELOC_SEMAPHORE:
    case NEURON_RELOC_SEM_ADDR:
      return resolve_semaphore(relocation);
    case NEURON_RELOC_PC: {
      const auto found = entries_.find(relocation.symbol);
      if (found == entries_.end()) return refuse(relocation, "the binary has no such entry");
      relocation.target = found->second;
      return {};
    }
    case NEURON_RELOC_CORE:
      if (relocation.symbol != "self" && relocation.symbol != "peer" &&
          !relocation.symbol.starts_with("cc:")) {
        return refuse(relocation, "expected self, peer or cc:N");
      }
      return {};
    default:
      if (!relocation.symbol.starts_with("rank:")) return refuse(relocation, "expected rank:N");
      return {};
  }
}

Result<void> Resolver::resolve_variable(Relocation& relocation) {
  relocation.target = index_.variable(relocation.symbol);
  if (relocation.target == kNoTarget) return refuse(relocation, "def.json has no such variable");
  const Variable& variable = subgraph_.variables[relocation.target];
  if (variable.kind == VariableKind::kInput || variable.kind == VariableKind::kOutput) {
    return refuse(
        relocation,
        "it is an input or output, whose address changes with every binding; only transfers may "
        "name it");
  }
  if (relocation.addend < 0 || static_cast<uint64_t>(relocation.addend) >= variable.size) {
    return refuse(relocation, "the addend {} lies outside its {} bytes", relocation.addend,
                  variable.size);
  }
  return {};
}

Result<void> Resolver::resolve_semaphore(Relocation& relocation) {
  if (relocation.kind == NEURON_RELOC_SEM_ADDR) {
    constexpr int64_t kAlias = NEURON_SEM_BLOCK_INC - NEURON_SEM_BLOCK_SET;
    const int64_t addend = relocation.addend;
    if (addend != -2 * kAlias && addend != -kAlias && addend != 0 && addend != kAlias) {
      return refuse(relocation,
                    "the addend is {:#x}, expected that of the read, set, inc or dec alias",
                    addend);
    }
  }
  // resolve_peers() finds those of the other core, when its subgraph has been read.
  if (relocation.of_peer() || relocation.symbol.starts_with("cc:")) return {};
  relocation.target = index_.semaphore(relocation.symbol);
  if (relocation.target == kNoTarget) return refuse(relocation, "def.json has no such semaphore");
  return {};
}

Result<void> Resolver::resolve_block(Relocation& relocation) {
  uint32_t id = 0;
  const char* end = relocation.symbol.data() + relocation.symbol.size();
  const auto [stop, error] = std::from_chars(relocation.symbol.data(), end, id);
  if (error != std::errc() || stop != end || relocation.symbol.empty()) {
    return refuse(relocation, "expected the decimal id of a transfer");
  }
  // Ids are per function: that of the function whose instructions hold the trigger, else of the
  // main program.
  uint32_t function = kNoTarget;
  auto next = functions_.upper_bound(relocation.pc);
  if (next != functions_.begin()) {
    const uint32_t candidate = std::prev(next)->second;
    const ProgramEntry& entry = program_.entries[candidate];
    if (relocation.pc - entry.pc < entry.length) function = candidate;
  }
  const auto found = blocks_.find({function, id});
  if (found == blocks_.end()) {
    return refuse(
        relocation, "the engine's JSON has no transfer with this id for {}",
        function == kNoTarget ? "the main program" : program_.entries[function].name.c_str());
  }
  relocation.target = found->second;
  const uint8_t* instruction =
      program_.code.data() + uint64_t{relocation.pc} * NEURON_INSTRUCTION_BYTES;
  const unsigned opcode = (instruction[0] | instruction[1] << 8) & NEURON_HEAD_OPCODE_MASK;
  if (opcode != NEURON_OP_DMA_TRIGGER) {
    return refuse(relocation, "the instruction is {:#05x}, expected dma_trigger", opcode);
  }
  return {};
}

Result<void> Loader::check_target() const {
  const uint32_t wanted = target_.generation;
  const uint32_t found = graph_.generation;
  if (wanted != 0 && (found > wanted || (found < wanted && !target_.allow_older))) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                "{}: target: the program was built for {} ({}), this device is {}; build it for "
                "this device{}",
                kGraphMember, printable(graph_.target), generation_words(found),
                generation_words(wanted),
                found < wanted ? ", or set NEURON_RT_ALLOW_LEGACY_NEFF=1" : "");
  }
  const Header& header = container_.header();
  if (graph_.lnc != header.effective_lnc()) {
    return fail(NRT_INVALID, "{}: lnc is {}, the header (offset {}) says {}", kGraphMember,
                graph_.lnc, NEFF_OFF_LNC_SIZE, header.effective_lnc());
  }
  if (graph_.subgraphs.size() != header.num_tpb) {
    return fail(NRT_INVALID, "{}: {} subgraphs, the header (offset {}) says {} cores", kGraphMember,
                graph_.subgraphs.size(), NEFF_OFF_NUM_TPB, header.num_tpb);
  }
  return {};
}

Result<Model> Loader::load() {
  NEURON_CHECK(check_compatible(container_, target_));
  NEURON_TRY(graph, read_graph(container_, limits_, model_.notes));
  graph_ = std::move(graph);
  NEURON_CHECK(check_target());
  model_.name = container_.header().name;
  model_.uuid = container_.header().uuid;
  model_.target = graph_.target;
  model_.generation = graph_.generation;
  model_.lnc = graph_.lnc;
  for (const std::string& directory : graph_.subgraphs) NEURON_CHECK(load_subgraph(directory));
  NEURON_CHECK(resolve_peers());
  NEURON_CHECK(bind_tensors(graph_.inputs, true));
  NEURON_CHECK(bind_tensors(graph_.outputs, false));
  NEURON_CHECK(check_all_bound());
  return std::move(model_);
}

Result<void> Loader::load_subgraph(const std::string& directory) {
  NEURON_TRY(definition, read_definition(container_, directory, limits_, model_.notes));
  if (definition.generation != graph_.generation) {
    return fail(NRT_INVALID, "{}/def.json: program.generation is {}, the target {} of {} is {}",
                directory, definition.generation, printable(graph_.target), kGraphMember,
                graph_.generation);
  }
  Subgraph& subgraph = definition.subgraph;
  const SubgraphIndex index(subgraph);
  for (uint8_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    subgraph.engines[engine].engine = engine;
    subgraph.engines[engine].generation = static_cast<uint8_t>(definition.generation);
    if (definition.engines[engine].bin.empty()) continue;
    NEURON_TRY(program, load_program(definition.engines[engine], engine, definition.generation,
                                     subgraph, index));
    subgraph.engines[engine] = std::move(program);
  }
  for (const EngineFiles& files : definition.collectives) {
    NEURON_TRY(program,
               load_program(files, NEURON_ENGINE_CC, definition.generation, subgraph, index));
    subgraph.collectives.push_back({std::move(program), files.stream});
  }
  subgraph.debug = read_debug_info(container_, directory, limits_, model_.notes);
  model_.subgraphs.push_back(std::move(subgraph));
  return {};
}

Result<EngineProgram> Loader::load_program(const EngineFiles& files, uint8_t engine,
                                           uint32_t generation, const Subgraph& subgraph,
                                           const SubgraphIndex& index) {
  NEURON_TRY(program, read_engine_binary(container_.find(files.bin)->bytes, files.bin,
                                         limits_.instructions));
  if (program.engine != engine) {
    return fail(NRT_INVALID, "{}: a program of {}, expected one of {}", files.bin,
                engine_name(program.engine), engine_name(engine));
  }
  if (program.generation != generation) {
    return fail(NRT_INVALID, "{}: generation is {}, def.json says {}", files.bin,
                program.generation, generation);
  }
  if (!files.json.empty()) {
    NEURON_CHECK(
        read_engine_json(container_, files.json, subgraph, index, limits_, program, model_.notes));
  }
  NEURON_CHECK(Resolver(subgraph, index, program, files.bin).resolve_all());
  return std::move(program);
}

// Finds what the programs name of the other core of a virtual core of two.
Result<void> Loader::resolve_peers() {
  const bool pair = model_.lnc == 2 && model_.subgraphs.size() == 2;
  const std::vector<SubgraphIndex> indices(model_.subgraphs.begin(), model_.subgraphs.end());
  for (size_t s = 0; s < model_.subgraphs.size(); ++s) {
    Subgraph& subgraph = model_.subgraphs[s];
    for (const Variable& variable : subgraph.variables) {
      if (!variable.shared) continue;
      NEURON_CHECK(check_shared(subgraph, variable, pair ? &model_.subgraphs[1 - s] : nullptr,
                                pair ? indices[1 - s].variable(variable.name) : kNoTarget));
    }
    for (const Semaphore& semaphore : subgraph.semaphores) {
      if (pair || semaphore.number >= NEURON_SEM_PROGRAM_FIRST) continue;
      return fail(NRT_INVALID,
                  "{}/def.json: semaphore \"{}\" is number {}, which the other core of a logical "
                  "core of two raises; this program is for logical cores of {}; number it {} to {}",
                  subgraph.name, printable(semaphore.name), semaphore.number, model_.lnc,
                  NEURON_SEM_PROGRAM_FIRST, NEURON_SEM_PROGRAM_LAST);
    }
    for (EngineProgram& program : subgraph.engines) {
      for (const DmaTransfer& transfer : program.dma) {
        if (pair || transfer.remote_semaphores.empty()) continue;
        return fail(NRT_INVALID,
                    "{}: transfer {} of engine {} increments {} semaphores of another core "
                    "(remote_semaphores); this program is for logical cores of {}, and only one of "
                    "2 has another core; build it for 2, or without them",
                    subgraph.name, transfer.id, engine_name(program.engine),
                    transfer.remote_semaphores.size(), model_.lnc);
      }
      for (Relocation& relocation : program.relocations) {
        NEURON_CHECK(resolve_peer(subgraph, pair ? &indices[1 - s] : nullptr, relocation));
      }
    }
  }
  return {};
}

// `found`: the variable of that name of the other core; kNoTarget: there is none.
Result<void> Loader::check_shared(const Subgraph& subgraph, const Variable& variable,
                                  const Subgraph* other, uint32_t found) const {
  const auto refuse = [&](const std::string& why) {
    return fail(NRT_INVALID, "{}/def.json: var.{} is shared by the two cores of a logical core, {}",
                subgraph.name, printable(variable.name), why);
  };
  if (other == nullptr) {
    return refuse(base::format("but this program is for logical cores of {}", model_.lnc));
  }
  if (found == kNoTarget || !other->variables[found].shared) {
    return refuse(base::format("but {}/def.json has no shared variable of that name", other->name));
  }
  if (other->variables[found].size != variable.size) {
    return refuse(base::format("but has {} bytes, and {} in {}/def.json", variable.size,
                               other->variables[found].size, other->name));
  }
  return {};
}

Result<void> Loader::resolve_peer(const Subgraph& from, const SubgraphIndex* other,
                                  Relocation& relocation) const {
  const bool semaphore = relocation.of_peer() && (relocation.kind == NEURON_RELOC_SEMAPHORE ||
                                                  relocation.kind == NEURON_RELOC_SEM_ADDR);
  const bool window = relocation.kind == NEURON_RELOC_CORE && relocation.symbol == "peer";
  if (!semaphore && !window) return {};
  const auto refuse = [&](const std::string& why) {
    return fail(NRT_INVALID, "{}: relocation of \"{}\" at instruction {}, byte {}: {}", from.name,
                printable(relocation.symbol), relocation.pc, relocation.field, why);
  };
  if (other == nullptr) {
    return refuse(base::format(
        "it is of the other core, but this program is for logical cores of {}, and only one of 2 "
        "has another core",
        model_.lnc));
  }
  if (window) return {};
  relocation.target = other->semaphore(std::string_view(relocation.symbol).substr(5));
  if (relocation.target == kNoTarget) {
    return refuse("the def.json of the other core has no such semaphore");
  }
  const Subgraph& there = model_.subgraphs[&from == &model_.subgraphs[0] ? 1 : 0];
  const unsigned number = there.semaphores[relocation.target].number;
  if (number > NEURON_SEM_PAIR_LAST) {
    return refuse(base::format(
        "it is number {} there; the other core raises those of {} to {} only, which no launch "
        "clears and for which a core may wait as long as its other one works",
        number, NEURON_SEM_PAIR_FIRST, NEURON_SEM_PAIR_LAST));
  }
  return {};
}

Result<void> Loader::bind_tensors(const std::vector<GraphTensor>& from, bool inputs) {
  std::vector<TensorInfo>& out = inputs ? model_.inputs : model_.outputs;
  const VariableKind expected = inputs ? VariableKind::kInput : VariableKind::kOutput;
  // A tensor that is read and written is in both lists; its variable may be of either kind.
  const std::vector<GraphTensor>& others = inputs ? graph_.outputs : graph_.inputs;
  std::unordered_map<std::string_view, const GraphTensor*> aliases;
  for (const GraphTensor& other : others) aliases.emplace(other.info.name, &other);
  const std::vector<SubgraphIndex> indices(model_.subgraphs.begin(), model_.subgraphs.end());
  for (const GraphTensor& tensor : from) {
    TensorInfo info = tensor.info;
    const std::vector<Variable>& variables = model_.subgraphs[info.subgraph].variables;
    const uint32_t index = indices[info.subgraph].variable(tensor.variable);
    auto refuse = [&](const std::string& why) {
      return fail(NRT_INVALID, "{}: {} \"{}\": variable \"{}\" of {} {}", kGraphMember,
                  inputs ? "input" : "output", printable(info.name), printable(tensor.variable),
                  graph_.subgraphs[info.subgraph], why);
    };
    if (index == kNoTarget) return refuse("does not exist in def.json");
    const Variable& found = variables[index];
    const auto alias = aliases.find(info.name);
    const bool both = alias != aliases.end();
    if (both &&
        (alias->second->variable != tensor.variable || alias->second->info.size != info.size ||
         alias->second->info.subgraph != info.subgraph)) {
      return refuse("is not the one that the other list gives for this name");
    }
    if (found.kind != expected &&
        !(both && (found.kind == VariableKind::kInput || found.kind == VariableKind::kOutput))) {
      return refuse(inputs ? "is not of type input" : "is not of type output");
    }
    if (found.size != info.size) {
      return refuse(base::format("has {} bytes, the tensor {}", found.size, info.size));
    }
    info.variable = index;
    out.push_back(std::move(info));
  }
  return {};
}

// A transfer that names an input or output variable without a tensor would have no address.
Result<void> Loader::check_all_bound() const {
  std::map<std::pair<uint32_t, uint32_t>, const TensorInfo*> bound;
  std::unordered_set<std::string_view> names;
  for (const auto* list : {&model_.inputs, &model_.outputs}) {
    for (const TensorInfo& info : *list) {
      const auto [place, added] = bound.try_emplace({info.subgraph, info.variable}, &info);
      const std::string& variable = model_.subgraphs[info.subgraph].variables[info.variable].name;
      names.insert(variable);
      if (!added && place->second->name != info.name) {
        return fail(NRT_INVALID, "{}: tensors \"{}\" and \"{}\" share the variable \"{}\"",
                    kGraphMember, printable(place->second->name), printable(info.name),
                    printable(variable));
      }
    }
  }
  for (uint32_t s = 0; s < model_.subgraphs.size(); ++s) {
    const std::vector<Variable>& variables = model_.subgraphs[s].variables;
    for (uint32_t v = 0; v < variables.size(); ++v) {
      const bool io =
          variables[v].kind == VariableKind::kInput || variables[v].kind == VariableKind::kOutput;
      // The cores of one logical core share a variable by its name.
      const bool shared = model_.lnc > 1 && names.contains(variables[v].name);
      if (io && !shared && !bound.contains({s, v})) {
        return fail(NRT_INVALID, "{}/def.json: var.{}: an input or output that {} does not list",
                    model_.subgraphs[s].name, printable(variables[v].name), kGraphMember);
      }
    }
  }
  return {};
}

}  // namespace

Result<Model> load_model(const Container& container, const Target& target,
                         const ModelLimits& limits) {
  return Loader(container, target, limits).load();
}

}  // namespace neuron::neff
