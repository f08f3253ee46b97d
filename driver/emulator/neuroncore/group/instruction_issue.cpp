// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/instruction_issue.h"

#include <algorithm>

#include "driver/emulator/neuroncore/group/register_substitution.h"

namespace neuron::core {
namespace {

// A time as an entry has room for it.
uint32_t word_of(ModelTime time) {
  return static_cast<uint32_t>(std::min<ModelTime>(time, UINT32_MAX));
}

// What the core executes so long, in ps, may take a thread of the host milliseconds, so that what
// was recorded before it should not wait for its end.
constexpr ModelTime kLongInstruction = 50'000'000;

bool loads_weights(const isa::Instruction& i) {
  return i.opcode == NEURON_OP_LDWEIGHTS || i.opcode == NEURON_OP_LDWEIGHTS_MX ||
         i.opcode == NEURON_OP_LDWEIGHTS_SPARSE;
}

}  // namespace

void InstructionIssue::step(Sequencer& s, ModelTime now) {
  while (s.pending_count != 0 && s.pending[0].time <= now) {
    const PendingUpdate update = s.pending[0];
    s.pop_pending();
    if (!to_.updates.apply(s, update, now)) break;
  }
  if (s.issue_at <= now) issue(s, now);
  state_.scheduler.schedule(s);
}

bool InstructionIssue::meets_breakpoint(const Sequencer& s, const isa::Instruction& i) const {
  bool hit = i.brk || i.opcode == NEURON_OP_BRK;
  for (const uint32_t b : s.breakpoints) hit |= (b >> 31) != 0 && (b & 0xFFFFFF) == s.pc;
  return hit;
}

// True if the instruction has to stay until the engine's earlier work, its DMA included, is done.
bool InstructionIssue::must_drain(Sequencer& s, const isa::Instruction& i, ModelTime now) {
  if (!i.drain && i.opcode != NEURON_OP_DRAIN && i.opcode != NEURON_OP_COMPLETE) return false;
  if (s.last_complete > now || s.pending_count != 0) {
    s.issue_at = std::max(s.last_complete, s.pending_count != 0 ? s.pending[0].time : 0);
    return true;
  }
  const bool in_flight = to_.dma.in_flight(s) != 0;
  if (!in_flight && to_.dma.drained_at(s) <= now) return false;
  Waits::begin_waiting(s, now);
  s.dma_wait = true;
  s.issue_at = in_flight ? kNever : to_.dma.drained_at(s);
  return true;
}

// Tells the other core of the pair that this one is here, once. True if the instruction has to stay
// until the engine's earlier work is done, or has faulted.
bool InstructionIssue::must_arrive(Sequencer& s, const CachedInstruction& entry, ModelTime now) {
  if (s.last_complete > now || s.pending_count != 0) {
    s.issue_at = std::max(s.last_complete, s.pending_count != 0 ? s.pending[0].time : 0);
    return true;
  }
  const isa::Instruction* i = &entry.decoded;
  Fault fault;
  isa::Violation wrong = entry.operands;
  if (entry.dynamic) {
    fault = substitute_registers(s, entry.decoded, substituted_);
    i = &substituted_;
    if (!fault) wrong = isa::check_operands(*i, s.engine, state_.limits);
  }
  if (!fault && wrong) {
    fault = make_fault(static_cast<neuron_fault>(wrong.code), 0, wrong.value, wrong.offset);
    fault.rule = wrong.rule;
  }
  if (!fault) fault = to_.meeting.arrive(s, *i, now);
  if (!fault) return false;
  to_.faults.raise(s, fault, s.pc, i->debug, i->opcode, now);
  return true;
}

// True if the instruction is not executed.
bool InstructionIssue::meets_injected_fault(Sequencer& s, const CachedInstruction& entry,
                                            ModelTime now) {
  const isa::Instruction& i = entry.decoded;
  const uint64_t code = s.program_base() + uint64_t{s.pc} * NEURON_INSTRUCTION_BYTES;
  neuron_fault memory = state_.injected.fetched(code, NEURON_INSTRUCTION_BYTES);
  uint64_t address = code;
  uint32_t bytes = NEURON_INSTRUCTION_BYTES;
  if (memory == NEURON_FAULT_NONE && i.opcode == NEURON_OP_LOAD && !entry.dynamic) {
    address = i.address.addr;
    bytes = 4;
    memory = state_.injected.fetched(address, bytes);
  }
  if (memory != NEURON_FAULT_NONE) {
    to_.faults.raise(s, make_fault(memory, address, bytes), s.pc, i.debug, i.opcode, now);
    return true;
  }
  switch (state_.injected.instruction(state_.core, s.engine)) {
    case chip::ChipFaults::Issue::kGoesOn:
      return false;
    case chip::ChipFaults::Issue::kHangs:
      // It stays RUNNING and has no next event: nothing it does will ever be seen again.
      s.issue_at = kNever;
      return true;
    case chip::ChipFaults::Issue::kParityError:
      to_.faults.raise(s, make_fault(NEURON_FAULT_NC_UE, state_.core), s.pc, i.debug, i.opcode,
                       now);
      return true;
  }
  return false;
}

Fault InstructionIssue::execute(Issue& issue) {
  switch (issue.i.group()) {
    case 0:
    case 7:
      return to_.control_flow.execute_control(issue);
    case 1:
      return to_.control_flow.execute_flow(issue);
    case 6:
      return to_.dma_issue.execute(issue);
    default:
      if (issue.entry.meets) return to_.meeting.receive(issue);
      if (issue.i.opcode == NEURON_OP_CUSTOM_OPERATOR) return to_.operators.execute(issue);
      return to_.datapath.execute(issue);
  }
}

void InstructionIssue::issue(Sequencer& s, ModelTime now) {
  if (!s.active()) {
    s.issue_at = kNever;
    return;
  }
  Fault fault;
  CachedInstruction* entry = s.fetch(state_.bus, state_.limits, fault);
  if (entry == nullptr) [[unlikely]] {
    return to_.faults.raise(s, fault, s.pc, 0, 0, now);
  }
  s.current = entry;
  const isa::Instruction* i = &entry->decoded;
  const auto violated = [&](const isa::Violation& v) {
    Fault f = make_fault(static_cast<neuron_fault>(v.code), 0, v.value, v.offset);
    f.rule = v.rule;
    to_.faults.raise(s, f, s.pc, i->debug, i->opcode, now);
  };
  if (entry->encoding) [[unlikely]] {
    return violated(entry->encoding);
  }
  if ((i->brk || i->opcode == NEURON_OP_BRK || s.any_breakpoint) && !s.ignore_break) [[unlikely]] {
    if (meets_breakpoint(s, *i)) return state_.stop(s, NEURON_STATE_BREAK);
  }
  const bool resumed = state_.resumes(s);  // its waits have held
  if (!resumed && must_drain(s, *i, now)) return;
  if (entry->meets && !s.met && must_arrive(s, *entry, now)) return;
  if (entry->waits && !resumed && !to_.waits.all_hold(s, *i)) {
    s.dma_wait = false;
    return to_.waits.begin(s, *entry, now);
  }
  if (entry->waits && !resumed && to_.waits.must_wait_for_arrival(s, *entry, now)) {
    s.dma_wait = false;
    return;
  }
  if (to_.strict.observes(s)) {
    to_.strict.acquire_waits(s, *i);
    if (i->drain || i->opcode == NEURON_OP_DRAIN) to_.strict.drained(s, to_.dma.active_queues());
  }
  if (entry->updates && s.pending_count + 2 > Sequencer::kMaxPending) {
    s.issue_at = s.pending[0].time;  // the queue of updates is full
    return;
  }
  if (s.state == NEURON_STATE_WAITING) {
    s.waited += now - s.wait_since;
    if (traces(s, *i)) [[unlikely]] {
      trace_wait(s, *i, now);
    }
    s.state = NEURON_STATE_RUNNING;
    s.dma_wait = false;
    to_.waits.end(s, *i);
  }

  if (state_.injected.armed() && meets_injected_fault(s, *entry, now)) [[unlikely]] {
    return;
  }
  if (entry->dynamic) {
    if ((fault = substitute_registers(s, entry->decoded, substituted_))) {
      return to_.faults.raise(s, fault, s.pc, i->debug, i->opcode, now);
    }
    i = &substituted_;
    if (const isa::Violation v = isa::check_operands(*i, s.engine, state_.limits)) {
      return violated(v);
    }
  } else if (entry->operands) [[unlikely]] {
    return violated(entry->operands);
  }

  Issue issued{.s = s,
               .entry = *entry,
               .i = *i,
               .now = now,
               .cost = entry->cost,
               .pc = s.pc,
               .next_pc = s.pc + 1};
  // In its place: a cost of its own, of which a part is written, would be copied behind that.
  if (entry->dynamic) issued.cost = cost_of(*i, s.engine, state_.limits.generation);
  // Registers of updates are read before the instruction changes them.
  uint32_t operands[2];
  for (unsigned u = 0; u < 2; ++u) {
    const isa::Update& update = i->update[u];
    operands[u] = update.is_register ? s.registers[update.value % NEURON_REGISTERS] : update.value;
  }
  if (to_.strict.is_on() && i->group() >= 2 && !resumed && !entry->meets) {
    if (const Fault raised = to_.strict.check(s, *i)) {
      return to_.faults.raise(s, raised, s.pc, i->debug, i->opcode, now);
    }
  }
  if (issued.cost.interval >= kLongInstruction) [[unlikely]] {
    state_.post_records();
  }
  const bool visible = s.last_complete <= now;  // all that was written before
  // A value of its own: assigning it would copy bytes that were stored one by one, which stalls.
  if (const Fault raised = execute(issued)) {
    return to_.faults.raise(s, raised, s.pc, i->debug, i->opcode, now);
  }
  if (to_.strict.is_on()) [[likely]] {
    if (const Fault raised = to_.strict.take_fault()) {
      return to_.faults.raise(s, raised, s.pc, i->debug, i->opcode, now);
    }
  }
  if (issued.again) return;
  retire(issued);
  if (!entry->updates || s.state == NEURON_STATE_FAULT || s.state == NEURON_STATE_IDLE) return;
  for (unsigned u = 0; u < 2; ++u) {
    const isa::Update& update = i->update[u];
    if (update.operation == NEURON_UPDATE_NONE) continue;
    PendingUpdate pending{update.at_complete ? issued.complete : issued.end,
                          update,
                          operands[u],
                          issued.pc,
                          i->debug,
                          i->opcode};
    if (to_.strict.observes(s)) {
      pending.tick =
          state_.strict->tick(s.engine, update.at_complete || (!issued.cost.datapath && visible));
    }
    if (pending.time <= now) {
      if (!to_.updates.apply(s, pending, now)) return;
    } else {
      s.add_pending(pending);
    }
  }
}

ModelTime InstructionIssue::multiplication_time(const Issue& issued, ModelTime begin) {
  if (!issued.s.array.used()) current_limit_.restart();
  return current_limit_.stretch(begin, issued.cost.interval, issued.i.src0.parts);
}

// Where the Tensor engine transposes in the background: returns when the instruction begins, which
// is no earlier than `array` in the array, and sets when it ends.
ModelTime InstructionIssue::begin_beside_array(Issue& issued, ModelTime array) {
  Sequencer& s = issued.s;
  const WrittenRange to = range_of(state_.memory, issued.i.dst);
  const bool transposes = issued.i.opcode == NEURON_OP_TRANSPOSE;
  const BackgroundLane::Place place = s.background.place(transposes, issued.now, array, to);
  issued.end = place.begin + multiplication_time(issued, place.begin);
  s.background.occupy(place, issued.end, to);
  if (!place.background) s.array.occupy(issued.i.pe, issued.end);
  return place.begin;
}

// Times, accounting and the program counter of an instruction that was executed.
void InstructionIssue::retire(Issue& issued) {
  Sequencer& s = issued.s;
  const Cost& cost = issued.cost;
  const ModelTime now = issued.now;
  ModelTime next;
  issued.begin = now;
  if (!cost.datapath) {
    next = now + cost.interval;
    issued.end = now;  // control instructions have no inputs to consume
    issued.complete = next;
    s.occupy(now, next);
  } else if (loads_weights(issued.i)) {
    const ModelTime begin = issued.begin = std::max(now, s.load_free);
    s.load_free = issued.end = issued.complete = begin + cost.interval;
    next = begin + state_.timing.pe_issue;
    s.occupy(begin, s.load_free);
  } else if (s.engine == NEURON_ENGINE_PE) {
    ModelTime begin = std::max(now, s.array.free_from(issued.i.pe));
    if (issued.i.pe.swap) begin = std::max(begin, s.load_free);
    if (state_.timing.background_transpose) {
      begin = begin_beside_array(issued, begin);
    } else {
      issued.end = begin + multiplication_time(issued, begin);
      s.array.occupy(issued.i.pe, issued.end);
    }
    issued.begin = begin;
    issued.complete = issued.end + cost.latency;
    next = begin + state_.timing.pe_issue;
    s.occupy(begin, issued.complete);
  } else {
    next = issued.end = now + cost.interval + issued.gap;
    issued.complete = issued.end + cost.latency;
    s.occupy(now, issued.complete);
  }
  // Results of an engine become visible in program order.
  issued.complete = std::max(issued.complete, s.last_complete);
  s.last_complete = issued.complete;
  ++s.retired;
  s.ignore_break = s.met = false;
  if (cost.datapath) {
    state_.scheduler.spend(static_cast<uint32_t>(std::min<ModelTime>(cost.interval >> 18, 1024)));
  }
  if (traces(s, issued.i)) trace(issued);
  if (s.state == NEURON_STATE_IDLE || s.state == NEURON_STATE_FAULT) return;  // by its own write
  if (!issued.stays) ControlFlow::advance(s, issued.next_pc);
  if (s.state != NEURON_STATE_RUNNING) return;
  s.issue_at = next;
  if (s.steps_left != 0 && --s.steps_left == 0) state_.stop(s, NEURON_STATE_STOPPED);
}

// Tells what an instruction has waited for: of two waits the one that held last.
void InstructionIssue::trace_wait(Sequencer& s, const isa::Instruction& i, ModelTime now) {
  if (now == s.wait_since || !s.place.notifications->enabled(s.place.trace_slot)) return;
  const ModelTime waited = now - s.wait_since;
  chip::Notification entry;
  entry.kind = NEURON_NK_WAIT;
  entry.engine = static_cast<uint8_t>(s.engine);
  entry.opcode = i.opcode;
  entry.time = now;
  entry.pc = s.pc;
  entry.debug = i.debug;
  entry.info = {s.dma_wait ? NEURON_WAITED_FOR_DMA : Waits::last_cell(s, i),
                static_cast<uint32_t>(waited), static_cast<uint32_t>(waited >> 32)};
  state_.record_trace(s, entry);
}

void InstructionIssue::trace(const Issue& issued) {
  Sequencer& s = issued.s;
  if (!s.place.notifications->enabled(s.place.trace_slot)) return;
  chip::Notification entry;
  entry.kind = NEURON_NK_TRACE;
  entry.engine = static_cast<uint8_t>(s.engine);
  entry.opcode = issued.i.opcode;
  entry.time = issued.complete;
  entry.pc = issued.pc;
  entry.debug = issued.i.debug;
  const ModelTime waited = s.waited - s.traced_wait;
  s.traced_wait = s.waited;
  entry.info = {word_of(issued.complete - issued.begin), word_of(waited),
                issued.entry.dynamic ? traced_shape_of(issued.i, s.engine, state_.limits.generation)
                                     : issued.entry.traced_shape};
  state_.record_trace(s, entry);
}

}  // namespace neuron::core
