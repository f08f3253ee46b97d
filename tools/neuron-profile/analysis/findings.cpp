// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/findings.h"

#include <algorithm>
#include <map>

#include "driver/isa/dma_cost.h"

namespace neuron::profile {
namespace {

using runtime::format;

constexpr size_t kMostPlaces = 5;

// Who changes a cell most often.
std::string source_of(const Program& program, const Timeline& timeline, uint32_t cell) {
  const auto updates = timeline.updates.find(cell);
  if (updates == timeline.updates.end()) return {};
  std::map<std::string, size_t> counts;
  for (const UpdateEvent& update : updates->second) {
    if (update.after <= update.before) continue;
    ++counts[update.source == NEURON_ENGINE_DMA ? "DMA " + program.queue_name(update.queue)
             : update.source < NEURON_CORE_ENGINES
                 ? std::string("the ") + engine_name(update.source) + " engine"
             : update.source == NEURON_ENGINE_CC ? std::string("a collective core")
                                                 : std::string("the host")];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::string() : most->first;
}

class Judge {
 public:
  Judge(const Program& program, const Summary& summary, const Timeline& timeline,
        const CriticalPath& path)
      : program_(program),
        sum_(summary),
        timeline_(timeline),
        path_(path),
        machine_(machine_of(program.generation)) {}

  Findings run() {
    name_bottleneck();
    judge_small_descriptors();
    judge_dma_starts();
    judge_idle_engines();
    judge_collectives();
    judge_roofline();
    judge_setup();
    std::stable_sort(result_.findings.begin(), result_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.saving > b.saving; });
    list_places();
    return std::move(result_);
  }

 private:
  uint64_t on_path(StepKind kind) const { return path_.by_kind[static_cast<size_t>(kind)]; }
  std::string of_total(uint64_t part) const { return share_text(part, path_.total); }

  uint64_t steps_of(StepKind kind) const {
    return static_cast<uint64_t>(std::count_if(path_.steps.begin(), path_.steps.end(),
                                               [&](const Step& s) { return s.kind == kind; }));
  }

  // The largest part of the critical path.
  void name_bottleneck() {
    if (path_.total == 0) {
      result_.bottleneck = "Nothing was executed.";
      return;
    }
    // The program alone: what is around it depends on the runtime.
    const uint64_t setup = on_path(StepKind::kSetup);
    const uint64_t whole = path_.total - setup - path_.unexplained;
    uint64_t most = 0;
    for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      const uint64_t time = path_.by_engine[engine];
      if (time <= most) continue;
      most = time;
      result_.bottleneck = format(
          "The {} engine limits this execution: its instructions are {} of the {} that the "
          "program's critical path takes.",
          engine_name(engine), share_text(time, whole), time_text(whole));
    }
    struct Candidate {
      StepKind kind;
      const char* sentence;
    };
    constexpr Candidate kOthers[] = {
        {StepKind::kTransfer, "The bytes that DMA moves limit this execution"},
        {StepKind::kDmaStart,
         "The latency of DMA limits this execution: nothing else is left to do "
         "between doorbells and first bytes"},
        {StepKind::kSemaphore,
         "Synchronisation limits this execution: updates of semaphores are on "
         "their way"},
        {StepKind::kOutside, "Waits for other cores or the host limit this execution"},
        {StepKind::kPeer, "Waits for other ranks limit this execution"},
        {StepKind::kCollective, "The instructions of collective cores limit this execution"},
        {StepKind::kIssue, "Control instructions (waits, registers, loops) limit this execution"}};
    for (const Candidate& other : kOthers) {
      if (on_path(other.kind) <= most) continue;
      most = on_path(other.kind);
      result_.bottleneck = format("{}: {} of the {} that the program's critical path takes.",
                                  other.sentence, share_text(most, whole), time_text(whole));
    }
    if (share(setup, path_.total) > 0.3) {
      result_.bottleneck += format(
          " Around the program, the runtime's own instructions take {} more.", time_text(setup));
    }
    if (path_.unexplained > path_.total / 10) {
      result_.bottleneck +=
          format(" {} of the path could not be followed{}.", of_total(path_.unexplained),
                 timeline_.whole && sum_.lost == 0 ? "" : ": events are missing");
    }
  }

