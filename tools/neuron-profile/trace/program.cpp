// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/program.h"

#include <algorithm>
#include <boost/json.hpp>

#include "hw/notification.h"
#include "tools/neuron-profile/trace/json_fields.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;
using runtime::fail;

std::vector<NamedRange> ranges(const json::object& object, std::string_view key) {
  std::vector<NamedRange> list;
  each_in(object, key, [&](const json::object& item) {
    list.push_back({static_cast<uint32_t>(number_in(item, "first")),
                    static_cast<uint32_t>(number_in(item, "last")), text_in(item, "name")});
  });
  return list;
}

}  // namespace

Result<Program> Program::parse(std::string_view document) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 16;
  const json::value value = json::parse(document, error, {}, options);
  const json::object* object = error ? nullptr : value.if_object();
  if (object == nullptr) {
    return fail(NRT_INVALID, "the description of the program is no JSON object{}",
                error ? ": " + error.message() : "");
  }
  Program program;
  program.part = static_cast<uint32_t>(number_in(*object, "part"));
  program.name = text_in(*object, "name");
  program.uuid = text_in(*object, "uuid");
  program.runtime_version = text_in(*object, "runtime");
  program.instance = text_in(*object, "instance");
  program.hash = number_in(*object, "hash");
  program.generation =
      static_cast<unsigned>(std::clamp<uint64_t>(number_in(*object, "generation"), 2, 4));
  program.device = static_cast<int64_t>(number_in(*object, "device"));
  program.core = static_cast<int64_t>(number_in(*object, "core"));
  program.vnc = static_cast<int64_t>(number_in(*object, "vnc"));
  program.process = static_cast<int64_t>(number_in(*object, "pid"));
  program.weights_bytes = number_in(*object, "weights_bytes");
  const json::array& wrappers = list_in(*object, "wrappers");
  for (size_t e = 0; e < std::min(wrappers.size(), program.engines.size()); ++e) {
    const int64_t* count = wrappers[e].if_int64();
    program.engines[e].wrapper =
        count != nullptr ? static_cast<uint32_t>(std::clamp<int64_t>(*count, 0, 1 << 24)) : 0;
  }
  each_in(*object, "semaphores", [&](const json::object& item) {
    program.semaphores.push_back(
        {static_cast<uint32_t>(number_in(item, "number")), text_in(item, "name")});
  });
  each_in(*object, "queues", [&](const json::object& item) {
    program.queues.push_back(
        {static_cast<uint32_t>(number_in(item, "number")), text_in(item, "name"),
         static_cast<uint32_t>(number_in(item, "engines")), truth_in(item, "dynamic")});
  });
  each_in(*object, "ports", [&](const json::object& item) {
    program.ports.push_back({text_in(item, "name"), truth_in(item, "output"),
                             number_in(item, "bytes"), numbers_in(item, "shape"),
                             text_in(item, "format"), text_in(item, "type")});
  });
  each_in(*object, "variables", [&](const json::object& item) {
    program.variables.push_back({text_in(item, "name"), text_in(item, "kind"),
                                 number_in(item, "bytes"), number_in(item, "core_offset")});
  });
  program.temporary_bytes = number_in(*object, "temporary_bytes");
  program.ring_bytes = number_in(*object, "ring_bytes");
  for (const json::value& file : list_in(*object, "files")) {
    const json::string* name = file.if_string();
    program.files.push_back(name != nullptr ? runtime::escaped({name->data(), name->size()}) : "");
  }
  program.functions = ranges(*object, "functions");
  program.tensors = ranges(*object, "tensors");
  return program;
}

isa::Instruction Program::instruction(unsigned engine, uint32_t pc) const {
  const std::vector<uint8_t>& code = engines[engine].bytes;
  return isa::decode(isa::Bytes(
      reinterpret_cast<const std::byte*>(code.data()) + size_t{pc} * NEURON_INSTRUCTION_BYTES,
      NEURON_INSTRUCTION_BYTES));
}

