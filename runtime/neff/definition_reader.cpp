// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/definition_reader.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "driver/compression/stream.h"
#include "hw/udma.h"
#include "runtime/neff/collective_reader.h"
#include "runtime/neff/json_document.h"
#include "runtime/neff/json_object.h"
#include "runtime/neff/npy.h"
#include "runtime/neff/text.h"

namespace neuron::neff {

using runtime::Result;

namespace {

namespace json = boost::json;

constexpr const char* kVariableTypes[] = {"input",   "output",  "file",         "tmp-buf",
                                          "virtual", "pointer", "state-buffer", "dge-table"};
constexpr const char* kQueueTypes[] = {"in", "out", "data", "embedding_update", "dynamic"};
constexpr const char* kFabricPaths[] = {"main", "alt"};
constexpr size_t kMostQueues = 4096;
constexpr size_t kMostInstances = 4096;
constexpr uint64_t kMostRingDescriptors = 1u << 20;
constexpr uint64_t kMostAlignment = 1ull << 30;

std::string_view view(json::string_view text) { return {text.data(), text.size()}; }

class DefinitionReader {
 public:
  DefinitionReader(const Container& container, const std::string& directory,
                   const ModelLimits& limits, std::vector<std::string>& notes)
      : container_(container),
        directory_(directory),
        limits_(limits),
        checker_(directory + "/def.json", notes) {}

  Result<Definition> read() {
    const JsonLimits json_limits{limits_.json_bytes, limits_.json_depth, limits_.json_values};
    NEURON_TRY(document, read_json_object(container_, checker_.member(), json_limits));
    definition_.subgraph.name = directory_;
    {
      JsonObject top(checker_, document, nullptr, "");
      read_program(top);
      read_semaphores(top);
      read_variables(top);
      read_queues(top);
      read_engines(top);
      read_collectives(top);
      read_operations(top, limits_, definition_.generation, definition_.subgraph);
    }
    NEURON_CHECK(checker_.result());
    return std::move(definition_);
  }

 private:
  void read_program(JsonObject& top);
  void read_semaphores(JsonObject& top);
  void read_variables(JsonObject& top);
  void read_variable(JsonObject& field, Variable& variable);
  void read_constant(JsonObject& field, Variable& variable);
  void read_streams(JsonObject& field, Variable& variable);
  void read_true_size(JsonObject& field, Variable& variable);
  void resolve_references();
  void read_queues(JsonObject& top);
  void read_dynamic(JsonObject& field, QueueSet& queue);
  void read_engines(JsonObject& top);
  void read_collectives(JsonObject& top);
  EngineFiles read_files(JsonObject& field);
  std::string member_named(JsonObject& field, std::string_view key, bool required);

