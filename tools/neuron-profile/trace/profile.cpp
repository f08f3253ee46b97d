// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/profile.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstring>

#include "tools/neuron-profile/trace/json_fields.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;
using ntff::Chunk;
using ntff::ChunkKind;
using runtime::fail;

constexpr uint32_t kMostParts = 2;
// What a profile may make this program hold, since a small file may inflate to a thousand times its
// size: descriptions of programs, of executions and of the end, and all instructions and lines.
constexpr size_t kMostDescription = size_t{64} << 20;
constexpr size_t kMostExecution = size_t{64} << 10;
constexpr size_t kMostCode = size_t{1} << 30;

Result<json::object> parse(const Chunk& chunk) {
  boost::system::error_code error;
  json::value value = json::parse(chunk.text(), error);
  if (error || !value.is_object()) return fail(NRT_INVALID, "a chunk is no JSON object");
  return std::move(value.get_object());
}

Result<void> take_execution(const Chunk& chunk, Executions& executions) {
  NEURON_TRY(object, parse(chunk));
  Execution execution{.exec_id = number_in(object, "exec_id"),
                      .failed = truth_in(object, "failed"),
                      .begin_ns = number_in(object, "begin_ns"),
                      .end_ns = number_in(object, "end_ns"),
                      .device_ps = number_in(object, "device_ps"),
                      .lost = number_in(object, "lost"),
                      .multiply_accumulates = number_in(object, "multiply_accumulates"),
                      .dma_bytes = number_in(object, "dma_bytes"),
                      .link_bytes = number_in(object, "link_bytes")};
  if (!object.contains("same_as")) {
    executions.add(execution);
    return {};
  }
  const uint64_t same = number_in(object, "same_as");
  if (same >= executions.size()) {
    return fail(NRT_INVALID, "execution {} says that it is the same as execution {}",
                executions.size(), same);
  }
  executions.add_same(same, execution);
  return {};
}

// Turns entries of rings into events. A wait belongs to the instruction behind it.
class Decoder {
 public:
  explicit Decoder(Visitor& visitor) : visitor_(visitor) {}

  void take(uint32_t slot, const neuron_notification& entry) {
    const uint32_t kind = entry.word >> NEURON_NW_KIND_SHIFT & 0xF;
    if (kind == NEURON_NK_OVERFLOW) return visitor_.gap(slot, entry.info[0]);
    if (slot < NEURON_CORE_ENGINES) return instruction(slot, kind, entry);
    if (slot >= ntff::kCollectiveRing && slot < ntff::kCollectiveRing + ntff::kMostStreams) {
      return stream_instruction(slot - ntff::kCollectiveRing, kind, entry);
    }
    if (slot == NEURON_NQ_SLOT_SEMAPHORE && kind == NEURON_NK_SEMAPHORE) return update(entry);
    if (slot == NEURON_NQ_SLOT_TRANSFER && kind == NEURON_NK_TRANSFER) return transfer(entry);
  }

 private:
  static uint8_t engine_of(const neuron_notification& entry) {
    return static_cast<uint8_t>(entry.word >> NEURON_NW_ENGINE_SHIFT & 0xF);
  }
  static uint16_t opcode_of(const neuron_notification& entry) {
    return static_cast<uint16_t>(entry.word >> NEURON_NW_OPCODE_SHIFT & 0xFFF);
  }

  void instruction(uint32_t slot, uint32_t kind, const neuron_notification& entry) {
    InstructionEvent& next = next_[slot];
    if (kind == NEURON_NK_WAIT) {
      const uint64_t wait = uint64_t{entry.info[2]} << 32 | entry.info[1];
      next.wait += std::min<uint64_t>(wait, entry.time);
      next.wait_end = entry.time;
      next.wait_cell = entry.info[0];
    }
    if (kind != NEURON_NK_TRACE) return;
    next.end = entry.time;
    next.begin = entry.time - std::min<uint64_t>(entry.time, entry.info[0]);
    next.pc = entry.pc;
    next.debug = entry.debug;
    next.elements = entry.info[2] >> 8;
    const uint32_t mode = entry.info[2] & 0xFF;
    next.speed = mode == 2 || mode == 4 ? static_cast<uint8_t>(mode) : 1;
    next.opcode = opcode_of(entry);
    next.engine = static_cast<uint8_t>(slot);
    visitor_.instruction(next);
    next = {};
  }

