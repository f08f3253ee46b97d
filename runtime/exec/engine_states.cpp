// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/engine_states.h"

#include <span>

#include "driver/isa/instruction.h"
#include "driver/isa/opcode_table.h"
#include "hw/address_map.h"
#include "hw/control.h"
#include "hw/udma.h"

namespace neuron::runtime {
namespace {

void append(std::string& text, const char* separator, const std::string& more) {
  text += (text.empty() ? "" : separator) + more;
}

// Whether both cores of a pair come to the instruction.
bool is_meeting(const LoadedModel& model, uint32_t engine, uint32_t pc) {
  const EngineImage& image = model.image(engine);
  return pc < image.instructions &&
         isa::meets_other_core(isa::decode(std::span(image.code)
                                               .subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES)
                                               .first<NEURON_INSTRUCTION_BYTES>())
                                   .opcode);
}

std::string describe_wait(const LoadedModel& model, uint32_t wait, uint32_t value, bool meets) {
  static constexpr const char* kConditions[] = {"", ">=", "==", ">", "<=", "<", "!="};
  const uint32_t condition = (wait >> 8) & 7;
  if (condition == NEURON_WAIT_NONE || condition > NEURON_WAIT_NE) return "";
  const bool event = (wait & NEURON_SEM_SLOT_EVENT) != 0;
  const uint32_t index = wait & 0xFF;
  // Only the other program increments these.
  const bool of_pair = !event && index >= NEURON_SEM_PAIR_FIRST && index <= NEURON_SEM_PAIR_LAST;
  return format(" for {} {} {}{}, which is {}{}",
                event ? format("event {}", index) : model.describe_semaphore(index),
                kConditions[condition], (wait & NEURON_SEM_SLOT_REG) != 0 ? "r" : "", wait >> 16,
                value,
                !of_pair ? ""
                : meets  ? ": the other core of the pair has not come to the same instruction"
                         : ": the other core of the pair has not raised it");
}

const char* state_words(uint32_t state) {
  static constexpr const char* kStates[] = {
      "is idle", "runs", "waits", "has halted", "was stopped", "is at a break", "reports it"};
  return state <= NEURON_STATE_FAULT ? kStates[state] : "is in an unknown state";
}

// "DMA engine 3 queue 1 stands at descriptor 12 of 21", the first few.
std::string describe_queues(const Core& core) {
  constexpr unsigned kMost = 4;
  constexpr uint32_t kGone = 0xFFFFFFFFu;
  std::string text;
  unsigned found = 0;
  const CorePlace& place = core.place();
  for (uint32_t engine = 0; engine < NEURON_V2_DMA_ENGINES_PER_CORE; ++engine) {
    for (uint32_t queue = 0; queue < NEURON_DMA_QUEUES; ++queue) {
      const auto read = [&](uint32_t offset) {
        return core.device().read_register(
            place.queue_register_bar0(engine, NEURON_UDMA_M2S, queue, offset));
      };
      const auto head = read(NEURON_UDMAQ_HEAD);
      const auto tail = read(NEURON_UDMAQ_TAIL);
      if (!head || !tail || *head == kGone) return text;
      if (((*head ^ *tail) & NEURON_UDMA_INDEX_MASK) == 0) continue;
      if (++found > kMost) return text + " and others";
      append(text, ", ",
             format("DMA engine {} queue {} stands at descriptor {}, its tail is {}",
                    place.dma_engine(engine), queue, *head & NEURON_UDMA_INDEX_MASK,
                    *tail & NEURON_UDMA_INDEX_MASK));
    }
  }
  return text;
}

}  // namespace

EngineStates describe_engines(const LoadedModel& model, bool stuck) {
  EngineStates states;
  std::string running, unoccupied, elsewhere;
  const Core& core = model.core();
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const uint64_t block = core.place().window_bar0() + NEURON_CORE_ENGINE(engine);
    const auto status = core.device().read_register(block + NEURON_ENG_STATUS);
    const auto pc = core.device().read_register(block + NEURON_ENG_PC);
    const auto wait = core.device().read_register(block + NEURON_ENG_WAITING);
    const auto value = core.device().read_register(block + NEURON_ENG_WAIT_VAL);
    if (!status || !pc || !wait || !value) continue;
    const uint32_t state = *status & 0xF;
    const bool waits = state == NEURON_STATE_WAITING;
    states.idle += state == NEURON_STATE_IDLE ? 1 : 0;
    if (stuck && state == NEURON_STATE_RUNNING) {
      append(states.hung, "; ",
             format("{} hangs: it has stopped issuing at {}", isa::engine_name(engine),
                    model.describe_instruction(engine, *pc)));
      continue;
    }
    if (*pc >= model.image(engine).wrapper && state != NEURON_STATE_IDLE) {
      const std::string text =
          format("{} {}{}", model.describe_instruction(engine, *pc), state_words(state),
                 waits ? describe_wait(model, *wait, *value, is_meeting(model, engine, *pc)) : "");
      append(waits ? states.working : running, "; ", text);
      states.waiting += waits ? 1 : 0;
      continue;
    }
    const uint32_t number = *wait & 0xFF;
    if (state == NEURON_STATE_IDLE || (waits && number < NEURON_CORE_ENGINES)) {
      append(unoccupied, ", ", isa::engine_name(engine));
    } else if (waits && number == NEURON_SEM_DONE) {
      append(states.rest, "; ",
             format("{} waits for the other engines, {} of {} have finished",
                    isa::engine_name(engine), *value, *wait >> 16));
    } else {
      append(elsewhere, ", ", isa::engine_name(engine));
    }
  }
  states.queues = describe_queues(core);
  if (!running.empty()) append(states.working, "; ", running);
  if (!elsewhere.empty()) append(states.rest, "; ", elsewhere + " outside the model's code");
  if (!unoccupied.empty()) append(states.rest, "; ", unoccupied + " with nothing left to do");
  return states;
}

}  // namespace neuron::runtime
