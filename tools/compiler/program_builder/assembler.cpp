// SPDX-License-Identifier: Apache-2.0
// The part of NeffEmitter that writes instructions: semaphores and their counts, loops and the
// registers that loops use.
#include <algorithm>

#include "driver/isa/opcode_table.h"
#include "hw/address_map.h"
#include "hw/neff_program.h"
#include "tools/compiler/program_builder/neff_emitter.h"

namespace neuron::builder {

using runtime::fail;
using runtime::Result;

namespace {

constexpr uint32_t kSignalsOfASemaphore = 32768;  // Waits compare with 16 bits
constexpr uint32_t kIncrementsOfATransfer = NEURON_V2_DMA_ENGINES_PER_CORE;

// Registers of an engine: the loop's rounds, its counters, and two for waits beyond 16 bits.
constexpr uint8_t kRoundRegister = 0;
constexpr uint8_t kFirstCounter = 1;
constexpr uint8_t kWaitRegister = NEURON_REGISTERS - 2;

// What the engines are told where the device decides on a round.
constexpr uint16_t kRound = 1, kEnd = 2;

isa::Scalar immediate(int64_t value) {
  return {static_cast<uint32_t>(value), NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
}

}  // namespace

Result<void> NeffEmitter::number_semaphores() {
  unsigned next = NEURON_SEM_PROGRAM_FIRST;
  while_semaphores_.resize(program_.schedule_.while_loops().size());
  if (!while_semaphores_.empty()) {
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      const auto number = static_cast<uint8_t>(next++);
      (e == kMaster ? arrivals_ : release_[e]) = number;
      meeting_semaphores_.push_back({base::format("meet_{}", isa::engine_name(e)), number});
    }
  }
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    const auto& steps = program_.schedule_.steps()[e];
    auto& semaphores = engine_semaphores_[e];
    signals_[e].resize(steps.size());
    uint32_t count = kSignalsOfASemaphore;  // Of the current one: full
    std::vector<uint32_t> whiles;           // Loops that are open
    const auto open = [&] {
      if (!whiles.empty()) while_semaphores_[whiles.back()].push_back(static_cast<uint8_t>(next));
      semaphores.push_back({base::format("{}_{}", isa::engine_name(e), semaphores.size()),
                            static_cast<uint8_t>(next++)});
      count = 0;
      return next <= NEURON_SEM_PROGRAM_LAST + 1u;
    };
    const auto full = [&] {
      return fail(
          NRT_RESOURCE, "program \"{}\": {} steps of {} are waited for; too many to count",
          program_.name(),
          std::count_if(steps.begin(), steps.end(), [](const Step& step) { return step.signals; }),
          isa::engine_name(e));
    };
    for (size_t i = 0; i < steps.size();) {
      if (steps[i].control != Control::kNone) {
        // Counts inside begin at 0 in each round, those behind it in a semaphore of their own.
        if (steps[i].control == Control::kWhile) {
          whiles.push_back(steps[i].while_loop);
        } else {
          whiles.pop_back();
        }
        count = kSignalsOfASemaphore;
        ++i;
        continue;
      }
      const int32_t loop = steps[i].loop;
      const size_t end =
          loop < 0 ? i + 1 : program_.schedule_.loops()[static_cast<size_t>(loop)].end[e];
      const auto signals = static_cast<uint32_t>(std::count_if(
          steps.begin() + static_cast<ptrdiff_t>(i), steps.begin() + static_cast<ptrdiff_t>(end),
          [](const Step& step) { return step.signals; }));
      if (signals != 0 && (loop >= 0 || count == kSignalsOfASemaphore) && !open()) return full();
      for (; i < end; ++i) {
        if (!steps[i].signals) continue;
        signals_[e][i] = {semaphores.back().number, ++count, loop < 0 ? 0 : signals};
      }
      if (loop >= 0) count = kSignalsOfASemaphore;
    }
  }
  for (size_t slot = 0; slot < program_.schedule_.slots().size(); ++slot) {
    if (next > NEURON_SEM_PROGRAM_LAST) {
      return fail(NRT_RESOURCE, "program \"{}\" needs more semaphores than the {} there are",
                  program_.name(), NEURON_SEM_PROGRAM_LAST - NEURON_SEM_PROGRAM_FIRST + 1);
    }
    slot_semaphores_.push_back({base::format("dma_{}", slot), static_cast<uint8_t>(next++)});
  }
  return {};
}

