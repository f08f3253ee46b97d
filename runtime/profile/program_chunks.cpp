// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/program_chunks.h"

#include <unistd.h>

#include <map>

#include "driver/base/json_text.h"
#include "runtime/observe/version.h"

namespace neuron::runtime {
namespace {

using base::json_string;
using ntff::ChunkKind;
using ntff::TraceLine;

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
             R"("vnc":{},"pid":{},"runtime":"{}","weights_bytes":{},"wrappers":[{}])",
             part, json_string(model.name()), uuid, model_hash(model),
             core.place().chip->generation, core.device().index(), core.number(), vnc, getpid(),
             kRuntimeVersion, model.constant_bytes(), wrappers);
  text += ",\"semaphores\":" + json_list(model.semaphores(), [](const neff::Semaphore& s) {
            return format(R"({{"number":{},"name":{}}})", s.number, json_string(s.name));
          });
  text += ",\"queues\":" + json_list(model.rings().queues(), [](const QueuePlan& queue) {
            return format(R"({{"number":{},"name":{},"engines":{},"dynamic":{}}})", queue.number,
                          json_string(queue.name), queue.engines, queue.dynamic);
          });
  text += ",\"ports\":" + json_list(model.ports(), [](const ModelPort& port) {
            return format(R"({{"name":{},"output":{},"bytes":{}}})", json_string(port.info.name),
                          port.output, port.info.size);
          });
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
  return {};
}

}  // namespace neuron::runtime
