// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/neff_emitter.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "driver/base/format.h"
#include "driver/compression/stream.h"
#include "hw/address_map.h"
#include "runtime/neff/collective_json.h"
#include "runtime/neff/engine_binary_writer.h"
#include "runtime/neff/generations.h"
#include "runtime/neff/npy_file.h"
#include "tools/compiler/program_builder/engine_assembler.h"
#include "tools/compiler/program_builder/transfer_list.h"

namespace neuron::builder {

using runtime::fail;
using runtime::Result;

namespace {

namespace json = boost::json;

constexpr uint32_t kQueuesOfASet = NEURON_V2_DMA_ENGINES_PER_CORE;
constexpr uint64_t kMostCompressed = 8 << 20;  // bytes of constants
constexpr const char* kDirectory = "sg00/";
constexpr const char* kSecondDirectory = "sg01/";

const char* kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::kInput:
      return "input";
    case BufferKind::kOutput:
      return "output";
    case BufferKind::kConstant:
      return "file";
    case BufferKind::kTable:
      return "dge-table";
    case BufferKind::kScratch:
      return "virtual";
    default:
      return "tmp-buf";
  }
}

// NumPy's name of a type; bf16 and the 8-bit floats have none and are kept as their bits.
const char* numpy_type(uint8_t dtype) {
  switch (dtype) {
    case NEURON_DTYPE_F32:
      return "<f4";
    case NEURON_DTYPE_F16:
      return "<f2";
    case NEURON_DTYPE_I8:
      return "|i1";
    case NEURON_DTYPE_I16:
      return "<i2";
    case NEURON_DTYPE_I32:
      return "<i4";
    case NEURON_DTYPE_I64:
      return "<i8";
    default:
      break;
  }
  switch (isa::dtype_bytes(dtype)) {
    case 1:
      return "|u1";
    case 2:
      return "<u2";
    case 4:
      return "<u4";
    default:
      return "<u8";
  }
}

// Of the content of one stream of a constant: small enough to lie in a cache while it is read.
constexpr size_t kStreamContent = size_t{256} << 10;

// Of a constant whose contents come late: asked for at once.
constexpr size_t kSourcePiece = size_t{1} << 20;

std::vector<uint8_t> streams_of(std::span<const uint8_t> contents) {
  std::vector<uint8_t> all;
  for (size_t at = 0; at < contents.size(); at += kStreamContent) {
    const auto stream =
        compression::compress(contents.subspan(at, std::min(kStreamContent, contents.size() - at)));
    all.insert(all.end(), stream.begin(), stream.end());
  }
  return all;
}

std::string text(const json::value& value) { return json::serialize(value) + "\n"; }

}  // namespace

bool NeffEmitter::compresses_constants() const {
  return program_.constant_storage_ == ConstantStorage::kCompressed;
}

std::string NeffEmitter::constant_file(const BufferInfo& buffer) const {
  return buffer.name + (compresses_constants() ? ".streams" : ".npy");
}

// The queue sets by name, which is also the order of their numbers. A queue set is "in" or "out" if
// it moves only inputs or only outputs. Its owner is the engine that triggers it.
std::map<std::string, QueueUse> NeffEmitter::queues() const {
  std::map<std::string, QueueUse> all;
  const auto kind_of = [&](const BufferAccess& side) {
    return side.buffer == Transfer::kOnChip
               ? BufferKind::kTemporary
               : program_.buffers_[static_cast<size_t>(side.buffer)].kind;
  };
  for (const Transfer& transfer : program_.schedule_.transfers()) {
    QueueUse& use = all[transfer.queue];
    use.engine = transfer.engine;
    for (const BufferAccess& from : transfer.from) {
      use.only_in = use.only_in && kind_of(from) == BufferKind::kInput;
    }
    use.only_out = use.only_out && kind_of(transfer.to) == BufferKind::kOutput;
  }
  for (const Step& step : program_.schedule_.steps()[NEURON_ENGINE_POOL]) {
    if (step.slot >= 0) all[kDynamicQueue] = {NEURON_ENGINE_POOL, false, false, true};
  }
  return all;
}

