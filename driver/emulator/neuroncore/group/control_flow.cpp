// SPDX-License-Identifier: Apache-2.0
// What instructions do: control and flow in the sequencer, doorbells of DMA, compute in the units.
#include <algorithm>

#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"
#include "driver/emulator/neuroncore/engines/integer_alu.h"
#include "driver/emulator/neuroncore/engines/scalar_engine.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/group/execution_group.h"

namespace neuron::core {
namespace {

// Registers were substituted; what is left is an immediate, or a pointer that control instructions
// cannot follow.
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

Fault bus_fault(const chip::Bus& bus, uint64_t address) {
  uint32_t id = 0;
  const neuron_fault code = bus.refusal(address, id);
  return make_fault(code, address, code == NEURON_FAULT_LINK ? id : 4);
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

WrittenRange range_of(CoreMemory& memory, const isa::Operand& operand) {
  const OperandView view(memory, operand);
  return {operand.space, operand.start, operand.start + operand.parts - 1u, view.begin(),
          view.end()};
}

bool overlaps(const WrittenRange& a, const WrittenRange& b) {
  return a.space == b.space && a.begin < b.end && b.begin < a.end &&
         a.first_partition <= b.last_partition && b.first_partition <= a.last_partition;
}

}  // namespace

Fault ExecutionGroup::execute(Issue& issue) {
  switch (issue.i.group()) {
    case 0:
      return execute_control(issue);
    case 1:
      return execute_flow(issue);
    case 6:
      return execute_dma(issue);
    case 7:
      return execute_control(issue);
    default:
      return execute_datapath(issue);
  }
}

Fault ExecutionGroup::execute_control(Issue& issue) {
  Sequencer& s = issue.s;
  uint32_t value0;
  uint32_t value1;
  if (!word_of(issue.i.scalar0, value0) || !word_of(issue.i.scalar1, value1)) {
    return pointer_refused();
  }
  switch (issue.i.opcode) {
    case NEURON_OP_HALT:
      stop(s, NEURON_STATE_HALTED);
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
      // nop, event, drain and brk have waits and updates only. `order` needs nothing: doorbells
      // reach their queues in issue order here.
      return {};
  }
}

Fault ExecutionGroup::store_words(Issue& issue, uint32_t value) {
  const isa::AddressBody& body = issue.i.address;
  const chip::Access access = access_of(issue.s, issue.now);
  const uint64_t set_alias = window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET;
  uint64_t address = body.addr;
  release_memory(issue.s, issue.now);
  for (uint32_t n = 0; n < body.count; ++n, address += static_cast<int64_t>(body.stride)) {
    // Setting own semaphores to the value they have is what every launch does most.
    if (address - set_alias < 4 * NEURON_SEMAPHORES && address % 4 == 0 &&
        semaphores_.semaphore(static_cast<unsigned>((address - set_alias) / 4)) == value) {
      continue;
    }
    if (!bus_.write32(address, value, access)) return bus_fault(bus_, address);
    if (!issue.s.active()) return {};  // it has stopped itself
  }
  return {};
}

Fault ExecutionGroup::execute_flow(Issue& issue) {
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
    case NEURON_OP_LOAD: {
      const chip::Access access = access_of(s, issue.now);
      uint32_t word;
      if (!bus_.read32(issue.i.address.addr, word, access))
        return bus_fault(bus_, issue.i.address.addr);
      if (strict_ && !s.is_cc()) strict_->clocks().acquire_memory(s.engine);
      if (bus_.layout().is_routed(issue.i.address.addr)) {
        issue.cost.interval += 2 * bus_.fabric()->latency(bus_.node(), issue.i.address.addr);
      }
      rd = word;
      return {};
    }
    case NEURON_OP_STORE: {
      const chip::Access access = access_of(s, issue.now);
      release_memory(s, issue.now);
      return bus_.write32(issue.i.address.addr, ra, access) ? Fault{}
                                                            : bus_fault(bus_, issue.i.address.addr);
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
      s.loop_depth = s.loop_base;  // loops that the function has not finished are dropped
      s.loop_base = s.calls[--s.call_depth].loop_base;
      issue.next_pc = s.calls[s.call_depth].pc;
      return {};
    case NEURON_OP_SEM:
      if (scalar >= NEURON_SEMAPHORES) {
        return make_fault(NEURON_FAULT_OPERAND_RANGE, 0, scalar, NEURON_INST_SCALAR0);
      }
      rd = s.place.semaphores->semaphore(scalar);
      if (strict_ && !s.is_cc()) strict_->clocks().acquire(s.engine, scalar);
      return {};
    case NEURON_OP_TIME:
      rd = static_cast<uint32_t>(issue.now);
      s.registers[(flow.rd + 1u) % NEURON_REGISTERS] = static_cast<uint32_t>(issue.now >> 32);
      return {};
    default:
      return identify(issue, scalar);
  }
}

// Sets the next program counter to the flow target. A branch drops the loops that it leaves.
Fault ExecutionGroup::jump(Issue& issue, bool leaves_loops) {
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

// A jump must not enter a loop body that is not being repeated: its end would not be one.
Fault ExecutionGroup::check_loop_entry(Issue& issue) {
  Sequencer& s = issue.s;
  const uint32_t body = s.innermost_loop(bus_, issue.next_pc, issue.entry);
  if (body == 0) return {};
  for (unsigned level = s.loop_depth; level > 0; --level) {
    if (s.loops[level - 1].first == body) return {};
  }
  return make_fault(NEURON_FAULT_LOOP_NEST, 0, issue.next_pc, NEURON_INST_OP + 4);
}

Fault ExecutionGroup::enter_loop(Issue& issue) {
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

Fault ExecutionGroup::identify(Issue& issue, uint32_t what) {
  uint32_t& rd = issue.s.registers[issue.i.flow.rd % NEURON_REGISTERS];
  switch (what) {
    case 0:
      rd = core_;
      return {};
    case 1:
      rd = chip_;
      return {};
    case 2:
      rd = 0;  // a core that runs alone is rank 0
      return {};
    case 3:
      rd = limits_.generation;
      return {};
    default:
      return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, what, NEURON_INST_SCALAR0);
  }
}

Fault ExecutionGroup::execute_dma(Issue& issue) {
  return issue.i.opcode == NEURON_OP_DMA_TRIGGER ? trigger_dma(issue) : generate_dma(issue);
}

Fault ExecutionGroup::trigger_dma(Issue& issue) {
  const isa::DmaTriggerBody& body = issue.i.trigger;
  const chip::Access access = access_of(issue.s, issue.now);
  // Destinations first, so that data finds its descriptors.
  for (const bool s2m : {true, false}) {
    const auto& counts = s2m ? body.s2m_count : body.m2s_count;
    const uint64_t base = s2m ? body.s2m : body.m2s;
    for (unsigned engine = 0; engine < counts.size(); ++engine) {
      if ((body.mask >> engine & 1) == 0 || counts[engine] == 0) continue;
      const uint64_t address = base + uint64_t{engine} * body.stride;
      if (!bus_.write32(address, counts[engine], access)) return bus_fault(bus_, address);
      if (!issue.s.active()) return {};  // the queue has refused and stopped the engine
    }
  }
  return {};
}

Fault ExecutionGroup::execute_datapath(Issue& issue) {
  Sequencer& s = issue.s;
  const isa::Instruction& i = issue.i;
  UnitContext& unit = units_[s.engine];
  uint8_t at = NEURON_INST_DST;
  for (const isa::Operand* operand : {&i.dst, &i.src0, &i.src1}) {
    if (operand->present() && operand->elements() > kMaxElements) {
      return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0,
                        static_cast<uint32_t>(std::min<uint64_t>(operand->elements(), 0xFFFFFFFF)),
                        at + 8);
    }
    at += NEURON_OPERAND_BYTES;
  }
  const unsigned rounding = i.rounding != 0 ? i.rounding : s.mode >> 2 & 3;
  const bool stochastic = rounding == 2 || (rounding == 0 && (core_mode_ & 1) != 0);
  unit.rounding = stochastic ? numerics::Rounding::kStochastic : numerics::Rounding::kNearestEven;
  unit.subnormals = (core_mode_ & 2) != 0 || (s.mode & 0x10) != 0 ? numerics::Subnormals::kFlush
                                                                  : numerics::Subnormals::kKeep;
  unit.saturate = (core_mode_ & 4) != 0;
  // Strict mode has looked at every byte already, and names who wrote it.
  unit.strict = strict_ != nullptr;
  unit.strict_psum =
      !unit.strict && ((core_mode_ & NEURON_CORE_MODE_STRICT_PSUM) != 0 || (s.mode & 0x20) != 0);
  unit.check_nan = i.nan || (s.mode & 0x40) != 0;
  unit.seed = seed_;
  unit.saw_nan = false;
  unit.outside_domain = 0;

  if (issue.cost.dependent != 0) {
    for (const isa::Operand* source : {&i.src0, &i.src1}) {
      if (source->present() && overlaps(range_of(memory_, *source), s.written)) {
        issue.gap = issue.cost.dependent;
      }
    }
    if (i.dst.present()) s.written = range_of(memory_, i.dst);
  }
  Fault fault;
  switch (i.group()) {
    case 2:
      fault = tensor_engine_.execute(unit, i);
      break;
    case 4:
      fault = i.opcode == NEURON_OP_LOAD_TABLE
                  ? execute_load_table(unit, i, bus_, access_of(s, issue.now))
                  : execute_activate(unit, i);
      break;
    case 5:
      fault = execute_pool(unit, i);
      break;
    default:
      fault = execute_vector(unit, i);
      break;
  }
  if (fault.code == NEURON_FAULT_DOMAIN && strict_) strict_->name_producer(fault, i.src0);
  if (fault) return fault;
  if (i.dst.present() && stochastic) unit.random_position += i.dst.elements();
  if (unit.saw_nan) {
    warn(s, NEURON_FAULT_NUMERIC_NAN, issue.pc, i.debug, i.opcode, {}, issue.now);
  }
  if (unit.outside_domain != 0) {
    warn(s, NEURON_FAULT_DOMAIN, issue.pc, i.debug, i.opcode,
         {0, static_cast<uint32_t>(std::min<uint64_t>(unit.outside_domain, 0xFFFFFFFF)), 1},
         issue.now);
  }
  return {};
}

Fault ExecutionGroup::complete(Issue& issue, uint32_t status) {
  Sequencer& s = issue.s;
  const ModelTime now = issue.now;
  for (Sequencer& engine : sequencers_) {
    if (engine.is_cc() && engine.state == NEURON_STATE_IDLE) continue;
    if (!engine.place.notifications->enabled(engine.place.trace_slot)) continue;
    chip::Notification entry;
    entry.kind = NEURON_NK_COMPLETE;
    entry.engine = static_cast<uint8_t>(engine.engine);
    entry.opcode = issue.i.opcode;
    entry.time = now;
    entry.pc = engine.pc;
    entry.debug = issue.i.debug;
    entry.info = {static_cast<uint32_t>(engine.busy), static_cast<uint32_t>(engine.busy >> 32),
                  static_cast<uint32_t>(engine.retired - engine.launch_retired)};
    engine.place.notifications->post(engine.place.trace_slot, entry);
  }
  in_execution_ = false;
  time_limit_ = 0;
  add_work(now);
  if (!write_record(s, status, issue.pc, issue.i.debug, 0, now, true)) {
    return bus_fault(bus_, s.done_address());
  }
  return {};
}

}  // namespace neuron::core
