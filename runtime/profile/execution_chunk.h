// SPDX-License-Identifier: Apache-2.0
//
// An execution as a profile has it: the JSON of a chunk of kind kExecution. Pure. Cannot fail.
#ifndef RUNTIME_PROFILE_EXECUTION_CHUNK_H
#define RUNTIME_PROFILE_EXECUTION_CHUNK_H

#include <string>

#include "runtime/base/error.h"
#include "runtime/device/core_trace.h"

namespace neuron::runtime {

inline std::string execution_text(const TracedExecution& execution) {
  const neuron_work_record& work = execution.work;
  std::string busy;
  for (const auto ps : work.engine_busy_ps) busy += (busy.empty() ? "" : ",") + std::to_string(ps);
  return format(R"({{"exec_id":{},"failed":{},"begin_ns":{},"end_ns":{},"device_ps":{},"lost":{},)"
                R"("multiply_accumulates":{},"dma_bytes":{},"link_bytes":{},"busy_ps":[{}]}})",
                execution.exec_id, execution.failed, execution.begin_ns, execution.end_ns,
                execution.device_ps, execution.lost, work.multiply_accumulates, work.dma_bytes,
                work.link_bytes, busy);
}

// Of one whose entries and counts are those of an earlier one of the same part.
inline std::string repeated_execution_text(const TracedExecution& execution, uint64_t same_as) {
  return format(R"({{"exec_id":{},"begin_ns":{},"end_ns":{},"same_as":{}}})", execution.exec_id,
                execution.begin_ns, execution.end_ns, same_as);
}

}  // namespace neuron::runtime

#endif