void NeffEmitter::list_ports(const Program& program, const char* subgraph, json::array& inputs,
                             json::array& outputs) {
  for (const BufferInfo& buffer : program.buffers_) {
    if (buffer.kind != BufferKind::kInput && buffer.kind != BufferKind::kOutput) continue;
    json::object tensor;
    tensor["name"] = buffer.name;
    tensor["variable"] = buffer.name;
    tensor["subgraph"] = subgraph;
    tensor["dtype"] = neff::dtype_name(buffer.dtype);
    tensor["shape"] = json::array(buffer.shape.begin(), buffer.shape.end());
    tensor["size"] = buffer.bytes;
    tensor["format"] = std::string("NCHW", std::min<size_t>(buffer.shape.size(), 4));
    tensor["timeseries"] = false;
    (buffer.kind == BufferKind::kInput ? inputs : outputs).push_back(std::move(tensor));
  }
}

json::string NeffEmitter::target() const {
  const neff::Generation* generation = neff::find_generation(program_.limits_.generation);
  const std::string_view name = generation == nullptr ? "" : generation->targets.front();
  return json::string(name.data(), name.size());
}

std::string NeffEmitter::model_json() const {
  json::array inputs;
  json::array outputs;
  list_ports(program_, "sg00", inputs, outputs);
  if (program_.second_ != nullptr) list_ports(*program_.second_, "sg01", inputs, outputs);
  json::array nodes{json::object{{"name", "sg00"}, {"executor", "NeuronCore"}}};
  if (program_.physical_cores_ == 2) {
    nodes.push_back(json::object{{"name", "sg01"}, {"executor", "NeuronCore"}});
  }
  json::object model;
  model["format"] = NEFF_FORMAT;
  model["version"] = 1;
  model["target"] = target();
  model["lnc"] = program_.physical_cores_;
  model["nodes"] = std::move(nodes);
  model["inputs"] = std::move(inputs);
  model["outputs"] = std::move(outputs);
  return text(model);
}

std::string NeffEmitter::definition_json() const {
  json::object variables;
  uint32_t id = 0;
  for (const BufferInfo& buffer : program_.buffers_) {
    json::object variable;
    variable["type"] = kind_name(buffer.kind);
    variable["var_id"] = id++;
    variable["size"] = buffer.bytes;
    if (buffer.kind == BufferKind::kConstant) {
      variable["file_name"] = constant_file(buffer);
      if (compresses_constants()) variable["encoding"] = "streams";
    }
    // A buffer's number is its var_id.
    if (buffer.kind == BufferKind::kTable) {
      variable["list"] = json::array(buffer.list.begin(), buffer.list.end());
    }
    if (buffer.counter >= 0) {
      variable["true_size"] =
          json::object{{"var_id", buffer.counter}, {"unit", buffer.counted_bytes}};
    }
    if (buffer.shared) variable["shared"] = true;
    if (buffer.kind == BufferKind::kScratch) variable["backing_variable_off"] = buffer.offset;
    variables[buffer.name] = std::move(variable);
  }
  variables[Transfer::kOnChipName] =
      json::object{{"type", "state-buffer"}, {"var_id", id++}, {"size", NEURON_CORE_SBUF_SIZE}};
  for (const int32_t port : addressed_ports()) {
    variables[pointer_name(port)] = json::object{
        {"type", "pointer"}, {"var_id", id++}, {"size", 8}, {"referenced_var_id", port}};
  }

  json::object queue_sets;
  for (const auto& [name, use] : queues()) {
    queue_sets[name] = json::object{{"type", use.dynamic    ? "dynamic"
                                             : use.only_in  ? "in"
                                             : use.only_out ? "out"
                                                            : "data"},
                                    {"num_queues", kQueuesOfASet},
                                    {"owner", neff::engine_name(static_cast<uint8_t>(use.engine))}};
  }

  json::object engines;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!program_.schedule_.uses(e)) continue;
    const std::string engine = neff::engine_name(static_cast<uint8_t>(e));
    engines[engine] = json::object{{"bin", engine + ".bin"}, {"json", engine + ".json"}};
  }
  json::object semaphores;
  for (const auto& [name, number] : semaphores_.all()) semaphores[name] = number;
  json::object definition;
  definition["program"] =
      json::object{{"isa", NEURON_ISA_VERSION}, {"generation", program_.limits_.generation}};
  definition["engines"] = std::move(engines);
  definition["semaphore"] = std::move(semaphores);
  definition["dma_queue"] = std::move(queue_sets);
  definition["var"] = std::move(variables);
  if (!program_.schedule_.parts().collectives.empty()) {
    definition["collectives"] = collectives_json();
  }
  return text(definition);
}

