// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/page.h"

#include <algorithm>
#include <map>

#include "driver/base/json_text.h"
#include "tools/neuron-profile/analysis/analysis.h"
#include "tools/neuron-profile/output/report.h"

// NEURON_PROFILE_PAGE is the path of the file; the build knows that this object depends on it.
asm(".pushsection .rodata\n"
    ".local neuron_profile_page_begin, neuron_profile_page_end\n"
    "neuron_profile_page_begin: .incbin \"" NEURON_PROFILE_PAGE
    "\"\n"
    "neuron_profile_page_end: .byte 0\n"
    ".popsection\n");

extern "C" const char neuron_profile_page_begin[];
extern "C" const char neuron_profile_page_end[];

namespace neuron::profile {
namespace {

using base::json_string;
using runtime::format;

constexpr unsigned kOrder[] = {NEURON_ENGINE_PE, NEURON_ENGINE_DVE, NEURON_ENGINE_ACTIVATION,
                               NEURON_ENGINE_POOL, NEURON_ENGINE_SP};
// More slices of a lane than a screen has columns.
constexpr uint64_t kSlicesOfLane = 4000;
constexpr size_t kSteps = 20'000;
constexpr size_t kInstructions = 300;

// A list of JSON values.
class List {
 public:
  void add(const std::string& value) { text_ += (text_.empty() ? "" : ",") + value; }
  std::string text() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

class PageData {
 public:
  PageData(const Profile& profile, const Part& part, size_t execution, const Analysis& analysis)
      : profile_(profile),
        part_(part),
        execution_(execution),
        program_(part.program),
        a_(analysis),
        narrow_(std::max<uint64_t>(analysis.summary.total / kSlicesOfLane, 1)) {}

  std::string text() {
    const Summary& s = a_.summary;
    const std::string tracks = list_tracks();
    return format(
               R"({{"title":{},"about":{},"bottleneck":{},"warnings":{},"total":{},"start":{},"end":{},)",
               json_string(program_.name + " on " + "NeuronCore " + std::to_string(program_.vnc)),
               json_string(
                   format("execution {} of {}, {} of device time, device {} core {}, uuid {}",
                          execution_ + 1, part_.executions.size(), time_text(s.total),
                          program_.device, program_.core, program_.uuid)),
               json_string(a_.findings.bottleneck), json_string(warnings(profile_)), ns(s.total),
               since(0), since(s.total)) +
           "\"engines\":" + engines() + ",\"kinds\":" + kinds() + ",\"places\":" + places() +
           ",\"queues\":" + queues() + ",\"collectives\":" + collectives() +
           ",\"links\":" + links() + ",\"instructions\":" + instructions() +
           ",\"findings\":" + findings() + ",\"tracks\":" + tracks + ",\"path\":" + path() +
           ",\"labels\":" + labels_.text() + "}";
  }

 private:
  static std::string ns(uint64_t ps) { return format("{:.3f}", static_cast<double>(ps) * 1e-3); }
  std::string since(uint64_t ps) const {
    return format("{:.3f}",
                  (static_cast<double>(ps) - static_cast<double>(a_.summary.first)) * 1e-3);
  }

  std::string engines() const {
    List list;
    const Summary& s = a_.summary;
    for (const unsigned engine : kOrder) {
      const EngineTotals& totals = s.engines[engine];
      list.add(format(R"({{"name":"{}","count":{},"active":{},"wait":{},"path":{:.6f}}})",
                      engine_name(engine), totals.count, ns(totals.active), ns(totals.wait),
                      of_path(a_.path.by_engine[engine])));
    }
    const uint64_t dma = a_.path.by_kind[static_cast<size_t>(StepKind::kTransfer)] +
                         a_.path.by_kind[static_cast<size_t>(StepKind::kDmaStart)];
    list.add(format(R"({{"name":"DMA","count":{},"active":{},"wait":0,"path":{:.6f}}})",
                    s.all_queues().descriptors, ns(s.dma_active), of_path(dma)));
    return list.text();
  }
  double of_path(uint64_t time) const {
    return a_.path.total == 0 ? 0 : static_cast<double>(time) / static_cast<double>(a_.path.total);
  }

