// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/transfer_reader.h"

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "hw/udma.h"
#include "runtime/neff/dma_bounds.h"
#include "runtime/neff/json_document.h"
#include "runtime/neff/json_object.h"
#include "runtime/neff/text.h"

namespace neuron::neff {

using runtime::Result;

namespace {

namespace json = boost::json;

constexpr const char* kOperations[] = {"copy", "cast",      "fma",      "add",       "min",
                                       "max",  "transpose", "compress", "decompress"};
constexpr size_t kMostSources = 16;
constexpr size_t kMostTables = 4096;

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

class Reader {
 public:
  Reader(const Container& container, const std::string& member, const Subgraph& subgraph,
         const SubgraphIndex& index, const ModelLimits& limits, EngineProgram& program,
         std::vector<std::string>& notes)
      : container_(container),
        subgraph_(subgraph),
        index_(index),
        limits_(limits),
        program_(program),
        checker_(member, notes) {}

  Result<void> read();

 private:
  void read_transfer(JsonObject& field);
  void read_queue(JsonObject& field, DmaTransfer& transfer);
  void check_owner(JsonObject& field, const DmaTransfer& transfer);
  void read_function(JsonObject& field, DmaTransfer& transfer);
  void check_same_trigger(JsonObject& field, const DmaTransfer& transfer);
  void read_description(JsonObject& field, DmaTransfer& transfer);
  void check_sources(JsonObject& desc, const DmaTransfer& transfer);
  void read_parameters(JsonObject& desc, DmaTransfer& transfer);
  void read_constant(JsonObject& desc, DmaTransfer& transfer);
  float read_real(JsonObject& field, std::string_view key, double fallback);
  // Keys "from", "from_off" ...; `total` is the size in bytes if the file gives none.
  DmaAccess read_access(JsonObject& field, const char* side);
  bool has_shape(JsonObject& field, const char* side) {
    return field.has(std::string(side) + "_sizes");
  }
  void complete(JsonObject& field, const char* side, DmaAccess& access, uint64_t bytes);
  void check_bytes(JsonObject& desc, const DmaTransfer& transfer);
  uint8_t read_dtype(JsonObject& field, std::string_view key, uint8_t fallback);
  uint8_t semaphore_of(const JsonPath& where, const json::value& value);
  void read_tables(JsonObject& top);
  void check_tables(JsonObject& top, const std::string& directory, const std::string& set);

