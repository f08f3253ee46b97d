// SPDX-License-Identifier: Apache-2.0
#include "tools/program_builder/neff_emitter.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "hw/address_map.h"
#include "tools/common/engine_binary_writer.h"
#include "tools/common/npy.h"

namespace neuron::builder {

using runtime::fail;
using runtime::Result;

namespace {

namespace json = boost::json;

constexpr std::uint32_t kSignalsOfASemaphore = 32768;  // Waits compare with 16 bits
constexpr std::uint32_t kIncrementsOfATransfer = NEURON_V2_DMA_ENGINES_PER_CORE;
constexpr const char* kDirectory = "sg00/";

const char* kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::kInput:
      return "input";
    case BufferKind::kOutput:
      return "output";
    case BufferKind::kConstant:
      return "file";
    default:
      return "tmp-buf";
  }
}

// NumPy's name of a type; bf16 and the 8-bit floats have none and are kept as their bits.
const char* numpy_type(std::uint8_t dtype) {
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

std::string text(const json::value& value) { return json::serialize(value) + "\n"; }

}  // namespace

Result<void> NeffEmitter::number_semaphores() {
  unsigned next = NEURON_SEM_PROGRAM_FIRST;
  const auto take = [&](std::string name) {
    return Semaphore{std::move(name), static_cast<std::uint8_t>(next++)};
  };
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    std::uint32_t count = 0;
    for (const Step& step : program_.steps_[e]) {
      count += step.signals;
      signal_count_[e].push_back(count);
    }
    const std::uint32_t needed = (count + kSignalsOfASemaphore - 1) / kSignalsOfASemaphore;
    if (next + needed > NEURON_SEM_PROGRAM_LAST) {
      return fail(NRT_RESOURCE, "program \"{}\": {} steps of {} are waited for; too many to count",
                  program_.name_, count, isa::engine_name(e));
    }
    for (std::uint32_t part = 0; part < needed; ++part) {
      engine_semaphores_[e].push_back(take(runtime::format("{}_{}", isa::engine_name(e), part)));
    }
  }
  for (std::size_t slot = 0; slot < program_.slots_.size(); ++slot) {
    if (next > NEURON_SEM_PROGRAM_LAST) {
      return fail(NRT_RESOURCE, "program \"{}\" needs more semaphores than the {} there are",
                  program_.name_, NEURON_SEM_PROGRAM_LAST - NEURON_SEM_PROGRAM_FIRST + 1);
    }
    slot_semaphores_.push_back(take(runtime::format("dma_{}", slot)));
  }
  return {};
}

isa::Wait NeffEmitter::wait_for(const Point& point) const {
  isa::Wait wait;
  wait.condition = NEURON_WAIT_GE;
  if (point.agent >= kFirstDmaAgent) {
    wait.index = slot_semaphores_[point.agent - kFirstDmaAgent].number;
    wait.value = static_cast<std::uint16_t>(point.sequence * kIncrementsOfATransfer);
    return wait;
  }
  const std::uint32_t signal = signal_count_[point.agent][point.sequence - 1] - 1;
  wait.index = engine_semaphores_[point.agent][signal / kSignalsOfASemaphore].number;
  wait.value = static_cast<std::uint16_t>(signal % kSignalsOfASemaphore + 1);
  return wait;
}

void NeffEmitter::append(neff::EngineProgram& out, const isa::Instruction& instruction) const {
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  isa::encode(instruction, bytes);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  out.code.insert(out.code.end(), first, first + bytes.size());
}