  void stream_instruction(uint32_t stream, uint32_t kind, const neuron_notification& entry) {
    StreamEvent& next = next_of_stream_[stream];
    if (kind == NEURON_NK_WAIT) {
      const uint64_t wait = uint64_t{entry.info[2]} << 32 | entry.info[1];
      next.wait += std::min<uint64_t>(wait, entry.time);
      next.wait_end = entry.time;
      next.wait_cell = entry.info[0];
    }
    if (kind != NEURON_NK_TRACE) return;
    next.end = entry.time;
    next.begin = entry.time - std::min<uint64_t>(entry.time, entry.info[0]);
    next.pc = entry.pc;
    next.opcode = opcode_of(entry);
    next.stream = static_cast<uint8_t>(stream);
    visitor_.stream_instruction(next);
    next = {};
  }

  void transfer(const neuron_notification& entry) {
    const bool collective = engine_of(entry) == NEURON_ENGINE_CC;
    visitor_.transfer(
        {.begin = entry.time - std::min<uint64_t>(entry.time, entry.info[2]),
         .end = entry.time,
         .bytes = entry.info[1],
         .pc = entry.pc,
         .debug = entry.debug,
         .opcode = opcode_of(entry),
         .trigger = engine_of(entry),
         .dma_engine = static_cast<uint8_t>(entry.info[0] >> 8 & 0xF),
         .queue = static_cast<uint8_t>(entry.info[0] & 0xF),
         .descriptors = static_cast<uint8_t>(entry.word >> NEURON_NW_CODE_SHIFT),
         .reads = static_cast<uint8_t>(entry.info[0] >> 16 & 0xF),
         .writes = static_cast<uint8_t>(entry.info[0] >> (16 + NEURON_PLACE_WRITE_SHIFT) & 0xF),
         .stream = collective ? static_cast<uint8_t>(entry.info[0] >> 24 & 0xF) : kNoStream});
  }

  void update(const neuron_notification& entry) {
    const uint8_t source = engine_of(entry);
    const uint32_t dma = source == NEURON_ENGINE_DMA ? entry.pc : 0;
    visitor_.update({.time = entry.time,
                     .cell = entry.info[0] & 511,
                     .before = entry.info[2],
                     .after = entry.info[1],
                     .pc = source == NEURON_ENGINE_DMA ? 0 : entry.pc,
                     .source = source,
                     .dma_engine = static_cast<uint8_t>(dma >> 8 & 0xF),
                     .queue = static_cast<uint8_t>(dma & 0xF),
                     .operation = static_cast<uint8_t>(entry.word >> NEURON_NW_CODE_SHIFT & 7),
                     .at_complete = (entry.word >> NEURON_NW_CODE_SHIFT & 8) != 0});
  }

  Visitor& visitor_;
  std::array<InstructionEvent, NEURON_CORE_ENGINES> next_;
  std::array<StreamEvent, ntff::kMostStreams> next_of_stream_;
};

}  // namespace

Result<Profile> Profile::open(const std::string& path, Watcher watcher) {
  NEURON_TRY(file, ntff::TraceFileReader::open(path));
  Profile profile(std::move(file));
  profile.watcher_ = std::move(watcher);
  NEURON_CHECK(profile.scan());
  return profile;
}

Result<Profile> Profile::read(base::FileDescriptor descriptor, std::string path) {
  NEURON_TRY(file, ntff::TraceFileReader::read(std::move(descriptor), std::move(path)));
  Profile profile(std::move(file));
  NEURON_CHECK(profile.scan());
  return profile;
}

