// SPDX-License-Identifier: Apache-2.0
#include "ccom/device/compiler.h"

#include <algorithm>
#include <array>

#include "ccom/device/ring_writer.h"
#include "driver/isa/instruction.h"
#include "hw/address_map.h"
#include "hw/isa.h"

namespace neuron::ccom {
namespace {

constexpr size_t kMostSources = 64;
constexpr uint32_t kMostNodes = 4;  // of an UltraServer
// Keeps the descriptors of one trigger on one engine below 2^16.
constexpr uint64_t kMostBytesPerEngine = 64ull << 20;

struct TypeRow {
  uint8_t dtype;
  uint8_t bytes;
};

// By ccom_type_t.
constexpr TypeRow kTypes[CCOM_TYPE_COUNT] = {
    {NEURON_DTYPE_U8, 1},   {NEURON_DTYPE_I8, 1},  {NEURON_DTYPE_F8E3, 1}, {NEURON_DTYPE_F8E4, 1},
    {NEURON_DTYPE_F8E5, 1}, {NEURON_DTYPE_U16, 2}, {NEURON_DTYPE_I16, 2},  {NEURON_DTYPE_F16, 2},
    {NEURON_DTYPE_BF16, 2}, {NEURON_DTYPE_U32, 4}, {NEURON_DTYPE_I32, 4},  {NEURON_DTYPE_F32, 4},
    {NEURON_DTYPE_U64, 8},  {NEURON_DTYPE_I64, 8},
};

Combination combination(const Schedule& schedule, bool complete) {
  Combination how;
  how.type = kTypes[schedule.type].dtype;
  how.element_bytes = kTypes[schedule.type].bytes;
  switch (schedule.reduction) {
    case CCOM_MIN:
      how.reduction = NEURON_DMA_REDUCE_MIN;
      break;
    case CCOM_MAX:
      how.reduction = NEURON_DMA_REDUCE_MAX;
      break;
    case CCOM_PRODUCT:
      how.reduction = NEURON_DMA_REDUCE_PRODUCT;
      break;
    case CCOM_AVERAGE:
      if (complete) how.divisor = schedule.ranks();
      break;
    default:
      break;
  }
  return how;
}

// A semaphore of this CC core that must reach `least`; `taken` is then subtracted.
struct PendingWait {
  uint8_t semaphore = 0;
  uint16_t least = 0;
  uint16_t taken = 0;
  InstructionNote note;
  uint64_t bytes = 0;  // that have arrived then
};

// A transfer of this rank that is in flight.
struct Transfer {
  uint8_t semaphore = 0;
  uint16_t parts = 0;
  Footprint footprint;
};

bool any_overlap(const std::vector<AddressRange>& a, const std::vector<AddressRange>& b) {
  return std::any_of(a.begin(), a.end(), [&](const AddressRange& x) {
    return std::any_of(b.begin(), b.end(), [&](const AddressRange& y) { return x.overlaps(y); });
  });
}

class StreamCompiler {
 public:
  explicit StreamCompiler(const StreamPlace& stream)
      : stream_(stream), writer_(program_.rings, stream.engines, stream.one) {}

  Result<DeviceProgram> compile(const std::vector<DeviceCollective>& collectives) {
    for (const DeviceCollective& collective : collectives) {
      NEURON_CHECK(add(collective));
      ++number_;
    }
    isa::Instruction& back = emit(NEURON_OP_BRANCH);
    back.flow.target = -static_cast<int32_t>(code_.size() - 1);
    program_.code.resize(code_.size() * NEURON_INSTRUCTION_BYTES);
    for (size_t i = 0; i < code_.size(); ++i) {
      isa::encode(code_[i], std::span(program_.code)
                                .subspan(i * NEURON_INSTRUCTION_BYTES)
                                .first<NEURON_INSTRUCTION_BYTES>());
    }
    program_.moved_bytes = writer_.moved_bytes();
    return std::move(program_);
  }