Result<neff::EngineProgram> NeffEmitter::assemble(unsigned engine) const {
  neff::EngineProgram out;
  out.engine = static_cast<std::uint8_t>(engine);
  out.generation = 2;
  std::uint32_t step_number = 0;
  for (const Step& step : program_.steps_[engine]) {
    ++step_number;
    isa::Instruction instruction = step.instruction;
    if (instruction.debug == 0) instruction.debug = step.label;
    // Two waits fit into an instruction; the others go to `event` instructions before it.
    std::size_t next = 0;
    while (step.waits.size() - next > 2) {
      isa::Instruction event;
      event.opcode = NEURON_OP_EVENT;
      event.engines = static_cast<std::uint8_t>(1u << engine);
      event.debug = instruction.debug;
      event.wait[0] = wait_for(step.waits[next++]);
      event.wait[1] = wait_for(step.waits[next++]);
      append(out, event);
    }
    for (unsigned w = 0; next < step.waits.size(); ++w) {
      instruction.wait[w] = wait_for(step.waits[next++]);
    }
    if (step.signals) {
      const std::uint32_t signal = signal_count_[engine][step_number - 1] - 1;
      instruction.update[0] = {engine_semaphores_[engine][signal / kSignalsOfASemaphore].number,
                               NEURON_UPDATE_INC, true, false, 0};
    }
    if (step.transfer >= 0) {
      const Transfer& transfer = program_.transfers_[static_cast<std::size_t>(step.transfer)];
      neff::Relocation relocation;
      relocation.pc = out.instructions();
      relocation.field = NEURON_DMA_TRIGGER_M2S;
      relocation.kind = NEURON_RELOC_DMA_BLOCK;
      relocation.symbol = std::to_string(transfer.id);
      out.relocations.push_back(std::move(relocation));
    }
    append(out, instruction);
  }
  if (out.instructions() > NEURON_PROGRAM_MAX) {
    return fail(NRT_RESOURCE, "program \"{}\": {} instructions for {}, at most {} are possible",
                program_.name_, out.instructions(), isa::engine_name(engine), NEURON_PROGRAM_MAX);
  }
  // The labels of this engine, once each and ascending.
  for (const Step& step : program_.steps_[engine]) {
    if (step.label == 0 || (!out.lines.empty() && out.lines.back().debug >= step.label)) continue;
    const Label& label = program_.labels_[step.label - 1];
    out.lines.push_back({step.label, label.line, 0, program_.name_ + "/" + label.section});
  }
  out.entries.push_back({"main", 0, out.instructions(), NEURON_ENTRY_MAIN});
  return out;
}

std::string NeffEmitter::constant_file(const BufferInfo& buffer) { return buffer.name + ".npy"; }

std::string NeffEmitter::model_json() const {
  json::array inputs;
  json::array outputs;
  for (const BufferInfo& buffer : program_.buffers_) {
    if (buffer.kind != BufferKind::kInput && buffer.kind != BufferKind::kOutput) continue;
    json::object tensor;
    tensor["name"] = buffer.name;
    tensor["variable"] = buffer.name;
    tensor["subgraph"] = "sg00";
    tensor["dtype"] = neff::dtype_name(buffer.dtype);
    tensor["shape"] = json::array(buffer.shape.begin(), buffer.shape.end());
    tensor["size"] = buffer.bytes;
    tensor["format"] = std::string("NCHW", std::min<std::size_t>(buffer.shape.size(), 4));
    tensor["timeseries"] = false;
    (buffer.kind == BufferKind::kInput ? inputs : outputs).push_back(std::move(tensor));
  }
  json::object node{{"name", "sg00"}, {"executor", "NeuronCore"}};
  json::object model;
  model["format"] = NEFF_FORMAT;
  model["version"] = 1;
  model["target"] = "trn1";
  model["lnc"] = 1;
  model["nodes"] = json::array{std::move(node)};
  model["inputs"] = std::move(inputs);
  model["outputs"] = std::move(outputs);
  return text(model);
}

