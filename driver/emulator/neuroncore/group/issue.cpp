// SPDX-License-Identifier: Apache-2.0
// The life of one instruction: fetch, break, drain, wait, substitute, check, execute, update.
#include <algorithm>

#include "driver/emulator/neuroncore/group/execution_group.h"

namespace neuron::core {
namespace {

uint32_t substituted_value(const isa::Binding& binding, uint32_t old, uint32_t value,
                           unsigned element_bytes) {
  switch (binding.mode) {
    case NEURON_BIND_REPLACE:
      return value;
    case NEURON_BIND_ADD:
      return old + value;
    default:
      return old + value * element_bytes;
  }
}

// A field narrower than a register must hold the value that was asked for, or the instruction would
// run with another one.
template <class T>
bool assign(T& field, uint32_t value) {
  field = static_cast<T>(value);
  return static_cast<uint32_t>(field) == value;
}

Fault illegal_binding(unsigned slot) {
  return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, 0,
                    static_cast<uint8_t>(NEURON_INST_BIND + 2 * slot));
}

Fault bind_operand(isa::Operand& operand, const isa::Binding& b, uint32_t value, unsigned slot) {
  const unsigned bytes = isa::dtype_bytes(operand.dtype);
  bool fits = true;
  if (b.item == NEURON_BIND_BASE) {
    operand.base = substituted_value(b, operand.base, value, bytes);
  } else if (b.item == NEURON_BIND_PARTS) {
    fits = assign(operand.parts, substituted_value(b, operand.parts, value, 1));
  } else if (b.item == NEURON_BIND_START) {
    fits = assign(operand.start, substituted_value(b, operand.start, value, 1));
  } else if (b.item >= NEURON_BIND_SIZE0 && b.item < NEURON_BIND_STEP0) {
    uint16_t& size = operand.size[b.item - NEURON_BIND_SIZE0];
    fits = assign(size, substituted_value(b, size, value, 1));
  } else if (b.item >= NEURON_BIND_STEP0 && b.item < NEURON_BIND_STEP0 + 4) {
    int16_t& step = operand.step[b.item - NEURON_BIND_STEP0];
    const uint32_t old = static_cast<uint32_t>(static_cast<int32_t>(step));
    fits = assign(step, substituted_value(b, old, value, 1));
  } else {
    return illegal_binding(slot);
  }
  return fits ? Fault{}
              : make_fault(NEURON_FAULT_OPERAND_RANGE, 0, value,
                           static_cast<uint8_t>(NEURON_INST_BIND + 2 * slot));
}

// Device addresses and patterns of instructions that make descriptors; operands in SBUF are bound
// as everywhere. `done` if the binding was one of these.
Fault bind_dma(isa::Instruction& i, const isa::Binding& b, uint32_t value, uint32_t high,
               unsigned slot, bool& done) {
  const bool generates = i.opcode == NEURON_OP_DMA_GENERATE;
  if (generates ? b.operand > 1 : b.operand != 2) {
    return generates ? illegal_binding(slot) : Fault{};
  }
  done = true;
  if (b.item == NEURON_BIND_BASE) {
    uint64_t& address = !generates       ? i.indirect.base
                        : b.operand == 0 ? i.generate.to
                                         : i.generate.from;
    const bool of_destination = generates ? b.operand == 0 : i.opcode == NEURON_OP_DMA_SCATTER;
    const unsigned dtype = of_destination ? i.dma.to_type : i.dma.from_type;
    if (b.mode == NEURON_BIND_ADD) {
      address += value;
    } else if (b.mode == NEURON_BIND_ADD_ELEMENTS) {
      address += uint64_t{value} * isa::dtype_bytes(dtype);
    } else if (b.mode == NEURON_BIND_ADD_PAIR) {
      address += value | uint64_t{high} << 32;
    } else {
      return illegal_binding(slot);
    }
    return {};
  }
  const bool size = b.item >= NEURON_BIND_SIZE0 && b.item < NEURON_BIND_STEP0;
  const bool step = b.item >= NEURON_BIND_STEP0 && b.item < NEURON_BIND_STEP0 + 4;
  if (!generates || (!size && !step) ||
      (b.mode != NEURON_BIND_REPLACE && b.mode != NEURON_BIND_ADD)) {
    return illegal_binding(slot);
  }
  auto& dims = b.operand == 0 ? i.generate.to_dims : i.generate.from_dims;
  if (size) {
    uint32_t& field = dims[b.item - NEURON_BIND_SIZE0].size;
    field = substituted_value(b, field, value, 1);
  } else {
    int32_t& field = dims[b.item - NEURON_BIND_STEP0].step;
    field = static_cast<int32_t>(substituted_value(b, static_cast<uint32_t>(field), value, 1));
  }
  return {};
}

}  // namespace