  const Container& container_;
  const std::string& directory_;
  const ModelLimits& limits_;
  Checker checker_;
  Definition definition_;
  // By index of the variable; resolved when all are known.
  std::unordered_map<size_t, uint32_t> pointer_ids_, counter_ids_;
  std::unordered_map<size_t, std::vector<uint64_t>> list_ids_;
};

void DefinitionReader::read_program(JsonObject& top) {
  const json::value& value = top.require("program");
  if (!checker_.ok()) return;
  JsonObject program(checker_, value, &top.path(), "program");
  const uint64_t isa = program.number("isa", 0, UINT32_MAX);
  definition_.generation = static_cast<uint32_t>(program.number("generation", 0, UINT32_MAX));
  if (isa != NEURON_ISA_VERSION) {
    checker_.unsupported(program.at("isa"),
                         "found {}, supported is version {} of the instruction set", isa,
                         NEURON_ISA_VERSION);
  }
  if (find_generation(definition_.generation) == nullptr) {
    checker_.unsupported(program.at("generation"), "found {}, expected {}", definition_.generation,
                         known_generations());
  }
}

void DefinitionReader::read_semaphores(JsonObject& top) {
  const json::object* names = top.object("semaphore");
  if (!names) return;
  const JsonPath where = top.at("semaphore");
  std::unordered_set<uint64_t> used;
  for (const auto& entry : *names) {
    const JsonPath place{&where, view(entry.key()), {}};
    if (entry.key().empty() || entry.key().find(':') != json::string_view::npos) {
      checker_.fail(place, "a semaphore's name is empty or holds a colon");
    }
    const uint64_t number =
        json_number(checker_, place, entry.value(), NEURON_SEM_PAIR_FIRST, NEURON_SEM_PROGRAM_LAST);
    if (!checker_.ok()) return;
    if (!used.insert(number).second) {
      checker_.fail(place, "semaphore {} has another name already", number);
      return;
    }
    definition_.subgraph.semaphores.push_back(
        {std::string(view(entry.key())), static_cast<uint8_t>(number)});
  }
}

void DefinitionReader::read_variables(JsonObject& top) {
  const json::object* variables = top.object("var");
  if (!variables) return;
  const JsonPath where = top.at("var");
  if (variables->size() > limits_.variables) {
    checker_.fail(where, "{} variables, at most {} are allowed", variables->size(),
                  limits_.variables);
    return;
  }
  std::unordered_set<uint32_t> ids;
  for (const auto& entry : *variables) {
    JsonObject field(checker_, entry.value(), &where, view(entry.key()));
    Variable variable;
    variable.name = std::string(view(entry.key()));
    if (variable.name.empty() || variable.name.size() > 255) {
      checker_.fail(field.path(), "a variable's name has 1 to 255 bytes, this one {}",
                    variable.name.size());
    }
    read_variable(field, variable);
    if (!checker_.ok()) return;
    if (!ids.insert(variable.id).second) {
      checker_.fail(field.at("var_id"), "{} is the id of another variable already", variable.id);
      return;
    }
    definition_.subgraph.variables.push_back(std::move(variable));
  }
  resolve_references();
}

void DefinitionReader::read_variable(JsonObject& field, Variable& variable) {
  variable.kind = static_cast<VariableKind>(field.choice("type", kVariableTypes));
  variable.id = static_cast<uint32_t>(field.number("var_id", 0, UINT32_MAX));
  variable.size = field.number("size", 1, limits_.variable_bytes);
  variable.alignment = field.number_or("alignment", 0, 0, kMostAlignment);
  if (variable.alignment & (variable.alignment - 1)) {
    checker_.fail(field.at("alignment"), "found {}, expected 0 or a power of two",
                  variable.alignment);
  }
  variable.alternate_fabric = field.choice_or("fabric_path", kFabricPaths, 0) == 1;
  field.find("ops");  // Documented as an empty list; nothing depends on it.
  const size_t index = definition_.subgraph.variables.size();
  switch (variable.kind) {
    case VariableKind::kFile:
      read_constant(field, variable);
      break;
    case VariableKind::kVirtual:
      variable.backing_offset =
          field.number_or("backing_variable_off", 0, 0, limits_.variable_bytes);
      break;
    case VariableKind::kPointer:
      pointer_ids_[index] = static_cast<uint32_t>(field.number("referenced_var_id", 0, UINT32_MAX));
      if (checker_.ok() && variable.size != 8) {
        checker_.fail(field.at("size"), "found {}, a pointer has 8 bytes", variable.size);
      }
      break;
    case VariableKind::kDgeTable:
      list_ids_[index] = field.numbers("list", limits_.variables, 0, UINT32_MAX);
      if (checker_.ok() && list_ids_[index].size() * 8 > variable.size) {
        checker_.fail(field.at("size"), "found {}, the addresses of {} variables have {} bytes",
                      variable.size, list_ids_[index].size(), list_ids_[index].size() * 8);
      }
      break;
    case VariableKind::kStateBuffer: {
      constexpr uint64_t kEnd = NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE;
      variable.core_offset = field.number_or("core_offset", 0, 0, kEnd - 1);
      const uint64_t end = variable.core_offset < NEURON_CORE_PSUM ? NEURON_CORE_PSUM : kEnd;
      if (checker_.ok() && variable.size > end - variable.core_offset) {
        checker_.fail(field.path(),
                      "{} bytes at {:#x} of the core window end behind {:#x}, the end of {}",
                      variable.size, variable.core_offset, end, end == kEnd ? "PSUM" : "SBUF");
      }
      break;
    }
    case VariableKind::kOutput:
      read_true_size(field, variable);
      break;
    case VariableKind::kTmpBuf:
      // An extension of this project.
      variable.shared = field.boolean_or("shared", false);
      break;
    default:
      break;
  }
}

// An extension of this project: outputs of which a program fills a part that depends on its data.
void DefinitionReader::read_true_size(JsonObject& field, Variable& variable) {
  const json::value* value = field.find("true_size");
  if (value == nullptr) return;
  JsonObject size(checker_, *value, &field.path(), "true_size");
  const auto id = static_cast<uint32_t>(size.number("var_id", 0, UINT32_MAX));
  variable.true_size = TrueSize{0, size.number("unit", 1, variable.size)};
  counter_ids_[definition_.subgraph.variables.size()] = id;
}

// A member of the subgraph's directory; empty after an error or, if not required, when the key is
// absent.
std::string DefinitionReader::member_named(JsonObject& field, std::string_view key, bool required) {
  const std::string name = required ? field.text(key, 512) : field.text_or(key, "", 512);
  if (!checker_.ok() || name.empty()) return {};
  std::string path = directory_ + "/" + name;
  if (!container_.find(path)) {
    checker_.fail(field.at(key), "the file has no member \"{}\"", printable(path));
    return {};
  }
  return path;
}

void DefinitionReader::read_constant(JsonObject& field, Variable& variable) {
  variable.file_name = member_named(field, "file_name", true);
  if (!checker_.ok()) return;
  variable.contents = container_.find(variable.file_name)->bytes;
  // An extension of this project: constants stored as compressed streams.
  constexpr const char* kEncodings[] = {"plain", "streams"};
  variable.compressed = field.choice_or("encoding", kEncodings, 0) == 1;
  if (variable.compressed) return read_streams(field, variable);
  if (variable.file_name.ends_with(".npy")) {
    const auto array = parse_npy(variable.contents);
    if (!array) {
      checker_.fail(field.at("file_name"), "{}: {}", printable(variable.file_name),
                    array.error().sentence);
      return;
    }
    variable.contents = array->data;
  }
  // Another one: several constants in one file.
  if (const auto offset = field.optional_number("file_offset", 0, limits_.variable_bytes)) {
    const uint64_t available = variable.contents.size();
    if (*offset > available || variable.size > available - *offset) {
      checker_.fail(field.at("file_offset"), "{} bytes at {}, but {} holds {} bytes of data",
                    variable.size, *offset, printable(variable.file_name), available);
      return;
    }
    variable.contents = variable.contents.subspan(*offset, variable.size);
  }
  if (variable.contents.size() != variable.size) {
    checker_.fail(field.at("size"), "found {}, but {} holds {} bytes of data", variable.size,
                  printable(variable.file_name), variable.contents.size());
  }
}

// Finds where the streams end; what they hold is checked when they are read.
void DefinitionReader::read_streams(JsonObject& field, Variable& variable) {
  if (variable.file_name.ends_with(".npy")) {
    checker_.fail(field.at("encoding"), "{} is an array; expected a file of streams alone",
                  printable(variable.file_name));
    return;
  }
  const uint64_t offset = field.number_or("file_offset", 0, 0, limits_.variable_bytes);
  const Bytes all = variable.contents;
  uint64_t at = std::min<uint64_t>(offset, all.size());
  uint64_t content = 0;
  for (compression::StreamHeader header; content < variable.size;) {
    if (const auto malformed = compression::read_header(all.subspan(at), header)) {
      checker_.fail(field.at("file_name"), "{}, byte {}: {}", printable(variable.file_name),
                    at + malformed.at, malformed.rule);
      return;
    }
    if (header.stream_bytes() > all.size() - at) {
      checker_.fail(field.at("file_name"), "{}, byte {}: the file ends inside a stream of {} bytes",
                    printable(variable.file_name), at, header.stream_bytes());
      return;
    }
    at += header.stream_bytes();
    content += header.content_bytes;
  }
  if (content != variable.size) {
    checker_.fail(field.at("size"), "found {}, but the streams of {} end behind {} bytes of data",
                  variable.size, printable(variable.file_name), content);
    return;
  }
  variable.contents = all.subspan(offset, at - offset);
}

void DefinitionReader::resolve_references() {
  std::vector<Variable>& variables = definition_.subgraph.variables;
  std::unordered_map<uint64_t, uint32_t> by_id;
  for (size_t i = 0; i < variables.size(); ++i) {
    by_id.emplace(variables[i].id, static_cast<uint32_t>(i));
  }
  const JsonPath top;
  const JsonPath all{&top, "var", {}};
  // `ports`: the address of an input or output, which changes with every binding, may be meant. The
  // address of a state buffer is not a memory address that a table may hold.
  auto resolve = [&](const Variable& from, uint64_t id, bool ports) -> uint32_t {
    const JsonPath where{&all, from.name, {}};
    const auto found = by_id.find(id);
    if (found == by_id.end()) {
      checker_.fail(where, "no variable has the id {}", id);
      return 0;
    }
    const Variable& to = variables[found->second];
    const bool port = to.kind == VariableKind::kInput || to.kind == VariableKind::kOutput;
    if ((port && !ports) || to.kind == VariableKind::kStateBuffer) {
      checker_.fail(where, "refers to {} \"{}\"; only variables in HBM{} can be referred to",
                    kVariableTypes[static_cast<int>(to.kind)], printable(to.name),
                    ports ? "" : " with a fixed address");
    }
    return found->second;
  };
  for (const auto& [index, id] : pointer_ids_) {
    variables[index].referenced = resolve(variables[index], id, true);
  }
  for (const auto& [index, id] : counter_ids_) {
    const uint32_t counter = resolve(variables[index], id, false);
    variables[index].true_size->counter = counter;
    if (!checker_.ok()) return;
    const Variable& word = variables[counter];
    if (word.kind == VariableKind::kTmpBuf && word.size >= 4 && !word.shared) continue;
    checker_.fail(JsonPath{&all, variables[index].name, {}},
                  "its true size is counted in {} \"{}\" of {} bytes{}; expected a tmp-buf of at "
                  "least 4 that is not shared",
                  kVariableTypes[static_cast<int>(word.kind)], printable(word.name), word.size,
                  word.shared ? ", which is shared" : "");
  }
  for (const auto& [index, ids] : list_ids_) {
    for (uint64_t id : ids) {
      variables[index].list.push_back(resolve(variables[index], id, true));
      if (!checker_.ok()) return;
    }
  }
}

void DefinitionReader::read_queues(JsonObject& top) {
  const json::object* queues = top.object("dma_queue");
  if (!queues) return;
  const JsonPath where = top.at("dma_queue");
  if (queues->size() > kMostQueues) {
    checker_.fail(where, "{} queue sets, at most {} are allowed", queues->size(), kMostQueues);
  }
  auto semaphore = [](uint64_t number) { return static_cast<uint8_t>(number); };
  for (const auto& entry : *queues) {
    if (!checker_.ok()) return;
    JsonObject field(checker_, entry.value(), &where, view(entry.key()));
    QueueSet queue;
    queue.name = std::string(view(entry.key()));
    if (queue.name.empty() || queue.name.size() > 255) {
      checker_.fail(field.path(), "a queue set's name has 1 to 255 bytes, this one {}",
                    queue.name.size());
    }
    queue.kind = static_cast<QueueKind>(field.choice("type", kQueueTypes));
    queue.num_queues = static_cast<uint32_t>(field.number_or("num_queues", 1, 1, 16));
    const std::string owner = field.text_or("owner", "");
    if (!owner.empty()) {
      queue.owner = engine_from_name(owner);
      if (*queue.owner >= NEURON_CORE_ENGINES) {
        checker_.fail(field.at("owner"), "found \"{}\", expected PE, Activation, Pool, DVE or SP",
                      printable(owner));
      }
    }
    if (field.boolean_or("pinned", false)) {
      checker_.fail(field.at("pinned"), "pinned queues exist on inf1 only");
    }
    queue.instances = field.texts("queue_instances", kMostInstances);
    for (uint64_t number :
         field.numbers("semaphore_set", 16, NEURON_SEM_PROGRAM_FIRST, NEURON_SEM_PROGRAM_LAST)) {
      queue.semaphore_set.push_back(semaphore(number));
    }
    if (checker_.ok() && !queue.semaphore_set.empty() &&
        queue.semaphore_set.size() != queue.num_queues) {
      checker_.fail(field.at("semaphore_set"),
                    "{} semaphores, expected {}, one for each queue (num_queues)",
                    queue.semaphore_set.size(), queue.num_queues);
    }
    if (const auto number =
            field.optional_number("semaphore", NEURON_SEM_PROGRAM_FIRST, NEURON_SEM_PROGRAM_LAST)) {
      queue.semaphore = semaphore(*number);
      if (!queue.semaphore_set.empty()) {
        checker_.fail(field.path(), "has both semaphore and semaphore_set, expected one of them");
      }
    }
    if (queue.kind == QueueKind::kDynamic) read_dynamic(field, queue);
    queue.alternate_fabric = field.choice_or("fabric_path", kFabricPaths, 0) == 1;
    definition_.subgraph.queues.push_back(std::move(queue));
  }
}

void DefinitionReader::read_dynamic(JsonObject& field, QueueSet& queue) {
  queue.ring_descriptors = static_cast<uint32_t>(field.number_or(
      "ring_descriptors", queue.ring_descriptors, NEURON_UDMA_RING_MIN, kMostRingDescriptors));
  if (checker_.ok() && queue.ring_descriptors % NEURON_UDMA_RING_MULTIPLE != 0) {
    checker_.fail(field.at("ring_descriptors"), "found {}, expected a multiple of {}",
                  queue.ring_descriptors, NEURON_UDMA_RING_MULTIPLE);
  }
  if (!queue.instances.empty()) {
    checker_.fail(field.at("queue_instances"),
                  "the ring of a dynamic queue has no transfers, so it "
                  "has no instances");
  }
}

EngineFiles DefinitionReader::read_files(JsonObject& field) {
  EngineFiles files;
  files.bin = member_named(field, "bin", true);
  files.json = member_named(field, "json", false);
  return files;
}

void DefinitionReader::read_engines(JsonObject& top) {
  const json::object* engines = top.object("engines");
  const JsonPath where = top.at("engines");
  if (!engines || engines->empty()) {
    checker_.fail(where, "names no engine; expected at least one of PE, Activation, Pool, DVE, SP");
    return;
  }
  for (const auto& entry : *engines) {
    JsonObject field(checker_, entry.value(), &where, view(entry.key()));
    const uint8_t engine = engine_from_name(view(entry.key()));
    if (engine >= NEURON_CORE_ENGINES) {
      checker_.fail(field.path(), "no such engine, expected PE, Activation, Pool, DVE or SP");
      return;
    }
    definition_.engines[engine] = read_files(field);
    if (!checker_.ok()) return;
  }
}

void DefinitionReader::read_collectives(JsonObject& top) {
  const json::array* programs = top.list("cc", 64);
  if (!programs) return;
  const JsonPath where = top.at("cc");
  for (size_t i = 0; i < programs->size() && checker_.ok(); ++i) {
    JsonObject field(checker_, (*programs)[i], &where, i);
    EngineFiles files = read_files(field);
    files.stream = static_cast<uint32_t>(field.number_or("stream", 0, 0, UINT32_MAX));
    definition_.collectives.push_back(std::move(files));
  }
}

}  // namespace

Result<Definition> read_definition(const Container& container, const std::string& directory,
                                   const ModelLimits& limits, std::vector<std::string>& notes) {
  return DefinitionReader(container, directory, limits, notes).read();
}

}  // namespace neuron::neff
