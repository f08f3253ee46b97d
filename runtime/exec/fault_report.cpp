// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_report.h"

#include <chrono>
#include <optional>

#include "driver/base/backoff.h"
#include "driver/base/deadline.h"
#include "driver/isa/instruction.h"
#include "hw/control.h"
#include "hw/fault.h"
#include "runtime/exec/engine_states.h"
#include "runtime/exec/fault_expectation.h"

namespace neuron::runtime {
namespace {

// The error entry of this fault; the queue may hold warnings before it, and faults of other engines
// that met the same rule. Without an entry of this engine and instruction (the chip posts those of
// DMA queues itself) the first of the code.
bool find_entry(Core& core, uint32_t code, const neuron_completion_record* record,
                neuron_notification& found) {
  neuron_notification entry;
  bool any = false;
  while (core.errors.next(entry)) {
    if (((entry.word >> NEURON_NW_CODE_SHIFT) & 0xFF) != code) continue;
    if (!any) found = entry;
    any = true;
    if (record == nullptr) break;
    if (((entry.word >> NEURON_NW_ENGINE_SHIFT) & 0xF) == record->engine &&
        entry.pc == record->pc) {
      found = entry;
      break;
    }
  }
  return any;
}

// "on device 0 core 0"
std::string place(const Core& core) {
  return format("on device {} core {}", core.device().index(), core.number());
}

// "; SP waits ..., Pool with nothing left to do"
std::string behind(const std::string& text) { return text.empty() ? "" : "; " + text; }

// "its CC core 0 (instruction 67 of that core's program)": the CC core of `core` that has stopped
// there. The completion record says only that it was one of them.
std::string cc_core_words(const Core& core, uint32_t pc) {
  std::string number;
  for (uint32_t k = 0; k < core.place().chip->cc_cores; ++k) {
    const uint64_t block = core.place().cc_bar0(k) + NEURON_CC_ENGINE;
    const auto status = core.device().read_register(block + NEURON_ENG_STATUS);
    const auto at = core.device().read_register(block + NEURON_ENG_PC);
    if (status && at && (*status & 0xF) == NEURON_STATE_FAULT && *at == pc) {
      number = format(" {}", k);
      break;
    }
  }
  return format("its CC core{} (instruction {} of that core's program)", number, pc);
}

Error describe_time_limit(LoadedModel& model, uint64_t limit_ps) {
  const EngineStates states = describe_engines(model, false);
  return fail(
      NRT_TIMEOUT,
      "model '{}' exceeded its limit of model time {}, {} us "
      "(NEURON_OPEN_MODEL_TIME_LIMIT_US; fault TIME_LIMIT): {}{}; raise the limit or shorten "
      "the program (NEURON_RT_EXEC_TIMEOUT limits the time of the host, not this one)",
      model.name(), place(model.core()), limit_ps / 1'000'000,
      states.working.empty() ? "no engine was in the model's code" : states.working,
      behind(states.rest));
}

}  // namespace

NRT_STATUS status_of_fault(uint32_t code) {
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
    case NEURON_FAULT_DMA_ENGINE:
    case NEURON_FAULT_DMA_STREAM:
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
  const uint32_t code = record.status;
  if (code == NEURON_FAULT_TIME_LIMIT) return describe_time_limit(model, core.launch().time_limit);
  neuron_notification entry{};
  const bool found = find_entry(core, code, &record, entry);
  // For a program a missing link is a program error; for a collective it is a hardware error.
  const NRT_STATUS status = code == NEURON_FAULT_LINK && model.collectives() != nullptr
                                ? NRT_EXEC_HW_ERR_COLLECTIVES
                                : status_of_fault(code);
  return fail(status, "model '{}' failed {} with {} at {}{}; {}", model.name(), place(core),
              isa::fault_name(code),
              record.engine == NEURON_ENGINE_CC
                  ? cc_core_words(core, record.pc)
                  : model.describe_instruction(record.engine, record.pc),
              behind(describe_expectation(model, record.engine, record.pc, code,
                                          found ? &entry : nullptr, record.info)),
              isa::fault_text(code));
}

Result<void> find_numeric_errors(LoadedModel& model) {
  Core& core = model.core();
  neuron_notification entry;
  if (!find_entry(core, NEURON_FAULT_NUMERIC_NAN, nullptr, entry)) return {};
  const uint32_t engine = (entry.word >> NEURON_NW_ENGINE_SHIFT) & 0xF;
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
  const EngineStates states = describe_engines(model, true);
  // An execution leaves its engines waiting, halted or at a fault, never idle.
  if (states.idle == NEURON_CORE_ENGINES) {
    return fail(
        NRT_HW_ERROR,
        "model '{}' was broken off {}: the core was reset by an operator or another process "
        "while it ran; run it again",
        model.name(), place(model.core()));
  }
  if (!states.hung.empty()) {
    return fail(
        NRT_TIMEOUT,
        "model '{}' cannot finish {}: {}{}{}{}; the core has been reset: run again, and use "
        "another core if it comes back",
        model.name(), place(model.core()), states.hung, behind(states.working), behind(states.rest),
        behind(states.queues));
  }
  return fail(
      NRT_TIMEOUT,
      "model '{}' cannot finish {}: {}{}; nothing on the core can advance any more{}{}; let an "
      "engine or a transfer that comes before it do the update, or correct the wait",
      model.name(), place(model.core()),
      states.working.empty() ? "its engines wait for each other" : states.working,
      states.waiting == 0   ? ""
      : states.waiting == 1 ? ", and nobody will signal it"
                            : ", and nobody will signal them",
      behind(states.rest), behind(states.queues));
}

Error describe_lost_rank(LoadedModel& model) {
  const ModelCollectives& collectives = *model.collectives();
  bool busy = false;
  const std::string waits = collectives.describe(busy);
  if (const auto failure = collectives.failure_of_rank()) {
    return fail(
        NRT_EXEC_HW_ERR_COLLECTIVES,
        "model '{}' cannot finish {}: {}{}; unload the model on all ranks and load it again",
        model.name(), place(model.core()), *failure, behind(waits));
  }
  const auto peers = collectives.check_peers();
  return fail(NRT_EXEC_HW_ERR_COLLECTIVES,
              "model '{}' cannot finish {}: {}{}; start the job again, or load the model on the "
              "ranks that are left",
              model.name(), place(model.core()),
              peers ? "a process of another rank is gone" : peers.error().sentence, behind(waits));
}

namespace {

// Why a rank waits longer than it may, which is seldom the rank that it waits for itself: a process
// that is stopped. Ranks that do not see it are told by those that do, whose limits are over at
// about the same time.
std::string who_holds_up(const ModelCollectives& collectives) {
  constexpr std::chrono::milliseconds kToldSoon{300}, kNap{10};
  std::string stopped = collectives.stopped_ranks();
  if (!stopped.empty() || collectives.sees_all_processes()) return stopped;
  const base::Deadline soon = base::Deadline::after(kToldSoon);
  std::optional<std::string> told;
  while (!(told = collectives.failure_of_rank()) && !soon.expired()) base::sleep_for(kNap);
  return told.value_or("");
}

// "; on device 0 core 5, the other core of its virtual core, SP pc 3: ... waits for ..."
std::string other_core_words(const LoadedModel& model) {
  const LoadedModel* other = model.other;
  if (other == nullptr || !has_code(*other)) return "";
  const EngineStates states = describe_engines(*other, false);
  return format("; {}, the other core of its virtual core: {}{}{}", place(other->core()),
                states.working.empty() ? "no engine is in the model's code" : states.working,
                behind(states.rest), behind(states.queues));
}

}  // namespace

Error describe_timeout(LoadedModel& model, uint64_t seconds) {
  if (const ModelCollectives* collectives = model.collectives()) {
    bool busy = false;
    const std::string waits = collectives->describe(busy);
    const std::string cause = busy ? who_holds_up(*collectives) : "";
    if (!cause.empty()) {
      return fail(
          NRT_EXEC_HW_ERR_COLLECTIVES,
          "model '{}' has not finished {} after {} s (NEURON_RT_EXEC_TIMEOUT): {}{}; let "
          "that rank go on, or end it; then unload the model on all ranks and load it again",
          model.name(), place(model.core()), seconds, cause, behind(waits));
    }
    if (busy) {
      return fail(
          NRT_EXEC_HW_ERR_COLLECTIVES,
          "model '{}' has not finished {} after {} s (NEURON_RT_EXEC_TIMEOUT): {}; see what "
          "that rank does; then unload the model on all ranks and load it again",
          model.name(), place(model.core()), seconds, waits);
    }
  }
  const EngineStates states = describe_engines(model, false);
  return fail(NRT_TIMEOUT,
              "model '{}' has not finished {} after {} s (NEURON_RT_EXEC_TIMEOUT): {}{}{}{}; raise "
              "NEURON_RT_EXEC_TIMEOUT, or correct the program if it does not end",
              model.name(), place(model.core()), seconds,
              states.working.empty() ? "no engine is in the model's code" : states.working,
              behind(states.rest), behind(states.queues), other_core_words(model));
}

}  // namespace neuron::runtime