bool ExecutionGroup::wait_holds(const Sequencer& s, const isa::Wait& wait) const {
  if (wait.condition == NEURON_WAIT_NONE) return true;
  const auto value = static_cast<int32_t>(s.place.semaphores->value(wait.event, wait.index));
  const int32_t wanted = wait.is_register
                             ? static_cast<int32_t>(s.registers[wait.value % NEURON_REGISTERS])
                             : static_cast<int32_t>(wait.value);
  switch (wait.condition) {
    case NEURON_WAIT_GE:
      return value >= wanted;
    case NEURON_WAIT_EQ:
      return value == wanted;
    case NEURON_WAIT_GT:
      return value > wanted;
    case NEURON_WAIT_LE:
      return value <= wanted;
    case NEURON_WAIT_LT:
      return value < wanted;
    default:
      return value != wanted;
  }
}

bool ExecutionGroup::waits_hold(const Sequencer& s, const isa::Instruction& i) const {
  return wait_holds(s, i.wait[0]) && wait_holds(s, i.wait[1]);
}

// From when a wait that holds has held, by the time of whoever made it hold.
ModelTime ExecutionGroup::held_from(const Sequencer& s, const isa::Wait& wait) const {
  if (wait.condition == NEURON_WAIT_NONE) return 0;
  const int32_t wanted = wait.is_register
                             ? static_cast<int32_t>(s.registers[wait.value % NEURON_REGISTERS])
                             : static_cast<int32_t>(wait.value);
  return s.place.arrivals->held_from(wait, s.place.semaphores->value(wait.event, wait.index),
                                     wanted);
}

// The waits hold, but only because the host has brought a peer's update before its time.
bool ExecutionGroup::must_wait_for_arrival(Sequencer& s, const CachedInstruction& entry,
                                           ModelTime now) {
  ModelTime held = 0;
  for (const isa::Wait& wait : entry.decoded.wait) held = std::max(held, held_from(s, wait));
  if (held == 0 || held < now) return false;
  if (s.state != NEURON_STATE_WAITING) {
    s.state = NEURON_STATE_WAITING;
    s.wait_since = now;
  }
  s.issue_at = held + kSemaphoreLatency;
  return true;
}

void ExecutionGroup::block(Sequencer& s, CachedInstruction& entry, ModelTime now) {
  if (s.state != NEURON_STATE_WAITING) {
    s.state = NEURON_STATE_WAITING;
    s.wait_since = now;
  }
  s.issue_at = kNever;
  for (unsigned n = 0; n < s.held_from.size(); ++n) {
    const isa::Wait& wait = entry.decoded.wait[n];
    s.held_from[n] = wait_holds(s, wait) ? held_from(s, wait) : 0;
    if (wait.condition == NEURON_WAIT_NONE || s.is_cc()) continue;
    auto& waiters = wait.event ? event_waiters_[wait.index] : semaphore_waiters_[wait.index];
    waiters |= static_cast<uint8_t>(1u << s.engine);
  }
}

// True if the instruction has to stay until the engine's earlier work, its DMA included, is done.
bool ExecutionGroup::must_drain(Sequencer& s, const isa::Instruction& i, ModelTime now) {
  if (!i.drain && i.opcode != NEURON_OP_DRAIN && i.opcode != NEURON_OP_COMPLETE) return false;
  if (s.last_complete > now || s.pending_count != 0) {
    s.issue_at = std::max(s.last_complete, s.pending_count != 0 ? s.pending[0].time : 0);
    return true;
  }
  if (dma_in_flight_[s.place.actor] == 0) return false;
  if (s.state != NEURON_STATE_WAITING) {
    s.state = NEURON_STATE_WAITING;
    s.wait_since = now;
  }
  s.dma_wait = true;
  dma_waiters_ |= static_cast<uint8_t>(1u << s.place.actor);
  s.issue_at = kNever;
  return true;
}