  const Container& container_;
  const Subgraph& subgraph_;
  const SubgraphIndex& index_;
  const ModelLimits& limits_;
  EngineProgram& program_;
  Checker checker_;
  std::unordered_map<uint32_t, std::optional<uint32_t>> open_function_;  // By queue set
  std::map<std::pair<uint64_t, uint32_t>, size_t> first_;                // By function and id
  std::unordered_map<std::string_view, uint32_t> functions_;
  uint64_t rows_ = 0;
};

Result<void> Reader::read() {
  const JsonLimits json_limits{limits_.json_bytes, limits_.json_depth, limits_.json_values};
  NEURON_TRY(document, read_json_object(container_, checker_.member(), json_limits));
  for (size_t i = 0; i < program_.entries.size(); ++i) {
    if (program_.entries[i].kind == NEURON_ENTRY_FUNCTION) {
      functions_.emplace(program_.entries[i].name, static_cast<uint32_t>(i));
    }
  }
  JsonObject top(checker_, document, nullptr, "");
  if (const json::array* list = top.list("dma", limits_.transfers)) {
    program_.dma.reserve(list->size());
    const JsonPath where = top.at("dma");
    for (size_t i = 0; i < list->size() && checker_.ok(); ++i) {
      JsonObject field(checker_, (*list)[i], &where, i);
      read_transfer(field);
    }
  }
  read_tables(top);
  return checker_.result();
}

void Reader::read_transfer(JsonObject& field) {
  DmaTransfer transfer;
  transfer.id = static_cast<uint32_t>(field.number("id", 0, UINT32_MAX));
  read_queue(field, transfer);
  if (!checker_.ok()) return;
  check_owner(field, transfer);
  read_function(field, transfer);
  transfer.starts_section = field.boolean_or("section_start_desc", false);
  if (const auto event = field.optional_number("event", 0, NEURON_EVENTS - 1)) {
    transfer.event = static_cast<uint8_t>(*event);
  }
  if (const json::value* value = field.find("semaphore")) {
    transfer.semaphore = semaphore_of(field.at("semaphore"), *value);
  }
  for (uint64_t number :
       field.numbers("remote_semaphores", 16, NEURON_SEM_PAIR_FIRST, NEURON_SEM_PAIR_LAST)) {
    transfer.remote_semaphores.push_back(static_cast<uint8_t>(number));
  }
  transfer.priority =
      static_cast<uint8_t>(field.number_or("priority", 0, 0, NEURON_DMA_CLASSES - 1));
  if (transfer.priority != 0 && program_.generation < 4) {
    checker_.fail(
        field.at("priority"),
        "found {}, and the program is for generation {}: transfers have classes of service "
        "from generation 4 on",
        transfer.priority, program_.generation);
  }
  check_same_trigger(field, transfer);
  read_description(field, transfer);
  if (checker_.ok()) program_.dma.push_back(std::move(transfer));
}

void Reader::read_queue(JsonObject& field, DmaTransfer& transfer) {
  const std::string name = field.text_or("queue", "");
  transfer.instance = field.text_or("instance_name", "");
  if (!checker_.ok()) return;
  if (transfer.instance.empty()) {
    transfer.queue = index_.queue(name);
    if (transfer.queue != kNoTarget) return;
    if (name.empty()) {
      checker_.fail(field.path(), "neither \"queue\" nor \"instance_name\" is given");
    } else {
      checker_.fail(field.at("queue"), "def.json has no queue set \"{}\"", printable(name));
    }
    return;
  }
  transfer.queue = index_.instance(transfer.instance);
  if (transfer.queue != kNoTarget) return;
  checker_.fail(field.at("instance_name"), "no queue set of def.json has an instance \"{}\"",
                printable(transfer.instance));
}

void Reader::check_owner(JsonObject& field, const DmaTransfer& transfer) {
  const QueueSet& queue = subgraph_.queues[transfer.queue];
  if (!queue.owner || *queue.owner == program_.engine) return;
  checker_.fail(field.path(),
                "def.json says that {} triggers the queue set \"{}\" (owner); a transfer of {} "
                "needs another queue set",
                engine_name(*queue.owner), printable(queue.name), engine_name(program_.engine));
}

// A function_start opens a section that lasts to the next one of the same queue set.
void Reader::read_function(JsonObject& field, DmaTransfer& transfer) {
  const std::string name = field.text_or("function_start", "");
  if (!program_.entries.empty() && name == program_.entries[program_.main].name) {
    open_function_.erase(transfer.queue);  // Back to the main program.
  } else if (!name.empty()) {
    const auto found = functions_.find(name);
    if (found == functions_.end()) {
      checker_.fail(field.at("function_start"), "the binary of {} has no function \"{}\"",
                    engine_name(program_.engine), printable(name));
      return;
    }
    open_function_[transfer.queue] = found->second;
  }
  const auto open = open_function_.find(transfer.queue);
  if (open != open_function_.end()) transfer.function = open->second;
}

// One trigger instruction serves all transfers with its id, so they must use the same rings.
void Reader::check_same_trigger(JsonObject& field, const DmaTransfer& transfer) {
  const uint64_t function = transfer.function ? *transfer.function + 1ull : 0;
  const auto [place, added] = first_.try_emplace({function, transfer.id}, program_.dma.size());
  if (added || !checker_.ok()) return;
  const DmaTransfer& first = program_.dma[place->second];
  if (first.queue != transfer.queue || first.instance != transfer.instance) {
    checker_.fail(
        field.path(),
        "id {} is used with queue set \"{}\", and in dma[{}] with \"{}\"; one trigger serves one "
        "queue set",
        transfer.id, printable(subgraph_.queues[transfer.queue].name), place->second,
        printable(subgraph_.queues[first.queue].name));
  }
}

// A semaphore, given by its number or by its name in def.json.
uint8_t Reader::semaphore_of(const JsonPath& where, const json::value& value) {
  if (value.is_string()) {
    const uint32_t found = index_.semaphore(view(value.get_string()));
    if (found != kNoTarget) return subgraph_.semaphores[found].number;
    checker_.fail(where, "def.json has no semaphore \"{}\"", printable(view(value.get_string())));
    return 0;
  }
  return static_cast<uint8_t>(
      json_number(checker_, where, value, NEURON_SEM_PROGRAM_FIRST, NEURON_SEM_PROGRAM_LAST));
}

uint8_t Reader::read_dtype(JsonObject& field, std::string_view key, uint8_t fallback) {
  const std::string name = field.text_or(key, "");
  if (name.empty()) return fallback;
  const uint8_t dtype = dtype_from_name(name);
  if (dtype == NEURON_DTYPE_NONE) {
    checker_.fail(field.at(key), "found \"{}\", which is no data type", printable(name));
  }
  return dtype;
}

DmaAccess Reader::read_access(JsonObject& field, const char* side) {
  const std::string prefix = side;
  DmaAccess access;
  const std::string name = field.text(prefix, 255);
  if (!checker_.ok()) return access;
  access.variable = index_.variable(name);
  if (access.variable == kNoTarget) {
    checker_.fail(field.path(), "{}: def.json has no variable \"{}\"", side, printable(name));
    access.variable = 0;
    return access;
  }
  const Variable& variable = subgraph_.variables[access.variable];
  access.offset = field.number_or(prefix + "_off", 0, 0, variable.size - 1);
  access.dtype = read_dtype(field, prefix + "_dtype", NEURON_DTYPE_U8);
  const auto sizes = field.numbers(prefix + "_sizes", 4, 1, limits_.variable_bytes);
  const auto steps = field.signed_numbers(prefix + "_steps", 4);
  if (!checker_.ok()) return access;
  if (sizes.size() != steps.size()) {
    checker_.fail(field.path(), "{}_sizes has {} elements and {}_steps {}; expected equally many",
                  side, sizes.size(), side, steps.size());
    return access;
  }
  if (sizes.empty()) {
    access.sizes[0] = variable.size - access.offset;
    return access;
  }
  if (steps[0] != 1) {
    checker_.fail(field.path(),
                  "{}_steps[0] is {}, expected 1: the first size counts contiguous bytes", side,
                  steps[0]);
    return access;
  }
  access.dimensions = static_cast<uint8_t>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    access.sizes[i] = sizes[i];
    access.steps[i] = steps[i];
  }
  return access;
}

// Without sizes, a side is as many contiguous bytes as the other one.
void Reader::complete(JsonObject& field, const char* side, DmaAccess& access, uint64_t bytes) {
  if (!has_shape(field, side)) access.sizes[0] = bytes;
}

void Reader::read_description(JsonObject& field, DmaTransfer& transfer) {
  const json::value& value = field.require("desc");
  if (!checker_.ok()) return;
  JsonObject desc(checker_, value, &field.path(), "desc");
  transfer.operation = static_cast<DmaOperation>(desc.choice_or("op", kOperations, 0));
  transfer.to = read_access(desc, "to");
  desc.find("num_tiling_dimensions");
  if (!checker_.ok()) return;
  auto check = [&](JsonObject& place, const char* side, const DmaAccess& access) {
    if (!checker_.ok()) return;
    const Variable& variable = subgraph_.variables[access.variable];
    if (const auto fault = check_access(access, variable, program_.generation, limits_, rows_)) {
      checker_.fail(place.path(), "{} {}", side, *fault);
    }
  };
  const json::array* sources = desc.list("from_arr", kMostSources);
  if (sources && !sources->empty()) {
    const JsonPath where = desc.at("from_arr");
    for (size_t i = 0; i < sources->size() && checker_.ok(); ++i) {
      JsonObject source(checker_, (*sources)[i], &where, i);
      DmaAccess access = read_access(source, "from");
      access.scale = read_real(source, "scale", NAN);
      check(source, "from", access);
      transfer.from.push_back(access);
    }
  } else if (checker_.ok()) {
    DmaAccess from = read_access(desc, "from");
    from.scale = NAN;
    if (checker_.ok() && transfer.operation == DmaOperation::kCopy) {
      // Check what the file gives before its product is used for the other side.
      if (has_shape(desc, "from")) {
        check(desc, "from", from);
        if (checker_.ok()) complete(desc, "to", transfer.to, from.bytes());
      } else if (has_shape(desc, "to")) {
        check(desc, "to", transfer.to);
        if (checker_.ok()) complete(desc, "from", from, transfer.to.bytes());
      }
    }
    check(desc, "from", from);
    transfer.from.push_back(from);
  }
  check(desc, "to", transfer.to);
  read_parameters(desc, transfer);
  if (checker_.ok()) check_sources(desc, transfer);
  if (checker_.ok()) check_bytes(desc, transfer);
}

void Reader::check_sources(JsonObject& desc, const DmaTransfer& transfer) {
  const char* name = kOperations[static_cast<size_t>(transfer.operation)];
  const bool moves =
      transfer.operation == DmaOperation::kCopy || transfer.operation >= DmaOperation::kTranspose;
  if ((moves || transfer.operation == DmaOperation::kCast) && transfer.from.size() != 1) {
    checker_.fail(desc.path(), "a {} of {} sources, expected one", name, transfer.from.size());
  }
  for (const DmaAccess& from : transfer.from) {
    if (from.dtype != transfer.from[0].dtype) {
      checker_.fail(desc.at("from_arr"), "sources of {} and of {}; expected one type",
                    dtype_name(transfer.from[0].dtype), dtype_name(from.dtype));
    }
  }
  const bool both_given = desc.has("from_dtype") && desc.has("to_dtype");
  if (moves && both_given && transfer.from[0].dtype != transfer.to.dtype) {
    checker_.fail(desc.at("to_dtype"), "a {} does not turn {} into {}; op \"cast\" does", name,
                  dtype_name(transfer.from[0].dtype), dtype_name(transfer.to.dtype));
  }
}

// Both sides must hold equally many elements; for a copy, equally many bytes. What compresses or
// decompresses has other lengths.
void Reader::check_bytes(JsonObject& desc, const DmaTransfer& transfer) {
  if (transfer.operation > DmaOperation::kTranspose) return;
  const bool copy = transfer.operation == DmaOperation::kCopy;
  const uint64_t transposed =
      transfer.operation == DmaOperation::kTranspose ? transfer.transpose_element_bytes : 0;
  auto elements = [&](const DmaAccess& access) {
    const uint64_t bytes = copy ? 1 : transposed ? transposed : dtype_bytes(access.dtype);
    if (access.run_bytes() % bytes != 0) {
      checker_.fail(desc.path(), "runs of {} bytes hold no whole number of elements of {} bytes",
                    access.run_bytes(), bytes);
    }
    return access.bytes() / bytes;
  };
  const uint64_t wanted = elements(transfer.to);
  for (const DmaAccess& from : transfer.from) {
    const uint64_t given = elements(from);
    if (checker_.ok() && given != wanted) {
      checker_.fail(desc.path(), "from has {} {}, to has {}; expected equally many", given,
                    copy ? "bytes" : "elements", wanted);
    }
  }
  if (!transposed || !checker_.ok()) return;
  uint64_t elements_of_shape = 1;
  for (const uint32_t size : transfer.transpose_shape) {
    if (__builtin_mul_overflow(elements_of_shape, uint64_t{size}, &elements_of_shape)) {
      elements_of_shape = 0;
      break;
    }
  }
  if (elements_of_shape != wanted) {
    checker_.fail(desc.at("transpose_shape"), "has {} elements of {} bytes, the sides have {}",
                  elements_of_shape, transposed, wanted);
  }
}

float Reader::read_real(JsonObject& field, std::string_view key, double fallback) {
  const json::value* value = field.find(key);
  if (!value) return static_cast<float>(fallback);
  if (!value->is_number()) checker_.fail(field.at(key), "expected a number");
  return value->is_number() ? static_cast<float>(value->to_number<double>())
                            : static_cast<float>(fallback);
}

// Reads the constant of min and max; the default is one that changes no value.
void Reader::read_constant(JsonObject& desc, DmaTransfer& transfer) {
  transfer.constant_dtype = read_dtype(desc, "constant_dtype", NEURON_DTYPE_F32);
  const json::value* value = desc.find("constant");
  if (!value) {
    const float infinity = std::numeric_limits<float>::infinity();
    transfer.constant_dtype = NEURON_DTYPE_F32;
    transfer.constant =
        std::bit_cast<uint32_t>(transfer.operation == DmaOperation::kMin ? infinity : -infinity);
    return;
  }
  const double constant = value->is_number() ? value->to_number<double>() : 0;
  const bool whole = std::trunc(constant) == constant;
  const uint8_t dtype = transfer.constant_dtype;
  if (!value->is_number()) {
    checker_.fail(desc.at("constant"), "expected a number");
  } else if (dtype == NEURON_DTYPE_F32) {
    transfer.constant = std::bit_cast<uint32_t>(static_cast<float>(constant));
  } else if (dtype == NEURON_DTYPE_I32 && whole && constant >= INT32_MIN && constant <= INT32_MAX) {
    transfer.constant = static_cast<uint32_t>(static_cast<int32_t>(constant));
  } else if (dtype == NEURON_DTYPE_U32 && whole && constant >= 0 && constant <= UINT32_MAX) {
    transfer.constant = static_cast<uint32_t>(constant);
  } else {
    checker_.fail(desc.at("constant"), "found {} as {}, expected a float32, int32 or uint32",
                  constant, dtype_name(dtype));
  }
}

void Reader::read_parameters(JsonObject& desc, DmaTransfer& transfer) {
  switch (transfer.operation) {
    case DmaOperation::kFma: {
      transfer.scale = read_real(desc, "scale", 1.0);
      if (read_dtype(desc, "scale_dtype", NEURON_DTYPE_F32) != NEURON_DTYPE_F32) {
        checker_.fail(desc.at("scale_dtype"), "expected float32");
      }
      break;
    }
    case DmaOperation::kMin:
    case DmaOperation::kMax:
      read_constant(desc, transfer);
      break;
    case DmaOperation::kTranspose: {
      const auto shape = desc.numbers("transpose_shape", 4, 1, UINT32_MAX);
      if (checker_.ok() && shape.size() != 4) {
        checker_.fail(desc.at("transpose_shape"), "{} numbers, expected 4", shape.size());
        return;
      }
      for (size_t i = 0; i < shape.size(); ++i) {
        transfer.transpose_shape[i] = static_cast<uint32_t>(shape[i]);
      }
      transfer.transpose_element_bytes =
          static_cast<uint32_t>(desc.number("transpose_element_size", 1, 8));
      if (checker_.ok() && !std::has_single_bit(transfer.transpose_element_bytes)) {
        checker_.fail(desc.at("transpose_element_size"), "found {}, expected 1, 2, 4 or 8",
                      transfer.transpose_element_bytes);
      }
      break;
    }
    default:
      break;
  }
  for (DmaAccess& from : transfer.from) {
    if (std::isnan(from.scale)) from.scale = transfer.scale;
  }
}

// The tables of a set are members of the directory whose names begin with the set's.
void Reader::check_tables(JsonObject& top, const std::string& directory, const std::string& set) {
  if (!checker_.ok()) return;
  const std::string prefix = directory + set;
  for (const Member& member : container_.members()) {
    if (member.name.starts_with(prefix)) return;
  }
  checker_.fail(top.at("activation_function_sets"),
                "the file has no member that begins with \"{}\", tables of this set",
                printable(prefix));
}

void Reader::read_tables(JsonObject& top) {
  const std::string directory = checker_.member().substr(0, checker_.member().rfind('/') + 1);
  // In the file of another engine either list is an unknown key and is noted as one.
  if (program_.engine == NEURON_ENGINE_ACTIVATION) {
    program_.activation_function_sets = top.texts("activation_function_sets", kMostTables);
    for (const std::string& set : program_.activation_function_sets) {
      check_tables(top, directory, set);
    }
  }
  if (program_.engine != NEURON_ENGINE_DVE) return;
  const json::array* tables = top.list("dve_tables", kMostTables);
  if (!tables) return;
  const JsonPath where = top.at("dve_tables");
  for (size_t i = 0; i < tables->size() && checker_.ok(); ++i) {
    JsonObject field(checker_, (*tables)[i], &where, i);
    DveTableFiles files{directory + field.text("control_table"),
                        directory + field.text("datapath_table"),
                        directory + field.text("opcode_table")};
    for (const std::string& file : {files.control, files.datapath, files.opcode}) {
      if (checker_.ok() && !container_.find(file)) {
        checker_.fail(field.path(), "the file has no member \"{}\"", printable(file));
      }
    }
    program_.dve_tables.push_back(std::move(files));
  }
}

}  // namespace

Result<void> read_engine_json(const Container& container, const std::string& member,
                              const Subgraph& subgraph, const SubgraphIndex& index,
                              const ModelLimits& limits, EngineProgram& program,
                              std::vector<std::string>& notes) {
  return Reader(container, member, subgraph, index, limits, program, notes).read();
}

}  // namespace neuron::neff
