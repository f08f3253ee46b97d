// SPDX-License-Identifier: Apache-2.0
//
// What a profile says of one CC core of a model: its collectives, and what each of its instructions
// is for. Callers: profiles. Values.
#ifndef RUNTIME_MODEL_STREAM_FACTS_H
#define RUNTIME_MODEL_STREAM_FACTS_H

#include <ccom/ccom_device.h>

#include <string>
#include <vector>

namespace neuron::runtime {

struct CollectiveFacts {
  std::string name;       // "all_reduce of 1024 float32 (add)"
  std::string algorithm;  // "ring"
  std::string plan;       // as ccom_device_program_t tells it
  std::string operation, type;
  uint64_t count = 0;           // elements, as the operation counts them
  std::vector<uint32_t> ranks;  // of the group, among all
  uint32_t group = 0;           // its number among the groups that the model names
  ccom_device_size_t size{};
};

struct StreamFacts {
  uint32_t stream = 0;    // number of the CC core in its core
  uint32_t rank = 0;      // of this core, among all
  uint32_t prologue = 0;  // instructions of the runtime in front of those of `notes`
  uint64_t go = 0;        // where an engine writes to begin the next collective
  std::vector<CollectiveFacts> collectives;
  std::vector<ccom_device_note_t> notes;
  std::vector<ccom_device_waiting_t> waits;  // two for each of `notes`
};

}  // namespace neuron::runtime

#endif
