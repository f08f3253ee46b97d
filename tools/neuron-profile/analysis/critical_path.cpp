// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/critical_path.h"

#include <ccom/ccom_device.h>

#include <algorithm>
#include <optional>

#include "tools/neuron-profile/analysis/summary.h"

namespace neuron::profile {
namespace {

// An instruction of an engine or a CC core, or a transfer, by its place in the timeline.
enum class Actor : uint8_t { kEngine, kDma, kStream };
struct Node {
  Actor kind = Actor::kEngine;
  unsigned actor = 0;
  size_t index = 0;
};

class Walk {
 public:
  Walk(const Timeline& timeline, const Program& program, const Collectives& collectives,
       uint64_t total)
      : timeline_(timeline), program_(program), collectives_(collectives), time_(total) {
    path_.total = total;
  }

  CriticalPath run() {
    std::optional<Node> node = last();
    size_t budget = 0;
    for (const auto& list : timeline_.instructions) budget += list.size();
    for (const auto& list : timeline_.transfers) budget += list.size();
    for (const auto& list : timeline_.streams) budget += list.size();
    // Each step leads to an earlier event, unless the profile is damaged.
    for (budget = 2 * budget + 16; node && budget != 0; --budget) {
      node = node->kind == Actor::kDma      ? step_transfer(*node)
             : node->kind == Actor::kStream ? step_stream(*node)
                                            : step_instruction(*node);
    }
    path_.unexplained = time_;
    std::reverse(path_.steps.begin(), path_.steps.end());
    for (const Step& step : path_.steps) {
      path_.by_kind[static_cast<size_t>(step.kind)] += step.time();
      if (step.kind == StepKind::kInstruction) path_.by_engine[step.engine] += step.time();
    }
    return std::move(path_);
  }

 private:
  // The instruction that ended last; the one that tells the host is on Sync.
  std::optional<Node> last() const {
    std::optional<Node> found;
    uint64_t end = 0;
    for (unsigned engine = 0; engine < timeline_.instructions.size(); ++engine) {
      const auto& list = timeline_.instructions[engine];
      for (size_t n = list.size(); n-- > 0;) {
        if (list[n].begin >= time_ && list[n].opcode != NEURON_OP_COMPLETE) continue;
        if (!found || list[n].end > end) {
          found = Node{Actor::kEngine, engine, n};
          end = list[n].end;
        }
        break;
      }
    }
    return found;
  }

  // Everything from `begin` to the present time is this step's.
  void give(Step step, uint64_t begin) {
    if (begin >= time_) return;
    step.begin = begin;
    step.end = time_;
    time_ = begin;
    // Neighbouring steps of one place are one.
    if (!path_.steps.empty()) {
      Step& next = path_.steps.back();
      const bool same = next.kind == step.kind && next.engine == step.engine &&
                        next.queue == step.queue && next.pc == step.pc && next.cell == step.cell &&
                        next.stream == step.stream && next.peer == step.peer;
      if (same && next.begin == step.end) {
        next.begin = step.begin;
        next.bytes += step.bytes;
        next.descriptors += step.descriptors;
        return;
      }
    }
    path_.steps.push_back(step);
  }

  StepKind kind_of(const InstructionEvent& e) const {
    if (program_.is_setup(e.engine, e.pc)) return StepKind::kSetup;
    return is_setup_opcode(e.opcode) ? StepKind::kIssue : StepKind::kInstruction;
  }

  Step step_of(const InstructionEvent& e, StepKind kind) const {
    Step step;
    step.kind = kind;
    step.engine = e.engine;
    step.pc = e.pc;
    step.debug = e.debug;
    step.opcode = e.opcode;
    return step;
  }

  std::optional<Node> step_instruction(const Node& node) {
    const auto& list = timeline_.instructions[node.actor];
    const InstructionEvent& e = list[node.index];
    // What a unit takes longer than the instruction before it on the same unit is its own.
    give(step_of(e, kind_of(e)), e.begin);
    if (e.wait != 0) {
      // From the end of the wait to the unit's beginning, it queued behind the one before it.
      outside_ = false;
      if (const auto source = source_of(e)) return source;
      if (outside_) {
        // The engine had nothing to do since its last instruction.
        Step step = step_of(e, StepKind::kOutside);
        step.cell = e.wait_cell;
        give(step, node.index == 0 ? 0 : list[node.index - 1].end);
      }
    }
    if (node.index == 0) return std::nullopt;
    return Node{Actor::kEngine, node.actor, node.index - 1};
  }

