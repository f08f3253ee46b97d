// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/prediction.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "driver/isa/cost.h"
#include "driver/isa/dma_cost.h"

namespace neuron::builder {
namespace {

using isa::ModelTime;

constexpr uint64_t kDmaEngines = 16;
constexpr ModelTime kUnknown = std::numeric_limits<ModelTime>::max();

// Partitions, and bytes of them, that an operand reaches, wherever its dimensions lead.
struct Reach {
  uint8_t space = NEURON_SPACE_ABSENT;
  int first_partition = 0, end_partition = 0;
  int64_t first = 0, end = 0;

  bool meets(const Reach& other) const {
    return space == other.space && space != NEURON_SPACE_ABSENT && first < other.end &&
           other.first < end && first_partition < other.end_partition &&
           other.first_partition < end_partition;
  }
};

Reach reach_of(const isa::Operand& operand) {
  const auto element = static_cast<int64_t>(isa::dtype_bytes(operand.dtype));
  Reach reach{operand.space, operand.start, operand.start + operand.parts, operand.base,
              operand.base + element};
  if (operand.indirect) reach.end = NEURON_V4_SBUF_PARTITION_BYTES;  // wherever its offsets lead
  for (size_t d = 0; !operand.indirect && d < operand.ndim && d < operand.size.size(); ++d) {
    const int64_t far = (int64_t{operand.size[d]} - 1) * operand.step[d] * element;
    (far < 0 ? reach.first : reach.end) += far;
  }
  return reach;
}

class Player {
 public:
  Player(const Schedule& schedule, unsigned generation)
      : schedule_(schedule), generation_(generation), timing_(isa::timing_of(generation)) {
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      done_[e].assign(schedule_.steps()[e].size(), kUnknown);
    }
    for (const Slot& slot : schedule_.slots()) transfers_.emplace_back(slot.transfers, kUnknown);
  }

  std::optional<Prediction> play();

 private:
  struct Engine {
    size_t next = 0;
    ModelTime issue = 0, complete = 0, array = 0, background = 0, weights = 0;
    Reach written;
  };

  const Step& step_of(unsigned e) const { return schedule_.steps()[e][engines_[e].next]; }
  ModelTime start_of(unsigned e) const;  // kUnknown: it waits for a step that has no time yet
  void place(unsigned e, ModelTime now);
  void place_multiplication(Engine& engine, const isa::Instruction& i, const isa::Cost& cost,
                            ModelTime now);
  void move(unsigned e, const Step& step, ModelTime now);

