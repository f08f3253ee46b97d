// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/control_flow.h"

#include "driver/base/abandonment.h"
#include "driver/emulator/chip/fabric.h"
#include "driver/emulator/neuroncore/engines/integer_alu.h"

namespace neuron::core {
namespace {

// Registers have been substituted, so the scalar is an immediate, or a pointer, which control
// instructions refuse.
bool word_of(const isa::Scalar& scalar, uint32_t& value) {
  value = scalar.present() ? scalar.value : 0;
  return scalar.kind != NEURON_SCALAR_POINTER;
}

Fault pointer_refused() {
  return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, NEURON_SCALAR_POINTER, NEURON_INST_SCALAR0 + 4);
}

Fault divided_by_zero(bool immediate) {
  return make_fault(NEURON_FAULT_DIVIDE, 0, 0, immediate ? NEURON_INST_SCALAR0 : NEURON_INST_OP);
}

bool compare(unsigned condition, bool is_unsigned, uint32_t a, uint32_t b) {
  const bool less = is_unsigned ? a < b : static_cast<int32_t>(a) < static_cast<int32_t>(b);
  switch (condition) {
    case NEURON_BRANCH_ALWAYS:
      return true;
    case NEURON_BRANCH_EQ:
      return a == b;
    case NEURON_BRANCH_NE:
      return a != b;
    case NEURON_BRANCH_LT:
      return less;
    case NEURON_BRANCH_LE:
      return less || a == b;
    case NEURON_BRANCH_GT:
      return !less && a != b;
    default:
      return !less;
  }
}

}  // namespace

Fault ControlFlow::execute_control(Issue& issue) {
  Sequencer& s = issue.s;
  uint32_t value0;
  uint32_t value1;
  if (!word_of(issue.i.scalar0, value0) || !word_of(issue.i.scalar1, value1)) {
    return pointer_refused();
  }
  switch (issue.i.opcode) {
    case NEURON_OP_HALT:
      state_.stop(s, NEURON_STATE_HALTED);
      issue.stays = true;
      return {};
    case NEURON_OP_WRITE:
    case NEURON_OP_CC_TRIGGER:
      return store_words(issue, value0);
    case NEURON_OP_NOTIFY: {
      chip::Notification entry;
      entry.kind = NEURON_NK_NOTIFY;
      entry.engine = static_cast<uint8_t>(s.engine);
      entry.opcode = issue.i.opcode;
      entry.time = issue.now;
      entry.pc = issue.pc;
      entry.debug = issue.i.debug;
      entry.info = {value0, value1, 0};
      s.place.notifications->post(NEURON_NQ_SLOT_NOTIFY, entry);
      return {};
    }
    case NEURON_OP_COMPLETE:
      return complete(issue, value0);
    case NEURON_OP_MODE:
      s.mode = (s.mode & ~value1) | (value0 & value1 & 0xFF);
      return {};
    default:
      // nop, event, drain and brk have waits and updates only. `order` needs no work: doorbells
      // reach their queues in issue order here.
      return {};
  }
}

Fault ControlFlow::store_words(Issue& issue, uint32_t value) {
  const isa::AddressBody& body = issue.i.address;
  const chip::Access access = state_.access_of(issue.s, issue.now);
  const uint64_t set_alias = state_.window + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET;
  uint64_t address = body.addr;
  strict_.release_memory(issue.s, issue.now);
  uint32_t steps = 0;
  for (uint32_t n = 0; n < body.count; ++n, address += static_cast<int64_t>(body.stride)) {
    base::Abandonment::look_now_and_then(steps);
    // Most of the stores of a launch set own semaphores to the value that they already have.
    if (address - set_alias < 4 * NEURON_SEMAPHORES && address % 4 == 0 &&
        state_.semaphores.semaphore(static_cast<unsigned>((address - set_alias) / 4)) == value) {
      continue;
    }
    if (Fault raised = strict_.stores(issue.s, address, issue.now)) return raised;
    if (!state_.bus.write32(address, value, access)) return bus_fault(state_.bus, address);
    if (!issue.s.active()) return {};  // the store stopped this sequencer
  }
  return {};
}