  // Who ended the wait of an instruction.
  std::optional<Node> source_of(const InstructionEvent& e) {
    // The instruction before it may have ended later than the wait: then that counts.
    if (e.wait_end < time_) {
      const uint64_t queued = time_ - e.wait_end;
      // A unit that was busy with earlier work; the walk follows that.
      if (queued > kShort) return std::nullopt;
      give(step_of(e, kind_of(e)), e.wait_end);
    }
    if ((e.wait_cell & NEURON_WAITED_FOR_DMA) != 0) return own_transfer(e);
    const auto cell = timeline_.updates.find(e.wait_cell);
    if (cell == timeline_.updates.end()) return std::nullopt;
    const auto after = std::upper_bound(
        cell->second.begin(), cell->second.end(), e.wait_end,
        [](uint64_t time, const UpdateEvent& update) { return time < update.time; });
    if (after == cell->second.begin()) return std::nullopt;
    // Updates of the same moment: of those, the one that went up counts.
    auto update = std::prev(after);
    while (update != cell->second.begin() && update->after < update->before) --update;
    Step way = step_of(e, StepKind::kSemaphore);
    way.cell = e.wait_cell;
    give(way, update->time);
    if (update->source == NEURON_ENGINE_DMA) {
      return transfer_at(update->dma_engine, update->queue, update->time);
    }
    if (update->source >= NEURON_CORE_ENGINES) {
      if (update->source == NEURON_ENGINE_CC) {
        if (const auto end = end_of_collective(update->time)) return end;
      }
      outside_ = true;
      return std::nullopt;
    }
    return instruction_at(update->source, update->pc, update->time);
  }

  std::optional<Node> own_transfer(const InstructionEvent& e) const {
    return last_transfer(e.wait_end, [&](const TransferEvent& t) { return t.trigger == e.engine; });
  }

  // The transfer that ended last, not after `time`, of those that are `wanted`.
  template <class Wanted>
  std::optional<Node> last_transfer(uint64_t time, const Wanted& wanted) const {
    std::optional<Node> found;
    uint64_t end = 0;
    for (unsigned engine = 0; engine < kDmaEngines; ++engine) {
      const auto& list = timeline_.transfers[engine];
      for (size_t n = end_before(list, time); n-- > 0;) {
        if (!wanted(list[n])) continue;
        if (!found || list[n].end > end) {
          found = Node{Actor::kDma, engine, n};
          end = list[n].end;
        }
        break;
      }
    }
    return found;
  }

  // The number of instructions of a CC core that begin at `time` or before.
  static size_t begun_before(const std::vector<StreamEvent>& list, uint64_t time) {
    return static_cast<size_t>(
        std::upper_bound(list.begin(), list.end(), time,
                         [](uint64_t t, const StreamEvent& e) { return t < e.begin; }) -
        list.begin());
  }

  // The instruction of a CC core that has told a program at `time` that a collective is done.
  std::optional<Node> end_of_collective(uint64_t time) const {
    std::optional<Node> found;
    uint64_t begin = 0;
    for (unsigned stream = 0; stream < timeline_.streams.size(); ++stream) {
      const auto& list = timeline_.streams[stream];
      for (size_t n = begun_before(list, time); n-- > 0;) {
        const ntff::StreamNote* note = program_.note(stream, list[n].pc);
        if (note == nullptr || note->action != CCOM_DEVICE_DONE) continue;
        if (!found || list[n].begin > begin) {
          found = Node{Actor::kStream, stream, n};
          begin = list[n].begin;
        }
        break;
      }
    }
    return found;
  }

  std::optional<Node> step_stream(const Node& node) {
    const auto& list = timeline_.streams[node.actor];
    const StreamEvent& e = list[node.index];
    Step step;
    step.kind = StepKind::kCollective;
    step.engine = NEURON_ENGINE_CC;
    step.stream = e.stream;
    step.pc = e.pc;
    step.opcode = e.opcode;
    give(step, e.begin);
    const Stream* stream = program_.stream(e.stream);
    const auto wait = stream != nullptr ? stream->wait_of(e.pc, e.wait_cell) : std::nullopt;
    if (e.wait != 0 && wait) {
      give(step, e.wait_end);
      if (wait->wait == CCOM_DEVICE_WAIT_GO) return begin_of_collective(e, step);
      if (wait->wait == CCOM_DEVICE_WAIT_TRANSFER) {
        const auto source =
            last_transfer(e.wait_end, [&](const TransferEvent& t) { return t.stream == e.stream; });
        // The semaphore's way is the CC core's: it is one of its own.
        if (source) {
          give(step, timeline_.transfers[source->actor][source->index].end);
          return source;
        }
      }
      if (is_for_rank(*wait)) {
        step.kind = StepKind::kPeer;
        step.peer = wait->peer;
        step.arrival = wait->wait == CCOM_DEVICE_WAIT_ARRIVAL;
        step.bytes = wait->bytes;
        give(step, e.begin_of_wait());
      }
    }
    if (node.index == 0) return std::nullopt;
    return Node{Actor::kStream, node.actor, node.index - 1};
  }