 private:
  Result<void> add(const DeviceCollective& collective) {
    const Schedule& schedule = *collective.schedule;
    collective_ = &collective;
    NEURON_CHECK(check_places(collective));
    buffers_ = collective.buffers[collective.rank];
    program_.names.push_back(collective.name);
    auto order = interleave(schedule, collective.buffers, collective.window, kArrivalSemaphores);
    if (!order) return order.error().with("{}", collective.name);
    wait_for({NEURON_CC_SEM_GO, 1, 1, note(WaitReason::kGo)});
    for (const DeviceAction& action : order->ranks[collective.rank]) {
      auto done = action.kind == DeviceActionKind::kGrant ? grant(action) : execute(action);
      if (done && writer_.overflowed()) {
        done =
            fail(CCOM_RESOURCE,
                 "a step of {} bytes has more than 65535 descriptors for one DMA engine, because "
                 "its rows in SBUF are short; use longer rows, more partitions or a buffer in "
                 "HBM",
                 action.step.bytes);
      }
      if (!done) return done.error().with("{}", collective.name);
    }
    while (!transfers_.empty()) wait_for_transfer(0);
    flush(0);
    for (const auto& [semaphore, value] : collective.done) {
      write(semaphore, value);
      did(NoteAction::kDone);
    }
    return {};
  }

  // Checks that each rank has a place of its own, which selects its credit semaphore: two ranks
  // with one semaphore would take each other's credits.
  static Result<void> check_places(const DeviceCollective& collective) {
    std::array<int64_t, kCreditSemaphores> member;
    member.fill(-1);
    const uint32_t here = collective.places[collective.rank].instance;
    for (Rank r = 0; r < collective.places.size(); ++r) {
      if (collective.places[r].instance != here) continue;
      if (collective.places[r].node >= kMostNodes ||
          (collective.places[r].node != 0 && collective.places[r].generation->number < 3)) {
        return fail(CCOM_UNSUPPORTED,
                    "{}: rank {} is on node {} of an UltraServer of chips of generation {}; "
                    "addresses reach nodes 0 to {} of generations 3 and 4",
                    collective.name, r, collective.places[r].node,
                    collective.places[r].generation->number, kMostNodes - 1);
      }
      if (collective.places[r].credit > kCreditSemaphores) {
        return fail(
            CCOM_UNSUPPORTED,
            "{}: rank {} is number {} of the ranks that reach each other's chips, and a collective "
            "core counts credits of {}; use fewer ranks of an instance",
            collective.name, r, collective.places[r].credit, kCreditSemaphores);
      }
      int64_t& other = member[credit_of(collective.places[r]) - kFirstCreditSemaphore];
      if (other >= 0) {
        return fail(
            CCOM_UNSUPPORTED,
            "{}: ranks {} and {} are on cores that have one semaphore for credits (chips {} "
            "and {}); devices join the {} cores of one instance, each once",
            collective.name, other, r, collective.places[other].chip, collective.places[r].chip,
            kCreditSemaphores);
      }
      other = r;
    }
    return {};
  }

  bool crosses(Rank peer) const {
    return collective_->places[peer].instance != stream_.place.instance;
  }

  static uint32_t credit_of(const DevicePlace& place) {
    if (place.credit != 0) return kFirstCreditSemaphore + place.credit - 1;
    const uint32_t cores = place.generation->cores;
    return kFirstCreditSemaphore + (place.chip * cores + place.core) % kCreditSemaphores;
  }

  InstructionNote note(WaitReason reason, Rank peer = 0) const {
    return {.reason = reason,
            .collective = number_,
            .peer = collective_->world.empty() ? peer : collective_->world[peer]};
  }

  isa::Instruction& emit(uint16_t opcode) {
    isa::Instruction instruction;
    instruction.opcode = opcode;
    instruction.engines = 1u << NEURON_ENGINE_CC;
    code_.push_back(instruction);
    program_.notes.push_back({.collective = number_});
    return code_.back();
  }

  // Says what the instruction that was emitted last is for.
  void did(NoteAction action, Rank peer = 0, uint64_t bytes = 0) {
    InstructionNote& note = program_.notes.back();
    note.action = action;
    note.target = collective_->world.empty() ? peer : collective_->world[peer];
    note.bytes = bytes;
  }

  void wait_for(const PendingWait& wait) { waits_.push_back(wait); }

