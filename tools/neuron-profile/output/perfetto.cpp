// SPDX-License-Identifier: Apache-2.0
//
// The field numbers are those of the published definition of Perfetto's traces; a reduced one is in
// tests/system/profile/perfetto.proto, by which a test decodes what this writes.
#include "tools/neuron-profile/output/perfetto.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tools/neuron-profile/analysis/dependencies.h"
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
                   kEventCounter = 30, kEventFlow = 47, kEventFlowEnd = 48;
constexpr uint32_t kNoteInteger = 4, kNoteText = 6, kNoteName = 10;
constexpr uint32_t kClockId = 1, kClockTime = 2;
constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
constexpr uint64_t kRealTime = 1, kProgramClock = 64, kSetupClock = 65;

// A slice by its kind and its number among those of the kind, in the order of time.
enum class SliceKind : uint8_t { kInstruction, kTransfer, kStream };
uint64_t slice_key(SliceKind kind, uint64_t number) {
  return uint64_t{static_cast<uint8_t>(kind)} << 62 | number;
}

// What leads where. The id of a flow is its place among those that are sorted by where they begin.
class Flows {
 public:
  void add(uint64_t from, uint64_t to) {
    if (list_.size() < kMostFlows) {
      list_.push_back({from, to});
    } else {
      cut_ = true;
    }
  }
  void sort() {
    std::sort(list_.begin(), list_.end(), [](const Edge& a, const Edge& b) {
      return std::tie(a.from, a.to) < std::tie(b.from, b.to);
    });
    by_end_.resize(list_.size());
    std::iota(by_end_.begin(), by_end_.end(), 0u);
    std::stable_sort(by_end_.begin(), by_end_.end(),
                     [&](uint32_t a, uint32_t b) { return list_[a].to < list_[b].to; });
  }
  // Writes the ids of a slice into its first event.
  void put(uint64_t key, Message& event) const {
    auto from =
        std::lower_bound(list_.begin(), list_.end(), key,
                         [](const Edge& edge, uint64_t wanted) { return edge.from < wanted; });
    for (; from != list_.end() && from->from == key; ++from) {
      event.fixed64(kEventFlow, static_cast<uint64_t>(from - list_.begin()) + 1);
    }
    auto to = std::lower_bound(by_end_.begin(), by_end_.end(), key,
                               [&](uint32_t n, uint64_t wanted) { return list_[n].to < wanted; });
    for (; to != by_end_.end() && list_[*to].to == key; ++to) {
      event.fixed64(kEventFlowEnd, uint64_t{*to} + 1);
    }
  }
  bool cut() const { return cut_; }

 private:
  struct Edge {
    uint64_t from = 0, to = 0;
  };
  std::vector<Edge> list_;
  std::vector<uint32_t> by_end_;
  bool cut_ = false;
};

// Finds them, before any slice is written: a slice names the flows that begin at it, and what they
// lead to comes later.
class FlowFinder final : public Visitor {
 public:
  explicit FlowFinder(Flows& flows)
      : flows_(flows), dependencies_([&flows](const Dependency& one) {
          const auto key = [](bool transfer, uint64_t row) {
            return slice_key(transfer ? SliceKind::kTransfer : SliceKind::kInstruction, row);
          };
          flows.add(key(one.from_transfer, one.from), key(one.to_transfer, one.to));
        }) {}
  void instruction(const InstructionEvent& e) override {
    dependencies_.instruction(e, instructions_++);
  }
  void stream_instruction(const StreamEvent& e) override {
    last_of_stream_[uint64_t{e.stream} << 32 | e.pc] = streams_++;
  }
  void transfer(const TransferEvent& e) override {
    const uint64_t row = transfers_++;
    dependencies_.transfer(e, row);
    if (e.stream == kNoStream) return;
    const auto trigger = last_of_stream_.find(uint64_t{e.stream} << 32 | e.pc);
    if (trigger == last_of_stream_.end()) return;
    flows_.add(slice_key(SliceKind::kStream, trigger->second),
               slice_key(SliceKind::kTransfer, row));
  }
  void update(const UpdateEvent& e) override { dependencies_.update(e); }
  void finish() { dependencies_.finish(); }