json::array NeffEmitter::collectives_json() const {
  json::array list;
  for (const CollectiveStep& step : program_.schedule_.parts().collectives) {
    neff::Collective operation = step.operation;
    operation.semaphore = semaphores_.of_slot(step.slot, step.scope);
    const bool moves = step.output >= 0;
    list.push_back(tools::collective_json(operation, moves ? variable_name(step.input) : "",
                                          moves ? variable_name(step.output) : ""));
  }
  return list;
}

std::string NeffEmitter::variable_name(int32_t buffer) const {
  return buffer == Transfer::kOnChip ? std::string(Transfer::kOnChipName)
                                     : program_.buffers_[static_cast<size_t>(buffer)].name;
}

std::set<int32_t> NeffEmitter::addressed_ports() const {
  std::set<int32_t> ports;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    for (const Step& step : program_.schedule_.steps()[e]) {
      for (const AddressField& address : step.addresses) {
        if (!pointer_name(address.buffer).empty()) ports.insert(address.buffer);
      }
    }
  }
  return ports;
}

std::string NeffEmitter::pointer_name(int32_t buffer) const {
  if (buffer == Transfer::kOnChip) return {};
  const BufferInfo& info = program_.buffers_[static_cast<size_t>(buffer)];
  if (info.kind != BufferKind::kInput && info.kind != BufferKind::kOutput) return {};
  std::string name = info.name + ".address";
  while (program_.has_name(name)) name += "_";
  return name;
}

std::string NeffEmitter::engine_json(unsigned engine) const {
  TransferList list(program_.schedule_, semaphores_,
                    [this](int32_t buffer) { return variable_name(buffer); });
  return base::format("{{\"dma\":{}}}\n", list.of_engine(engine));
}

Result<neff::EngineProgram> NeffEmitter::assemble(unsigned engine) const {
  EngineAssembler assembler(
      program_.schedule_, semaphores_, [this](int32_t buffer) { return variable_name(buffer); },
      [this](int32_t buffer) { return pointer_name(buffer); }, engine,
      static_cast<uint8_t>(program_.limits_.generation));
  NEURON_TRY(out, assembler.run());
  if (out.instructions() > NEURON_PROGRAM_MAX) {
    return fail(NRT_RESOURCE, "program \"{}\": {} instructions for {}, at most {} are possible",
                program_.name(), out.instructions(), isa::engine_name(engine), NEURON_PROGRAM_MAX);
  }
  // The labels of this engine, once each and ascending.
  std::vector<uint32_t> labels;
  for (const Step& step : program_.schedule_.steps()[engine]) {
    if (step.label != 0) labels.push_back(step.label);
  }
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  for (uint32_t number : labels) {
    const Label& label = program_.schedule_.journal().labels()[number - 1];
    out.lines.push_back({number, label.line, 0, label.file(program_.name())});
  }
  return out;
}

// The meaning of the debug ids: the files of the line table, and the tensor that is written.
std::string NeffEmitter::debug_json() const {
  json::array files;
  std::string tensors, section;  // The former as JSON text: there may be one for each operation
  struct Range {
    uint32_t first = 0, last = 0, tile = 0;
    int32_t buffer = -1;
  } open;
  const auto close = [&] {
    if (open.tile == 0 && open.buffer < 0) return;
    json::object tensor;
    tensor["debug"] = json::array{open.first, open.last};
    if (open.tile != 0) {
      const TileInfo& tile = program_.tiles_[open.tile - 1];
      tensor["name"] = tile.name;
      tensor["shape"] = json::array{tile.parts, tile.columns};
    } else {
      const BufferInfo& buffer = program_.buffers_[static_cast<size_t>(open.buffer)];
      tensor["name"] = buffer.name;
      tensor["shape"] = json::array(buffer.shape.begin(), buffer.shape.end());
    }
    if (!tensors.empty()) tensors += ",";
    tensors += json::serialize(tensor);
  };
  for (uint32_t i = 0; i < program_.schedule_.journal().labels().size(); ++i) {
    const Label& label = program_.schedule_.journal().labels()[i];
    if (i == 0 || label.section != section) {
      section = label.section;
      files.emplace_back(label.file(program_.name()));
    }
    if (i != 0 && label.tile == open.tile && label.buffer == open.buffer) {
      open.last = i + 1;
      continue;
    }
    close();
    open = {i + 1, i + 1, label.tile, label.buffer};
  }
  close();
  return base::format("{{\"files\":{},\"functions\":[\"main\"],\"tensors\":[{}]}}\n",
                      json::serialize(files), tensors);
}