  // Emits instructions for all pending waits but the last `kept`.
  void flush(size_t kept) {
    while (waits_.size() > kept) {
      isa::Instruction& event = emit(NEURON_OP_EVENT);
      attach(event, std::min<size_t>(2, waits_.size() - kept));
    }
  }

  void attach(isa::Instruction& instruction, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const PendingWait& wait = waits_[i];
      instruction.wait[i] = {
          .index = wait.semaphore, .condition = NEURON_WAIT_GE, .value = wait.least};
      instruction.update[i] = {
          .index = wait.semaphore, .operation = NEURON_UPDATE_SUB, .value = wait.taken};
      // The note prefers waits for other ranks, because a transfer of this core always ends.
      InstructionNote& note = program_.notes.back();
      if (i == 0 || note.reason == WaitReason::kOwnTransfer) {
        note.reason = wait.note.reason;
        note.collective = wait.note.collective;
        note.peer = wait.note.peer;
      }
      note.waits[i] = {wait.note.reason, wait.semaphore, wait.note.peer, wait.bytes};
    }
    waits_.erase(waits_.begin(), waits_.begin() + static_cast<ptrdiff_t>(count));
  }

  void write(uint64_t address, uint32_t value) {
    flush(2);
    isa::Instruction& instruction = emit(NEURON_OP_WRITE);
    instruction.address = {address, 0, 1};
    instruction.scalar0 = {
        .value = value, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
    attach(instruction, waits_.size());
  }

  void trigger(const TriggerCounts& counts) {
    flush(2);
    isa::Instruction& instruction = emit(NEURON_OP_DMA_TRIGGER);
    instruction.trigger = {.m2s = stream_.m2s_doorbell,
                           .s2m = stream_.s2m_doorbell,
                           .stride = stream_.stride,
                           .mask = counts.mask,
                           .queue = NEURON_DMA_QUEUE_COLLECTIVES,
                           .block = number_,
                           .m2s_count = counts.m2s,
                           .s2m_count = counts.s2m};
    attach(instruction, waits_.size());
  }

  void wait_for_transfer(size_t index) {
    const Transfer& transfer = transfers_[index];
    wait_for({transfer.semaphore, transfer.parts, transfer.parts, note(WaitReason::kOwnTransfer)});
    free_.push_back(transfer.semaphore);
    transfers_.erase(transfers_.begin() + static_cast<ptrdiff_t>(index));
  }

  // Waits for the transfers that must end before a step with this footprint begins.
  void settle(const Footprint& footprint) {
    for (size_t i = 0; i < transfers_.size();) {
      const Footprint& other = transfers_[i].footprint;
      if (any_overlap(footprint.writes, other.reads) ||
          any_overlap(footprint.writes, other.writes) ||
          any_overlap(footprint.reads, other.writes)) {
        wait_for_transfer(i);
      } else {
        ++i;
      }
    }
  }

  uint64_t increment(const DevicePlace& place, uint32_t semaphore) const {
    return routed(stream_.place, place,
                  place.cc_core + NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC + semaphore * 4ull);
  }

  // Returns the increment alias that a transfer of `parts` on this core's engines adds to.
  uint64_t begin_transfer(Footprint footprint, uint32_t parts) {
    if (free_.empty()) wait_for_transfer(0);
    // A semaphore that a pending instruction waits for is free after that instruction.
    const uint8_t semaphore = free_.front();
    free_.erase(free_.begin());
    transfers_.push_back({semaphore, static_cast<uint16_t>(parts), std::move(footprint)});
    return increment(stream_.place, semaphore);
  }

  uint32_t parts(uint64_t bytes) const { return writer_.parts(bytes); }

  // Puts a message into the proxy's list, and tells the proxy at this place of the program.
  Result<void> hand_over(bool sends, const DeviceAction& action, uint32_t semaphore) {
    const Step& step = action.step;
    const Region region = buffers_.region(sends ? step.source : step.destination);
    if (region.run(0) < step.bytes) {
      return fail(CCOM_UNSUPPORTED,
                  "{} bytes for rank {}, which is on another instance, lie in rows of SBUF, which "
                  "the network does not reach; use a buffer in HBM",
                  step.bytes, collective_->world[step.peer]);
    }
    program_.crossing.push_back({sends, collective_->world[step.peer], number_, action.channel,
                                 static_cast<uint16_t>(semaphore), region.at(0), step.bytes});
    flush(2);
    isa::Instruction& instruction = emit(NEURON_OP_NOTIFY);
    instruction.scalar0 = {.value = static_cast<uint32_t>(program_.crossing.size() - 1),
                           .kind = NEURON_SCALAR_IMMEDIATE,
                           .dtype = NEURON_DTYPE_U32};
    attach(instruction, waits_.size());
    did(sends ? NoteAction::kOffer : NoteAction::kExpect, step.peer, step.bytes);
    return {};
  }

  Result<void> grant(const DeviceAction& action) {
    Footprint written;
    written.writes.push_back({buffers_.number(action.step.destination), action.step.bytes});
    settle(written);
    if (crosses(action.step.peer)) {
      return hand_over(false, action, kFirstArrivalSemaphore + action.arrival);
    }
    // The waits come first, because the peer writes as soon as it sees the credit.
    write(increment(collective_->places[action.step.peer], credit_of(stream_.place)), 1);
    did(NoteAction::kGrant, action.step.peer);
    return {};
  }

  Result<void> execute(const DeviceAction& action) {
    const Step& step = action.step;
    if (step.bytes > kMostBytesPerEngine * RingWriter::engines_of(stream_.engines)) {
      return fail(CCOM_RESOURCE, "a step moves {} bytes; at most {} are given to DMA at once",
                  step.bytes, kMostBytesPerEngine * RingWriter::engines_of(stream_.engines));
    }
    switch (step.kind) {
      case StepKind::kWait:
        return {};
      case StepKind::kSend:
        return send(action);
      case StepKind::kReceive: {
        // The sender has as many DMA engines as this rank, because streams are alike on all ranks.
        const auto count = static_cast<uint16_t>(crosses(step.peer) ? 1 : parts(step.bytes));
        wait_for({static_cast<uint8_t>(kFirstArrivalSemaphore + action.arrival), count, count,
                  note(WaitReason::kArrival, step.peer), step.bytes});
        return {};
      }
      case StepKind::kReduce:
        return reduce(step);
      case StepKind::kCopy:
      case StepKind::kDuplicate: {
        copy(step.source, step.destination, step.bytes);
        if (step.kind == StepKind::kDuplicate) copy(step.source, step.second, step.bytes);
        return {};
      }
    }
    return fail(CCOM_INVALID, "step kind {} is not known", static_cast<unsigned>(step.kind));
  }

  Result<void> send(const DeviceAction& action) {
    const Step& step = action.step;
    const DevicePlace& peer = collective_->places[step.peer];
    Footprint read = footprint(step, buffers_);
    settle(read);
    if (crosses(step.peer)) {
      begin_transfer(std::move(read), 1);
      return hand_over(true, action, transfers_.back().semaphore);
    }
    wait_for({static_cast<uint8_t>(credit_of(peer)), static_cast<uint16_t>(action.credits), 1,
              note(WaitReason::kCredit, step.peer)});
    const uint64_t arrived = increment(peer, kFirstArrivalSemaphore + action.arrival);
    const uint64_t sent = begin_transfer(std::move(read), parts(step.bytes));
    Region to = collective_->buffers[step.peer].region(action.remote_destination);
    to.place.address = routed(stream_.place, peer, to.place.address);
    trigger(writer_.copy(buffers_.region(step.source), to, step.bytes, std::array{arrived, sent}));
    did(NoteAction::kSend, step.peer, step.bytes);
    return {};
  }

  void copy(const Slice& from, const Slice& to, uint64_t bytes) {
    if (bytes == 0 || buffers_.number(from) == buffers_.number(to)) return;
    Footprint foot{{{buffers_.number(from), bytes}}, {{buffers_.number(to), bytes}}};
    settle(foot);
    const uint64_t done = begin_transfer(std::move(foot), parts(bytes));
    trigger(writer_.copy(buffers_.region(from), buffers_.region(to), bytes, std::array{done}));
    did(NoteAction::kCopy, collective_->rank, bytes);
  }

  Result<void> reduce(const Step& step) {
    const Schedule& schedule = *collective_->schedule;
    std::vector<Slice> sources;
    for (uint32_t i = 0; i < step.count; ++i) {
      sources.push_back({step.source.buffer, step.source.offset + i * step.stride});
    }
    if (step.has_own) {
      sources.insert(sources.begin() + std::min<size_t>(step.own_index, sources.size()),
                     step.second);
    }
    const Slice& to = step.destination;
    if (step.bytes == 0 || sources.empty()) return {};
    // The place of the partial result. In place, the destination may be an operand that has not
    // been read yet; the first gathered operand is not read again, so it can be overwritten.
    Slice partial = to;
    if (sources.size() > kMostSources &&
        std::any_of(sources.begin() + kMostSources, sources.end(), [&](const Slice& source) {
          return buffers_.number(source) == buffers_.number(to);
        })) {
      if (step.source.buffer != Buffer::kScratch || step.count == 0) {
        return fail(CCOM_UNSUPPORTED,
                    "a reduction of {} operands overwrites one behind the first {}, which DMA "
                    "engines combine at once; use an output of its own",
                    sources.size(), kMostSources);
      }
      partial = step.source;
    }
    // bounded: each turn consumes at least 63 of the sources.
    while (true) {
      const size_t count = std::min(kMostSources, sources.size());
      const bool last = count == sources.size();
      const Slice target = last ? to : partial;
      Footprint foot;
      std::vector<Region> operands;
      for (size_t i = 0; i < count; ++i) {
        foot.reads.push_back({buffers_.number(sources[i]), step.bytes});
        operands.push_back(buffers_.region(sources[i]));
      }
      foot.writes.push_back({buffers_.number(target), step.bytes});
      settle(foot);
      const uint64_t done = begin_transfer(std::move(foot), parts(step.bytes));
      trigger(writer_.combine(combination(schedule, last && step.complete), operands,
                              buffers_.region(target), step.bytes, std::array{done}));
      did(NoteAction::kReduce, collective_->rank, step.bytes);
      if (last) return {};
      sources.erase(sources.begin(), sources.begin() + static_cast<ptrdiff_t>(count));
      sources.insert(sources.begin(), partial);
    }
  }

  const StreamPlace& stream_;
  DeviceProgram program_;
  RingWriter writer_;
  std::vector<isa::Instruction> code_;
  std::vector<PendingWait> waits_;
  std::vector<Transfer> transfers_;
  std::vector<uint8_t> free_ = [] {
    std::vector<uint8_t> all;
    for (uint32_t i = 0; i < kTransferSemaphores; ++i) {
      all.push_back(static_cast<uint8_t>(kFirstTransferSemaphore + i));
    }
    return all;
  }();
  const DeviceCollective* collective_ = nullptr;
  RankBuffers buffers_;
  uint16_t number_ = 0;
};

}  // namespace

uint64_t routed(const DevicePlace& from, const DevicePlace& place, uint64_t address) {
  const uint32_t further = (place.node - from.node) % kMostNodes;
  if (from.chip == place.chip && further == 0) return address;
  return address | place.generation->route_to(place.chip + further * NEURON_V3_PEER_INSTANCE);
}

Result<DeviceProgram> compile_stream(const StreamPlace& stream,
                                     const std::vector<DeviceCollective>& collectives) {
  if (stream.engines == 0) {
    return fail(CCOM_INVALID, "a stream of collectives has no DMA engine");
  }
  return StreamCompiler(stream).compile(collectives);
}

std::string DeviceProgram::describe(uint32_t pc) const {
  if (pc >= notes.size()) return {};
  const InstructionNote& note = notes[pc];
  if (note.reason == WaitReason::kNone) return {};
  const std::string which =
      ccom::format("{} ({} of {})", names[note.collective], note.collective + 1, names.size());
  switch (note.reason) {
    case WaitReason::kGo:
      return ccom::format("waits for the program to begin {}", which);
    case WaitReason::kCredit:
      return ccom::format("waits in {} for rank {} to take its data", which, note.peer);
    case WaitReason::kArrival:
      return ccom::format("waits in {} for data of rank {}", which, note.peer);
    default:
      return ccom::format("waits in {} for its own DMA engines", which);
  }
}

}  // namespace neuron::ccom
