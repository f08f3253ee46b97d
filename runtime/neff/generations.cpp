// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/generations.h"

#include <algorithm>

#include "driver/base/format.h"
#include "hw/address_map.h"
#include "hw/isa.h"

namespace neuron::neff {
namespace {

constexpr Generation kGenerations[] = {
    {2, {"trn1", "trn1n", "inf2"}, "trn1 or inf2", NEURON_V2_SBUF_PARTITION_BYTES},
    {3, {"trn2", "trn2u", "trn2n"}, "trn2", NEURON_V3_SBUF_PARTITION_BYTES},
    {4, {"trn3", "trn3u"}, "trn3", NEURON_V4_SBUF_PARTITION_BYTES}};

}  // namespace

const Generation* find_generation(uint32_t number) {
  const auto* found = std::find_if(std::begin(kGenerations), std::end(kGenerations),
                                   [&](const Generation& g) { return g.number == number; });
  return found == std::end(kGenerations) ? nullptr : found;
}

uint32_t generation_of(std::string_view target) {
  if (target.empty()) return 0;
  for (const Generation& g : kGenerations) {
    if (std::find(g.targets.begin(), g.targets.end(), target) != g.targets.end()) return g.number;
  }
  return 0;
}

const char* generation_words(uint32_t generation) {
  const Generation* found = find_generation(generation);
  return found == nullptr ? "an unknown device" : found->words;
}

std::string known_generations() {
  std::string text;
  for (const Generation& g : kGenerations) {
    if (!text.empty()) text += &g == std::end(kGenerations) - 1 ? " or " : ", ";
    text += base::format("{}", g.number);
  }
  return text;
}

uint64_t sbuf_partition_bytes(uint32_t generation) {
  const Generation* found = find_generation(generation);
  return found == nullptr ? NEURON_SBUF_PARTITION_STRIDE : found->sbuf_partition_bytes;
}

}  // namespace neuron::neff
