// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/launch_trace.h"

namespace neuron::runtime {

void LaunchTrace::tell() const {
  trace_->add({.core = model_.core().index(),
               .model = model_.name(),
               .collective = !model_.operations().empty(),
               .exec_id = model_.core().executions,
               .device_ps = device_ps_,
               .begin_ns = begin_,
               .launched_ns = launch_,
               .ended_ns = ended_,
               .end_ns = time()});
}

}  // namespace neuron::runtime