Result<void> Profile::check_size(const Chunk& chunk) {
  const bool code = chunk.kind == ChunkKind::kCode || chunk.kind == ChunkKind::kLines ||
                    chunk.kind == ChunkKind::kNotes || chunk.kind == ChunkKind::kWaits ||
                    chunk.kind == ChunkKind::kPackets;
  if (code) code_bytes_ += chunk.bytes.size();
  const size_t most =
      code                                                                   ? kMostCode
      : chunk.kind == ChunkKind::kModel || chunk.kind == ChunkKind::kStream  ? kMostDescription
      : chunk.kind == ChunkKind::kExecution || chunk.kind == ChunkKind::kEnd ? kMostExecution
                                                                             : SIZE_MAX;
  const uint64_t size = code ? code_bytes_ : chunk.bytes.size();
  if (size <= most) return {};
  return fail(NRT_INVALID,
              "the profile '{}' is damaged: it has {} of {} bytes or more, and at most {} are read",
              path(), code ? "instructions and lines" : "a description", size, most);
}

// A description of a CC core that the file has already takes the place of the earlier one.
Result<void> Profile::take_stream(Program& program, const Chunk& chunk) {
  const auto found =
      std::find_if(program.streams.begin(), program.streams.end(),
                   [&](const Stream& stream) { return stream.number == chunk.place.index; });
  if (chunk.kind == ChunkKind::kNotes || chunk.kind == ChunkKind::kWaits) {
    if (found == program.streams.end()) return {};
    chunk.kind == ChunkKind::kNotes ? found->take_notes(chunk.bytes)
                                    : found->take_waits(chunk.bytes);
    return {};
  }
  auto stream = Stream::parse(chunk.text());
  if (!stream) return stream.error().with("the profile '{}' is damaged", path());
  if (stream->number != chunk.place.index || stream->number >= ntff::kMostStreams) {
    return fail(NRT_INVALID,
                "the profile '{}' is damaged: it describes collective core {} in the place of {}, "
                "and a core has at most {}",
                path(), stream->number, chunk.place.index, ntff::kMostStreams);
  }
  if (found != program.streams.end()) {
    *found = std::move(*stream);
  } else {
    program.streams.push_back(std::move(*stream));
  }
  return {};
}

Result<void> Profile::scan() {
  // bounded: each turn reads a chunk of the file.
  for (;;) {
    NEURON_TRY(next, file_.next(ntff::but(ChunkKind::kEntries)));
    if (!next) break;
    Chunk& chunk = *next;
    tell_place(file_.at());
    NEURON_CHECK(check_size(chunk));
    if (chunk.kind == ChunkKind::kEnd) {
      NEURON_TRY(end, parse(chunk));
      ended_ = true;
      ends_early_ = text_in(end, "cut");
      lost_ = std::max(lost_, number_in(end, "lost"));
      continue;
    }
    if (chunk.kind == ChunkKind::kModel) {
      auto program = Program::parse(chunk.text());
      if (!program) return program.error().with("the profile '{}'", path());
      if (program->part != parts_.size() || parts_.size() == kMostParts) {
        return fail(NRT_INVALID,
                    "the profile '{}' is damaged: it describes core {} behind {} others", path(),
                    program->part, parts_.size());
      }
      parts_.push_back({std::move(*program), {}});
      continue;
    }
    const bool known = chunk.kind == ChunkKind::kExecution || chunk.kind == ChunkKind::kCode ||
                       chunk.kind == ChunkKind::kLines || chunk.kind == ChunkKind::kStream ||
                       chunk.kind == ChunkKind::kNotes || chunk.kind == ChunkKind::kWaits ||
                       chunk.kind == ChunkKind::kPackets;
    if (!known) continue;
    if (chunk.place.part >= parts_.size()) {
      return fail(NRT_INVALID,
                  "the profile '{}' is damaged: it has events of core {} and describes {}", path(),
                  chunk.place.part, parts_.size());
    }
    Part& part = parts_[chunk.place.part];
    if (chunk.kind == ChunkKind::kExecution) {
      const auto taken = take_execution(chunk, part.executions);
      if (!taken) return taken.error().with("the profile '{}' is damaged", path());
      const size_t newest = part.executions.size() - 1;
      lost_ = std::max(lost_, part.executions[newest].lost);
      continue;
    }
    if (chunk.kind == ChunkKind::kStream || chunk.kind == ChunkKind::kNotes ||
        chunk.kind == ChunkKind::kWaits) {
      NEURON_CHECK(take_stream(part.program, chunk));
      continue;
    }
    if (chunk.kind == ChunkKind::kPackets) {
      std::vector<ntff::TracePacket>& ring = part.program.packets[chunk.place.index];
      ring.resize(chunk.bytes.size() / sizeof(ntff::TracePacket));
      if (!ring.empty()) {
        std::memcpy(ring.data(), chunk.bytes.data(), ring.size() * sizeof(ntff::TracePacket));
      }
      continue;
    }
    if (chunk.place.index >= part.program.engines.size()) continue;
    EngineCode& engine = part.program.engines[chunk.place.index];
    if (chunk.kind == ChunkKind::kCode) {
      engine.bytes.insert(engine.bytes.end(), chunk.bytes.begin(), chunk.bytes.end());
    } else {
      engine.lines.resize(chunk.bytes.size() / sizeof(ntff::TraceLine));
      if (!engine.lines.empty()) {
        std::memcpy(engine.lines.data(), chunk.bytes.data(),
                    engine.lines.size() * sizeof(ntff::TraceLine));
      }
      std::stable_sort(engine.lines.begin(), engine.lines.end(),
                       [](const auto& a, const auto& b) { return a.debug < b.debug; });
    }
  }
  if (parts_.empty()) {
    return fail(NRT_INVALID,
                "the profile '{}' describes no program: the capture ended before it began; capture "
                "again",
                path());
  }
  return {};
}

