// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_operator.h"

#include <cstring>
#include <span>

#include "driver/isa/instruction.h"
#include "hw/custom_operator.h"

namespace neuron::runtime {
namespace {

// The variable of the call table that the instruction names: compilers give it the name of the
// operator.
std::string table_name(const LoadedModel& model, uint32_t engine, uint32_t pc) {
  if (engine >= NEURON_CORE_ENGINES || pc >= model.image(engine).instructions) return "";
  const auto bytes = std::span(model.image(engine).code)
                         .subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES)
                         .first<NEURON_INSTRUCTION_BYTES>();
  const uint64_t address = isa::decode(bytes).address.addr;
  const std::vector<LoadedModel::VariableName>& names = model.variable_names();
  for (size_t variable = 0; variable < names.size(); ++variable) {
    if (names[variable].kind == neff::VariableKind::kDgeTable &&
        model.addresses()[variable] == address) {
      return names[variable].name;
    }
  }
  return "";
}

std::string signal_words(uint32_t number, uint32_t address) {
  const char* name = sigabbrev_np(static_cast<int>(number));
  std::string text = format("an end by signal {}", number);
  if (name != nullptr) text += format(" (SIG{})", name);
  if (address != 0) text += format(" for an access of address ...{:08x}", address);
  return text + ", expected accesses of its own tensors and memory only";
}

std::string call_words(uint32_t number) {
  if (number == UINT32_MAX) return "a call of the system";
  return format("system call {}", number);
}

std::string failure_words(uint32_t failure, uint32_t value, uint32_t address) {
  switch (failure) {
    case NEURON_OPERATOR_NOT_ALLOWED:
      return "found a device that runs no code of its host, expected one with "
             "NEURON_EMULATOR_CUSTOM_OPERATORS=1 in the environment of whoever makes the device "
             "(neuron-emulatord: --custom-operators): the NEFF carries a program for this host, "
             "which then runs in a process without rights";
    case NEURON_OPERATOR_DESCRIPTION:
      return format("found byte {} of its description malformed", value);
    case NEURON_OPERATOR_NOT_STARTED:
      return format("its process could not be started: {}", std::strerror(static_cast<int>(value)));
    case NEURON_OPERATOR_SIGNAL:
      return "found " + signal_words(value, address);
    case NEURON_OPERATOR_EXIT:
      return format("found an end with exit status {}, expected that its function returns", value);
    case NEURON_OPERATOR_SYSTEM_CALL:
      return format(
          "found {}, expected none: an operator has neither files, processes, signals nor network",
          call_words(value));
    case NEURON_OPERATOR_TIME:
      return format(
          "it had not ended after {} ms of the host's time, and was ended; "
          "NEURON_EMULATOR_CUSTOM_OPERATOR_SECONDS allows more",
          value);
    case NEURON_OPERATOR_MEMORY:
      return value == 0
                 ? "found an allocation beyond its memory"
                 : format("found an allocation of {} MiB, expected less than 256 in all", value);
    case NEURON_OPERATOR_BOUNDS:
      return format("found element {} in an accessor, expected one of its tensor", value);
    case NEURON_OPERATOR_TYPE:
      return "found an accessor or a function of another element type than the tensor's";
    case NEURON_OPERATOR_SHAPE:
      return value == 255 ? "found a result of another shape or type than the output"
                          : "found shapes that do not go together";
    case NEURON_OPERATOR_STREAM:
      return format("found element {} in a stream, expected one of its tensor and an open stream",
                    value);
    case NEURON_OPERATOR_ONE_CORE:
      return "found an accessor of elements or streams, or a result that is returned, expected TCM "
             "accessors and get_dst_tensor() of an operator that runs on all cores";
    case NEURON_OPERATOR_COHERENCE:
      return "found a stream beside another one that writes the same tensor, expected one at a "
             "time, or another coherence policy";
    case NEURON_OPERATOR_TCM:
      return format("found byte {} of TCM, expected one of the pool of 16 KiB", value);
    case NEURON_OPERATOR_ABORT:
      return value == 0 ? "it called abort()"
                        : format("its assertion in line {} of the source failed", value);
    case NEURON_OPERATOR_EXCEPTION:
      return "found an exception that nobody caught";
    case NEURON_OPERATOR_UNKNOWN:
      return "found no operator of this name and these arguments in its image";
    default:
      return format("failure {} with {}", failure, value);
  }
}

}  // namespace

std::string describe_operator_failure(const LoadedModel& model, uint32_t engine, uint32_t pc,
                                      const neuron_notification* entry) {
  const std::string name = table_name(model, engine, pc);
  const std::string who = name.empty() ? "the operator" : format("operator '{}'", name);
  if (entry == nullptr) return who;
  return format("{} on GpSimd core {}: {}", who, entry->info[0] >> NEURON_OPERATOR_CORE_SHIFT & 15,
                failure_words(entry->info[0] & 0xFF, entry->info[1], entry->info[2]));
}

}  // namespace neuron::runtime