Fault ControlFlow::execute_flow(Issue& issue) {
  Sequencer& s = issue.s;
  const isa::FlowOp& flow = issue.i.flow;
  uint32_t scalar;
  if (!word_of(issue.i.scalar0, scalar)) return pointer_refused();
  uint32_t& rd = s.registers[flow.rd % NEURON_REGISTERS];
  const uint32_t ra = s.registers[flow.ra % NEURON_REGISTERS];
  const uint32_t b = flow.imm ? scalar : s.registers[flow.rb % NEURON_REGISTERS];
  switch (issue.i.opcode) {
    case NEURON_OP_MOV:
      rd = scalar;
      return {};
    case NEURON_OP_ALU:
      return register_alu(flow.alu, flow.is_unsigned, ra, b, rd) ? Fault{}
                                                                 : divided_by_zero(flow.imm);
    case NEURON_OP_LOAD:
      return load(issue, rd);
    case NEURON_OP_STORE: {
      const chip::Access access = state_.access_of(s, issue.now);
      strict_.release_memory(s, issue.now);
      if (Fault raised = strict_.stores(s, issue.i.address.addr, issue.now)) return raised;
      return state_.bus.write32(issue.i.address.addr, ra, access)
                 ? Fault{}
                 : bus_fault(state_.bus, issue.i.address.addr);
    }
    case NEURON_OP_BRANCH:
      return compare(flow.condition, flow.is_unsigned, ra, b) ? jump(issue, true) : Fault{};
    case NEURON_OP_LOOP:
      return enter_loop(issue);
    case NEURON_OP_CALL:
      if (s.call_depth == NEURON_CALL_LEVELS) {
        return make_fault(NEURON_FAULT_LOOP_DEPTH, 0, s.call_depth);
      }
      if (Fault fault = jump(issue, false)) return fault;
      s.calls[s.call_depth++] = {issue.pc + 1, s.loop_base};
      s.loop_base = s.loop_depth;
      return {};
    case NEURON_OP_RET:
      if (s.call_depth == 0) return make_fault(NEURON_FAULT_LOOP_DEPTH);
      s.loop_depth = s.loop_base;  // drops loops that the function has not finished
      s.loop_base = static_cast<uint8_t>(s.calls[--s.call_depth].loop_base);
      issue.next_pc = s.calls[s.call_depth].pc;
      return {};
    case NEURON_OP_SEM:
      if (scalar >= NEURON_SEMAPHORES) {
        return make_fault(NEURON_FAULT_OPERAND_RANGE, 0, scalar, NEURON_INST_SCALAR0);
      }
      rd = s.place.semaphores->semaphore(scalar);
      if (strict_.observes(s)) {
        state_.strict->clocks().acquire(s.engine, scalar);
        state_.strict->clocks().acquire_units(s.engine, scalar, UINT64_MAX);
      }
      return {};
    case NEURON_OP_TIME:
      rd = static_cast<uint32_t>(issue.now);
      s.registers[(flow.rd + 1u) % NEURON_REGISTERS] = static_cast<uint32_t>(issue.now >> 32);
      return {};
    default:
      return identify(issue, scalar);
  }
}

Fault ControlFlow::load(Issue& issue, uint32_t& rd) {
  const uint64_t address = issue.i.address.addr;
  const chip::Access access = state_.access_of(issue.s, issue.now);
  uint32_t word;
  if (!state_.bus.read32(address, word, access)) return bus_fault(state_.bus, address);
  strict_.acquire_memory(issue.s);
  strict_.loads(issue.s, address);
  if (state_.bus.layout().is_routed(address)) {
    issue.cost.interval += 2 * state_.bus.fabric()->latency(state_.bus.node(), address);
  }
  rd = word;
  return {};
}