std::string NeffEmitter::definition_json() const {
  json::object variables;
  std::uint32_t id = 0;
  for (const BufferInfo& buffer : program_.buffers_) {
    json::object variable;
    variable["type"] = kind_name(buffer.kind);
    variable["var_id"] = id++;
    variable["size"] = buffer.bytes;
    if (buffer.kind == BufferKind::kConstant) variable["file_name"] = constant_file(buffer);
    variables[buffer.name] = std::move(variable);
  }
  variables[Transfer::kOnChipName] =
      json::object{{"type", "state-buffer"}, {"var_id", id}, {"size", NEURON_CORE_SBUF_SIZE}};

  // A queue set is "in" or "out" if that is all it does; the owner is the engine that triggers.
  struct Uses {
    unsigned engine = 0;
    bool only_in = true;
    bool only_out = true;
  };
  std::map<std::string, Uses> queues;
  const auto kind_of = [&](const BufferAccess& side) {
    return side.buffer == Transfer::kOnChip
               ? BufferKind::kTemporary
               : program_.buffers_[static_cast<std::size_t>(side.buffer)].kind;
  };
  for (const Transfer& transfer : program_.transfers_) {
    Uses& uses = queues[transfer.queue];
    uses.engine = transfer.engine;
    uses.only_in = uses.only_in && kind_of(transfer.from) == BufferKind::kInput;
    uses.only_out = uses.only_out && kind_of(transfer.to) == BufferKind::kOutput;
  }
  json::object queue_sets;
  for (const auto& [name, uses] : queues) {
    queue_sets[name] =
        json::object{{"type", uses.only_in    ? "in"
                              : uses.only_out ? "out"
                                              : "data"},
                     {"num_queues", kIncrementsOfATransfer},
                     {"owner", neff::engine_name(static_cast<std::uint8_t>(uses.engine))}};
  }

  json::object engines;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!program_.used_[e]) continue;
    const std::string engine = neff::engine_name(static_cast<std::uint8_t>(e));
    engines[engine] = json::object{{"bin", engine + ".bin"}, {"json", engine + ".json"}};
  }
  json::object semaphores;
  for (const auto& of_engine : engine_semaphores_) {
    for (const Semaphore& semaphore : of_engine) semaphores[semaphore.name] = semaphore.number;
  }
  for (const Semaphore& semaphore : slot_semaphores_) {
    semaphores[semaphore.name] = semaphore.number;
  }
  json::object definition;
  definition["program"] = json::object{{"isa", NEURON_ISA_VERSION}, {"generation", 2}};
  definition["engines"] = std::move(engines);
  definition["semaphore"] = std::move(semaphores);
  definition["dma_queue"] = std::move(queue_sets);
  definition["var"] = std::move(variables);
  return text(definition);
}

std::string NeffEmitter::engine_json(unsigned engine) const {
  json::array list;
  for (const Transfer& transfer : program_.transfers_) {
    if (transfer.engine != engine) continue;
    json::object desc;
    desc["op"] = "copy";
    const auto side = [&](const char* name, const BufferAccess& access) {
      const std::string prefix = name;
      desc[prefix] = access.buffer == Transfer::kOnChip
                         ? std::string(Transfer::kOnChipName)
                         : program_.buffers_[static_cast<std::size_t>(access.buffer)].name;
      desc[prefix + "_off"] = access.offset;
      desc[prefix + "_sizes"] = json::array(access.size.begin(), access.size.begin() + access.ndim);
      desc[prefix + "_steps"] = json::array(access.step.begin(), access.step.begin() + access.ndim);
    };
    side("from", transfer.from);
    side("to", transfer.to);
    json::object entry;
    entry["id"] = transfer.id;
    entry["queue"] = transfer.queue;
    entry["semaphore"] = slot_semaphores_[transfer.slot].number;
    entry["desc"] = std::move(desc);
    list.push_back(std::move(entry));
  }
  return text(json::object{{"dma", std::move(list)}});
}

void NeffEmitter::add_constants(tools::NeffMembers& members) const {
  for (const BufferInfo& buffer : program_.buffers_) {
    if (buffer.kind != BufferKind::kConstant) continue;
    tools::NpyArray array;
    array.type = numpy_type(buffer.dtype);
    array.shape = buffer.shape;
    array.data = buffer.contents;
    members[kDirectory + constant_file(buffer)] = tools::write_npy(array);
  }
}

Result<std::vector<std::uint8_t>> NeffEmitter::emit() {
  NEURON_CHECK(number_semaphores());
  tools::NeffMembers members;
  bool any = false;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!program_.used_[e]) continue;
    any = true;
    NEURON_TRY(assembled, assemble(e));
    NEURON_TRY(binary, tools::write_engine_binary(assembled));
    const std::string engine = neff::engine_name(static_cast<std::uint8_t>(e));
    members[kDirectory + engine + ".bin"] = std::move(binary);
    members[kDirectory + engine + ".json"] = tools::bytes_of(engine_json(e));
  }
  if (!any) return fail(NRT_INVALID, "program \"{}\" uses no engine", program_.name_);
  add_constants(members);
  members["neff.json"] = tools::bytes_of(model_json());
  members[std::string(kDirectory) + "def.json"] = tools::bytes_of(definition_json());
  members["info.json"] = tools::bytes_of(
      text(json::object{{"tool_version", "program-builder 1"}, {"target", "trn1"}}));
  tools::NeffOptions options;
  options.name = program_.name_;
  options.build_version = "program-builder 1";
  return tools::write_neff(members, options);
}

}  // namespace neuron::builder