Fault ExecutionGroup::substitute(Sequencer& s, const isa::Instruction& from,
                                 isa::Instruction& to) const {
  to = from;
  for (isa::Scalar* scalar : {&to.scalar0, &to.scalar1}) {
    if (scalar->kind != NEURON_SCALAR_REGISTER) continue;
    scalar->value = s.registers[scalar->value % NEURON_REGISTERS];
    scalar->kind = NEURON_SCALAR_IMMEDIATE;
  }
  const bool has_address = to.opcode == NEURON_OP_WRITE || to.opcode == NEURON_OP_LOAD ||
                           to.opcode == NEURON_OP_STORE || to.opcode == NEURON_OP_CC_TRIGGER ||
                           to.opcode == NEURON_OP_LOAD_TABLE;
  for (unsigned slot = 0; slot < to.bind.size(); ++slot) {
    const isa::Binding& b = to.bind[slot];
    if (b.mode == NEURON_BIND_UNUSED) continue;
    const uint32_t value = s.registers[b.reg % NEURON_REGISTERS];
    if (has_address && b.operand == 0 && b.item == NEURON_BIND_BASE) {
      if (b.mode == NEURON_BIND_ADD) {
        to.address.addr += value;
      } else if (b.mode == NEURON_BIND_ADD_PAIR) {
        to.address.addr += value | uint64_t{s.registers[(b.reg + 1u) % NEURON_REGISTERS]} << 32;
      } else {
        return illegal_binding(slot);
      }
      continue;
    }
    if (to.opcode >= NEURON_OP_DMA_GENERATE && to.opcode <= NEURON_OP_DMA_SCATTER) {
      const uint32_t high = s.registers[(b.reg + 1u) % NEURON_REGISTERS];
      bool done = false;
      if (Fault fault = bind_dma(to, b, value, high, slot, done)) return fault;
      if (done) continue;
    }
    if (b.mode == NEURON_BIND_ADD_PAIR) return illegal_binding(slot);
    if (b.item == NEURON_BIND_SCALAR) {
      uint32_t& field = b.operand == 0   ? to.scalar0.value
                        : b.operand == 1 ? to.scalar1.value
                                         : to.vector.imm;
      const unsigned dtype = b.operand == 0   ? to.scalar0.dtype
                             : b.operand == 1 ? to.scalar1.dtype
                                              : to.dst.dtype;
      field = substituted_value(b, field, value, isa::dtype_bytes(dtype));
      continue;
    }
    isa::Operand* operands[] = {&to.dst, &to.src0, &to.src1};
    if (b.operand > 2 || !operands[b.operand]->present()) return illegal_binding(slot);
    if (Fault fault = bind_operand(*operands[b.operand], b, value, slot)) return fault;
  }
  return {};
}

