// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/operators/operator_settings.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

namespace neuron::core {
namespace {

constexpr unsigned kMostSeconds = 600;
constexpr unsigned kMostPrinted = 128 << 10;

// The number that a variable holds; nothing if it is unset or no number up to `most`.
std::optional<unsigned> number_of(const char* variable, unsigned most, const char* otherwise,
                                  std::once_flag& told) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  if (*end == '\0' && *text >= '0' && *text <= '9' && value <= most) {
    return static_cast<unsigned>(value);
  }
  // Every core asks, one reports.
  std::call_once(told, [&] {
    std::fprintf(stderr, "%s is \"%.32s\", expected a number from 0 to %u; %s\n", variable, text,
                 most, otherwise);
  });
  return std::nullopt;
}

}  // namespace

OperatorSettings OperatorSettings::of_environment() {
  static std::once_flag allowed, seconds, printed;
  OperatorSettings settings;
  settings.allowed =
      number_of("NEURON_EMULATOR_CUSTOM_OPERATORS", 1, "custom operators stay forbidden", allowed)
          .value_or(0) == 1;
  const auto patience = number_of("NEURON_EMULATOR_CUSTOM_OPERATOR_SECONDS", kMostSeconds,
                                  "an operator may take 5 seconds", seconds);
  if (patience && *patience != 0) settings.patience = std::chrono::seconds(*patience);
  settings.prints = number_of("NEURON_RT_GPSIMD_STDOUT_QUEUE_SIZE_BYTES", kMostPrinted,
                              "what operators print is not shown", printed)
                        .value_or(0) != 0;
  return settings;
}

}  // namespace neuron::core
