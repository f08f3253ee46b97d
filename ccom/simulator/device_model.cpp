// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/device_model.h"

#include <algorithm>
#include <deque>
#include <queue>

#include "ccom/device/compiler.h"
#include "ccom/plan/calibration.h"
#include "ccom/topology/routes.h"
#include "driver/isa/cost.h"
#include "driver/isa/dma_cost.h"
#include "driver/isa/instruction.h"
#include "driver/isa/timetable.h"
#include "hw/address_map.h"
#include "hw/isa.h"
#include "hw/udma.h"

namespace neuron::ccom {
namespace {

// Addresses that only this model reads. Each rank has windows of its own, so the bits that route to
// another chip need not be read: they lie above all of these.
constexpr uint64_t kWindowBytes = 1 << 20;
constexpr uint64_t kWindows = uint64_t{1} << 32;  // of CC cores
constexpr uint64_t kBuffers = uint64_t{1} << 33;  // and far apart, so that none overlap
constexpr uint64_t kDone = kWindows - 4096;
constexpr uint64_t kOne = kWindows - 8192;
// Of an address, without the route to another chip in any generation.
constexpr uint64_t kLocalMask = NEURON_V2_PEER_LOCAL;
static_assert((NEURON_V3_PEER_LOCAL & kLocalMask) == kLocalMask);

enum class Kind : uint8_t { kIssue, kDmaEnd, kAdd };

struct Event {
  uint64_t time = 0;
  uint64_t sequence = 0;
  Kind kind = Kind::kIssue;
  uint8_t index = 0;  // DMA engine, or semaphore
  uint16_t value = 0;
  Rank rank = 0;

  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : sequence > other.sequence;
  }
};

// One packet: what it moves, and the semaphore that it adds to, if any.
struct Packet {
  uint64_t time_bytes = 0;
  uint64_t bytes = 0;  // written to `target`
  Rank target = 0;     // whose memory or semaphores it writes
  int16_t semaphore = -1;
};

struct DmaEngine {
  std::vector<Packet> packets;
  size_t planned = 0;       // packets before this one are in runs that are planned or done
  size_t rung = 0;          // packets before this one may be executed
  uint64_t end = 0;         // of the last run; 0: none yet
  std::deque<size_t> runs;  // planned ones: the number behind their last packet
};

struct Core {
  std::vector<isa::Instruction> code;
  uint32_t pc = 0;
  uint32_t semaphores[NEURON_SEMAPHORES] = {};
  bool waiting = false;
  DmaEngine engines[kDmaEngines];
  std::vector<isa::Timetable> links;  // by resource: when this core's transfers take it
  uint32_t done = 0;
  uint64_t finished = 0;
};

class DeviceSimulator {
 public:
  DeviceSimulator(const Group& group, const Plan& plan, const DeviceModelOptions& options)
      : group_(group),
        plan_(plan),
        options_(options),
        routes_(group.topology, {}),
        ranks_(group.ranks()),
        cores_(ranks_) {}

  Result<DeviceTimes> run() {
    NEURON_CHECK(compile());
    for (Rank rank = 0; rank < ranks_; ++rank) {
      push({0, 0, Kind::kAdd, NEURON_CC_SEM_GO, 1, rank});
      push({0, 0, Kind::kIssue, 0, 0, rank});
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      switch (event.kind) {
        case Kind::kIssue:
          issue(event.rank);
          break;
        case Kind::kDmaEnd:
          end_run(event.rank, event.index);
          break;
        case Kind::kAdd:
          add(event.rank, event.index, event.value);
          break;
      }
    }
    for (Rank rank = 0; rank < ranks_; ++rank) {
      if (cores_[rank].done != options_.repetitions) {
        return fail(CCOM_TIMEOUT, "the programs do not end: rank {} has done {} of {} collectives",
                    rank, cores_[rank].done, options_.repetitions);
      }
      times_.finished_ps.push_back(cores_[rank].finished);
      times_.time_ps = std::max(times_.time_ps, cores_[rank].finished);
    }
    return std::move(times_);
  }

