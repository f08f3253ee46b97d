// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/generation.h"

namespace neuron::telemetry {
namespace {

constexpr Generation kGenerations[] = {
    {1, "Inferentia", "NDv1", "NCv1", nullptr, "NeuronLink-v1", 32e9, 2, 1, false, "inf1.xlarge"},
    {2, "Trainium1", "NDv2", "NCv2", nullptr, "NeuronLink-v2", 48e9, 2, 1, false, "trn1.2xlarge"},
    {3, "Trainium2", "NDv3", "NCv3", "v4", "NeuronLink-v3", 128e9, 4, 2, true, "trn2.3xlarge"},
    // What the original's monitor calls this device is not public: the number of its architecture.
    {4, "Trainium3", "NDv4", "NCv4", nullptr, "NeuronLink-v4", 128e9, 4, 2, true,
     "trn3pd98.3xlarge"},
};
constexpr const Generation& kUsual = kGenerations[1];  // of a number that no chip has

}  // namespace

const Generation& generation_of(uint32_t number) {
  const Generation* best = &kUsual;
  for (const Generation& row : kGenerations) {
    if (row.number <= number) best = &row;
  }
  return *best;
}

const Generation& generation_of_cores(std::string_view core_architecture) {
  for (const Generation& row : kGenerations) {
    if (row.core_architecture == core_architecture) return row;
  }
  return kUsual;
}

}  // namespace neuron::telemetry