// Sets the next program counter to the flow target. A branch drops the loops that it leaves.
Fault ControlFlow::jump(Issue& issue, bool leaves_loops) {
  Sequencer& s = issue.s;
  const int64_t target = int64_t{issue.pc} + issue.i.flow.target;
  if (target < 0 || target >= s.prog_count) {
    return make_fault(NEURON_FAULT_PC_RANGE, 0, static_cast<uint32_t>(target), NEURON_INST_OP + 4);
  }
  issue.next_pc = static_cast<uint32_t>(target);
  while (leaves_loops && s.loop_depth > s.loop_base) {
    const LoopFrame& loop = s.loops[s.loop_depth - 1];
    if (issue.next_pc >= loop.first && issue.next_pc < loop.end) break;
    --s.loop_depth;
  }
  return check_loop_entry(issue);
}

// A jump must not enter a loop body that is not being repeated: the end of that body would not
// loop.
Fault ControlFlow::check_loop_entry(Issue& issue) {
  Sequencer& s = issue.s;
  const uint32_t body = s.innermost_loop(state_.bus, issue.next_pc, issue.entry);
  if (body == 0) return {};
  for (unsigned level = s.loop_depth; level > 0; --level) {
    if (s.loops[level - 1].first == body) return {};
  }
  return make_fault(NEURON_FAULT_LOOP_NEST, 0, issue.next_pc, NEURON_INST_OP + 4);
}

Fault ControlFlow::enter_loop(Issue& issue) {
  Sequencer& s = issue.s;
  const isa::LoopBody& body = issue.i.loop;
  uint32_t limit;
  if (!word_of(issue.i.scalar1, limit)) return pointer_refused();
  if (body.step <= 0) {
    return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, static_cast<uint32_t>(body.step),
                      NEURON_LOOP_STEP);
  }
  const uint64_t end = uint64_t{issue.pc} + 1 + body.length;
  if (body.length == 0 || end > s.prog_count) {
    return make_fault(NEURON_FAULT_PC_RANGE, 0, body.length, NEURON_LOOP_LENGTH);
  }
  if (s.loop_depth > s.loop_base && end > s.loops[s.loop_depth - 1].end) {
    return make_fault(NEURON_FAULT_LOOP_NEST, 0, s.loops[s.loop_depth - 1].end, NEURON_LOOP_LENGTH);
  }
  const uint32_t first_value = issue.i.scalar0.present() ? issue.i.scalar0.value : 0;
  const bool runs = static_cast<int32_t>(first_value) < static_cast<int32_t>(limit);
  if (runs && s.loop_depth == NEURON_LOOP_LEVELS) {
    return make_fault(NEURON_FAULT_LOOP_DEPTH, 0, s.loop_depth);
  }
  s.registers[issue.i.flow.rd % NEURON_REGISTERS] = first_value;
  if (!runs) {
    issue.next_pc = static_cast<uint32_t>(end);
    return {};
  }
  s.loops[s.loop_depth++] = {issue.pc + 1, static_cast<uint32_t>(end), static_cast<int32_t>(limit),
                             body.step, static_cast<uint8_t>(issue.i.flow.rd % NEURON_REGISTERS)};
  return {};
}

Fault ControlFlow::identify(Issue& issue, uint32_t what) {
  uint32_t& rd = issue.s.registers[issue.i.flow.rd % NEURON_REGISTERS];
  switch (what) {
    case 0:
      rd = state_.core;
      return {};
    case 1:
      rd = state_.chip;
      return {};
    case 2:
      rd = 0;  // a core that runs alone is rank 0
      return {};
    case 3:
      rd = state_.limits.generation;
      return {};
    default:
      return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, what, NEURON_INST_SCALAR0);
  }
}

void ControlFlow::advance(Sequencer& s, uint32_t next_pc) {
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

Fault ControlFlow::complete(Issue& issue, uint32_t status) {
  Sequencer& s = issue.s;
  return execution_.complete(s, status, issue.pc, issue.i.debug, issue.now)
             ? Fault{}
             : bus_fault(state_.bus, s.done_address());
}

}  // namespace neuron::core
