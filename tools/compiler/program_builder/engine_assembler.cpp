// SPDX-License-Identifier: Apache-2.0
// The steps of an engine, and the loops that it repeats at its own pace.
#include "tools/compiler/program_builder/engine_assembler.h"

#include <algorithm>

#include "driver/base/format.h"
#include "driver/isa/opcode_table.h"
#include "hw/address_map.h"
#include "hw/neff_program.h"
#include "tools/compiler/program_builder/neff_emitter.h"

namespace neuron::builder {

using runtime::fail;
using runtime::Result;

namespace {

constexpr uint8_t kWaitRegister = NEURON_REGISTERS - 2;
constexpr uint8_t kTemporaries = 4;
constexpr uint8_t kFirstTemporary = kWaitRegister - kTemporaries;

using isa::immediate;

}  // namespace

EngineAssembler::EngineAssembler(const Schedule& schedule, const SemaphoreNumbers& semaphores,
                                 VariableName variable_name, PointerName pointer_name,
                                 unsigned engine, uint8_t generation)
    : schedule_(schedule),
      semaphores_(semaphores),
      variable_name_(std::move(variable_name)),
      pointer_name_(std::move(pointer_name)),
      engine_(engine),
      top_(kWaitRegister) {
  out_.engine = static_cast<uint8_t>(engine);
  out_.generation = generation;
  for (uint32_t index = 1; index < schedule.indexes().all().size(); ++index) {
    const IndexInfo& info = schedule.indexes().all()[index];
    if (info.is_loop) continue;
    if (numbers_.empty()) top_ = kFirstTemporary;
    numbers_[index] = top_ == 0 ? 0 : --top_;
  }
  if (!schedule.parts().blocks.empty()) top_ = std::min(top_, kFirstTemporary);
  give_ports_registers();
}

void EngineAssembler::give_ports_registers() {
  for (const Step& step : steps()) {
    for (const AddressField& address : step.addresses) {
      if (address.buffer == Transfer::kOnChip || ports_.count(address.buffer) != 0) continue;
      if (pointer_name_(address.buffer).empty()) continue;
      top_ = std::min(top_, kFirstTemporary);
      top_ = top_ < 2 ? 0 : (top_ - 2u) & ~1u;  // A pair begins at an even register
      ports_[address.buffer] = top_;
    }
  }
}

// Once an execution: the addresses stay the same during it.
void EngineAssembler::load_ports() {
  for (const auto& [buffer, reg] : ports_) {
    for (uint8_t half = 0; half < 2; ++half) {
      isa::Instruction load = make(NEURON_OP_LOAD, 0);
      load.flow.rd = static_cast<uint8_t>(reg + half);
      load.address.count = 1;
      relocate(NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, pointer_name_(buffer), 8, 4 * half);
      append(load);
    }
  }
}

Result<neff::EngineProgram> EngineAssembler::run() {
  if (top_ == 0) {
    return fail(NRT_RESOURCE,
                "program \"{}\": {} needs registers for {} numbers and for the addresses of {} "
                "inputs and outputs, more than there are; declare fewer, or copy inputs and "
                "outputs of generated transfers to or from temporaries",
                schedule_.journal().program(), isa::engine_name(engine_), numbers_.size(),
                ports_.size());
  }
  out_.code.reserve(steps().size() * NEURON_INSTRUCTION_BYTES);
  load_ports();
  for (size_t i = 0; i < steps().size();) {
    if (steps()[i].control != Control::kNone) {
      NEURON_CHECK(control(i++));
    } else if (steps()[i].loop < 0) {
      write(steps()[i], i);
      ++i;
    } else {
      NEURON_TRY(end, repeat(i));
      i = end;
    }
  }
  for (const Call& call : calls_) point(call.at, functions_.at(call.function).first);
  uint32_t main_end = here();
  for (const auto& [number, place] : functions_) main_end = std::min(main_end, place.first);
  out_.entries.push_back({"main", 0, main_end, NEURON_ENTRY_MAIN});
  for (const auto& [number, place] : functions_) {
    out_.entries.push_back(
        {place.name, place.first, place.end - place.first, NEURON_ENTRY_FUNCTION});
  }
  return std::move(out_);
}

isa::Instruction EngineAssembler::make(uint16_t opcode, uint32_t debug) const {
  isa::Instruction instruction;
  instruction.opcode = opcode;
  instruction.engines = static_cast<uint8_t>(1u << engine_);
  instruction.debug = debug;
  return instruction;
}

isa::Instruction EngineAssembler::branch(uint32_t debug, uint8_t condition, uint8_t reg,
                                         uint32_t with, int32_t distance) const {
  isa::Instruction branch = make(NEURON_OP_BRANCH, debug);
  branch.flow.condition = condition;
  branch.flow.target = distance;
  if (condition == NEURON_BRANCH_ALWAYS) return branch;
  branch.flow.ra = reg;
  branch.flow.imm = true;
  branch.scalar0 = immediate(with);
  return branch;
}

void EngineAssembler::append(const isa::Instruction& instruction) {
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  isa::encode(instruction, bytes);
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  out_.code.insert(out_.code.end(), first, first + bytes.size());
}

void EngineAssembler::replace(uint32_t at, const isa::Instruction& instruction) {
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  isa::encode(instruction, bytes);
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  std::copy(first, first + bytes.size(),
            out_.code.begin() + ptrdiff_t{at} * NEURON_INSTRUCTION_BYTES);
}

void EngineAssembler::point(uint32_t at, uint32_t target) {
  const auto* first =
      reinterpret_cast<const std::byte*>(out_.code.data()) + size_t{at} * NEURON_INSTRUCTION_BYTES;
  isa::Instruction instruction = isa::decode(isa::Bytes(first, NEURON_INSTRUCTION_BYTES));
  instruction.flow.target = static_cast<int32_t>(target) - static_cast<int32_t>(at);
  replace(at, instruction);
}

void EngineAssembler::relocate(uint16_t field, uint8_t kind, std::string symbol, uint8_t width,
                               int64_t addend) {
  neff::Relocation relocation;
  relocation.pc = here();
  relocation.field = field;
  relocation.kind = kind;
  relocation.symbol = std::move(symbol);
  relocation.width = width;
  relocation.addend = addend;
  out_.relocations.push_back(std::move(relocation));
}

void EngineAssembler::set_register(uint8_t number, int64_t value, uint32_t debug) {
  isa::Instruction move = make(NEURON_OP_MOV, debug);
  move.flow.rd = number;
  move.scalar0 = immediate(value);
  append(move);
}

void EngineAssembler::add_registers(uint8_t to, uint8_t a, uint8_t alu, uint32_t with,
                                    uint32_t debug) {
  isa::Instruction add = make(NEURON_OP_ALU, debug);
  add.flow.rd = to;
  add.flow.ra = a;
  add.flow.alu = alu;
  add.flow.imm = true;
  add.scalar0 = immediate(with);
  append(add);
}

uint8_t EngineAssembler::register_of(const OpenLoop& loop, const Counter& wanted) const {
  for (size_t c = 0; c < loop.counters.size(); ++c) {
    if (loop.counters[c].first == wanted.first && loop.counters[c].per_round == wanted.per_round) {
      return static_cast<uint8_t>(loop.round + 1 + c);
    }
  }
  return 0;
}

void EngineAssembler::need(OpenLoop& loop, const Counter& counter) {
  for (const Counter& known : loop.counters) {
    if (known.first == counter.first && known.per_round == counter.per_round) return;
  }
  // Those that come later have no register in any case.
  if (loop.counters.size() < NEURON_REGISTERS) loop.counters.push_back(counter);
}

uint8_t EngineAssembler::register_of_index(uint32_t index) const {
  if (const auto number = numbers_.find(index); number != numbers_.end()) return number->second;
  for (const OpenLoop& loop : loops_) {
    if (loop.index == index) return loop.round;
  }
  return 0;
}

isa::Scalar EngineAssembler::rounds_of(uint32_t rounds, uint32_t count) const {
  if (count == 0) return immediate(rounds);
  return {register_of_index(count), NEURON_SCALAR_REGISTER, NEURON_DTYPE_U32, 0, 0};
}

// Whether the register of the next loop is not that of a number.
Result<void> EngineAssembler::check_depth() const {
  if (depth_ < top_) return {};
  return fail(NRT_RESOURCE,
              "program \"{}\": {} has no register left for the rounds of a loop; use fewer loops "
              "around each other, or fewer numbers",
              schedule_.journal().program(), isa::engine_name(engine_));
}

// Counters that have no register are computed where they are used.
Result<void> EngineAssembler::open_loop(OpenLoop loop, isa::Scalar rounds, uint32_t debug) {
  constexpr uint8_t kOfLoopsInside = 16;
  NEURON_CHECK(check_depth());
  loop.round = depth_;
  size_t room = static_cast<size_t>(top_) - depth_ - 1;
  if (loop.is_block) room -= std::min<size_t>(room, kOfLoopsInside);
  if (loop.counters.size() > room) {
    const size_t below = std::min(top_, kFirstTemporary);
    loop.counters.resize(std::min<size_t>(room, below - std::min<size_t>(below, depth_ + 1u)));
  }
  depth_ = static_cast<uint8_t>(depth_ + 1 + loop.counters.size());
  for (size_t c = 0; c < loop.counters.size(); ++c) {
    set_register(static_cast<uint8_t>(loop.round + 1 + c), loop.counters[c].first, debug);
  }
  loop.instruction = make(NEURON_OP_LOOP, debug);
  loop.instruction.loop.step = 1;
  loop.instruction.scalar0 = immediate(0);
  loop.instruction.scalar1 = rounds;
  loop.instruction.flow.rd = loop.round;
  append(loop.instruction);
  loop.body = here();
  loops_.push_back(std::move(loop));
  return {};
}

// Advances the counters, and tells the loop how long its body has become.
void EngineAssembler::close_loop() {
  OpenLoop& loop = loops_.back();
  for (size_t c = 0; c < loop.counters.size(); ++c) {
    const auto counter = static_cast<uint8_t>(loop.round + 1 + c);
    add_registers(counter, counter, NEURON_ALU_ADD,
                  static_cast<uint32_t>(loop.counters[c].per_round), loop.instruction.debug);
  }
  loop.instruction.loop.length = here() - loop.body;
  replace(loop.body - 1, loop.instruction);
  depth_ = loop.round;
  loops_.pop_back();
}

Result<size_t> EngineAssembler::repeat(size_t first) {
  const LoopInfo& info = schedule_.loops()[static_cast<size_t>(steps()[first].loop)];
  const size_t end = info.end[engine_];
  OpenLoop loop;
  loop.index = info.index;
  for (size_t i = first; i < end; ++i) {
    for (const Point& point : steps()[i].waits) {
      const auto target = semaphores_.target_of(point, steps()[i].loop);
      if (target.per_round != 0) need(loop, {target.value, target.per_round});
    }
    for (const Advance& advance : steps()[i].advances) {
      if (advance.index == 0) need(loop, {advance.first, advance.bytes});
    }
  }
  NEURON_CHECK(
      open_loop(std::move(loop), rounds_of(info.rounds, info.count), steps()[first].label));
  for (size_t i = first; i < end; ++i) write(steps()[i], i);
  close_loop();
  return end;
}

isa::Wait EngineAssembler::wait_for(const Point& point, int32_t loop, unsigned which,
                                    uint32_t debug) {
  const auto target = semaphores_.target_of(point, loop);
  isa::Wait wait;
  wait.index = target.semaphore;
  wait.condition = NEURON_WAIT_GE;
  if (target.per_round != 0) {
    const auto spare = static_cast<uint8_t>(kWaitRegister + which);
    wait.is_register = true;
    wait.value = counter_in(loops_.back(), {target.value, target.per_round}, spare, debug);
  } else if (target.value > UINT16_MAX) {
    const auto number = static_cast<uint8_t>(kWaitRegister + which);
    set_register(number, target.value, debug);
    wait.is_register = true;
    wait.value = number;
  } else {
    wait.value = static_cast<uint16_t>(target.value);
  }
  return wait;
}

// `room` waits fit into the instruction; the others go to `event` instructions before it.
void EngineAssembler::write_waits(const Step& step, isa::Instruction& instruction, size_t room) {
  size_t next = 0;
  while (step.waits.size() - next > room) {
    isa::Instruction event = make(NEURON_OP_EVENT, instruction.debug);
    for (unsigned w = 0; w < 2 && next < step.waits.size(); ++w) {
      event.wait[w] = wait_for(step.waits[next++], step.loop, w, event.debug);
    }
    append(event);
  }
  for (unsigned w = 0; next < step.waits.size(); ++w) {
    instruction.wait[w] = wait_for(step.waits[next++], step.loop, w, instruction.debug);
  }
}

// The register that holds how far the operand has moved. A product with a number is made in
// `scratch`.
uint8_t EngineAssembler::register_for(const Advance& advance, uint8_t scratch, uint32_t debug) {
  const Counter wanted{advance.first, advance.bytes};
  if (advance.index == 0) return counter_in(loops_.back(), wanted, scratch, debug);
  for (const OpenLoop& loop : loops_) {
    if (loop.index == advance.index) return counter_in(loop, wanted, scratch, debug);
  }
  return product(register_of_index(advance.index), wanted, scratch, debug);
}

uint8_t EngineAssembler::product(uint8_t number, const Counter& wanted, uint8_t scratch,
                                 uint32_t debug) {
  if (wanted.per_round == 1 && wanted.first == 0) return number;
  add_registers(scratch, number, NEURON_ALU_MUL, static_cast<uint32_t>(wanted.per_round), debug);
  if (wanted.first != 0) {
    add_registers(scratch, scratch, NEURON_ALU_ADD, static_cast<uint32_t>(wanted.first), debug);
  }
  return scratch;
}

uint8_t EngineAssembler::counter_in(const OpenLoop& loop, const Counter& wanted, uint8_t scratch,
                                    uint32_t debug) {
  const uint8_t counter = register_of(loop, wanted);
  return counter != 0 ? counter : product(loop.round, wanted, scratch, debug);
}

// An instruction binds four registers. Where operands move with more, those of one operand are
// summed up first.
void EngineAssembler::bind(const Step& step, isa::Instruction& instruction) {
  const auto& advances = step.advances;
  const auto ports = static_cast<size_t>(
      std::count_if(step.addresses.begin(), step.addresses.end(),
                    [this](const AddressField& a) { return ports_.count(a.buffer) != 0; }));
  const bool all_fit = advances.size() + ports <= instruction.bind.size();
  size_t bound = 0;
  for (size_t a = 0; a < advances.size(); ++a) {
    const Advance& advance = advances[a];
    const auto same = [&](const Advance& other) {
      return other.item == advance.item && other.operand == advance.operand;
    };
    const auto begin = advances.begin(), here = begin + static_cast<ptrdiff_t>(a);
    if (!all_fit && std::any_of(begin, here, same)) continue;  // Summed up already
    const auto temporary = static_cast<uint8_t>(kFirstTemporary + bound);
    uint8_t reg = register_for(advance, temporary, instruction.debug);
    for (auto other = here + 1; !all_fit && other != advances.end(); ++other) {
      if (!same(*other)) continue;
      isa::Instruction sum = make(NEURON_OP_ALU, instruction.debug);
      sum.flow.rd = temporary;
      sum.flow.ra = reg;
      sum.flow.rb = register_for(*other, kWaitRegister, instruction.debug);
      sum.flow.alu = NEURON_ALU_ADD;
      append(sum);
      reg = temporary;
    }
    instruction.bind[bound++] = {reg, advance.item, advance.operand, NEURON_BIND_ADD};
  }
  for (const AddressField& address : step.addresses) {
    const auto port = ports_.find(address.buffer);
    if (port == ports_.end()) continue;
    uint8_t operand = 0;
    if (address.field == NEURON_DMA_GENERATE_TO) {
      instruction.generate.to = address.offset;
    } else if (address.field == NEURON_DMA_GENERATE_FROM) {
      operand = 1;
      instruction.generate.from = address.offset;
    } else if (address.field == NEURON_DMA_INDIRECT_BASE) {
      operand = 2;
      instruction.indirect.base = address.offset;
    } else {
      instruction.address.addr = address.offset;
    }
    instruction.bind[bound++] = {port->second, NEURON_BIND_BASE, operand, NEURON_BIND_ADD_PAIR};
  }
}

void EngineAssembler::write(const Step& step, size_t number) {
  isa::Instruction instruction = step.instruction;
  if (instruction.debug == 0) instruction.debug = step.label;
  if (step.registers[0] != 0) instruction.flow.rd = register_of_index(step.registers[0]);
  if (step.registers[1] != 0) instruction.flow.ra = register_of_index(step.registers[1]);
  if (step.registers[2] != 0) instruction.flow.rb = register_of_index(step.registers[2]);
  bind(step, instruction);
  // What waits for the other core has waits and updates of its own, and no room for others.
  const bool meets = instruction.wait[1].condition != NEURON_WAIT_NONE;
  write_waits(step, instruction, meets ? 0 : 2);
  if (step.signals && !meets) {
    instruction.update[0] = {semaphores_.of_step(engine_, number), NEURON_UPDATE_INC, true, false,
                             0};
  }
  if (step.slot >= 0) {
    instruction.dma.semaphore = semaphores_.of_slot(static_cast<uint32_t>(step.slot), step.scope);
  }
  if (step.transfer >= 0) {
    relocate(NEURON_DMA_TRIGGER_M2S, NEURON_RELOC_DMA_BLOCK,
             std::to_string(schedule_.transfers()[static_cast<size_t>(step.transfer)].id));
  }
  if (step.collective >= 0) {
    const auto& collective = schedule_.parts().collectives[static_cast<size_t>(step.collective)];
    relocate(NEURON_ADDRESS_ADDR, NEURON_RELOC_CORE,
             base::format("cc:{}", collective.operation.stream), 8,
             NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC + NEURON_CC_SEM_GO * 4);
  }
  if (step.raises != 0) {
    relocate(
        NEURON_ADDRESS_ADDR, NEURON_RELOC_CORE, "peer", 8,
        static_cast<int64_t>(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + step.raises * 4ull));
  }
  if (step.slot >= 0) {
    relocate(NEURON_RELOC_QUEUE_CTL, NEURON_RELOC_QUEUE, NeffEmitter::kDynamicQueue, 1);
  }
  for (const AddressField& address : step.addresses) {
    if (ports_.count(address.buffer) != 0) continue;
    relocate(address.field, NEURON_RELOC_VAR_ADDR, variable_name_(address.buffer), 8,
             static_cast<int64_t>(address.offset));
  }
  append(instruction);
  if (step.signals && meets) {
    isa::Instruction event = make(NEURON_OP_EVENT, instruction.debug);
    event.update[0] = {semaphores_.of_step(engine_, number), NEURON_UPDATE_INC, true, false, 0};
    append(event);
  }
}

}  // namespace neuron::builder