  std::string kinds() const {
    List list;
    for (size_t kind = 0; kind < kStepKinds; ++kind) {
      if (a_.path.by_kind[kind] == 0) continue;
      list.add(format(R"({{"name":"{}","time":{}}})", step_name(static_cast<StepKind>(kind)),
                      ns(a_.path.by_kind[kind])));
    }
    if (a_.path.unexplained != 0) {
      list.add(format(R"({{"name":"not followed","time":{}}})", ns(a_.path.unexplained)));
    }
    return list.text();
  }

  std::string places() const {
    List list;
    for (const CostlyPlace& place : a_.findings.places) {
      list.add(format(R"({{"where":{},"what":{},"time":{},"advice":{}}})", json_string(place.where),
                      json_string(place.what), ns(place.on_path), json_string(place.advice)));
    }
    return list.text();
  }

  std::string findings() const {
    List list;
    for (const Finding& finding : a_.findings.findings) {
      std::string text = finding.sentence + (finding.advice.empty() ? "" : " " + finding.advice);
      if (finding.saving != 0) text += " About " + time_text(finding.saving) + " can be saved.";
      list.add(json_string(text));
    }
    return list.text();
  }

  std::string queues() const {
    List list;
    for (const auto& [number, queue] : a_.summary.queues) {
      list.add(format(R"({{"name":{},"descriptors":{},"bytes":{},"active":{}}})",
                      json_string(program_.queue_name(number)), queue.descriptors, queue.bytes,
                      ns(queue.active)));
    }
    return list.text();
  }

  std::string instructions() const {
    std::vector<InstructionRow> rows = instructions_by_time(program_, a_.summary);
    if (rows.size() > kInstructions) rows.resize(kInstructions);
    List list;
    for (const InstructionRow& row : rows) {
      list.add(format(
          R"({{"engine":"{}","pc":{},"count":{},"active":{},"wait":{},"line":{},"text":{}}})",
          engine_name(row.engine), program_.program_counter(row.engine, row.pc), row.totals->count,
          ns(row.totals->active), ns(row.totals->wait),
          json_string(program_.line(row.engine, row.totals->debug)),
          json_string(program_.text(row.engine, row.pc, row.totals->opcode))));
    }
    return list.text();
  }

  std::string collectives() const {
    List list;
    for (const auto& [key, totals] : a_.summary.collectives.operations) {
      const Collective& of = program_.stream(key.first)->collectives[key.second];
      const uint64_t average = totals.runs == 0 ? 0 : totals.time / totals.runs;
      list.add(format(
          R"({{"name":{},"algorithm":{},"runs":{},"time":{},"waited":{},"sent":{},"received":{},"bus":{}}})",
          json_string(of.name), json_string(of.algorithm), totals.runs, ns(totals.time),
          ns(totals.waited), totals.sent, totals.received,
          of.sized ? format("{:.0f}", of.bus_rate(average)) : "null"));
    }
    return list.text();
  }

  std::string links() const {
    List list;
    for (const auto& [rank, link] : a_.summary.collectives.links) {
      list.add(format(
          R"({{"rank":{},"transfers":{},"bytes":{},"active":{},"messages":{},"received":{},"waited":{}}})",
          rank, link.transfers, link.bytes, ns(link.active), link.messages, link.received,
          ns(link.waited)));
    }
    return list.text();
  }

  // The number of a text that is no instruction of an engine among the labels.
  size_t plain_label(const std::string& text) {
    const auto [found, added] = known_.try_emplace({3, 0, 0, text}, known_.size());
    if (added) labels_.add(json_string(text));
    return found->second;
  }