NeffEmitter::Target NeffEmitter::target_of(const Point& point, int32_t loop) const {
  int32_t of = -1;
  bool previous = false;
  Target target;
  if (point.agent >= kFirstDmaAgent) {
    const size_t slot = point.agent - kFirstDmaAgent;
    const Slot::Use& use = program_.schedule_.slots()[slot].uses[point.sequence - 1];
    of = use.loop;
    previous = use.previous;
    target = {slot_semaphores_[slot].number, int64_t{use.count} * kIncrementsOfATransfer,
              kIncrementsOfATransfer};
  } else {
    const StepPoint& step = program_.schedule_.points()[point.agent][point.sequence - 1];
    const Signal& signal = signals_[point.agent][step.step];
    of = program_.schedule_.steps()[point.agent][step.step].loop;
    previous = step.previous;
    target = {signal.semaphore, signal.value, signal.per_round};
  }
  if (of >= 0 && of == loop) {
    if (previous) target.value -= target.per_round;
    return target;
  }
  if (of >= 0) {
    const int64_t rounds = program_.schedule_.loops()[static_cast<size_t>(of)].rounds;
    target.value += (rounds - (previous ? 2 : 1)) * target.per_round;
  }
  target.per_round = 0;
  return target;
}

// Writes the code of one engine.
class NeffEmitter::Assembler {
 public:
  Assembler(const NeffEmitter& emitter, unsigned engine) : emitter_(emitter), engine_(engine) {
    out_.engine = static_cast<uint8_t>(engine);
    out_.generation = emitter.program_.limits_.generation;
  }

  Result<neff::EngineProgram> run() {
    const Program& program = emitter_.program_;
    const auto& steps = program.schedule_.steps()[engine_];
    for (size_t i = 0; i < steps.size();) {
      if (steps[i].control != Control::kNone) {
        meet(steps[i++]);
        continue;
      }
      if (steps[i].loop < 0) {
        write(steps[i], emitter_.signals_[engine_][i]);
        ++i;
        continue;
      }
      const LoopInfo& loop = program.schedule_.loops()[static_cast<size_t>(steps[i].loop)];
      const size_t end = loop.end[engine_];
      NEURON_CHECK(open(loop, i, end));
      const uint32_t body = out_.instructions();
      for (; i < end; ++i) write(steps[i], emitter_.signals_[engine_][i]);
      close(body);
    }
    return std::move(out_);
  }

 private:
  isa::Instruction make(uint16_t opcode) const {
    isa::Instruction instruction;
    instruction.opcode = opcode;
    instruction.engines = static_cast<uint8_t>(1u << engine_);
    return instruction;
  }

  isa::Instruction event(const Step& step) const {
    isa::Instruction instruction = make(NEURON_OP_EVENT);
    instruction.debug = step.label;
    return instruction;
  }