  // The instruction of an engine that began the collective of `e`, its first instruction.
  std::optional<Node> begin_of_collective(const StreamEvent& e, Step step) {
    const CollectiveRun* run = collectives_.run_of(e);
    if (run == nullptr || !run->trigger) {
      step.kind = StepKind::kOutside;
      give(step, e.begin_of_wait());
      return std::nullopt;
    }
    const auto trigger =
        instruction_at(run->trigger->engine, run->trigger->pc, run->trigger->begin);
    if (!trigger) return std::nullopt;
    step.kind = StepKind::kSemaphore;
    give(step, timeline_.instructions[trigger->actor][trigger->index].end);
    return trigger;
  }

  // The number of transfers that end at `time` or before.
  static size_t end_before(const std::vector<TransferEvent>& list, uint64_t time) {
    return static_cast<size_t>(
        std::upper_bound(list.begin(), list.end(), time,
                         [](uint64_t t, const TransferEvent& e) { return t < e.end; }) -
        list.begin());
  }

  std::optional<Node> transfer_at(unsigned engine, unsigned queue, uint64_t time) const {
    const auto& list = timeline_.transfers[engine];
    for (size_t n = end_before(list, time); n-- > 0;) {
      if (list[n].queue == queue) return Node{Actor::kDma, engine, n};
    }
    return std::nullopt;
  }

  // The instruction of this place that began last, not after `time`.
  std::optional<Node> instruction_at(unsigned engine, uint32_t pc, uint64_t time) const {
    if (engine >= timeline_.instructions.size()) return std::nullopt;
    const auto& list = timeline_.instructions[engine];
    size_t n = static_cast<size_t>(
        std::upper_bound(list.begin(), list.end(), time,
                         [](uint64_t t, const InstructionEvent& e) { return t < e.begin; }) -
        list.begin());
    while (n-- > 0) {
      if (list[n].pc == pc) return Node{Actor::kEngine, engine, n};
    }
    return std::nullopt;
  }

  std::optional<Node> stream_instruction_at(uint32_t stream, uint32_t pc, uint64_t time) const {
    if (stream >= timeline_.streams.size()) return std::nullopt;
    const auto& list = timeline_.streams[stream];
    for (size_t n = begun_before(list, time); n-- > 0;) {
      if (list[n].pc == pc) return Node{Actor::kStream, stream, n};
    }
    return std::nullopt;
  }

  // What rang for a transfer, and when it began.
  std::optional<std::pair<Node, uint64_t>> trigger_of(const TransferEvent& e) const {
    if (e.stream != kNoStream) {
      const auto node = stream_instruction_at(e.stream, e.pc, e.begin);
      if (!node) return std::nullopt;
      return std::pair(*node, timeline_.streams[node->actor][node->index].begin);
    }
    const auto node = instruction_at(e.trigger, e.pc, e.begin);
    if (!node) return std::nullopt;
    return std::pair(*node, timeline_.instructions[node->actor][node->index].begin);
  }

  std::optional<Node> step_transfer(const Node& node) {
    const auto& list = timeline_.transfers[node.actor];
    const TransferEvent& e = list[node.index];
    Step step;
    step.kind = StepKind::kTransfer;
    step.engine = e.dma_engine;
    step.queue = e.queue;
    step.pc = e.pc;
    step.debug = e.debug;
    step.opcode = e.opcode;
    step.trigger = e.trigger;
    step.stream = e.stream;
    step.bytes = e.bytes;
    step.descriptors = e.descriptors;
    const ntff::StreamNote* note = e.stream == kNoStream ? nullptr : program_.note(e.stream, e.pc);
    if (note != nullptr && sends(*note)) step.peer = note->peer;
    give(step, e.begin);
    // The DMA engine had other work until then.
    if (node.index != 0 && list[node.index - 1].end + kShort >= e.begin) {
      return Node{Actor::kDma, node.actor, node.index - 1};
    }
    const auto trigger = trigger_of(e);
    if (!trigger) return std::nullopt;
    step.kind = StepKind::kDmaStart;
    step.bytes = step.descriptors = 0;
    give(step, trigger->second);
    return trigger->first;
  }

  static constexpr uint64_t kShort = 1000;  // ps

  const Timeline& timeline_;
  const Program& program_;
  const Collectives& collectives_;
  uint64_t time_;
  bool outside_ = false;  // source_of() found somebody whose events the profile does not have
  CriticalPath path_;
};

}  // namespace

const char* step_name(StepKind kind) {
  switch (kind) {
    case StepKind::kInstruction:
      return "instructions";
    case StepKind::kIssue:
      return "control instructions";
    case StepKind::kTransfer:
      return "DMA transfers";
    case StepKind::kDmaStart:
      return "DMA start";
    case StepKind::kSemaphore:
      return "semaphores";
    case StepKind::kSetup:
      return "the runtime's set-up";
    case StepKind::kOutside:
      return "other cores, the host";
    case StepKind::kCollective:
      return "collective cores";
    case StepKind::kPeer:
      return "other ranks";
  }
  return "?";
}

CriticalPath critical_path(const Timeline& timeline, const Program& program,
                           const Collectives& collectives, uint64_t total) {
  return Walk(timeline, program, collectives, total).run();
}

}  // namespace neuron::profile