  const Schedule& schedule_;
  const unsigned generation_;
  const isa::Timing& timing_;
  std::array<Engine, NEURON_CORE_ENGINES> engines_;
  std::array<std::vector<ModelTime>, NEURON_CORE_ENGINES> done_;  // of steps
  std::vector<std::vector<ModelTime>> transfers_;                 // of slots, in their order
  // When what each engine has started will have been moved.
  std::array<ModelTime, NEURON_CORE_ENGINES> moved_{};
  Prediction result_;
};

ModelTime Player::start_of(unsigned e) const {
  ModelTime start = engines_[e].issue;
  for (const Point& point : step_of(e).waits) {
    const size_t number = point.sequence - 1;
    const ModelTime done = point.agent < NEURON_CORE_ENGINES
                               ? done_[point.agent][schedule_.points()[point.agent][number].step]
                               : transfers_[point.agent - kFirstDmaAgent][number];
    if (done == kUnknown) return kUnknown;
    // An engine that comes later than the signal does not wait.
    if (done >= engines_[e].issue) start = std::max(start, done + isa::kSemaphoreLatency);
  }
  return start;
}

// Weights are loaded in the background of a multiplication.
void Player::place_multiplication(Engine& engine, const isa::Instruction& i, const isa::Cost& cost,
                                  ModelTime now) {
  const bool loads = i.opcode == NEURON_OP_LDWEIGHTS || i.opcode == NEURON_OP_LDWEIGHTS_MX ||
                     i.opcode == NEURON_OP_LDWEIGHTS_SPARSE;
  ModelTime& unit = loads ? engine.weights : engine.array;
  ModelTime begin = std::max(now, unit);
  if (!loads && i.pe.swap) begin = std::max(begin, engine.weights);
  // A transpose runs beside the array if that is free earlier.
  const bool beside = timing_.background_transpose && i.opcode == NEURON_OP_TRANSPOSE &&
                      std::max(now, engine.background) < begin;
  if (beside) begin = std::max(now, engine.background);
  (beside ? engine.background : unit) = begin + cost.interval;
  engine.issue = begin + timing_.pe_issue;
  engine.complete = std::max(engine.complete, begin + cost.interval + cost.latency);
  result_.busy[NEURON_ENGINE_PE] += static_cast<double>(cost.interval) / 1e6;
}

// A transfer has its data moved by all engines alike, and then one word for the semaphore.
void Player::move(unsigned e, const Step& step, ModelTime now) {
  uint64_t bytes = 0, runs = 1;
  if (step.transfer >= 0) {
    const Transfer& transfer = schedule_.transfers()[static_cast<size_t>(step.transfer)];
    const auto runs_of = [](const BufferAccess& access) {
      return access.size[1] * access.size[2] * access.size[3];
    };
    bytes = transfer.to.bytes();
    runs = std::max(runs_of(transfer.to), runs_of(transfer.from[0]));
  } else {
    const isa::Operand& side = step.instruction.dst;
    runs = std::max<uint64_t>(1, side.parts);
    bytes = runs * side.elements() * isa::dtype_bytes(side.dtype);
  }
  const uint64_t least = isa::least_transfer(timing_);
  const uint64_t packets = std::max(runs, std::min(kDmaEngines, (bytes + least - 1) / least));
  const uint64_t each = std::max(least, bytes / std::max<uint64_t>(1, packets));
  const uint64_t most = (packets + kDmaEngines - 1) / kDmaEngines;
  const ModelTime work = isa::transfer_time(most * each + least, timing_);
  // A queue that still has work goes on without a new beginning.
  const ModelTime begin = moved_[e] > now ? moved_[e] : now + isa::kDmaStart;
  moved_[e] = begin + work;
  // DMA engines serve queues by turns. So both are later by what the shorter one has.
  for (unsigned other = 0; other < NEURON_CORE_ENGINES; ++other) {
    if (other == e || moved_[other] <= begin) continue;
    const ModelTime both = std::min(work, moved_[other] - begin);
    moved_[e] += both;
    moved_[other] += both;
  }
  result_.busy[NEURON_CORE_ENGINES] += static_cast<double>(work) / 1e6;
  transfers_[step.self.agent - kFirstDmaAgent][step.self.sequence - 1] = moved_[e];
}

void Player::place(unsigned e, ModelTime now) {
  Engine& engine = engines_[e];
  const Step& step = step_of(e);
  const isa::Instruction& i = step.instruction;
  // An instruction waits for two; what else it waits for has an instruction of its own.
  constexpr size_t kWaits = std::tuple_size_v<decltype(isa::Instruction::wait)>;
  if (step.waits.size() > kWaits) {
    now += (step.waits.size() - 1) / kWaits * timing_.control_interval;
  }
  const isa::Cost cost = isa::cost_of(i, e, generation_);
  if (step.self.agent >= kFirstDmaAgent) {
    engine.issue = now + cost.interval;
    engine.complete = std::max(engine.complete, engine.issue);
    move(e, step, step.transfer >= 0 ? now : engine.issue);
  } else if (!cost.datapath) {
    engine.issue = now + cost.interval;
    engine.complete = std::max(engine.complete, engine.issue);
  } else if (e == NEURON_ENGINE_PE) {
    place_multiplication(engine, i, cost, now);
  } else {
    ModelTime gap = 0;
    for (const isa::Operand* source : {&i.src0, &i.src1}) {
      if (reach_of(*source).meets(engine.written)) gap = cost.dependent;
    }
    if (i.dst.present()) engine.written = reach_of(i.dst);
    engine.issue = now + cost.interval + gap;
    engine.complete = std::max(engine.complete, engine.issue + cost.latency);
    result_.busy[e] += static_cast<double>(cost.interval) / 1e6;
  }
  done_[e][engine.next++] = engine.complete;
}

std::optional<Prediction> Player::play() {
  if (!schedule_.loops().empty() || !schedule_.while_loops().empty() ||
      !schedule_.parts().meetings.empty() || !schedule_.parts().collectives.empty()) {
    return std::nullopt;
  }
  for (;;) {  // bounded: each round places a step
    unsigned first = 0;
    ModelTime start = kUnknown;
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      if (engines_[e].next == done_[e].size()) continue;
      const ModelTime other = start_of(e);
      if (other >= start) continue;
      start = other;
      first = e;
    }
    if (start == kUnknown) break;
    place(first, start);
  }
  ModelTime end = 0;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (engines_[e].next != done_[e].size()) return std::nullopt;
    end = std::max({end, engines_[e].issue, engines_[e].complete, moved_[e]});
  }
  result_.microseconds = static_cast<double>(end) / 1e6;
  return result_;
}

}  // namespace

std::optional<Prediction> predict(const Schedule& schedule, unsigned generation) {
  return Player(schedule, generation).play();
}

}  // namespace neuron::builder