void ExecutionGroup::issue(Sequencer& s, ModelTime now) {
  if (!s.active()) {
    s.issue_at = kNever;
    return;
  }
  Fault fault;
  CachedInstruction* entry = s.fetch(bus_, limits_, fault);
  if (entry == nullptr) [[unlikely]] {
    return raise(s, fault, s.pc, 0, 0, now);
  }
  s.current = entry;
  const isa::Instruction* i = &entry->decoded;
  const auto violated = [&](const isa::Violation& v) {
    Fault f = make_fault(static_cast<neuron_fault>(v.code), 0, v.value, v.offset);
    f.rule = v.rule;
    raise(s, f, s.pc, i->debug, i->opcode, now);
  };
  if (entry->encoding) [[unlikely]] {
    return violated(entry->encoding);
  }
  if ((i->brk || i->opcode == NEURON_OP_BRK || s.any_breakpoint) && !s.ignore_break) [[unlikely]] {
    bool hit = i->brk || i->opcode == NEURON_OP_BRK;
    for (const uint32_t b : s.breakpoints) hit |= (b >> 31) != 0 && (b & 0xFFFFFF) == s.pc;
    if (hit) return stop(s, NEURON_STATE_BREAK);
  }
  const bool resumed = generation_.active && resumes(s);  // its waits have held
  if (!resumed && must_drain(s, *i, now)) return;
  if (entry->waits && !resumed && !waits_hold(s, *i)) {
    s.dma_wait = false;
    return block(s, *entry, now);
  }
  if (entry->waits && !resumed && must_wait_for_arrival(s, *entry, now)) {
    s.dma_wait = false;
    return;
  }
  if (strict_ && !s.is_cc()) acquire_waits(s, *i);
  if (entry->updates && s.pending_count + 2 > Sequencer::kMaxPending) {
    s.issue_at = s.pending[0].time;  // the queue of updates is full
    return;
  }
  if (s.state == NEURON_STATE_WAITING) {
    s.waited += now - s.wait_since;
    s.state = NEURON_STATE_RUNNING;
    s.dma_wait = false;
    for (const isa::Wait& wait : i->wait) {
      if (s.is_cc()) break;
      auto& waiters = wait.event ? event_waiters_[wait.index] : semaphore_waiters_[wait.index];
      waiters &= static_cast<uint8_t>(~(1u << s.engine));
    }
  }

  if (injected_.armed() && meets_injected_fault(s, *entry, now)) [[unlikely]] {
    return;
  }
  Cost cost = entry->cost;
  if (entry->dynamic) {
    if ((fault = substitute(s, entry->decoded, substituted_))) {
      return raise(s, fault, s.pc, i->debug, i->opcode, now);
    }
    i = &substituted_;
    if (const isa::Violation v = isa::check_operands(*i, s.engine, limits_)) return violated(v);
    cost = cost_of(*i, s.engine, limits_.generation);
  } else if (entry->operands) [[unlikely]] {
    return violated(entry->operands);
  }

  Issue issued{
      .s = s, .entry = *entry, .i = *i, .now = now, .cost = cost, .pc = s.pc, .next_pc = s.pc + 1};
  // Registers of updates are read before the instruction changes them.
  uint32_t operands[2];
  for (unsigned u = 0; u < 2; ++u) {
    const isa::Update& update = i->update[u];
    operands[u] = update.is_register ? s.registers[update.value % NEURON_REGISTERS] : update.value;
  }
  if (strict_ && i->group() >= 2 && !resumed) {
    if (const Fault raised = check_accesses(s, *i)) {
      return raise(s, raised, s.pc, i->debug, i->opcode, now);
    }
  }
  const bool visible = s.last_complete <= now;  // all that was written before
  // A value of its own: assigning it would copy bytes that were stored one by one, which stalls.
  if (const Fault raised = execute(issued)) {
    return raise(s, raised, s.pc, i->debug, i->opcode, now);
  }
  if (strict_) [[likely]] {
    if (const Fault raised = strict_fault()) {
      return raise(s, raised, s.pc, i->debug, i->opcode, now);
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
    if (strict_ && !s.is_cc()) {
      pending.tick =
          strict_->tick(s.engine, update.at_complete || (!issued.cost.datapath && visible));
    }
    if (pending.time <= now) {
      if (!apply_update(s, pending, now)) return;
    } else {
      s.add_pending(pending);
    }
  }
}

// Times, accounting and the program counter of an instruction that was executed.
void ExecutionGroup::retire(Issue& issued) {
  Sequencer& s = issued.s;
  const Cost& cost = issued.cost;
  const ModelTime now = issued.now;
  ModelTime next;
  if (!cost.datapath) {
    next = now + cost.interval;
    issued.end = now;  // control instructions have no inputs to consume
    issued.complete = next;
    s.busy += cost.interval;
  } else if (issued.i.opcode == NEURON_OP_LDWEIGHTS) {
    const ModelTime begin = std::max(now, s.load_free);
    s.load_free = issued.end = issued.complete = begin + cost.interval;
    next = begin + pe_issue(limits_.generation);
    const ModelTime hidden_until = std::max(begin, s.array_free);
    if (s.load_free > hidden_until) s.busy += s.load_free - hidden_until;
  } else if (s.engine == NEURON_ENGINE_PE) {
    ModelTime begin = std::max(now, s.array_free);
    if (issued.i.pe.swap) begin = std::max(begin, s.load_free);
    s.array_free = issued.end = begin + cost.interval;
    issued.complete = issued.end + cost.latency;
    next = begin + pe_issue(limits_.generation);
    s.busy += cost.interval;
  } else {
    next = issued.end = now + cost.interval + issued.gap;
    issued.complete = issued.end + cost.latency;
    s.busy += cost.interval;
  }
  // Results of an engine become visible in program order.
  issued.complete = std::max(issued.complete, s.last_complete);
  s.last_complete = issued.complete;
  ++s.retired;
  s.ignore_break = false;
  if (cost.datapath)
    effort_ += static_cast<uint32_t>(std::min<ModelTime>(cost.interval >> 18, 1024));
  if (issued.i.trace || (s.mode & 3) == 2) trace(issued);
  if (s.state == NEURON_STATE_IDLE || s.state == NEURON_STATE_FAULT) return;  // by its own write
  if (!issued.stays) advance(s, issued.next_pc);
  if (s.state != NEURON_STATE_RUNNING) return;
  s.issue_at = next;
  if (s.steps_left != 0 && --s.steps_left == 0) stop(s, NEURON_STATE_STOPPED);
}

// The next program counter, and the ends of hardware loops.
void ExecutionGroup::advance(Sequencer& s, uint32_t next_pc) {
  while (s.loop_depth > s.loop_base && next_pc == s.loops[s.loop_depth - 1].end) {
    LoopFrame& loop = s.loops[s.loop_depth - 1];
    const uint32_t value = s.registers[loop.reg] + static_cast<uint32_t>(loop.step);
    s.registers[loop.reg] = value;
    if (static_cast<int32_t>(value) < loop.limit) {
      next_pc = loop.first;
      break;
    }
    --s.loop_depth;
  }
  s.pc = next_pc;
}

bool ExecutionGroup::apply_update(Sequencer& s, const PendingUpdate& update, ModelTime now) {
  const auto operation = static_cast<neuron_update_operation>(update.update.operation);
  const unsigned index = update.update.index;
  chip::SemaphoreChange change;
  const neuron_fault fault =
      s.place.semaphores->change_exclusive(operation, index, update.operand, &change);
  if (fault != NEURON_FAULT_NONE) [[unlikely]] {
    Fault refused = make_fault(fault, index | (change.event ? 256u : 0u), change.before);
    refused.detail = update.operand;
    raise(s, refused, update.pc, update.debug, update.opcode, now);
    return false;
  }
  s.place.arrivals->note(operation, ArrivalTimes::cell_of(change.event, index), update.operand,
                         change.before, false, now);
  if (strict_ && !s.is_cc()) {
    strict_->clocks().release(s.engine, update.tick,
                              index + (change.event ? NEURON_SEMAPHORES : 0));
  }
  if (s.place.notifications->enabled(NEURON_NQ_SLOT_SEMAPHORE)) [[unlikely]] {
    chip::Notification entry;
    entry.kind = NEURON_NK_SEMAPHORE;
    entry.engine = static_cast<uint8_t>(s.engine);
    entry.code = static_cast<uint8_t>(operation | (update.update.at_complete ? 8 : 0));
    entry.opcode = update.opcode;
    entry.time = now;
    entry.pc = update.pc;
    entry.debug = update.debug;
    entry.info = {index | (change.event ? 256u : 0u), change.after, change.before};
    s.place.notifications->post(NEURON_NQ_SLOT_SEMAPHORE, entry);
  }
  if (!change.event && !s.is_cc() && index == NEURON_SEM_LAUNCH && change.after < change.before) {
    begin_execution(s);
  }
  wake(s.is_cc() ? s.place.actor - kEngines + 1 : 0, change.event, index, now);
  return true;
}

void ExecutionGroup::trace(const Issue& issued) {
  Sequencer& s = issued.s;
  if (!s.place.notifications->enabled(s.place.trace_slot)) return;
  chip::Notification entry;
  entry.kind = NEURON_NK_TRACE;
  entry.engine = static_cast<uint8_t>(s.engine);
  entry.opcode = issued.i.opcode;
  entry.time = issued.complete;
  entry.pc = issued.pc;
  entry.debug = issued.i.debug;
  const uint64_t elements = issued.i.src0.present()  ? issued.i.src0.elements()
                            : issued.i.dst.present() ? issued.i.dst.elements()
                                                     : 0;
  const ModelTime waited = s.waited - s.traced_wait;
  s.traced_wait = s.waited;
  entry.info = {static_cast<uint32_t>(issued.complete - issued.now), static_cast<uint32_t>(waited),
                static_cast<uint32_t>(elements) << 8};
  if (issued.i.opcode == NEURON_OP_CC_ADVANCE) {
    entry.info[2] = issued.i.scalar0.value << 16 | (issued.i.scalar1.value & 0xFFFF);
  }
  if (!s.place.notifications->post(s.place.trace_slot, entry)) s.trace_dropped = true;
}

}  // namespace neuron::core
