// SPDX-License-Identifier: Apache-2.0
// The part of NeffEmitter that writes instructions: semaphores and their counts, loops and the
// registers that loops use.
#include <algorithm>

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

isa::Scalar immediate(int64_t value) {
  return {static_cast<uint32_t>(value), NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
}

}  // namespace

Result<void> NeffEmitter::number_semaphores() {
  unsigned next = NEURON_SEM_PROGRAM_FIRST;
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    const auto& steps = program_.schedule_.steps()[e];
    auto& semaphores = engine_semaphores_[e];
    signals_[e].resize(steps.size());
    uint32_t count = kSignalsOfASemaphore;  // Of the current one: full
    const auto open = [&] {
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
    std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
    isa::encode(loop_, bytes);
    const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
    std::copy(first, first + bytes.size(),
              out_.code.begin() + ptrdiff_t{body - 1} * NEURON_INSTRUCTION_BYTES);
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
    // Two waits fit into an instruction; the others go to `event` instructions before it.
    size_t next = 0;
    while (step.waits.size() - next > 2) {
      isa::Instruction event = make(NEURON_OP_EVENT);
      event.debug = instruction.debug;
      event.wait[0] = wait_for(step.waits[next++], step.loop, 0, event.debug);
      event.wait[1] = wait_for(step.waits[next++], step.loop, 1, event.debug);
      append(event);
    }
    for (unsigned w = 0; next < step.waits.size(); ++w) {
      instruction.wait[w] = wait_for(step.waits[next++], step.loop, w, instruction.debug);
    }
    if (step.signals) {
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
    const auto relocate = [&](uint16_t field, uint8_t kind, std::string symbol) {
      neff::Relocation relocation;
      relocation.pc = out_.instructions();
      relocation.field = field;
      relocation.kind = kind;
      relocation.symbol = std::move(symbol);
      out_.relocations.push_back(std::move(relocation));
    };
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
  }

  const NeffEmitter& emitter_;
  unsigned engine_;
  neff::EngineProgram out_;
  std::vector<Counter> counters_;  // Of the open loop
  isa::Instruction loop_;
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
    out.lines.push_back({step.label, label.line, 0, program_.name() + "/" + label.section});
  }
  out.entries.push_back({"main", 0, out.instructions(), NEURON_ENTRY_MAIN});
  return out;
}

}  // namespace neuron::builder