  // Begins a round, or ends the loop. All engines arrive when all their work is complete; then the
  // master clears the semaphores that the body counts on, reads the condition, which nobody changes
  // meanwhile, and tells the others: 1 for a round, 2 for the end.
  void meet(const Step& step) {
    if (step.control == Control::kEndWhile) return end_while(step);
    whiles_.push_back({out_.instructions(), 0});
    isa::Instruction arrive = event(step);
    arrive.drain = true;
    if (engine_ != kMaster) {
      arrive.update[0] = {emitter_.arrivals_, NEURON_UPDATE_INC, true, false, 0};
      append(arrive);
      const uint8_t release = emitter_.release_[engine_];
      isa::Instruction wait = event(step);
      wait.wait[0] = {release, NEURON_WAIT_GE, false, false, kRound};
      append(wait);
      isa::Instruction read = make(NEURON_OP_SEM);
      read.debug = step.label;
      read.flow.rd = kRoundRegister;
      read.scalar0 = immediate(release);
      append(read);
      isa::Instruction taken = event(step);
      taken.update[0] = {release, NEURON_UPDATE_WRITE, true, false, 0};
      append(taken);
    } else {
      arrive.wait[0] = {emitter_.arrivals_, NEURON_WAIT_GE, false, false, NEURON_CORE_ENGINES - 1};
      arrive.update[0] = {emitter_.arrivals_, NEURON_UPDATE_WRITE, true, false, 0};
      append(arrive);
      clear(step);
      read_condition(step);
    }
    whiles_.back().leave = out_.instructions();
    append(branch(step, NEURON_BRANCH_EQ, kEnd, 0));
  }

  void clear(const Step& step) {
    std::vector<uint8_t> semaphores = emitter_.while_semaphores_[step.while_loop];
    for (uint32_t slot : emitter_.program_.schedule_.while_loops()[step.while_loop].slots) {
      semaphores.push_back(emitter_.slot_semaphores_[slot].number);
    }
    for (uint8_t semaphore : semaphores) {
      isa::Instruction zero = event(step);
      zero.update[0] = {semaphore, NEURON_UPDATE_WRITE, true, false, 0};
      append(zero);
    }
  }