  // Tracks of CC cores, and of the transfers to each other rank.
  void list_collective_tracks(List& list) {
    for (const Stream& stream : program_.streams) {
      List slices;
      add_slices(slices, a_.timeline.streams[stream.number], 0, [&](const StreamEvent& e) {
        return plain_label(stream.collective_name(e.pc) + ": " + stream.text(e.pc));
      });
      track_of_stream_[stream.number] = tracks_++;
      list.add(
          format(R"({{"name":"CC core {}","lanes":1,"slices":{}}})", stream.number, slices.text()));
    }
    for (const auto& entry : a_.summary.collectives.links) {
      const auto rank = entry.first;
      List slices;
      for (unsigned dma = 0; dma < kDmaEngines; ++dma) {
        std::vector<TransferEvent> events;
        for (const TransferEvent& e : a_.timeline.transfers[dma]) {
          const ntff::StreamNote* note =
              e.stream == kNoStream || e.writes == 0 ? nullptr : program_.note(e.stream, e.pc);
          if (note != nullptr && sends(*note) && note->peer == rank) events.push_back(e);
        }
        add_slices(slices, events, dma, [&](const TransferEvent& e) {
          return plain_label(format("DMA engine {}, {} to rank {}, {}", dma, bytes_text(e.bytes),
                                    rank, program_.stream(e.stream)->collective_name(e.pc)));
        });
      }
      if (entry.second.transfers != 0) {
        ++tracks_;
        list.add(format(R"({{"name":"to rank {}","lanes":{},"slices":{}}})", rank, kDmaEngines,
                        slices.text()));
      }
      if (entry.second.messages != 0) list.add(received_track(rank));
    }
  }

  // A message of another rank lies from when this rank waited for it until it saw it.
  std::string received_track(uint32_t rank) {
    struct Message {
      uint64_t begin, end;
      size_t label;
    };
    List slices;
    for (const Stream& stream : program_.streams) {
      std::vector<Message> messages;
      for (const StreamEvent& e : a_.timeline.streams[stream.number]) {
        for (const ntff::StreamWait& wait : stream.waits_of(e.pc)) {
          if (!is_arrival(wait) || wait.peer != rank) continue;
          messages.push_back({e.begin_of_wait(), e.seen(),
                              plain_label(format("{} from rank {}, {}", bytes_text(wait.bytes),
                                                 rank, stream.collective_name(e.pc)))});
        }
      }
      add_slices(slices, messages, stream.number, [](const Message& m) { return m.label; });
    }
    ++tracks_;
    return format(R"({{"name":"from rank {}","lanes":{},"slices":{}}})", rank, ntff::kMostStreams,
                  slices.text());
  }

  // The number of a text among the labels.
  size_t label(unsigned kind, unsigned engine, uint32_t pc, uint32_t debug, unsigned opcode,
               const std::string& more) {
    const auto [found, added] = known_.try_emplace({kind, engine, pc, more}, known_.size());
    if (added) {
      const std::string line = program_.line(engine, debug);
      labels_.add(json_string(more + (line.empty() ? "" : line + ": ") +
                              program_.text(engine, pc, opcode)));
    }
    return found->second;
  }

  // The slices of a lane; those that are narrow and close together become one.
  template <class Events, class Label>
  void add_slices(List& list, const Events& events, unsigned lane, Label&& label_of) {
    uint64_t begin = 0, end = 0;
    size_t what = 0;
    bool open = false;
    const auto put = [&] {
      if (open) list.add(format("[{},{},{},{}]", since(begin), ns(end - begin), what, lane));
    };
    for (const auto& event : events) {
      const bool narrow = event.end - event.begin < narrow_ && end - begin < narrow_;
      if (open && narrow && event.begin < end + narrow_ && events.size() > kSlicesOfLane) {
        end = std::max(end, event.end);
        continue;
      }
      put();
      begin = event.begin;
      end = event.end;
      what = label_of(event);
      open = true;
    }
    put();
  }

