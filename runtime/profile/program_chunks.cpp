// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/program_chunks.h"

#include <unistd.h>

#include <map>

#include "driver/base/json_text.h"
#include "hw/udma.h"
#include "runtime/observe/version.h"
#include "runtime/session/instance.h"

namespace neuron::runtime {
namespace {

using base::json_string;
using ntff::ChunkKind;
using ntff::TraceLine;
using ntff::TracePacket;

template <class List, class Text>
std::string json_list(const List& list, Text&& text) {
  std::string out = "[";
  for (const auto& item : list) {
    if (out.size() > 1) out += ',';
    out += text(item);
  }
  return out + "]";
}

std::string ranges(const std::vector<neff::DebugRange>& list) {
  return json_list(list, [](const neff::DebugRange& range) {
    return format(R"({{"first":{},"last":{},"name":{}}})", range.first, range.last,
                  json_string(range.name));
  });
}

std::span<const uint8_t> bytes_of(const auto& list) {
  return {reinterpret_cast<const uint8_t*>(list.data()), list.size() * sizeof(list[0])};
}

// The lines of all engines, and the files that they are in.
struct Lines {
  std::map<std::string, uint32_t> numbers;
  std::vector<std::string> files;
  std::array<std::vector<TraceLine>, NEURON_CORE_ENGINES> of_engine;

  explicit Lines(const LoadedModel& model) {
    for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      for (const neff::SourceLine& line : model.image(engine).lines) {
        const auto [known, added] =
            numbers.try_emplace(line.file, static_cast<uint32_t>(files.size()));
        if (added) files.push_back(line.file);
        of_engine[engine].push_back({line.debug, line.line, known->second, line.column});
      }
    }
  }
};

const char* kind_name(neff::VariableKind kind) {
  switch (kind) {
    case neff::VariableKind::kInput:
      return "input";
    case neff::VariableKind::kOutput:
      return "output";
    case neff::VariableKind::kFile:
      return "weight";
    case neff::VariableKind::kStateBuffer:
      return "core";
    case neff::VariableKind::kVirtual:
      return "scratchpad";
    case neff::VariableKind::kPointer:
    case neff::VariableKind::kDgeTable:
      return "pointers";
    default:
      return "temporary";
  }
}

std::string shape_text(const std::vector<uint32_t>& shape) {
  return json_list(shape, [](uint32_t size) { return std::to_string(size); });
}

// A variable that another core's part of the model has too is described by each.
std::string variables(const LoadedModel& model) {
  std::string out = "[";
  const auto& names = model.variable_names();
  for (uint32_t n = 0; n < names.size(); ++n) {
    out += format(R"({}{{"name":{},"kind":"{}","bytes":{},"core_offset":{}}})", n == 0 ? "" : ",",
                  json_string(names[n].name), kind_name(names[n].kind), model.variable_size(n),
                  names[n].core_offset);
  }
  return out + "]";
}

uint64_t ring_bytes(const RingPlan& rings) {
  uint64_t slots = 0;
  for (const QueuePlan& queue : rings.queues()) {
    for (const RingPair& ring : queue.rings) slots += ring.m2s_length + ring.s2m_length;
  }
  return slots * NEURON_DESC_BYTES;
}

// The packets of one ring. What a compute packet writes is not told: its descriptors of that side
// do not say where they end, so neither is it of the packets behind one.
std::vector<TracePacket> packets_of(const RingPlan& plan, const RingPair& ring) {
  std::vector<TracePacket> packets;
  bool plain = true;
  for (const RingDescriptor& one : ring.m2s) {
    if (one.first) packets.emplace_back();
    if (packets.empty()) return {};
    TracePacket& packet = packets.back();
    plain = plain && one.first && one.last && one.base != RingDescriptor::kMetadata;
    if (one.base == RingDescriptor::kMetadata) continue;
    packet.bytes += one.length;
    const size_t n = packets.size() - 1;
    if (!plain || n >= ring.s2m.size()) continue;
    const RingDescriptor& to = ring.s2m[n];
    if (one.base < plan.one_index()) {
      packet.from = one.base;
      packet.from_offset = one.offset;
    }
    if (to.base < plan.one_index()) {
      packet.to = to.base;
      packet.to_offset = to.offset;
    } else if (to.base == plan.semaphore_index()) {
      packet.semaphore = static_cast<uint32_t>(to.offset / 4);
    }
  }
  return packets;
}

std::string describe(uint32_t part, const LoadedModel& model, uint32_t vnc, const Lines& lines) {
  const Core& core = model.core();
  std::string uuid;
  for (const uint8_t byte : model.uuid()) uuid += format("{:02x}", byte);
  std::string wrappers;
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    wrappers += (engine == 0 ? "" : ",") + std::to_string(model.image(engine).wrapper);
  }
  std::string text =
      format(R"({{"part":{},"name":{},"uuid":"{}","hash":{},"generation":{},"device":{},"core":{},)"
             R"("vnc":{},"pid":{},"runtime":"{}","instance":{},"weights_bytes":{},"wrappers":[{}])",
             part, json_string(model.name()), uuid, model_hash(model),
             core.place().chip->generation, core.device().index(), core.number(), vnc, getpid(),
             kRuntimeVersion, json_string(instance_type()), model.constant_bytes(), wrappers);
  text += ",\"semaphores\":" + json_list(model.semaphores(), [](const neff::Semaphore& s) {
            return format(R"({{"number":{},"name":{}}})", s.number, json_string(s.name));
          });
  text += ",\"queues\":" + json_list(model.rings().queues(), [](const QueuePlan& queue) {
            return format(R"({{"number":{},"name":{},"engines":{},"dynamic":{}}})", queue.number,
                          json_string(queue.name), queue.engines, queue.dynamic);
          });
  text +=
      ",\"ports\":" + json_list(model.ports(), [](const ModelPort& port) {
        return format(R"({{"name":{},"output":{},"bytes":{},"shape":{},"format":{},"type":"{}"}})",
                      json_string(port.info.name), port.output, port.info.size,
                      shape_text(port.info.shape), json_string(port.info.format),
                      neff::dtype_name(port.info.dtype));
      });
  text += ",\"variables\":" + variables(model);
  text += format(R"(,"temporary_bytes":{},"ring_bytes":{})", model.temporary_bytes(),
                 ring_bytes(model.rings()));
  text += ",\"files\":" + json_list(lines.files, json_string);
  text += ",\"functions\":" + ranges(model.debug().functions);
  text += ",\"tensors\":" + ranges(model.debug().tensors);
  return text + "}";
}

}  // namespace