  // The register becomes kRound or kEnd, and the others' semaphores do.
  void read_condition(const Step& step) {
    const AddressField& word = emitter_.program_.schedule_.while_loops()[step.while_loop].condition;
    isa::Instruction load = make(NEURON_OP_LOAD);
    load.debug = step.label;
    load.flow.rd = kRoundRegister;
    load.address.count = 1;
    relocate(word.field, NEURON_RELOC_VAR_ADDR, emitter_.variable_name(word.buffer));
    out_.relocations.back().width = 8;
    out_.relocations.back().addend = static_cast<int64_t>(word.offset);
    append(load);
    append(branch(step, NEURON_BRANCH_EQ, 0, 3));
    set_register(kRoundRegister, kRound, step.label);
    append(branch(step, NEURON_BRANCH_ALWAYS, 0, 2));
    set_register(kRoundRegister, kEnd, step.label);
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      if (e == kMaster) continue;
      isa::Instruction go = event(step);
      go.update[0] = {emitter_.release_[e], NEURON_UPDATE_WRITE, true, true, kRoundRegister};
      append(go);
    }
  }

  isa::Instruction branch(const Step& step, uint8_t condition, uint32_t with,
                          int32_t distance) const {
    isa::Instruction branch = make(NEURON_OP_BRANCH);
    branch.debug = step.label;
    branch.flow.condition = condition;
    branch.flow.target = distance;
    if (condition == NEURON_BRANCH_ALWAYS) return branch;
    branch.flow.ra = kRoundRegister;
    branch.flow.imm = true;
    branch.scalar0 = immediate(with);
    return branch;
  }

  void end_while(const Step& step) {
    const OpenWhile open = whiles_.back();
    whiles_.pop_back();
    const auto here = static_cast<int32_t>(out_.instructions());
    append(branch(step, NEURON_BRANCH_ALWAYS, 0, static_cast<int32_t>(open.head) - here));
    replace(open.leave,
            branch(step, NEURON_BRANCH_EQ, kEnd, here + 1 - static_cast<int32_t>(open.leave)));
  }

  void replace(uint32_t at, const isa::Instruction& instruction) {
    std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
    isa::encode(instruction, bytes);
    const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
    std::copy(first, first + bytes.size(),
              out_.code.begin() + ptrdiff_t{at} * NEURON_INSTRUCTION_BYTES);
  }

  void relocate(uint16_t field, uint8_t kind, std::string symbol) {
    neff::Relocation relocation;
    relocation.pc = out_.instructions();
    relocation.field = field;
    relocation.kind = kind;
    relocation.symbol = std::move(symbol);
    out_.relocations.push_back(std::move(relocation));
  }

  void append(const isa::Instruction& instruction) {
    std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
    isa::encode(instruction, bytes);
    const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
    out_.code.insert(out_.code.end(), first, first + bytes.size());
  }

  void set_register(uint8_t number, int64_t value, uint32_t debug) {
    isa::Instruction move = make(NEURON_OP_MOV);
    move.debug = debug;
    move.flow.rd = number;
    move.scalar0 = immediate(value);
    append(move);
  }

  uint8_t register_of(const Counter& wanted) const {
    for (size_t c = 0; c < counters_.size(); ++c) {
      if (counters_[c].first == wanted.first && counters_[c].per_round == wanted.per_round) {
        return static_cast<uint8_t>(kFirstCounter + c);
      }
    }
    return 0;
  }

  void need(const Counter& counter) {
    if (register_of(counter) == 0) counters_.push_back(counter);
  }

  Result<void> open(const LoopInfo& loop, size_t first, size_t end) {
    const auto& steps = emitter_.program_.schedule_.steps()[engine_];
    counters_.clear();
    for (size_t i = first; i < end; ++i) {
      for (const Point& point : steps[i].waits) {
        const Target target = emitter_.target_of(point, steps[i].loop);
        if (target.per_round != 0) need({target.value, target.per_round});
      }
      for (const Advance& advance : steps[i].advances) need({advance.first, advance.bytes});
    }
    if (counters_.size() > kWaitRegister - kFirstCounter) {
      return fail(NRT_RESOURCE,
                  "program \"{}\": a loop of {} needs {} registers, there are {}; use a shorter "
                  "body",
                  emitter_.program_.name(), isa::engine_name(engine_), counters_.size(),
                  kWaitRegister - kFirstCounter);
    }
    const uint32_t debug = steps[first].label;
    for (size_t c = 0; c < counters_.size(); ++c) {
      set_register(static_cast<uint8_t>(kFirstCounter + c), counters_[c].first, debug);
    }
    loop_ = make(NEURON_OP_LOOP);
    loop_.debug = debug;
    loop_.loop.step = 1;
    loop_.scalar0 = immediate(0);
    loop_.scalar1 = immediate(loop.rounds);
    loop_.flow.rd = kRoundRegister;
    append(loop_);
    return {};
  }

  // Advances the counters, and tells the loop how long its body has become.
  void close(uint32_t body) {
    for (size_t c = 0; c < counters_.size(); ++c) {
      isa::Instruction add = make(NEURON_OP_ALU);
      add.debug = loop_.debug;
      add.flow.rd = add.flow.ra = static_cast<uint8_t>(kFirstCounter + c);
      add.flow.imm = true;
      add.flow.alu = NEURON_ALU_ADD;
      add.scalar0 = immediate(counters_[c].per_round);
      append(add);
    }
    loop_.loop.length = out_.instructions() - body;
    replace(body - 1, loop_);
  }

  isa::Wait wait_for(const Point& point, int32_t loop, unsigned which, uint32_t debug) {
    const Target target = emitter_.target_of(point, loop);
    isa::Wait wait;
    wait.index = target.semaphore;
    wait.condition = NEURON_WAIT_GE;
    if (target.per_round != 0) {
      wait.is_register = true;
      wait.value = register_of({target.value, target.per_round});
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

  void write(const Step& step, const Signal& signal) {
    const Program& program = emitter_.program_;
    isa::Instruction instruction = step.instruction;
    if (instruction.debug == 0) instruction.debug = step.label;
    // Two waits fit into an instruction; the others go to `event` instructions before it. Where two
    // cores meet, the instruction has waits and updates of its own, and no room for others.
    const bool meets = isa::meets_other_core(instruction.opcode);
    const size_t room = meets ? 0 : 2;
    size_t next = 0;
    while (step.waits.size() - next > room) {
      isa::Instruction event = make(NEURON_OP_EVENT);
      event.debug = instruction.debug;
      for (unsigned w = 0; w < 2 && next < step.waits.size(); ++w) {
        event.wait[w] = wait_for(step.waits[next++], step.loop, w, event.debug);
      }
      append(event);
    }
    for (unsigned w = 0; next < step.waits.size(); ++w) {
      instruction.wait[w] = wait_for(step.waits[next++], step.loop, w, instruction.debug);
    }
    if (step.signals && !meets) {
      instruction.update[0] = {signal.semaphore, NEURON_UPDATE_INC, true, false, 0};
    }
    for (size_t a = 0; a < step.advances.size(); ++a) {
      const Advance& advance = step.advances[a];
      instruction.bind[a] = {register_of({advance.first, advance.bytes}), advance.item,
                             advance.operand, NEURON_BIND_ADD};
    }
    if (step.slot >= 0) {
      instruction.dma.semaphore = emitter_.slot_semaphores_[static_cast<size_t>(step.slot)].number;
    }
    if (step.transfer >= 0) {
      relocate(
          NEURON_DMA_TRIGGER_M2S, NEURON_RELOC_DMA_BLOCK,
          std::to_string(program.schedule_.transfers()[static_cast<size_t>(step.transfer)].id));
    }
    if (step.collective >= 0) {
      const auto& collective =
          program.schedule_.collectives()[static_cast<size_t>(step.collective)];
      relocate(NEURON_ADDRESS_ADDR, NEURON_RELOC_CORE,
               base::format("cc:{}", collective.operation.stream));
      out_.relocations.back().width = 8;
      out_.relocations.back().addend =
          NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC + NEURON_CC_SEM_GO * 4;
    }
    if (step.slot >= 0) {
      relocate(NEURON_RELOC_QUEUE_CTL, NEURON_RELOC_QUEUE, kDynamicQueue);
      out_.relocations.back().width = 1;
    }
    for (const AddressField& address : step.addresses) {
      relocate(address.field, NEURON_RELOC_VAR_ADDR, emitter_.variable_name(address.buffer));
      out_.relocations.back().width = 8;
      out_.relocations.back().addend = static_cast<int64_t>(address.offset);
    }
    append(instruction);
    if (step.signals && meets) {
      isa::Instruction event = make(NEURON_OP_EVENT);
      event.debug = instruction.debug;
      event.update[0] = {signal.semaphore, NEURON_UPDATE_INC, true, false, 0};
      append(event);
    }
  }

  const NeffEmitter& emitter_;
  unsigned engine_;
  neff::EngineProgram out_;
  std::vector<Counter> counters_;  // Of the open loop
  isa::Instruction loop_;
  struct OpenWhile {
    uint32_t head = 0, leave = 0;  // Where engines meet, and the branch behind the end
  };
  std::vector<OpenWhile> whiles_;
};

Result<neff::EngineProgram> NeffEmitter::assemble(unsigned engine) const {
  NEURON_TRY(out, Assembler(*this, engine).run());
  if (out.instructions() > NEURON_PROGRAM_MAX) {
    return fail(NRT_RESOURCE, "program \"{}\": {} instructions for {}, at most {} are possible",
                program_.name(), out.instructions(), isa::engine_name(engine), NEURON_PROGRAM_MAX);
  }
  // The labels of this engine, once each and ascending.
  for (const Step& step : program_.schedule_.steps()[engine]) {
    if (step.label == 0 || (!out.lines.empty() && out.lines.back().debug >= step.label)) continue;
    const Label& label = program_.schedule_.journal().labels()[step.label - 1];
    out.lines.push_back({step.label, label.line, 0, label.file(program_.name())});
  }
  out.entries.push_back({"main", 0, out.instructions(), NEURON_ENTRY_MAIN});
  return out;
}

}  // namespace neuron::builder