 private:
  Result<void> compile() {
    const DeviceGeneration* generation = find_generation(options_.generation);
    if (generation == nullptr) {
      return fail(CCOM_UNSUPPORTED, "chips of generation {} have no collectives here",
                  options_.generation);
    }
    DeviceCollective one;
    one.schedule = plan_.schedule.get();
    one.window = plan_.window;
    one.name = "collective";
    for (Rank rank = 0; rank < ranks_; ++rank) {
      const Place& place = group_.places[rank];
      if (place.node != group_.places[0].node) {
        return fail(CCOM_UNSUPPORTED,
                    "ranks 0 and {} are on nodes {} and {}; devices join the "
                    "cores of one instance",
                    rank, group_.places[0].node, place.node);
      }
      one.world.push_back(rank);
      one.places.push_back({generation, place.chip, place.core, kWindows + rank * kWindowBytes});
      one.buffers.push_back(buffers_of(rank));
    }
    one.done = {{kDone, 1}};
    for (Rank rank = 0; rank < ranks_; ++rank) {
      // Scratch memory comes last.
      const uint64_t end = one.buffers[rank].scratch.address + one.schedule->scratch_bytes(rank);
      if (end > kLocalMask) {
        return fail(
            CCOM_UNSUPPORTED,
            "the buffers of rank {} end at byte {}, and the addresses of a chip at {}; take "
            "a smaller size",
            rank, end, kLocalMask);
      }
    }
    for (Rank rank = 0; rank < ranks_; ++rank) {
      one.rank = rank;
      const StreamPlace stream{one.places[rank], 0, 0, 1, options_.engines, kOne};
      NEURON_TRY(program, compile_stream(stream, {one}));
      take(rank, program);
    }
    return {};
  }

  // Sizes are rounded up to whole 64 KiB, and input, output and scratch follow one another. In
  // place, input and output are one buffer.
  RankBuffers buffers_of(Rank rank) const {
    const Schedule& schedule = *plan_.schedule;
    uint64_t at = kBuffers;
    const auto room = [&](uint64_t bytes) {
      const uint64_t place = at;
      at += (bytes + 0xFFFF) / 0x10000 * 0x10000 + 0x10000;
      return place;
    };
    const uint64_t input = room(schedule.input_bytes(rank));
    const uint64_t output = plan_.request.in_place ? input : room(schedule.output_bytes(rank));
    return {input, output, room(schedule.scratch_bytes(rank))};
  }

  void take(Rank rank, const DeviceProgram& program) {
    Core& core = cores_[rank];
    core.links.assign(routes_.resources(), {});
    for (size_t at = 0; at < program.code.size(); at += NEURON_INSTRUCTION_BYTES) {
      core.code.push_back(
          isa::decode(std::span(program.code).subspan(at).first<NEURON_INSTRUCTION_BYTES>()));
    }
    for (uint32_t e = 0; e < kDmaEngines; ++e) {
      const DescriptorRing& ring = program.rings[e];
      size_t m2s = 0;
      for (const Descriptor& to : ring.s2m) {
        core.engines[e].packets.push_back(packet(rank, ring, m2s, to));
      }
    }
  }

  static uint32_t bytes_of(const Descriptor& descriptor) {
    const uint32_t bytes = descriptor.control & NEURON_DESC_LENGTH_MASK;
    return bytes == 0 ? NEURON_UDMA_MAX_DESC_BYTES : bytes;
  }

  // Each packet of the ring writer has one destination.
  Packet packet(Rank rank, const DescriptorRing& ring, size_t& m2s, const Descriptor& to) const {
    Packet packet;
    packet.bytes = bytes_of(to);
    const uint64_t least = isa::least_transfer(isa::timing_of(options_.generation));
    uint64_t read = 0, taken = 0;  // bytes, and as many as take the time of their descriptors
    bool computes = false, last = false;
    while (!last && m2s < ring.m2s.size()) {
      const Descriptor& from = ring.m2s[m2s++];
      last = (from.control & NEURON_DESC_LAST) != 0;
      if ((from.control & NEURON_DESC_META) != 0) {
        computes = true;
      } else {
        read += bytes_of(from);
        taken += computes ? least : std::max<uint64_t>(bytes_of(from), least);
      }
    }
    packet.time_bytes =
        std::max(taken, computes ? isa::dma_reduction_bytes(read, packet.bytes) : least);
    // A place of another chip has bits of its route; its own rank cannot be read from memory
    // addresses, so the route is compared.
    packet.target = rank;
    const uint64_t local = to.address & kLocalMask;
    if (local >= kWindows && local < kWindows + ranks_ * kWindowBytes) {
      packet.target = static_cast<Rank>((local - kWindows) / kWindowBytes);
      packet.semaphore = static_cast<int16_t>(
          (local % kWindowBytes - NEURON_CC_SEMAPHORES - NEURON_SEM_BLOCK_INC) / 4);
      return packet;
    }
    const uint64_t route = to.address & ~kLocalMask;
    if (route == 0) return packet;
    for (Rank other = 0; other < ranks_; ++other) {
      const Place& place = group_.places[other];
      const uint64_t leads = find_generation(options_.generation)->route_to(place.chip);
      if (route == (leads & ~kLocalMask)) packet.target = other;
    }
    return packet;
  }

