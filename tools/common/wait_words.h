// SPDX-License-Identifier: Apache-2.0
//
// What an engine waits for, as its register NEURON_ENG_WAITING says it.
// Callers: neuron-debug, neuron-dump. Thread-safe: pure. Cannot fail.
#ifndef TOOLS_COMMON_WAIT_WORDS_H
#define TOOLS_COMMON_WAIT_WORDS_H

#include <cstdint>
#include <string>

#include "driver/base/format.h"
#include "hw/isa.h"

namespace neuron::tools {

// "waits for semaphore 18 (dma_0) >= 16, which is 3". `name_of(number)` names a semaphore.
template <class NameOf>
std::string words_of_wait(uint32_t waiting, uint32_t value, NameOf&& name_of) {
  constexpr const char* kConditions[] = {"", ">=", "==", ">", "<=", "<", "!="};
  const uint32_t condition = waiting >> 8 & 7;
  if (condition == 0 || condition > 6) return "waits for its own transfers";
  const uint32_t number = waiting & 255;
  const bool event = (waiting & NEURON_SEM_SLOT_EVENT) != 0;
  return base::format("waits for {} {} {}{}, which is {}",
                      event ? base::format("event {}", number) : name_of(number),
                      kConditions[condition], (waiting & NEURON_SEM_SLOT_REG) != 0 ? "r" : "",
                      waiting >> 16, value);
}

}  // namespace neuron::tools

#endif