uint64_t model_hash(const LoadedModel& model) {
  uint64_t hash = 0;
  for (const uint8_t byte : std::span(model.uuid()).first(8)) hash = hash << 8 | byte;
  // Within what every reader of JSON keeps.
  return hash >> 11;
}

Result<void> write_program(ntff::TraceFileWriter& file, uint32_t part, const LoadedModel& model,
                           uint32_t vnc) {
  const Lines lines(model);
  NEURON_CHECK(
      file.write(ChunkKind::kModel, {.part = part, .index = 0}, describe(part, model, vnc, lines)));
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const ntff::ChunkPlace place{.part = part, .index = engine};
    const auto code = bytes_of(model.image(engine).code);
    // Whole instructions; a reader puts the pieces together.
    constexpr size_t kPiece = size_t{64} << 20;
    for (size_t at = 0; at < code.size(); at += kPiece) {
      NEURON_CHECK(file.write(ChunkKind::kCode, place,
                              code.subspan(at, std::min(kPiece, code.size() - at))));
    }
    if (lines.of_engine[engine].empty()) continue;
    NEURON_CHECK(file.write(ChunkKind::kLines, place, bytes_of(lines.of_engine[engine])));
  }
  // Of a model with more, readers know transfers and not their packets.
  constexpr uint64_t kMostDescriptors = 2u << 20;
  const RingPlan& rings = model.rings();
  if (rings.descriptor_count() > kMostDescriptors) return {};
  for (const QueuePlan& queue : rings.queues()) {
    // Which function's ring a shared queue has, changes while the program runs.
    if (queue.shared) continue;
    for (uint32_t engine = 0; engine < kDmaEngines; ++engine) {
      const std::vector<TracePacket> packets = packets_of(rings, queue.rings[engine]);
      if (packets.empty()) continue;
      const ntff::ChunkPlace place{.part = part,
                                   .index = static_cast<uint32_t>(queue.number) << 8 | engine};
      NEURON_CHECK(file.write(ChunkKind::kPackets, place, bytes_of(packets)));
    }
  }
  return {};
}

}  // namespace neuron::runtime