  void push(Event event) {
    event.sequence = sequence_++;
    events_.push(event);
  }

  uint64_t way(Rank from, Rank to, const std::vector<Hop>** hops) {
    const Place &a = group_.places[from], &b = group_.places[to];
    *hops = nullptr;
    if (a.chip == b.chip) return 0;
    const uint64_t key = uint64_t{a.chip} * group_.topology.node().chips + b.chip;
    if (ways_.size() <= key) ways_.resize(key + 1);
    if (ways_[key].empty()) {
      if (!routes_.path(a, b, ways_[key])) return 0;
    }
    *hops = &ways_[key];
    uint64_t latency = 0;
    for (const Hop& hop : ways_[key]) latency += hop.latency_ps;
    return latency;
  }

  void add(Rank rank, uint8_t semaphore, uint16_t value) {
    Core& core = cores_[rank];
    core.semaphores[semaphore] += value;
    if (!core.waiting || !holds(core, core.code[core.pc])) return;
    core.waiting = false;
    push({now_ + isa::kSemaphoreLatency, 0, Kind::kIssue, 0, 0, rank});
  }

  static bool holds(const Core& core, const isa::Instruction& instruction) {
    return std::all_of(instruction.wait.begin(), instruction.wait.end(), [&](const auto& wait) {
      return wait.condition == NEURON_WAIT_NONE || core.semaphores[wait.index] >= wait.value;
    });
  }

  void issue(Rank rank) {
    Core& core = cores_[rank];
    const isa::Instruction& instruction = core.code[core.pc];
    if (!holds(core, instruction)) {
      core.waiting = true;
      return;
    }
    ++times_.instructions;
    uint32_t next = core.pc + 1;
    for (const isa::Update& update : instruction.update) {
      if (update.operation == NEURON_UPDATE_SUB) core.semaphores[update.index] -= update.value;
    }
    const uint64_t interval =
        isa::cost_of(instruction, NEURON_ENGINE_CC, options_.generation).interval;
    switch (instruction.opcode) {
      case NEURON_OP_WRITE:
        write(rank, instruction);
        break;
      case NEURON_OP_DMA_TRIGGER:
        ring(rank, instruction.trigger);
        break;
      case NEURON_OP_BRANCH:
        next = static_cast<uint32_t>(static_cast<int64_t>(core.pc) + instruction.flow.target);
        break;
      default:
        break;
    }
    core.pc = next;
    push({now_ + interval, 0, Kind::kIssue, 0, 0, rank});
  }

  void write(Rank rank, const isa::Instruction& instruction) {
    Core& core = cores_[rank];
    const uint64_t local = instruction.address.addr & kLocalMask;
    if (local == kDone) {
      core.finished = now_;
      if (++core.done == options_.repetitions) return;
      // The engine that owns the collective sees that it is done, and triggers the next one with
      // its second instruction.
      const uint64_t passed = isa::kSemaphoreLatency + isa::kControlInterval;
      push({now_ + passed, 0, Kind::kAdd, NEURON_CC_SEM_GO, 1, rank});
      return;
    }
    const auto target = static_cast<Rank>((local - kWindows) / kWindowBytes);
    const auto semaphore = static_cast<uint8_t>(
        (local % kWindowBytes - NEURON_CC_SEMAPHORES - NEURON_SEM_BLOCK_INC) / 4);
    const std::vector<Hop>* hops = nullptr;
    const uint64_t latency = way(rank, target, &hops);
    push({now_ + latency, 0, Kind::kAdd, semaphore,
          static_cast<uint16_t>(instruction.scalar0.value), target});
  }

  void ring(Rank rank, const isa::DmaTriggerBody& trigger) {
    Core& core = cores_[rank];
    for (uint8_t e = 0; e < kDmaEngines; ++e) {
      if ((trigger.mask >> e & 1) == 0 || trigger.s2m_count[e] == 0) continue;
      DmaEngine& engine = core.engines[e];
      engine.rung += trigger.s2m_count[e];
      plan(rank, e);
    }
  }