Result<std::vector<uint8_t>> NeffEmitter::contents_of(const BufferInfo& buffer) {
  if (!buffer.source) return buffer.contents;
  std::vector<uint8_t> contents(buffer.bytes);
  const std::span<uint8_t> all(contents);
  for (size_t at = 0; at < contents.size(); at += kSourcePiece) {
    const auto piece = all.subspan(at, std::min(kSourcePiece, contents.size() - at));
    if (auto given = buffer.source(piece, at); !given) {
      return given.error().with("constant \"{}\", byte {}", buffer.name, at);
    }
  }
  return contents;
}

Result<void> NeffEmitter::add_constants(tools::NeffMembers& members) const {
  for (const BufferInfo& buffer : program_.buffers_) {
    if (buffer.kind != BufferKind::kConstant) continue;
    NEURON_TRY(contents, contents_of(buffer));
    if (compresses_constants()) {
      members[kDirectory + constant_file(buffer)] = streams_of(contents);
      continue;
    }
    tools::NpyArray array;
    array.type = numpy_type(buffer.dtype);
    array.shape = buffer.shape;
    array.data = std::move(contents);
    members[kDirectory + constant_file(buffer)] = tools::write_npy(array);
  }
  return {};
}

Result<tools::NeffMembers> NeffEmitter::core_members() {
  NEURON_CHECK(semaphores_.assign());
  tools::NeffMembers members;
  bool any = false;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!program_.schedule_.uses(e)) continue;
    any = true;
    NEURON_TRY(assembled, assemble(e));
    NEURON_TRY(binary, tools::write_engine_binary(assembled));
    const std::string engine = neff::engine_name(static_cast<uint8_t>(e));
    members[kDirectory + engine + ".bin"] = std::move(binary);
    members[kDirectory + engine + ".json"] = tools::bytes_of(engine_json(e));
  }
  if (!any) return fail(NRT_INVALID, "program \"{}\" uses no engine", program_.name());
  NEURON_CHECK(add_constants(members));
  members[std::string(kDirectory) + "kernel_debug_info.json"] = tools::bytes_of(debug_json());
  members[std::string(kDirectory) + "def.json"] = tools::bytes_of(definition_json());
  return members;
}

Result<void> NeffEmitter::add_second_core(tools::NeffMembers& members) const {
  Program idle(program_.name(), static_cast<uint8_t>(program_.limits_.generation));
  idle.use(Engine::kSp);
  idle.schedule_.finish();
  const Program& second = program_.second_ != nullptr ? *program_.second_ : idle;
  NEURON_TRY(files, NeffEmitter(second).core_members());
  for (auto& [name, bytes] : files) {
    members[kSecondDirectory + name.substr(std::string_view(kDirectory).size())] = std::move(bytes);
  }
  return {};
}

bool NeffEmitter::calls_operators(const Program& program) {
  return std::any_of(program.buffers_.begin(), program.buffers_.end(),
                     [](const BufferInfo& b) { return b.kind == BufferKind::kTable; });
}

Result<std::vector<uint8_t>> NeffEmitter::emit() {
  NEURON_TRY(members, core_members());
  if (program_.physical_cores_ == 2) NEURON_CHECK(add_second_core(members));
  members["neff.json"] = tools::bytes_of(model_json());
  members["info.json"] = tools::bytes_of(
      text(json::object{{"tool_version", "program-builder 1"}, {"target", target()}}));
  tools::NeffOptions options;
  options.name = program_.name();
  options.build_version = "program-builder 1";
  options.lnc_size = program_.physical_cores_;
  // Weights have hardly a pattern: packing many of them takes seconds and saves a tenth. A file
  // that is not compressed can be loaded in pieces.
  uint64_t constants = 0;
  for (const BufferInfo& buffer : program_.buffers_) {
    if (buffer.kind == BufferKind::kConstant) constants += buffer.bytes;
  }
  options.compress = constants < kMostCompressed;
  if (calls_operators(program_) ||
      (program_.second_ != nullptr && calls_operators(*program_.second_))) {
    options.feature_bits |= NEFF_FEATURE_CUSTOM_OPERATORS;
  }
  return tools::write_neff(members, options);
}

}  // namespace neuron::builder