  std::string list_tracks() {
    List list;
    for (const unsigned engine : kOrder) {
      List slices;
      add_slices(slices, a_.timeline.instructions[engine], 0, [&](const InstructionEvent& e) {
        return label(program_.is_setup(e.engine, e.pc), e.engine, e.pc, e.debug, e.opcode,
                     program_.is_setup(e.engine, e.pc) ? "set-up: " : "");
      });
      track_of_engine_[engine] = tracks_++;
      list.add(
          format(R"({{"name":"{}","lanes":1,"slices":{}}})", engine_name(engine), slices.text()));
    }
    for (const auto& [number, queue] : a_.summary.queues) {
      List slices;
      for (unsigned dma = 0; dma < kDmaEngines; ++dma) {
        std::vector<TransferEvent> events;
        for (const TransferEvent& e : a_.timeline.transfers[dma]) {
          if (e.queue == number) events.push_back(e);
        }
        add_slices(slices, events, dma, [&](const TransferEvent& e) {
          return label(2, e.trigger, e.pc, e.debug, e.opcode,
                       format("DMA engine {}, {} in {} descriptors, by ", dma, bytes_text(e.bytes),
                              e.descriptors));
        });
      }
      track_of_queue_[number] = tracks_++;
      list.add(format(R"({{"name":{},"lanes":{},"slices":{}}})",
                      json_string(program_.queue_name(number)), kDmaEngines, slices.text()));
    }
    list_collective_tracks(list);
    return list.text();
  }

  std::string path() const {
    List list;
    const size_t first = a_.path.steps.size() > kSteps ? a_.path.steps.size() - kSteps : 0;
    for (size_t n = first; n < a_.path.steps.size(); ++n) {
      const Step& step = a_.path.steps[n];
      const bool dma = step.kind == StepKind::kTransfer;
      const bool stream = !dma && step.stream != kNoStream;
      const auto& tracks = dma ? track_of_queue_ : stream ? track_of_stream_ : track_of_engine_;
      const auto found = tracks.find(dma ? step.queue : stream ? step.stream : step.engine);
      const bool shown = found != tracks.end() && step.kind != StepKind::kSemaphore &&
                         step.kind != StepKind::kDmaStart && step.kind != StepKind::kOutside;
      list.add(format("[{},{},{}]", since(step.begin), ns(step.time()),
                      shown ? static_cast<int>(found->second) : -1));
    }
    return list.text();
  }

  const Profile& profile_;
  const Part& part_;
  const size_t execution_;
  const Program& program_;
  const Analysis& a_;
  const uint64_t narrow_;
  List labels_;
  std::map<std::tuple<unsigned, unsigned, uint32_t, std::string>, size_t> known_;
  unsigned tracks_ = 0;
  std::map<unsigned, unsigned> track_of_engine_, track_of_queue_, track_of_stream_;
};

}  // namespace

Result<void> write_page(Profile& profile, uint32_t part, size_t execution, Sink& sink) {
  NEURON_TRY(analysis, Analysis::of(profile, part, execution));
  std::string data = PageData(profile, profile.parts()[part], execution, analysis).text();
  // Nothing in a name may end the element that holds the data, or begin a comment in it.
  for (size_t at = 0; (at = data.find('<', at)) != std::string::npos; at += 6) {
    data.replace(at, 1, "\\u003c");
  }
  const std::string_view page(
      neuron_profile_page_begin,
      static_cast<size_t>(neuron_profile_page_end - neuron_profile_page_begin));
  constexpr std::string_view kPlace = "@DATA@";
  const size_t place = page.find(kPlace);
  sink.write(page.substr(0, place));
  sink.write(data);
  sink.write(page.substr(place + kPlace.size()));
  return sink.close();
}

}  // namespace neuron::profile
