// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_report.h"

#include "driver/isa/instruction.h"
#include "hw/control.h"
#include "hw/fault.h"

namespace neuron::runtime {
namespace {

// "semaphore 20 (a_full)"
std::string name_semaphore(const LoadedModel& model, std::uint32_t number) {
  for (const neff::Semaphore& semaphore : model.semaphores()) {
    if (semaphore.number == number) return format("semaphore {} ({})", number, semaphore.name);
  }
  switch (number) {
    case NEURON_SEM_DONE:
      return "the other engines (semaphore 5)";
    case NEURON_SEM_LAUNCH:
      return "a launch (semaphore 7)";
    default:
      return number < NEURON_CORE_ENGINES ? format("its start (semaphore {})", number)
                                          : format("semaphore {}", number);
  }
}

std::string describe_wait(const LoadedModel& model, std::uint32_t wait, std::uint32_t value) {
  static constexpr const char* kConditions[] = {"", ">=", "==", ">", "<=", "<", "!="};
  const std::uint32_t condition = (wait >> 8) & 7;
  if (condition == NEURON_WAIT_NONE || condition > NEURON_WAIT_NE) return "";
  const bool event = (wait & NEURON_SEM_SLOT_EVENT) != 0;
  return format(" for {} {} {}{}, which is {}",
                event ? format("event {}", wait & 0xFF) : name_semaphore(model, wait & 0xFF),
                kConditions[condition], (wait & NEURON_SEM_SLOT_REG) != 0 ? "r" : "", wait >> 16,
                value);
}

// What each engine does, from its registers: works behind every kind of driver.
std::string describe_engines(const LoadedModel& model) {
  static constexpr const char* kStates[] = {
      "is idle", "runs", "waits", "has halted", "is stopped", "is at a break", "has failed"};
  const Core& core = model.core();
  std::string text;
  for (std::uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const std::uint64_t block = Device::window_bar0(core.number()) + NEURON_CORE_ENGINE(engine);
    const auto status = core.device().read_register(block + NEURON_ENG_STATUS);
    const auto pc = core.device().read_register(block + NEURON_ENG_PC);
    const auto wait = core.device().read_register(block + NEURON_ENG_WAITING);
    const auto value = core.device().read_register(block + NEURON_ENG_WAIT_VAL);
    if (!status || !pc || !wait || !value) continue;
    const std::uint32_t state = *status & 0xF;
    text +=
        format("{}{} {}{}, {}", text.empty() ? "" : "; ", isa::engine_name(engine),
               state <= NEURON_STATE_FAULT ? kStates[state] : "is in an unknown state",
               state == NEURON_STATE_WAITING ? describe_wait(model, *wait, *value) : "",
               *pc < model.image(engine).wrapper ? "between two executions of the model's code"
                                                 : "at " + model.describe_instruction(engine, *pc));
  }
  return text.empty() ? "the device does not say what its engines do" : text;
}

// The error entry of this fault; the queue may hold warnings before it.
bool find_entry(Core& core, std::uint32_t code, neuron_notification& found) {
  neuron_notification entry;
  while (core.errors.next(entry)) {
    if (((entry.word >> NEURON_NW_CODE_SHIFT) & 0xFF) == code) {
      found = entry;
      return true;
    }
  }
  return false;
}

// Details by kind of fault, from its error entry.
std::string describe_entry(std::uint32_t code, const neuron_notification& entry) {
  switch (code) {
    case NEURON_FAULT_SEM_OVERFLOW:
    case NEURON_FAULT_SEM_UNDERFLOW:
      return format("; semaphore {} was {}, operand {}", entry.info[0], entry.info[1],
                    entry.info[2]);
    case NEURON_FAULT_EVENT_DOUBLE:
      return format("; event {} was {}", entry.info[0] & 0xFF, entry.info[1]);
    case NEURON_FAULT_DMA_DESC:
    case NEURON_FAULT_DMA_BUS:
    case NEURON_FAULT_DMA_RING:
      return format("; DMA engine {} queue {} ring index {}, address ...{:08x}", entry.info[0] >> 8,
                    entry.info[0] & 0xFF, entry.info[1], entry.info[2]);
    case NEURON_FAULT_BUS:
    case NEURON_FAULT_FETCH:
      return format("; {} bytes at device address {:#x}", entry.info[2],
                    std::uint64_t{entry.info[1]} << 32 | entry.info[0]);
    default:
      break;
  }
  if (code >= NEURON_FAULT_ISA_VERSION && code <= NEURON_FAULT_WEIGHTS) {
    const std::uint32_t rule = (entry.info[0] >> 8) & 0xFF;
    static constexpr const char* kOperands[] = {"dst", "src0", "src1"};
    return format("; byte {:#x} of the instruction{}, operand {}, found {:#x}",
                  entry.info[0] & 0xFF, rule == 0 ? "" : format(", rule R{}", rule),
                  entry.info[2] < 3 ? kOperands[entry.info[2]] : "-", entry.info[1]);
  }
  return "";
}

// The violated rule in words, as the checker of the instruction set states it.
std::string describe_rule(LoadedModel& model, std::uint32_t engine, std::uint32_t pc,
                          std::uint32_t code) {
  if (engine >= NEURON_CORE_ENGINES || code > NEURON_FAULT_WEIGHTS) return "";
  const EngineImage& image = model.image(engine);
  if (pc >= image.instructions) return "";
  const auto bytes = std::span(image.code)
                         .subspan(std::size_t{pc} * NEURON_INSTRUCTION_BYTES)
                         .first<NEURON_INSTRUCTION_BYTES>();
  isa::Violation violation = isa::check_encoding(bytes, engine, {});
  if (!violation) violation = isa::check_operands(isa::decode(bytes), engine, {});
  return violation.code == code ? format(" ({})", violation.what) : "";
}

}  // namespace

NRT_STATUS status_of_fault(std::uint32_t code) {
  switch (code) {
    case NEURON_FAULT_NUMERIC_NAN:
      return NRT_EXEC_COMPLETED_WITH_NUM_ERR;
    case NEURON_FAULT_DEADLOCK:
    case NEURON_FAULT_TIME_LIMIT:
      return NRT_TIMEOUT;
    case NEURON_FAULT_NC_UE:
      return NRT_EXEC_HW_ERR_NC_UE;
    case NEURON_FAULT_HBM_UE:
      return NRT_EXEC_HW_ERR_HBM_UE;
    case NEURON_FAULT_HBM_UE_REPAIRABLE:
      return NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE;
    case NEURON_FAULT_DMA_DESC:
    case NEURON_FAULT_DMA_BUS:
    case NEURON_FAULT_DMA_RING:
      return NRT_EXEC_HW_ERR_DMA_ABORT;
    case NEURON_FAULT_DMA_OOB:
    case NEURON_FAULT_INDEX_OOB:
      return NRT_EXEC_OOB;
    case NEURON_FAULT_NQ_OVERFLOW:
      return NRT_EXEC_SW_NQ_OVERFLOW;
    case NEURON_FAULT_CC_TIMEOUT:
      return NRT_EXEC_HW_ERR_COLLECTIVES;
    case NEURON_FAULT_INTERNAL:
      return NRT_EXEC_UNIT_UNRECOVERABLE;
    default:
      return NRT_EXEC_COMPLETED_WITH_ERR;
  }
}

Error describe_fault(LoadedModel& model, const neuron_completion_record& record) {
  Core& core = model.core();
  const std::uint32_t code = record.status;
  std::string details;
  neuron_notification entry{};
  if (find_entry(core, code, entry)) details = describe_entry(code, entry);
  if (code == NEURON_FAULT_TIME_LIMIT || code == NEURON_FAULT_DEADLOCK) {
    details += "; " + describe_engines(model);
  } else if (record.info != 0 && details.find("address") == std::string::npos) {
    details += format("; address {:#x}", record.info);
  }
  return fail(status_of_fault(code), "model '{}' failed on device {} core {} with {} at {}{}{}; {}",
              model.name(), core.device().index(), core.number(), isa::fault_name(code),
              model.describe_instruction(record.engine, record.pc),
              describe_rule(model, record.engine, record.pc, code), details, isa::fault_text(code));
}

Result<void> find_numeric_errors(LoadedModel& model) {
  Core& core = model.core();
  neuron_notification entry;
  if (!find_entry(core, NEURON_FAULT_NUMERIC_NAN, entry)) return {};
  const std::uint32_t engine = (entry.word >> NEURON_NW_ENGINE_SHIFT) & 0xF;
  const auto error =
      fail(NRT_EXEC_COMPLETED_WITH_NUM_ERR, "model '{}' produced a NaN on device {} core {} at {}",
           model.name(), core.device().index(), core.number(),
           model.describe_instruction(engine, entry.pc));
  while (core.errors.next(entry)) {
  }
  NEURON_CHECK(core.acknowledge_errors());
  return error;
}

Error describe_deadlock(LoadedModel& model) {
  Core& core = model.core();
  return fail(NRT_TIMEOUT,
              "model '{}' cannot finish on device {} core {}: nothing on the core can advance any "
              "more; {}",
              model.name(), core.device().index(), core.number(), describe_engines(model));
}

Error describe_timeout(LoadedModel& model, std::uint64_t seconds) {
  Core& core = model.core();
  return fail(NRT_TIMEOUT,
              "model '{}' has not finished on device {} core {} after {} s "
              "(NEURON_RT_EXEC_TIMEOUT); {}",
              model.name(), core.device().index(), core.number(), seconds, describe_engines(model));
}

}  // namespace neuron::runtime
