// SPDX-License-Identifier: Apache-2.0
//
// The programs' facts about each generation of chips, as one table: a new generation is a new row.
// Callers: all code that depends on the generation. Thread-safe: constants. Cannot fail: a number
// beyond the table has its last row; any other unknown generation has the row of trn1.
#ifndef TOOLS_TELEMETRY_GENERATION_H
#define TOOLS_TELEMETRY_GENERATION_H

#include <cstdint>
#include <string_view>

namespace neuron::telemetry {

struct Generation {
  uint32_t number;  // as ndl_observation_t::architecture has it
  const char* device_name;
  const char* architecture;
  const char* core_architecture;
  // What the original's monitor calls the device, where that is not the number of its architecture:
  // the driver says "NDv3" of Inferentia2 and of Trainium2, the monitor "v3" and "v4".
  const char* device_version;
  const char* link_kind;
  double link_bytes_per_second;
  int hbm_stacks;
  unsigned logical_size;  // physical cores of a logical one unless the environment says otherwise
  bool tells_repairable;  // uncorrectable errors that a reset repairs have a counter of their own
  const char* smallest_instance;
};

const Generation& generation_of(uint32_t number);
const Generation& generation_of_cores(std::string_view core_architecture);

}  // namespace neuron::telemetry

#endif