Result<void> Profile::visit(uint32_t part, size_t execution, Visitor& visitor) {
  execution = parts_[part].executions[execution].events;
  NEURON_CHECK(file_.rewind());
  Decoder decoder(visitor);
  size_t index = 0;
  // bounded: each turn reads a chunk of the file.
  while (index <= execution) {
    const uint32_t wanted = ntff::only(ChunkKind::kExecution) |
                            (index == execution ? ntff::only(ChunkKind::kEntries) : 0);
    NEURON_TRY(next, file_.next(wanted));
    if (!next) break;
    tell_place(file_.at());
    if (next->place.part != part) continue;
    if (next->kind == ChunkKind::kExecution) {
      ++index;
    } else if (next->kind == ChunkKind::kEntries && index == execution) {
      neuron_notification entry;
      for (size_t at = 0; at + sizeof(entry) <= next->bytes.size(); at += sizeof(entry)) {
        std::memcpy(&entry, next->bytes.data() + at, sizeof(entry));
        decoder.take(next->place.index, entry);
      }
    }
  }
  return {};
}

Result<RingMerge> Profile::rings_of(uint32_t part, size_t execution) {
  execution = parts_[part].executions[execution].events;
  NEURON_CHECK(file_.rewind());
  RingMerge rings(file_);
  // bounded: each turn passes over a chunk of the file.
  for (size_t index = 0; index <= execution;) {
    NEURON_TRY(found,
               file_.find(ntff::only(ChunkKind::kExecution) | ntff::only(ChunkKind::kEntries)));
    if (!found) break;
    if (found->place.part != part) continue;
    if (found->kind == ChunkKind::kExecution) {
      ++index;
    } else if (index == execution) {
      rings.add(found->place.index, found->at);
    }
  }
  return rings;
}

Result<void> Profile::visit_in_order(uint32_t part, size_t execution, Visitor& visitor) {
  NEURON_TRY(rings, rings_of(part, execution));
  Decoder decoder(visitor);
  return rings.run([&](uint32_t slot, const neuron_notification& entry) {
    // Chunks of several rings are read in turns, so the place in the file jumps.
    if (rings.is_at_chunk()) tell_place(rings.share_of(file_.size()));
    decoder.take(slot, entry);
  });
}

}  // namespace neuron::profile