  void judge_small_descriptors() {
    const QueueTotals all = sum_.all_queues();
    if (all.small_descriptors == 0) return;
    // What they took, and what their bytes would take in descriptors of the efficient size.
    uint64_t small_bytes = 0, time_on_path = 0;
    for (const Step& step : path_.steps) {
      if (step.kind != StepKind::kTransfer || step.descriptors == 0) continue;
      if (step.bytes / step.descriptors >= machine_.efficient_descriptor) continue;
      time_on_path += step.time();
      small_bytes += step.bytes;
    }
    const auto least = static_cast<uint64_t>(static_cast<double>(small_bytes) * 1e12 /
                                             (machine_.dma_bytes_per_second / kDmaEngines));
    const uint64_t saving = time_on_path > least ? time_on_path - least : 0;
    std::string queues;
    for (const auto& [number, queue] : sum_.queues) {
      if (queue.small_descriptors == 0) continue;
      queues += (queues.empty() ? "" : ", ") +
                format("{}: {} descriptors of {} on average", program_.queue_name(number),
                       queue.small_descriptors,
                       bytes_text(queue.bytes / std::max<uint64_t>(queue.descriptors, 1)));
    }
    result_.findings.push_back(
        {"small-descriptors",
         format(
             "{} of {} DMA descriptors move less than {}, and each takes as long as one that does "
             "({}).",
             all.small_descriptors, all.descriptors, bytes_text(machine_.efficient_descriptor),
             queues),
         "Lay the tensor out so that rows of a partition are longer, or move several rows as one: "
         "2 KiB or more a descriptor.",
         saving});
  }

  void judge_dma_starts() {
    const uint64_t time = on_path(StepKind::kDmaStart);
    if (share(time, path_.total) < 0.05) return;
    const uint64_t count = steps_of(StepKind::kDmaStart);
    result_.findings.push_back(
        {"dma-start",
         format("{} times the critical path waits for a transfer to begin, {} in all ({}).", count,
                time_text(time), of_total(time)),
         format("Ring the doorbell before the data is needed (two buffers in turn), or let one "
                "trigger move what several do now: each start costs {}.",
                time_text(isa::kDmaStart)),
         time});
  }

  void judge_idle_engines() {
    for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      const EngineTotals& totals = sum_.engines[engine];
      bool works = false;
      for (const auto& [key, of] : sum_.opcodes) {
        works = works || (key.first == engine && !is_setup_opcode(key.second));
      }
      if (!works || totals.wait_by_cell.empty()) continue;
      const auto most =
          std::max_element(totals.wait_by_cell.begin(), totals.wait_by_cell.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      if (share(totals.wait, sum_.total) < 0.3) continue;
      const std::string source = source_of(program_, timeline_, most->first);
      result_.findings.push_back(
          {"idle-engine",
           format("The {} engine works {} of the time and waits {}; {} of its waiting is for {}{}.",
                  engine_name(engine), share_text(totals.active, sum_.total),
                  share_text(totals.wait, sum_.total), share_text(most->second, totals.wait),
                  program_.cell(most->first),
                  source.empty() ? "" : ", which " + source + " changes"),
           "", 0});
    }
  }

