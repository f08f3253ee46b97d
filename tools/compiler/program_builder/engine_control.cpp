// SPDX-License-Identifier: Apache-2.0
// The control of an engine: where all engines meet, blocks, branches and functions.
#include <algorithm>

#include "hw/address_map.h"
#include "hw/neff_program.h"
#include "tools/compiler/program_builder/engine_assembler.h"

namespace neuron::builder {

using runtime::Result;

namespace {

constexpr unsigned kMaster = SemaphoreNumbers::kMaster;

// What the engines are told where the device decides on a round.
constexpr uint16_t kRound = 1, kEnd = 2;

using isa::immediate;

isa::Update write_at_end(uint8_t semaphore, uint16_t value) {
  return {semaphore, NEURON_UPDATE_WRITE, true, false, value};
}

isa::Wait at_least(uint8_t semaphore, uint16_t value) {
  return {semaphore, NEURON_WAIT_GE, false, false, value};
}

uint8_t opposite(uint8_t condition) {
  switch (condition) {
    case NEURON_BRANCH_EQ:
      return NEURON_BRANCH_NE;
    case NEURON_BRANCH_NE:
      return NEURON_BRANCH_EQ;
    case NEURON_BRANCH_LT:
      return NEURON_BRANCH_GE;
    case NEURON_BRANCH_GE:
      return NEURON_BRANCH_LT;
    case NEURON_BRANCH_LE:
      return NEURON_BRANCH_GT;
    default:
      return NEURON_BRANCH_LE;
  }
}

}  // namespace

Result<void> EngineAssembler::control(size_t at) {
  const Step& step = steps()[at];
  switch (step.control) {
    case Control::kNone:
      break;
    case Control::kWhile:
      return begin_while(step);
    case Control::kEndWhile:
      end_while(step);
      break;
    case Control::kMeet:
      meet(step);
      break;
    case Control::kLoop:
      return open_block(at);
    case Control::kEndLoop:
      close_loop();
      break;
    case Control::kBranch:
      open_branch(step);
      break;
    case Control::kElse:
      branches_.back().leave = here();
      append(branch(step.label, NEURON_BRANCH_ALWAYS, 0, 0, 0));
      point(branches_.back().skip, here());
      break;
    case Control::kEndBranch:
      end_branch();
      break;
    case Control::kCall: {
      const uint32_t function = block_of(step).function;
      calls_.push_back({here(), function});
      depths_[function] = std::max(depths_[function], depth_);
      append(make(NEURON_OP_CALL, step.label));
      break;
    }
    case Control::kFunction: {
      const Block& block = block_of(step);
      functions_[block.function] = {block.name, here(), here()};
      depth_ = depths_[block.function];
      break;
    }
    case Control::kEndFunction:
      append(make(NEURON_OP_RET, step.label));
      functions_[block_of(step).function].end = here();
      break;
  }
  return {};
}

// The counters of the loop's index, wherever in the body they are used.
Result<void> EngineAssembler::open_block(size_t at) {
  const Block& block = block_of(steps()[at]);
  OpenLoop loop;
  loop.index = block.index;
  loop.is_block = true;
  for (size_t i = at + 1; i < steps().size(); ++i) {
    const Step& step = steps()[i];
    if (step.control == Control::kEndLoop && step.block == steps()[at].block) break;
    for (const Advance& advance : step.advances) {
      if (advance.index == block.index) need(loop, {advance.first, advance.bytes});
    }
  }
  return open_loop(std::move(loop), rounds_of(block.rounds, block.count), steps()[at].label);
}

// The instruction that decides may be the first of a part that an engine has nothing else in.
void EngineAssembler::open_branch(const Step& step) {
  const Block& block = block_of(step);
  branches_.push_back({here(), 0});
  isa::Instruction skip =
      branch(step.label, opposite(block.condition), register_of_index(block.left), block.right, 0);
  skip.flow.is_unsigned = true;
  append(skip);
}

void EngineAssembler::end_branch() {
  const OpenBranch open = branches_.back();
  branches_.pop_back();
  point(open.leave != 0 ? open.leave : open.skip, here());
}

// All engines arrive when all their work is complete; then the master clears the semaphores of what
// ends here, and releases the others.
void EngineAssembler::meet(const Step& step) {
  isa::Instruction arrive = make(NEURON_OP_EVENT, step.label);
  arrive.drain = true;
  if (engine_ != kMaster) {
    write_waits(step, arrive, 2);
    arrive.update[0] = {semaphores_.arrivals(), NEURON_UPDATE_INC, true, false, 0};
    append(arrive);
    isa::Instruction go = make(NEURON_OP_EVENT, step.label);
    go.wait[0] = at_least(semaphores_.release(engine_), 1);
    go.update[0] = write_at_end(semaphores_.release(engine_), 0);
    append(go);
    return;
  }
  write_waits(step, arrive, 0);
  arrive.wait[0] = at_least(semaphores_.arrivals(), NEURON_CORE_ENGINES - 1);
  arrive.update[0] = write_at_end(semaphores_.arrivals(), 0);
  append(arrive);
  clear(semaphores_.cleared_by(schedule_.parts().meetings[step.block]), step.label);
  isa::Instruction go = make(NEURON_OP_EVENT, step.label);
  unsigned released = 0;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (e == kMaster) continue;
    go.update[released++] = write_at_end(semaphores_.release(e), 1);
    if (released < go.update.size()) continue;
    append(go);
    go = make(NEURON_OP_EVENT, step.label);
    released = 0;
  }
}