 private:
  Flows& flows_;
  Dependencies dependencies_;
  std::unordered_map<uint64_t, uint64_t> last_of_stream_;
  uint64_t instructions_ = 0, transfers_ = 0, streams_ = 0;
};

// Identifiers of tracks.
constexpr uint64_t kRoot = 1, kHost = 2, kSemaphoreRoot = 3, kLinkRoot = 4, kEngineFirst = 16,
                   kSetupFirst = 32, kStreamFirst = 48, kRunsFirst = 64, kQueueFirst = 0x1000,
                   kCellFirst = 0x10000, kLinkFirst = 0x100000000,
                   kReceivedFirst = 0x10000000000000;

class Writer final : public Visitor {
 public:
  // `first`: of the program's first instruction.
  Writer(Sink& sink, const Program& program, uint64_t first, const Flows& flows)
      : sink_(sink), program_(program), first_(first), flows_(flows) {}

  void begin(const Part& part, size_t execution) {
    const Execution of = part.executions[execution];
    Message snapshot;
    for (const auto& [id, time] : {std::pair{kRealTime, of.begin_ns + first_ / 1000},
                                   {kProgramClock, uint64_t{0}},
                                   {kSetupClock, first_ / 1000}}) {
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
          format("NeuronCore {} (device {}, core {}): {}{}", program_.vnc, program_.device,
                 program_.core, program_.name,
                 flows_.cut() ? format(" (only {} flows are shown)", kMostFlows) : ""),
          0);
    track(kHost, "host: executions", 0);
    for (size_t n = 0; n < part.executions.size(); ++n) {
      const Execution one = part.executions[n];
      const std::string name = format("execution {}{}", n + 1, one.failed ? " (failed)" : "");
      slice(kHost, {kRealTime, one.begin_ns}, {kRealTime, std::max(one.begin_ns, one.end_ns)}, name,
            {}, {});
    }
  }