  // The rank that the CC cores wait for most.
  void judge_collectives() {
    const Collectives& all = sum_.collectives;
    const CollectiveTotals* longest = nullptr;
    std::pair<uint32_t, uint32_t> which;
    for (const auto& [key, totals] : all.operations) {
      if (longest != nullptr && totals.time <= longest->time) continue;
      longest = &totals;
      which = key;
    }
    if (longest == nullptr || share(all.active, sum_.total) < 0.05) return;
    const Stream* stream = program_.stream(which.first);
    std::string sentence =
        format("Collectives run {} of the time ({}); most of it {} ({} times, {} in all).",
               share_text(all.active, sum_.total), time_text(all.active),
               stream->collectives[which.second].name, longest->runs, time_text(longest->time));
    const auto most =
        std::max_element(longest->waited_by_rank.begin(), longest->waited_by_rank.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    std::string advice = add_bound(sentence);
    if (advice.empty() && most != longest->waited_by_rank.end() &&
        share(most->second, longest->time) >= 0.2) {
      sentence += format(" In it, rank {} waits {} for rank {}.", stream->rank,
                         time_text(most->second), most->first);
      advice = format(
          "Look at the profile of rank {}: what it does before it sends is what this "
          "rank waits for.",
          most->first);
    }
    result_.findings.push_back({"collectives", std::move(sentence), std::move(advice), 0});
  }

  // What of collectives is on the critical path: adds it to the sentence, and returns what to do
  // about the largest part. Nothing if the path does not go through a collective.
  std::string add_bound(std::string& sentence) const {
    std::map<uint32_t, uint64_t> waits, sends;  // by rank
    std::map<uint32_t, uint64_t> arrived;       // bytes that were waited for
    uint64_t within = 0, cores = 0;
    for (const Step& step : path_.steps) {
      if (step.kind == StepKind::kPeer) {
        waits[step.peer] += step.time();
        arrived[step.peer] += step.bytes;
      } else if (step.kind == StepKind::kCollective) {
        cores += step.time();
      } else if (step.stream != kNoStream &&
                 (step.kind == StepKind::kTransfer || step.kind == StepKind::kDmaStart)) {
        (step.peer != kNoPeer ? sends[step.peer] : within) += step.time();
      }
    }
    struct Part {
      uint64_t time;
      std::string what, advice;
    };
    std::vector<Part> parts = {
        {within, "reductions and copies of this rank",
         "A reduction is as quick as its DMA engines: give the stream more of them, or longer "
         "rows."},
        {cores, "instructions of collective cores",
         "Fewer, larger collectives need fewer instructions."}};
    for (const auto& [rank, time] : waits) {
      parts.push_back({time, format("waits for rank {}{}", rank, at_own_rate(arrived[rank])),
                       format("Look at the profile of rank {}: this rank waits for what that one "
                              "does before it sends or takes data, and for its transfers.",
                              rank)});
    }
    for (const auto& [rank, time] : sends) {
      parts.push_back({time, format("transfers to rank {}", rank),
                       format("The link to rank {} is the bound: send less, or choose an algorithm "
                              "that uses more links at once.",
                              rank)});
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.time > b.time; });
    std::string list;
    for (const Part& part : parts) {
      if (part.time == 0) break;
      list += (list.empty() ? "" : ", ") + time_text(part.time) + " " + part.what;
    }
    if (list.empty()) return {};
    sentence += format(" On the critical path are {}.", list);
    return parts.front().advice;
  }

  // What bytes of another rank take about. Its profile knows that; here is known at which rate this
  // rank sends, over links of the same chips.
  std::string at_own_rate(uint64_t bytes) const {
    if (bytes == 0) return {};
    uint64_t sent = 0, active = 0;
    for (const auto& [rank, link] : sum_.collectives.links) {
      sent += link.bytes - link.network_bytes;
      active += link.active;
    }
    if (sent == 0 || active == 0) return format(" ({})", bytes_text(bytes));
    const double time =
        static_cast<double>(bytes) * static_cast<double>(active) / static_cast<double>(sent);
    return format(" ({}, which take about {} at the rate at which this rank sends)",
                  bytes_text(bytes), time_text(static_cast<uint64_t>(time)));
  }

  void judge_roofline() {
    const double total = static_cast<double>(sum_.total) * 1e-12;
    if (total == 0) return;
    const double flops = 2.0 * static_cast<double>(sum_.multiply_accumulates);
    const auto hbm = static_cast<double>(sum_.hbm_bytes());
    const double ridge = machine_.peak_flops / machine_.hbm_bytes_per_second;
    const double least = std::max(flops / machine_.peak_flops, hbm / machine_.hbm_bytes_per_second);
    std::string sentence = format(
        "MFU {:.1f} % ({:.2f} of {:.1f} TFLOP/s), MBU {:.1f} % ({:.1f} of {:.0f} GB/s of HBM), DMA "
        "{:.1f} % of its rate.",
        100 * flops / machine_.peak_flops / total, flops / total * 1e-12,
        machine_.peak_flops * 1e-12, 100 * hbm / machine_.hbm_bytes_per_second / total,
        hbm / total * 1e-9, machine_.hbm_bytes_per_second * 1e-9,
        100 * static_cast<double>(sum_.all_queues().bytes) / machine_.dma_bytes_per_second / total);
    if (hbm > 0 && flops > 0) {
      sentence += format(
          " {:.1f} flops a byte of HBM: below {:.0f} memory is the roof, above it the Tensor "
          "engine; "
          "here {} is, and the roof would allow {}.",
          flops / hbm, ridge, flops / hbm < ridge ? "memory" : "the Tensor engine",
          time_text(static_cast<uint64_t>(least * 1e12)));
    }
    result_.findings.push_back({"roofline", std::move(sentence), "", 0});
  }