// Neighbouring semaphores by one instruction.
void EngineAssembler::clear(const std::vector<uint8_t>& semaphores, uint32_t debug) {
  for (size_t i = 0; i < semaphores.size();) {
    size_t end = i + 1;
    while (end < semaphores.size() && semaphores[end] == semaphores[end - 1] + 1) ++end;
    isa::Instruction write = make(NEURON_OP_WRITE, debug);
    write.address.stride = 4;
    write.address.count = static_cast<uint16_t>(end - i);
    write.scalar0 = immediate(0);
    relocate(
        NEURON_ADDRESS_ADDR, NEURON_RELOC_CORE, "self", 8,
        static_cast<int64_t>(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET + semaphores[i] * 4ull));
    append(write);
    i = end;
  }
}

// Begins a round, or ends the loop. When all have arrived, the master clears the semaphores that
// the body counts on, reads the condition, which nobody changes meanwhile, and tells the others: 1
// for a round, 2 for the end.
Result<void> EngineAssembler::begin_while(const Step& step) {
  NEURON_CHECK(check_depth());
  whiles_.push_back({here(), 0});
  isa::Instruction arrive = make(NEURON_OP_EVENT, step.label);
  arrive.drain = true;
  if (engine_ != kMaster) {
    arrive.update[0] = {semaphores_.arrivals(), NEURON_UPDATE_INC, true, false, 0};
    append(arrive);
    const uint8_t release = semaphores_.release(engine_);
    isa::Instruction wait = make(NEURON_OP_EVENT, step.label);
    wait.wait[0] = at_least(release, kRound);
    append(wait);
    isa::Instruction read = make(NEURON_OP_SEM, step.label);
    read.flow.rd = depth_;
    read.scalar0 = immediate(release);
    append(read);
    isa::Instruction taken = make(NEURON_OP_EVENT, step.label);
    taken.update[0] = write_at_end(release, 0);
    append(taken);
  } else {
    arrive.wait[0] = at_least(semaphores_.arrivals(), NEURON_CORE_ENGINES - 1);
    arrive.update[0] = write_at_end(semaphores_.arrivals(), 0);
    append(arrive);
    clear_each(step);
    read_condition(step);
  }
  whiles_.back().leave = here();
  append(branch(step.label, NEURON_BRANCH_EQ, depth_, kEnd, 0));
  return {};
}

void EngineAssembler::clear_each(const Step& step) {
  for (uint8_t semaphore : semaphores_.cleared_by(schedule_.while_loops()[step.block])) {
    isa::Instruction zero = make(NEURON_OP_EVENT, step.label);
    zero.update[0] = write_at_end(semaphore, 0);
    append(zero);
  }
}

// The register becomes kRound or kEnd, and the others' semaphores do.
void EngineAssembler::read_condition(const Step& step) {
  const AddressField& word = schedule_.while_loops()[step.block].condition;
  isa::Instruction load = make(NEURON_OP_LOAD, step.label);
  load.flow.rd = depth_;
  load.address.count = 1;
  relocate(word.field, NEURON_RELOC_VAR_ADDR, variable_name_(word.buffer), 8,
           static_cast<int64_t>(word.offset));
  append(load);
  append(branch(step.label, NEURON_BRANCH_EQ, depth_, 0, 3));
  set_register(depth_, kRound, step.label);
  append(branch(step.label, NEURON_BRANCH_ALWAYS, 0, 0, 2));
  set_register(depth_, kEnd, step.label);
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (e == kMaster) continue;
    isa::Instruction go = make(NEURON_OP_EVENT, step.label);
    go.update[0] = {semaphores_.release(e), NEURON_UPDATE_WRITE, true, true, depth_};
    append(go);
  }
}

void EngineAssembler::end_while(const Step& step) {
  const OpenWhile open = whiles_.back();
  whiles_.pop_back();
  const uint32_t last = here();
  append(branch(step.label, NEURON_BRANCH_ALWAYS, 0, 0,
                static_cast<int32_t>(open.head) - static_cast<int32_t>(last)));
  point(open.leave, last + 1);
}

}  // namespace neuron::builder