std::string Program::text(unsigned engine, uint32_t pc, unsigned opcode) const {
  if (!has(engine, pc)) return isa::opcode_name(opcode);
  return isa::disassemble(instruction(engine, pc), static_cast<int>(engine));
}

const ntff::TraceLine* Program::source(unsigned engine, uint32_t debug) const {
  if (engine >= engines.size()) return nullptr;
  const auto& lines = engines[engine].lines;
  const auto found = std::lower_bound(
      lines.begin(), lines.end(), debug,
      [](const ntff::TraceLine& line, uint32_t wanted) { return line.debug < wanted; });
  if (found == lines.end() || found->debug != debug || found->file >= files.size()) return nullptr;
  return &*found;
}

std::string Program::line(unsigned engine, uint32_t debug) const {
  const ntff::TraceLine* found = source(engine, debug);
  return found != nullptr ? files[found->file] + ":" + std::to_string(found->line) : "";
}

std::string Program::name_of(const std::vector<NamedRange>& ranges, uint32_t debug) {
  for (const NamedRange& range : ranges) {
    if (debug >= range.first && debug <= range.last) return range.name;
  }
  return {};
}

std::string Program::cell(uint32_t cell) const {
  if ((cell & NEURON_WAITED_FOR_DMA) != 0) return "its own DMA";
  if ((cell & 256) != 0) return "event " + std::to_string(cell & 255);
  const std::string number = "semaphore " + std::to_string(cell);
  for (const NumberedName& semaphore : semaphores) {
    if (semaphore.number == cell) return number + " (" + semaphore.name + ")";
  }
  if (cell == NEURON_SEM_LAUNCH) return number + " (launch)";
  return number;
}

const Stream* Program::stream(uint32_t number) const {
  for (const Stream& stream : streams) {
    if (stream.number == number) return &stream;
  }
  return nullptr;
}

const ntff::StreamNote* Program::note(uint32_t number, uint32_t pc) const {
  const Stream* found = stream(number);
  return found != nullptr ? found->note(pc) : nullptr;
}

const Queue* Program::queue(uint32_t number) const {
  for (const Queue& queue : queues) {
    if (queue.number == number) return &queue;
  }
  return nullptr;
}

const char* Program::queue_type(uint32_t number) const {
  const Queue* found = queue(number);
  if (found == nullptr) return "unknown";
  return found->dynamic ? "software_dynamic" : "data";
}

std::string Program::queue_name(uint32_t number) const {
  const Queue* found = queue(number);
  const std::string name = found != nullptr ? found->name
                           : number == NEURON_DMA_QUEUE_COLLECTIVES && !streams.empty()
                               ? "collectives"
                               : "";
  return "queue " + std::to_string(number) + (name.empty() ? "" : " (" + name + ")");
}

const char* engine_name(unsigned engine) {
  switch (engine) {
    case NEURON_ENGINE_PE:
      return "Tensor";
    case NEURON_ENGINE_ACTIVATION:
      return "Scalar";
    case NEURON_ENGINE_POOL:
      return "GpSimd";
    case NEURON_ENGINE_DVE:
      return "Vector";
    case NEURON_ENGINE_SP:
      return "Sync";
    default:
      return isa::engine_name(engine);
  }
}

std::string opcode_name(unsigned opcode) {
  switch (opcode) {
    case NEURON_OP_EVENT:
      return "EVENT_SEMAPHORE";
    case NEURON_OP_ORDER:
      return "SET_ORDERING_MODE";
    case NEURON_OP_COMPLETE:
      return "NOTIFY";  // its record is one
    case NEURON_OP_BRANCH:
    case NEURON_OP_LOOP:
    case NEURON_OP_CALL:
    case NEURON_OP_RET:
      return "COMPARE_BRANCH";
    case NEURON_OP_LOAD:
      return "TENSOR_LOAD";
    default:
      break;
  }
  std::string name = isa::opcode_name(opcode);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c); });
  return name;
}

}  // namespace neuron::profile