  void judge_setup() {
    const uint64_t time = on_path(StepKind::kSetup);
    if (share(time, path_.total) < 0.1) return;
    result_.findings.push_back(
        {"set-up",
         format(
             "{} of the time ({}) the runtime's own instructions prepare the execution: rings are "
             "rewound or pointed at tensors, engines released, the end reported.",
             of_total(time), time_text(time)),
         "Execute with the tensors of the execution before, so that rings need not be pointed at "
         "others; put more work into one execution.",
         0});
  }

  std::string place_of(unsigned engine, uint32_t pc, uint32_t debug) const {
    const std::string line = program_.line(engine, debug);
    if (!line.empty()) return line;
    const std::string function = program_.function(debug);
    return (function.empty() ? "" : function + ", ") +
           format("{} pc {}", engine_name(engine), program_.program_counter(engine, pc));
  }

  std::string advice_for_collective(const Step& step) const {
    const std::string wait = "Trigger the collective earlier, or do other work while it runs.";
    if (step.kind == StepKind::kPeer) {
      return format("Look at what rank {} does meanwhile. {}", step.peer, wait);
    }
    if (step.kind == StepKind::kTransfer && step.descriptors != 0 &&
        step.bytes / step.descriptors < machine_.efficient_descriptor) {
      return "Its descriptors are small: longer rows make it faster. " + wait;
    }
    return wait;
  }

  // What a CC core does, in words: its instruction, or what that waits for.
  std::string text_of(const Step& step, unsigned engine) const {
    if (step.stream == kNoStream) return program_.text(engine, step.pc, step.opcode);
    if (step.kind == StepKind::kPeer) {
      return !step.arrival ? format("waits until rank {} takes data", step.peer)
             : step.bytes == 0
                 ? format("waits for data of rank {}", step.peer)
                 : format("waits for {} of rank {}", bytes_text(step.bytes), step.peer);
    }
    const Stream* stream = program_.stream(step.stream);
    return stream != nullptr ? stream->text(step.pc) : "";
  }

  std::string advice_for(const Step& step) const {
    if (step.stream != kNoStream) return advice_for_collective(step);
    switch (step.kind) {
      case StepKind::kDmaStart:
        return "Trigger the transfer earlier, so that its start is hidden behind other work.";
      case StepKind::kTransfer:
        return step.descriptors != 0 &&
                       step.bytes / step.descriptors < machine_.efficient_descriptor
                   ? "Its descriptors are small: longer rows make it faster."
                   : "It moves at the rate of its queues: move less, or keep the data in SBUF.";
      case StepKind::kOutside:
        return "Do other work meanwhile.";
      case StepKind::kSemaphore:
        return "Wait for fewer, larger pieces of work.";
      default:
        break;
    }
    const bool known = program_.has(step.engine, step.pc);
    const isa::Instruction i =
        known ? program_.instruction(step.engine, step.pc) : isa::Instruction{};
    const uint64_t elements = i.src0.present() ? i.src0.elements() : i.dst.elements();
    if (step.engine == NEURON_ENGINE_PE) {
      if (known && i.opcode == NEURON_OP_MATMUL && elements < 512) {
        return format(
            "It moves {} columns through the array; up to 512 amortise its start and the "
            "loading of weights.",
            elements);
      }
      return known && i.src0.parts < 128
                 ? format("It uses {} of 128 rows of the array: a longer contraction fills it.",
                          i.src0.parts)
                 : std::string(
                       "It fills the array: a 16-bit type instead of fp32 takes a quarter of "
                       "the time.");
    }
    if (is_setup_opcode(step.opcode)) {
      return "Unroll the loop, or give one instruction more elements.";
    }
    if (known && elements < 128) {
      return format(
          "It has {} elements a partition, and its start costs more than they do: join "
          "several.",
          elements);
    }
    return step.engine == NEURON_ENGINE_POOL
               ? "GpSimd is the slowest engine for this; Vector may do it."
               : "Split the work between Vector, Scalar and GpSimd, or fuse it with the "
                 "instruction "
                 "before or behind it.";
  }