  void instruction(const InstructionEvent& e) override {
    const bool setup = program_.is_setup(e.engine, e.pc);
    Pending& last = pending_[e.engine];
    // A slice ends before the next one of its track begins; results may be visible later.
    if (last.used) put_instruction(last, std::min(last.event.end, e.begin));
    last = {e, instructions_++, true};
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
    slice(kStreamFirst + e.stream, at(e.begin), at(std::max(e.begin, e.end)), opcode_name(e.opcode),
          texts, numbers, slice_key(SliceKind::kStream, streams_++));
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
      slice(kRunsFirst + run.stream, at(run.begin), at(std::max(run.begin, run.end)), of.name,
            texts, numbers);
    }
  }

  void transfer(const TransferEvent& e) override {
    const uint64_t key = slice_key(SliceKind::kTransfer, transfers_++);
    if (link(e, key)) return;
    const uint64_t id = kQueueFirst + e.queue * uint64_t{kDmaEngines} + e.dma_engine;
    if (known_.insert(kQueueFirst - 1 - e.queue).second) {
      track(kQueueFirst - 1 - e.queue, "DMA " + program_.queue_name(e.queue), kRoot);
    }
    if (known_.insert(id).second) {
      track(id, format("DMA engine {}", e.dma_engine), kQueueFirst - 1 - e.queue);
    }
    slice(id, at(e.begin), at(std::max(e.begin, e.end)), format("{} B", e.bytes),
          {{"triggered by",
            format("{} pc {} {}", engine_name(e.trigger), program_.program_counter(e.trigger, e.pc),
                   program_.line(e.trigger, e.debug))}},
          {{"descriptors", e.descriptors}}, key);
  }

  void update(const UpdateEvent& e) override {
    const uint64_t id = kCellFirst + e.cell;
    if (known_.insert(kSemaphoreRoot).second) track(kSemaphoreRoot, "semaphores", kRoot);
    if (known_.insert(id).second) track(id, program_.cell(e.cell), kSemaphoreRoot, true);
    Message event;
    event.number(kEventType, kCounter);
    event.number(kEventTrack, id);
    event.number(kEventCounter, e.after);
    put_event(event, at(e.time));
  }

  void end() {
    for (Pending& last : pending_) {
      if (last.used) put_instruction(last, std::max(last.event.begin, last.event.end));
    }
  }

 private:
  struct Pending {
    InstructionEvent event;
    uint64_t number = 0;
    bool used = false;
  };
  struct Moment {
    uint64_t clock = kRealTime, ns = 0;
  };
  static constexpr uint64_t kNoKey = UINT64_MAX;

  // What is before the program's first instruction has a clock that has begun before it.
  Moment at(uint64_t ps) const {
    if (ps < first_) return {kSetupClock, ps / 1000};
    return {kProgramClock, (ps - first_) / 1000};
  }

  using Texts = std::vector<std::pair<const char*, std::string>>;
  using Numbers = std::vector<std::pair<const char*, uint64_t>>;

  // A transfer to another rank, which has a track for each DMA engine.
  bool link(const TransferEvent& e, uint64_t key) {
    const ntff::StreamNote* note =
        e.stream == kNoStream || e.writes == 0 ? nullptr : program_.note(e.stream, e.pc);
    if (note == nullptr || !sends(*note)) return false;
    const uint64_t group = kLinkFirst + note->peer * uint64_t{kDmaEngines + 1};
    const uint64_t id = group + 1 + e.dma_engine % kDmaEngines;
    if (known_.insert(kLinkRoot).second) track(kLinkRoot, "links", kRoot);
    if (known_.insert(group).second) track(group, format("to rank {}", note->peer), kLinkRoot);
    if (known_.insert(id).second) track(id, format("DMA engine {}", e.dma_engine), group);
    slice(id, at(e.begin), at(std::max(e.begin, e.end)),
          format("{} B to rank {}", e.bytes, note->peer),
          {{"collective", program_.stream(e.stream)->collective_name(e.pc)}},
          {{"bytes", e.bytes}, {"peer", note->peer}}, key);
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
      slice(id, at(e.begin_of_wait()), at(e.seen()), format("{} B from rank {}", size, peer),
            {{"collective", stream.collective_name(e.pc)}}, {{"bytes", size}, {"peer", peer}});
    }
  }

  void put_instruction(const Pending& pending, uint64_t end) {
    const InstructionEvent& e = pending.event;
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
    slice((setup ? kSetupFirst : kEngineFirst) + e.engine, at(e.begin), at(std::max(e.begin, end)),
          opcode_name(e.opcode), texts, numbers,
          slice_key(SliceKind::kInstruction, pending.number));
  }

  void slice(uint64_t track, Moment begin, Moment end, const std::string& name, const Texts& texts,
             const Numbers& numbers, uint64_t key = kNoKey) {
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
    if (key != kNoKey) flows_.put(key, event);
    put_event(event, begin);
    Message last;
    last.number(kEventType, kSliceEnd);
    last.number(kEventTrack, track);
    put_event(last, end);
  }

  void put_event(const Message& event, Moment time) {
    Message packet;
    packet.number(kPacketTime, time.ns);
    packet.number(kPacketClockId, time.clock);
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
  const uint64_t first_;
  const Flows& flows_;
  std::array<Pending, NEURON_CORE_ENGINES> pending_;
  uint64_t instructions_ = 0, transfers_ = 0, streams_ = 0;
  std::set<uint64_t> known_;
};

}  // namespace

Result<void> write_perfetto(Profile& profile, uint32_t part, size_t execution, Sink& sink,
                            bool flows) {
  const Part& of = profile.parts()[part];
  NEURON_TRY(summary, summarize(profile, part, execution));
  Flows found;
  if (flows) {
    FlowFinder finder(found);
    NEURON_CHECK(profile.visit_in_order(part, execution, finder));
    finder.finish();
    found.sort();
  }
  Writer writer(sink, of.program, summary.first, found);
  writer.begin(of, execution);
  // In the order in which flows were found.
  NEURON_CHECK(profile.visit_in_order(part, execution, writer));
  writer.end();
  writer.collectives(summary.collectives.runs);
  return sink.close();
}

}  // namespace neuron::profile