  // Runs are planned when they are rung for, as in the emulated chip (collective_plan.h there).
  void plan(Rank rank, uint8_t e) {
    Core& core = cores_[rank];
    DmaEngine& engine = core.engines[e];
    uint64_t begin = engine.end != 0 && now_ <= engine.end ? engine.end : now_ + isa::kDmaStart;
    while (engine.planned < engine.rung) {
      uint64_t bytes = 0, leg = 0;
      Rank far = rank;
      const size_t first = engine.planned;
      while (engine.planned < engine.rung && engine.planned - first < isa::kDmaRunPackets) {
        const Packet& packet = engine.packets[engine.planned % engine.packets.size()];
        ++engine.planned;
        bytes += packet.time_bytes;
        if (group_.places[packet.target].chip != group_.places[rank].chip) {
          far = packet.target;
          leg += packet.bytes;
        }
        if (packet.semaphore >= 0) break;
      }
      engine.end = begin + isa::transfer_time(bytes, isa::timing_of(options_.generation));
      if (leg != 0) engine.end = std::max(engine.end, pass(core, rank, far, leg, begin));
      engine.runs.push_back(engine.planned);
      times_.packets += engine.planned - first;
      push({engine.end, 0, Kind::kDmaEnd, e, 0, rank});
      begin = engine.end;
    }
  }

  // When the bytes, which begin at `begin`, have left for the other chip, between others of this
  // core.
  uint64_t pass(Core& core, Rank from, Rank to, uint64_t bytes, uint64_t begin) {
    const std::vector<Hop>* hops = nullptr;
    const uint64_t latency = way(from, to, &hops);
    if (hops == nullptr || hops->empty()) return begin;
    uint64_t enters = begin, last = begin;
    for (const Hop& hop : *hops) {
      const auto takes =
          static_cast<uint64_t>(static_cast<double>(bytes) * 1e12 / hop.bytes_per_second);
      isa::Timetable& table = core.links[hop.resource];
      enters = table.fit(enters, takes, last);
      const uint64_t leaves = std::max(last, enters + takes);
      table.take(enters, leaves);
      last = leaves + hop.latency_ps;
      enters += hop.latency_ps;
    }
    return last - latency;
  }

  void end_run(Rank rank, uint8_t e) {
    DmaEngine& engine = cores_[rank].engines[e];
    const Packet& last = engine.packets[(engine.runs.front() - 1) % engine.packets.size()];
    engine.runs.pop_front();
    if (last.semaphore < 0) return;
    const std::vector<Hop>* hops = nullptr;
    const uint64_t latency = way(rank, last.target, &hops);
    push({now_ + latency, 0, Kind::kAdd, static_cast<uint8_t>(last.semaphore), 1, last.target});
  }

  const Group& group_;
  const Plan& plan_;
  const DeviceModelOptions& options_;
  Routes routes_;
  const uint32_t ranks_;
  std::vector<Core> cores_;
  std::vector<std::vector<Hop>> ways_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t sequence_ = 0;
  uint64_t now_ = 0;
  DeviceTimes times_;
};

}  // namespace

Result<ccom_algorithm_t> algorithm_on_devices(uint32_t generation,
                                              const std::vector<uint32_t>& cores, Request request) {
  const DeviceGeneration* chips = find_generation(generation);
  if (chips == nullptr) {
    return fail(CCOM_UNSUPPORTED, "chips of generation {} have no collectives here", generation);
  }
  NEURON_TRY(profile, Topology::profile(chips->instance));
  Group group{{}, Topology(profile, 1)};
  for (const uint32_t core : cores) {
    group.places.push_back(
        {0, core / chips->cores % profile.chips, core % chips->cores % profile.ranks_per_chip, 0});
  }
  NEURON_TRY(costs, calibration_of_environment(Medium::kDevice));
  const Planner planner(std::move(group), costs);
  request.algorithm = planner.device_default(request);
  NEURON_TRY(plan, planner.plan(request));
  return plan.algorithm;
}

Result<DeviceTimes> simulate_device(const Group& group, const Plan& plan,
                                    const DeviceModelOptions& options) {
  if (!plan.schedule) return fail(CCOM_INVALID, "the plan to simulate has no schedule");
  return DeviceSimulator(group, plan, options).run();
}

}  // namespace neuron::ccom