  // A collective has many instructions that are alike: what they do is one place.
  std::string place_in_collective(const Step& step) const {
    const Stream* stream = program_.stream(step.stream);
    const std::string name = stream != nullptr ? stream->collective_name(step.pc) : "";
    const std::string core = (name.empty() ? "" : name + ", ") + format("CC core {}", step.stream);
    if (step.kind == StepKind::kPeer) return core + format(" waiting for rank {}", step.peer);
    if (step.kind == StepKind::kCollective) return core;
    return core + (step.peer == kNoPeer ? " moving within this rank"
                                        : format(" sending to rank {}", step.peer));
  }

  void list_places() {
    struct Sum {
      CostlyPlace place;
      Step heaviest;
    };
    std::map<std::string, Sum> places;
    for (const Step& step : path_.steps) {
      if (step.kind == StepKind::kSetup || step.kind == StepKind::kSemaphore) continue;
      const bool dma = step.kind == StepKind::kTransfer || step.kind == StepKind::kDmaStart;
      const unsigned engine = dma ? step.trigger : step.engine;
      if (program_.is_setup(engine, step.pc)) continue;
      Sum& sum = places[step.stream == kNoStream ? place_of(engine, step.pc, step.debug)
                                                 : place_in_collective(step)];
      sum.place.on_path += step.time();
      ++sum.place.count;
      if (step.time() <= sum.heaviest.time()) continue;
      sum.heaviest = step;
      sum.place.what = text_of(step, engine);
    }
    for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      for (const auto& [pc, totals] : sum_.instructions[engine]) {
        if (program_.is_setup(engine, pc)) continue;
        const auto found = places.find(place_of(engine, pc, totals.debug));
        if (found != places.end()) found->second.place.active += totals.active;
      }
    }
    for (auto& [where, sum] : places) {
      sum.place.where = where;
      sum.place.advice = advice_for(sum.heaviest);
      result_.places.push_back(std::move(sum.place));
    }
    std::stable_sort(
        result_.places.begin(), result_.places.end(),
        [](const CostlyPlace& a, const CostlyPlace& b) { return a.on_path > b.on_path; });
    if (result_.places.size() > kMostPlaces) result_.places.resize(kMostPlaces);
  }

  const Program& program_;
  const Summary& sum_;
  const Timeline& timeline_;
  const CriticalPath& path_;
  const Machine machine_;
  Findings result_;
};

}  // namespace

Findings find_bottlenecks(const Program& program, const Summary& summary, const Timeline& timeline,
                          const CriticalPath& path) {
  return Judge(program, summary, timeline, path).run();
}

std::string time_text(uint64_t ps) {
  const auto value = static_cast<double>(ps);
  if (ps < 1'000'000) return format("{:.0f} ns", value * 1e-3);
  if (ps < 1'000'000'000) return format("{:.2f} us", value * 1e-6);
  if (ps < 1'000'000'000'000) return format("{:.2f} ms", value * 1e-9);
  return format("{:.2f} s", value * 1e-12);
}

std::string share_text(uint64_t part, uint64_t whole) {
  return format("{:.1f} %", 100 * share(part, whole));
}

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1024) return format("{} B", bytes);
  if (bytes < 1024 * 1024) return format("{:.1f} KiB", value / 1024);
  if (bytes < (1ull << 30)) return format("{:.1f} MiB", value / (1 << 20));
  return format("{:.1f} GiB", value / (1 << 30));
}

}  // namespace neuron::profile
