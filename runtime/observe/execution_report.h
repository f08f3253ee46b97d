// SPDX-License-Identifier: Apache-2.0
//
// What the last execution of a model cost. Written by the executor, read by
// nrt_open_get_execution_report; both hold the core's turn. A value.
#ifndef RUNTIME_OBSERVE_EXECUTION_REPORT_H
#define RUNTIME_OBSERVE_EXECUTION_REPORT_H

#include <array>
#include <cstdint>

#include "hw/isa.h"

namespace neuron::runtime {

struct ExecutionReport {
  bool valid = false;
  uint32_t exec_id = 0;
  uint64_t host_ns = 0;
  uint64_t device_ps = 0;  // model time from launch to completion
  std::array<uint64_t, NEURON_CORE_ENGINES> busy_ps{};
  std::array<uint32_t, NEURON_CORE_ENGINES> retired{};
};

}  // namespace neuron::runtime

#endif
