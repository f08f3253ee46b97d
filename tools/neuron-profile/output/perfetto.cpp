// SPDX-License-Identifier: Apache-2.0
//
// The field numbers are those of the published definition of Perfetto's traces; a reduced one is in
// tests/system/profile/perfetto.proto, by which a test decodes what this writes.
#include "tools/neuron-profile/output/perfetto.h"

#include <array>
#include <map>
#include <set>

#include "tools/neuron-profile/analysis/summary.h"
#include "tools/neuron-profile/analysis/timeline.h"

namespace neuron::profile {
namespace {

using runtime::format;

// A message of protocol buffers.
class Message {
 public:
  void number(uint32_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    varint(field << 3 | 1);
    for (int n = 0; n < 8; ++n) bytes_ += static_cast<char>(value >> (8 * n));
  }
  void text(uint32_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(uint32_t field, const Message& value) { text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    while (value >= 128) {
      bytes_ += static_cast<char>(value | 128);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

constexpr uint32_t kPacketClock = 6, kPacketTime = 8, kPacketSequence = 10, kPacketEvent = 11,
                   kPacketClockId = 58, kPacketTrack = 60;
constexpr uint32_t kTrackUuid = 1, kTrackName = 2, kTrackParent = 5, kTrackCounter = 8;
constexpr uint32_t kEventNote = 4, kEventType = 9, kEventTrack = 11, kEventName = 23,
                   kEventCounter = 30, kEventFlow = 47;
constexpr uint32_t kNoteInteger = 4, kNoteText = 6, kNoteName = 10;
constexpr uint32_t kClockId = 1, kClockTime = 2;
constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
constexpr uint64_t kRealTime = 1, kDeviceClock = 64;

// Identifiers of tracks.
constexpr uint64_t kRoot = 1, kHost = 2, kSemaphoreRoot = 3, kLinkRoot = 4, kEngineFirst = 16,
                   kSetupFirst = 32, kStreamFirst = 48, kRunsFirst = 64, kQueueFirst = 0x1000,
                   kCellFirst = 0x10000, kLinkFirst = 0x100000000,
                   kReceivedFirst = 0x10000000000000;

class Writer final : public Visitor {
 public:
  Writer(Sink& sink, const Program& program) : sink_(sink), program_(program) {}

  void begin(const Part& part, size_t execution) {
    const Execution& of = part.executions[execution];
    Message snapshot;
    for (const auto& [id, time] :
         {std::pair{kRealTime, of.begin_ns}, {kDeviceClock, uint64_t{0}}}) {
      Message clock;
      clock.number(kClockId, id);
      clock.number(kClockTime, time);
      snapshot.message(1, clock);
    }
    Message packet;
    packet.number(kPacketSequence, 1);  // clocks from 64 on are those of a sequence
    packet.message(kPacketClock, snapshot);
    put(packet);
    track(kRoot,
          format("NeuronCore {} (device {}, core {}): {}", program_.vnc, program_.device,
                 program_.core, program_.name),
          0);
    track(kHost, "host: executions", 0);
    for (size_t n = 0; n < part.executions.size(); ++n) {
      const Execution& one = part.executions[n];
      const std::string name = format("execution {}{}", n + 1, one.failed ? " (failed)" : "");
      slice(kHost, one.begin_ns, one.end_ns, kRealTime, name, {}, {});
    }
  }

  void instruction(const InstructionEvent& e) override {
    const bool setup = program_.is_setup(e.engine, e.pc);
    Pending& last = pending_[e.engine];
    // A slice ends before the next one of its track begins; results may be visible later.
    if (last.used) put_instruction(last.event, std::min(last.event.end, e.begin));
    last = {e, true};
    const uint64_t id = (setup ? kSetupFirst : kEngineFirst) + e.engine;
    if (known_.insert(id).second) {
      track(id, std::string(engine_name(e.engine)) + (setup ? ": the runtime's set-up" : ""),
            kRoot);
    }
  }

  void stream_instruction(const StreamEvent& e) override {
    if (known_.insert(kStreamFirst + e.stream).second) {
      track(kStreamFirst + e.stream, format("CC core {}", e.stream), kRoot);
    }
    const Stream* stream = program_.stream(e.stream);
    if (stream != nullptr) received(e, *stream);
    Texts texts;
    if (stream != nullptr) {
      texts = {{"does", stream->text(e.pc)}, {"collective", stream->collective_name(e.pc)}};
    }
    Numbers numbers = {{"pc", e.pc}, {"duration_ps", e.end - e.begin}};
    if (e.wait != 0) numbers.emplace_back("waited_ps", e.wait);
    slice(kStreamFirst + e.stream, e.begin / 1000, e.end / 1000, kDeviceClock,
          opcode_name(e.opcode), texts, numbers,
          e.opcode == NEURON_OP_DMA_TRIGGER ? flow_of_stream(e.stream, e.pc) : 0);
  }

  // Runs of collectives, known only when all events have been read.
  void collectives(const std::vector<CollectiveRun>& runs) {
    for (const CollectiveRun& run : runs) {
      if (known_.insert(kRunsFirst + run.stream).second) {
        track(kRunsFirst + run.stream, format("collectives of CC core {}", run.stream), kRoot);
      }
      const Collective& of = program_.stream(run.stream)->collectives[run.collective];
      Texts texts = {{"algorithm", of.algorithm}};
      Numbers numbers = {{"ranks", of.ranks.size()}};
      if (of.sized) {
        const uint64_t time = run.end - run.begin;
        numbers.emplace_back("input_bytes", of.input_bytes);
        numbers.emplace_back("output_bytes", of.output_bytes);
        numbers.emplace_back("algorithm_bytes_per_second",
                             static_cast<uint64_t>(of.algorithm_rate(time)));
        numbers.emplace_back("bus_bytes_per_second", static_cast<uint64_t>(of.bus_rate(time)));
      }
      if (run.trigger) {
        texts.emplace_back("triggered by", engine_name(run.trigger->engine));
        numbers.emplace_back("trigger_delay_ps", run.begin - run.trigger->begin);
      }
      slice(kRunsFirst + run.stream, run.begin / 1000, run.end / 1000, kDeviceClock, of.name, texts,
            numbers);
    }
  }

  void transfer(const TransferEvent& e) override {
    if (link(e)) return;
    const uint64_t id = kQueueFirst + e.queue * uint64_t{kDmaEngines} + e.dma_engine;
    if (known_.insert(kQueueFirst - 1 - e.queue).second) {
      track(kQueueFirst - 1 - e.queue, "DMA " + program_.queue_name(e.queue), kRoot);
    }
    if (known_.insert(id).second) {
      track(id, format("DMA engine {}", e.dma_engine), kQueueFirst - 1 - e.queue);
    }
    slice(id, e.begin / 1000, e.end / 1000, kDeviceClock, format("{} B", e.bytes),
          {{"triggered by",
            format("{} pc {} {}", engine_name(e.trigger), program_.program_counter(e.trigger, e.pc),
                   program_.line(e.trigger, e.debug))}},
          {{"descriptors", e.descriptors}},
          e.stream == kNoStream ? flow_of(e.trigger, e.pc) : flow_of_stream(e.stream, e.pc));
  }

  void update(const UpdateEvent& e) override {
    const uint64_t id = kCellFirst + e.cell;
    if (known_.insert(kSemaphoreRoot).second) track(kSemaphoreRoot, "semaphores", kRoot);
    if (known_.insert(id).second) track(id, program_.cell(e.cell), kSemaphoreRoot, true);
    Message event;
    event.number(kEventType, kCounter);
    event.number(kEventTrack, id);
    event.number(kEventCounter, e.after);
    put_event(event, e.time / 1000, kDeviceClock);
  }

  void end() {
    for (Pending& last : pending_) {
      if (last.used) put_instruction(last.event, last.event.end);
    }
  }

 private:
  struct Pending {
    InstructionEvent event;
    bool used = false;
  };
  using Texts = std::vector<std::pair<const char*, std::string>>;
  using Numbers = std::vector<std::pair<const char*, uint64_t>>;

  // A transfer to another rank, which has a track for each DMA engine.
  bool link(const TransferEvent& e) {
    const ntff::StreamNote* note =
        e.stream == kNoStream || e.writes == 0 ? nullptr : program_.note(e.stream, e.pc);
    if (note == nullptr || !sends(*note)) return false;
    const uint64_t group = kLinkFirst + note->peer * uint64_t{kDmaEngines + 1};
    const uint64_t id = group + 1 + e.dma_engine % kDmaEngines;
    if (known_.insert(kLinkRoot).second) track(kLinkRoot, "links", kRoot);
    if (known_.insert(group).second) track(group, format("to rank {}", note->peer), kLinkRoot);
    if (known_.insert(id).second) track(id, format("DMA engine {}", e.dma_engine), group);
    slice(id, e.begin / 1000, e.end / 1000, kDeviceClock,
          format("{} B to rank {}", e.bytes, note->peer),
          {{"collective", program_.stream(e.stream)->collective_name(e.pc)}},
          {{"bytes", e.bytes}, {"peer", note->peer}}, flow_of_stream(e.stream, e.pc));
    return true;
  }

  // Messages of other ranks, from when this rank waited for them until it saw them.
  void received(const StreamEvent& e, const Stream& stream) {
    std::map<uint32_t, uint64_t> bytes;  // two messages of one rank are one slice
    for (const ntff::StreamWait& wait : stream.waits_of(e.pc)) {
      if (is_arrival(wait)) bytes[wait.peer] += wait.bytes;
    }
    for (const auto& [peer, size] : bytes) {
      const uint64_t id =
          kReceivedFirst + peer * uint64_t{ntff::kMostStreams} + e.stream % ntff::kMostStreams;
      if (known_.insert(kLinkRoot).second) track(kLinkRoot, "links", kRoot);
      if (known_.insert(id).second) {
        track(id, format("from rank {}, CC core {}", peer, e.stream), kLinkRoot);
      }
      slice(id, e.begin_of_wait() / 1000, e.seen() / 1000, kDeviceClock,
            format("{} B from rank {}", size, peer), {{"collective", stream.collective_name(e.pc)}},
            {{"bytes", size}, {"peer", peer}}, flow_of_stream(e.stream, e.pc));
    }
  }

  static uint64_t flow_of_stream(uint32_t stream, uint32_t pc) {
    return uint64_t{stream + 16} << 32 | pc;
  }
  static uint64_t flow_of(unsigned engine, uint32_t pc) { return uint64_t{engine + 1} << 32 | pc; }

  void put_instruction(const InstructionEvent& e, uint64_t end) {
    const bool setup = program_.is_setup(e.engine, e.pc);
    Texts texts = {{"instruction", program_.text(e.engine, e.pc, e.opcode)}};
    if (const std::string line = program_.line(e.engine, e.debug); !line.empty()) {
      texts.emplace_back("source", line);
    }
    Numbers numbers = {{"pc", program_.program_counter(e.engine, e.pc)},
                       {"duration_ps", e.end - e.begin}};
    if (e.speed > 1) texts.emplace_back("performance mode", format("{}x", e.speed));
    if (e.wait != 0) {
      texts.emplace_back("waited for", program_.cell(e.wait_cell));
      numbers.emplace_back("waited_ps", e.wait);
    }
    slice((setup ? kSetupFirst : kEngineFirst) + e.engine, e.begin / 1000, end / 1000, kDeviceClock,
          opcode_name(e.opcode), texts, numbers, e.opcode >> 8 == 6 ? flow_of(e.engine, e.pc) : 0);
  }

  void slice(uint64_t track, uint64_t begin, uint64_t end, uint64_t clock, const std::string& name,
             const Texts& texts, const Numbers& numbers, uint64_t flow = 0) {
    Message event;
    for (const auto& [key, value] : texts) {
      Message note;
      note.text(kNoteName, key);
      note.text(kNoteText, value);
      event.message(kEventNote, note);
    }
    for (const auto& [key, value] : numbers) {
      Message note;
      note.text(kNoteName, key);
      note.number(kNoteInteger, value);
      event.message(kEventNote, note);
    }
    event.number(kEventType, kSliceBegin);
    event.number(kEventTrack, track);
    event.text(kEventName, name);
    if (flow != 0) event.fixed64(kEventFlow, flow);
    put_event(event, begin, clock);
    Message last;
    last.number(kEventType, kSliceEnd);
    last.number(kEventTrack, track);
    put_event(last, std::max(begin, end), clock);
  }

  void put_event(const Message& event, uint64_t time, uint64_t clock) {
    Message packet;
    packet.number(kPacketTime, time);
    packet.number(kPacketClockId, clock);
    packet.number(kPacketSequence, 1);
    packet.message(kPacketEvent, event);
    put(packet);
  }

  void track(uint64_t id, const std::string& name, uint64_t parent, bool counter = false) {
    Message track;
    track.number(kTrackUuid, id);
    track.text(kTrackName, name);
    if (parent != 0) track.number(kTrackParent, parent);
    if (counter) track.message(kTrackCounter, {});
    Message packet;
    packet.message(kPacketTrack, track);
    put(packet);
  }

  void put(const Message& packet) {
    Message trace;
    trace.message(1, packet);
    sink_.write(trace.bytes());
  }

  Sink& sink_;
  const Program& program_;
  std::array<Pending, NEURON_CORE_ENGINES> pending_;
  std::set<uint64_t> known_;
};

}  // namespace

Result<void> write_perfetto(Profile& profile, uint32_t part, size_t execution, Sink& sink) {
  const Part& of = profile.parts()[part];
  Writer writer(sink, of.program);
  writer.begin(of, execution);
  NEURON_CHECK(profile.visit(part, execution, writer));
  writer.end();
  if (!of.program.streams.empty()) {
    NEURON_TRY(summary, summarize(profile, part, execution));
    writer.collectives(summary.collectives.runs);
  }
  return sink.close();
}

}  // namespace neuron::profile
